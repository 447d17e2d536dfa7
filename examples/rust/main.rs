//! Prints how the kernel is launched; the module needs no CUDA and no crate.

#![deny(warnings, missing_docs)]

/// The kernels that build.rs rendered.
pub mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

use kernels::{batched_rope_h8_d64_theta10000 as rope, BatchedRopeParameters};

fn main() {
    let rows = std::env::args().nth(1).map_or(16, |rows| rows.parse().expect("a number of rows"));
    let Some(grid) = rope::grid(rows) else {
        eprintln!("{rows} rows are not possible in one launch");
        std::process::exit(1);
    };
    // device addresses, from cuMemAlloc say
    let parameters = BatchedRopeParameters { x_ptr: 0x1000, out_ptr: 0x1000, positions_ptr: 0x2000 };
    println!(
        "{}: {} bytes of {parameters:?}, grid {grid:?}, block {:?}, {} characters of PTX",
        rope::ENTRY,
        BatchedRopeParameters::SIZE,
        rope::BLOCK,
        rope::PTX.len(),
    );
}
