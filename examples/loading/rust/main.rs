//! Loads `batched_rope` from a build directory with cudarc, rotates rows and compares a value. In this directory:
//!
//! ```sh
//! ptxtemplates build -c ../kernels.toml --rust build/kernels.rs --arch sm_90 --fatbin
//! cargo run -- build
//! ```
//!
//! Without `--arch` and `--fatbin` there is PTX alone, and the driver assembles it (and keeps what it made).

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cudarc::driver::{sys, CudaContext, CudaModule, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

#[path = "build/kernels.rs"]
mod kernels;
use kernels::batched_rope_h8_d64_theta10000 as rope;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}"); // several lines, where the driver's assembler has a log
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let build = PathBuf::from(words.next().ok_or("usage: rope BUILD [ROWS]")?);
    let rows: usize = words.next().map_or(Ok(4), |word| word.parse())?;
    let (heads, head_dim) = (8, 64); // the variant's; kernels.rs has what a launch needs
    let grid_dim = rope::grid(rows as u64)
        .ok_or_else(|| format!("{rows} rows are not possible in one launch: slice them"))?;

    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let module = load(&context, &build.join(rope::FILE))?;
    let function = module.load_function(rope::ENTRY)?;

    let x: Vec<f32> = (0..rows * heads * head_dim).map(|i| (i % 7) as f32 - 3.0).collect();
    let positions: Vec<u32> = (0..rows as u32).map(|row| 1000 * row).collect();
    let x_device = stream.clone_htod(&x)?;
    let positions_device = stream.clone_htod(&positions)?;
    let mut out_device = stream.alloc_zeros::<f32>(x.len())?;

    let config = LaunchConfig { grid_dim, block_dim: rope::BLOCK, shared_mem_bytes: 0 };
    let mut launch = stream.launch_builder(&function);
    launch.arg(&x_device).arg(&mut out_device).arg(&positions_device);
    // SAFETY: the fields of BatchedRopeParameters in their order, with as many elements as `rows` says
    unsafe { launch.launch(config) }?;
    let out = stream.clone_dtoh(&out_device)?;
    stream.synchronize()?; // an error of the kernel itself shows here

    // pair 1 of head 1 of the last row
    let even = ((rows - 1) * heads + 1) * head_dim + 2;
    let angle = f64::from(positions[rows - 1]) * 1e4f64.powf(-2.0 / head_dim as f64);
    let expected = f64::from(x[even]) * angle.cos() - f64::from(x[even + 1]) * angle.sin();
    if (f64::from(out[even]) - expected).abs() < 1e-5 {
        println!("ok");
        Ok(())
    } else {
        Err(format!("{}, and it should be {expected}", out[even]).into())
    }
}

fn load(context: &Arc<CudaContext>, ptx: &Path) -> Result<Arc<CudaModule>, Box<dyn Error>> {
    // a fat binary has machine code, and the PTX for GPUs that it has none for: the driver takes what fits
    let fatbin = ptx.with_extension("fatbin");
    let path = if fatbin.exists() { fatbin.as_path() } else { ptx };
    context
        .load_module(Ptx::from_file(path))
        .map_err(|error| format!("{}: {error}\n{}", path.display(), error_log(path)).into())
}

/// What the driver's assembler has to say about a file. cudarc does not ask for it.
fn error_log(path: &Path) -> String {
    let mut image = std::fs::read(path).unwrap_or_default();
    image.push(0);
    let mut log = vec![0u8; 8192];
    let mut options =
        [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast(), log.len() as *mut _];
    let mut module = std::ptr::null_mut();
    // SAFETY: the image ends in a 0, and both arrays have two elements
    unsafe {
        sys::cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            2,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        );
    }
    String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
}
