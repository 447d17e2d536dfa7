// Rotates rows of ones with the embedded kernel and compares with the formula; exits with 0 if they agree.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda.h>

#include "kernels.h"

static void check(CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS)
        return;
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    std::fprintf(stderr, "%s: %s\n", call, name ? name : "unknown error");
    std::exit(2);
}

#define CHECK(call) check(call, #call)

int main()
{
    const uint32_t rows = 4, heads = 8, head_dim = 64;
    const double theta = 1e4;

    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));

    CUmodule module;
    CUfunction rope;
    CHECK(cuModuleLoadData(&module, batched_rope_h8_d64_theta10000_ptx));
    CHECK(cuModuleGetFunction(&rope, module, batched_rope_h8_d64_theta10000_entry));

    std::vector<float> x(rows * heads * head_dim, 1.0f);
    const std::vector<uint32_t> positions = {0, 1, 7, 100000};
    const std::size_t bytes = x.size() * sizeof x[0];
    CUdeviceptr x_ptr, positions_ptr;
    CHECK(cuMemAlloc(&x_ptr, bytes));
    CHECK(cuMemAlloc(&positions_ptr, rows * sizeof positions[0]));
    CHECK(cuMemcpyHtoD(x_ptr, x.data(), bytes));
    CHECK(cuMemcpyHtoD(positions_ptr, positions.data(), rows * sizeof positions[0]));

    uint32_t grid[3];
    if (!batched_rope_h8_d64_theta10000_grid(rows, grid)) {
        std::fprintf(stderr, "%u rows are too many for one launch\n", static_cast<unsigned>(rows));
        return 2;
    }
    batched_rope_parameters parameters = {};
    parameters.x_ptr = x_ptr;
    parameters.out_ptr = x_ptr; // in place
    parameters.positions_ptr = positions_ptr;
    std::size_t size = batched_rope_parameters_size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters,
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CHECK(cuLaunchKernel(rope, grid[0], grid[1], grid[2], batched_rope_h8_d64_theta10000_block_x,
                         batched_rope_h8_d64_theta10000_block_y, batched_rope_h8_d64_theta10000_block_z,
                         0, nullptr, nullptr, extra));
    CHECK(cuMemcpyDtoH(x.data(), x_ptr, bytes)); // waits for the kernel

    double largest_error = 0.0;
    for (uint32_t row = 0; row < rows; ++row)
        for (uint32_t head = 0; head < heads; ++head)
            for (uint32_t pair = 0; pair < head_dim / 2; ++pair) {
                const double angle = positions[row] * std::pow(theta, -2.0 * pair / head_dim);
                const float *out = &x[(row * heads + head) * head_dim + 2 * pair];
                largest_error = std::fmax(largest_error, std::fabs(out[0] - (std::cos(angle) - std::sin(angle))));
                largest_error = std::fmax(largest_error, std::fabs(out[1] - (std::sin(angle) + std::cos(angle))));
            }
    std::printf("%s: largest error %.1e\n", batched_rope_h8_d64_theta10000_file, largest_error);

    CHECK(cuMemFree(x_ptr));
    CHECK(cuMemFree(positions_ptr));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
    return largest_error < 1e-6 ? 0 : 1;
}
