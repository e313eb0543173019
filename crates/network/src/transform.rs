//! Pure functions from spec to spec that leave fewer ReLUs to pay for.
//!
//! | word | function | source |
//! | --- | --- | --- |
//! | cull | [`cull_stage`] | DeepReDuce 3.1: every ReLU of a stage goes |
//! | thin | [`thin_stage`] | DeepReDuce 3.2: every other ReLU layer of a stage goes |
//! | reshape | [`scale_channels`], [`scale_resolution`], [`keep_first_block`] | DeepReDuce 3.3, Tables 4 and 5 |
//! | reuse | [`reuse_relus`] | DeepReShape 4 and appendix G: ReLUs on a fraction of the channels |
//! | prune | [`keep_channels`] | Li and others 2017: fewer filters, so fewer channels and ReLUs |
//! | regroup | [`regroup_signs`] | ours: other channels share signs |
//! | several of these, in order | [`Reduction`] | all of the above |
//! | the whole pipeline | [`deepreduce_networks`] | DeepReDuce 3.5: 5(D-1) networks |
//!
//! A dropped ReLU leaves no trace in the spec: it is no layer, so it costs nothing anywhere.

mod deepreduce;
mod drop;
mod prune;
mod reduction;
mod regroup;
mod reshape;
mod reuse;

use crate::spec::{Block, Draft, Layer, NetworkSpec, SpecError};
use crate::walk::{Place, StageIndex};

pub use deepreduce::{Candidate, Enumeration, deepreduce_networks};
pub use drop::{ThinChoice, cull_stage, drop_stem_relus, thin_stage};
pub use prune::{PrunableChannels, keep_channels, prunable_channels};
pub use reduction::{Reduction, StemRule};
pub use regroup::{regroup_signs, shared_signs};
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
        "{place} cannot reuse ReLUs: it needs a ReLU followed by a dense stride-1 convolution with a filter above 1x1 \
         that keeps the channels"
    )]
    NotReusable {
        /// Where.
        place: Place,
    },
    /// No ReLU layer could take part.
    #[error(
        "{network} has no ReLU layer that could be reused: none stands between two convolutions of a block"
    )]
    NothingToReuse {
        /// The network.
        network: String,
    },
    /// Channels that share signs already.
    #[error("{network} shares signs between channels; ReLUs are reused only where every channel has its own")]
    SharedSigns {
        /// The network.
        network: String,
    },
    /// Other activations than there are.
    #[error("{network} has {expected} activations with shared signs, and {came} groupings came")]
    Groupings {
        /// The network.
        network: String,
        /// How many it has.
        expected: usize,
        /// How many came.
        came: usize,
    },
    /// A stage that is to be culled and thinned.
    #[error("stage {stage} cannot be both culled and thinned: culling leaves no ReLU to thin")]
    CulledAndThinned {
        /// The stage.
        stage: usize,
    },
    /// Channels that do not divide.
    #[error("{place} has {channels} channels, which do not divide by {divisor}")]
    Indivisible {
        /// Where.
        place: Place,
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
    /// A name that no channels have which could go.
    #[error("{network} has no channels called {name} that could go; those that could are {known}")]
    NotPrunable {
        /// The network.
        network: String,
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// More channels than there are, or none.
    #[error("{name} has {channels} channels and cannot keep {kept}; expected 1 to {channels}")]
    KeptChannels {
        /// The convolution.
        name: String,
        /// How many it has.
        channels: usize,
        /// How many should stay.
        kept: usize,
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

/// Visits every layer of a draft in the order in which the walk meets them.
fn visit_all(draft: &mut Draft, visitor: &mut impl FnMut(&mut Layer)) {
    visit(&mut draft.stem.layers, visitor);
    visit(&mut draft.stem.second, visitor);
    for block in draft.stages.iter_mut().flat_map(|stage| &mut stage.blocks) {
        lists_mut(block).into_iter().for_each(|list| visit(list, visitor));
    }
    visit(&mut draft.head, visitor);
}

fn checked(draft: Draft) -> Result<NetworkSpec, TransformError> {
    Ok(NetworkSpec::new(draft)?)
}

#[cfg(test)]
mod tests;
