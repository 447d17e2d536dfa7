/* As much of the driver as the loading examples call, on the CPU, where a launch of batched_rope rotates.
 *
 * Each call adds a line to the file that LIBCUDA_CALLS names. The function that LIBCUDA_FAILS names returns
 * CUDA_ERROR_UNKNOWN, or the error whose number LIBCUDA_ERROR is; a text that is no PTX, nor a fat binary, is refused with a line in the error log.
 */

#define _GNU_SOURCE /* memmem */

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

struct CUmod_st {
    char *image;
    size_t size;
};

struct CUfunc_st {
    char entry[64];
};

static int stream_made; /* its address stands for the one stream, and for the context */
static _Thread_local CUcontext present;

static CUresult called(const char *name, const char *format, ...)
{
    const char *path = getenv("LIBCUDA_CALLS"), *fails = getenv("LIBCUDA_FAILS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        va_list values;
        va_start(values, format);
        fprintf(file, "%s", name);
        vfprintf(file, format, values);
        fprintf(file, "\n");
        va_end(values);
        fclose(file);
    }
    if (!fails || strcmp(fails, name) != 0)
        return CUDA_SUCCESS;
    const char *error = getenv("LIBCUDA_ERROR");
    return error ? (CUresult)atoi(error) : CUDA_ERROR_UNKNOWN;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    *name = error == CUDA_ERROR_UNKNOWN           ? "CUDA_ERROR_UNKNOWN"
            : error == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : error == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT"
            : error == CUDA_ERROR_INVALID_IMAGE   ? "CUDA_ERROR_INVALID_IMAGE"
            : error == CUDA_ERROR_INVALID_PTX     ? "CUDA_ERROR_INVALID_PTX"
            : error == CUDA_ERROR_INVALID_VALUE   ? "CUDA_ERROR_INVALID_VALUE"
            : error == CUDA_ERROR_NOT_FOUND       ? "CUDA_ERROR_NOT_FOUND"
                                                  : NULL;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) { return cuGetErrorName(error, text); }

CUresult cuInit(unsigned flags) { return called("cuInit", " %u", flags); }

CUresult cuDeviceGet(CUdevice *device, int number)
{
    *device = number;
    return called("cuDeviceGet", " %d", number);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    *context = (CUcontext)&stream_made;
    return called("cuDevicePrimaryCtxRetain", " %d", device);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return called("cuDevicePrimaryCtxRelease", " %d", device); }

CUresult cuCtxSetCurrent(CUcontext context)
{
    present = context;
    return called("cuCtxSetCurrent", "");
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    *stream = (CUstream)&stream_made;
    return called("cuStreamCreate", flags == CU_STREAM_NON_BLOCKING ? " non-blocking" : "");
}

CUresult cuStreamSynchronize(CUstream stream)
{
    return stream == (CUstream)&stream_made ? called("cuStreamSynchronize", "") : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamDestroy(CUstream stream)
{
    return stream == (CUstream)&stream_made ? called("cuStreamDestroy", "") : CUDA_ERROR_INVALID_HANDLE;
}

/* The size of a fat binary, or of a whole PTX text; 0 of anything else. */
static size_t size_of(const char *image)
{
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba};
    if (memcmp(image, magic, sizeof magic) == 0) {
        uint16_t header;
        uint64_t rest;
        memcpy(&header, image + 6, sizeof header);
        memcpy(&rest, image + 8, sizeof rest);
        return header + rest;
    }
    size_t size = strlen(image);
    return strstr(image, "\n.version ") && strcmp(image + size - 2, "}\n") == 0 ? size : 0;
}

static CUresult load(CUmodule *module, const char *name, const char *image, char *log, size_t log_size)
{
    size_t size = size_of(image);
    CUresult result = called(name, size == 0 ? " what is no image" : *image == '/' ? " PTX" : " a fat binary");
    if (result == CUDA_SUCCESS && size == 0)
        result = CUDA_ERROR_INVALID_PTX;
    if (result != CUDA_SUCCESS) {
        snprintf(log, log_size, "ptxas application ptx input, line 1; fatal : not an image");
        return result;
    }
    *module = malloc(sizeof **module);
    (*module)->image = memcpy(malloc(size), image, size);
    (*module)->size = size;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    char *log = NULL;
    size_t log_size = 0;
    for (unsigned i = 0; i < count; ++i) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            log_size = (uint32_t)(uintptr_t)values[i]; /* the driver reads 32 bits */
    }
    return load(module, "cuModuleLoadDataEx", image, log, log_size);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(module, "cuModuleLoadData", image, NULL, 0);
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    static char image[1 << 20];
    image[fread(image, 1, sizeof image - 1, file)] = 0;
    fclose(file);
    return load(module, "cuModuleLoad", image, NULL, 0);
}

CUresult cuModuleUnload(CUmodule module)
{
    free(module->image);
    free(module);
    return called("cuModuleUnload", "");
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *entry)
{
    static struct CUfunc_st found;
    CUresult result = called("cuModuleGetFunction", " %s", entry);
    if (result == CUDA_SUCCESS && !memmem(module->image, module->size, entry, strlen(entry)))
        return CUDA_ERROR_NOT_FOUND;
    snprintf(found.entry, sizeof found.entry, "%s", entry);
    *function = &found;
    return result;
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes)
{
    *pointer = (CUdeviceptr)malloc(bytes);
    memset((void *)*pointer, 0xff, bytes); /* NaN */
    return called("cuMemAlloc", " %zu", bytes);
}

CUresult cuMemFree(CUdeviceptr pointer)
{
    free((void *)pointer);
    return called("cuMemFree", "");
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    if (stream != (CUstream)&stream_made)
        return CUDA_ERROR_INVALID_HANDLE;
    memset((void *)to, value, bytes);
    return called("cuMemsetD8Async", " %zu", bytes);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    if (stream != (CUstream)&stream_made)
        return CUDA_ERROR_INVALID_HANDLE;
    memcpy((void *)to, from, bytes);
    return called("cuMemcpyHtoDAsync", " %zu", bytes);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (stream != (CUstream)&stream_made)
        return CUDA_ERROR_INVALID_HANDLE;
    memcpy(to, (void *)from, bytes);
    return called("cuMemcpyDtoHAsync", " %zu", bytes);
}

CUresult cuLaunchKernel(CUfunction function, unsigned heads, unsigned rows, unsigned z, unsigned pairs, unsigned block_y,
                        unsigned block_z, unsigned shared, CUstream stream, void **arguments, void **extra)
{
    CUresult result = called("cuLaunchKernel", " %s grid %u %u %u block %u %u %u shared %u", function->entry, heads, rows,
                             z, pairs, block_y, block_z, shared);
    if (result != CUDA_SUCCESS)
        return result;
    if (rows == 0 || rows > 65535 || strcmp(function->entry, "batched_rope") || extra || stream != (CUstream)&stream_made)
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr pointers[3];
    for (int i = 0; i < 3; ++i)
        memcpy(&pointers[i], arguments[i], sizeof pointers[i]);
    const float *x = (const float *)pointers[0];
    float *out = (float *)pointers[1];
    const uint32_t *positions = (const uint32_t *)pointers[2];
    for (size_t row = 0; row < rows; ++row)
        for (size_t pair = 0; pair < (size_t)heads * pairs; ++pair) {
            double angle = positions[row] * pow(1e4, -1.0 * (double)(pair % pairs) / pairs);
            size_t even = 2 * (row * heads * pairs + pair);
            double a = x[even], b = x[even + 1];
            out[even] = (float)(a * cos(angle) - b * sin(angle));
            out[even + 1] = (float)(a * sin(angle) + b * cos(angle));
        }
    return CUDA_SUCCESS;
}
