//! Sordino makes neural networks that are cheap to run in private, and runs them in private.
//!
//! This crate is the door: it re-exports the crates behind it and holds the command line, one verb per file in
//! [`commands`].
//!
//! ```
//! use sordino::network::{cost::Cost, transform, walk::StageIndex, zoo};
//!
//! let resnet = zoo::build("resnet18", 32, 100)?;
//! assert_eq!(Cost::of(&resnet).relus, 557_056);
//! let culled = transform::cull_stage(&resnet, StageIndex(1))?;
//! assert_eq!(Cost::of(&culled).relus, 557_056 - 262_144);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub use client;
pub use crypto;
pub use inference;
pub use network;
pub use onnx;
pub use recipes;
pub use results;
pub use sealed;
pub use service;
#[cfg(feature = "training")]
pub use training;

pub mod commands;
pub mod image_files;
mod report;

pub use report::printable;
