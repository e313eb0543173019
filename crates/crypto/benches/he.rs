//! Benchmarks of `crypto::he`.
#![allow(missing_docs)]

fn main() {}
