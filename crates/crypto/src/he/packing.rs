//! Where numbers sit in a polynomial, so that one product of polynomials computes many outputs of a linear layer.
//!
//! A polynomial holds several *planes*, each the rows of one input channel one after the other. Rows and planes
//! share zero columns and rows with their neighbors, so that a filter that reaches over an edge meets zeros. Stride s
//! splits a channel into s * s phases, each a plane of its own; a phase that no filter tap reads is left out.
//! Weights are laid out mirrored, several output channels apart by more than all planes together, and each output
//! then appears at one known coefficient; all other coefficients are by-products and are never sent. A layer
//! too large for one polynomial is cut into tiles that repeat the rows and columns their filters reach into.
//!
//! ```text
//! input   plane 0 . plane 1 . ... . plane p-1 .                (. = zeros, p planes of stride C)
//! weights                        output 0: taps of plane p-1 ... plane 0 | output 1: ... |
//! product                        answers at (p-1) C + row * R + column   | + p C ...     |
//! ```

mod axis;
mod layout;
mod plan;
mod shape;

pub use layout::Layout;
pub(super) use plan::{ExpectedBits, PackingPlan, SESSION_INFERENCES};
pub use shape::{ConvolutionShape, LinearShape};
