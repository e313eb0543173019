//! Why a run stopped.

use std::path::PathBuf;

use network::inference_model::ModelFileError;
use network::mask::MaskReadError;
use recipes::checkpoint::CheckpointError;
use recipes::data::DataError;
use recipes::file::FileError;
use recipes::log::LogError;
use recipes::recipe::NetworkSectionError;

use crate::assemble::AssembleError;
use crate::learn::LearnError;

/// A run that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The images.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The network of the recipe.
    #[error(transparent)]
    Network(#[from] NetworkSectionError),
    /// A network that cannot be assembled or does not take its weights.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// Learning.
    #[error(transparent)]
    Learn(#[from] LearnError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It was asked to stop, and can go on.
    #[error("{} was stopped after epoch {epoch}, with a checkpoint; the same command goes on", folder.display())]
    Stopped {
        /// The folder.
        folder: PathBuf,
        /// Epochs that are done.
        epoch: u32,
    },
    /// The folder already has a run.
    #[error(
        "{} already holds a run (epoch {epoch}); go on with --resume, or choose another folder with --out",
        folder.display()
    )]
    Exists {
        /// The folder.
        folder: PathBuf,
        /// Its epochs.
        epoch: u32,
    },
    /// The run was begun by another recipe.
    #[error(
        "the run in {} was begun by another recipe: {differences}; choose another folder with --out",
        folder.display()
    )]
    OtherRecipe {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        differences: String,
    },
    /// Recipes that do not share their batches or their teacher.
    #[error("the recipes differ in {key}; those trained together need the same, so train them one by one")]
    Apart {
        /// The first key that differs.
        key: &'static str,
    },
    /// Runs that were interrupted at different times.
    #[error(
        "the run in {} is at epoch {came}, the first at {expected}; go on with each of them alone, or choose other folders",
        folder.display()
    )]
    OtherEpoch {
        /// The folder.
        folder: PathBuf,
        /// Its epochs.
        came: u32,
        /// Those of the first.
        expected: u32,
    },
    /// The teacher.
    #[error("the teacher {} cannot be used", path.display())]
    Teacher {
        /// Its checkpoint, or a frozen model.
        path: PathBuf,
        /// Why.
        source: Box<RunError>,
    },
    /// A file that is no frozen model.
    #[error(
        "{} is no frozen model; expected a run's folder, a checkpoint in it, or a file that `sordino freeze` wrote, which also takes \
         ONNX files",
        path.display()
    )]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ModelFileError,
    },
    /// A checkpoint of other data.
    #[error(
        "{} has {came}, the images have {expected}; choose a checkpoint trained on the same data",
        path.display()
    )]
    OtherData {
        /// The checkpoint.
        path: PathBuf,
        /// What the data has.
        expected: String,
        /// What it has.
        came: String,
    },
    /// The mask file.
    #[error(transparent)]
    Mask(#[from] MaskReadError),
    /// Too few images.
    #[error(
        "{images} training images are fewer than one batch of {batch}; set training.batch to {images} or less"
    )]
    TooFew {
        /// How many there are.
        images: usize,
        /// How many a step takes.
        batch: usize,
    },
}
