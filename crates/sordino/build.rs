//! With the feature `training`, tells the linker where libtorch lies.

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let libtorch = std::env::var("LIBTORCH").unwrap_or_default();
    if std::env::var_os("CARGO_FEATURE_TRAINING").is_some() && !libtorch.is_empty() {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{libtorch}/lib");
    }
}
