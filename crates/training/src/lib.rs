//! How a network gets its weights and loses its ReLUs.
//!
//! This crate is still bare: it will hold the trainer and the optimizers of DeepReDuce, SNL, DeepReShape and
//! Sphynx, behind a Cargo feature of the binary.
