// Row-wise reductions of a model: softmax, norms, sums.
#include "../host.h"

// One block a row, two passes over it, tree reductions in dynamic shared memory.
extern "C" __global__ void softmax_two_pass(const float *x, float *y, int columns) {
    DYNAMIC_SHARED(float, partial);
    const float *row = x + size_t(blockIdx.x) * columns;
    float best = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) best = fmaxf(best, row[i]);
    partial[threadIdx.x] = best;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x +
            half]);
        __syncthreads();
    }
    best = partial[0];
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - best);
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    sum = partial[0];
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[size_t(blockIdx.x) * columns + i] = expf(row[i] - best) / sum;
}
EXPORT(softmax_two_pass)

// One warp a row, running maximum and sum, combined by butterfly shuffles.
extern "C" __global__ void softmax_online(const float *x, float *y, int rows, int columns) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float *in = x + size_t(row) * columns;
    float best = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32) {
        const float higher = fmaxf(best, in[i]);
        sum = sum * expf(best - higher) + expf(in[i] - higher);
        best = higher;
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other_best = __shfl_xor_sync(~0u, best, distance);
        const float other_sum = __shfl_xor_sync(~0u, sum, distance);
        const float higher = fmaxf(best, other_best);
        sum = sum * expf(best - higher) + other_sum * expf(other_best - higher);
        best = higher;
    }
    for (int i = threadIdx.x; i < columns; i += 32) y[size_t(row) * columns + i] = expf(in[i] - best) / sum;
}
EXPORT(softmax_online)

// Sum over a block: shuffles inside warps, shared memory between them; every thread gets it.
__device__ float block_sum(float value) {
    __shared__ float sums[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_down_sync(~0u, value, distance);
    if (lane == 0) sums[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < warps ? sums[lane] : 0.0f;
        for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
        if (lane == 0) sums[0] = value;
    }
    __syncthreads();
    value = sums[0];
    __syncthreads();
    return value;
}

// A tree in shared memory whose last steps are taken by one warp, with barriers of the warp only.
extern "C" __global__ void warp_tree(const float *x, float *y) {
    __shared__ float cells[128];
    const int i = threadIdx.x;
    cells[i] = x[blockIdx.x * 256 + i] + x[blockIdx.x * 256 + 128 + i];
    __syncthreads();
    if (i < 64) cells[i] += cells[i + 64];
    __syncthreads();
    if (i < 32) {
        float sum = cells[i] + cells[i + 32];
        for (int distance = 16; distance > 0; distance /= 2) {
            __syncwarp();
            cells[i] = sum;
            __syncwarp();
            sum += cells[(i + distance) & 31];
        }
        if (i == 0) y[blockIdx.x] = sum;
    }
}
EXPORT(warp_tree)

extern "C" __global__ void rms_norm(const float *x, const float *weight, float *y, int columns,
    float epsilon) {
    const float *row = x + size_t(blockIdx.x) * columns;
    float squares = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += row[i] * row[i];
    const float scale = 1.0f / sqrtf(block_sum(squares) / columns + epsilon);
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        y[size_t(blockIdx.x) * columns + i] = row[i] * scale * weight[i];
}
EXPORT(rms_norm)

// Four elements at a time; the row stays in registers between the passes.
extern "C" __global__ void layer_norm(const float4 *x, const float4 *weight, const float4 *bias,
    float4 *y, float epsilon) {
    const size_t at = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const float4 v = x[at], w = weight[threadIdx.x], b = bias[threadIdx.x];
    const float count = 4.0f * blockDim.x;
    const float mean = block_sum((v.x + v.y) + (v.z + v.w)) / count;
    const float4 d = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
    const float variance = block_sum((d.x * d.x + d.y * d.y) + (d.z * d.z + d.w * d.w)) / count;
    const float scale = 1.0f / sqrtf(variance + epsilon);
    y[at] = make_float4(d.x * scale * w.x + b.x, d.y * scale * w.y + b.y, d.z * scale * w.z + b.z,
                        d.w * scale * w.w + b.w);
}
EXPORT(layer_norm)

// Largest element of a block and its place, the first of equal ones: a 64-bit value through shuffles.
extern "C" __global__ void argmax(const float *x, int *places, int columns) {
    __shared__ unsigned long long best_of[8];
    unsigned long long best = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) {
        const unsigned bits = __float_as_uint(x[size_t(blockIdx.x) * columns + i]);
        const unsigned ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
        best = max(best, (unsigned long long)ordered << 32 | ~unsigned(i));
    }
    for (int distance = 16; distance > 0; distance /= 2) best = max(best, __shfl_xor_sync(~0u, best,
        distance));
    if (threadIdx.x % 32 == 0) best_of[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) best = max(best, best_of[warp]);
        places[blockIdx.x] = int(~unsigned(best));
    }
}
EXPORT(argmax)

__device__ unsigned blocks_done;

// The block that is last to end adds up what all blocks left, and sets the counter back.
extern "C" __global__ void sum_last_block(const float *x, float *partial, float *total, int n) {
    __shared__ bool last;
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        volatile float *mine = partial + blockIdx.x;
        *mine = sum;
        __threadfence();
        last = atomicAdd(&blocks_done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    sum = 0;
    const volatile float *all = partial;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += all[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *total = sum;
        blocks_done = 0;
    }
}
EXPORT(sum_last_block)
