// What lies between the matrix products of a wide critic: activation and layer norm, forward (PASS 0), the last layer
// with the loss and its gradient (PASS 1), and layer norm and activation, backward (PASS 2). This text is the body of a
// kernel. The activation is SiLU, or ELU if SILU is 0; y_p keeps the input of SiLU, and the output of ELU.
//
// A warp takes a row, its lanes every 32nd of the WIDTH columns. MEMBERS networks with SIZE weights each have n rows;
// a block has ROWS rows of one member. BIAS, SCALE and SHIFT are offsets in the weights of a member; the last layer has
// its weights at SCALE.
struct math {
    static CUDA_CALLABLE real sigmoid(real y) { return 1 / (1 + ::expf(-y)); }
    static CUDA_CALLABLE real warp_sum(real x) {
        for (int distance = 16; distance; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
        return x;
    }
};
enum { COLUMNS = (WIDTH + 31) / 32 };
#define EACH_COLUMN                                                                                                  \
    _Pragma("unroll") for (int i = 0; i < COLUMNS; ++i)                                                              \
        if (const int j = lane + 32 * i; WIDTH % 32 == 0 || j < WIDTH)
const int group = block / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
const int tiles = (n + ROWS - 1) / ROWS, member = group / tiles, tile = group % tiles;
const real* const theta = theta_p + (long long)member * SIZE;
[[maybe_unused]] real sums[3][COLUMNS] = {};
#if PASS == 1
real loss = 0, bias_grad = 0;
#endif

for (int b = tile * ROWS + warp; b < n && b < (tile + 1) * ROWS; b += WARPS) {
    const long long row = (long long)member * n + b;
#if PASS == 0
    real e[COLUMNS], sum = 0, squares = 0;
    EACH_COLUMN {
        const real y = y_p[row * WIDTH + j] + theta[BIAS + j];
        e[i] = SILU ? y * math::sigmoid(y) : y > 0 ? y : ::expm1f(y);
        y_p[row * WIDTH + j] = SILU ? y : e[i];
        sum += e[i];
    }
    const real mean = math::warp_sum(sum) / WIDTH;
    EACH_COLUMN squares += (e[i] - mean) * (e[i] - mean);
    const real inv_std = 1 / ::sqrtf(math::warp_sum(squares) / WIDTH + NORM_EPS);
    EACH_COLUMN x_p[row * WIDTH + j] = (e[i] - mean) * inv_std * theta[SCALE + j] + theta[SHIFT + j];
    if (lane == 0) statistics_p[2 * row] = mean, statistics_p[2 * row + 1] = inv_std;
#elif PASS == 1
    real x[COLUMNS], product = 0;
    EACH_COLUMN {
        x[i] = x_p[row * WIDTH + j];
        product += x[i] * theta[SCALE + j];
    }
    const real error = math::warp_sum(product) + theta[BIAS] - target_p[order_p[b]], y_grad = error * (real(2) / n);
    EACH_COLUMN {
        x_p[row * WIDTH + j] = y_grad * theta[SCALE + j];
        sums[0][i] += y_grad * x[i];
    }
    loss += error * error, bias_grad += y_grad;
#else
    const real mean = statistics_p[2 * row], inv_std = statistics_p[2 * row + 1];
    real z[COLUMNS], h[COLUMNS], slope[COLUMNS], sum_h = 0, sum_hz = 0;
    EACH_COLUMN {
        const real x_grad = x_p[row * WIDTH + j], y = y_p[row * WIDTH + j], s = math::sigmoid(y);
        slope[i] = SILU ? s * (1 + y * (1 - s)) : y > 0 ? 1 : y + 1;
        z[i] = ((SILU ? y * s : y) - mean) * inv_std;
        h[i] = x_grad * theta[SCALE + j];
        sum_h += h[i], sum_hz += h[i] * z[i];
        sums[1][i] += x_grad * z[i], sums[2][i] += x_grad;
    }
    const real mean_h = math::warp_sum(sum_h) / WIDTH, mean_hz = math::warp_sum(sum_hz) / WIDTH;
    EACH_COLUMN {
        const real y_grad = (h[i] - mean_h - z[i] * mean_hz) * inv_std * slope[i];
        x_p[row * WIDTH + j] = y_grad;
        sums[0][i] += y_grad;
    }
#endif
}

#if PASS > 0
// Add up the warps, always in the same order.
const auto store = [&](const real* of_lane, real* to) {
    EACH_COLUMN slots[warp * WIDTH + j] = of_lane[i];
    SYNC;
    for (int j = threadIdx.x; j < WIDTH; j += 32 * WARPS) {
        real y = 0;
        for (int w = 0; w < WARPS; ++w) y += slots[w * WIDTH + j];
        to[j] = y;
    }
    SYNC;
};
#endif
#if PASS == 1
real* const out = partial_p + (long long)group * (WIDTH + 2);
store(sums[0], out);
if (lane == 0) slots[2 * warp] = bias_grad, slots[2 * warp + 1] = loss / n;
SYNC;
if (threadIdx.x < 2) {
    real y = 0;
    for (int w = 0; w < WARPS; ++w) y += slots[2 * w + threadIdx.x];
    out[WIDTH + threadIdx.x] = y;
}
#elif PASS == 2
real* const out = partial_p + (long long)group * 3 * WIDTH;
store(sums[0], out), store(sums[1], out + WIDTH), store(sums[2], out + 2 * WIDTH);
#endif
