// As much of libcuda as the example needs, on the CPU: "launching" it rotates, from the parameters it was given.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <cuda.h>

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int) { return *device = 0, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) { return *context = nullptr, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char **name) { return *name = "an error", CUDA_SUCCESS; }

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const char *text = static_cast<const char *>(image);
    *module = nullptr;
    return std::strstr(text, ".visible .entry batched_rope(") && text[std::strlen(text) - 1] == '\n'
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_PTX;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule, const char *name)
{
    *function = nullptr;
    return std::strcmp(name, "batched_rope") ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes)
{
    *pointer = reinterpret_cast<CUdeviceptr>(std::malloc(bytes));
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer)
{
    std::free(reinterpret_cast<void *>(pointer));
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    std::memcpy(to, reinterpret_cast<void *>(from), bytes);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction, unsigned heads, unsigned rows, unsigned z, unsigned pairs, unsigned block_y,
                        unsigned block_z, unsigned shared, CUstream, void **pointers, void **extra)
{
    if (z != 1 || block_y != 1 || block_z != 1 || shared != 0 || pointers ||
        extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE ||
        *static_cast<size_t *>(extra[3]) != 24 || extra[4] != CU_LAUNCH_PARAM_END)
        return CUDA_ERROR_INVALID_VALUE;
    void *parameters[3]; // the kernel's ABI: three pointers
    std::memcpy(parameters, extra[1], sizeof parameters);
    const float *x = static_cast<const float *>(parameters[0]);
    float *out = static_cast<float *>(parameters[1]);
    const uint32_t *positions = static_cast<const uint32_t *>(parameters[2]);
    for (unsigned row = 0; row < rows; ++row)
        for (unsigned pair = 0; pair < heads * pairs; ++pair) {
            const double angle = positions[row] * std::pow(1e4, -1.0 * (pair % pairs) / pairs);
            const size_t even = 2 * (size_t(row) * heads * pairs + pair);
            const double a = x[even], b = x[even + 1];
            out[even] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
            out[even + 1] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
        }
    return CUDA_SUCCESS;
}
}
