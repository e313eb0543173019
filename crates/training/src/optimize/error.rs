//! Why an optimization stopped.

use std::path::PathBuf;

use recipes::checkpoint::CheckpointError;
use recipes::file::FileError;
use recipes::method::{BudgetError, OptimizeError, SettleError};

use crate::assemble::AssembleError;
use crate::learn::LearnError;
use crate::run::RunError;

/// An optimization that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum OptimizeRunError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is asked for cannot be done.
    #[error(transparent)]
    Optimize(#[from] OptimizeError),
    /// A run of it.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Learning.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// A network.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// Scores that do not lead to the budget.
    #[error(transparent)]
    Settle(#[from] SettleError),
    /// What an optimization is to begin with is another network.
    #[error(
        "{network} is optimized from its trained weights, but {} holds {came}; give a run of {network} {}",
        path.display(),
        if *is_teacher { "with --start (optimize.start in a recipe), beside this teacher" } else { "instead" }
    )]
    OtherStart {
        /// The network that is to lose ReLUs.
        network: String,
        /// The checkpoint.
        path: PathBuf,
        /// Its network.
        came: String,
        /// Whether it is there only because no other was named.
        is_teacher: bool,
        /// What does not fit.
        source: Box<AssembleError>,
    },
    /// The search did not come down.
    #[error(
        "after {epochs} epochs {kept} {noun} are left for a budget of {budget}; raise optimize.max_epochs or the penalty"
    )]
    SearchTooLong {
        /// How long it searched.
        epochs: u32,
        /// What is left.
        kept: u64,
        /// What those are called.
        noun: &'static str,
        /// What was asked for.
        budget: u64,
    },
    /// A search was asked to stop, and can go on.
    #[error("the search in {} was stopped after epoch {epoch}, with a checkpoint; the same command goes on", folder.display())]
    Stopped {
        /// The folder.
        folder: PathBuf,
        /// Epochs that are done.
        epoch: u32,
    },
    /// Another search is in the folder.
    #[error("{} holds the search of another recipe; choose another folder with --out", folder.display())]
    OtherSearch {
        /// The folder.
        folder: PathBuf,
    },
    /// The optimization of another recipe is in the folder.
    #[error(
        "{} holds the optimization of another recipe: {differences}; choose another folder with --out, or remove this one",
        folder.display()
    )]
    OtherRecipe {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        differences: String,
    },
    /// A file with other content than expected.
    #[error("{} is damaged: {reason}; remove it to have it made again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl OptimizeRunError {
    /// Whether it only stopped because it was asked to.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Stopped { .. } | Self::Run(RunError::Stopped { .. }))
    }
}

impl From<BudgetError> for OptimizeRunError {
    fn from(error: BudgetError) -> Self {
        Self::Optimize(error.into())
    }
}
