//! Benchmarks of `crypto::ring`.
#![allow(missing_docs)]

fn main() {}
