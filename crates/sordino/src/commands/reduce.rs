//! The flags that drop ReLUs from a network, the same for every verb that takes one.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use network::transform::Reduction;
use recipes::recipe::{NetworkSection, ReuseGroups, ReuseOver, StemChoice, ThinDrops};

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
    #[arg(long, value_enum, default_value_t = Word(ThinDrops::AfterSum))]
    thin_drops: Word<ThinDrops>,
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
    #[arg(long, value_enum, default_value_t = Word(ReuseGroups::Three))]
    reuse_groups: Word<ReuseGroups>,
    /// Which ReLU layers ReLU-reuse replaces.
    #[arg(long, value_enum, default_value_t = Word(ReuseOver::Block))]
    reuse_scope: Word<ReuseOver>,
    /// Drop the ReLUs of the stem.
    #[arg(long, conflicts_with = "keep_stem")]
    drop_stem: bool,
    /// Keep the ReLUs of the stem also where stages are culled or thinned.
    #[arg(long)]
    keep_stem: bool,
}

/// A word of a recipe's `[network]` as the value of a flag.
#[derive(Clone, Copy, Debug)]
struct Word<T>(T);

fn value(name: &'static str, help: &'static str) -> Option<PossibleValue> {
    Some(PossibleValue::new(name).help(help))
}

impl ValueEnum for Word<ThinDrops> {
    fn value_variants<'a>() -> &'a [Self] {
        &[Word(ThinDrops::AfterSum), Word(ThinDrops::Inner)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self.0 {
            ThinDrops::AfterSum => value("after-sum", "The one after the addition, as in the papers' models"),
            ThinDrops::Inner => value("inner", "The one between the convolutions"),
        }
    }
}

impl ValueEnum for Word<ReuseGroups> {
    fn value_variants<'a>() -> &'a [Self] {
        &[Word(ReuseGroups::Three), Word(ReuseGroups::Equal), Word(ReuseGroups::EqualShortcut)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self.0 {
            ReuseGroups::Three => value("three", "Three groups whatever N is: the proposed form"),
            ReuseGroups::Equal => value("equal", "N groups, each on its own"),
            ReuseGroups::EqualShortcut => value("equal-shortcut", "N groups, each fed by the one before"),
        }
    }
}

impl ValueEnum for Word<ReuseOver> {
    fn value_variants<'a>() -> &'a [Self] {
        &[Word(ReuseOver::Block), Word(ReuseOver::All)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self.0 {
            ReuseOver::Block => value("block", "The ReLU between the two convolutions of each block"),
            ReuseOver::All => value("all", "Every ReLU layer of stem and stages"),
        }
    }
}

impl ReductionArguments {
    pub(super) fn reduction(&self) -> Reduction {
        self.section().reduction()
    }

    /// What a recipe would write.
    fn section(&self) -> NetworkSection {
        NetworkSection {
            name: String::new(),
            cull: self.cull.clone(),
            thin: self.thin.clone(),
            thin_drops: self.thin_drops.0,
            single_block: self.single_block.clone(),
            width: self.width,
            resolution: self.resolution,
            reuse: self.reuse,
            reuse_groups: self.reuse_groups.0,
            reuse_scope: self.reuse_scope.0,
            stem: match (self.drop_stem, self.keep_stem) {
                (true, _) => StemChoice::Drop,
                (false, true) => StemChoice::Keep,
                (false, false) => StemChoice::DropWithStages,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_flags_are_those_of_recipes() {
        fn expect_same<T: serde::Serialize + Copy + 'static>()
        where
            Word<T>: ValueEnum,
        {
            for word in Word::<T>::value_variants() {
                let written = serde_json::to_value(word.0).unwrap();
                assert_eq!(word.to_possible_value().unwrap().get_name(), written);
            }
        }
        expect_same::<ThinDrops>();
        expect_same::<ReuseGroups>();
        expect_same::<ReuseOver>();
    }
}
