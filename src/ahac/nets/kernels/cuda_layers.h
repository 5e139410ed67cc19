// Linear layers, each but the last followed by an activation (SiLU, or ELU if SILU is 0) and layer norm: forward and
// backward on CUDA.
//
// This text is pasted into the body of a kernel with WARPS warps per block, after `Layers.constants` of cuda_layers.py:
// the sizes of each layer (inputs, outputs) and its offsets in the packed weights (rows, columns, biases, scales,
// shifts). The packed weights hold each matrix twice, row by row and column by column, padded to multiples of COLUMNS.
//
// A block takes 32 rows of the batch, and their activations stay in shared memory. Matrix products run on tensor cores:
// a warp computes up to MAX_TILES tiles of 32 rows by eight outputs at a time. In all other loops a lane is a row.
enum { THREADS = 32 * WARPS, HEAD = LAYERS - 1, MAX_TILES = 4, AHEAD = 2 };
static_assert(COLUMNS == 8, "a tile has eight outputs");
#define ALWAYS_INLINE __attribute__((always_inline))
#define EACH_OUTPUT(count) for (int j = warp; j < (count); j += WARPS)
#define UP(n) (((n) + COLUMNS - 1) / COLUMNS * COLUMNS)
const int group = block / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32, thread = threadIdx.x;
const int quad = lane / 4, in_quad = lane % 4;

// c += a b by a warp, where a is 16 x 8, b is 8 x 8, and the 13 lowest bits of their elements are ignored. A lane holds
// of a: rows quad and quad + 8, in columns in_quad and in_quad + 4; of b: rows in_quad and in_quad + 4 in column quad;
// of c: row quad and then row quad + 8, in columns 2 in_quad and 2 in_quad + 1.
#ifndef WARP_MMA
#define WARP_MMA(c, a, b)                                                                                            \
    asm(                                                                                                             \
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "          \
        "{%0, %1, %2, %3};"                                                                                          \
        : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])                                                     \
        : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
#endif

struct math {
    // Split x into high + low, each a number with 10 bits after the leading one.
    static CUDA_CALLABLE void split(real x, unsigned& high, unsigned& low) {
        high = (__float_as_uint(x) + 0x1000u) & ~0x1fffu;
        low = __float_as_uint(x - __uint_as_float(high));
    }
    // c += a b with nearly the accuracy of float32: only the product of the low parts is left out.
    static CUDA_CALLABLE void multiply_add(
        real* c, const unsigned* a, const unsigned* a_low, const unsigned* b, const unsigned* b_low
    ) {
        WARP_MMA(c, a, b_low);
        WARP_MMA(c, a_low, b);
        WARP_MMA(c, a, b);
    }
    static CUDA_CALLABLE real sigmoid(real y) { return 1 / (1 + ::expf(-y)); }
    static CUDA_CALLABLE real activate(real y) { return SILU ? y * sigmoid(y) : y > 0 ? y : ::expm1f(y); }
    // Of an activation, the input of SiLU is kept, and the output of ELU.
    static CUDA_CALLABLE real activated(real kept) { return SILU ? kept * sigmoid(kept) : kept; }
    static CUDA_CALLABLE real slope(real kept) {
        if (!SILU) return kept > 0 ? 1 : kept + 1;
        const real s = sigmoid(kept);
        return s * (1 + kept * (1 - s));
    }
    static CUDA_CALLABLE real warp_sum(real x) {
        for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
        return x;
    }
    static CUDA_CALLABLE int least(int a, int b) { return a < b ? a : b; }
    static CUDA_CALLABLE real dot(float4 a, float4 b) { return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
    static CUDA_CALLABLE float4 at(const real* x, int i, int quarter) {
        return *(const float4*)(x + i * STRIDE + 4 * quarter);
    }
};

#if THROUGH_LAYERS
// Of the block's rows: x[l] is the input of layer l and x[l + 1] its output; active[l] is what is kept of its
// activation. The backward pass overwrites x[l + 1] and then active[l] with gradients.
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
// Compute y[j][row] = start(j) + Σ_k w[j][k] in[k][row] and call finish(j, row, y), for all `outputs` j and all rows.
// Rows of w have UP(inputs) numbers, and are zero from `inputs` on.
const auto multiply = [&](
    const real* in, const real* w, int inputs, int outputs, auto start, auto finish
) ALWAYS_INLINE {
    const int tiles = math::least((outputs + COLUMNS * WARPS - 1) / (COLUMNS * WARPS), MAX_TILES);
    for (int first = COLUMNS * tiles * warp; first < outputs; first += COLUMNS * tiles * WARPS) {
        real y[MAX_TILES][2][4];
        const float2* w_row[MAX_TILES];
        float2 ahead[AHEAD][MAX_TILES];
#pragma unroll
        for (int t = 0; t < MAX_TILES; ++t) {
            if (t >= tiles) break;
            const int j = math::least(first + COLUMNS * t + quad, outputs - 1);
            w_row[t] = (const float2*)(w + j * UP(inputs)) + in_quad;
            for (int i = 0; i < 2; ++i) {
                const real y0 = start(math::least(first + COLUMNS * t + 2 * in_quad + i, outputs - 1));
                y[t][0][i] = y[t][0][i + 2] = y[t][1][i] = y[t][1][i + 2] = y0;
            }
        }
#pragma unroll
        for (int step = 0; step < AHEAD; ++step) {
#pragma unroll
            for (int t = 0; t < MAX_TILES; ++t)
                if (t < tiles && 8 * step < inputs) ahead[step][t] = __ldg(w_row[t] + 4 * step);
        }
        // A lane takes two adjacent inputs, so that no two lanes access the same bank of shared memory.
        for (int k0 = 0; k0 < inputs; k0 += 8 * AHEAD) {
#pragma unroll
            for (int step = 0; step < AHEAD; ++step) {
                const int k = k0 + 8 * step;
                if (k >= inputs) break;
                unsigned a[2][4], a_low[2][4];
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const int input = k + 2 * in_quad + i % 4 / 2, row = 16 * (i / 4) + quad + 8 * (i % 2);
                    const bool inside = inputs % 8 == 0 || input < inputs;
                    math::split(inside ? in[input * STRIDE + row] : real(0), a[i / 4][i % 4], a_low[i / 4][i % 4]);
                }
#pragma unroll
                for (int t = 0; t < MAX_TILES; ++t) {
                    if (t >= tiles) break;
                    unsigned b[2], b_low[2];
                    math::split(ahead[step][t].x, b[0], b_low[0]);
                    math::split(ahead[step][t].y, b[1], b_low[1]);
                    if (k + 8 * AHEAD < inputs) ahead[step][t] = __ldg(w_row[t] + k / 2 + 4 * AHEAD);
                    math::multiply_add(y[t][0], a[0], a_low[0], b, b_low);
                    math::multiply_add(y[t][1], a[1], a_low[1], b, b_low);
                }
            }
        }
#pragma unroll
        for (int t = 0; t < MAX_TILES; ++t) {
            if (t >= tiles || first + COLUMNS * t >= outputs) break;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int j = first + COLUMNS * t + 2 * in_quad + i % 2;
                if (outputs % COLUMNS == 0 || j < outputs) finish(j, quad + 8 * (i / 2), y[t][i / 4][i % 4]);
            }
        }
    }
};
// w in + b for layer l.
const auto linear = [&](real* to, const real* in, int l) ALWAYS_INLINE {
    multiply(
        in, packed + columns[l], inputs[l], outputs[l], [&](int j) { return packed[biases[l] + j]; },
        [&](int j, int row, real y) { to[j * STRIDE + row] = y; }
    );
    SYNC;
};
// Compute x[l + 1] from x[l].
const auto forward_layer = [&](int l) ALWAYS_INLINE {
    real sum = 0, squares = 0;
    linear(active[l], x[l], l);
    EACH_OUTPUT(outputs[l]) {
        const real y = active[l][j * STRIDE + lane], e = math::activate(y);
        active[l][j * STRIDE + lane] = SILU ? y : e;
        x[l + 1][j * STRIDE + lane] = e;
        sum += e;
    }
    partial_1[thread] = sum;
    SYNC;
    const real row_mean = total(partial_1) / outputs[l];
    EACH_OUTPUT(outputs[l]) {
        const real d = x[l + 1][j * STRIDE + lane] - row_mean;
        squares += d * d;
    }
    partial_2[thread] = squares;
    SYNC;
    const real row_inv_std = 1 / ::sqrtf(total(partial_2) / outputs[l] + NORM_EPS);
    if (warp == 0) mean[l][lane] = row_mean, inv_std[l][lane] = row_inv_std;
    EACH_OUTPUT(outputs[l]) {
        const real z = (x[l + 1][j * STRIDE + lane] - row_mean) * row_inv_std;
        x[l + 1][j * STRIDE + lane] = z * __ldg(packed + scales[l] + j) + __ldg(packed + shifts[l] + j);
    }
    SYNC;
};
// Compute the gradient with respect to x[l + 1] from that of the next layer's linear part, in active[l + 1], and
// overwrite x[l + 1] with it. Leaves the two sums that the gradient of the layer norm needs in partial_1 and partial_2.
const auto backprop_to_outputs = [&](int l) ALWAYS_INLINE {
    multiply(
        active[l + 1], packed + rows[l + 1], outputs[l + 1], outputs[l], [](int) { return real(0); },
        [&](int j, int row, real y) { x[l + 1][j * STRIDE + row] = y; }
    );
    SYNC;
    real sum_h = 0, sum_hz = 0;
    EACH_OUTPUT(outputs[l]) {
        const real z = (math::activated(active[l][j * STRIDE + lane]) - mean[l][lane]) * inv_std[l][lane];
        const real h = x[l + 1][j * STRIDE + lane] * __ldg(packed + scales[l] + j);
        sum_h += h, sum_hz += h * z;
    }
    partial_1[thread] = sum_h, partial_2[thread] = sum_hz;
    SYNC;
};
// Compute the gradient with respect to the linear part of layer l, and overwrite active[l] with it.
const auto backward_layer = [&](int l) ALWAYS_INLINE {
    const real mean_h = total(partial_1) / outputs[l], mean_hz = total(partial_2) / outputs[l];
    const real row_mean = mean[l][lane], row_inv_std = inv_std[l][lane];
    EACH_OUTPUT(outputs[l]) {
        const real kept = active[l][j * STRIDE + lane], z = (math::activated(kept) - row_mean) * row_inv_std;
        const real h = x[l + 1][j * STRIDE + lane] * __ldg(packed + scales[l] + j);
        active[l][j * STRIDE + lane] = (h - mean_h - z * mean_hz) * row_inv_std * math::slope(kept);
    }
    SYNC;
};
#endif
