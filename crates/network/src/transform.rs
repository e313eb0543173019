//! Pure functions from spec to spec that leave fewer ReLUs to pay for.
//!
//! | word | function | source |
//! | --- | --- | --- |
//! | cull | [`cull_stage`] | DeepReDuce 3.1: every ReLU of a stage goes |
//! | thin | [`thin_stage`] | DeepReDuce 3.2: every other ReLU layer of a stage goes |
//! | reshape | [`scale_channels`], [`scale_resolution`], [`keep_first_block`] | DeepReDuce 3.3, Tables 4 and 5 |
//! | reuse | [`reuse_relus`] | DeepReShape 4 and appendix G: ReLUs on a fraction of the channels |
//! | the whole pipeline | [`deepreduce_networks`] | DeepReDuce 3.5: 5(D-1) networks |
//!
//! A dropped ReLU leaves no trace in the spec: it is no layer, so it costs nothing anywhere.

mod deepreduce;
mod drop;
mod reshape;
mod reuse;

use crate::spec::{Block, Draft, Layer, NetworkSpec, SpecError};
use crate::walk::StageIndex;

pub use deepreduce::{Candidate, Enumeration, deepreduce_networks};
pub use drop::{ThinChoice, cull_stage, drop_stem_relus, thin_stage};
pub use reshape::{keep_first_block, scale_channels, scale_resolution};
pub use reuse::{Reuse, ReuseLayout, ReuseScope, reuse_relus};

/// A transform that cannot be applied.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TransformError {
    /// The network has no such stage.
    #[error("there is no stage {stage}; {network} has stages 1 to {stages}")]
    NoSuchStage {
        /// What was asked for.
        stage: usize,
        /// The network.
        network: String,
        /// How many it has.
        stages: usize,
    },
    /// A factor that is no usable number.
    #[error("{what} is {factor}; expected {expected}")]
    Factor {
        /// Which factor.
        what: &'static str,
        /// What came.
        factor: f64,
        /// What can be used.
        expected: &'static str,
    },
    /// There is no convolution whose stride could change.
    #[error("{network} has no convolution whose stride could be raised")]
    NoConvolution {
        /// The network.
        network: String,
    },
    /// A block that ReLU-reuse does not know.
    #[error(
        "stage {stage}, block {block} cannot reuse ReLUs: it needs a ReLU followed by a dense stride-1 convolution \
         with a kernel above 1x1 that keeps the channels"
    )]
    NotReusable {
        /// The stage.
        stage: usize,
        /// The block within it.
        block: usize,
    },
    /// Channels that do not divide.
    #[error("stage {stage}, block {block} has {channels} channels, which do not divide by {divisor}")]
    Indivisible {
        /// The stage (0 for the stem).
        stage: usize,
        /// The block within it.
        block: usize,
        /// Its channels.
        channels: usize,
        /// What should divide them.
        divisor: usize,
    },
    /// A stage whose first block does not end where the stage ends.
    #[error("stage {stage} cannot be cut to its first block: a later block changes the shape of the map")]
    StageEnd {
        /// The stage.
        stage: usize,
    },
    /// A criticality order for another network.
    #[error("the criticality order names {named} stages, {network} has {stages}")]
    Order {
        /// How many the order names.
        named: usize,
        /// The network.
        network: String,
        /// How many it has.
        stages: usize,
    },
    /// The result does not fit together.
    #[error("the transformed network does not fit")]
    Shapes(#[from] SpecError),
}

/// The blocks of a stage, to be changed.
fn stage_blocks(draft: &mut Draft, stage: StageIndex) -> Result<&mut Vec<Block>, TransformError> {
    let stages = draft.stages.len();
    match stage.0.checked_sub(1).and_then(|index| draft.stages.get_mut(index)) {
        Some(found) => Ok(&mut found.blocks),
        None => Err(TransformError::NoSuchStage { stage: stage.0, network: draft.name.clone(), stages }),
    }
}

/// The top-level lists of layers of a block, in the order of the walk.
fn lists_mut(block: &mut Block) -> Vec<&mut Vec<Layer>> {
    match block {
        Block::Plain(layers) => vec![layers],
        Block::Residual(residual) => {
            vec![&mut residual.before, &mut residual.body, &mut residual.shortcut, &mut residual.after_sum]
        }
        Block::Cell(cell) => {
            let mut lists = vec![&mut cell.older, &mut cell.newer];
            lists.extend(cell.nodes.iter_mut().flatten().map(|edge| &mut edge.layers));
            lists.push(&mut cell.post);
            lists
        }
    }
}

/// Visits every layer of a list and of the lists inside it, in order.
fn visit(list: &mut [Layer], visitor: &mut impl FnMut(&mut Layer)) {
    for layer in list {
        visitor(layer);
        for nested in layer.nested_mut() {
            visit(nested, visitor);
        }
    }
}

fn checked(draft: Draft) -> Result<NetworkSpec, TransformError> {
    Ok(NetworkSpec::new(draft)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo;
    use proptest::prelude::*;

    fn networks() -> impl Strategy<Value = NetworkSpec> {
        let entries: Vec<_> = zoo::catalog().iter().filter(|entry| entry.input <= 32).collect();
        (0..entries.len()).prop_map(move |index| zoo::build(entries[index].name, 32, 10).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn any_transform_keeps_shapes_consistent_and_counts_honest(
            spec in networks(), stage in 1_usize..6, kind in 0..8, quarter in 1_usize..9,
        ) {
            let before = Cost::of(&spec);
            let stage = StageIndex(stage);
            let after = match kind {
                0 => cull_stage(&spec, stage),
                1 => thin_stage(&spec, stage, ThinChoice::AfterSum),
                2 => thin_stage(&spec, stage, ThinChoice::Inner),
                3 => scale_channels(&spec, quarter as f64 / 4.0),
                4 => scale_resolution(&spec, 0.5),
                5 => drop_stem_relus(&spec),
                6 => reuse_relus(&spec, Reuse::new(4)),
                _ => keep_first_block(&spec, stage),
            };
            match after {
                // `NetworkSpec` exists only with shapes that fit, so being here is the first half of the claim.
                Ok(after) => {
                    let cost = Cost::of(&after);
                    if kind != 3 {
                        prop_assert!(cost.relus <= before.relus);
                    }
                    if [0, 1, 2, 5].contains(&kind) {
                        prop_assert_eq!(Cost { relus: 0, ..cost }, Cost { relus: 0, ..before });
                    }
                    prop_assert_eq!(Cost::by_part(&after).into_iter().map(|(_, cost)| cost).sum::<Cost>(), cost);
                    prop_assert_eq!(NetworkSpec::from_toml(&after.to_toml()).unwrap(), after);
                }
                Err(TransformError::NoSuchStage { stages, .. }) => prop_assert!(stage.0 > stages),
                Err(TransformError::Shapes(_)) => prop_assert!([3, 4, 7].contains(&kind)),
                Err(TransformError::NotReusable { .. } | TransformError::Indivisible { .. }) => {
                    prop_assert_eq!(kind, 6);
                }
                Err(TransformError::Factor { .. }) => prop_assert_eq!(kind, 3),
                Err(TransformError::StageEnd { .. }) => prop_assert_eq!(kind, 7),
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    #[test]
    fn stages_count_from_one_and_end() {
        let spec = zoo::build("resnet18", 32, 10).unwrap();
        for bad in [0, 5] {
            let error = cull_stage(&spec, StageIndex(bad)).unwrap_err().to_string();
            assert_eq!(error, format!("there is no stage {bad}; resnet18 has stages 1 to 4"));
        }
    }
}
