//! Fewer comparisons for the accuracy: what the papers' methods, SENet, filter pruning and shared signs do for a network, data and a budget.
//!
//! ```text
//! candidates    DeepReDuce: criticality by training; cull, thin, reshape (section 3)
//! penalty       SNL: how strongly keep scores are pushed to zero (section 3)
//! taylor        SNL without a penalty: what the loss says of each ReLU, and how many go after each epoch
//! settle        SNL: from keep scores to an exact mask
//! hybrenet      DeepReShape: HybReNets for a budget, ReLU-reuse below (section 4, Algorithm 2)
//! senet         SENet: ReLUs for each layer by its sensitivity
//! l1_pruning    filters with the smallest norms go, with their channels
//! sphynx        Sphynx: cells and locations by search (section 4)
//! shared_signs  ours: widths, signs and values a sign for a budget of comparisons
//! grouping      which channels share a sign
//! budget        how many ReLUs may stay
//! section       what a recipe says about all that
//! search_log    what happened in a search, a line an epoch
//! planned       one network to train: a name and what is done to it
//! preview       what a recipe would train; refuses what cannot be done before anything is trained
//! sweep         many recipes as one resumable job
//! jobs          what is to be done for it, teachers first; parts of that for several workers
//! teacher       what an optimization without a teacher trains first
//! ```
//!
//! What is decided here needs no tensors and is tested without any.

mod budget;
pub mod candidates;
mod grouping;
pub mod hybrenet;
mod jobs;
pub mod l1_pruning;
mod penalty;
mod planned;
mod preview;
mod search_log;
mod section;
pub mod senet;
mod settle;
pub mod shared_signs;
pub mod sphynx;
mod sweep;
pub mod taylor;
mod teacher;

use std::path::PathBuf;

use network::design::OrderError;
use network::transform::TransformError;
use network::zoo::ZooError;

use crate::recipe::NetworkSectionError;

pub use budget::{BudgetError, ReluBudget};
pub use grouping::{GroupingRule, groups_by_agreement, random_groups};
pub use jobs::{Job, RECIPE, SelectError, Shard, TEACHERS, select, teacher_name};
pub use penalty::{Penalty, PenaltySchedule};
pub use planned::PlannedNetwork;
pub use preview::{Preview, preview};
pub use search_log::{Numbered, SearchLog, read_epochs};
pub use section::{DeepReduceSection, DeepReshapeSection, OptimizeSection, SharedSignsSection, SnlSection};
pub use settle::{Granularity, KeepScores, MAX_MOVED, SettleError, Settled, THRESHOLD};
pub use sweep::{Sweep, SweepError, SweepRun};
pub use teacher::own_teacher;

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
    /// The network of the recipe.
    #[error(transparent)]
    Network(#[from] NetworkSectionError),
    /// A recipe for plain training.
    #[error("the recipe has no [optimize] section; add one with method and budget, or use `sordino train`")]
    NoMethod,
    /// The teacher is not there.
    #[error(
        "there is no teacher at {}; train it as the recipe's first lines say (`sordino train`, `sordino optimize`), give \
         another with --teacher, or leave it out, in the recipe too, to have the full network trained first",
        path.display()
    )]
    NoTeacher {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The teacher is a frozen model, and the method needs more of it than its answers.
    #[error("the teacher {} is a frozen model, whose answers alone are not enough for {method}; {help}", path.display())]
    FrozenTeacher {
        /// Its file.
        path: PathBuf,
        /// The method.
        method: &'static str,
        /// What to do.
        help: &'static str,
    },
    /// The network to start from is not there.
    #[error("there is no checkpoint to start from at {}; give the folder of a trained run of the same network", path.display())]
    NoStart {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A network that is reduced before the method begins.
    #[error("{method} reduces the network itself; remove cull, thin, width and the like from [network]")]
    AlreadyReduced {
        /// The method.
        method: &'static str,
    },
    /// Parts of layers that are another network's.
    #[error(transparent)]
    Allocation(#[from] senet::AllocationError),
    /// No filter that could go.
    #[error(
        "{network} has no convolution with ReLUs behind it that only further layers read, so no filter can go{hint}"
    )]
    NothingToPrune {
        /// The network.
        network: String,
        /// What else could be tried.
        hint: l1_pruning::StreamHint,
    },
    /// A budget below what pruning can reach.
    #[error(
        "pruning filters leaves {network} at least {least} ReLUs, more than the budget of {budget}: the others stand behind \
         additions or hidden layers, and every layer keeps a channel; give {least} or more{hint}"
    )]
    PrunedTooFar {
        /// The network.
        network: String,
        /// What was asked for.
        budget: u64,
        /// What can be reached.
        least: u64,
        /// What else could be tried.
        hint: l1_pruning::StreamHint,
    },
    /// A method for single ReLUs on shared signs.
    #[error(
        "{method} takes ReLUs one by one, and {network} shares signs; use `snl` for it, or another network"
    )]
    SharesSigns {
        /// The method.
        method: &'static str,
        /// The network.
        network: String,
    },
    /// No network that shared signs are placed on.
    #[error("{network} cannot share signs for a budget: {reason}")]
    NoSignet {
        /// The network.
        network: String,
        /// Why.
        reason: String,
    },
    /// Another family where Sphynx builds its own.
    #[error(
        "Sphynx searches cells of its own, and {name} is none of its networks; name sphynx in [network], with options such as conv=separable"
    )]
    NoSphynx {
        /// The network.
        name: String,
    },
    /// A name that says what the budget and the searches decide.
    #[error("{name} says {option}, which {decided_by} decides; leave it out of the network's name")]
    SphynxOption {
        /// The network.
        name: String,
        /// What it says.
        option: String,
        /// Who decides.
        decided_by: &'static str,
    },
    /// A part of what Sphynx does not begin with.
    #[error(
        "Sphynx builds a network for its budget, so there is nothing to take a part of; give a count, such as 25600 or 25.6K"
    )]
    SphynxPart,
    /// No channels and cells for a budget.
    #[error(
        "no Sphynx network of three or more cells has {budget} {noun} or fewer; the smallest for images of {side}x{side} has {least} (`sordino design sphynx --input {side} --budget {least}`)"
    )]
    NoSphynxSize {
        /// What was asked for.
        budget: u64,
        /// Pixels of an image's side.
        side: usize,
        /// What there is.
        least: u64,
        /// What those are called.
        noun: &'static str,
    },
    /// Channels and cells beyond the budget.
    #[error(
        "c={channels} and d={depth} make {relus} {noun} for a budget of {budget}; give fewer, of at least 1 channel and 3 cells, or leave both out"
    )]
    SphynxSize {
        /// Channels.
        channels: u64,
        /// Cells.
        depth: u64,
        /// What they make.
        relus: u64,
        /// What was asked for.
        budget: u64,
        /// What those are called.
        noun: &'static str,
    },
    /// A depth that the paper does not have.
    #[error(
        "the paper has no reduce cells for {depth} cells; choose locations = \"thirds\" or \"search\", or another budget"
    )]
    NoSphynxLocations {
        /// Cells.
        depth: usize,
    },
    /// More places of reduce cells than a search can try.
    #[error(
        "{depth} cells have {candidates} pairs of places for reduce cells, each a network of its own under search; at most \
         {most} can be searched: choose locations = \"thirds\", or a smaller budget"
    )]
    ManySphynxLocations {
        /// Cells.
        depth: usize,
        /// Pairs of them.
        candidates: usize,
        /// What a search can hold.
        most: usize,
    },
    /// No HybReNets for these depths.
    #[error("there are no HybReNets on the depths of {network}: {reason}")]
    NoHybReNet {
        /// The network.
        network: String,
        /// Why.
        reason: String,
    },
}
