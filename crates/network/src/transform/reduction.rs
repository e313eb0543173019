//! Several transforms as one value, applied in the one order that makes sense.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{
    Reuse, ReuseLayout, ReuseScope, ThinChoice, TransformError, cull_stage, drop_stem_relus, keep_channels,
    keep_first_block, reuse_relus, scale_channels, scale_resolution, thin_stage,
};
use crate::spec::NetworkSpec;
use crate::walk::StageIndex;

/// What to do to a network so that it has fewer ReLUs; the default does nothing.
///
/// Widths and maps come first, then blocks, then ReLUs, so that reuse divides the channels the network will have. Pruning
/// comes last: it names convolutions of what is there then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reduction {
    /// Factor of the channels ("alpha").
    pub width: Option<f64>,
    /// Factor of the resolution ("rho").
    pub resolution: Option<f64>,
    /// Stages cut to their first block (`*` in DeepReDuce).
    pub single_block: BTreeSet<StageIndex>,
    /// Stages that lose every ReLU.
    pub cull: BTreeSet<StageIndex>,
    /// Stages that lose every other ReLU layer.
    pub thin: BTreeSet<StageIndex>,
    /// Which ReLU of a block goes when it is thinned.
    pub thin_choice: ThinChoice,
    /// What becomes of the stem's ReLUs.
    pub stem: StemRule,
    /// ReLUs on a part of the channels alone.
    pub reuse: Option<Reuse>,
    /// Channels that are left of a convolution, by its name (filter pruning).
    pub keep_channels: BTreeMap<String, usize>,
}

/// What becomes of the stem's ReLUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StemRule {
    /// They go where any stage is culled or thinned, as in the papers' models.
    #[default]
    DropWithStages,
    /// They go.
    Drop,
    /// They stay.
    Keep,
}

impl Reduction {
    /// The reduced network; its name says what was done.
    ///
    /// # Errors
    /// When one of the transforms cannot be applied, or a stage is both culled and thinned.
    pub fn apply(&self, spec: &NetworkSpec) -> Result<NetworkSpec, TransformError> {
        if let Some(stage) = self.cull.intersection(&self.thin).next() {
            return Err(TransformError::CulledAndThinned { stage: stage.0 });
        }
        let mut reduced = spec.clone();
        if let Some(factor) = self.width {
            reduced = scale_channels(&reduced, factor)?;
        }
        if let Some(factor) = self.resolution {
            reduced = scale_resolution(&reduced, factor)?;
        }
        for &stage in &self.single_block {
            reduced = keep_first_block(&reduced, stage)?;
        }
        for &stage in &self.cull {
            reduced = cull_stage(&reduced, stage)?;
        }
        for &stage in &self.thin {
            reduced = thin_stage(&reduced, stage, self.thin_choice)?;
        }
        if self.drops_stem() {
            reduced = drop_stem_relus(&reduced)?;
        }
        if let Some(reuse) = self.reuse {
            reduced = reuse_relus(&reduced, reuse)?;
        }
        if !self.keep_channels.is_empty() {
            reduced = keep_channels(&reduced, &self.keep_channels)?;
        }
        self.named(reduced)
    }

    fn drops_stem(&self) -> bool {
        match self.stem {
            StemRule::DropWithStages => !self.cull.is_empty() || !self.thin.is_empty(),
            StemRule::Drop => true,
            StemRule::Keep => false,
        }
    }

    /// `resnet18 (cull 1, thin 2+3)`.
    fn named(&self, reduced: NetworkSpec) -> Result<NetworkSpec, TransformError> {
        let words = self.words();
        if words.is_empty() {
            return Ok(reduced);
        }
        let mut draft = reduced.into_draft();
        draft.name = format!("{} ({})", draft.name, words.join(", "));
        super::checked(draft)
    }

    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.width.map(|factor| format!("width {factor}")));
        words.extend(self.resolution.map(|factor| format!("resolution {factor}")));
        words.extend(listed("single block", &self.single_block));
        words.extend(listed("cull", &self.cull));
        let thin = if self.thin_choice == ThinChoice::Inner { "thin inner" } else { "thin" };
        words.extend(listed(thin, &self.thin));
        match self.stem {
            StemRule::DropWithStages => {}
            StemRule::Drop => words.push("drop stem".to_owned()),
            StemRule::Keep => words.push("keep stem".to_owned()),
        }
        words.extend(self.reuse.map(|reuse| {
            let layout = match reuse.layout {
                ReuseLayout::Three => "",
                ReuseLayout::Equal => " equal",
                ReuseLayout::EqualShortcut => " equal-shortcut",
            };
            let scope = if reuse.scope == ReuseScope::All { " all" } else { "" };
            format!("reuse {}{layout}{scope}", reuse.factor)
        }));
        if !self.keep_channels.is_empty() {
            let (layers, left) = (self.keep_channels.len(), self.keep_channels.values().sum::<usize>());
            words.push(format!("{layers} layers pruned to {left} channels"));
        }
        words
    }
}

fn listed(word: &str, stages: &BTreeSet<StageIndex>) -> Option<String> {
    let numbers: Vec<_> = stages.iter().map(|stage| stage.0.to_string()).collect();
    (!numbers.is_empty()).then(|| format!("{word} {}", numbers.join("+")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo;

    fn stages<const N: usize>(numbers: [usize; N]) -> BTreeSet<StageIndex> {
        numbers.into_iter().map(StageIndex).collect()
    }

    #[test]
    fn the_name_says_what_was_done() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let name = |reduction: Reduction| reduction.apply(&spec).unwrap().name().to_owned();
        assert_eq!(name(Reduction::default()), "resnet18");
        let plain = Reduction { cull: stages([1]), thin: stages([3, 2]), ..Reduction::default() };
        assert_eq!(name(plain.clone()), "resnet18 (cull 1, thin 2+3)");
        let layout = ReuseLayout::EqualShortcut;
        let all = Reduction {
            width: Some(0.5),
            resolution: Some(0.5),
            single_block: stages([4]),
            thin_choice: ThinChoice::Inner,
            stem: StemRule::Keep,
            reuse: Some(Reuse { factor: 4, layout, scope: ReuseScope::All }),
            ..plain.clone()
        };
        let expected = "resnet18 (width 0.5, resolution 0.5, single block 4, cull 1, thin inner 2+3, keep stem, \
                        reuse 4 equal-shortcut all)";
        assert_eq!(name(all), expected);
        let kept = |stage| (format!("stage{stage}.block1.body.conv1"), 10);
        let pruned = Reduction { keep_channels: BTreeMap::from([kept(2), kept(3)]), ..plain };
        assert_eq!(name(pruned), "resnet18 (cull 1, thin 2+3, 2 layers pruned to 20 channels)");
    }

    #[test]
    fn the_stem_goes_with_the_stages_unless_told_otherwise() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let relus = |cull: BTreeSet<StageIndex>, stem| {
            Cost::of(&Reduction { cull, stem, ..Reduction::default() }.apply(&spec).unwrap()).relus
        };
        assert_eq!(relus(stages([1]), StemRule::DropWithStages), 229_376);
        assert_eq!(relus(stages([1]), StemRule::Keep), 294_912);
        assert_eq!(relus(stages([]), StemRule::Drop), 491_520);
        assert_eq!(relus(stages([]), StemRule::DropWithStages), 557_056);
    }

    #[test]
    fn a_stage_cannot_be_culled_and_thinned() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let both = Reduction { cull: stages([1, 2]), thin: stages([2, 3]), ..Reduction::default() };
        assert_eq!(both.apply(&spec), Err(TransformError::CulledAndThinned { stage: 2 }));
    }
}
