//! The flags that drop ReLUs from a network, the same for every verb that takes one.

use clap::{Args, ValueEnum};
use network::transform::{Reduction, Reuse, ReuseLayout, ReuseScope, StemRule, ThinChoice};
use network::walk::StageIndex;

/// What to do to a network so that it has fewer ReLUs.
#[derive(Debug, Args)]
pub(super) struct ReductionArguments {
    /// Drop every ReLU of these stages (DeepReDuce), such as 1,4.
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    cull: Vec<usize>,
    /// Drop every other ReLU layer of these stages (DeepReDuce), such as 2,3.
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    thin: Vec<usize>,
    /// Which ReLU of a block goes when its stage is thinned.
    #[arg(long, value_enum, default_value_t = Thinning::AfterSum)]
    thin_drops: Thinning,
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
    #[arg(long, value_enum, default_value_t = Layout::Three)]
    reuse_groups: Layout,
    /// Which ReLU layers ReLU-reuse replaces.
    #[arg(long, value_enum, default_value_t = Scope::Block)]
    reuse_scope: Scope,
    /// Drop the ReLUs of the stem.
    #[arg(long, conflicts_with = "keep_stem")]
    drop_stem: bool,
    /// Keep the ReLUs of the stem also where stages are culled or thinned.
    #[arg(long)]
    keep_stem: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Thinning {
    /// The one after the addition, as in the papers' models.
    AfterSum,
    /// The one between the convolutions.
    Inner,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    /// Three groups whatever N is: the proposed form.
    Three,
    /// N groups, each on its own.
    Equal,
    /// N groups, each fed by the one before.
    EqualShortcut,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// The ReLU between the two convolutions of each block.
    Block,
    /// Every ReLU layer of stem and stages.
    All,
}

impl ReductionArguments {
    pub(super) fn reduction(&self) -> Reduction {
        let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect();
        Reduction {
            width: self.width,
            resolution: self.resolution,
            single_block: stages(&self.single_block),
            cull: stages(&self.cull),
            thin: stages(&self.thin),
            thin_choice: match self.thin_drops {
                Thinning::AfterSum => ThinChoice::AfterSum,
                Thinning::Inner => ThinChoice::Inner,
            },
            stem: match (self.drop_stem, self.keep_stem) {
                (true, _) => StemRule::Drop,
                (false, true) => StemRule::Keep,
                (false, false) => StemRule::DropWithStages,
            },
            reuse: self.reuse.map(|factor| self.reuse_with(factor)),
        }
    }

    fn reuse_with(&self, factor: usize) -> Reuse {
        let layout = match self.reuse_groups {
            Layout::Three => ReuseLayout::ThreeGroups,
            Layout::Equal => ReuseLayout::EqualGroups { shortcut: false },
            Layout::EqualShortcut => ReuseLayout::EqualGroups { shortcut: true },
        };
        let scope = match self.reuse_scope {
            Scope::Block => ReuseScope::OnePerBlock,
            Scope::All => ReuseScope::AllLayers,
        };
        Reuse { factor, layout, scope }
    }
}
