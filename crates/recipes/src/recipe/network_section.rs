//! What is to learn: a network by name or file, and the reduction that the command line spells with flags.

use std::collections::BTreeSet;
use std::path::Path;

use network::shape::Shape;
use network::spec::{NetworkSpec, SpecFileError};
use network::transform::{Reduction, Reuse, ReuseLayout, ReuseScope, StemRule, ThinChoice, TransformError};
use network::walk::StageIndex;
use network::zoo::{self, ZooError};
use serde::{Deserialize, Serialize};

/// A network and what is done to it before it learns. The keys are the flags of the command line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkSection {
    /// A name from the zoo with options, or a TOML file.
    pub name: String,
    /// Stages that lose every ReLU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cull: Vec<usize>,
    /// Stages that lose every other ReLU layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thin: Vec<usize>,
    /// Which ReLU of a block goes when its stage is thinned.
    #[serde(default)]
    pub thin_drops: ThinDrops,
    /// Stages cut to their first block.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub single_block: Vec<usize>,
    /// Factor of the channels (alpha).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<f64>,
    /// Factor of the resolution (rho).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// ReLUs on one N-th of the channels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<usize>,
    /// How ReLU-reuse divides the channels.
    #[serde(default)]
    pub reuse_groups: ReuseGroups,
    /// Which ReLU layers ReLU-reuse replaces.
    #[serde(default)]
    pub reuse_scope: ReuseOver,
    /// What becomes of the stem's ReLUs.
    #[serde(default)]
    pub stem: StemChoice,
}

/// Which ReLU of a block goes when its stage is thinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinDrops {
    /// The one after the addition, as in the papers' models.
    #[default]
    AfterSum,
    /// The one between the convolutions.
    Inner,
}

/// How ReLU-reuse divides the channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReuseGroups {
    /// Three groups whatever N is.
    #[default]
    Three,
    /// N groups, each on its own.
    Equal,
    /// N groups, each fed by the one before.
    EqualShortcut,
}

/// Which ReLU layers ReLU-reuse replaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReuseOver {
    /// The one between the two convolutions of each block.
    #[default]
    Block,
    /// Every one of stem and stages.
    All,
}

/// What becomes of the stem's ReLUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StemChoice {
    /// They go where any stage is culled or thinned.
    #[default]
    DropWithStages,
    /// They go.
    Drop,
    /// They stay.
    Keep,
}

impl NetworkSection {
    /// What is done to the network.
    pub fn reduction(&self) -> Reduction {
        let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect::<BTreeSet<_>>();
        Reduction {
            width: self.width,
            resolution: self.resolution,
            single_block: stages(&self.single_block),
            cull: stages(&self.cull),
            thin: stages(&self.thin),
            thin_choice: match self.thin_drops {
                ThinDrops::AfterSum => ThinChoice::AfterSum,
                ThinDrops::Inner => ThinChoice::Inner,
            },
            stem: match self.stem {
                StemChoice::DropWithStages => StemRule::DropWithStages,
                StemChoice::Drop => StemRule::Drop,
                StemChoice::Keep => StemRule::Keep,
            },
            reuse: self.reuse.map(|factor| self.reuse_with(factor)),
        }
    }

    fn reuse_with(&self, factor: usize) -> Reuse {
        let layout = match self.reuse_groups {
            ReuseGroups::Three => ReuseLayout::ThreeGroups,
            ReuseGroups::Equal => ReuseLayout::EqualGroups { shortcut: false },
            ReuseGroups::EqualShortcut => ReuseLayout::EqualGroups { shortcut: true },
        };
        let scope = match self.reuse_scope {
            ReuseOver::Block => ReuseScope::OnePerBlock,
            ReuseOver::All => ReuseScope::AllLayers,
        };
        Reuse { factor, layout, scope }
    }

    /// The network for images of a size and a number of classes.
    ///
    /// # Errors
    /// When there is no such network, it does not fit the images, or it cannot be reduced so.
    pub fn build(&self, input: Shape, classes: usize) -> Result<NetworkSpec, NetworkSectionError> {
        let path = Path::new(&self.name);
        let spec = if path.extension().is_some_and(|extension| extension == "toml") {
            NetworkSpec::from_file(path)?
        } else {
            zoo::build(&self.name, input.height, classes)?
        };
        let came = (spec.draft().input, spec.draft().classes);
        if came != (input, classes) {
            return Err(NetworkSectionError::OtherSize {
                name: self.name.clone(),
                expected: (input, classes),
                came,
            });
        }
        Ok(self.reduction().apply(&spec)?)
    }
}

/// A network that a recipe names and that cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum NetworkSectionError {
    /// No such name or option.
    #[error(transparent)]
    Zoo(#[from] ZooError),
    /// No usable file.
    #[error(transparent)]
    File(#[from] SpecFileError),
    /// It cannot be reduced so.
    #[error(transparent)]
    Reduction(#[from] TransformError),
    /// It takes other images or tells other classes apart.
    #[error(
        "{name} takes {} and tells {} classes apart, the data has {} and {}",
        came.0, came.1, expected.0, expected.1
    )]
    OtherSize {
        /// The network.
        name: String,
        /// Image and classes of the data.
        expected: (Shape, usize),
        /// Those of the network.
        came: (Shape, usize),
    },
}
