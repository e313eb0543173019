//! Cull and thin: ways to drop whole ReLU layers.

use std::collections::HashMap;
use std::mem::take;

use serde::{Deserialize, Serialize};

use super::{TransformError, checked, stage_blocks};
use crate::spec::{Block, Layer, NetworkSpec, Residual};
use crate::walk::StageIndex;

/// Which ReLU of a block goes when a stage is thinned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ThinChoice {
    /// The one after the addition, as in the papers' models.
    ///
    /// In a pre-activation block that is the leading one, which acts on the sum of the block before.
    #[default]
    AfterSum,
    /// The one between the convolutions.
    Inner,
}

/// Drops every ReLU of a stage (DeepReDuce section 3.1).
///
/// # Errors
/// When there is no such stage.
pub fn cull_stage(spec: &NetworkSpec, stage: StageIndex) -> Result<NetworkSpec, TransformError> {
    let mut draft = spec.draft().clone();
    for block in stage_blocks(&mut draft, stage)? {
        retain_relus(block, &mut || false);
    }
    checked(draft)
}

/// Drops every other ReLU layer of a stage (DeepReDuce section 3.2).
///
/// A block with a ReLU on the sum and one inside loses the one that `choice` names. ReLUs of all other blocks are
/// numbered through the stage: `AfterSum` drops the second, fourth and so on, `Inner` the first, third and so on,
/// but never one on a sum. So a stage with a single ReLU keeps it by default, and ResNet-6, whose ReLUs all stand on
/// sums, keeps all of them with `Inner`.
///
/// # Errors
/// When there is no such stage.
pub fn thin_stage(
    spec: &NetworkSpec,
    stage: StageIndex,
    choice: ThinChoice,
) -> Result<NetworkSpec, TransformError> {
    let mut draft = spec.draft().clone();
    let mut keeps_next = choice == ThinChoice::AfterSum;
    for block in stage_blocks(&mut draft, stage)? {
        let is_thinned = match block {
            Block::Residual(residual) => thin_residual(residual, choice),
            _ => false,
        };
        if !is_thinned {
            let on_sum = match block {
                Block::Residual(residual) if choice == ThinChoice::Inner => take(&mut residual.after_sum),
                _ => Vec::new(),
            };
            retain_relus(block, &mut || {
                keeps_next = !keeps_next;
                !keeps_next
            });
            if let Block::Residual(residual) = block {
                residual.after_sum.extend(on_sum);
            }
        }
    }
    checked(draft)
}

/// Drops the ReLUs of the stem; every network of DeepReDuce lacks them (section 2.2).
///
/// # Errors
/// Never for a spec that fits; the signature is that of all transforms.
pub fn drop_stem_relus(spec: &NetworkSpec) -> Result<NetworkSpec, TransformError> {
    let mut draft = spec.draft().clone();
    retain(&mut draft.stem.layers, &mut || false);
    retain(&mut draft.stem.second, &mut || false);
    checked(draft)
}

/// Thins a block that has both kinds of ReLU; says whether it had.
fn thin_residual(residual: &mut Residual, choice: ThinChoice) -> bool {
    let first_conv = residual.body.iter().position(|layer| matches!(layer, Layer::Conv(_))).unwrap_or(0);
    let (leading, inner) = residual.body.split_at(first_conv);
    let has_inner = inner.iter().any(Layer::is_relu);
    let has_leading = residual.before.iter().chain(leading).any(Layer::is_relu);
    let has_after = residual.after_sum.iter().any(Layer::is_relu);
    if !has_inner || has_leading == has_after {
        return false;
    }
    match choice {
        ThinChoice::AfterSum => {
            residual.after_sum.retain(|layer| !layer.is_relu());
            residual.before.retain(|layer| !layer.is_relu());
            let mut position = 0;
            residual.body.retain(|layer| {
                position += 1;
                position > first_conv || !layer.is_relu()
            });
        }
        ThinChoice::Inner => {
            let mut position = 0;
            residual.body.retain(|layer| {
                position += 1;
                position <= first_conv || !layer.is_relu()
            });
        }
    }
    true
}

/// Asks for every ReLU of a block, in order, whether it stays.
fn retain_relus(block: &mut Block, keeps: &mut impl FnMut() -> bool) {
    match block {
        Block::Plain(layers) => retain(layers, keeps),
        Block::Residual(residual) => {
            retain(&mut residual.before, keeps);
            retain(&mut residual.body, keeps);
            retain(&mut residual.shortcut, keeps);
            retain(&mut residual.after_sum, keeps);
        }
        Block::Cell(cell) => {
            retain(&mut cell.older, keeps);
            retain(&mut cell.newer, keeps);
            let mut shared = HashMap::new();
            for edge in cell.nodes.iter_mut().flatten() {
                if edge.activated {
                    edge.activated = *shared.entry(edge.from).or_insert_with(&mut *keeps);
                }
                retain(&mut edge.layers, keeps);
            }
            retain(&mut cell.post, keeps);
        }
    }
}

fn retain(list: &mut Vec<Layer>, keeps: &mut impl FnMut() -> bool) {
    list.retain_mut(|layer| {
        for nested in layer.nested_mut() {
            retain(nested, keeps);
        }
        !layer.is_relu() || keeps()
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo;

    fn relus(spec: &NetworkSpec) -> u64 {
        Cost::of(spec).relus
    }

    fn thinned(name: &str, choice: ThinChoice) -> u64 {
        let mut spec = drop_stem_relus(&zoo::build(name, 32, 100).unwrap()).unwrap();
        for stage in 1..=spec.stage_count() {
            spec = thin_stage(&spec, StageIndex(stage), choice).unwrap();
        }
        relus(&spec)
    }

    #[test]
    fn thinning_halves_basic_blocks_either_way() {
        assert_eq!(thinned("resnet18", ThinChoice::AfterSum), 245_760);
        assert_eq!(thinned("resnet18", ThinChoice::Inner), 245_760);
    }

    #[test]
    fn thinning_keeps_the_inner_relu_by_default() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let spec = thin_stage(&spec, StageIndex(2), ThinChoice::default()).unwrap();
        let names: Vec<_> = spec
            .walk()
            .sites()
            .iter()
            .filter(|site| site.name.starts_with("stage2"))
            .map(|site| site.name.as_str())
            .collect();
        assert_eq!(names, ["stage2.block1.body.relu1", "stage2.block2.body.relu1"]);
    }

    #[test]
    fn thinning_a_pre_activation_block_drops_the_leading_relu() {
        // Kept: one inner ReLU per block, and the final one of the head.
        let inner = 3 * (131_072 + 65_536 + 32_768) + 32_768;
        assert_eq!(thinned("wrn-22x8", ThinChoice::AfterSum), inner);
        // Kept: the leading ones, the first of each stage on the map of the stage before.
        let leading = 16_384 + 2 * 131_072 + 131_072 + 2 * 65_536 + 65_536 + 2 * 32_768 + 32_768;
        assert_eq!(thinned("wrn-22x8", ThinChoice::Inner), leading);
    }

    #[test]
    fn thinning_plain_blocks_takes_every_second_relu() {
        // Convolutions per stage 2, 2, 3, 3, 3: the first and third stay; the two hidden layers of the head too.
        let kept = 65_536 + 32_768 + 2 * 16_384 + 2 * 8_192 + 2 * 2_048 + 8_192;
        assert_eq!(thinned("vgg16", ThinChoice::AfterSum), kept);
    }

    #[test]
    fn relus_on_sums_alone_are_thinned_by_number_and_never_as_inner_ones() {
        // One ReLU in each stage: the first of a stage stays.
        assert_eq!(thinned("resnet6", ThinChoice::AfterSum), 122_880);
        assert_eq!(thinned("resnet6", ThinChoice::Inner), 122_880);
        // Two in each: the second goes.
        assert_eq!(thinned("resnet6:depths=2+2+2+2", ThinChoice::AfterSum), 122_880);
        assert_eq!(thinned("resnet6:depths=2+2+2+2", ThinChoice::Inner), 245_760);
    }

    #[test]
    fn culling_drops_shared_relus_of_cells_too() {
        let mut spec = zoo::build("pc-darts:c=4,d=6,share=yes", 32, 10).unwrap();
        for stage in 1..=spec.stage_count() {
            spec = cull_stage(&spec, StageIndex(stage)).unwrap();
        }
        assert_eq!(relus(&spec), 0);
    }
}
