// A step of Adam by the gradient of cuda_reduce.h, clipped by its norm; and weights mirrored for the next minibatch.
//
// A block takes THREADS weights. `minibatch` minibatches of this pass came before; where n is −1 nothing moves, and
// weights are only mirrored.
const int blocks = (SIZE + THREADS - 1) / THREADS, member = group / blocks, i = group % blocks * THREADS + thread;
const long long place = (long long)member * SIZE + i;
real y = i < SIZE ? theta_p[place] : real(0);
if (n >= 0) {
    const int count = (SIZE + 31) / 32;
    real squares = 0;
    for (int k = thread; k < count; k += THREADS) squares += squares_p[member * count + k];
    squares = math::warp_sum(squares);
    if (lane == 0) slots[warp] = squares;
    if (thread == 0) {
        const double steps = (double)*steps_p + minibatch + 1;
        slots[WARPS] = (real)(*rate_p / (1 - ::pow(BETA1, steps)));
        slots[WARPS + 1] = (real)(1 / ::sqrt(1 - ::pow(BETA2, steps)));
    }
    SYNC;
    squares = 0;
    for (int w = 0; w < WARPS; ++w) squares += slots[w];
    const real shrink = real(MAX_NORM) / (::sqrtf(squares) + real(1e-6));
    if (i < SIZE) {
        // As torch's clip_grad_norm_ and Adam have it.
        const real g = grad_p[place] * (shrink < 1 ? shrink : real(1)), m = first_p[place], s = second_p[place];
        const real m1 = m + real(1 - BETA1) * (g - m), s1 = real(BETA2) * s + real(1 - BETA2) * g * g;
        y -= slots[WARPS] * m1 / (::sqrtf(s1) * slots[WARPS + 1] + real(EPSILON));
        grad_p[place] = g, first_p[place] = m1, second_p[place] = s1, theta_p[place] = y;
    }
}
real* const copy = mirror_p + (long long)member * MIRROR;
#pragma unroll
for (int l = 0; l < LAYERS; ++l) {
    if (i >= weight[l] && i < bias[l]) {
        const int k = (i - weight[l]) / outputs[l], j = (i - weight[l]) % outputs[l];
        copy[rows[l] + k * UP(outputs[l]) + j] = copy[columns[l] + j * UP(inputs[l]) + k] = y;
    } else if (i >= bias[l] && i < scale[l]) copy[biases[l] + i - bias[l]] = y;
    else if (i >= scale[l] && i < shift[l]) copy[scales[l] + i - scale[l]] = y;
    else if (i >= shift[l] && i < end[l]) copy[shifts[l] + i - shift[l]] = y;
}
