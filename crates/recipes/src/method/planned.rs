//! One network to train: a name of the zoo and what is done to it.

use network::cost::Cost;
use network::spec::NetworkSpec;
use network::transform::{Reduction, ReuseLayout, ReuseScope, StemRule, ThinChoice};
use network::walk::StageIndex;

use super::OptimizeError;
use crate::recipe::{NetworkSection, ReuseGroups, ReuseOver, StemChoice, ThinDrops};

/// One network to train.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to call it in tables.
    pub title: String,
    /// A name of the zoo or a file.
    pub network: String,
    /// What is done to it.
    pub reduction: Reduction,
    /// What the result costs.
    pub cost: Cost,
}

impl Plan {
    /// A network by its name and, as built at the wanted size, `spec`.
    ///
    /// # Errors
    /// When it cannot be reduced so.
    pub fn new(network: &str, reduction: Reduction, spec: &NetworkSpec) -> Result<Self, OptimizeError> {
        let reduced = reduction.apply(spec)?;
        Ok(Self {
            title: reduced.name().to_owned(),
            network: network.to_owned(),
            cost: Cost::of(&reduced),
            reduction,
        })
    }

    /// The same as a recipe writes it.
    pub fn section(&self) -> NetworkSection {
        NetworkSection::reduced(&self.network, &self.reduction)
    }
}

impl NetworkSection {
    /// A network as it is.
    pub fn named(name: &str) -> Self {
        Self::reduced(name, &Reduction::default())
    }

    /// A network and what is done to it.
    pub fn reduced(name: &str, reduction: &Reduction) -> Self {
        let Reduction { width, resolution, single_block, cull, thin, thin_choice, stem, reuse } = reduction;
        let numbers =
            |stages: &std::collections::BTreeSet<StageIndex>| stages.iter().map(|stage| stage.0).collect();
        let layout = reuse.map_or(ReuseLayout::default(), |reuse| reuse.layout);
        let scope = reuse.map_or(ReuseScope::default(), |reuse| reuse.scope);
        Self {
            name: name.to_owned(),
            cull: numbers(cull),
            thin: numbers(thin),
            thin_drops: match thin_choice {
                ThinChoice::AfterSum => ThinDrops::AfterSum,
                ThinChoice::Inner => ThinDrops::Inner,
            },
            single_block: numbers(single_block),
            width: *width,
            resolution: *resolution,
            reuse: reuse.map(|reuse| reuse.factor),
            reuse_groups: match layout {
                ReuseLayout::ThreeGroups => ReuseGroups::Three,
                ReuseLayout::EqualGroups { shortcut: false } => ReuseGroups::Equal,
                ReuseLayout::EqualGroups { shortcut: true } => ReuseGroups::EqualShortcut,
            },
            reuse_scope: match scope {
                ReuseScope::OnePerBlock => ReuseOver::Block,
                ReuseScope::AllLayers => ReuseOver::All,
            },
            stem: match stem {
                StemRule::DropWithStages => StemChoice::DropWithStages,
                StemRule::Drop => StemChoice::Drop,
                StemRule::Keep => StemChoice::Keep,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::transform::Reuse;
    use network::zoo;

    #[test]
    fn a_recipe_writes_the_same_reduction() {
        let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect();
        let reduction = Reduction {
            width: Some(0.5),
            resolution: Some(0.5),
            single_block: stages(&[4]),
            cull: stages(&[1]),
            thin: stages(&[2, 3]),
            thin_choice: ThinChoice::Inner,
            stem: StemRule::Keep,
            reuse: Some(Reuse { scope: ReuseScope::AllLayers, ..Reuse::new(4) }),
        };
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let plan = Plan::new("resnet18", reduction.clone(), &spec).unwrap();
        assert_eq!(plan.section().reduction(), reduction);
    }
}
