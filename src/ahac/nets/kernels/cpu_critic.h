// One training epoch of one member of a critic. For each minibatch: the gradient of the mean squared error, clipped by
// its norm, then an Adam step. This text is pasted into a kernel body after the definitions of LAYERS, OBS, SIZE
// (weights of a member), SCRATCH, TILE, ROWS, NORM_EPS, SILU (0 for ELU) and `shape`: {inputs, outputs} of every layer.
//
// Weights are copied into rows padded with zeros to whole SIMD registers, so that every loop below runs over registers.
// Rows of the minibatch go through all layers, forward and backward, in groups of ROWS that fit into the cache.
struct simd {
    static constexpr int round_up(int n, int to) { return (n + to - 1) / to * to; }
    static T load(const real* p, int i) { return lane::get(p + i * W); }
    static void store(real* p, int i, T y) { lane::put(p + i * W, y); }
    static real sum(T a) {
        // Sum in four lanes first, then across them.
        typedef real Q __attribute__((vector_size(4 * sizeof(real))));
        Q q[W / 4], s{};
        __builtin_memcpy(q, &a, sizeof(T));
        for (int i = 0; i < W / 4; ++i) s += q[i];
        return (s[0] + s[1]) + (s[2] + s[3]);
    }
    static T load_part(const real* p, int n) { T y{}; __builtin_memcpy(&y, p, n * sizeof(real)); return y; }
    static void copy(real* to, const real* from, int n) { __builtin_memcpy(to, from, n * sizeof(real)); }
    static void clear(real* p, int n) { __builtin_memset(p, 0, n * sizeof(real)); }
    static T sigmoid(T u) { return lane::k(1) / (lane::k(1) + lane::exp(lane::min(-u, lane::k(80)))); }
    static T activate(T u) {
        return SILU ? u * sigmoid(u) : lane::less(T{}, u, u, lane::exp(lane::min(u, T{})) - lane::k(1));
    }
    // Of an activation, the input of SiLU is kept, and the output of ELU.
    static T activated(T kept) { return SILU ? kept * sigmoid(kept) : kept; }
    static T times_slope(T grad, T kept) {
        if (!SILU) return lane::less(T{}, kept, grad, grad * (kept + lane::k(1)));
        const T s = sigmoid(kept);
        return grad * s * (lane::k(1) + kept * (lane::k(1) - s));
    }

    // C[M, V registers] = (init or C) + A B. A tile of TILE rows by up to 4 registers stays in registers over k.
    // `init` is one row, used for all rows. A has its own strides, so it can be a transpose.
#define TILE_OF(V)                                                                                              \
    for (int m = 0; m < M; m += TILE) {                                                                         \
        T c[TILE][V];                                                                                           \
        for (int r = 0; r < TILE; ++r) for (int v = 0; v < V; ++v)                                              \
            c[r][v] = init ? load(init, n + v) : load(C + (m + r) * width, n + v);                              \
        for (int k = 0; k < K; ++k) {                                                                           \
            T b[V];                                                                                             \
            for (int v = 0; v < V; ++v) b[v] = load(B + k * width, n + v);                                      \
            for (int r = 0; r < TILE; ++r) {                                                                    \
                const T a = lane::k(A[(m + r) * down + k * across]);                                            \
                for (int v = 0; v < V; ++v) c[r][v] += a * b[v];                                                \
            }                                                                                                   \
        }                                                                                                       \
        for (int r = 0; r < TILE; ++r) for (int v = 0; v < V; ++v) store(C + (m + r) * width, n + v, c[r][v]);  \
    }
    static void multiply(real* C, const real* init, const real* A, int down, int across, const real* B, int M, int K,
                         int width) {
        int n = 0;
        for (; n + 4 <= width / W; n += 4) TILE_OF(4)
        for (; n < width / W; ++n) TILE_OF(1)
    }
#undef TILE_OF
};
// A layer: padded sizes, offsets of its weights in theta, and its scratch memory.
struct Layer {
    int inputs, outputs;
    int rows, width, back;                                   // inputs padded to TILE, outputs and inputs padded to W
    int weight, bias, scale, shift;                          // offsets in theta
    real *w, *wt, *b, *s, *h;                                // padded: weight, its transpose, bias, scale, shift
    real *mask;                                              // 1 for outputs, 0 for padding
    real *w_grad, *b_grad, *s_grad, *h_grad;                 // their gradients
    real *active, *output, *grad, *mean, *inv_std;           // of a group of rows: activations, layer norm
};
const int member = block;
// Learning rate, beta1, beta2, epsilon, steps so far, largest gradient norm, weight decay.
const double* const settings = (const double*)settings_p;
const long long* const order = (const long long*)order_p;
real* const theta = theta_p + (long long)member * SIZE;
real* const exp_avg = exp_avg_p + (long long)member * SIZE;
real* const exp_avg_sq = exp_avg_sq_p + (long long)member * SIZE;
real* const grad = grad_p + (long long)member * SIZE;
real* memory = scratch_p + (long long)member * SCRATCH;
const auto take = [&](int n) {
    real* p = memory;
    memory += simd::round_up(n, W);
    simd::clear(p, simd::round_up(n, W));
    return p;
};

Layer layer[LAYERS];
int offset = 0, widest = W;
for (int l = 0; l < LAYERS; ++l) {
    Layer& y = layer[l];
    y.inputs = shape[l][0], y.outputs = shape[l][1];
    y.rows = simd::round_up(y.inputs, TILE);
    y.width = simd::round_up(y.outputs, W), y.back = simd::round_up(y.inputs, W);
    y.weight = offset, y.bias = y.weight + y.inputs * y.outputs, y.scale = y.bias + y.outputs;
    y.shift = y.scale + y.outputs;
    offset = l + 1 < LAYERS ? y.shift + y.outputs : y.scale;
    y.w = take(y.inputs * y.width), y.wt = take(y.outputs * y.back);
    y.b = take(y.width), y.s = take(y.width), y.h = take(y.width), y.mask = take(y.width);
    y.w_grad = take(y.rows * y.width), y.b_grad = take(y.width), y.s_grad = take(y.width), y.h_grad = take(y.width);
    y.active = take(ROWS * y.width), y.output = take(ROWS * y.width + TILE);
    y.grad = take(ROWS * y.width), y.mean = take(ROWS), y.inv_std = take(ROWS);
    for (int j = 0; j < y.outputs; ++j) y.mask[j] = 1;
    if (y.back > widest) widest = y.back;
}
const int obs_width = simd::round_up(OBS, W);
real* const zeros = take(widest);
real* const input = take(ROWS * obs_width + TILE);
real* const error = take(ROWS);
const Layer& head = layer[LAYERS - 1];
double total = 0;

for (int minibatch = 0, first_row = 0; minibatch < minibatches; ++minibatch) {
    const int rows = n / minibatches + (minibatch < n % minibatches);
    for (int l = 0; l < LAYERS; ++l) {
        const Layer& y = layer[l];
        for (int i = 0; i < y.inputs; ++i) simd::copy(y.w + i * y.width, theta + y.weight + i * y.outputs, y.outputs);
        for (int i = 0; i < y.inputs; ++i)
            for (int j = 0; j < y.outputs; ++j) y.wt[j * y.back + i] = theta[y.weight + i * y.outputs + j];
        simd::copy(y.b, theta + y.bias, y.outputs);
        if (l + 1 < LAYERS) simd::copy(y.s, theta + y.scale, y.outputs), simd::copy(y.h, theta + y.shift, y.outputs);
        simd::clear(y.w_grad, y.rows * y.width), simd::clear(y.b_grad, y.width);
        simd::clear(y.s_grad, y.width), simd::clear(y.h_grad, y.width);
    }
    double squared_error = 0;
    for (int start = 0; start < rows; start += ROWS) {
        // Padding rows of the last group are zero, and so are their gradients.
        const int used_rows = rows - start < ROWS ? rows - start : ROWS, count = simd::round_up(used_rows, TILE);
        simd::clear(input + used_rows * obs_width, (count - used_rows) * obs_width);
        for (int r = 0; r < used_rows; ++r)
            simd::copy(input + r * obs_width, obs_p + order[first_row + start + r] * OBS, OBS);

        for (int l = 0; l + 1 < LAYERS; ++l) {
            const Layer& y = layer[l];
            const int last = y.width / W;
            simd::multiply(y.active, y.b, l ? layer[l - 1].output : input, l ? layer[l - 1].width : obs_width, 1, y.w,
                           count, y.inputs, y.width);
            for (int r = 0; r < count; ++r) {
                real *a = y.active + r * y.width, *x = y.output + r * y.width;
                T sum{}, squares{};
                for (int v = 0; v < last; ++v) {
                    const T u = simd::load(a, v), e = simd::activate(u);
                    simd::store(a, v, SILU ? u : e);
                    simd::store(x, v, e);
                    sum += e;
                }
                const real mean = simd::sum(sum) / y.outputs;
                for (int v = 0; v < last; ++v) {
                    const T d = (simd::load(x, v) - mean) * simd::load(y.mask, v);
                    squares += d * d;
                }
                const real inv_std = 1 / __builtin_sqrtf(simd::sum(squares) / y.outputs + NORM_EPS);
                y.mean[r] = mean, y.inv_std[r] = inv_std;
                for (int v = 0; v < last; ++v)
                    simd::store(x, v, (simd::load(x, v) - mean) * inv_std * simd::load(y.s, v) + simd::load(y.h, v));
            }
        }
        // The head has one output: its weights are one row of `wt`, and their gradient is one row as well.
        const real* const x = LAYERS > 1 ? layer[LAYERS - 2].output : input;
        for (int r = 0; r < count; ++r) {
            T dot{};
            for (int v = 0; v < head.back / W; ++v) dot += simd::load(x + r * head.back, v) * simd::load(head.wt, v);
            const real e =
                r < used_rows ? simd::sum(dot) + head.b[0] - target_p[order[first_row + start + r]] : real(0);
            squared_error += (double)e * e;
            error[r] = e * (real(2) / rows);
            head.b_grad[0] += error[r];
            for (int v = 0; v < head.back / W; ++v)
                simd::store(head.w_grad, v, simd::load(head.w_grad, v) + error[r] * simd::load(x + r * head.back, v));
        }
        for (int l = LAYERS - 2; l >= 0; --l) {
            const Layer &y = layer[l], &next = layer[l + 1];
            const int last = y.width / W;
            if (l + 2 < LAYERS)
                simd::multiply(y.grad, zeros, next.grad, next.width, 1, next.wt, count, next.outputs, y.width);
            for (int r = 0; r < count; ++r) {
                real *a = y.active + r * y.width, *g = y.grad + r * y.width;
                const real mean = y.mean[r], inv_std = y.inv_std[r];
                T sum_h{}, sum_hx{};
                for (int v = 0; v < last; ++v) {
                    const T out_grad = l + 2 < LAYERS ? simd::load(g, v) : error[r] * simd::load(head.wt, v);
                    const T x = (simd::activated(simd::load(a, v)) - mean) * inv_std * simd::load(y.mask, v);
                    const T h = out_grad * simd::load(y.s, v);
                    simd::store(y.s_grad, v, simd::load(y.s_grad, v) + out_grad * x);
                    simd::store(y.h_grad, v, simd::load(y.h_grad, v) + out_grad);
                    simd::store(g, v, h);
                    sum_h += h, sum_hx += h * x;
                }
                const real c = simd::sum(sum_h) / y.outputs, d = simd::sum(sum_hx) / y.outputs;
                for (int v = 0; v < last; ++v) {
                    const T kept = simd::load(a, v), x = (simd::activated(kept) - mean) * inv_std;
                    const T e_grad = (simd::load(g, v) - c - x * d) * inv_std * simd::load(y.mask, v);
                    const T u_grad = simd::times_slope(e_grad, kept);
                    simd::store(g, v, u_grad);
                    simd::store(y.b_grad, v, simd::load(y.b_grad, v) + u_grad);
                }
            }
            simd::multiply(y.w_grad, 0, l ? layer[l - 1].output : input, 1, l ? layer[l - 1].width : obs_width, y.grad,
                           y.rows, count, y.width);
        }
    }
    total += squared_error / rows;
    first_row += rows;

    for (int l = 0; l < LAYERS; ++l) {
        const Layer& y = layer[l];
        const bool hidden = l + 1 < LAYERS;
        for (int i = 0; hidden && i < y.inputs; ++i)
            simd::copy(grad + y.weight + i * y.outputs, y.w_grad + i * y.width, y.outputs);
        if (!hidden) simd::copy(grad + y.weight, y.w_grad, y.inputs);
        simd::copy(grad + y.bias, y.b_grad, y.outputs);
        if (hidden) simd::copy(grad + y.scale, y.s_grad, y.outputs), simd::copy(grad + y.shift, y.h_grad, y.outputs);
    }
    T grad_squares{};
    for (int i = 0; i < SIZE; i += W) {
        const T g = SIZE - i < W ? simd::load_part(grad + i, SIZE - i) : simd::load(grad + i, 0);
        grad_squares += g * g;
    }
    // As in torch's clip_grad_norm_ and AdamW, which is Adam without weight decay.
    const double clip = settings[5] / (__builtin_sqrt((double)simd::sum(grad_squares)) + 1e-6);
    const double steps = settings[4] + minibatch + 1;
    const T factor = lane::k(clip < 1 ? (real)clip : real(1));
    const T beta1 = lane::k(settings[1]), beta2 = lane::k(settings[2]), epsilon = lane::k(settings[3]);
    const T step_size = lane::k(settings[0] / (1 - __builtin_pow(settings[1], steps)));
    const T correction = lane::k(1 / __builtin_sqrt(1 - __builtin_pow(settings[2], steps)));
    const T kept_share = lane::k(1 - settings[0] * settings[6]);
    for (int i = 0; i < SIZE; i += W) {
        const int left = SIZE - i < W ? SIZE - i : W;
        const auto get = [&](const real* p) { return left < W ? simd::load_part(p + i, left) : simd::load(p + i, 0); };
        const auto put = [&](real* p, T y) {
            left < W ? simd::copy(p + i, (real*)&y, left) : simd::store(p + i, 0, y);
        };
        const T g = get(grad) * factor, m = get(exp_avg), s = get(exp_avg_sq);
        const T m1 = m + (lane::k(1) - beta1) * (g - m), s1 = beta2 * s + (lane::k(1) - beta2) * g * g;
        put(grad, g), put(exp_avg, m1), put(exp_avg_sq, s1);
        put(theta, get(theta) * kept_share - step_size * m1 / (lane::sqrt(s1) * correction + epsilon));
    }
}
losses_p[member] = (real)(total / minibatches);
