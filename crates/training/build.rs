//! Compiles the shims, which the binary carries, and tells the linker where libtorch lies.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    let libtorch = PathBuf::from(env::var("LIBTORCH").unwrap_or_default());
    println!("cargo:rerun-if-changed={}", libtorch.join("complete").display());
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", libtorch.join("lib").display());
    compile(&libtorch, "operations", &out);
    if libtorch.join("cuda/include/cuda_runtime_api.h").exists() {
        compile(&libtorch, "gpu", &out);
    } else {
        // A libtorch without CUDA's headers: the trainer then runs on CPU only.
        fs::write(out.join("gpu.so"), []).expect("the build folder can be written");
    }
}

/// The symbols of libtorch stay open; they are found when the shim is loaded.
fn compile(libtorch: &Path, name: &str, out: &Path) {
    let source = format!("shim/{name}.cpp");
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-s", "-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=1", "-w"])
        .arg("-isystem")
        .arg(libtorch.join("include"))
        .arg("-isystem")
        .arg(libtorch.join("cuda/include"))
        .arg(&source)
        .arg("-o")
        .arg(out.join(name).with_extension("so"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{compiler} could not compile {source} ({status})"),
        Err(error) => panic!("cannot run the C++ compiler {compiler}: {error}; install one or set CXX"),
    }
}
