/* What cuda.core calls beside the loading examples: with libcuda.c, a driver of one device, a stream and a graph.
 *
 * A launch into a stream that is captured is kept, and done when the graph is launched. Functions that are not here
 * are said to be missing, as in an old driver.
 */

#include "libcuda.c"

static CUcontext only(void) { return (CUcontext)&stream_made; }

/* A stream, or a default one where there is a context; its context. */
static CUcontext context_of(CUstream stream) { return (uintptr_t)stream > 2 ? only() : present; }

/* Device */

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)size, "none");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
                                                                         : 1;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = 1 << 26;
    return present ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Contexts: a thread has one, or none */

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = present;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context)
{
    present = context;
    return called("cuCtxPushCurrent", "");
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    if (context)
        *context = present;
    present = NULL;
    return called("cuCtxPopCurrent", "");
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return present ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return CUDA_SUCCESS;
}

/* Streams */

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)priority;
    return present ? cuStreamCreate(stream, flags) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    *context = context_of(stream);
    return *context ? called("cuStreamGetCtx", "") : CUDA_ERROR_INVALID_CONTEXT;
}

/* Memory: the pool is one in name alone */

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    (void)device;
    *pool = (CUmemoryPool)&stream_made;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool, (void)attribute;
    memset(value, 0, sizeof(cuuint64_t));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool, (void)attribute, (void)value;
    return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    (void)pool;
    return stream == (CUstream)&stream_made ? cuMemAlloc(pointer, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) { return (void)stream, cuMemFree(pointer); }

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned word, size_t words, CUstream stream)
{
    for (size_t i = 0; i < words; ++i)
        memcpy((char *)to + i * sizeof word, &word, sizeof word);
    return stream == (CUstream)&stream_made ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Libraries: a library is a module, a kernel a function; machine code is an image too */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned count,
                           CUlibraryOption *more, void **more_values, unsigned more_count)
{
    (void)options, (void)values, (void)count, (void)more, (void)more_values, (void)more_count;
    if (memcmp(code, "\177ELF", 4) == 0)
        return called("cuLibraryLoadData", " machine code"), CUDA_ERROR_INVALID_IMAGE;
    return load((CUmodule *)library, "cuLibraryLoadData", code, NULL, 0);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *entry)
{
    return cuModuleGetFunction((CUfunction *)kernel, (CUmodule)library, entry);
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    *function = (CUfunction)kernel;
    return present ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuFuncLoad(CUfunction function) { return (void)function, called("cuFuncLoad", ""); }

/* Launches, and the graph */

static enum { NOT_CAPTURED, CAPTURED } capture;
static struct {
    CUfunction function;
    CUlaunchConfig how;
    CUdeviceptr arguments[3];
} kept[8];
static unsigned kept_count;

static CUresult launch(CUfunction function, const CUlaunchConfig *how, void **arguments)
{
    return cuLaunchKernel(function, how->gridDimX, how->gridDimY, how->gridDimZ, how->blockDimX, how->blockDimY,
                          how->blockDimZ, how->sharedMemBytes, (CUstream)&stream_made, arguments, NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **arguments, void **extra)
{
    if (extra || how->numAttrs)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_of(how->hStream))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (capture == NOT_CAPTURED)
        return launch(function, how, arguments);
    kept[kept_count].function = function;
    kept[kept_count].how = *how;
    for (int i = 0; i < 3; ++i)
        memcpy(&kept[kept_count].arguments[i], arguments[i], sizeof(CUdeviceptr));
    ++kept_count;
    return called("a launch is kept", "");
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    (void)stream, (void)mode;
    capture = CAPTURED;
    kept_count = 0;
    return called("cuStreamBeginCapture", "");
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    if (capture == NOT_CAPTURED)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture = NOT_CAPTURED;
    *graph = (CUgraph)&kept;
    return called("cuStreamEndCapture", "");
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = capture == CAPTURED ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count)
{
    if (id)
        *id = 1;
    if (graph)
        *graph = (CUgraph)&kept;
    if (nodes)
        *nodes = NULL;
    if (edges)
        *edges = NULL;
    if (count)
        *count = 0;
    return cuStreamIsCapturing(stream, status);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *made, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    *made = (CUgraphExec)graph;
    params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return called("cuGraphInstantiateWithParams", "");
}

CUresult cuUserObjectCreate(CUuserObject *made, void *object, CUhostFn destroy, unsigned count, unsigned flags)
{
    (void)object, (void)destroy, (void)count, (void)flags;
    *made = (CUuserObject)&kept;
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
    return (void)graph, (void)object, (void)count, (void)flags, CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count)
{
    return (void)graph, (void)object, (void)count, CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec graph, CUstream stream) { return (void)graph, (void)stream, called("cuGraphUpload", ""); }
CUresult cuGraphDestroy(CUgraph graph) { return (void)graph, CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec graph) { return (void)graph, called("cuGraphExecDestroy", ""); }

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
    (void)graph, (void)stream;
    CUresult result = called("cuGraphLaunch", "");
    for (unsigned i = 0; i < kept_count && result == CUDA_SUCCESS; ++i) {
        void *arguments[3];
        for (int j = 0; j < 3; ++j)
            arguments[j] = &kept[i].arguments[j];
        result = launch(kept[i].function, &kept[i].how, arguments);
    }
    return result;
}

/* Where they are, by the names that cuda.core asks for, which have no versions */

#define IS(name) {#name, (void *)name}
static const struct {
    const char *name;
    void *function;
} functions[] = {
    IS(cuGetErrorName), IS(cuGetErrorString), IS(cuInit), IS(cuDriverGetVersion), IS(cuDeviceGet),
    IS(cuDeviceGetCount), IS(cuDeviceGetName), IS(cuDeviceGetAttribute), IS(cuDevicePrimaryCtxRetain),
    IS(cuDevicePrimaryCtxRelease), IS(cuMemGetInfo), IS(cuCtxGetCurrent), IS(cuCtxSetCurrent), IS(cuCtxPushCurrent),
    IS(cuCtxPopCurrent), IS(cuCtxGetDevice), IS(cuCtxGetStreamPriorityRange), IS(cuStreamCreateWithPriority),
    IS(cuStreamGetCtx), IS(cuStreamSynchronize), IS(cuStreamDestroy), IS(cuDeviceGetMemPool),
    IS(cuMemPoolGetAttribute), IS(cuMemPoolSetAttribute), IS(cuMemAllocFromPoolAsync), IS(cuMemFreeAsync),
    IS(cuMemAlloc), IS(cuMemFree), IS(cuMemsetD32Async), IS(cuMemcpyHtoDAsync), IS(cuMemcpyDtoHAsync),
    IS(cuLibraryLoadData), IS(cuLibraryGetKernel), IS(cuKernelGetFunction), IS(cuFuncLoad),
    IS(cuLaunchKernelEx), IS(cuStreamBeginCapture), IS(cuStreamEndCapture), IS(cuStreamIsCapturing),
    IS(cuStreamGetCaptureInfo), IS(cuGraphInstantiateWithParams), IS(cuGraphUpload), IS(cuUserObjectCreate),
    IS(cuGraphRetainUserObject), IS(cuGraphReleaseUserObject), IS(cuGraphDestroy), IS(cuGraphExecDestroy),
    IS(cuGraphLaunch), IS(cuGetProcAddress),
};

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status)
{
    (void)version, (void)flags;
    *function = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i)
        if (strcmp(functions[i].name, name) == 0)
            *function = functions[i].function;
    if (status)
        *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}
