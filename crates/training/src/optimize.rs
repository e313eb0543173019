//! Fewer ReLUs for the accuracy: the papers' three methods, from a network, data and a budget to trained networks.
//!
//! ```text
//! deepreduce   criticality by training; cull, thin, reshape (DeepReDuce section 3)
//! snl          keep scores under a penalty, settled to a mask (SNL section 3)
//! deepreshape  HybReNets for a budget, ReLU-reuse below (DeepReShape section 4, Algorithm 2)
//! budget       how many ReLUs may stay
//! plan         one network to train: a name and what is done to it
//! record       what a result was and how it came about
//! front        the results no other beats
//! run          data, teacher, training: from a recipe to records (needs libtorch)
//! sweep        many recipes as one resumable job
//! ```
//!
//! What is decided here needs no tensors and is tested without any.

mod budget;
pub mod deepreduce;
pub mod deepreshape;
mod front;
mod plan;
mod record;
#[cfg(feature = "libtorch")]
pub mod run;
mod section;
pub mod snl;

use network::design::OrderError;
use network::transform::TransformError;
use network::zoo::ZooError;

pub use budget::{BudgetError, ReluBudget};
pub use front::ParetoFront;
pub use plan::Plan;
pub use record::{ResultRecord, percent};
pub use section::{DeepReduceSection, DeepReshapeSection, OptimizeSection, SnlSection};

/// Why a network cannot be optimized so.
#[derive(Debug, thiserror::Error)]
pub enum OptimizeError {
    /// A budget that cannot be met.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// No such network.
    #[error(transparent)]
    Zoo(#[from] ZooError),
    /// It cannot be reduced so.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// No order of stages.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// No HybReNets for these depths.
    #[error("there are no HybReNets on the depths of {network}: {reason}")]
    NoHybReNet {
        /// The network.
        network: String,
        /// Why.
        reason: String,
    },
}
