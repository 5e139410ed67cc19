// One pass of gradient descent over a regression, for one member of a critic: minibatch by minibatch the mean squared
// error's gradient, clipped by its norm, and a step of Adam. Pasted into the body of a kernel after these are defined:
// LAYERS, OBS, SIZE (weights of a member), SCRATCH, TILE, ROWS, and `shape`: {inputs, outputs} of every layer.
//
// Weights are copied to rows padded with zeros to whole SIMD registers, so that every loop below runs over registers.
// Rows of the minibatch go through all layers forth and back in groups of ROWS, small enough to stay in the cache.
struct in {
    static constexpr int up(int n, int to) { return (n + to - 1) / to * to; }
    static T at(const real* p, int i) { return lane::get(p + i * W); }
    static void to(real* p, int i, T y) { lane::put(p + i * W, y); }
    static real sum(T a) {
        // Four sums side by side, then one.
        typedef real Q __attribute__((vector_size(4 * sizeof(real))));
        Q q[W / 4], s{};
        __builtin_memcpy(q, &a, sizeof(T));
        for (int i = 0; i < W / 4; ++i) s += q[i];
        return (s[0] + s[1]) + (s[2] + s[3]);
    }
    static T part(const real* p, int n) { T y{}; __builtin_memcpy(&y, p, n * sizeof(real)); return y; }
    static void copy(real* to, const real* from, int n) { __builtin_memcpy(to, from, n * sizeof(real)); }
    static void clear(real* p, int n) { __builtin_memset(p, 0, n * sizeof(real)); }

    // C[M, V registers] = (begin or C) + A B: a tile of TILE rows by up to 4 registers stays in registers over k.
    // `begin` is one row, added to all; A has strides of its own, so that it may be a transpose.
#define TILE_OF(V)                                                                                     \
    for (int m = 0; m < M; m += TILE) {                                                                \
        T c[TILE][V];                                                                                  \
        for (int r = 0; r < TILE; ++r) for (int v = 0; v < V; ++v)                                     \
            c[r][v] = begin ? at(begin, n + v) : at(C + (m + r) * width, n + v);                       \
        for (int k = 0; k < K; ++k) {                                                                  \
            T b[V];                                                                                    \
            for (int v = 0; v < V; ++v) b[v] = at(B + k * width, n + v);                               \
            for (int r = 0; r < TILE; ++r) {                                                           \
                const T a = lane::k(A[(m + r) * down + k * across]);                                   \
                for (int v = 0; v < V; ++v) c[r][v] += a * b[v];                                       \
            }                                                                                          \
        }                                                                                              \
        for (int r = 0; r < TILE; ++r) for (int v = 0; v < V; ++v) to(C + (m + r) * width, n + v, c[r][v]); \
    }
    static void multiply(real* C, const real* begin, const real* A, int down, int across, const real* B, int M, int K,
                         int width) {
        int n = 0;
        for (; n + 4 <= width / W; n += 4) TILE_OF(4)
        for (; n < width / W; ++n) TILE_OF(1)
    }
#undef TILE_OF
};
// A layer's numbers: padded sizes, where its weights are in theta, and its scratch memory.
struct Layer {
    int inputs, outputs, rows, width, back;  // rows: inputs padded to tiles; width, back: outputs and inputs to registers
    int weight, bias, scale, shift;
    real *w, *wt, *b, *s, *h, *mask;                         // padded weights
    real *w_bar, *b_bar, *s_bar, *h_bar;                     // their gradients
    real *active, *seen, *bar, *mean, *spread;               // of a group of rows
};
const int member = block;
const double* const numbers = (const double*)numbers_p;      // rate, beta1, beta2, epsilon, steps so far, largest norm
const long long* const order = (const long long*)order_p;
real* const theta = theta_p + (long long)member * SIZE;
real* const first = first_p + (long long)member * SIZE;
real* const second = second_p + (long long)member * SIZE;
real* const grad = grad_p + (long long)member * SIZE;
real* memory = scratch_p + (long long)member * SCRATCH;
const auto take = [&](int n) { real* p = memory; memory += in::up(n, W); in::clear(p, in::up(n, W)); return p; };

Layer layer[LAYERS];
int place = 0, widest = W;
for (int l = 0; l < LAYERS; ++l) {
    Layer& y = layer[l];
    y.inputs = shape[l][0], y.outputs = shape[l][1];
    y.rows = in::up(y.inputs, TILE), y.width = in::up(y.outputs, W), y.back = in::up(y.inputs, W);
    y.weight = place, y.bias = y.weight + y.inputs * y.outputs, y.scale = y.bias + y.outputs;
    y.shift = y.scale + y.outputs;
    place = l + 1 < LAYERS ? y.shift + y.outputs : y.scale;
    y.w = take(y.inputs * y.width), y.wt = take(y.outputs * y.back);
    y.b = take(y.width), y.s = take(y.width), y.h = take(y.width), y.mask = take(y.width);
    y.w_bar = take(y.rows * y.width), y.b_bar = take(y.width), y.s_bar = take(y.width), y.h_bar = take(y.width);
    y.active = take(ROWS * y.width), y.seen = take(ROWS * y.width + TILE);
    y.bar = take(ROWS * y.width), y.mean = take(ROWS), y.spread = take(ROWS);
    for (int j = 0; j < y.outputs; ++j) y.mask[j] = 1;
    if (y.back > widest) widest = y.back;
}
const int into = in::up(OBS, W);
real* const zeros = take(widest);
real* const input = take(ROWS * into + TILE);
real* const error = take(ROWS);
const Layer& head = layer[LAYERS - 1];
double total = 0;

for (int part = 0, from = 0; part < minibatches; ++part) {
    const int rows = n / minibatches + (part < n % minibatches);
    for (int l = 0; l < LAYERS; ++l) {
        const Layer& y = layer[l];
        for (int i = 0; i < y.inputs; ++i) in::copy(y.w + i * y.width, theta + y.weight + i * y.outputs, y.outputs);
        for (int i = 0; i < y.inputs; ++i)
            for (int j = 0; j < y.outputs; ++j) y.wt[j * y.back + i] = theta[y.weight + i * y.outputs + j];
        in::copy(y.b, theta + y.bias, y.outputs);
        if (l + 1 < LAYERS) in::copy(y.s, theta + y.scale, y.outputs), in::copy(y.h, theta + y.shift, y.outputs);
        in::clear(y.w_bar, y.rows * y.width), in::clear(y.b_bar, y.width);
        in::clear(y.s_bar, y.width), in::clear(y.h_bar, y.width);
    }
    double squares = 0;
    for (int start = 0; start < rows; start += ROWS) {
        // Rows that fill up the last group are all zero, and so is what goes back from them.
        const int real_rows = rows - start < ROWS ? rows - start : ROWS, count = in::up(real_rows, TILE);
        in::clear(input + real_rows * into, (count - real_rows) * into);
        for (int r = 0; r < real_rows; ++r) in::copy(input + r * into, obs_p + order[from + start + r] * OBS, OBS);

        for (int l = 0; l + 1 < LAYERS; ++l) {
            const Layer& y = layer[l];
            const int last = y.width / W;
            in::multiply(y.active, y.b, l ? layer[l - 1].seen : input, l ? layer[l - 1].width : into, 1, y.w, count,
                         y.inputs, y.width);
            for (int r = 0; r < count; ++r) {
                real *a = y.active + r * y.width, *x = y.seen + r * y.width;
                T all{}, square{};
                for (int v = 0; v < last; ++v) {
                    const T u = in::at(a, v), e = lane::less(T{}, u, u, lane::exp(lane::min(u, T{})) - lane::k(1));
                    in::to(a, v, e);
                    all += e;
                }
                const real mean = in::sum(all) / y.outputs;
                for (int v = 0; v < last; ++v) {
                    const T d = (in::at(a, v) - mean) * in::at(y.mask, v);
                    square += d * d;
                }
                const real spread = 1 / __builtin_sqrtf(in::sum(square) / y.outputs + real(1e-5));
                y.mean[r] = mean, y.spread[r] = spread;
                for (int v = 0; v < last; ++v)
                    in::to(x, v, (in::at(a, v) - mean) * spread * in::at(y.s, v) + in::at(y.h, v));
            }
        }
        // The head has one output: its weights are a row, of `wt`, and so is their gradient.
        const real* const x = LAYERS > 1 ? layer[LAYERS - 2].seen : input;
        for (int r = 0; r < count; ++r) {
            T dot{};
            for (int v = 0; v < head.back / W; ++v) dot += in::at(x + r * head.back, v) * in::at(head.wt, v);
            const real e = r < real_rows ? in::sum(dot) + head.b[0] - target_p[order[from + start + r]] : real(0);
            squares += (double)e * e;
            error[r] = e * (real(2) / rows);
            head.b_bar[0] += error[r];
            for (int v = 0; v < head.back / W; ++v)
                in::to(head.w_bar, v, in::at(head.w_bar, v) + error[r] * in::at(x + r * head.back, v));
        }
        for (int l = LAYERS - 2; l >= 0; --l) {
            const Layer &y = layer[l], &next = layer[l + 1];
            const int last = y.width / W;
            if (l + 2 < LAYERS)
                in::multiply(y.bar, zeros, next.bar, next.width, 1, next.wt, count, next.outputs, y.width);
            for (int r = 0; r < count; ++r) {
                real *a = y.active + r * y.width, *g = y.bar + r * y.width;
                const real mean = y.mean[r], spread = y.spread[r];
                T plain{}, along{};
                for (int v = 0; v < last; ++v) {
                    const T up = l + 2 < LAYERS ? in::at(g, v) : error[r] * in::at(head.wt, v);
                    const T x = (in::at(a, v) - mean) * spread * in::at(y.mask, v), h = up * in::at(y.s, v);
                    in::to(y.s_bar, v, in::at(y.s_bar, v) + up * x);
                    in::to(y.h_bar, v, in::at(y.h_bar, v) + up);
                    in::to(g, v, h);
                    plain += h, along += h * x;
                }
                const real c = in::sum(plain) / y.outputs, d = in::sum(along) / y.outputs;
                for (int v = 0; v < last; ++v) {
                    const T e = in::at(a, v), x = (e - mean) * spread;
                    const T back = (in::at(g, v) - c - x * d) * spread * in::at(y.mask, v);
                    const T through = lane::less(T{}, e, back, back * (e + lane::k(1)));
                    in::to(g, v, through);
                    in::to(y.b_bar, v, in::at(y.b_bar, v) + through);
                }
            }
            in::multiply(y.w_bar, 0, l ? layer[l - 1].seen : input, 1, l ? layer[l - 1].width : into, y.bar, y.rows,
                         count, y.width);
        }
    }
    total += squares / rows;
    from += rows;

    for (int l = 0; l < LAYERS; ++l) {
        const Layer& y = layer[l];
        const bool hidden = l + 1 < LAYERS;
        for (int i = 0; hidden && i < y.inputs; ++i)
            in::copy(grad + y.weight + i * y.outputs, y.w_bar + i * y.width, y.outputs);
        if (!hidden) in::copy(grad + y.weight, y.w_bar, y.inputs);
        in::copy(grad + y.bias, y.b_bar, y.outputs);
        if (hidden) in::copy(grad + y.scale, y.s_bar, y.outputs), in::copy(grad + y.shift, y.h_bar, y.outputs);
    }
    T squared{};
    for (int i = 0; i < SIZE; i += W) {
        const T g = SIZE - i < W ? in::part(grad + i, SIZE - i) : in::at(grad + i, 0);
        squared += g * g;
    }
    // As torch's clip_grad_norm_ and Adam have it.
    const double shrink = numbers[5] / (__builtin_sqrt((double)in::sum(squared)) + 1e-6);
    const double steps = numbers[4] + part + 1;
    const T factor = lane::k(shrink < 1 ? (real)shrink : real(1));
    const T keep1 = lane::k(numbers[1]), keep2 = lane::k(numbers[2]), epsilon = lane::k(numbers[3]);
    const T pace = lane::k(numbers[0] / (1 - __builtin_pow(numbers[1], steps)));
    const T root = lane::k(1 / __builtin_sqrt(1 - __builtin_pow(numbers[2], steps)));
    for (int i = 0; i < SIZE; i += W) {
        const int left = SIZE - i < W ? SIZE - i : W;
        const auto get = [&](const real* p) { return left < W ? in::part(p + i, left) : in::at(p + i, 0); };
        const auto put = [&](real* p, T y) { left < W ? in::copy(p + i, (real*)&y, left) : in::to(p + i, 0, y); };
        const T g = get(grad) * factor, m = get(first), s = get(second);
        const T m1 = m + (lane::k(1) - keep1) * (g - m), s1 = keep2 * s + (lane::k(1) - keep2) * g * g;
        put(grad, g), put(first, m1), put(second, s1);
        put(theta, get(theta) - pace * m1 / (lane::sqrt(s1) * root + epsilon));
    }
}
losses_p[member] = (real)(total / minibatches);
