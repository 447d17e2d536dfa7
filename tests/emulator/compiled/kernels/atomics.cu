// Atomics of every kind. What old values come back depends on the order of threads, so tests compare those
// sorted.
#include "../host.h"

// 32-bit integers, results only: one word for each operation.
extern "C" __global__ void atomic_words(unsigned *words, int *signed_words, const unsigned *x) {
    const unsigned value = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(words + 0, value);
    atomicSub(words + 1, value);
    atomicMin(words + 2, value);
    atomicMax(words + 3, value);
    atomicAnd(words + 4, value | 0xff);
    atomicOr(words + 5, value & 0xff00ff);
    atomicXor(words + 6, value);
    atomicInc(words + 7, 100u);
    atomicDec(words + 8, 30u);
    atomicAdd(signed_words + 0, int(value));
    atomicMin(signed_words + 1, int(value));
    atomicMax(signed_words + 2, int(value));
}
EXPORT(atomic_words)

extern "C" __global__ void atomic_long_words(unsigned long long *words, long long *signed_words,
    const unsigned long long *x) {
    const unsigned long long value = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(words + 0, value);
    atomicMin(words + 1, value);
    atomicMax(words + 2, value);
    atomicAnd(words + 3, value | 0xffff);
    atomicOr(words + 4, value & 0xff00ff00ff00ffull);
    atomicXor(words + 5, value);
    atomicMin(signed_words + 0, (long long)value);
    atomicMax(signed_words + 1, (long long)value);
}
EXPORT(atomic_long_words)

// Sums of small integers are exact in any order.
extern "C" __global__ void atomic_floats(float *sums, double *double_sums, const float *x, int bins) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sums + i % bins, x[i]);
    atomicAdd(double_sums + i % bins, double(x[i]) * 1024.0);
}
EXPORT(atomic_floats)

// Old values: each thread gets another one.
extern "C" __global__ void atomic_tickets(unsigned *counters, unsigned *tickets,
    unsigned long long *long_counter) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    tickets[i] = atomicAdd(counters, 3u);
    tickets[n + i] = atomicInc(counters + 1, 9u);
    tickets[2 * n + i] = atomicDec(counters + 2, 9u);
    tickets[3 * n + i] = unsigned(atomicAdd(long_counter, 1ull << 32) >> 32);
}
EXPORT(atomic_tickets)

// Values go round: what was there first, and all that was put in, comes out once. One block.
extern "C" __global__ void atomic_exchange(unsigned *word, unsigned long long *long_word, unsigned *y,
    unsigned long long *z) {
    const unsigned i = threadIdx.x;
    y[i] = atomicExch(word, i + 1000);
    z[i] = atomicExch(long_word, (unsigned long long)i << 33);
    __syncthreads();
    if (i != 0) return;
    y[blockDim.x] = atomicExch(word, 0u);
    z[blockDim.x] = atomicExch(long_word, 0ull);
}
EXPORT(atomic_exchange)

// Maximum of floats by a loop of compare-and-swap, in shared memory and then in global memory.
extern "C" __global__ void atomic_cas_max(const float *x, unsigned *best, unsigned long long *product) {
    __shared__ unsigned block_best;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) block_best = 0xff800000u;
    __syncthreads();
    unsigned old = block_best;
    while (__uint_as_float(old) < x[i]) {
        const unsigned assumed = old;
        old = atomicCAS(&block_best, assumed, __float_as_uint(x[i]));
        if (old == assumed) break;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    old = *best;
    while (__uint_as_float(old) < __uint_as_float(block_best)) {
        const unsigned assumed = old;
        old = atomicCAS(best, assumed, block_best);
        if (old == assumed) break;
    }
    unsigned long long before = *product, assumed;
    do {
        assumed = before;
        before = atomicCAS(product, assumed, assumed * (2 * blockIdx.x + 3));
    } while (before != assumed);
}
EXPORT(atomic_cas_max)

// Atomics on shared memory, their old values used to sort keys into buckets: one block, sorted in tests.
extern "C" __global__ void shared_buckets(const int *keys, int *counts, int *sorted) {
    __shared__ int fill[8], first[8];
    const int i = threadIdx.x;
    if (i < 8) fill[i] = 0;
    __syncthreads();
    const int bucket = keys[i] & 7, place = atomicAdd(&fill[bucket], 1);
    __syncthreads();
    if (i == 0)
        for (int k = 0, sum = 0; k < 8; ++k) {
            first[k] = sum;
            sum += fill[k];
        }
    __syncthreads();
    sorted[first[bucket] + place] = bucket;
    if (i < 8) counts[i] = fill[i];
}
EXPORT(shared_buckets)

// A lock of one word, taken by one thread of each warp.
extern "C" __global__ void spin_lock(int *lock, volatile int *value) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        *value = *value * 3 + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
EXPORT(spin_lock)

// The same on shared memory, whose atomics of 64 bits and of floats are instructions, or loops.
extern "C" __global__ void shared_atomics(const int *x, unsigned long long *wide, float *real, int *small) {
    __shared__ unsigned long long sum, bits;
    __shared__ float total;
    __shared__ double precise;
    __shared__ int least, most;
    if (threadIdx.x == 0) {
        sum = 0;
        bits = ~0ull;
        total = 0;
        precise = 0.5;
        least = 1 << 30;
        most = -(1 << 30);
    }
    __syncthreads();
    const int value = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&sum, (unsigned long long)(value) << 20);
    atomicXor(&bits, (unsigned long long)(value) * 0x9E3779B97F4A7C15ull);
    atomicAdd(&total, float(value));
    atomicAdd(&precise, double(value));
    atomicMin(&least, value);
    atomicMax(&most, value);
    __syncthreads();
    if (threadIdx.x != 0) return;
    wide[2 * blockIdx.x] = sum;
    wide[2 * blockIdx.x + 1] = bits;
    real[blockIdx.x] = total + float(precise);
    small[2 * blockIdx.x] = least;
    small[2 * blockIdx.x + 1] = most;
}
EXPORT(shared_atomics)
