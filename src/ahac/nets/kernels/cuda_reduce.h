// Sum of the partial gradients of cuda_gradient.h, always in the same order; the sum of squares of each 32 weights, for
// the gradient norm; and the loss.
//
// A block takes 32 weights: a lane is a weight, and the warps share the tiles.
const int tiles = (n + 31) / 32, blocks = (SIZE + 31) / 32, member = group / blocks, i = group % blocks * 32 + lane;
const real* const partial = partial_p + (long long)member * tiles * SIZE;
real sum = 0;
#pragma unroll 8
for (int t = warp; i < SIZE && t < tiles; t += WARPS) sum += partial[(long long)t * SIZE + i];
slots[thread] = sum;
SYNC;
if (warp == 0) {
    real g = 0;
    for (int w = 0; w < WARPS; ++w) g += slots[32 * w + lane];
    if (i < SIZE) grad_p[(long long)member * SIZE + i] = g;
    const real squares = math::warp_sum(g * g);
    if (lane == 0) squares_p[group] = squares;
} else if (warp == 1 && group % blocks == 0) {
    real loss = 0;
    for (int t = lane; t < tiles; t += 32) loss += tile_losses_p[member * tiles + t];
    loss = math::warp_sum(loss);
    if (lane == 0) losses_p[minibatch * MEMBERS + member] = loss / n;
}
