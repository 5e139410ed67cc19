// Actions of a policy, a = tanh(μ(s) + σ ε), for 32 worlds per block. With BACK, the gradient with respect to the
// observations instead; the forward pass is then computed again. This text is pasted into a kernel body after
// cuda_layers.h.
const int row = 32 * group + lane;
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    x[0][k * STRIDE + r] = 32 * group + r < n ? obs_p[(32 * group + r) * inputs[0] + k] - obs_mean_p[k] : real(0);
}
SYNC;
#pragma unroll
for (int l = 0; l < HEAD; ++l) forward_layer(l);
linear(active[HEAD], x[HEAD], HEAD);
EACH_OUTPUT(outputs[HEAD]) {
    const int index = row * outputs[HEAD] + j;
    const real y = active[HEAD][j * STRIDE + lane];
    const real a = row < n ? ::tanhf(y + std_p[j] * noise_p[index]) : real(0);
#if BACK
    active[HEAD][j * STRIDE + lane] = row < n ? action_grad_p[index] * (1 - a * a) : real(0);
#else
    if (row < n) action_p[index] = a;
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
#endif
