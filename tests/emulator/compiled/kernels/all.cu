// Everything that runs on both sides, in one translation unit: one call of each compiler.
#include "reductions.cu"
#include "warps.cu"
#include "memory.cu"
#include "atomics.cu"
#include "integers.cu"
#include "control.cu"
