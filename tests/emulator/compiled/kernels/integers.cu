// Integer and float arithmetic that compilers turn into long sequences, or into one rare instruction.
#include "../host.h"

extern "C" __global__ void divide(const long long *a, const long long *b, long long *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long ua = a[i], ub = b[i];
    long long *mine = y + 12 * i;
    mine[0] = a[i] / b[i];
    mine[1] = a[i] % b[i];
    mine[2] = ua / ub;
    mine[3] = ua % ub;
    mine[4] = int(a[i]) / (int(b[i] >> 3) | 1);
    mine[5] = int(a[i]) % (int(b[i] >> 3) | 1);
    mine[6] = unsigned(a[i]) / (unsigned(b[i]) | 1);
    mine[7] = unsigned(a[i]) % (unsigned(b[i]) | 1);
    mine[8] = a[i] / 7 + a[i] % 1000003;
    mine[9] = int(a[i]) / 10 + int(a[i]) % -12;
    mine[10] = (unsigned short)(a[i]) / ((unsigned char)(b[i]) | 1);
    mine[11] = ua / 641 + unsigned(ua) / 641;
}
EXPORT(divide)

extern "C" __global__ void bit_tricks(const unsigned *x, const unsigned *z, unsigned *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned a = x[i], b = z[i];
    unsigned *mine = y + 24 * i;
    mine[0] = __popc(a);
    mine[1] = __clz(int(a));
    mine[2] = __ffs(int(a));
    mine[3] = __brev(a);
    mine[4] = __byte_perm(a, b, 0x5140);
    mine[5] = __byte_perm(a, b, b);
    mine[6] = __funnelshift_l(a, b, b);
    mine[7] = __funnelshift_r(a, b, a);
    mine[8] = __funnelshift_lc(a, b, b & 63);
    mine[9] = __funnelshift_rc(a, b, a & 63);
    mine[10] = unsigned(__mul24(int(a), int(b)));
    mine[11] = __umul24(a, b);
    mine[12] = __umulhi(a, b);
    mine[13] = unsigned(__mulhi(int(a), int(b)));
    mine[14] = __usad(a, b, 5);
    mine[15] = __sad(int(a), int(b), 7);
    mine[16] = unsigned(__dp4a(int(a), int(b), int(i)));
    mine[17] = __dp4a(a, b, 100u);
    mine[18] = unsigned(__hadd(int(a), int(b)));
    mine[19] = unsigned(__rhadd(int(a), int(b)));
    mine[20] = (a << (b & 31)) ^ (a >> (b & 31)) ^ unsigned(int(a) >> (b & 31));
    mine[21] = (a >> 5 & 0x7ff) | (unsigned(int(b << 3) >> 20) << 16);
    mine[22] = ((a & b) | (~a & 0x0f0f0f0f)) ^ (b | ~a);
    mine[23] = max(int(a), int(b)) + min(a, b);
}
EXPORT(bit_tricks)

extern "C" __global__ void long_tricks(const unsigned long long *x, const unsigned long long *z,
    unsigned long long *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long a = x[i], b = z[i];
    unsigned long long *mine = y + 12 * i;
    mine[0] = __popcll(a);
    mine[1] = __clzll((long long)a);
    mine[2] = __ffsll((long long)a);
    mine[3] = __brevll(a);
    mine[4] = __umul64hi(a, b);
    mine[5] = (unsigned long long)__mul64hi((long long)a, (long long)b);
    mine[6] = (a << (b & 63)) ^ (a >> (b & 63)) ^ (unsigned long long)((long long)a >> (b & 63));
    mine[7] = a * b + (a ^ b);
    mine[8] = (unsigned long long)(unsigned(a)) * unsigned(b) +
        (unsigned long long)((long long)int(a) * int(b));
    mine[9] = max((long long)a, (long long)b) ^ (long long)min(a, b);
    mine[10] = a + b < a ? a - b : b - a;
    mine[11] = (a << 17 | a >> 47) + (unsigned long long)(long long)(short)(b) + (unsigned char)(a >> 9);
}
EXPORT(long_tricks)

// 128-bit product and sum: carries.
extern "C" __global__ void wide_sum(const unsigned long long *x, const unsigned long long *z,
    unsigned long long *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned __int128 sum = (unsigned __int128)x[i] * z[i];
    sum += x[i];
    sum -= (unsigned __int128)z[i] << 3;
    y[2 * i] = (unsigned long long)sum;
    y[2 * i + 1] = (unsigned long long)(sum >> 64);
}
EXPORT(wide_sum)

extern "C" __global__ void doubles(const double *x, const double *z, double *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double a = x[i], b = z[i];
    double *mine = y + 10 * i;
    mine[0] = a + b;
    mine[1] = a * b - a;
    mine[2] = a / b;
    mine[3] = sqrt(fabs(a));
    mine[4] = fma(a, b, -a);
    mine[5] = fmin(a, b) - fmax(a, b);
    mine[6] = floor(a) + ceil(b) + trunc(a) - rint(b);
    mine[7] = copysign(a, -b);
    mine[8] = a < b ? a : a == b ? 0.0 : -b;
    mine[9] = double(float(a)) + double((long long)(b)) + double(int(a)) + double(unsigned(fabs(b)));
}
EXPORT(doubles)

extern "C" __global__ void floats(const float *x, const float *z, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = x[i], b = z[i];
    float *mine = y + 12 * i;
    mine[0] = a + b;
    mine[1] = a * b - a;
    mine[2] = a / b;
    mine[3] = sqrtf(fabsf(a));
    mine[4] = fmaf(a, b, -a);
    mine[5] = fminf(a, b) - fmaxf(a, b);
    mine[6] = floorf(a) + ceilf(b) + truncf(a) - rintf(b);
    mine[7] = copysignf(a, -b);
    mine[8] = float(int(a)) + float(unsigned(fabsf(b))) + float((long long)(a * 1e6f));
    mine[9] = 1.0f / b;
    mine[10] = isnan(a / b) ? 1.0f : isinf(a / b) ? 2.0f : signbit(a) ? 3.0f : 4.0f;
    mine[11] = __int_as_float(__float_as_int(a) ^ 0x80000000) + fmodf(a, b);
}
EXPORT(floats)

// Integers of every width to floats and back.
extern "C" __global__ void conversions(const long long *x, float *y, double *z, long long *back) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const long long v = x[i];
    float *mine = y + 8 * i;
    mine[0] = float(v);
    mine[1] = float((unsigned long long)v);
    mine[2] = float(int(v));
    mine[3] = float(unsigned(v));
    mine[4] = float(short(v));
    mine[5] = float((unsigned short)v);
    mine[6] = float((signed char)v);
    mine[7] = float((unsigned char)v);
    z[2 * i] = double(v);
    z[2 * i + 1] = double((unsigned long long)v);
    back[4 * i] = (long long)(mine[2]) + int(mine[4] / 3);
    back[4 * i + 1] = (long long)(z[2 * i] / 1024);
    back[4 * i + 2] = (unsigned char)(int(mine[7] / 2)) + short(int(mine[4] / 5));
    back[4 * i + 3] = (long long)((unsigned long long)(z[2 * i + 1] / 4));
}
EXPORT(conversions)

// Counter-based random numbers as in Philox: multiplications of 32 x 32 bits, ten rounds.
extern "C" __global__ void philox(uint2 key, unsigned *y) {
    unsigned c0 = blockIdx.x * blockDim.x + threadIdx.x, c1 = 0x1234, c2 = ~c0, c3 = 7;
    for (int round = 0; round < 10; ++round) {
        const unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ key.x;
        c1 = low1;
        c2 = high0 ^ c3 ^ key.y;
        c3 = low0;
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    reinterpret_cast<int4 *>(y)[blockIdx.x * blockDim.x + threadIdx.x] = int4{int(c0), int(c1), int(c2),
        int(c3)};
}
EXPORT(philox)
