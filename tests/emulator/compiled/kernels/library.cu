// Functions of the mathematical library: long polynomials, slow paths for large arguments with local arrays.

extern "C" __global__ void float_library(const float *x, float *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float a = x[i];
    float *mine = y + 10 * i;
    mine[0] = expf(a);
    mine[1] = logf(fabsf(a));
    mine[2] = sinf(a * 1e4f);
    mine[3] = cosf(a * 1e4f);
    mine[4] = tanhf(a);
    mine[5] = exp2f(a);
    mine[6] = log2f(fabsf(a));
    mine[7] = cbrtf(a);
    mine[8] = log1pf(fabsf(a));
    mine[9] = expm1f(a);
}

extern "C" __global__ void double_library(const double *x, double *y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const double a = x[i];
    double *mine = y + 6 * i;
    mine[0] = exp(a);
    mine[1] = log(fabs(a));
    mine[2] = sin(a * 1e8);
    mine[3] = cos(a * 1e8);
    mine[4] = tanh(a);
    mine[5] = cbrt(a);
}
