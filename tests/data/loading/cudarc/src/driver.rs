//! Contexts, streams, memory, launches.

use std::ffi::{c_void, CStr, CString};
use std::marker::PhantomData;
use std::mem::{size_of, size_of_val};
use std::ptr::null_mut;
use std::sync::Arc;

use crate::nvrtc::{Ptx, PtxKind};

pub mod sys;

/// What the driver returns where it fails.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DriverError(pub sys::CUresult);

impl std::fmt::Debug for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut name = std::ptr::null();
        unsafe { sys::cuGetErrorName(self.0, &mut name) };
        let name = if name.is_null() { c"no name" } else { unsafe { CStr::from_ptr(name) } };
        write!(f, "DriverError({})", name.to_string_lossy())
    }
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for DriverError {}

fn check(code: sys::CUresult) -> Result<(), DriverError> {
    if code.0 == 0 {
        Ok(())
    } else {
        Err(DriverError(code))
    }
}

#[derive(Debug)]
pub struct CudaContext {
    device: i32,
}

impl CudaContext {
    pub fn new(ordinal: usize) -> Result<Arc<Self>, DriverError> {
        let (mut device, mut context) = (0, null_mut());
        check(unsafe { sys::cuInit(0) })?;
        check(unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) })?;
        check(unsafe { sys::cuCtxSetCurrent(context) })?;
        Ok(Arc::new(Self { device }))
    }

    pub fn new_stream(self: &Arc<Self>) -> Result<Arc<CudaStream>, DriverError> {
        let mut stream = null_mut();
        check(unsafe { sys::cuStreamCreate(&mut stream, 1) })?;
        Ok(Arc::new(CudaStream { stream, _context: self.clone() }))
    }

    pub fn load_module(self: &Arc<Self>, ptx: Ptx) -> Result<Arc<CudaModule>, DriverError> {
        let mut module = null_mut();
        match ptx.0 {
            PtxKind::Src(text) => {
                let text = CString::new(text).unwrap();
                check(unsafe { sys::cuModuleLoadData(&mut module, text.as_ptr().cast()) })?;
            }
            PtxKind::File(path) => {
                let path = CString::new(path.to_str().unwrap()).unwrap();
                check(unsafe { sys::cuModuleLoad(&mut module, path.as_ptr()) })?;
            }
        }
        Ok(Arc::new(CudaModule { module, _context: self.clone() }))
    }
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        unsafe { sys::cuDevicePrimaryCtxRelease(self.device) };
    }
}

#[derive(Debug)]
pub struct CudaModule {
    module: sys::CUmodule,
    _context: Arc<CudaContext>,
}

impl CudaModule {
    pub fn load_function(self: &Arc<Self>, fn_name: &str) -> Result<CudaFunction, DriverError> {
        let (mut function, name) = (null_mut(), CString::new(fn_name).unwrap());
        check(unsafe { sys::cuModuleGetFunction(&mut function, self.module, name.as_ptr()) })?;
        Ok(CudaFunction { function, _module: self.clone() })
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        unsafe { sys::cuModuleUnload(self.module) };
    }
}

#[derive(Debug, Clone)]
pub struct CudaFunction {
    function: sys::CUfunction,
    _module: Arc<CudaModule>,
}

/// Something that a GPU has as it is.
///
/// # Safety
/// Its bytes must mean the same on the GPU.
pub unsafe trait DeviceRepr {}
unsafe impl DeviceRepr for f32 {}
unsafe impl DeviceRepr for u32 {}
unsafe impl DeviceRepr for u64 {}

/// Something that bytes of 0 are a value of.
///
/// # Safety
/// They must be.
pub unsafe trait ValidAsZeroBits {}
unsafe impl ValidAsZeroBits for f32 {}

/// Elements in the host's memory.
pub trait HostSlice<T> {
    fn elements(&self) -> &[T];
}

impl<T> HostSlice<T> for [T] {
    fn elements(&self) -> &[T] {
        self
    }
}

impl<T> HostSlice<T> for Vec<T> {
    fn elements(&self) -> &[T] {
        self
    }
}

/// Device memory.
#[derive(Debug)]
pub struct CudaSlice<T> {
    pointer: sys::CUdeviceptr,
    len: usize,
    marker: PhantomData<*const T>,
}

impl<T> Drop for CudaSlice<T> {
    fn drop(&mut self) {
        unsafe { sys::cuMemFree_v2(self.pointer) };
    }
}

/// Something in device memory that can be read.
pub trait DevicePtr<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>);
}

/// Something in device memory that can be written.
pub trait DevicePtrMut<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>);
}

/// Notes, when it is dropped, that the memory was used.
pub struct SyncOnDrop<'a>(PhantomData<&'a ()>);

impl Drop for SyncOnDrop<'_> {
    fn drop(&mut self) {}
}

impl<T> DevicePtr<T> for CudaSlice<T> {
    fn device_ptr<'a>(&'a self, _stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        (self.pointer, SyncOnDrop(PhantomData))
    }
}

impl<T> DevicePtrMut<T> for CudaSlice<T> {
    fn device_ptr_mut<'a>(&'a mut self, _stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        (self.pointer, SyncOnDrop(PhantomData))
    }
}

#[derive(Debug)]
pub struct CudaStream {
    stream: sys::CUstream,
    _context: Arc<CudaContext>,
}

impl CudaStream {
    unsafe fn alloc<T>(&self, len: usize) -> Result<CudaSlice<T>, DriverError> {
        let mut pointer = 0;
        check(unsafe { sys::cuMemAlloc_v2(&mut pointer, len * size_of::<T>()) })?;
        Ok(CudaSlice { pointer, len, marker: PhantomData })
    }

    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(
        self: &Arc<Self>,
        len: usize,
    ) -> Result<CudaSlice<T>, DriverError> {
        let made = unsafe { self.alloc(len) }?;
        check(unsafe { sys::cuMemsetD8Async(made.pointer, 0, len * size_of::<T>(), self.stream) })?;
        Ok(made)
    }

    pub fn clone_htod<T: DeviceRepr, Src: HostSlice<T> + ?Sized>(
        self: &Arc<Self>,
        src: &Src,
    ) -> Result<CudaSlice<T>, DriverError> {
        let elements = src.elements();
        let made = unsafe { self.alloc(elements.len()) }?;
        let (from, bytes) = (elements.as_ptr().cast(), size_of_val(elements));
        check(unsafe { sys::cuMemcpyHtoDAsync_v2(made.pointer, from, bytes, self.stream) })?;
        Ok(made)
    }

    /// The elements of `src`: of a `CudaSlice` alone, where cudarc takes views too.
    pub fn clone_dtoh<T: DeviceRepr>(self: &Arc<Self>, src: &CudaSlice<T>) -> Result<Vec<T>, DriverError> {
        let mut made = Vec::<T>::with_capacity(src.len);
        let (to, bytes) = (made.as_mut_ptr().cast(), src.len * size_of::<T>());
        check(unsafe { sys::cuMemcpyDtoHAsync_v2(to, src.pointer, bytes, self.stream) })?;
        unsafe { made.set_len(src.len) };
        Ok(made)
    }

    pub fn synchronize(&self) -> Result<(), DriverError> {
        check(unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    pub fn launch_builder<'a>(&'a self, func: &'a CudaFunction) -> LaunchArgs<'a> {
        LaunchArgs { stream: self, func, args: Vec::new() }
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        unsafe { sys::cuStreamDestroy_v2(self.stream) };
    }
}

#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    pub grid_dim: (u32, u32, u32),
    pub block_dim: (u32, u32, u32),
    pub shared_mem_bytes: u32,
}

/// A launch that is being put together: it borrows its arguments.
pub struct LaunchArgs<'a> {
    stream: &'a CudaStream,
    func: &'a CudaFunction,
    args: Vec<*mut c_void>,
}

/// Something that can be an argument of a launch.
///
/// # Safety
/// As of `DeviceRepr`.
pub unsafe trait PushKernelArg<T> {
    fn arg(&mut self, arg: T) -> &mut Self;
}

unsafe impl<'a, 'b: 'a, T: DeviceRepr> PushKernelArg<&'b T> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b T) -> &mut Self {
        self.args.push(std::ptr::from_ref(arg) as *mut _);
        self
    }
}

unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b CudaSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b CudaSlice<T>) -> &mut Self {
        self.args.push(std::ptr::from_ref(&arg.pointer) as *mut _);
        self
    }
}

unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b mut CudaSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, arg: &'b mut CudaSlice<T>) -> &mut Self {
        self.args.push(std::ptr::from_ref(&arg.pointer) as *mut _);
        self
    }
}

/// Stands for an event: none is ever asked for.
#[derive(Debug)]
pub struct CudaEvent;

impl LaunchArgs<'_> {
    /// Launches.
    ///
    /// # Safety
    /// The arguments must be what the kernel expects.
    pub unsafe fn launch(&mut self, cfg: LaunchConfig) -> Result<Option<(CudaEvent, CudaEvent)>, DriverError> {
        let ((x, y, z), (bx, by, bz)) = (cfg.grid_dim, cfg.block_dim);
        let (stream, args) = (self.stream.stream, self.args.as_mut_ptr());
        let function = self.func.function;
        check(unsafe {
            sys::cuLaunchKernel(function, x, y, z, bx, by, bz, cfg.shared_mem_bytes, stream, args, null_mut())
        })?;
        Ok(None)
    }
}
