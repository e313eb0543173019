//! The flags that drop ReLUs from a network, the same for every verb that takes one.

use clap::Args;
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
    /// Drop the ReLUs of the stem.
    #[arg(long, conflicts_with = "keep_stem")]
    drop_stem: bool,
    /// Keep the ReLUs of the stem also where stages are culled or thinned.
    #[arg(long)]
    keep_stem: bool,
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

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
    }
}
