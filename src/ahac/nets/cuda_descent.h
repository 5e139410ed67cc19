// A minibatch of gradient descent over a regression, for all members of a critic, in three kernels. Pasted into their bodies
// behind cuda_layers.h, where SIZE and the places in a member's weights (weight, bias, scale, shift, end) are defined, too.
//
// A block of GRADIENT takes 32 rows of the minibatch through all layers forth and back, and leaves a gradient of its own;
// REDUCE adds them up, always in the same order; STEP takes a step of Adam, and mirrors the weights for the next one.
#if GRADIENT
const int row = 32 * tile + lane;
real *const out = partial_p + (long long)group * SIZE, *const pulls = take(32);
for (int i = thread; i < 32 * inputs[0]; i += THREADS) {
    const int r = i / inputs[0], k = i % inputs[0];
    seen[0][k * STRIDE + r] = 32 * tile + r < n ? obs_p[order_p[32 * tile + r] * inputs[0] + k] : real(0);
}
MEET;
#pragma unroll
for (int l = 0; l < HEAD; ++l) forth(l);

real value = 0;
for (int k = warp; k < inputs[HEAD]; k += WARPS) value += seen[HEAD][k * STRIDE + lane] * mirror[columns[HEAD] + k];
sums[thread] = value;
MEET;
if (warp == 0) {
    const real error = row < n ? total(sums) + mirror[biases[HEAD]] - target_p[order_p[row]] : real(0);
    const real pull = error * (real(2) / n);
    const real loss = in::over_lanes(error * error), all = in::over_lanes(pull);
    if (lane == 0) tile_losses_p[group] = loss, out[bias[HEAD]] = all;
    active[HEAD][lane] = pulls[lane] = pull;
}
MEET;
for (int k = thread; k < inputs[HEAD]; k += THREADS) {
    real y = 0;
    for (int q = 0; q < 8; ++q) y += in::dot(in::at(seen[HEAD], k, q), in::at(pulls, 0, q));
    out[weight[HEAD] + k] = y;
}
MEET;

#pragma unroll
for (int l = HEAD - 1; l >= 0; --l) {
    pulled(l);
    for (int j = thread; j < outputs[l]; j += THREADS) {
        real down = 0, across = 0;
        for (int r = 0; r < 32; ++r) {
            const real up = seen[l + 1][j * STRIDE + r];
            down += up, across += up * (active[l][j * STRIDE + r] - mean[l][r]) * spread[l][r];
        }
        out[shift[l] + j] = down, out[scale[l] + j] = across;
    }
    MEET;
    back(l);
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
// A block takes THREADS weights. `task.steps` minibatches of this pass came before; where n is −1 nothing moves, and
// weights are only mirrored.
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
real* const copy = mirror_p + (long long)member * MIRROR;
#pragma unroll
for (int l = 0; l < LAYERS; ++l) {
    if (i >= weight[l] && i < bias[l]) {
        const int k = (i - weight[l]) / outputs[l], j = (i - weight[l]) % outputs[l];
        copy[rows[l] + k * UP(outputs[l]) + j] = copy[columns[l] + j * UP(inputs[l]) + k] = y;
    } else if (i >= bias[l] && i < scale[l]) copy[biases[l] + i - bias[l]] = y;
    else if (i >= scale[l] && i < shift[l]) copy[scales[l] + i - scale[l]] = y;
    else if (i >= shift[l] && i < end[l]) copy[shifts[l] + i - shift[l]] = y;
}
#endif
