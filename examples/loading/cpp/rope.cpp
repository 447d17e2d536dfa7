// Loads batched_rope from a build directory with the driver API, rotates rows and compares a value. In this directory:
//
//     ptxtemplates build -c ../kernels.toml --header build/kernels.h --arch sm_90 --fatbin
//     c++ -std=c++17 -I build -I "$CUDA_HOME/include" rope.cpp -lcuda -o build/rope && build/rope build
//
// Without --arch and --fatbin there is PTX alone, and the driver assembles it (and keeps what it made).

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <cuda.h>

#include "kernels.h"

static void check(CUresult result, const char *call, const char *log = "")
{
    if (result == CUDA_SUCCESS)
        return;
    const char *name = nullptr;
    cuGetErrorName(result, &name);
    std::fprintf(stderr, "%s: %s\n%s", call, name ? name : "an error that the driver has no name for", log);
    std::exit(2);
}

#define CHECK(call) check(call, #call)

static CUmodule load(std::filesystem::path path)
{
    // a fat binary has machine code, and the PTX for GPUs that it has none for: the driver takes what fits
    const std::filesystem::path fatbin = std::filesystem::path(path).replace_extension(".fatbin");
    if (std::filesystem::exists(fatbin))
        path = fatbin;
    std::ifstream file(path, std::ios::binary);
    const std::string image(std::istreambuf_iterator<char>(file), {}); // its c_str() ends in the 0 that PTX needs
    if (image.empty()) {
        std::fprintf(stderr, "%s cannot be read, or is empty\n", path.string().c_str());
        std::exit(2);
    }
    char log[8192] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
    CUmodule module = nullptr;
    const std::string call = "cuModuleLoadDataEx of " + path.string();
    check(cuModuleLoadDataEx(&module, image.c_str(), 2, options, values), call.c_str(), log);
    return module;
}

int main(int count, char **words)
{
    if (count < 2) {
        std::fprintf(stderr, "usage: %s BUILD [ROWS]\n", words[0]);
        return 2;
    }
    const uint32_t heads = 8, head_dim = 64; // the variant's; kernels.h has what a launch needs
    const uint64_t rows = count > 2 ? std::strtoull(words[2], nullptr, 10) : 4;
    uint32_t grid[3];
    if (!batched_rope_h8_d64_theta10000_grid(rows, grid)) {
        std::fprintf(stderr, "%s rows are not possible in one launch: slice them\n", words[2]);
        return 2;
    }

    CUdevice device;
    CUcontext context;
    CUstream stream;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    CUmodule module = load(std::filesystem::path(words[1]) / batched_rope_h8_d64_theta10000_file);
    CUfunction rope;
    CHECK(cuModuleGetFunction(&rope, module, batched_rope_h8_d64_theta10000_entry));

    std::vector<float> x(rows * heads * head_dim);
    std::vector<uint32_t> positions(rows);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(i % 7) - 3.0f;
    for (std::size_t row = 0; row < rows; ++row)
        positions[row] = static_cast<uint32_t>(1000 * row);
    const std::size_t bytes = x.size() * sizeof(float), position_bytes = rows * sizeof(uint32_t);

    CUdeviceptr x_ptr, out_ptr, positions_ptr;
    CHECK(cuMemAlloc(&x_ptr, bytes));
    CHECK(cuMemAlloc(&out_ptr, bytes));
    CHECK(cuMemAlloc(&positions_ptr, position_bytes));
    CHECK(cuMemcpyHtoDAsync(x_ptr, x.data(), bytes, stream));
    CHECK(cuMemcpyHtoDAsync(positions_ptr, positions.data(), position_bytes, stream));
    void *arguments[] = {&x_ptr, &out_ptr, &positions_ptr};
    CHECK(cuLaunchKernel(rope, grid[0], grid[1], grid[2], batched_rope_h8_d64_theta10000_block_x,
                         batched_rope_h8_d64_theta10000_block_y, batched_rope_h8_d64_theta10000_block_z,
                         0, stream, arguments, nullptr));
    std::vector<float> out(x.size());
    CHECK(cuMemcpyDtoHAsync(out.data(), out_ptr, bytes, stream));
    CHECK(cuStreamSynchronize(stream)); // an error of the kernel itself shows here

    CHECK(cuMemFree(x_ptr));
    CHECK(cuMemFree(out_ptr));
    CHECK(cuMemFree(positions_ptr));
    CHECK(cuModuleUnload(module));
    CHECK(cuStreamDestroy(stream));
    CHECK(cuDevicePrimaryCtxRelease(device));

    // pair 1 of head 1 of the last row
    const std::size_t even = ((rows - 1) * heads + 1) * head_dim + 2;
    const double angle = positions.back() * std::pow(1e4, -2.0 / head_dim);
    const double expected = x[even] * std::cos(angle) - x[even + 1] * std::sin(angle);
    if (!(std::fabs(out[even] - expected) < 1e-5)) {
        std::printf("%g, and it should be %g\n", static_cast<double>(out[even]), expected);
        return 1;
    }
    std::puts("ok");
    return 0;
}
