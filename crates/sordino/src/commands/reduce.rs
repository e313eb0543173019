//! The flags that drop ReLUs from a network, the same for every verb that takes one.

use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;
use network::transform::{Reduction, Reuse, ReuseLayout, ReuseScope, StemRule, ThinChoice};
use network::walk::StageIndex;

/// What to do to a network so that it has fewer ReLUs.
#[derive(Debug, Args)]
pub(super) struct ReductionArguments {
    /// Drop every ReLU of these stages (DeepReDuce), such as 1,4; of an ONNX file also ReLU layers by name.
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    cull: Vec<CullTarget>,
    /// Drop every other ReLU layer of these stages (DeepReDuce), such as 2,3.
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    thin: Vec<usize>,
    /// Which ReLU of a block goes when its stage is thinned.
    #[arg(long, value_enum, default_value_t)]
    thin_drops: ThinChoice,
    /// Keep only the first block of these stages (`*` in DeepReDuce).
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    single_block: Vec<usize>,
    /// Multiply the channels of stem and stages (alpha).
    #[arg(long, value_name = "FACTOR")]
    width: Option<f64>,
    /// Multiply the resolution of all feature maps (rho); 0.5 gives the first convolution stride 2.
    #[arg(long, value_name = "FACTOR")]
    resolution: Option<f64>,
    /// Apply ReLUs to one N-th of the channels (ReLU-reuse, DeepReShape).
    #[arg(long, value_name = "N")]
    reuse: Option<usize>,
    /// How ReLU-reuse divides the channels.
    #[arg(long, value_enum, default_value_t)]
    reuse_groups: ReuseLayout,
    /// Which ReLU layers ReLU-reuse replaces.
    #[arg(long, value_enum, default_value_t)]
    reuse_scope: ReuseScope,
    /// Keep only so many channels of a convolution, such as stage1.block1.body.conv1=20; what reads them shrinks, too.
    #[arg(long, value_delimiter = ',', value_name = "NAME=COUNT")]
    keep_channels: Vec<KeptChannels>,
    /// Drop the ReLUs of the stem.
    #[arg(long, conflicts_with = "keep_stem")]
    drop_stem: bool,
    /// Keep the ReLUs of the stem also where stages are culled or thinned.
    #[arg(long)]
    keep_stem: bool,
}

/// Whose ReLUs go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CullTarget {
    /// Those of a stage.
    Stage(usize),
    /// Those of one ReLU layer of an imported network.
    Site(String),
}

/// How many channels of a convolution stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptChannels {
    name: String,
    count: usize,
}

impl FromStr for KeptChannels {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let parts = text.split_once('=').and_then(|(name, count)| Some((name, count.parse().ok()?)));
        let (name, count) =
            parts.context("expected a name and a number, such as stage1.block1.body.conv1=20")?;
        Ok(Self { name: name.to_owned(), count })
    }
}

impl CullTarget {
    fn stage(&self) -> Option<StageIndex> {
        match self {
            Self::Stage(stage) => Some(StageIndex(*stage)),
            Self::Site(_) => None,
        }
    }
}

impl FromStr for CullTarget {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Site(text.to_owned()), Self::Stage))
    }
}

impl ReductionArguments {
    /// Whose ReLUs go.
    pub(super) fn culled(&self) -> &[CullTarget] {
        &self.cull
    }

    /// Refuses names of ReLU layers, which only imported networks are culled by.
    pub(super) fn refuse_sites(&self) -> anyhow::Result<()> {
        match self.cull.iter().find(|target| target.stage().is_none()) {
            Some(CullTarget::Site(name)) => bail!("--cull {name} is no stage; expected numbers such as 1,4"),
            _ => Ok(()),
        }
    }

    /// The first flag that asks for blocks to be changed.
    pub(super) fn needs_blocks(&self) -> Option<&'static str> {
        let given = [
            ("--thin", !self.thin.is_empty()),
            ("--single-block", !self.single_block.is_empty()),
            ("--width", self.width.is_some()),
            ("--resolution", self.resolution.is_some()),
            ("--reuse", self.reuse.is_some()),
            ("--keep-channels", !self.keep_channels.is_empty()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// Whether the stem's ReLUs go although nothing else does.
    pub(super) fn drops_stem_alone(&self) -> bool {
        self.drop_stem
    }

    /// Whether the stem's ReLUs go: where stages do, as in the papers' models, unless they are to stay.
    pub(super) fn drops_stem_of_imported(&self) -> bool {
        let culls_stages = self.cull.iter().any(|target| target.stage().is_some());
        self.drop_stem || (culls_stages && !self.keep_stem)
    }

    pub(super) fn reduction(&self) -> Reduction {
        let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect();
        Reduction {
            width: self.width,
            resolution: self.resolution,
            single_block: stages(&self.single_block),
            cull: self.cull.iter().filter_map(CullTarget::stage).collect(),
            thin: stages(&self.thin),
            thin_choice: self.thin_drops,
            stem: match (self.drop_stem, self.keep_stem) {
                (true, _) => StemRule::Drop,
                (false, true) => StemRule::Keep,
                (false, false) => StemRule::DropWithStages,
            },
            reuse: self.reuse.map(|factor| Reuse {
                factor,
                layout: self.reuse_groups,
                scope: self.reuse_scope,
            }),
            keep_channels: self.keep_channels.iter().map(|kept| (kept.name.clone(), kept.count)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn kept_channels_are_a_name_and_a_number() {
        let kept: KeptChannels = "stem.conv1=20".parse().unwrap();
        assert_eq!((kept.name.as_str(), kept.count), ("stem.conv1", 20));
        for bad in ["stem.conv1", "stem.conv1=", "stem.conv1=many", "stem.conv1=-1"] {
            assert!(bad.parse::<KeptChannels>().unwrap_err().to_string().contains("=20"), "{bad}");
        }
    }

    #[test]
    fn the_words_of_flags_are_those_of_recipes() {
        fn expect_same<T: serde::Serialize + ValueEnum + 'static>() {
            for word in T::value_variants() {
                let written = serde_json::to_value(word).unwrap();
                assert_eq!(word.to_possible_value().unwrap().get_name(), written);
            }
        }
        expect_same::<ThinChoice>();
        expect_same::<ReuseLayout>();
        expect_same::<ReuseScope>();
        expect_same::<recipes::recipe::Precision>();
        expect_same::<recipes::method::l1_pruning::Ranking>();
    }
}
