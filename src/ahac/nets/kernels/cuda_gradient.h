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
EACH_OUTPUT(inputs[HEAD]) value += x[HEAD][j * STRIDE + lane] * __ldg(packed + columns[HEAD] + j);
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
            const real x_grad = x[l + 1][j * STRIDE + r], e = math::activated(active[l][j * STRIDE + r]);
            shift_grad += x_grad, scale_grad += x_grad * (e - mean[l][r]) * inv_std[l][r];
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
    // Σ_row active[j][row] x[k][row]: a warp takes 16 outputs j by up to eight tiles of eight inputs k. Adjacent lanes
    // store adjacent weights.
    enum { TILES = 8 };
    const int parts = (inputs[l] + COLUMNS * TILES - 1) / (COLUMNS * TILES), strips = (outputs[l] + 15) / 16;
    for (int job = warp; job < parts * strips; job += WARPS) {
        const int j = job / parts * 16 + quad, first = job % parts * COLUMNS * TILES;
        unsigned a[4][4], a_low[4][4];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int output = math::least(j + 8 * (i % 2), outputs[l] - 1), r = in_quad + 4 * (i / 2);
            math::split(active[l][output * STRIDE + r], a[i / 4][i % 4], a_low[i / 4][i % 4]);
        }
#pragma unroll 2
        for (int tile = first; tile < math::least(first + COLUMNS * TILES, inputs[l]); tile += COLUMNS) {
            const real* const input = x[l] + math::least(tile + quad, inputs[l] - 1) * STRIDE + in_quad;
            real y[4] = {};
#pragma unroll
            for (int s = 0; s < 4; ++s) {
                unsigned b[2], b_low[2];
                math::split(input[8 * s], b[0], b_low[0]);
                math::split(input[8 * s + 4], b[1], b_low[1]);
                math::multiply_add(y, a[s], a_low[s], b, b_low);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int k = tile + 2 * in_quad + i % 2, output = j + 8 * (i / 2);
                if (k < inputs[l] && output < outputs[l]) out[weight[l] + k * outputs[l] + output] = y[i];
            }
        }
    }
    SYNC;
}
