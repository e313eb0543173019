//! SNL: learn for every ReLU whether it may become the identity, under a penalty that is raised until few are left.
//!
//! ```text
//! search      weights and keep scores together: Adam without decay, cross-entropy + distillation at T = 4 +
//!             penalty * sum of absolute scores (SNL section 3, equation 2); penalty by `penalty`
//! settle      scores above 0.01 stay, the budget is hit exactly, the mask is 0/1 from here on (`settle`)
//! fine-tune   the masked network with the same teacher: SGD, cosine (SNL section 4)
//! ```
//!
//! The paper leaves out the distillation in the search, the optimizer and the penalty's schedule; they are those of
//! the authors' code. What differs from it: the count is looked at several times an epoch near the budget, so that
//! the search ends on it instead of somewhere below, and kept scores become exactly 1.

#[cfg(feature = "libtorch")]
mod count;
mod penalty;
#[cfg(feature = "libtorch")]
pub(crate) mod search;
mod settle;

pub use penalty::{Penalty, PenaltySchedule};
#[cfg(feature = "libtorch")]
pub use search::{SearchEpoch, SearchFigures};
pub use settle::{KeepScores, MAX_MOVED, ScoreGranularity, SettleError, Settled, THRESHOLD};
