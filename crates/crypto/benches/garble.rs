//! Benchmarks of `crypto::garble`.
#![allow(missing_docs)]

fn main() {}
