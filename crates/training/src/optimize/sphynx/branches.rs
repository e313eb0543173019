//! The networks among which a search of locations chooses: one for each pair of reduce cells, with weights of its own.
//!
//! All of them share the stem. A branch holds a copy of it; a step begins by taking the shared numbers, and gives them
//! back. So every branch is a network like any other, and on a GPU its steps are recorded once.
//!
//! ```text
//! weight step   batch of the first half  ─> branch ─> loss ─> gradient ─> SGD
//! score step    batch of the second half ─> branch ─> logits f, loss L;   slope = <dL/df, f>
//! companion     the same batch           ─> another branch ─> f';         slope' = <dL/df, f'>
//! ```
//!
//! A slope is how the loss changes with the branch's weight in the sum of equation 4.1; scores learn from it on the host.

use network::spec::NetworkSpec;
use recipes::method::sphynx::WeightUpdates;

use super::halves::Half;
use super::recorded::{Recordable, Recorded};
use super::state::named_memory;
use crate::assemble::{AssembleOptions, Mode, NumberKinds, TrainableNetwork};
use crate::distill::cross_entropy;
use crate::learn::{LearnError, Memory, Optimizer, shorten};
use crate::optimize::OptimizeRunError;
use crate::tensor::{Device, Kind, Tensor, guarded, no_grad, to_floats};

/// All branches and what they share.
pub(super) struct Branches {
    branches: Vec<Branch>,
    shared: Shared,
    device: Device,
}

/// One network.
struct Branch {
    network: TrainableNetwork,
    memory: Memory,
    weight_step: Recorded,
    score_step: Recorded,
    companion_step: Recorded,
}

/// What branches share.
struct Shared {
    halves: [Half; 2],
    /// The stem's parameters, statistics and velocities.
    stem: Vec<Tensor>,
    /// How the loss of the last score step changes with each logit.
    by_logits: Tensor,
    /// The slope of the last branch that ran.
    slope: Tensor,
    /// Summed loss of weight steps and of score steps.
    totals: Tensor,
    clip: f32,
}

/// A branch at work.
struct Working<'a> {
    network: &'a mut TrainableNetwork,
    memory: &'a mut Memory,
    shared: &'a mut Shared,
}

impl Branches {
    pub(super) fn new(
        specs: &[NetworkSpec],
        options: &AssembleOptions,
        updates: &WeightUpdates,
        (halves, batch): ([Half; 2], usize),
        device: Device,
    ) -> Result<Self, OptimizeRunError> {
        let sgd = Optimizer::Sgd { momentum: updates.momentum as f32, nesterov: updates.nesterov };
        let branch = |spec: &NetworkSpec| -> Result<Branch, OptimizeRunError> {
            let network = TrainableNetwork::new(spec, options, device)?;
            let memory =
                guarded(|| Memory::new(sgd, network.parameters(), updates.weight_decay as f32, true));
            Ok(Branch {
                memory: memory.map_err(LearnError::from)?,
                network,
                weight_step: Recorded::NotYet,
                score_step: Recorded::NotYet,
                companion_step: Recorded::NotYet,
            })
        };
        let branches = specs.iter().map(branch).collect::<Result<Vec<_>, _>>()?;
        let kind = options.precision.master_kind();
        let first = branches.first().expect("there is a candidate");
        let classes = first.network.classes() as i64;
        let stem = || stem(&first.network, &first.memory).iter().map(Tensor::copy).collect();
        let shared = || Shared {
            stem: no_grad(stem),
            by_logits: device.zeros(&[batch as i64, classes], kind),
            slope: device.zeros(&[1], kind),
            totals: device.zeros(&[2], Kind::Double),
            clip: updates.clip as f32,
            halves,
        };
        let shared = guarded(shared).map_err(LearnError::from)?;
        Ok(Self { branches, shared, device })
    }

    /// Whole batches in an epoch.
    pub(super) fn steps(&self) -> u64 {
        self.shared.halves[0].steps()
    }

    pub(super) fn begin_epoch(&mut self, epoch: u32, rate: f64) -> Result<(), LearnError> {
        Ok(guarded(|| {
            let [weights, scores] = &mut self.shared.halves;
            weights.begin_epoch(epoch.into(), rate);
            scores.begin_epoch(epoch.into(), 0.0);
            let _ = self.shared.totals.zero_();
        })?)
    }

    /// The mean losses of an epoch's steps: of weights and of scores.
    pub(super) fn losses(&self) -> Result<[f64; 2], LearnError> {
        let totals = guarded(|| to_floats(&self.shared.totals))?;
        Ok([0, 1].map(|index| f64::from(totals[index]) / self.steps() as f64))
    }

    /// A branch learns from the next batch.
    pub(super) fn learn(&mut self, index: usize) -> Result<(), LearnError> {
        let (branch, shared) = (&mut self.branches[index], &mut self.shared);
        let Branch { network, memory, weight_step, .. } = branch;
        weight_step.run(self.device, &mut Working { network, memory, shared }, Working::learn)
    }

    /// How the loss of the next batch changes with the weight of the branch that was drawn, and of its companions.
    pub(super) fn slopes(
        &mut self,
        drawn: usize,
        companions: &[usize],
    ) -> Result<Vec<(usize, f64)>, LearnError> {
        let mut slopes = Vec::with_capacity(1 + companions.len());
        for (position, index) in std::iter::once(&drawn).chain(companions).enumerate() {
            let (branch, shared) = (&mut self.branches[*index], &mut self.shared);
            let Branch { network, memory, score_step, companion_step, .. } = branch;
            let mut working = Working { network, memory, shared };
            match position {
                0 => score_step.run(self.device, &mut working, Working::score)?,
                _ => companion_step.run(self.device, &mut working, Working::accompany)?,
            }
            let slope = guarded(|| to_floats(&self.shared.slope))?;
            slopes.push((*index, f64::from(slope[0])));
        }
        guarded(|| no_grad(|| self.shared.halves[1].advance()))?;
        Ok(slopes)
    }

    /// Everything that a checkpoint holds as weights.
    pub(super) fn named_numbers(&self) -> Vec<(String, Tensor)> {
        let stem = self.shared.stem.iter().enumerate();
        let mut named: Vec<_> =
            stem.map(|(index, value)| (format!("stem{index}"), value.shallow_clone())).collect();
        for (index, branch) in self.branches.iter().enumerate() {
            let numbers = branch.network.named_numbers();
            named.extend(numbers.map(|(name, value)| (format!("branch{index}.{name}"), value)));
        }
        named
    }

    /// What only going on needs.
    pub(super) fn named_memory(&self) -> Vec<(String, Tensor)> {
        let memory = |(index, branch): (usize, &Branch)| {
            named_memory(&format!("branch{index}"), &branch.memory, branch.network.parameters())
        };
        self.branches.iter().enumerate().flat_map(memory).collect()
    }

    /// Reads what a checkpoint put back.
    pub(super) fn refresh(&mut self) {
        self.branches.iter_mut().for_each(|branch| branch.network.parameters_mut().refresh());
    }
}

/// The stem's numbers in a branch: parameters, statistics, velocities.
fn stem(network: &TrainableNetwork, memory: &Memory) -> Vec<Tensor> {
    let numbers = network.named_numbers().filter(|(name, _)| name.starts_with("stem."));
    let mut stem: Vec<Tensor> = numbers.map(|(_, value)| value).collect();
    for (_, row) in memory.named_rows() {
        let views = network.parameters().named_in(row).filter(|(name, _)| name.starts_with("stem."));
        stem.extend(views.map(|(_, value)| value));
    }
    stem
}

impl Working<'_> {
    fn take_stem(&mut self) {
        no_grad(|| {
            for (mut own, shared) in stem(self.network, self.memory).into_iter().zip(&self.shared.stem) {
                own.copy_(shared);
            }
            self.network.parameters_mut().refresh();
        });
    }

    fn give_stem(&mut self) {
        no_grad(|| {
            for (own, shared) in stem(self.network, self.memory).into_iter().zip(&mut self.shared.stem) {
                shared.copy_(&own);
            }
        });
    }

    fn kind(&self) -> Kind {
        self.network.options().precision.master_kind()
    }

    fn learn(&mut self) {
        self.take_stem();
        let row = no_grad(|| self.shared.halves[0].read());
        let (images, targets) = no_grad(|| self.shared.halves[0].batch(&row, self.kind()));
        let logits = self.network.forward(&images, Mode::Train { drop_path: None }).logits;
        let loss = cross_entropy(&logits, &targets.chances);
        no_grad(|| self.shared.count(0, &loss));
        let mut gradient = self.network.parameters_mut().gradient(&loss).shallow_clone();
        drop((loss, logits));
        no_grad(|| {
            shorten(&mut gradient, self.shared.clip);
            let parameters = self.network.parameters_mut();
            self.memory.step(parameters.masters(), &gradient, &row.learning_rate);
            parameters.refresh();
        });
        self.give_stem();
        no_grad(|| self.shared.halves[0].advance());
    }

    /// The logits of the score batch; batch norms see it as they see any batch that is learned from.
    fn run(&mut self) -> (Tensor, Tensor) {
        self.take_stem();
        let row = self.shared.halves[1].read();
        let (images, targets) = self.shared.halves[1].batch(&row, self.kind());
        let logits = self.network.forward(&images, Mode::Train { drop_path: None }).logits;
        self.give_stem();
        (logits, targets.chances)
    }

    fn score(&mut self) {
        no_grad(|| {
            let (logits, chances) = self.run();
            // The gradient of the mean cross-entropy by logits.
            let by_logits = (logits.softmax(-1, self.kind()) - &chances) / logits.size()[0] as f64;
            self.shared.by_logits.copy_(&by_logits);
            self.shared.count(1, &cross_entropy(&logits, &chances));
            self.shared.set_slope(&logits);
        });
    }

    fn accompany(&mut self) {
        no_grad(|| {
            let (logits, _) = self.run();
            self.shared.set_slope(&logits);
        });
    }
}

impl Shared {
    fn set_slope(&mut self, logits: &Tensor) {
        let slope = (&self.by_logits * logits).sum(self.by_logits.kind());
        self.slope.copy_(&slope.view([1]));
    }

    fn count(&self, index: i64, loss: &Tensor) {
        let _ = self.totals.get(index).g_add_(&loss.detach().to_kind(Kind::Double));
    }
}

impl Recordable for Working<'_> {
    fn changed(&self) -> Vec<Tensor> {
        let shared = &self.shared;
        let own = [
            self.network.parameters().masters(),
            self.network.statistics(),
            self.memory.steps(),
            &shared.by_logits,
            &shared.slope,
            &shared.totals,
        ];
        let rows = self.memory.named_rows().map(|(_, row)| row);
        let own = own.into_iter().chain(rows).chain(&shared.stem).map(Tensor::shallow_clone);
        own.chain(shared.halves.iter().map(Half::position)).collect()
    }

    fn refresh(&mut self) {
        self.network.parameters_mut().refresh();
    }
}

#[cfg(test)]
mod tests {
    use super::super::halves::Half;
    use super::*;
    use network::zoo;
    use recipes::data::{SyntheticSize, synthetic};
    use recipes::recipe::Augmentation;

    fn branches() -> Branches {
        let set = synthetic(&SyntheticSize { side: 8, training: 64, test: 1, seed: 1 }).training;
        let halves = Half::both(&set, (8, Augmentation::default()), 1, Device::Cpu).unwrap();
        let specs =
            ["0+1", "0+2"].map(|pair| zoo::build(&format!("sphynx:c=2,d=3,reduce={pair}"), 8, 10).unwrap());
        let options = AssembleOptions { seed: 1, ..AssembleOptions::default() };
        let mut branches =
            Branches::new(&specs, &options, &WeightUpdates::default(), (halves, 8), Device::Cpu).unwrap();
        branches.begin_epoch(0, 0.1).unwrap();
        branches
    }

    #[test]
    fn branches_share_their_stem_and_nothing_else() {
        let mut branches = branches();
        let number = |branches: &Branches, name: &str| {
            let named = branches.named_numbers();
            to_floats(&named.iter().find(|(known, _)| known == name).unwrap().1)
        };
        let before = (
            number(&branches, "stem0"),
            number(&branches, "branch0.head.fc1.weight"),
            number(&branches, "branch1.head.fc1.weight"),
        );
        branches.learn(0).unwrap();
        assert_ne!(number(&branches, "stem0"), before.0);
        assert_ne!(number(&branches, "branch0.head.fc1.weight"), before.1);
        assert_eq!(number(&branches, "branch1.head.fc1.weight"), before.2);
        let learned = number(&branches, "stem0");
        branches.learn(1).unwrap();
        // The other branch went on from the first one's stem.
        assert_ne!(number(&branches, "branch1.head.fc1.weight"), before.2);
        assert_ne!(number(&branches, "stem0"), learned);
        assert_eq!(number(&branches, "stem0"), number(&branches, "branch1.stem.conv1.weight"));
    }

    #[test]
    fn a_slope_is_how_the_loss_changes_with_the_branchs_weight() {
        let mut branches = branches();
        // The logits of a batch, by the same path, for the same row of the tables.
        let forward = |branches: &Branches, index: usize| {
            no_grad(|| {
                let half = &branches.shared.halves[1];
                let (images, targets) = half.batch(&half.read(), Kind::Float);
                let mode = Mode::Train { drop_path: None };
                (branches.branches[index].network.forward(&images, mode).logits, targets.chances)
            })
        };
        let ((drawn, chances), (companion, _)) = (forward(&branches, 0), forward(&branches, 1));
        let loss = |weight: f64, other: f64| {
            let sum = drawn.to_kind(Kind::Double) * weight + companion.to_kind(Kind::Double) * other;
            cross_entropy(&sum, &chances.to_kind(Kind::Double)).double_value(&[])
        };
        let slopes = branches.slopes(0, &[1]).unwrap();
        let difference = |one: f64, other: f64| (one - other) / 2e-4;
        let expected = [
            difference(loss(1.0 + 1e-4, 0.0), loss(1.0 - 1e-4, 0.0)),
            difference(loss(1.0, 1e-4), loss(1.0, -1e-4)),
        ];
        for ((index, slope), expected) in slopes.into_iter().zip(expected) {
            assert!(
                (slope - expected).abs() < 1e-4 * (1.0 + expected.abs()),
                "{index}: {slope} for {expected}"
            );
        }
    }
}
