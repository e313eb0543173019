//! What is to learn: a network by name or file, and the reduction that the command line spells with flags.

use std::collections::{BTreeMap, BTreeSet};
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
    pub thin_drops: ThinChoice,
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
    pub reuse_groups: ReuseLayout,
    /// Which ReLU layers ReLU-reuse replaces.
    #[serde(default)]
    pub reuse_scope: ReuseScope,
    /// What becomes of the stem's ReLUs.
    #[serde(default)]
    pub stem: StemRule,
    /// Channels that are left of a convolution, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keep_channels: BTreeMap<String, usize>,
}

impl NetworkSection {
    /// A network as it is.
    pub fn named(name: &str) -> Self {
        Self::reduced(name, &Reduction::default())
    }

    /// A network and what is done to it.
    pub fn reduced(name: &str, reduction: &Reduction) -> Self {
        let Reduction {
            width,
            resolution,
            single_block,
            cull,
            thin,
            thin_choice,
            stem,
            reuse,
            keep_channels,
        } = reduction;
        let numbers = |stages: &BTreeSet<StageIndex>| stages.iter().map(|stage| stage.0).collect();
        Self {
            name: name.to_owned(),
            cull: numbers(cull),
            thin: numbers(thin),
            thin_drops: *thin_choice,
            single_block: numbers(single_block),
            width: *width,
            resolution: *resolution,
            reuse: reuse.map(|reuse| reuse.factor),
            reuse_groups: reuse.map_or_else(ReuseLayout::default, |reuse| reuse.layout),
            reuse_scope: reuse.map_or_else(ReuseScope::default, |reuse| reuse.scope),
            stem: *stem,
            keep_channels: keep_channels.clone(),
        }
    }

    /// What is done to the network.
    pub fn reduction(&self) -> Reduction {
        let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect::<BTreeSet<_>>();
        Reduction {
            width: self.width,
            resolution: self.resolution,
            single_block: stages(&self.single_block),
            cull: stages(&self.cull),
            thin: stages(&self.thin),
            thin_choice: self.thin_drops,
            stem: self.stem,
            reuse: self.reuse.map(|factor| Reuse {
                factor,
                layout: self.reuse_groups,
                scope: self.reuse_scope,
            }),
            keep_channels: self.keep_channels.clone(),
        }
    }

    /// The network for images of a size and a number of classes.
    ///
    /// # Errors
    /// When there is no such network, it does not fit the images, or it cannot be reduced so.
    pub fn build(&self, input: Shape, classes: usize) -> Result<NetworkSpec, NetworkSectionError> {
        let path = Path::new(&self.name);
        let spec = if zoo::names_file(&self.name) {
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
