//! One network to train: a name of the zoo and what is done to it.

use network::cost::Cost;
use network::spec::NetworkSpec;
use network::transform::Reduction;

use super::OptimizeError;
use crate::recipe::NetworkSection;

/// One network to train.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedNetwork {
    /// What to call it in tables.
    pub title: String,
    /// A name of the zoo or a file.
    pub network: String,
    /// What is done to it.
    pub reduction: Reduction,
    /// What the result costs.
    pub cost: Cost,
}

impl PlannedNetwork {
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

#[cfg(test)]
mod tests {
    use super::*;
    use network::transform::{Reuse, ReuseScope, StemRule, ThinChoice};
    use network::walk::StageIndex;
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
            reuse: Some(Reuse { scope: ReuseScope::All, ..Reuse::new(4) }),
            keep_channels: [("stage2.block1.body.conv1".to_owned(), 60)].into(),
        };
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let plan = PlannedNetwork::new("resnet18", reduction.clone(), &spec).unwrap();
        assert_eq!(plan.section().reduction(), reduction);
    }
}
