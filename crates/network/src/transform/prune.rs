//! Prune: fewer filters, so fewer channels in the maps that they make and fewer ReLUs behind them (Li and others, "Pruning
//! Filters for Efficient ConvNets", ICLR 2017).
//!
//! A channel can go where only convolutions and fully connected layers read it: their weights for it go, too. Batch norms,
//! ReLUs, poolings and depthwise convolutions pass a channel on. An addition ties the channels of its terms together: those of
//! a residual stream go from all convolutions that write it, or from none.
//!
//! ```text
//! stream ─┬─ conv1 ─ norm ─ relu ─ conv2 ─ norm ─┬─ stream      conv1 makes channels of its own; conv2 writes the stream
//!         └───────────────────────────────────────┘
//! ```

use std::collections::BTreeMap;

use super::{TransformError, checked, visit_all};
use crate::spec::{Layer, NetworkSpec};
use crate::walk::{Operation, StepId, ValueId};

/// Channels of which some can go, and all that has weights for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunableChannels {
    /// What they are called: the name of the first convolution that makes them.
    pub name: String,
    /// How many there are.
    pub channels: usize,
    /// The convolutions that make them; several where their maps are added.
    pub makers: Vec<StepId>,
    /// Batch norms and depthwise convolutions, which have weights for each channel alone.
    pub followers: Vec<StepId>,
    /// The convolutions and fully connected layers that read them.
    pub readers: Vec<StepId>,
    /// ReLUs of one channel, over all the ReLU layers that it passes.
    pub relus_per_channel: u64,
    /// Whether they pass an addition, as a residual stream does.
    pub is_stream: bool,
}

/// All channels of a network of which some can go, in the order of the walk.
pub fn prunable_channels(spec: &NetworkSpec) -> Vec<PrunableChannels> {
    let mut found: BTreeMap<usize, PrunableChannels> = BTreeMap::new();
    let walk = spec.walk();
    let mut ties = Ties::of(spec);
    for (index, step) in walk.steps().iter().enumerate() {
        let (id, shape) = (StepId(index), walk.shape(step.output));
        let role = Role::of(&step.operation);
        if let Role::Maker | Role::Reader = role {
            for input in &step.inputs {
                found.entry(ties.root(*input)).and_modify(|channels| channels.readers.push(id));
            }
        }
        let root = ties.root(step.output);
        if role == Role::Maker && !ties.is_fixed[root] {
            let first = PrunableChannels {
                name: step.name.clone(),
                channels: shape.channels,
                makers: Vec::new(),
                followers: Vec::new(),
                readers: Vec::new(),
                relus_per_channel: 0,
                is_stream: ties.is_added[root],
            };
            found.entry(root).or_insert(first).makers.push(id);
        }
        let Some(channels) = found.get_mut(&root) else { continue };
        match &step.operation {
            Operation::Relu { .. } => channels.relus_per_channel += shape.pixels(),
            Operation::BatchNorm { .. } | Operation::Conv(_) if role == Role::Passes => {
                channels.followers.push(id);
            }
            _ => {}
        }
    }
    let mut found: Vec<PrunableChannels> = found.into_values().collect();
    found.sort_by_key(|channels| channels.makers[0]);
    found
}

/// Keeps so many channels of those that are named. All convolutions that make them become smaller, and what reads them.
///
/// # Errors
/// When a name is none of [`prunable_channels`], or no channel or more than there are would stay.
pub fn keep_channels(
    spec: &NetworkSpec,
    kept: &BTreeMap<String, usize>,
) -> Result<NetworkSpec, TransformError> {
    let all = prunable_channels(spec);
    let mut sizes = BTreeMap::new();
    for (name, count) in kept {
        let Some(channels) = all.iter().find(|channels| channels.name == *name) else {
            let known: Vec<&str> = all.iter().map(|channels| channels.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(TransformError::NotPrunable {
                network: spec.name().into(),
                name: name.clone(),
                known,
            });
        };
        if !(1..=channels.channels).contains(count) {
            return Err(TransformError::KeptChannels {
                name: name.clone(),
                channels: channels.channels,
                kept: *count,
            });
        }
        sizes.extend(channels.makers.iter().chain(&channels.followers).map(|step| (*step, *count)));
    }
    let steps = spec.walk().steps().iter().enumerate();
    let mut convs = steps.filter(|(_, step)| matches!(step.operation, Operation::Conv(_)));
    let mut next = || convs.next().map(|(index, _)| StepId(index));
    let mut draft = spec.draft().clone();
    visit_all(&mut draft, &mut |layer| match layer {
        Layer::Conv(conv) => {
            let kept = next().and_then(|step| sizes.get(&step));
            conv.out = kept.copied().unwrap_or(conv.out);
        }
        // Two convolutions of the walk; their outputs are concatenated, so they keep their channels.
        Layer::FactorizedReduce(_) => drop((next(), next())),
        _ => {}
    });
    checked(draft)
}

/// What a step does to channels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Reads all channels and makes new ones.
    Maker,
    /// Reads all channels; its outputs stay as they are.
    Reader,
    /// Passes each channel on.
    Passes,
    /// Adds maps, channel by channel.
    Adds,
    /// Needs the channels as they are.
    Fixes,
}

impl Role {
    fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Conv(conv) if conv.groups == 1 => Self::Maker,
            Operation::Conv(conv) if conv.groups == conv.inputs && conv.outputs == conv.inputs => {
                Self::Passes
            }
            Operation::FullyConnected { .. } => Self::Reader,
            Operation::Add => Self::Adds,
            Operation::BatchNorm { .. }
            | Operation::Relu { .. }
            | Operation::AveragePool(_)
            | Operation::MaxPool(_)
            | Operation::GlobalAveragePool
            | Operation::DropFirstRowAndColumn => Self::Passes,
            Operation::Conv(_)
            | Operation::SharedSigns { .. }
            | Operation::Concat
            | Operation::Slice { .. } => Self::Fixes,
        }
    }
}

/// Which values have the same channels.
struct Ties {
    /// For each value one that it is tied to, itself at the end of the chain.
    parents: Vec<usize>,
    /// By the end of the chain: whether its channels must stay.
    is_fixed: Vec<bool>,
    /// And whether they pass an addition.
    is_added: Vec<bool>,
}

impl Ties {
    fn of(spec: &NetworkSpec) -> Self {
        let count = spec.walk().value_count();
        let mut ties = Self {
            parents: (0..count).collect(),
            is_fixed: vec![false; count],
            is_added: vec![false; count],
        };
        ties.is_fixed[ValueId::IMAGE.0] = true;
        for step in spec.walk().steps() {
            let role = Role::of(&step.operation);
            if let Role::Passes | Role::Adds = role {
                for input in &step.inputs {
                    ties.tie(*input, step.output);
                }
            }
            let output = ties.root(step.output);
            match role {
                Role::Adds => ties.is_added[output] = true,
                Role::Reader => ties.is_fixed[output] = true,
                Role::Fixes => {
                    ties.is_fixed[output] = true;
                    for input in &step.inputs {
                        let input = ties.root(*input);
                        ties.is_fixed[input] = true;
                    }
                }
                Role::Maker | Role::Passes => {}
            }
        }
        // The logits are the classes, whatever makes them.
        let logits = ties.root(spec.walk().output());
        ties.is_fixed[logits] = true;
        ties
    }

    fn root(&mut self, value: ValueId) -> usize {
        let mut root = value.0;
        while self.parents[root] != root {
            root = self.parents[root];
        }
        self.parents[value.0] = root;
        root
    }

    fn tie(&mut self, one: ValueId, other: ValueId) {
        let (one, other) = (self.root(one), self.root(other));
        self.parents[other] = one;
        self.is_fixed[one] |= self.is_fixed[other];
        self.is_added[one] |= self.is_added[other];
    }
}

#[cfg(test)]
mod tests;
