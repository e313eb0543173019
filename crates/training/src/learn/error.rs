//! Why learning cannot begin or go on.

use network::shape::Shape;

use crate::assemble::AssembleError;
use crate::tensor::{GraphError, TensorError};

/// Learning that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// Images and labels of different number.
    #[error(
        "{bytes} bytes of images do not make {labels} images of {shape}; expected at least one, and as many labels"
    )]
    Images {
        /// What came.
        bytes: usize,
        /// What came.
        labels: usize,
        /// Of one image.
        shape: Shape,
    },
    /// Too few means or deviations.
    #[error("images of {channels} channels need as many means and deviations; {came} came")]
    Normalization {
        /// Of an image.
        channels: usize,
        /// What came.
        came: usize,
    },
    /// A label beyond the last class.
    #[error("an image has the label {label}, but there are {classes} classes")]
    Label {
        /// The label.
        label: u16,
        /// The classes.
        classes: usize,
    },
    /// Images of another size.
    #[error("{network} takes images of {expected}, the data set has {came}; choose another size or data set")]
    Input {
        /// The network.
        network: String,
        /// What it takes.
        expected: Shape,
        /// What came.
        came: Shape,
    },
    /// Another number of classes.
    #[error(
        "{network} tells {expected} classes apart, the data set has {came}; choose a network for this data set"
    )]
    Classes {
        /// The network, or the teacher.
        network: String,
        /// What it knows.
        expected: usize,
        /// What came.
        came: usize,
    },
    /// No batch, or one larger than the data set.
    #[error("a batch of {batch} cannot be taken from {images} images; choose a number from 1 to {images}")]
    Batch {
        /// What was asked for.
        batch: usize,
        /// What there is.
        images: usize,
    },
    /// Distillation without a teacher, or the other way around.
    #[error(
        "{}",
        if *has_teacher { "there is a teacher but no distillation loss; name one, or drop the teacher" }
        else { "a distillation loss needs a teacher; name its checkpoint, or drop the loss" }
    )]
    Teacher {
        /// Whether there is one.
        has_teacher: bool,
    },
    /// No teacher with the same ReLU sites.
    #[error(
        "{network} is compared with a teacher that has the same ReLU layers; give a trained run of {network} as the teacher"
    )]
    OtherSites {
        /// The network.
        network: String,
    },
    /// Maps that cannot be compared.
    #[error(
        "training.loss.attention compares maps at the ends of the stages, and those of {teacher} have other sizes than those of \
         {network}; give a teacher with the same stages, or set it to 0"
    )]
    OtherMaps {
        /// The network.
        network: String,
        /// Its teacher.
        teacher: String,
    },
    /// A teacher without maps.
    #[error(
        "training.loss.attention compares maps at the ends of the stages, and the frozen model {teacher} shows none; give the run \
         that it was frozen from as the teacher, or set it to 0"
    )]
    NoMaps {
        /// The teacher.
        teacher: String,
    },
    /// Mixtures that exclude each other.
    #[error(
        "mixup and cutmix exclude each other, and decoupled distillation excludes both: it needs one label per image"
    )]
    Mixtures,
    /// Views of what changes with its neighbors, or of which more than logits is wanted.
    #[error(
        "teacher.views keeps what the teacher says of each image alone; remove it, or set mixup, cutmix and \
         training.loss.attention to 0"
    )]
    Views,
    /// Parts on different devices.
    #[error("network, teacher and images lie on different devices; expected all on one")]
    Devices,
    /// Learners that see different batches.
    #[error(
        "learners go together only with one seed, batch, augmentation and data set, and all or none with a teacher"
    )]
    Apart,
    /// A loss that is no number.
    #[error("the loss of epoch {epoch} is not a finite number; lower the learning rate, or clip gradients")]
    Diverged {
        /// When.
        epoch: u64,
    },
    /// A state of another run.
    #[error("the saved state lacks {name}, or has it in another shape; is it another recipe's?")]
    State {
        /// What is missing.
        name: String,
    },
    /// A network that cannot be assembled.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The tensor library refused.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The GPU refused.
    #[error(transparent)]
    Graph(#[from] GraphError),
}
