// CUDA's device functions for the host, each as the CUDA C++ Programming Guide and the Math API describe it.
#pragma once

// ---- barriers and fences

static inline void __syncthreads() { host::barrier(); }
static inline void __syncwarp(unsigned mask = ~0u) { host::exchange(mask, 0); }
static inline void __threadfence() {}

static inline int __syncthreads_count(int predicate) {
    host::votes += predicate != 0;
    host::barrier();
    const unsigned result = host::votes;
    host::barrier();
    host::votes = 0;
    host::barrier();
    return result;
}
static inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
static inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }

// ---- warps

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const int base = host::lane() / width * width;
    return host::shuffle(mask, value, base + source % width, 0, 31);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = host::lane(), base = lane / width * width;
    return host::shuffle(mask, value, lane - int(delta), base, 31);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    const int lane = host::lane(), base = lane / width * width;
    return host::shuffle(mask, value, lane + int(delta), 0, base + width - 1);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    const int lane = host::lane(), base = lane / width * width;
    return host::shuffle(mask, value, lane ^ bits, 0, base + width - 1);
}

static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const uint64_t *values = host::exchange(mask, predicate != 0);
    unsigned result = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) result |= unsigned(values[lane]) << lane;
    return result;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
    const uint64_t *values = host::exchange(mask, host::to_bits(value));
    unsigned result = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if ((mask >> lane & 1) && values[lane] == host::to_bits(value)) result |= 1u << lane;
    return result;
}
template <class T>
unsigned __match_all_sync(unsigned mask, T value, int *all) {
    *all = __match_any_sync(mask, value) == mask;
    return *all ? mask : 0;
}

template <class T>
T __reduce_add_sync(unsigned mask, T value) {
    return host::reduce(mask, value, [](T a, T b) { return T(a + b); });
}
template <class T>
T __reduce_min_sync(unsigned mask, T value) {
    return host::reduce(mask, value, [](T a, T b) { return std::min(a, b); });
}
template <class T>
T __reduce_max_sync(unsigned mask, T value) {
    return host::reduce(mask, value, [](T a, T b) { return std::max(a, b); });
}
static inline unsigned __reduce_and_sync(unsigned mask, unsigned value) {
    return host::reduce(mask, value, [](unsigned a, unsigned b) { return a & b; });
}
static inline unsigned __reduce_or_sync(unsigned mask, unsigned value) {
    return host::reduce(mask, value, [](unsigned a, unsigned b) { return a | b; });
}
static inline unsigned __reduce_xor_sync(unsigned mask, unsigned value) {
    return host::reduce(mask, value, [](unsigned a, unsigned b) { return a ^ b; });
}

// ---- atomics

#define ATOMIC(name, expression)                                                          \
    template <class T>                                                                    \
    T name(T *address, std::common_type_t<T> value) {                                     \
        return host::update(address, [=](T old) { return T(expression); });               \
    }
ATOMIC(atomicAdd, old + value)
ATOMIC(atomicSub, old - value)
ATOMIC(atomicMin, std::min(old, value))
ATOMIC(atomicMax, std::max(old, value))
ATOMIC(atomicAnd, old & value)
ATOMIC(atomicOr, old | value)
ATOMIC(atomicXor, old ^ value)
ATOMIC(atomicExch, (void(old), value))
ATOMIC(atomicInc, old >= value ? 0 : old + 1)
ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef ATOMIC
template <class T>
T atomicCAS(T *address, std::common_type_t<T> compare, std::common_type_t<T> value) {
    return host::update(address, [=](T old) { return old == compare ? value : old; });
}

// ---- integers

static inline int __popc(unsigned a) { return __builtin_popcount(a); }
static inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
static inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
static inline int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
static inline int __ffs(int a) { return __builtin_ffs(a); }
static inline int __ffsll(long long a) { return __builtin_ffsll(a); }
static inline unsigned __brev(unsigned a) {
    unsigned result = 0;
    for (int bit = 0; bit < 32; ++bit) result |= (a >> bit & 1) << (31 - bit);
    return result;
}
static inline unsigned long long __brevll(unsigned long long a) {
    return (unsigned long long)__brev(unsigned(a)) << 32 | __brev(unsigned(a >> 32));
}
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const uint64_t bytes = uint64_t(high) << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= unsigned(bytes >> (8 * (selector >> 4 * i & 7)) & 255) << 8 * i;
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((uint64_t(high) << 32 | low) << (shift & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((uint64_t(high) << 32 | low) << std::min(shift, 32u)) >> 32);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return unsigned((uint64_t(high) << 32 | low) >> std::min(shift, 32u));
}
static inline int __mul24(int a, int b) { return int(int64_t(a << 8 >> 8) * (b << 8 >> 8)); }
static inline unsigned __umul24(unsigned a, unsigned b) {
    return unsigned(uint64_t(a & 0xffffff) * (b & 0xffffff)); }
static inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
static inline unsigned __sad(int a, int b, unsigned c) {
    const int64_t difference = int64_t(a) - b;
    return c + unsigned(difference < 0 ? -difference : difference);
}
static inline int __hadd(int a, int b) { return int((int64_t(a) + b) >> 1); }
static inline int __rhadd(int a, int b) { return int((int64_t(a) + b + 1) >> 1); }
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += int(int8_t(a >> 8 * i)) * int(int8_t(b >> 8 * i));
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}

// ---- reinterpretation

static inline int __float_as_int(float a) { return host::from_bits<int>(host::to_bits(a)); }
static inline unsigned __float_as_uint(float a) { return host::from_bits<unsigned>(host::to_bits(a)); }
static inline float __int_as_float(int a) { return host::from_bits<float>(host::to_bits(a)); }
static inline float __uint_as_float(unsigned a) { return host::from_bits<float>(host::to_bits(a)); }
static inline long long __double_as_longlong(double a) {
    return host::from_bits<long long>(host::to_bits(a)); }
static inline double __longlong_as_double(long long a) { return host::from_bits<double>(host::to_bits(a)); }
