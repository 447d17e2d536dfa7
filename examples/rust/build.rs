//! Renders the PTX and the module that main.rs includes. Set PTXTEMPLATES if the command is not on the PATH.
//!
//! Cargo runs it again only when a file that the last build read has changed: kernels.toml, a template.

use std::path::Path;
use std::process::Command;

fn main() {
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let out = Path::new(&out);
    let program = std::env::var("PTXTEMPLATES").unwrap_or_else(|_| "ptxtemplates".to_owned());
    let depfile = out.join("kernels.d");
    let status = Command::new(&program)
        .args(["build", "-c", "kernels.toml", "--embed"])
        .arg("--out")
        .arg(out.join("ptx"))
        .arg("--rust")
        .arg(out.join("kernels.rs"))
        .arg("--depfile")
        .arg(&depfile)
        .status()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(status.success(), "{program} failed: {status}");

    println!("cargo:rerun-if-env-changed=PTXTEMPLATES");
    println!("cargo:rerun-if-changed=build.rs");
    let text = std::fs::read_to_string(&depfile).expect("the build wrote its depfile");
    for path in dependencies(&text) {
        println!("cargo:rerun-if-changed={path}");
    }
}

/// The dependencies in a depfile: a path a line, after the line of the target.
fn dependencies(depfile: &str) -> Vec<String> {
    let lines = depfile.lines().skip(1);
    lines.map(|line| unescaped(line.trim_start().trim_end_matches(" \\"))).collect()
}

fn unescaped(path: &str) -> String {
    let path = path.replace("$$", "$");
    ["\\ ", "\\#", "\\:"].iter().fold(path, |path, escape| path.replace(escape, &escape[1..]))
}
