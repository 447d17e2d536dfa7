// Shuffles, votes, warp reductions, scans.
#include "../host.h"

extern "C" __global__ void warp_scan(const int *x, int *inclusive, int *exclusive) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int sum = x[i];
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += other;
    }
    inclusive[i] = sum;
    const int before = __shfl_up_sync(~0u, sum, 1);
    exclusive[i] = lane == 0 ? 0 : before;
}
EXPORT(warp_scan)

extern "C" __global__ void block_scan(const unsigned *x, unsigned *y, int n) {
    __shared__ unsigned totals[8];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned sum = i < n ? x[i] : 0;
    for (int distance = 1; distance < 32; distance *= 2) {
        const unsigned other = __shfl_up_sync(~0u, sum, distance);
        if (lane >= distance) sum += other;
    }
    if (lane == 31) totals[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        unsigned total = lane < int(blockDim.x) / 32 ? totals[lane] : 0;
        for (int distance = 1; distance < 8; distance *= 2) {
            const unsigned other = __shfl_up_sync(~0u, total, distance, 8);
            if (lane % 8 >= distance) total += other;
        }
        if (lane < int(blockDim.x) / 32) totals[lane] = total;
    }
    __syncthreads();
    if (warp > 0) sum += totals[warp - 1];
    if (i < n) y[i] = sum;
}
EXPORT(block_scan)

// Scan of Hillis and Steele in shared memory, two buffers in turn.
extern "C" __global__ void shared_scan(const int *x, int *y) {
    DYNAMIC_SHARED(int, buffer);
    const unsigned n = blockDim.x, i = threadIdx.x;
    unsigned in = 0;
    buffer[i] = x[blockIdx.x * n + i];
    __syncthreads();
    for (unsigned distance = 1; distance < n; distance *= 2) {
        const unsigned out = 1 - in;
        buffer[out * n + i] = buffer[in * n + i] + (i >= distance ? buffer[in * n + i - distance] : 0);
        in = out;
        __syncthreads();
    }
    y[blockIdx.x * n + i] = buffer[in * n + i];
}
EXPORT(shared_scan)

extern "C" __global__ void shuffles(const double *x, double *y, int source) {
    const int i = threadIdx.x;
    const double value = x[i];
    double *mine = y + 6 * i;
    mine[0] = __shfl_sync(~0u, value, source);
    mine[1] = __shfl_sync(~0u, value, i + source, 8);
    mine[2] = __shfl_up_sync(~0u, value, 3, 16);
    mine[3] = __shfl_down_sync(~0u, value, 5, 16);
    mine[4] = __shfl_xor_sync(~0u, value, 9);
    mine[5] = __shfl_xor_sync(~0u, value, 6, 4);
}
EXPORT(shuffles)

extern "C" __global__ void votes(const int *x, unsigned *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int value = x[i];
    unsigned *mine = y + 8 * i;
    mine[0] = __ballot_sync(~0u, value > 0);
    mine[1] = __any_sync(~0u, value > 50);
    mine[2] = __all_sync(~0u, value > -100);
    mine[3] = __match_any_sync(~0u, value & 3);
    int same;
    mine[4] = __match_all_sync(~0u, value < 1000, &same);
    mine[5] = same;
    mine[6] = __syncthreads_count(value > 0);
    mine[7] = __syncthreads_or(value == 7) * 2 + __syncthreads_and(value < 90);
}
EXPORT(votes)

// Only some lanes: those of the mask, in code that the others jump over.
extern "C" __global__ void votes_of_some(const int *x, unsigned *y) {
    const int i = threadIdx.x, lane = i % 32;
    const int value = x[i];
    unsigned result = 0xdead;
    if (lane < 12) {
        result = __ballot_sync(0xfff, value & 1) << 12 | unsigned(__shfl_sync(0xfff, value,
            11 - lane) & 0xfff);
    } else if (lane < 20) {
        result = __reduce_add_sync(0xff000u, unsigned(value)) + __match_any_sync(0xff000u, value & 1);
    }
    __syncwarp();
    y[i] = result;
}
EXPORT(votes_of_some)

extern "C" __global__ void warp_reductions(const int *x, int *y) {
    const int value = x[blockIdx.x * blockDim.x + threadIdx.x];
    int *mine = y + 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    mine[0] = __reduce_add_sync(~0u, value);
    mine[1] = __reduce_min_sync(~0u, value);
    mine[2] = __reduce_max_sync(~0u, value);
    mine[3] = int(__reduce_min_sync(~0u, unsigned(value)));
    mine[4] = int(__reduce_max_sync(~0u, unsigned(value)));
    mine[5] = int(__reduce_and_sync(~0u, unsigned(value) | 0xff));
    mine[6] = int(__reduce_or_sync(~0u, unsigned(value) & 0xffff));
    mine[7] = int(__reduce_xor_sync(~0u, unsigned(value)));
}
EXPORT(warp_reductions)

// Appends the elements that pass, a place for a whole warp at a time: the order of warps is free, so tests
// sort.
extern "C" __global__ void compact(const int *x, int *y, int *count, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const bool keep = i < n && x[i] % 3 == 0;
    const unsigned kept = __ballot_sync(~0u, keep);
    int base = 0;
    if (lane == 0 && kept) base = atomicAdd(count, __popc(kept));
    base = __shfl_sync(~0u, base, 0);
    if (keep) y[base + __popc(kept & ((1u << lane) - 1))] = x[i];
}
EXPORT(compact)
