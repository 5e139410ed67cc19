// Gradient of the mean squared error with respect to all weights of a critic. This text is pasted into a kernel body
// after cuda_layers.h; SIZE is the number of weights of a member, and weight, bias, scale, shift are the offsets of
// each layer's weights.
//
// A block takes a tile, 32 rows of the minibatch for one member, through all layers, forward and backward. It stores a
// partial gradient; cuda_reduce.h sums them up.
const int row = 32 * tile + lane;
real* const out = partial_p + (long long)group * SIZE;
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    x[0][k * STRIDE + r] = 32 * tile + r < n ? obs_p[order_p[32 * tile + r] * inputs[0] + k] : real(0);
}
SYNC;
#pragma unroll
for (int l = 0; l < HEAD; ++l) forward_layer(l);

real value = 0;
for (int k = warp; k < inputs[HEAD]; k += WARPS) value += x[HEAD][k * STRIDE + lane] * packed[columns[HEAD] + k];
partial_1[thread] = value;
SYNC;
if (warp == 0) {
    const real error = row < n ? total(partial_1) + packed[biases[HEAD]] - target_p[order_p[row]] : real(0);
    const real value_grad = error * (real(2) / n);
    const real loss = math::warp_sum(error * error), bias_grad = math::warp_sum(value_grad);
    if (lane == 0) tile_losses_p[group] = loss, out[bias[HEAD]] = bias_grad;
    active[HEAD][lane] = value_grad;
}
SYNC;
for (int k = thread; k < inputs[HEAD]; k += THREADS) {
    real y = 0;
    for (int q = 0; q < 8; ++q) y += math::dot(math::at(x[HEAD], k, q), math::at(active[HEAD], 0, q));
    out[weight[HEAD] + k] = y;
}
SYNC;

#pragma unroll
for (int l = HEAD - 1; l >= 0; --l) {
    backprop_to_outputs(l);
    for (int j = thread; j < outputs[l]; j += THREADS) {
        real shift_grad = 0, scale_grad = 0;
        for (int r = 0; r < 32; ++r) {
            const real x_grad = x[l + 1][j * STRIDE + r];
            shift_grad += x_grad, scale_grad += x_grad * (active[l][j * STRIDE + r] - mean[l][r]) * inv_std[l][r];
        }
        out[shift[l] + j] = shift_grad, out[scale[l] + j] = scale_grad;
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
    // Each thread computes sixteen weights that are not adjacent, so that no two lanes access the same memory bank.
    const int across = (outputs[l] + 3) / 4, down = (inputs[l] + 3) / 4;
    for (int t = thread; t < across * down; t += THREADS) {
        const int j = t % across, k = t / across;
        real y[4][4] = {};
        for (int q = 0; q < 8; ++q) {
            float4 a[4], b[4];
            for (int i = 0; i < 4; ++i) {
                a[i] = math::at(x[l], math::least(k + i * down, inputs[l] - 1), q);
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
