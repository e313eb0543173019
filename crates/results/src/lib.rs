//! What was measured, and how it is shown.
//!
//! ```text
//! record       what a result was and how it came about
//! record_file  records on disk: read from any run, amended by what is measured later
//! front        the results no other beats
//! sweep        the front of many runs, by the folders of those that are done
//! report       logs as one HTML page with curves
//! reproduce    the papers' tables and figures as recipes, with what they print and what we measured
//! pareto       results as one HTML page: accuracy against comparisons, measured time and bytes, beside the papers' points
//! ```

#![forbid(unsafe_code)]

mod front;
mod html;
pub mod pareto;
mod record;
mod record_file;
pub mod report;
pub mod reproduce;
mod sweep;

pub use front::ParetoFront;
pub use record::{Compared, FrozenModel, Noted, PrivateTiming, ResultRecord, Setting, percent};
pub use record_file::{RECORD, RECORDS, RecordError, RecordFile, RunRecord, collect};
pub use sweep::{FRONT, front_of, write_front};

pub use recipes::method::RECIPE;
