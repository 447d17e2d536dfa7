// Kernels with one mistake each. A line that ends in `// fault: KIND` is where the emulator must see it.
#include <cuda_pipeline.h>

extern "C" __global__ void no_barrier(const int *x, int *y) {
    __shared__ int cells[64];
    cells[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = cells[63 - threadIdx.x];  // fault: shared-memory race
}

// The barrier before the next turn's write is missing.
extern "C" __global__ void no_barrier_at_the_end(const int *x, int *y, int turns) {
    __shared__ int cells[64];
    int sum = 0;
#pragma unroll 1
    for (int turn = 0; turn < turns; ++turn) {
        cells[threadIdx.x] = x[turn * 64 + threadIdx.x];  // fault: shared-memory race
        __syncthreads();
        sum += cells[63 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}

// The last warp of a tree, as it was written for GPUs whose warps ran in step.
extern "C" __global__ void warp_synchronous(const int *x, int *y) {
    __shared__ int cells[64];
    cells[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) {
        cells[threadIdx.x] = cells[threadIdx.x] + cells[threadIdx.x + 32];
        y[threadIdx.x] = cells[threadIdx.x ^ 16];  // fault: shared-memory race
    }
}

extern "C" __global__ void count_without_atomics(const int *x, int *y) {
    __shared__ int bins[4];
    if (threadIdx.x < 4) bins[threadIdx.x] = 0;
    __syncthreads();
    bins[x[threadIdx.x] & 3] += 1;  // fault: shared-memory race
    __syncthreads();
    if (threadIdx.x < 4) y[threadIdx.x] = bins[threadIdx.x];
}

extern "C" __global__ void one_too_many(const float *x, float *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = 2 * x[0];  // fault: out of bounds
}

extern "C" __global__ void one_before(const float *x, float *y) {
    const int i = threadIdx.x;
    y[i] = x[i - 1];  // fault: out of bounds
}

extern "C" __global__ void beyond_shared(const int *x, int *y) {
    __shared__ int cells[64];
    cells[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 0) cells[0] = x[1];
    __syncthreads();
    y[threadIdx.x] = cells[threadIdx.x + 1];  // fault: out of bounds
}

extern "C" __global__ void dynamic_too_small(int *y) {
    extern __shared__ int memory[];
    memory[threadIdx.x] = threadIdx.x;  // fault: out of bounds
    __syncthreads();
    y[threadIdx.x] = memory[threadIdx.x & 31];
}

extern "C" __global__ void misaligned(const float *x, float4 *y, int first) {
    y[threadIdx.x] = *reinterpret_cast<const float4 *>(x + first + 4 * threadIdx.x);  // fault: misaligned
}

extern "C" __global__ void unwritten_shared(const int *x, int *y) {
    __shared__ int cells[64];
    if (threadIdx.x < 60) cells[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = cells[63 - threadIdx.x];  // fault: unwritten memory
}

extern "C" __global__ void unwritten_local(const int *x, int *y) {
    int ring[8];
    for (int k = 0; k < 7; ++k) ring[(x[threadIdx.x] + k) & 7] = k;
    y[threadIdx.x] = ring[(x[threadIdx.x] >> 3) & 7];  // fault: unset register
}

extern "C" __global__ void unwritten_global(float *y, int n) {
    const int i = threadIdx.x;
    if (i < n - 1) y[i] = 1;
    __syncthreads();
    if (i < n) y[i] += 2;  // fault: unwritten memory
}

extern "C" __global__ void barrier_in_a_branch(const int *x, int *y) {
    __shared__ int cells[64];
    cells[threadIdx.x] = x[threadIdx.x];
    if (x[threadIdx.x] > 40) {
        __syncthreads();  // fault: barrier
        cells[threadIdx.x] += 1;
    }
    y[threadIdx.x] = cells[threadIdx.x];
}

// Both sides have a barrier, but not the same one.
extern "C" __global__ void barriers_on_both_sides(const int *x, int *y) {
    if (x[threadIdx.x] > 40) {
        y[threadIdx.x] = 1;
        __syncthreads();  // fault: barrier
        y[threadIdx.x + 64] = 2;
    } else {
        y[threadIdx.x] = 3;
        __syncthreads();  // fault: barrier
        y[threadIdx.x + 64] = 4;
    }
}

extern "C" __global__ void every_block_writes(int *y) {
    y[threadIdx.x] = int(blockIdx.x);  // fault: conflict between blocks
}

__device__ void put(int *cell, int value);

extern "C" __global__ void every_block_writes_by_a_call(int *y) { put(y + threadIdx.x, int(blockIdx.x)); }

__device__ __noinline__ void put(int *cell, int value) {
    *cell = value;  // fault: conflict between blocks
}

extern "C" __global__ void reads_what_another_block_writes(int *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    y[i] = 1;
    y[n + i] = y[(i + blockDim.x) % n];  // fault: conflict between blocks
}

extern "C" __global__ void long_row(const unsigned char *x, unsigned char *y, unsigned columns) {
    const unsigned row = 2 * blockIdx.x;
    y[blockIdx.x] = x[row * columns + threadIdx.x];  // fault: 32-bit wrap
}

extern "C" __global__ void never_ends(const volatile int *flag, int *y) {
    while (*flag == 0) {}  // fault: step limit
    y[threadIdx.x] = 1;
}

extern "C" __global__ void shuffle_in_a_branch(const int *x, int *y) {
    int value = x[threadIdx.x];
    if (threadIdx.x % 32 < 16) value += __shfl_xor_sync(~0u, value, 16);  // fault: shuffle
    y[threadIdx.x] = value;
}

extern "C" __global__ void mask_too_small(const int *x, int *y) {
    y[threadIdx.x] = __shfl_down_sync(0xffff, x[threadIdx.x], 1);  // fault: shuffle
}

extern "C" __global__ void no_wait(const int4 *x, int *y) {
    __shared__ int4 cells[32];
    __pipeline_memcpy_async(cells + threadIdx.x, x + threadIdx.x, 16);
    __pipeline_commit();
    __syncthreads();
    y[threadIdx.x] = cells[threadIdx.x].y;  // fault: cp.async
}

// Waits for the group before the last: what the last one brings is not there yet.
extern "C" __global__ void waits_for_too_few(const int4 *x, int *y) {
    __shared__ int4 cells[2][32];
    __pipeline_memcpy_async(cells[0] + threadIdx.x, x + threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_memcpy_async(cells[1] + threadIdx.x, x + 32 + threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    y[threadIdx.x] = cells[0][threadIdx.x].x;
    y[32 + threadIdx.x] = cells[1][threadIdx.x].x;  // fault: cp.async
}

__constant__ int table[4] = {1, 2, 3, 4};

__device__ void set(int *cell, int value);

extern "C" __global__ void writes_a_constant(int *y) {
    set(const_cast<int *>(table) + (threadIdx.x & 3), 5);
    set(y + threadIdx.x, 1);
}

__device__ __noinline__ void set(int *cell, int value) {
    *cell = value;  // fault: read-only memory
}

// The cache for data that no thread writes may hold an old value.
extern "C" __global__ void reads_its_output_as_constant(float *y) {
    y[threadIdx.x] = 1;
    __syncthreads();
    y[64 + threadIdx.x] = __ldg(y + 63 - threadIdx.x);  // fault: read-only memory
}

// The block that clears the counter is not the first to run, perhaps.
extern "C" __global__ void zeroes_while_others_add(const int *x, int *count) {
    if (blockIdx.x == 0 && threadIdx.x == 0) *count = 0;
    __syncthreads();
    const int value = x[blockIdx.x * blockDim.x + threadIdx.x];
    if (value % 7 == 0) atomicAdd(count, 1);  // fault: conflict between blocks
}

// The second sum writes what slow threads still read of the first.
extern "C" __global__ void sum_used_twice(const int *x, int *y) {
    __shared__ int sums[2];
    int total = 0;
#pragma unroll 1
    for (int turn = 1; turn < 3; ++turn) {
        const int value = __reduce_add_sync(~0u, x[threadIdx.x] * turn);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;  // fault: shared-memory race
        __syncthreads();
        total += sums[0] + sums[1];
    }
    if (threadIdx.x == 0) *y = total;
}

extern "C" __global__ void unwritten_bins(const int *x, int *y) {
    __shared__ int bins[4];
    atomicAdd(&bins[x[threadIdx.x] & 3], 1);  // fault: unwritten memory
    __syncthreads();
    if (threadIdx.x < 4) y[threadIdx.x] = bins[threadIdx.x];  // fault: unwritten memory
}

extern "C" __global__ void shuffle_after_return(const int *x, int *y, int n) {
    if (int(threadIdx.x) >= n) return;
    int value = x[threadIdx.x];
    value += __shfl_down_sync(~0u, value, 1);  // fault: shuffle
    y[threadIdx.x] = value;
}

extern "C" __global__ void barrier_waits_for_too_many(int *y) {
    y[threadIdx.x] = 1;
    asm volatile("bar.sync 1, 96;" ::: "memory");  // fault: barrier
    y[threadIdx.x] = 2;
}

extern "C" __global__ void barrier_in_uneven_loops(const int *x, int *y) {
    int sum = 0;
#pragma unroll 1
    for (int k = 0; k < x[threadIdx.x] / 32 + 1; ++k) {
        sum += k;
        __syncthreads();  // fault: barrier
    }
    y[threadIdx.x] = sum;
}

extern "C" __global__ void atomic_beyond(const int *x, int *bins) {
    atomicAdd(bins + x[threadIdx.x] % 5, 1);  // fault: out of bounds
}

struct Four {
    int values[4];
};

extern "C" __global__ void index_of_a_struct(const int *x, int *y, const __grid_constant__ Four four) {
    y[threadIdx.x] = four.values[x[threadIdx.x] % 5];  // fault: out of bounds
}

extern "C" __global__ void traps(const int *x, int *y) {
    if (x[threadIdx.x] > 62) __trap();  // fault: trap
    y[threadIdx.x] = 1;
}
