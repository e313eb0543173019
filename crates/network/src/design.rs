//! Which network to build: criticality of stages, ReLU equalization, memorization capacity, Sphynx's sizes.

mod capacity;
mod criticality;
mod equalize;
mod sphynx;

pub use capacity::{Capacity, Retention, linearized_capacity, optimal_retention, pruned_capacity};
pub use criticality::{CRITICALITY_EXPONENT, CriticalityOrder, OrderError, stage_criticality};
pub use equalize::{DesignError, Equalization, Family, Term, with_low_budget_growth};
pub use sphynx::{SPHYNX_TOLERANCE, SphynxChoice, sphynx_choice, sphynx_choices};
