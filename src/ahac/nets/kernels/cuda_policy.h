// A policy's actions, a = tanh(μ(s) + σ ε), for 32 worlds a block; where BACK is set, what pulls at the observations,
// for which they go through the layers once more. Pasted into the body of a kernel behind cuda_layers.h.
const int row = 32 * group + lane;
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    seen[0][k * STRIDE + r] = 32 * group + r < n ? obs_p[(32 * group + r) * inputs[0] + k] - centre_p[k] : real(0);
}
SYNC;
#pragma unroll
for (int l = 0; l < HEAD; ++l) forward_layer(l);
linear(active[HEAD], seen[HEAD], HEAD);
EACH_OUTPUT(outputs[HEAD]) {
    const int place = row * outputs[HEAD] + j;
    const real y = active[HEAD][j * STRIDE + lane];
    const real a = row < n ? ::tanhf(y + deviation_p[j] * noise_p[place]) : real(0);
#if BACK
    active[HEAD][j * STRIDE + lane] = row < n ? action_bar_p[place] * (1 - a * a) : real(0);
#else
    if (row < n) action_p[place] = a;
#endif
}
#if BACK
SYNC;
#pragma unroll
for (int l = HEAD - 1; l >= 0; --l) {
    backprop_to_outputs(l);
    backward_layer(l);
}
EACH_GROUP(inputs[0]) {
    real y[4][COLUMNS] = {};
    math::multiply(y, active[0] + first, mirror + columns[0] + j, outputs[0], UP(inputs[0]));
    for (int r = 0; r < 4; ++r) for (int c = 0; c < COLUMNS; ++c) {
        const int world = 32 * group + first + r;
        if (world < n && j + c < inputs[0]) obs_bar_p[world * inputs[0] + j + c] = y[r][c];
    }
}
#endif
