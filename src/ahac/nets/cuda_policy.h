// A policy's actions, a = tanh(μ(s) + σ ε), for 32 worlds a block; where BACK is set, how observations pull at them, which
// goes through the layers once more before it goes back. Pasted into the body of a kernel behind cuda_layers.h.
const int row = 32 * group + lane;
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    seen[0][k * STRIDE + r] = 32 * group + r < n ? obs_p[(32 * group + r) * inputs[0] + k] - centre_p[k] : real(0);
}
MEET;
#pragma unroll
for (int l = 0; l < HEAD; ++l) forth(l);
EACH_GROUP(outputs[HEAD]) {
    real y[COLUMNS];
    for (int c = 0; c < COLUMNS; ++c) y[c] = mirror[biases[HEAD] + j + c];
    math::multiply(y, seen[HEAD], mirror + rows[HEAD] + j, inputs[HEAD], UP(outputs[HEAD]), lane);
    EACH_COLUMN(outputs[HEAD]) {
        const int place = row * outputs[HEAD] + j + c;
        const real a = row < n ? ::tanhf(y[c] + deviation_p[j + c] * noise_p[place]) : real(0);
#if BACK
        active[HEAD][(j + c) * STRIDE + lane] = row < n ? action_bar_p[place] * (1 - a * a) : real(0);
#else
        if (row < n) action_p[place] = a;
#endif
    }
}
#if BACK
MEET;
#pragma unroll
for (int l = HEAD - 1; l >= 0; --l) {
    pulled(l);
    back(l);
}
EACH_GROUP(inputs[0]) {
    real y[COLUMNS] = {};
    math::multiply(y, active[0], mirror + columns[0] + j, outputs[0], UP(inputs[0]), lane);
    EACH_COLUMN(inputs[0]) if (row < n) obs_bar_p[row * inputs[0] + j + c] = y[c];
}
#endif
