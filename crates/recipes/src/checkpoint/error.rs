//! Why a checkpoint cannot be written or read.

use std::path::PathBuf;

use network::mask::{MaskFileError, MaskReadError};
use network::spec::SpecFileError;
use network::weights::WeightsFileError;

use crate::file::FileError;

/// A checkpoint that cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is none.
    #[error("{} holds no checkpoint; expected a run's folder, or a folder with a state.json", path.display())]
    None {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// There are runs in the folder, none of which was named.
    #[error("{} is no run, but holds some; name one of them: {}", path.display(), runs.join(", "))]
    OfRuns {
        /// Where it was looked for.
        path: PathBuf,
        /// The runs.
        runs: Vec<String>,
    },
    /// A file is not what the checkpoint says.
    #[error("{} is damaged: {reason}; copy the checkpoint again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer or older format.
    #[error("{} has format {came}, this version reads {expected}", path.display())]
    Format {
        /// The checkpoint.
        path: PathBuf,
        /// What can be read.
        expected: u32,
        /// What came.
        came: u32,
    },
    /// The network is none.
    #[error("the network of the checkpoint is not usable")]
    Network(#[source] Box<SpecFileError>),
    /// The mask is another network's.
    #[error("the mask of the checkpoint is not usable")]
    Mask(#[source] Box<MaskFileError>),
    /// The mask beside a record.
    #[error(transparent)]
    MaskFile(#[from] MaskReadError),
    /// The weights are another network's.
    #[error("the weights of the checkpoint are not usable")]
    Weights(#[source] Box<WeightsFileError>),
    /// A shard too small for anything.
    #[error("shards of {bytes} bytes are too small; choose at least 1 MiB")]
    Shard {
        /// What was asked for.
        bytes: u64,
    },
    /// The safetensors format refuses the arrays.
    #[error("the arrays cannot be written as safetensors: {0}")]
    Tensors(String),
}
