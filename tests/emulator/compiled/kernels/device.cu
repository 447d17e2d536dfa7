// What only a GPU has: half precision, asynchronous copies, named barriers, approximate functions, inline
// PTX.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_pipeline.h>

#include "library.cu"

namespace cg = cooperative_groups;

// ---- half precision

extern "C" __global__ void half_conversions(const float *x, __half *y, __nv_bfloat16 *z, float *back) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[4 * i] = __float2half_rn(x[i]);
    y[4 * i + 1] = __float2half_rz(x[i]);
    y[4 * i + 2] = __float2half_ru(x[i]);
    y[4 * i + 3] = __int2half_rn(int(x[i]));
    z[2 * i] = __float2bfloat16_rn(x[i]);
    z[2 * i + 1] = __float2bfloat16_rz(x[i]);
    const __half2 packed = __floats2half2_rn(x[i], -x[i]);
    const float2 wide = __half22float2(packed);
    back[4 * i] = wide.x;
    back[4 * i + 1] = wide.y;
    back[4 * i + 2] = __bfloat162float(z[2 * i]);
    back[4 * i + 3] = float(__half2int_rn(y[4 * i]));
}

extern "C" __global__ void half_arithmetic(const __half2 *x, const __half2 *z, __half2 *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __half2 a = x[i], b = z[i];
    __half2 *mine = y + 10 * i;
    mine[0] = __hadd2(a, b);
    mine[1] = __hsub2(a, b);
    mine[2] = __hmul2(a, b);
    mine[3] = __hfma2(a, b, a);
    mine[4] = __hmin2(a, b);
    mine[5] = __hmax2(a, b);
    mine[6] = __hgt2(a, b);
    mine[7] = __hneg2(__habs2(a));
    mine[8] = __halves2half2(__high2half(a), __low2half(b));
    mine[9] = __half2half2(__hadd(__low2half(a), __high2half(b)));
}

extern "C" __global__ void bfloat_arithmetic(const __nv_bfloat162 *x, const __nv_bfloat162 *z,
    __nv_bfloat162 *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const __nv_bfloat162 a = x[i], b = z[i];
    __nv_bfloat162 *mine = y + 6 * i;
    mine[0] = __hadd2(a, b);
    mine[1] = __hsub2(a, b);
    mine[2] = __hmul2(a, b);
    mine[3] = __hfma2(a, b, a);
    mine[4] = __hmin2(a, b);
    mine[5] = __hmax2(a, b);
}

// Eight halves at a time in 16 bytes, summed in float: the inner loop of many kernels.
extern "C" __global__ void half_dot(const uint4 *x, const uint4 *z, float *y, int groups) {
    float sum = 0;
    for (int k = threadIdx.x; k < groups; k += 32) {
        const uint4 a = __ldg(x + blockIdx.x * groups + k), b = __ldg(z + k);
        const __half2 *left = reinterpret_cast<const __half2 *>(&a), *right =
            reinterpret_cast<const __half2 *>(&b);
        for (int j = 0; j < 4; ++j) {
            const float2 l = __half22float2(left[j]), r = __half22float2(right[j]);
            sum += l.x * r.x + l.y * r.y;
        }
    }
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// Eight bits: the processor's conversions from sm_89 on, functions of the library before.
extern "C" __global__ void eight_bits(const float *x, __nv_fp8_e4m3 *y, __nv_fp8_e5m2 *z, float *back) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __nv_fp8_e4m3(x[i]);
    z[i] = __nv_fp8_e5m2(x[i]);
    back[2 * i] = float(y[i]);
    back[2 * i + 1] = float(z[i]);
}

// ---- asynchronous copies

// Tiles of 64 elements through two buffers: the copy of one while the other is summed.
extern "C" __global__ void async_tiles(const float *x, float *y, int tiles) {
    __shared__ __align__(16) float buffers[2][64];
    const int i = threadIdx.x;
    float sum = 0;
    if (i < 16) __pipeline_memcpy_async(&buffers[0][4 * i], x + 4 * i, 16);
    __pipeline_commit();
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles && i < 16)
            __pipeline_memcpy_async(&buffers[(tile + 1) & 1][4 * i], x + 64 * (tile + 1) + 4 * i, 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += buffers[tile & 1][63 - i];
        __syncthreads();
    }
    y[i] = sum;
}

// Four bytes a thread; what lies behind the end is filled with zeros.
extern "C" __global__ void async_zero_fill(const int *x, int *y, int n) {
    __shared__ int cells[64];
    const unsigned cell = unsigned(__cvta_generic_to_shared(cells + threadIdx.x));
    const int inside = int(threadIdx.x) < n ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(cell), "l"(x +
        (inside ? threadIdx.x : 0)), "r"(inside)
                 : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    y[threadIdx.x] = cells[63 - threadIdx.x];
}

// ---- barriers

// Two pairs of warps, each with a barrier of its own.
extern "C" __global__ void named_barriers(const int *x, int *y) {
    __shared__ int cells[128];
    const int i = threadIdx.x, pair = i / 64;
    for (int turn = 0; turn < 3 + pair; ++turn) {
        cells[i] = x[i] * (turn + 1);
        asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
        y[i] += cells[pair * 64 + 63 - i % 64];
        asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
    }
}

// One warp makes, another takes: the maker does not wait for the cell to be full, nor the taker for it to be
// empty.
extern "C" __global__ void arrive_and_wait(const int *x, int *y, int turns) {
    __shared__ int cell[32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int turn = 0; turn < turns; ++turn) {
            asm volatile("bar.sync 2, 64;" ::: "memory");
            cell[lane] = x[turn * 32 + lane];
            __threadfence_block();
            asm volatile("bar.arrive 1, 64;" ::: "memory");
        }
    } else {
        int sum = 0;
        for (int turn = 0; turn < turns; ++turn) {
            asm volatile("bar.arrive 2, 64;" ::: "memory");
            asm volatile("bar.sync 1, 64;" ::: "memory");
            sum = sum * 5 + cell[31 - lane];
        }
        y[lane] = sum;
    }
}

// One warp tells another by a flag in shared memory that a value is there.
extern "C" __global__ void shared_flag(const int *x, int *y) {
    __shared__ int value;
    __shared__ volatile int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        value = x[0] * 3;
        __threadfence_block();
        ready = 1;
    } else if (threadIdx.x == 32) {
        while (ready == 0) {}
        __threadfence_block();
        y[0] = value + x[1];
    }
}

// ---- groups and scopes

extern "C" __global__ void tiles_of_eight(const int *x, int *y, int *z) {
    const auto block = cg::this_thread_block();
    const auto tile = cg::tiled_partition<8>(block);
    const int value = x[block.thread_rank()];
    const int sum = cg::reduce(tile, value, cg::plus<int>());
    y[block.thread_rank()] = sum * 10 + int(tile.thread_rank());
    block.sync();
    z[block.thread_rank()] = tile.shfl(value, 7) + (tile.any(value > 90) ? 1000 : 0) +
        int(tile.ballot(value & 1)) * 10000;
}

// Lanes that are here add through one of them.
extern "C" __global__ void aggregated_add(const int *x, int *count, int *places) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    places[i] = -1;
    if (x[i] % 3 == 1) {
        const unsigned active = __activemask();
        const int leader = __ffs(int(active)) - 1, lane = threadIdx.x % 32;
        int base = 0;
        if (lane == leader) base = atomicAdd(count, __popc(active));
        base = __shfl_sync(active, base, leader);
        places[i] = base + __popc(active & ((1u << lane) - 1));
    }
}

extern "C" __global__ void scoped_atomics(int *words, unsigned long long *wide, const int *x) {
    const int value = x[blockIdx.x * blockDim.x + threadIdx.x];
    cuda::atomic_ref<int, cuda::thread_scope_device>(words[0]).fetch_add(value, cuda::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_system>(words[1]).fetch_max(value);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(wide[0])
        .fetch_add((unsigned long long)value, cuda::memory_order_acq_rel);
    atomicAdd_block(words + 2 + blockIdx.x, value);
    atomicAdd_system(words + 6, 1);
}

// The first block hands a value on: store with release, load with acquire.
extern "C" __global__ void message(const int *x, int *cell, int *flag, int *y) {
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            *cell = x[0] * 2;
            cuda::atomic_ref<int, cuda::thread_scope_device>(*flag).store(1, cuda::memory_order_release);
        }
    } else if (threadIdx.x == 0) {
        while (cuda::atomic_ref<int,
            cuda::thread_scope_device>(*flag).load(cuda::memory_order_acquire) == 0) {}
        y[blockIdx.x] = *cell + int(blockIdx.x);
    }
}

extern "C" __global__ void half_atomics(const float *x, __half2 *sums, __nv_bfloat16 *bfloat_sum) {
    const int i = threadIdx.x;
    atomicAdd(sums + i % 2, __floats2half2_rn(x[i], 2 * x[i]));
    atomicAdd(bfloat_sum, __float2bfloat16_rn(x[i]));
}

// ---- approximations, cache hints, rounding

extern "C" __global__ void approximations(const float *x, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = __ldcs(x + i);
    float *mine = y + 8 * i;
    __stcs(mine, __expf(a));
    __stwt(mine + 1, __logf(fabsf(a)));
    __stcg(mine + 2, __sinf(a / 4));
    mine[3] = __cosf(a / 4);
    mine[4] = rsqrtf(fabsf(a));
    mine[5] = __fdividef(1.5f, a);
    mine[6] = __saturatef(a);
    mine[7] = __frcp_rn(a);
}

extern "C" __global__ void roundings(const float *x, const float *z, float *y, int *w) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = x[i], b = z[i];
    float *mine = y + 8 * i;
    mine[0] = __fadd_rz(a, b);
    mine[1] = __fadd_ru(a, b);
    mine[2] = __fmul_rd(a, b);
    mine[3] = __fmaf_rz(a, b, a);
    mine[4] = __fdiv_ru(a, b);
    mine[5] = __fsqrt_rd(fabsf(a));
    mine[6] = __double2float_ru(double(a) * double(b));
    mine[7] = __int2float_rz(int(a * 3e7f));
    w[4 * i] = __float2int_rd(a);
    w[4 * i + 1] = __float2int_ru(a);
    w[4 * i + 2] = __float2int_rn(a);
    w[4 * i + 3] = int(__float2uint_rz(a * 1e9f));
}

// ---- a table of branches, which nvcc does not make of a switch

extern "C" __global__ void branch_table(const int *x, int *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int value = x[i];
    asm volatile(
        "{\n"
        ".reg .u32 %kind;\n"
        "and.b32 %kind, %0, 3;\n"
        "ways: .branchtargets first, second, third, second;\n"
        "brx.idx %kind, ways;\n"
        "first: add.s32 %0, %0, 1000; bra.uni over;\n"
        "second: mul.lo.s32 %0, %0, 7;\n"
        "third: sub.s32 %0, %0, 5;\n"
        "over:\n"
        "}"
        : "+r"(value));
    y[i] = value;
}

// ---- special registers, spaces of addresses, hints

extern "C" __global__ void special_registers(unsigned *y) {
    __shared__ unsigned cell;
    extern __shared__ unsigned dynamic[];
    unsigned below, above, lane, warps, size;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(above));
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%nwarpid;" : "=r"(warps));
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    if (threadIdx.x == 0) cell = 5;
    dynamic[threadIdx.x] = 7;
    __syncthreads();
    unsigned local[2] = {cell, 1};
    asm volatile("prefetch.global.L2 [%0];" ::"l"(y));
    unsigned *mine = y + 4 * threadIdx.x;
    mine[0] = below ^ above;
    mine[1] = lane + (warps >= blockDim.x / 32 ? 1000 : 0);
    mine[2] = size;
    mine[3] = __isShared(&cell) | __isGlobal(y) << 1 | __isLocal(local) << 2 | __isShared(y) << 3 |
        __isGlobal(dynamic) << 4;
}

// Four bytes or two halves in a word.
extern "C" __global__ void bytes_in_words(const unsigned *x, const unsigned *z, unsigned *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned a = x[i], b = z[i];
    unsigned *mine = y + 4 * i;
    mine[0] = __vadd4(a, b);
    mine[1] = __vmaxs2(a, b);
    mine[2] = __vcmpgtu4(a, b);
    mine[3] = __vaddss2(a, b);
}
