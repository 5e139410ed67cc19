// Adam step with the gradient of cuda_reduce.h, clipped by its norm; then packs the weights for the next minibatch.
//
// A block takes THREADS weights. `minibatch` is the number of minibatches of this epoch that came before. With n = −1
// the weights are packed without a step.
const int blocks = (SIZE + THREADS - 1) / THREADS, member = group / blocks, i = group % blocks * THREADS + thread;
const long long index = (long long)member * SIZE + i;
real y = i < SIZE ? theta_p[index] : real(0);
if (n >= 0) {
    const int count = (SIZE + 31) / 32;
    real squares = 0;
    for (int k = thread; k < count; k += THREADS) squares += squares_p[member * count + k];
    squares = math::warp_sum(squares);
    if (lane == 0) slots[warp] = squares;
    if (thread == 0) {
        const double steps = (double)*steps_p + minibatch + 1;
        slots[WARPS] = (real)(*learning_rate_p / (1 - ::pow(BETA1, steps)));
        slots[WARPS + 1] = (real)(1 / ::sqrt(1 - ::pow(BETA2, steps)));
    }
    SYNC;
    squares = 0;
    for (int w = 0; w < WARPS; ++w) squares += slots[w];
    const real clip = real(MAX_NORM) / (::sqrtf(squares) + real(1e-6));
    if (i < SIZE) {
        // As in torch's clip_grad_norm_ and AdamW, which is Adam without weight decay.
        y *= 1 - *learning_rate_p * real(WEIGHT_DECAY);
        const real g = grad_p[index] * (clip < 1 ? clip : real(1)), m = exp_avg_p[index], s = exp_avg_sq_p[index];
        const real m1 = m + real(1 - BETA1) * (g - m), s1 = real(BETA2) * s + real(1 - BETA2) * g * g;
        y -= slots[WARPS] * m1 / (::sqrtf(s1) * slots[WARPS + 1] + real(EPSILON));
        grad_p[index] = g, exp_avg_p[index] = m1, exp_avg_sq_p[index] = s1, theta_p[index] = y;
    }
}
real* const packed = packed_p + (long long)member * PACKED_SIZE;
#pragma unroll
for (int l = 0; l < LAYERS; ++l) {
    if (i >= weight[l] && i < bias[l]) {
        const int k = (i - weight[l]) / outputs[l], j = (i - weight[l]) % outputs[l];
        packed[rows[l] + k * UP(outputs[l]) + j] = packed[columns[l] + j * UP(inputs[l]) + k] = y;
    } else if (i >= bias[l] && i < scale[l]) packed[biases[l] + i - bias[l]] = y;
    else if (i >= scale[l] && i < shift[l]) packed[scales[l] + i - scale[l]] = y;
    else if (i >= shift[l] && i < end[l]) packed[shifts[l] + i - shift[l]] = y;
}
