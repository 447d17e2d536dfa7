// Lets the kernels of this folder compile as C++ for the host: every CUDA thread of a block is a fibre,
// blocks run
// one after another, so atomics are plain operations and `__shared__` is `static`.
//
// A kernel says `EXPORT(name)` behind its definition; `host_name(launch, arguments)` then runs it, with
// pointers to
// the arguments as cuLaunchKernel takes them. Its result is 0, or 1 if the threads of a block wait for each
// other.
#pragma once

#ifdef __CUDACC__

#define EXPORT(name)
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]

#else

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#define __global__
#define __device__ static
#define __constant__ static const
#define __shared__ static
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define DYNAMIC_SHARED(type, name) type *const name = reinterpret_cast<type *>(host::dynamic_shared.data())
#define EXPORT(name)                                                            \
    extern "C" int host_##name(const host::Launch *launch, void **arguments) {  \
        return host::run(*launch, [=] { host::call(name, arguments); });        \
    }

struct dim3 { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(8) short4 { short x, y, z, w; };
struct alignas(16) double2 { double x, y; };

namespace host {

struct Launch { dim3 grid, block; size_t shared; };

struct Thread {
    dim3 index;
    unsigned number;
    bool alive;
    ucontext_t context;
};

struct Warp {
    uint64_t values[32];
    unsigned arrived, released;
    uint64_t results[32][32];
};

inline dim3 block_index, block_size, grid_size;
inline std::vector<Thread> threads;
inline std::vector<Warp> warps;
inline std::vector<char> stacks;
alignas(16) inline std::array<char, 1 << 16> dynamic_shared;
inline ucontext_t scheduler;
inline Thread *current;
inline std::function<void()> body;
inline unsigned living, waiting, generation, votes, changes;
constexpr size_t STACK = 1 << 16;

inline void wait_for_others() { swapcontext(&current->context, &scheduler); }

// Barrier of all threads that have not returned.
inline void barrier() {
    const unsigned before = generation;
    ++waiting;
    while (generation == before) {
        if (waiting == living) {
            waiting = 0;
            ++generation;
            ++changes;
        } else {
            wait_for_others();
        }
    }
}

// Give a value to the lanes of `mask` and return theirs, by lane.
inline const uint64_t *exchange(unsigned mask, uint64_t value) {
    Warp &warp = warps[current->number / 32];
    const unsigned lane = current->number % 32, bit = 1u << lane;
    warp.values[lane] = value;
    warp.arrived |= bit;
    if ((warp.arrived & mask) == mask) {
        warp.arrived &= ~mask;
        warp.released |= mask;
        for (unsigned other = 0; other < 32; ++other)
            if (mask >> other & 1) std::copy_n(warp.values, 32, warp.results[other]);
    }
    while (!(warp.released & bit)) wait_for_others();
    warp.released &= ~bit;
    ++changes;
    return warp.results[lane];
}

inline void start() {
    body();
    current->alive = false;
    --living;
    ++changes;
}

inline bool run_block() {
    const unsigned count = block_size.x * block_size.y * block_size.z;
    threads.resize(count);
    warps.assign((count + 31) / 32, Warp{});
    stacks.resize(count * STACK);
    living = count;
    waiting = 0;
    for (unsigned i = 0; i < count; ++i) {
        Thread &thread = threads[i];
        thread.index = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
        thread.number = i;
        thread.alive = true;
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = stacks.data() + i * STACK;
        thread.context.uc_stack.ss_size = STACK;
        thread.context.uc_link = &scheduler;
        makecontext(&thread.context, start, 0);
    }
    // two rounds: a thread may have polled the barrier just before the last one came
    for (unsigned idle = 0; living && idle < 2;) {
        const unsigned before = changes;
        for (Thread &thread : threads) {
            if (!thread.alive) continue;
            current = &thread;
            swapcontext(&scheduler, &thread.context);
        }
        idle = changes == before ? idle + 1 : 0;
    }
    return living == 0;
}

inline int run(const Launch &launch, std::function<void()> kernel) {
    body = std::move(kernel);
    block_size = launch.block;
    grid_size = launch.grid;
    if (launch.shared > dynamic_shared.size()) return 1;
    for (unsigned z = 0; z < grid_size.z; ++z)
        for (unsigned y = 0; y < grid_size.y; ++y)
            for (unsigned x = 0; x < grid_size.x; ++x) {
                block_index = {x, y, z};
                if (!run_block()) return 1;
            }
    return 0;
}

template <class... Parameters, size_t... Index>
void call(void (*kernel)(Parameters...), void **arguments, std::index_sequence<Index...>) {
    kernel(*static_cast<std::decay_t<Parameters> *>(arguments[Index])...);
}

template <class... Parameters>
void call(void (*kernel)(Parameters...), void **arguments) {
    call(kernel, arguments, std::index_sequence_for<Parameters...>{});
}

template <class T>
uint64_t to_bits(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
T from_bits(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline unsigned lane() { return current->number % 32; }

// The value of lane `source`, or the own one if that lies outside [low, high] of the own segment.
template <class T>
T shuffle(unsigned mask, T value, int source, int low, int high) {
    const uint64_t *values = exchange(mask, to_bits(value));
    return from_bits<T>(values[source >= low && source <= high ? source : int(lane())]);
}

template <class T, class Operation>
T update(T *address, Operation operation) {
    const T old = *address;
    *address = operation(old);
    return old;
}

template <class T, class Operation>
T reduce(unsigned mask, T value, Operation operation) {
    const uint64_t *values = exchange(mask, to_bits(value));
    unsigned first = 0;
    while (!(mask >> first & 1)) ++first;
    T result = from_bits<T>(values[first]);
    for (unsigned other = first + 1; other < 32; ++other)
        if (mask >> other & 1) result = operation(result, from_bits<T>(values[other]));
    return result;
}

}  // namespace host

#define threadIdx (host::current->index)
#define blockIdx (host::block_index)
#define blockDim (host::block_size)
#define gridDim (host::grid_size)
#define warpSize 32

static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
using std::isinf;
using std::isnan;
using std::max;
using std::min;
using std::signbit;

#include "host_functions.h"

#endif
