// A minibatch of gradient descent over a regression, for all members of a critic, in three kernels of WARPS warps a block.
// Pasted into their bodies after WARPS, LAYERS, SIZE, MIRROR and the arrays' pointers are defined, and what `layout` in
// cuda_descent.py says of each layer l: sizes (inputs, outputs), places in a member's weights (weight, bias, scale, shift)
// and in their mirror (rows, columns, biases, scales, shifts): weights in rows and in columns, padded to whole groups of
// COLUMNS, so that eight of them are fetched at once.
//
// A block of GRADIENT takes 32 rows of the minibatch through all layers forth and back: a lane is a row, a warp takes
// eight outputs at a time, and no layer's numbers leave shared memory. Each leaves a gradient of its own; REDUCE adds
// them up, always in the same order, and STEP takes a step of Adam.
enum { COLUMNS = 8, STRIDE = 36, THREADS = 32 * WARPS };
#define UP(n) (((n) + COLUMNS - 1) / COLUMNS * COLUMNS)
const int group = block / 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32, thread = threadIdx.x;
if (idle_p && *idle_p != 0) return;  // of all blocks alike

struct in {
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

#if GRADIENT
const int tiles = (n + 31) / 32, member = group / tiles, tile = group % tiles, row = 32 * tile + lane;
const long long* const order = order_p;
const real* const mirror = mirror_p + (long long)member * MIRROR;
real* const out = partial_p + (long long)group * SIZE;
real *seen[LAYERS], *active[LAYERS], *mean[LAYERS], *spread[LAYERS];  // of rows; seen[0] is the input
real* memory = slots;
const auto take = [&](int count) { real* p = memory; memory += count; return p; };
seen[0] = take(inputs[0] * STRIDE);
#pragma unroll
for (int l = 0; l + 1 < LAYERS; ++l) {
    active[l] = take(outputs[l] * STRIDE), seen[l + 1] = take(outputs[l] * STRIDE);
    mean[l] = take(32), spread[l] = take(32);
}
real *const sums = take(32 * WARPS), *const more = take(32 * WARPS), *const errors = take(32);
// Over the warps, of every row.
const auto total = [&](const real* part) {
    real y = 0;
    for (int w = 0; w < WARPS; ++w) y += part[32 * w + lane];
    return y;
};
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    seen[0][k * STRIDE + r] = 32 * tile + r < n ? obs_p[order[32 * tile + r] * inputs[0] + k] : real(0);
}
MEET;

#pragma unroll
for (int l = 0; l + 1 < LAYERS; ++l) {
    const int width = UP(outputs[l]);
    real sum = 0, squares = 0;
    for (int j = COLUMNS * warp; j < outputs[l]; j += COLUMNS * WARPS) {
        real y[COLUMNS];
        for (int c = 0; c < COLUMNS; ++c) y[c] = mirror[biases[l] + j + c];
        in::multiply(y, seen[l], mirror + rows[l] + j, inputs[l], width, lane);
        for (int c = 0; c < COLUMNS; ++c) if (j + c < outputs[l]) {
            const real e = y[c] > 0 ? y[c] : ::expm1f(y[c]);
            active[l][(j + c) * STRIDE + lane] = e;
            sum += e;
        }
    }
    sums[thread] = sum;
    MEET;
    const real middle = total(sums) / outputs[l];
    for (int j = COLUMNS * warp; j < outputs[l]; j += COLUMNS * WARPS)
        for (int c = 0; c < COLUMNS; ++c) if (j + c < outputs[l]) {
            const real d = active[l][(j + c) * STRIDE + lane] - middle;
            squares += d * d;
        }
    more[thread] = squares;
    MEET;
    const real scaled = 1 / ::sqrtf(total(more) / outputs[l] + real(1e-5));
    if (warp == 0) mean[l][lane] = middle, spread[l][lane] = scaled;
    for (int j = COLUMNS * warp; j < outputs[l]; j += COLUMNS * WARPS)
        for (int c = 0; c < COLUMNS; ++c) if (j + c < outputs[l]) {
            const real x = (active[l][(j + c) * STRIDE + lane] - middle) * scaled;
            seen[l + 1][(j + c) * STRIDE + lane] = x * mirror[scales[l] + j + c] + mirror[shifts[l] + j + c];
        }
    MEET;
}

const int head = LAYERS - 1;
real value = 0;
for (int k = warp; k < inputs[head]; k += WARPS) value += seen[head][k * STRIDE + lane] * mirror[rows[head] + k];
sums[thread] = value;
MEET;
const real error = row < n ? total(sums) + mirror[biases[head]] - target_p[order[row]] : real(0);
const real pull = error * (real(2) / n);
if (warp == 0) {
    const real loss = in::over_lanes(error * error), all = in::over_lanes(pull);
    if (lane == 0) tile_losses_p[group] = loss, out[bias[head]] = all;
    errors[lane] = pull;
}
MEET;
for (int k = thread; k < inputs[head]; k += THREADS) {
    real y = 0;
    for (int q = 0; q < 8; ++q) y += in::dot(in::at(seen[head], k, q), in::at(errors, 0, q));
    out[weight[head] + k] = y;
}
MEET;

#pragma unroll
for (int l = LAYERS - 2; l >= 0; --l) {
    // What a layer's outputs are pulled by takes the place of the outputs, which nobody needs any more.
    real* const bar = seen[l + 1];
    const real middle = mean[l][lane], scaled = spread[l][lane];
    real plain = 0, along = 0;
    for (int j = COLUMNS * warp; j < outputs[l]; j += COLUMNS * WARPS) {
        real y[COLUMNS] = {};
        if (l + 2 < LAYERS)
            in::multiply(y, active[l + 1], mirror + columns[l + 1] + j, outputs[l + 1], UP(outputs[l]), lane);
        for (int c = 0; c < COLUMNS; ++c) if (j + c < outputs[l]) {
            const real up = l + 2 < LAYERS ? y[c] : pull * mirror[rows[head] + j + c];
            const real x = (active[l][(j + c) * STRIDE + lane] - middle) * scaled, h = up * mirror[scales[l] + j + c];
            bar[(j + c) * STRIDE + lane] = up;
            plain += h, along += h * x;
        }
    }
    sums[thread] = plain, more[thread] = along;
    MEET;
    for (int j = thread; j < outputs[l]; j += THREADS) {
        real down = 0, across = 0;
        for (int r = 0; r < 32; ++r) {
            const real up = bar[j * STRIDE + r];
            down += up, across += up * (active[l][j * STRIDE + r] - mean[l][r]) * spread[l][r];
        }
        out[shift[l] + j] = down, out[scale[l] + j] = across;
    }
    const real c = total(sums) / outputs[l], d = total(more) / outputs[l];
    MEET;
    // The derivative before the activation takes the place of the activation.
    for (int j = warp; j < outputs[l]; j += WARPS) {
        const real e = active[l][j * STRIDE + lane], x = (e - middle) * scaled;
        const real back = (bar[j * STRIDE + lane] * mirror[scales[l] + j] - c - x * d) * scaled;
        active[l][j * STRIDE + lane] = e > 0 ? back : back * (e + 1);
    }
    MEET;
    for (int j = thread; j < outputs[l]; j += THREADS) {
        real y = 0;
        for (int q = 0; q < 8; ++q) {
            const float4 a = in::at(active[l], j, q);
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
                a[i] = in::at(seen[l], in::least(k + i * down, inputs[l] - 1), q);
                b[i] = in::at(active[l], in::least(j + i * across, outputs[l] - 1), q);
            }
            for (int p = 0; p < 4; ++p) for (int i = 0; i < 4; ++i) y[p][i] += in::dot(a[p], b[i]);
        }
        for (int p = 0; p < 4; ++p) for (int i = 0; i < 4; ++i)
            if (k + p * down < inputs[l] && j + i * across < outputs[l])
                out[weight[l] + (k + p * down) * outputs[l] + j + i * across] = y[p][i];
    }
    MEET;
}
#endif

#if REDUCE
// A block takes 32 weights: a lane is a weight, warps share the tiles.
const int tiles = (n + 31) / 32, blocks = (SIZE + 31) / 32, member = group / blocks, i = group % blocks * 32 + lane;
const real* const partial = partial_p + (long long)member * tiles * SIZE;
real sum = 0;
for (int t = warp; i < SIZE && t < tiles; t += WARPS) sum += partial[(long long)t * SIZE + i];
slots[thread] = sum;
MEET;
if (warp == 0) {
    real g = 0;
    for (int w = 0; w < WARPS; ++w) g += slots[32 * w + lane];
    if (i < SIZE) grad_p[(long long)member * SIZE + i] = g;
    const real squares = in::over_lanes(g * g);
    if (lane == 0) squares_p[group] = squares;
} else if (warp == 1 && group % blocks == 0) {
    real loss = 0;
    for (int t = lane; t < tiles; t += 32) loss += tile_losses_p[member * tiles + t];
    loss = in::over_lanes(loss);
    if (lane == 0) losses_p[task.steps * MEMBERS + member] = loss / n;
}
#endif

#if STEP
// A block takes THREADS weights. `task.steps` minibatches of this pass came before; in `task.n` of −1 nothing moves, and
// weights are only copied to their mirror.
const int blocks = (SIZE + THREADS - 1) / THREADS, member = group / blocks, i = group % blocks * THREADS + thread;
const long long place = (long long)member * SIZE + i;
real y = i < SIZE ? theta_p[place] : real(0);
if (n >= 0) {
    const int count = (SIZE + 31) / 32;
    real squares = 0;
    for (int k = thread; k < count; k += THREADS) squares += squares_p[member * count + k];
    squares = in::over_lanes(squares);
    if (lane == 0) slots[warp] = squares;
    if (thread == 0) {
        const double steps = (double)*steps_p + task.steps + 1;
        slots[WARPS] = (real)(*rate_p / (1 - ::pow(BETA1, steps)));
        slots[WARPS + 1] = (real)(1 / ::sqrt(1 - ::pow(BETA2, steps)));
    }
    MEET;
    squares = 0;
    for (int w = 0; w < WARPS; ++w) squares += slots[w];
    const real shrink = real(MAX_NORM) / (::sqrtf(squares) + real(1e-6));
    if (i < SIZE) {
        // As torch's clip_grad_norm_ and Adam have it.
        const real g = grad_p[place] * (shrink < 1 ? shrink : real(1)), m = first_p[place], s = second_p[place];
        const real m1 = m + real(1 - BETA1) * (g - m), s1 = real(BETA2) * s + real(1 - BETA2) * g * g;
        y -= slots[WARPS] * m1 / (::sqrtf(s1) * slots[WARPS + 1] + real(EPSILON));
        grad_p[place] = g, first_p[place] = m1, second_p[place] = s1, theta_p[place] = y;
    }
}
real* const mirror = mirror_p + (long long)member * MIRROR;
#pragma unroll
for (int l = 0; l < LAYERS; ++l) {
    if (i >= weight[l] && i < bias[l]) {
        const int k = (i - weight[l]) / outputs[l], j = (i - weight[l]) % outputs[l];
        if (l + 1 < LAYERS) mirror[rows[l] + k * UP(outputs[l]) + j] = y;
        else mirror[rows[l] + k] = y;
        if (l > 0 && l + 1 < LAYERS) mirror[columns[l] + j * UP(inputs[l]) + k] = y;
    } else if (i >= bias[l] && i < scale[l]) mirror[biases[l] + i - bias[l]] = y;
    else if (i >= scale[l] && i < shift[l]) mirror[scales[l] + i - scale[l]] = y;
    else if (i >= shift[l] && i < end[l]) mirror[shifts[l] + i - shift[l]] = y;
}
#endif
#undef UP
