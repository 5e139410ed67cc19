// Rows of numbers through linear layers, each but the last with ELU and layer norm behind it, forth and back, on CUDA.
// Pasted into the body of a kernel of WARPS warps a block, after `Layers.constants` of cuda_layers.py: sizes of each layer
// (inputs, outputs) and places in a mirror of the weights (rows, columns, biases, scales, shifts), which has them in rows
// and in columns, padded to whole groups of COLUMNS.
//
// A block takes 32 rows, and no layer's numbers leave shared memory. For products a warp takes 32 outputs at a time: each of
// its lanes four rows by eight outputs, so that 32 products need three loads. For all else a lane is a row.
enum { THREADS = 32 * WARPS, HEAD = LAYERS - 1 };
static_assert(COLUMNS == 8, "two float4 at a time");
#define UP(n) (((n) + COLUMNS - 1) / COLUMNS * COLUMNS)
// Eight outputs from j on, of rows `first` to `first` + 3, for every lane, until all outputs had their turn.
#define EACH_GROUP(count) for (int j = 32 * warp + COLUMNS * (lane / 8); j < (count); j += 32 * WARPS)
#define EACH_OUTPUT(count) for (int j = warp; j < (count); j += WARPS)
const int group = block / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32, thread = threadIdx.x;
const int first = 4 * (lane % 8);

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
    // To [j + c][rows], for all c whose outputs there are.
    static CUDA_CALLABLE void put(real* to, const real (*y)[COLUMNS], int left) {
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c)
            if (c < left) *(float4*)(to + c * STRIDE) = float4{y[0][c], y[1][c], y[2][c], y[3][c]};
    }
    static CUDA_CALLABLE real warp_sum(real x) {
        for (int apart = 16; apart; apart /= 2) x += __shfl_xor_sync(~0u, x, apart);
        return x;
    }
    static CUDA_CALLABLE int least(int a, int b) { return a < b ? a : b; }
    static CUDA_CALLABLE real dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
    static CUDA_CALLABLE float4 at(const real* x, int i, int quad) { return *(const float4*)(x + i * STRIDE + 4 * quad); }
};

#if THROUGH_LAYERS
real *seen[LAYERS], *active[LAYERS], *mean[LAYERS], *spread[LAYERS];  // of rows; seen[0] is what goes in
real* memory = slots;
const auto take = [&](int count) { real* p = memory; memory += count; return p; };
seen[0] = take(inputs[0] * STRIDE);
#pragma unroll
for (int l = 0; l < HEAD; ++l) {
    active[l] = take(outputs[l] * STRIDE), seen[l + 1] = take(outputs[l] * STRIDE);
    mean[l] = take(32), spread[l] = take(32);
}
active[HEAD] = take(outputs[HEAD] * STRIDE);
real *const sums = take(32 * WARPS), *const more = take(32 * WARPS);
// Over the warps, of every row.
const auto total = [&](const real* part) {
    real y = 0;
    for (int w = 0; w < WARPS; ++w) y += part[32 * w + lane];
    return y;
};
// w x + b, the rows of x by layer l.
const auto linear = [&](real* to, const real* x, int l) {
    EACH_GROUP(outputs[l]) {
        real y[4][COLUMNS];
        for (int r = 0; r < 4; ++r) for (int c = 0; c < COLUMNS; ++c) y[r][c] = mirror[biases[l] + j + c];
        math::multiply(y, x + first, mirror + rows[l] + j, inputs[l], UP(outputs[l]));
        math::put(to + j * STRIDE + first, y, outputs[l] - j);
    }
    SYNC;
};
// From seen[l] to seen[l + 1].
const auto forward_layer = [&](int l) {
    real sum = 0, squares = 0;
    linear(active[l], seen[l], l);
    EACH_OUTPUT(outputs[l]) {
        const real y = active[l][j * STRIDE + lane], e = y > 0 ? y : ::expm1f(y);
        active[l][j * STRIDE + lane] = e;
        sum += e;
    }
    sums[thread] = sum;
    SYNC;
    const real middle = total(sums) / outputs[l];
    EACH_OUTPUT(outputs[l]) {
        const real d = active[l][j * STRIDE + lane] - middle;
        squares += d * d;
    }
    more[thread] = squares;
    SYNC;
    const real scaled = 1 / ::sqrtf(total(more) / outputs[l] + NORM_EPS);
    if (warp == 0) mean[l][lane] = middle, spread[l][lane] = scaled;
    EACH_OUTPUT(outputs[l]) {
        const real x = (active[l][j * STRIDE + lane] - middle) * scaled;
        seen[l + 1][j * STRIDE + lane] = x * mirror[scales[l] + j] + mirror[shifts[l] + j];
    }
    SYNC;
};
// What pulls at the outputs of layer l, from what pulls at the next one before its activation, active[l + 1]; it takes
// the place of the outputs.
const auto backprop_to_outputs = [&](int l) {
    EACH_GROUP(outputs[l]) {
        real y[4][COLUMNS] = {};
        math::multiply(y, active[l + 1] + first, mirror + columns[l + 1] + j, outputs[l + 1], UP(outputs[l]));
        math::put(seen[l + 1] + j * STRIDE + first, y, outputs[l] - j);
    }
    SYNC;
    real plain = 0, along = 0;
    EACH_OUTPUT(outputs[l]) {
        const real x = (active[l][j * STRIDE + lane] - mean[l][lane]) * spread[l][lane];
        const real h = seen[l + 1][j * STRIDE + lane] * mirror[scales[l] + j];
        plain += h, along += h * x;
    }
    sums[thread] = plain, more[thread] = along;
    SYNC;
};
// And at what comes before the activation; it takes the place of the activation.
const auto backward_layer = [&](int l) {
    const real plain = total(sums) / outputs[l], along = total(more) / outputs[l];
    const real middle = mean[l][lane], scaled = spread[l][lane];
    EACH_OUTPUT(outputs[l]) {
        const real e = active[l][j * STRIDE + lane], x = (e - middle) * scaled;
        const real up = (seen[l + 1][j * STRIDE + lane] * mirror[scales[l] + j] - plain - x * along) * scaled;
        active[l][j * STRIDE + lane] = e > 0 ? up : up * (e + 1);
    }
    SYNC;
};
#endif
