// Branches, loops, switches and calls.
#include "../host.h"

// Dense and sparse switches: a table of branches, and a tree.
extern "C" __global__ void switches(const int *x, const float *z, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = z[i];
    switch (x[i]) {
        case 0: a = a + 1; break;
        case 1: a = a * 3; break;
        case 2: a = a / 5;  // falls through
        case 3: a = a - 7; break;
        case 4: a = sqrtf(fabsf(a)); break;
        case 5: a = -a; break;
        case 6: y[i] = 42; return;
        case 7: a = a < 0 ? 11 : 13; break;
        case 1000: a = 17; break;
        case -50: a = 19; break;
        default: a = 23;
    }
    y[i] = a;
}
EXPORT(switches)

extern "C" __global__ void early_returns(const int *x, int *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = 1;
    if (x[i] < 0) return;
    int sum = 0;
    for (int k = 0; k < 20; ++k) {
        if (k == x[i] % 23) {
            y[i] = -sum;
            return;
        }
        if (k % 3 == x[i] % 3) continue;
        sum += k * x[i];
        if (sum > 900) break;
    }
    y[i] = sum;
}
EXPORT(early_returns)

// Steps of Collatz: loops of very different length, and a nested one.
extern "C" __global__ void collatz(const unsigned *x, unsigned *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long value = x[i];
    unsigned count = 0;
    while (value > 1) {
        while (value % 2 == 0 && value > 1) {
            value /= 2;
            ++count;
        }
        if (value > 1) {
            value = 3 * value + 1;
            ++count;
        }
    }
    y[i] = count;
}
EXPORT(collatz)

// Threads leave at different turns, some before a barrier that the others still need inside a warp.
extern "C" __global__ void euclid(const unsigned *x, const unsigned *z, unsigned *y) {
    __shared__ unsigned divisors[64];
    unsigned a = x[threadIdx.x], b = z[threadIdx.x];
    while (b != 0) {
        const unsigned rest = a % b;
        a = b;
        b = rest;
    }
    divisors[threadIdx.x] = a;
    __syncthreads();
    const unsigned other = divisors[63 - threadIdx.x];
    if (other == 1) {
        y[threadIdx.x] = 0;
        return;
    }
    y[threadIdx.x] = a * 1000 + other;
}
EXPORT(euclid)

struct Pair {
    double value;
    int count;
};

__device__ __noinline__ Pair accumulate(Pair pair, float value) {
    pair.value += value;
    pair.count += value > 0;
    return pair;
}

__device__ __noinline__ void swap_in_place(int *a, int *b) {
    const int held = *a;
    *a = *b;
    *b = held;
}

__device__ __noinline__ float horner(const float *coefficients, int n, float x) {
    float value = 0;
    for (int i = 0; i < n; ++i) value = value * x + coefficients[i];
    return value;
}

extern "C" __global__ void calls(const float *x, double *y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    Pair pair = {0.5, 10};
    for (int k = 0; k < n; ++k) {
        if (k == i % n) continue;
        pair = accumulate(pair, x[(i + k) % 64]);
    }
    int a = i, b = -i;
    if (i % 3 == 0) swap_in_place(&a, &b);
    float local[4];
    for (int k = 0; k < 4; ++k) local[k] = x[(i + k) % 64];
    y[4 * i] = pair.value;
    y[4 * i + 1] = pair.count;
    y[4 * i + 2] = a - 2 * b;
    y[4 * i + 3] = horner(local, 4 - i % 2, 0.5f);
}
EXPORT(calls)

// Recursion: a frame of local memory for every call.
__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion(const int *m, const int *n, int *y) {
    y[threadIdx.x] = ackermann(m[threadIdx.x], n[threadIdx.x]);
}
EXPORT(recursion)

__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float squared(float x) { return x * x; }
__device__ __noinline__ float halved(float x) { return x / 2; }

// Calls through pointers to functions: the table decides at run time.
extern "C" __global__ void indirect_calls(const float *x, const int *which, float *y) {
    float (*const table[3])(float) = {twice, squared, halved};
    const int i = threadIdx.x;
    y[i] = table[which[i] % 3](x[i]) + 1;
}
EXPORT(indirect_calls)

// Two exits of a loop, values that live across it, flags kept in predicates.
extern "C" __global__ void search_sorted(const int *table, int n, const int *keys, int *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int low = 0, high = n;
    bool found = false;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (table[middle] == keys[i]) {
            found = true;
            low = middle;
            break;
        }
        if (table[middle] < keys[i]) low = middle + 1;
        else high = middle;
    }
    y[i] = found ? low : ~low;
}
EXPORT(search_sorted)

// Threads beyond the end return, and the others meet at barriers and in warps that are not whole.
extern "C" __global__ void return_before_barrier(const int *x, int *y, int n) {
    __shared__ int cells[64];
    const int i = threadIdx.x;
    if (i >= n) return;
    cells[i] = x[i];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < i % 5; ++k) sum += cells[(i + k) % n];
    const unsigned here = i < 32 ? ~0u : (1u << (n - 32)) - 1;
    sum += __shfl_sync(here, cells[n - 1 - i], (i + 3) % 8);
    __syncthreads();
    cells[i] = sum;
    __syncthreads();
    y[i] = cells[(i + 1) % n] + __ballot_sync(here, sum & 1);
}
EXPORT(return_before_barrier)

// A loop that some threads leave while the others go on meeting at a barrier with them.
extern "C" __global__ void break_and_barrier(const int *x, int *y) {
    __shared__ int left;
    const int i = threadIdx.x;
    int value = x[i], turns = 0, remaining;
    bool done = false;
    do {
        if (i == 0) left = 0;
        __syncthreads();
        if (!done) {
            for (int k = 0; k < 3; ++k) {
                value = value % 2 ? 3 * value + 1 : value / 2;
                ++turns;
                if (value <= 1) {
                    done = true;
                    break;
                }
            }
        }
        if (!done) atomicAdd(&left, 1);
        __syncthreads();
        remaining = left;
        turns += remaining > 0 ? 100 : 0;
        __syncthreads();
    } while (remaining > 0);
    y[i] = turns;
}
EXPORT(break_and_barrier)
