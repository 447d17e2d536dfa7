// Shared, local and constant memory, vectors, shapes of blocks and grids.
#include "../host.h"

extern "C" __global__ void histogram(const unsigned char *x, unsigned *bins, int n) {
    __shared__ unsigned mine[64];
    for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i] % 64], 1u);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 64; i += blockDim.x)
        if (mine[i]) atomicAdd(&bins[i], mine[i]);
}
EXPORT(histogram)

extern "C" __global__ void transpose_padded(const float *x, float *y, int rows, int columns) {
    __shared__ float tile[16][17];
    int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    for (int k = 0; k < 16; k += 8)
        if (row + k < rows && column < columns) tile[threadIdx.y + k][threadIdx.x] = x[(row +
            k) * columns + column];
    __syncthreads();
    column = blockIdx.y * 16 + threadIdx.x;
    row = blockIdx.x * 16 + threadIdx.y;
    for (int k = 0; k < 16; k += 8)
        if (row + k < columns && column < rows) y[(row + k) * rows + column] =
            tile[threadIdx.x][threadIdx.y + k];
}
EXPORT(transpose_padded)

// A tile of 32 x 32, four elements a thread; rows and columns are multiples of 32.
extern "C" __global__ void transpose_float4(const float4 *x, float4 *y, int rows, int columns) {
    __shared__ float4 tile[32][8];
    const int row = blockIdx.y * 32 + threadIdx.y, group = threadIdx.x;
    tile[threadIdx.y][group] = x[(row * columns + int(blockIdx.x) * 32) / 4 + group];
    __syncthreads();
    const float *elements = reinterpret_cast<const float *>(tile);
    const int column = threadIdx.y;
    const float4 v = make_float4(elements[(4 * group) * 32 + column], elements[(4 * group + 1) * 32 + column],
                                 elements[(4 * group + 2) * 32 + column], elements[(4 * group + 3) * 32 +
                                     column]);
    y[((int(blockIdx.x) * 32 + column) * rows + int(blockIdx.y) * 32) / 4 + group] = v;
}
EXPORT(transpose_float4)

extern "C" __global__ void copy_float4(const float *__restrict__ x, float *__restrict__ y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, whole = n / 4;
    if (i < whole) reinterpret_cast<float4 *>(y)[i] = reinterpret_cast<const float4 *>(x)[i];
    if (i < n % 4) y[4 * whole + i] = x[4 * whole + i];
}
EXPORT(copy_float4)

extern "C" __global__ void copy_bytes(const signed char *x, const short *z, short *y, unsigned char *t,
    int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = short(x[i] * 3 - z[i]);
    t[i] = (unsigned char)(x[i] + z[i]);
}
EXPORT(copy_bytes)

// An array that registers cannot hold: its index is known only at run time.
extern "C" __global__ void local_array(const int *x, int *y, int turns) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int ring[16];
    for (int k = 0; k < 16; ++k) ring[k] = x[i] + k;
    for (int k = 0; k < turns; ++k) ring[(x[i] + 5 * k) & 15] += ring[(x[i] ^ k) & 15];
    int sum = 0;
    for (int k = 0; k < 16; ++k) sum = sum * 31 + ring[k];
    y[i] = sum;
}
EXPORT(local_array)

// Each thread sorts its eight values by insertion; loops of different length, bytes in local memory.
extern "C" __global__ void local_sort(const unsigned char *x, unsigned char *y) {
    const int base = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    unsigned char sorted[8];
    for (int k = 0; k < 8; ++k) {
        const unsigned char value = x[base + k];
        int place = k;
        for (; place > 0 && sorted[place - 1] > value; --place) sorted[place] = sorted[place - 1];
        sorted[place] = value;
    }
    for (int k = 0; k < 8; ++k) y[base + k] = sorted[k];
}
EXPORT(local_sort)

__constant__ float coefficients[5] = {0.5f, -1.25f, 3.0f, 0.0625f, -7.0f};
__constant__ signed char steps[2][4] = {{1, -2, 3, -4}, {5, 6, -7, 8}};

extern "C" __global__ void constant_tables(const float *x, const int *which, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = 0;
    for (int k = 0; k < 5; ++k) value = value * x[i] + coefficients[k];
    y[i] = value + coefficients[which[i] % 5] * steps[which[i] & 1][(which[i] >> 1) & 3];
}
EXPORT(constant_tables)

struct Affine {
    float scale;
    short shift;
    long long offset;
    unsigned char mask[6];
    int limits[2];
};

extern "C" __global__ void by_value(const long long *x, Affine a, double *y, int index) {
    const int i = threadIdx.x;
    long long value = (x[i] << a.shift) + a.offset;
    value = max((long long)a.limits[0], min((long long)a.limits[1], value));
    y[i] = double(value) * a.scale + a.mask[i % 6] + a.limits[index & 1];
}
EXPORT(by_value)

// A parameter that stays where it is: its address is taken, and its table read by an index.
struct Table {
    int values[12];
    short shifts[4];
};

__device__ __noinline__ int entry_of(const Table *table, int index) {
    return table->values[index] << table->shifts[index & 3];
}

extern "C" __global__ void grid_constant(const int *x, const __grid_constant__ Table table, int *y) {
    const int i = threadIdx.x, index = x[i] % 12;
    y[i] = entry_of(&table, index) + table.values[(index + i) % 12];
}
EXPORT(grid_constant)

// Vectors of every width, and unions of them.
extern "C" __global__ void vectors(const uchar4 *x, const short4 *z, const double2 *w, uchar4 *y,
    double2 *v, unsigned *u) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const uchar4 a = x[i];
    const short4 b = z[i];
    const double2 c = w[i];
    y[i] = uchar4{(unsigned char)(a.w + b.x), a.z, (unsigned char)(a.y >> 1), (unsigned char)(b.y * a.x)};
    v[i] = double2{c.y - b.z, c.x * b.w};
    union {
        unsigned word;
        unsigned char bytes[4];
        float real;
    } pun;
    pun.bytes[0] = a.x;
    pun.bytes[1] = a.y;
    pun.bytes[2] = a.z;
    pun.bytes[3] = 0x3f;
    pun.real = pun.real * 2;
    u[i] = pun.word;
}
EXPORT(vectors)

// Which thread of which block writes what, for three dimensions of both.
extern "C" __global__ void shape(unsigned *y) {
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned size = blockDim.x * blockDim.y * blockDim.z;
    y[block * size + thread] = threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 | blockIdx.x << 12 |
        blockIdx.y << 16 |
                               blockIdx.z << 20 | gridDim.z << 24;
}
EXPORT(shape)

extern "C" __global__ void saxpy_grid_stride(const float *x, float *y, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] =
        a * x[i] + y[i];
}
EXPORT(saxpy_grid_stride)

// Product of matrices by tiles of 8 x 8; the size is no multiple of a tile.
extern "C" __global__ void __launch_bounds__(64) matmul_tiles(const float *a, const float *b, float *c,
    int n) {
    __shared__ float left[8][8], right[8][8];
    const int tx = threadIdx.x, ty = threadIdx.y, column = blockIdx.x * 8 + tx, row = blockIdx.y * 8 + ty;
    float sum = 0;
    for (int k = 0; k < n; k += 8) {
        left[ty][tx] = row < n && k + tx < n ? a[row * n + k + tx] : 0.0f;
        right[ty][tx] = column < n && k + ty < n ? b[(k + ty) * n + column] : 0.0f;
        __syncthreads();
        for (int j = 0; j < 8; ++j) sum += left[ty][j] * right[j][tx];
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
EXPORT(matmul_tiles)

// Seven-point stencil with a halo in dynamic shared memory, of which two arrays are cut.
extern "C" __global__ void stencil(const float *x, float *y, int n) {
    DYNAMIC_SHARED(char, memory);
    float *cells = reinterpret_cast<float *>(memory);
    int *counts = reinterpret_cast<int *>(memory + (blockDim.x + 6) * sizeof(float));
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = threadIdx.x; k < int(blockDim.x) + 6; k += blockDim.x) {
        const int at = int(blockIdx.x * blockDim.x) + k - 3;
        cells[k] = at >= 0 && at < n ? x[at] : 0.0f;
    }
    counts[threadIdx.x] = i % 5;
    __syncthreads();
    if (i >= n) return;
    float sum = 0;
    for (int k = 0; k < 7; ++k) sum += cells[threadIdx.x + k];
    y[i] = sum + counts[blockDim.x - 1 - threadIdx.x];
}
EXPORT(stencil)

// Neighbours write the bytes of one word, and halves of it, before others read the whole.
extern "C" __global__ void shared_bytes(const int *x, unsigned *y) {
    __shared__ __align__(16) unsigned char bytes[256];
    __shared__ __align__(16) short halves[64];
    const int i = threadIdx.x;
    for (int k = 0; k < 4; ++k) bytes[i + 64 * k] = (unsigned char)(x[i] + k);
    halves[63 - i] = short(x[i] * 3);
    __syncthreads();
    const unsigned word = reinterpret_cast<const unsigned *>(bytes)[i];
    y[i] = word ^ reinterpret_cast<const unsigned *>(halves)[i / 2];
}
EXPORT(shared_bytes)

// Pointers that may lead to shared, local or global memory: generic addresses.
__device__ __noinline__ int pick_and_add(const int *a, const int *b, int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += a[i] * b[n - 1 - i];
    return sum;
}

extern "C" __global__ void generic_addresses(const int *x, int *y) {
    __shared__ int shared[64];
    int local[4];
    const int i = threadIdx.x;
    shared[i] = x[i] + 1;
    for (int k = 0; k < 4; ++k) local[(k + i) & 3] = x[(i + k) & 63];
    __syncthreads();
    const int *sources[3] = {shared + (i & 31), local, x + (i & 31)};
    y[i] = pick_and_add(sources[i % 3], sources[(i + 1) % 3], 4);
}
EXPORT(generic_addresses)
