// Linear layers, each but the last followed by ELU and layer norm: forward and backward on CUDA.
//
// This text is pasted into the body of a kernel with WARPS warps per block, after `Layers.constants` of cuda_layers.py:
// the sizes of each layer (inputs, outputs) and its offsets in the packed weights (rows, columns, biases, scales,
// shifts). The packed weights hold each matrix twice, row by row and column by column, padded to multiples of COLUMNS.
//
// A block takes 32 rows of the batch, and their activations stay in shared memory. In matrix products a warp computes
// 32 outputs at a time, each lane four rows by eight outputs, so that 32 multiplications need three loads. In all other
// loops a lane is a row.
enum { THREADS = 32 * WARPS, HEAD = LAYERS - 1 };
static_assert(COLUMNS == 8, "two float4 at a time");
#define UP(n) (((n) + COLUMNS - 1) / COLUMNS * COLUMNS)
// Loop over groups of eight outputs, starting at j; each lane handles rows `first_row` to `first_row` + 3.
#define EACH_GROUP(count) for (int j = 32 * warp + COLUMNS * (lane / 8); j < (count); j += 32 * WARPS)
#define EACH_OUTPUT(count) for (int j = warp; j < (count); j += WARPS)
const int group = block / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32, thread = threadIdx.x;
const int first_row = 4 * (lane % 8);

struct math {
    // y[4][8] += Σ_k x[k][4] w[k][8]
    static CUDA_CALLABLE void multiply(real (*y)[COLUMNS], const real* x, const real* w, int count, int width) {
#pragma unroll 2
        for (int k = 0; k < count; ++k) {
            const float4 a = *(const float4*)(x + k * STRIDE);
            const float4 b = *(const float4*)(w + k * width), c = *(const float4*)(w + k * width + 4);
            add(y[0], a.x, b, c), add(y[1], a.y, b, c), add(y[2], a.z, b, c), add(y[3], a.w, b, c);
        }
    }
    static CUDA_CALLABLE void add(real* y, real a, float4 b, float4 c) {
        y[0] += a * b.x, y[1] += a * b.y, y[2] += a * b.z, y[3] += a * b.w;
        y[4] += a * c.x, y[5] += a * c.y, y[6] += a * c.z, y[7] += a * c.w;
    }
    // Store to [j + c][rows] for all c below the number of outputs left.
    static CUDA_CALLABLE void store(real* to, const real (*y)[COLUMNS], int left) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            if (c < left) *(float4*)(to + c * STRIDE) = float4{y[0][c], y[1][c], y[2][c], y[3][c]};
    }
    static CUDA_CALLABLE real warp_sum(real x) {
        for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
        return x;
    }
    static CUDA_CALLABLE int least(int a, int b) { return a < b ? a : b; }
    static CUDA_CALLABLE real dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
    static CUDA_CALLABLE float4 at(const real* x, int i, int quad) {
        return *(const float4*)(x + i * STRIDE + 4 * quad);
    }
};

#if THROUGH_LAYERS
// Of the block's rows: x[l] is the input of layer l and x[l + 1] its output; active[l] is the output of its ELU. The
// backward pass overwrites x[l + 1] and then active[l] with gradients.
real *x[LAYERS], *active[LAYERS], *mean[LAYERS], *inv_std[LAYERS];
real* memory = slots;
const auto take = [&](int count) { real* p = memory; memory += count; return p; };
x[0] = take(inputs[0] * STRIDE);
#pragma unroll
for (int l = 0; l < HEAD; ++l) {
    active[l] = take(outputs[l] * STRIDE), x[l + 1] = take(outputs[l] * STRIDE);
    mean[l] = take(32), inv_std[l] = take(32);
}
active[HEAD] = take(outputs[HEAD] * STRIDE);
// One partial sum per warp and row; two sums may be under way at once.
real *const partial_1 = take(32 * WARPS), *const partial_2 = take(32 * WARPS);
// Sum over the warps, for the row of this lane.
const auto total = [&](const real* partial) {
    real y = 0;
    for (int w = 0; w < WARPS; ++w) y += partial[32 * w + lane];
    return y;
};
// w in + b for layer l.
const auto linear = [&](real* to, const real* in, int l) {
    EACH_GROUP(outputs[l]) {
        real y[4][COLUMNS];
        for (int r = 0; r < 4; ++r) for (int c = 0; c < COLUMNS; ++c) y[r][c] = packed[biases[l] + j + c];
        math::multiply(y, in + first_row, packed + rows[l] + j, inputs[l], UP(outputs[l]));
        math::store(to + j * STRIDE + first_row, y, outputs[l] - j);
    }
    SYNC;
};
// Compute x[l + 1] from x[l].
const auto forward_layer = [&](int l) {
    real sum = 0, squares = 0;
    linear(active[l], x[l], l);
    EACH_OUTPUT(outputs[l]) {
        const real y = active[l][j * STRIDE + lane], e = y > 0 ? y : ::expm1f(y);
        active[l][j * STRIDE + lane] = e;
        sum += e;
    }
    partial_1[thread] = sum;
    SYNC;
    const real row_mean = total(partial_1) / outputs[l];
    EACH_OUTPUT(outputs[l]) {
        const real d = active[l][j * STRIDE + lane] - row_mean;
        squares += d * d;
    }
    partial_2[thread] = squares;
    SYNC;
    const real row_inv_std = 1 / ::sqrtf(total(partial_2) / outputs[l] + NORM_EPS);
    if (warp == 0) mean[l][lane] = row_mean, inv_std[l][lane] = row_inv_std;
    EACH_OUTPUT(outputs[l]) {
        const real z = (active[l][j * STRIDE + lane] - row_mean) * row_inv_std;
        x[l + 1][j * STRIDE + lane] = z * packed[scales[l] + j] + packed[shifts[l] + j];
    }
    SYNC;
};
// Compute the gradient with respect to x[l + 1] from that of the next layer's linear part, in active[l + 1], and
// overwrite x[l + 1] with it. Leaves the two sums that the gradient of the layer norm needs in partial_1 and partial_2.
const auto backprop_to_outputs = [&](int l) {
    EACH_GROUP(outputs[l]) {
        real y[4][COLUMNS] = {};
        math::multiply(y, active[l + 1] + first_row, packed + columns[l + 1] + j, outputs[l + 1], UP(outputs[l]));
        math::store(x[l + 1] + j * STRIDE + first_row, y, outputs[l] - j);
    }
    SYNC;
    real sum_h = 0, sum_hz = 0;
    EACH_OUTPUT(outputs[l]) {
        const real z = (active[l][j * STRIDE + lane] - mean[l][lane]) * inv_std[l][lane];
        const real h = x[l + 1][j * STRIDE + lane] * packed[scales[l] + j];
        sum_h += h, sum_hz += h * z;
    }
    partial_1[thread] = sum_h, partial_2[thread] = sum_hz;
    SYNC;
};
// Compute the gradient with respect to the linear part of layer l, and overwrite active[l] with it.
const auto backward_layer = [&](int l) {
    const real mean_h = total(partial_1) / outputs[l], mean_hz = total(partial_2) / outputs[l];
    const real row_mean = mean[l][lane], row_inv_std = inv_std[l][lane];
    EACH_OUTPUT(outputs[l]) {
        const real e = active[l][j * STRIDE + lane], z = (e - row_mean) * row_inv_std;
        const real e_grad =
            (x[l + 1][j * STRIDE + lane] * packed[scales[l] + j] - mean_h - z * mean_hz) * row_inv_std;
        active[l][j * STRIDE + lane] = e > 0 ? e_grad : e_grad * (e + 1);
    }
    SYNC;
};
#endif
