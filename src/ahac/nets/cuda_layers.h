// Rows of numbers through linear layers, each but the last with ELU and layer norm behind it, forth and back, on CUDA.
// Pasted into the body of a kernel of WARPS warps a block, after `Layers.constants` of cuda_layers.py: sizes of each layer
// (inputs, outputs) and places in a mirror of the weights (rows, columns, biases, scales, shifts), which has them in rows
// and in columns, padded to whole groups of COLUMNS.
//
// A block takes 32 rows: a lane is a row, a warp takes eight outputs at a time, and no layer's numbers leave shared memory.
enum { THREADS = 32 * WARPS, HEAD = LAYERS - 1 };
static_assert(COLUMNS == 8, "two float4 at a time");
#define UP(n) (((n) + COLUMNS - 1) / COLUMNS * COLUMNS)
// Outputs of layer l that this warp computes: j is the first of eight.
#define EACH_GROUP(count) for (int j = COLUMNS * warp; j < (count); j += COLUMNS * WARPS)
#define EACH_COLUMN(count) _Pragma("unroll") for (int c = 0; c < COLUMNS; ++c) if (j + c < (count))
const int group = block / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32, thread = threadIdx.x;

struct math {
    // y[8] += Σ_k x[k][lane] w[k][8]
    static CUDA_CALLABLE void multiply(real* y, const real* x, const real* w, int count, int width, int lane) {
#pragma unroll 4
        for (int k = 0; k < count; ++k) {
            const real a = x[k * STRIDE + lane];
            const float4 b = *(const float4*)(w + k * width), c = *(const float4*)(w + k * width + 4);
            y[0] += a * b.x, y[1] += a * b.y, y[2] += a * b.z, y[3] += a * b.w;
            y[4] += a * c.x, y[5] += a * c.y, y[6] += a * c.z, y[7] += a * c.w;
        }
    }
    static CUDA_CALLABLE real over_lanes(real x) {
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
// From seen[l] to seen[l + 1].
const auto forth = [&](int l) {
    real sum = 0, squares = 0;
    EACH_GROUP(outputs[l]) {
        real y[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) y[c] = mirror[biases[l] + j + c];
        math::multiply(y, seen[l], mirror + rows[l] + j, inputs[l], UP(outputs[l]), lane);
        EACH_COLUMN(outputs[l]) {
            const real e = y[c] > 0 ? y[c] : ::expm1f(y[c]);
            active[l][(j + c) * STRIDE + lane] = e;
            sum += e;
        }
    }
    sums[thread] = sum;
    MEET;
    const real middle = total(sums) / outputs[l];
    EACH_GROUP(outputs[l]) EACH_COLUMN(outputs[l]) {
        const real d = active[l][(j + c) * STRIDE + lane] - middle;
        squares += d * d;
    }
    more[thread] = squares;
    MEET;
    const real scaled = 1 / ::sqrtf(total(more) / outputs[l] + NORM_EPS);
    if (warp == 0) mean[l][lane] = middle, spread[l][lane] = scaled;
    EACH_GROUP(outputs[l]) EACH_COLUMN(outputs[l]) {
        const real x = (active[l][(j + c) * STRIDE + lane] - middle) * scaled;
        seen[l + 1][(j + c) * STRIDE + lane] = x * mirror[scales[l] + j + c] + mirror[shifts[l] + j + c];
    }
    MEET;
};
// What pulls at the outputs of layer l, from what pulls at the next one before its activation, active[l + 1]; it takes
// the place of the outputs.
const auto pulled = [&](int l) {
    real plain = 0, along = 0;
    EACH_GROUP(outputs[l]) {
        real y[COLUMNS] = {};
        math::multiply(y, active[l + 1], mirror + columns[l + 1] + j, outputs[l + 1], UP(outputs[l]), lane);
        EACH_COLUMN(outputs[l]) {
            const real x = (active[l][(j + c) * STRIDE + lane] - mean[l][lane]) * spread[l][lane];
            const real h = y[c] * mirror[scales[l] + j + c];
            seen[l + 1][(j + c) * STRIDE + lane] = y[c];
            plain += h, along += h * x;
        }
    }
    sums[thread] = plain, more[thread] = along;
    MEET;
};
// And at what comes before the activation; it takes the place of the activation.
const auto back = [&](int l) {
    const real plain = total(sums) / outputs[l], along = total(more) / outputs[l];
    const real middle = mean[l][lane], scaled = spread[l][lane];
    for (int j = warp; j < outputs[l]; j += WARPS) {
        const real e = active[l][j * STRIDE + lane], x = (e - middle) * scaled;
        const real up = (seen[l + 1][j * STRIDE + lane] * mirror[scales[l] + j] - plain - x * along) * scaled;
        active[l][j * STRIDE + lane] = e > 0 ? up : up * (e + 1);
    }
    MEET;
};
#endif
