//! l1 filter pruning: the filters with the smallest norms go, and with them channels, ReLUs and multiply-adds.
//!
//! ```text
//! prunable   the channels that a block makes for itself; with `stream` also those of the residual stream
//! counts     the same part of every layer, as much as the budget allows
//! worth      the l1 norm of each filter, beside the mean of its layer
//! copy       the weights of the filters that stay, of their norms, and of what reads them
//! fine-tune  the recipe's training, from there
//! ```
//!
//! Li and others, "Pruning Filters for Efficient ConvNets" (ICLR 2017): all filters of a trained network are ranked once and
//! pruned at once, layer by layer. Of a residual block the paper prunes the first convolution; where it prunes the stream, the
//! shortcut's filters choose. Here all convolutions that write the stream do, by the sum of their norms: some stages have no
//! convolution on their shortcut. Ranking over all layers is ours.

mod copy;

use std::fmt;
use std::path::PathBuf;

use network::cost::Cost;
use network::spec::NetworkSpec;
use network::transform::{PrunableChannels, prunable_channels};
use serde::{Deserialize, Serialize};

use super::{OptimizeError, PlannedNetwork, ReluBudget};
use crate::recipe::{NetworkSection, Recipe};

pub use copy::{copy_kept, filter_norms};

/// What is pruned, and how far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct L1PruningSection {
    /// How many ReLUs may stay.
    pub budget: ReluBudget,
    /// A run or checkpoint of the network that is to lose filters; the recipe's teacher where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<PathBuf>,
    /// Among which filters the smallest are looked for.
    #[serde(default)]
    pub ranking: Ranking,
    /// Whether channels of the residual stream go, too.
    #[serde(default)]
    pub stream: bool,
    /// Whether the teacher helps in the fine-tuning; the paper has none.
    #[serde(default = "yes")]
    pub distill: bool,
}

fn yes() -> bool {
    true
}

/// Among which filters the smallest are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Ranking {
    /// Among those of one layer: every layer loses the same part.
    #[default]
    Layers,
    /// Among all: norms count beside the mean of their layer.
    Network,
}

impl L1PruningSection {
    /// The paper's choice of filters, with a teacher.
    pub fn new(budget: ReluBudget) -> Self {
        Self { budget, start: None, ranking: Ranking::default(), stream: false, distill: true }
    }

    /// Whether a teacher is needed: to teach, or to have its own filters pruned.
    pub fn needs_teacher(&self) -> bool {
        self.distill || self.start.is_none()
    }

    /// The network that is left where every layer loses the same part; nothing where the weights decide.
    ///
    /// # Errors
    /// When the budget cannot be met.
    pub fn plan(
        &self,
        recipe: &Recipe,
        spec: &NetworkSpec,
        budget: u64,
    ) -> Result<Option<PlannedNetwork>, OptimizeError> {
        let pruning = Pruning::new(spec, self.stream, budget)?;
        match self.ranking {
            Ranking::Layers => pruning.planned(&recipe.network, spec, &pruning.counts()).map(Some),
            Ranking::Network => Ok(None),
        }
    }
}

/// What of a network can go, and a budget that can be met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruning {
    prunable: Vec<PrunableChannels>,
    /// ReLUs that stay whatever goes.
    others: u64,
    budget: u64,
}

impl Pruning {
    /// Looks what can go.
    ///
    /// # Errors
    /// When nothing can, or not enough for the budget.
    pub fn new(spec: &NetworkSpec, stream: bool, budget: u64) -> Result<Self, OptimizeError> {
        let of = |stream: bool| {
            // Channels without ReLUs are left alone: they cost nothing here.
            let goes = |channels: &PrunableChannels| {
                channels.relus_per_channel > 0 && (stream || !channels.is_stream)
            };
            let prunable: Vec<PrunableChannels> = prunable_channels(spec).into_iter().filter(goes).collect();
            let relus = prunable.iter().map(|channels| channels.channels as u64 * channels.relus_per_channel);
            let others = Cost::of(spec).relus - relus.sum::<u64>();
            Self { prunable, others, budget }
        };
        let (pruning, network) = (of(stream), spec.name().to_owned());
        let with_stream = of(true);
        let with_stream = (!stream && !with_stream.prunable.is_empty()).then(|| with_stream.least());
        if pruning.prunable.is_empty() {
            return Err(OptimizeError::NothingToPrune { network, hint: StreamHint(with_stream) });
        }
        let least = pruning.least();
        if budget < least {
            let with_stream = with_stream.filter(|reached| *reached < least);
            return Err(OptimizeError::PrunedTooFar {
                network,
                budget,
                least,
                hint: StreamHint(with_stream),
            });
        }
        Ok(pruning)
    }

    /// The channels of which some can go, in the order of the network.
    pub fn prunable(&self) -> &[PrunableChannels] {
        &self.prunable
    }

    /// The fewest ReLUs: one channel of each is left.
    fn least(&self) -> u64 {
        self.relus(&vec![1; self.prunable.len()])
    }

    /// ReLUs with so many channels of each.
    fn relus(&self, counts: &[usize]) -> u64 {
        let each = counts.iter().zip(&self.prunable);
        self.others + each.map(|(count, channels)| *count as u64 * channels.relus_per_channel).sum::<u64>()
    }

    /// Channels that stay where every layer loses the same part: the largest part that the budget allows, rounded down. What is
    /// left of the budget is given out channel by channel, first where rounding took most.
    pub fn counts(&self) -> Vec<usize> {
        let exact = |part: f64| self.prunable.iter().map(move |channels| part * channels.channels as f64);
        let rounded = |part: f64| -> Vec<usize> {
            // A whole number that came out a little smaller is that number.
            exact(part).map(|channels| ((channels + 1e-9) as usize).max(1)).collect()
        };
        let (mut fits, mut exceeds) = (0.0, 1.0);
        if self.relus(&rounded(exceeds)) <= self.budget {
            return rounded(exceeds);
        }
        for _ in 0..HALVINGS {
            let middle = (fits + exceeds) / 2.0;
            let is_within = self.relus(&rounded(middle)) <= self.budget;
            *(if is_within { &mut fits } else { &mut exceeds }) = middle;
        }
        let mut counts = rounded(fits);
        let lost: Vec<f64> =
            exact(exceeds).zip(&counts).map(|(exact, count)| exact - *count as f64).collect();
        let mut order: Vec<usize> = (0..counts.len()).collect();
        order.sort_by(|one, other| lost[*other].total_cmp(&lost[*one]).then(one.cmp(other)));
        loop {
            let before = counts.clone();
            for index in &order {
                let channels = &self.prunable[*index];
                let has_room = self.relus(&counts) + channels.relus_per_channel <= self.budget;
                counts[*index] += usize::from(has_room && counts[*index] < channels.channels);
            }
            if counts == before {
                return counts;
            }
        }
    }

    /// Which channels stay, in order, by the norms of their filters. Of equals the earlier one stays.
    ///
    /// # Panics
    /// If there is not a norm for each channel.
    pub fn choose(&self, ranking: Ranking, norms: &[Vec<f64>]) -> Vec<Vec<usize>> {
        let mut kept = match ranking {
            Ranking::Layers => {
                let largest = |(norms, count): (&Vec<f64>, usize)| {
                    let mut order: Vec<usize> = (0..norms.len()).collect();
                    order.sort_by(|one, other| norms[*other].total_cmp(&norms[*one]).then(one.cmp(other)));
                    order.truncate(count);
                    order
                };
                norms.iter().zip(self.counts()).map(largest).collect()
            }
            Ranking::Network => self.choose_among_all(norms),
        };
        kept.iter_mut().for_each(|kept: &mut Vec<usize>| kept.sort_unstable());
        kept
    }

    /// The smallest of all go until the budget is met; the last channel of a layer stays. What went too far comes back, largest
    /// first, as far as there is room.
    fn choose_among_all(&self, norms: &[Vec<f64>]) -> Vec<Vec<usize>> {
        let relative = |norms: &Vec<f64>| -> Vec<f64> {
            let mean = norms.iter().sum::<f64>() / norms.len() as f64;
            norms.iter().map(|norm| if mean > 0.0 { norm / mean } else { 0.0 }).collect()
        };
        let worth: Vec<Vec<f64>> = norms.iter().map(relative).collect();
        let all = worth.iter().enumerate();
        let mut order: Vec<(usize, usize)> =
            all.flat_map(|(layer, worth)| (0..worth.len()).map(move |channel| (layer, channel))).collect();
        // Of equals the later one goes first.
        order.sort_by(|one, other| {
            worth[one.0][one.1].total_cmp(&worth[other.0][other.1]).then(other.cmp(one))
        });
        let mut kept: Vec<Vec<usize>> = worth.iter().map(|worth| (0..worth.len()).collect()).collect();
        let mut relus = self.relus(&kept.iter().map(Vec::len).collect::<Vec<_>>());
        let mut gone = Vec::new();
        for (layer, channel) in order {
            if relus <= self.budget {
                break;
            }
            if kept[layer].len() > 1 {
                kept[layer].retain(|other| *other != channel);
                relus -= self.prunable[layer].relus_per_channel;
                gone.push((layer, channel));
            }
        }
        for (layer, channel) in gone.into_iter().rev() {
            if relus + self.prunable[layer].relus_per_channel <= self.budget {
                kept[layer].push(channel);
                relus += self.prunable[layer].relus_per_channel;
            }
        }
        kept
    }

    /// The network with so many channels of each, as a recipe writes it.
    ///
    /// # Errors
    /// When the network of the recipe cannot be built.
    ///
    /// # Panics
    /// If there is not a count for each.
    pub fn planned(
        &self,
        network: &NetworkSection,
        spec: &NetworkSpec,
        counts: &[usize],
    ) -> Result<PlannedNetwork, OptimizeError> {
        assert_eq!(counts.len(), self.prunable.len(), "there is a count for each");
        let smaller =
            self.prunable.iter().zip(counts).filter(|(channels, count)| **count < channels.channels);
        let mut reduction = network.reduction();
        reduction.keep_channels.extend(smaller.map(|(channels, count)| (channels.name.clone(), *count)));
        let draft = spec.draft();
        let whole = NetworkSection::named(&network.name).build(draft.input, draft.classes)?;
        PlannedNetwork::new(&network.name, reduction, &whole)
    }
}

/// Enough to tell apart the parts of any number of channels.
const HALVINGS: u32 = 50;

/// How far pruning the residual stream would go, where that helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHint(Option<u64>);

impl fmt::Display for StreamHint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(least) => write!(
                formatter,
                "; with --stream (optimize.stream in a recipe) channels of the residual stream go, too, down to {least} ReLUs"
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
