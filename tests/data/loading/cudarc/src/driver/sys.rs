//! The driver's functions, by their symbols.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_uint, c_void};

pub type CUdeviceptr = u64;
pub type CUmodule = *mut c_void;
pub type CUfunction = *mut c_void;
pub type CUstream = *mut c_void;

/// A code: 0, or that of an error. cudarc has an enumeration.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUresult(pub u32);

#[repr(u32)]
#[derive(Debug, Clone, Copy)]
pub enum CUjit_option {
    CU_JIT_ERROR_LOG_BUFFER = 5,
    CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
}

#[link(name = "cuda")]
extern "C" {
    pub fn cuGetErrorName(error: CUresult, name: *mut *const c_char) -> CUresult;
    pub fn cuInit(flags: c_uint) -> CUresult;
    pub fn cuDeviceGet(device: *mut i32, number: i32) -> CUresult;
    pub fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: i32) -> CUresult;
    #[link_name = "cuDevicePrimaryCtxRelease_v2"]
    pub fn cuDevicePrimaryCtxRelease(device: i32) -> CUresult;
    pub fn cuCtxSetCurrent(context: *mut c_void) -> CUresult;
    pub fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult;
    pub fn cuStreamSynchronize(stream: CUstream) -> CUresult;
    pub fn cuStreamDestroy_v2(stream: CUstream) -> CUresult;
    pub fn cuModuleLoad(module: *mut CUmodule, path: *const c_char) -> CUresult;
    pub fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> CUresult;
    pub fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        numOptions: c_uint,
        options: *mut CUjit_option,
        optionValues: *mut *mut c_void,
    ) -> CUresult;
    pub fn cuModuleUnload(module: CUmodule) -> CUresult;
    pub fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult;
    pub fn cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize) -> CUresult;
    pub fn cuMemFree_v2(pointer: CUdeviceptr) -> CUresult;
    pub fn cuMemsetD8Async(pointer: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) -> CUresult;
    pub fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> CUresult;
    pub fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult;
    pub fn cuLaunchKernel(
        function: CUfunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared: c_uint,
        stream: CUstream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> CUresult;
}
