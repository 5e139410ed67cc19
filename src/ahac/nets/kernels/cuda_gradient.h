// The gradient of a regression by all weights of a critic's members. Pasted into the body of a kernel behind cuda_layers.h;
// SIZE is how many weights a member has, and weight, bias, scale, shift say where each layer's are.
//
// A block takes 32 rows of the minibatch, a tile of one member, through all layers forth and back, and leaves a gradient of
// its own for cuda_reduce.h to add up.
const int row = 32 * tile + lane;
real* const out = partial_p + (long long)group * SIZE;
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    seen[0][k * STRIDE + r] = 32 * tile + r < n ? obs_p[order_p[32 * tile + r] * inputs[0] + k] : real(0);
}
SYNC;
#pragma unroll
for (int l = 0; l < HEAD; ++l) forward_layer(l);

real value = 0;
for (int k = warp; k < inputs[HEAD]; k += WARPS) value += seen[HEAD][k * STRIDE + lane] * mirror[columns[HEAD] + k];
sums[thread] = value;
SYNC;
if (warp == 0) {
    const real error = row < n ? total(sums) + mirror[biases[HEAD]] - target_p[order_p[row]] : real(0);
    const real pull = error * (real(2) / n);
    const real loss = math::warp_sum(error * error), all = math::warp_sum(pull);
    if (lane == 0) tile_losses_p[group] = loss, out[bias[HEAD]] = all;
    active[HEAD][lane] = pull;
}
SYNC;
for (int k = thread; k < inputs[HEAD]; k += THREADS) {
    real y = 0;
    for (int q = 0; q < 8; ++q) y += math::dot(math::at(seen[HEAD], k, q), math::at(active[HEAD], 0, q));
    out[weight[HEAD] + k] = y;
}
SYNC;

#pragma unroll
for (int l = HEAD - 1; l >= 0; --l) {
    backprop_to_outputs(l);
    for (int j = thread; j < outputs[l]; j += THREADS) {
        real plain = 0, along = 0;
        for (int r = 0; r < 32; ++r) {
            const real up = seen[l + 1][j * STRIDE + r];
            plain += up, along += up * (active[l][j * STRIDE + r] - mean[l][r]) * spread[l][r];
        }
        out[shift[l] + j] = plain, out[scale[l] + j] = along;
    }
    SYNC;
    backward_layer(l);
    for (int j = thread; j < outputs[l]; j += THREADS) {
        real y = 0;
        for (int q = 0; q < 8; ++q) {
            const float4 a = math::at(active[l], j, q);
            y += (a.x + a.y) + (a.z + a.w);
        }
        out[bias[l] + j] = y;
    }
    // Sixteen weights a thread, neighbours of which belong to other threads: no two lanes ask the same bank.
    const int across = (outputs[l] + 3) / 4, down = (inputs[l] + 3) / 4;
    for (int t = thread; t < across * down; t += THREADS) {
        const int j = t % across, k = t / across;
        real y[4][4] = {};
        for (int q = 0; q < 8; ++q) {
            float4 a[4], b[4];
            for (int i = 0; i < 4; ++i) {
                a[i] = math::at(seen[l], math::least(k + i * down, inputs[l] - 1), q);
                b[i] = math::at(active[l], math::least(j + i * across, outputs[l] - 1), q);
            }
            for (int p = 0; p < 4; ++p) for (int i = 0; i < 4; ++i) y[p][i] += math::dot(a[p], b[i]);
        }
        for (int p = 0; p < 4; ++p) for (int i = 0; i < 4; ++i)
            if (k + p * down < inputs[l] && j + i * across < outputs[l])
                out[weight[l] + (k + p * down) * outputs[l] + j + i * across] = y[p][i];
    }
    SYNC;
}
