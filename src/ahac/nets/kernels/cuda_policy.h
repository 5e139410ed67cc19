// Actions of a policy, a = tanh(x), x = μ(s) + σ ε, for 32 worlds per block, and with ENTROPY −log π(a | s). With BACK,
// the gradient with respect to the observations instead; the forward pass is then computed again. With STATE_STD the
// network also computes log σ, clamped to LOW and HIGH. This text is pasted into a kernel body after cuda_layers.h.
const int row = 32 * group + lane, actions = STATE_STD ? outputs[HEAD] / 2 : outputs[HEAD];
const bool inside = row < n;
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    x[0][k * STRIDE + r] = 32 * group + r < n ? obs_p[(32 * group + r) * inputs[0] + k] - obs_mean_p[k] : real(0);
}
SYNC;
#pragma unroll
for (int l = 0; l < HEAD; ++l) forward_layer(l);
linear(active[HEAD], x[HEAD], HEAD);

[[maybe_unused]] real entropy = 0;
EACH_OUTPUT(actions) {
    const int index = row * actions + j;
    real *const mean_of_row = active[HEAD] + j * STRIDE + lane, *const log_std_of_row = mean_of_row + actions * STRIDE;
    const real raw = STATE_STD ? *log_std_of_row : real(0);
    const real log_std = raw < real(LOW) ? real(LOW) : raw > real(HIGH) ? real(HIGH) : raw;
    const real std = STATE_STD ? ::expf(log_std) : std_p[j], noise = inside ? noise_p[index] : real(0);
    const real y = *mean_of_row + std * noise, a = ::tanhf(y);
#if BACK
    const real entropy_grad = ENTROPY && inside ? entropy_grad_p[row] : real(0);
    const real y_grad = inside ? action_grad_p[index] * (1 - a * a) - 2 * a * entropy_grad : real(0);
    *mean_of_row = y_grad;
    if (STATE_STD) {
        const bool free = raw >= real(LOW) && raw <= real(HIGH);
        *log_std_of_row = free ? y_grad * std * noise + entropy_grad : real(0);
    }
#else
    if (inside) action_p[index] = a;
#if ENTROPY
    // log(1 − tanh² y) = 2 (log 2 − y − softplus(−2y))
    const real softplus = ::fmaxf(-2 * y, 0) + ::log1pf(::expf(-::fabsf(2 * y)));
    entropy += real(0.5) * noise * noise + (STATE_STD ? log_std : ::logf(std)) + real(LOG_SQRT_2PI);
    entropy += 2 * (real(0.6931471805599453) - y - softplus);
#endif
#endif
}
#if BACK
SYNC;
#pragma unroll
for (int l = HEAD - 1; l >= 0; --l) {
    backprop_to_outputs(l);
    backward_layer(l);
}
multiply(
    active[0], packed + rows[0], outputs[0], inputs[0], [](int) { return real(0); },
    [&](int j, int r, real y) {
        if (32 * group + r < n) obs_grad_p[(32 * group + r) * inputs[0] + j] = y;
    }
);
#elif ENTROPY
partial_1[thread] = entropy;
SYNC;
if (warp == 0 && inside) entropy_p[row] = total(partial_1);
#endif
