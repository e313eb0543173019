//! Whoever teaches: a network with its weights, or a frozen model.

use network::shape::Shape;

use super::inside::{self, Seen, Wanted};
use super::{DeviceImages, LearnError};
use crate::assemble::{FrozenNetwork, Mode, TrainableNetwork};
use crate::tensor::{Device, Tensor};

/// A teacher.
pub(crate) enum Teacher {
    /// Of a run.
    Network(Box<TrainableNetwork>),
    /// Of a file. It shows its logits and nothing of its inside.
    Frozen(Box<FrozenNetwork>),
}

impl Teacher {
    /// What it says of images, and what is wanted of its inside.
    pub(super) fn look(&self, images: &Tensor, wanted: Wanted) -> Seen {
        match self {
            Self::Network(network) => inside::forward(network, images, Mode::Evaluate, wanted),
            Self::Frozen(model) => Seen::logits(model.logits(images)),
        }
    }

    pub(super) fn device(&self) -> Device {
        match self {
            Self::Network(network) => network.device(),
            Self::Frozen(model) => model.device(),
        }
    }

    /// Refuses images of another size or with other classes.
    pub(super) fn check(&self, images: &DeviceImages) -> Result<(), LearnError> {
        match self {
            Self::Network(network) => images.check(network),
            Self::Frozen(model) => {
                let outline = model.outline();
                images.check_fit(&outline.name, outline.input, outline.classes)
            }
        }
    }

    /// Refuses a teacher whose maps cannot be compared with a network's at the ends of the stages.
    pub(super) fn check_maps(&self, network: &TrainableNetwork) -> Result<(), LearnError> {
        match self {
            Self::Network(teacher) => inside::check_maps(network, teacher),
            Self::Frozen(model) => Err(LearnError::NoMaps { teacher: model.outline().name.clone() }),
        }
    }

    /// The sizes of its ReLU layers, where it can be asked.
    pub(super) fn sites(&self) -> Option<Vec<Shape>> {
        match self {
            Self::Network(network) => Some(inside::site_shapes(network)),
            Self::Frozen(_) => None,
        }
    }
}
