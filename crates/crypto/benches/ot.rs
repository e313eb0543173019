//! Benchmarks of `crypto::ot`.
#![allow(missing_docs)]

fn main() {}
