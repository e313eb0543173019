//! The one schedule: which steps are local, which wait for messages, and for which.
//!
//! Online, the image has depth 0, a linear step is as deep as its deepest input, and an interactive one is one deeper.
//! All interactive steps of one depth need only values of lesser depth, so their messages share a *round* trip.
//!
//! Offline, the client follows its own shares. It draws those of the image and of what interactive steps make, so these
//! are there at once; the share of what a layer with secret weights makes comes back encrypted. Layers whose inputs are
//! known after the same number of answers share a *flight*.
//!
//! Freezing, planning and both parties read this list and look at no step twice.

use super::{ModelOperation, ModelOutline};
use crate::walk::{StepId, ValueId};

/// What the parties need for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationRole {
    /// Nothing: each computes it on its own shares.
    Local,
    /// An answer under encryption, offline; online it is local, too.
    Weighted,
    /// A round trip.
    Interactive,
}

impl OperationRole {
    /// How many round trips lie before what such a step makes, if so many lie before its latest input.
    pub const fn depth_after(self, inputs: usize) -> usize {
        match self {
            Self::Local | Self::Weighted => inputs,
            Self::Interactive => inputs + 1,
        }
    }

    /// How many answers lie before the client's share of what such a step makes.
    const fn answers_after(self, inputs: usize) -> usize {
        match self {
            Self::Local => inputs,
            Self::Weighted => inputs + 1,
            Self::Interactive => 0,
        }
    }
}

impl ModelOperation {
    /// What the parties need for it.
    pub const fn role(&self) -> OperationRole {
        match self {
            Self::Linear { .. } => OperationRole::Weighted,
            Self::Activate { .. } | Self::Gate(_) | Self::Maximum { .. } => OperationRole::Interactive,
            Self::Add { .. }
            | Self::Concat { .. }
            | Self::Slice { .. }
            | Self::DropFirstRowAndColumn
            | Self::SumPool(_)
            | Self::GlobalSum
            | Self::ScalePixels { .. } => OperationRole::Local,
        }
    }

    /// Whether it needs a round trip.
    pub const fn is_interactive(&self) -> bool {
        matches!(self.role(), OperationRole::Interactive)
    }
}

/// When each step of one inference is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Online. The first waits for the image alone, each other one for a round trip.
    pub rounds: Vec<Round>,
    /// Offline, at the client. The first waits for nothing, each other one for answers.
    pub flights: Vec<Flight>,
}

/// What happens between two round trips, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Steps whose messages share the trip that comes first.
    pub interactive: Vec<StepId>,
    /// Steps that follow on each party's shares, those with weights among them.
    pub local: Vec<StepId>,
}

/// What happens between two flights of ciphertexts, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Layers with secret weights whose requests and answers travel together first.
    pub weighted: Vec<StepId>,
    /// Steps that follow on the client's shares.
    pub local: Vec<StepId>,
}

impl Schedule {
    /// How many round trips there are, the answer's last message left out.
    pub fn round_trips(&self) -> usize {
        self.rounds.len() - 1
    }
}

impl ModelOutline {
    /// When each step is done.
    ///
    /// # Panics
    /// If the outline was not checked.
    pub fn schedule(&self) -> Schedule {
        let mut schedule = Schedule { rounds: vec![Round::default()], flights: vec![Flight::default()] };
        let (mut depths, mut answers) = (vec![0], vec![0]);
        for (id, step) in self.numbered_steps() {
            let role = step.operation.role();
            let depth = role.depth_after(latest(&depths, &step.inputs));
            let answer = role.answers_after(latest(&answers, &step.inputs));
            depths.push(depth);
            answers.push(answer);
            let round = entry(&mut schedule.rounds, depth);
            match role {
                OperationRole::Interactive => round.interactive.push(id),
                OperationRole::Weighted | OperationRole::Local => round.local.push(id),
            }
            match role {
                OperationRole::Interactive => {}
                OperationRole::Weighted => entry(&mut schedule.flights, answer).weighted.push(id),
                OperationRole::Local => entry(&mut schedule.flights, answer).local.push(id),
            }
        }
        schedule
    }
}

fn latest(known: &[usize], inputs: &[ValueId]) -> usize {
    inputs.iter().map(|value| known[value.0]).max().unwrap_or(0)
}

fn entry<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freeze::{FreezeOptions, freeze};
    use crate::image::Image;
    use crate::weights::FloatWeights;
    use crate::zoo;

    fn outline(name: &str) -> ModelOutline {
        let spec = zoo::build(name, 16, 10).unwrap();
        let weights = FloatWeights::random(&spec, 1);
        let images = [Image::random(spec.draft().input, 1)];
        freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0.outline().clone()
    }

    #[test]
    fn a_resnet_needs_one_round_trip_per_relu_layer() {
        let schedule = outline("resnet18:m=2").schedule();
        assert_eq!(schedule.round_trips(), 17);
        assert!(schedule.rounds[1..].iter().all(|round| round.interactive.len() == 1));
        assert_eq!(schedule.rounds[0].interactive, []);
        assert_eq!(schedule.rounds[0].local, [StepId(0)]);
    }

    #[test]
    fn relus_that_wait_for_nothing_new_share_a_round_trip() {
        let outline = outline("darts:c=2,d=3");
        let trips = outline.schedule().round_trips();
        let interactive = outline.steps.iter().filter(|step| step.operation.is_interactive()).count();
        assert!(trips < interactive / 2, "{trips} of {interactive}");
    }

    #[test]
    fn every_step_comes_once_and_after_what_it_reads() {
        let outline = outline("pc-darts:c=2,d=3");
        let schedule = outline.schedule();
        let mut is_known = vec![false; outline.value_count()];
        is_known[ValueId::IMAGE.0] = true;
        for round in &schedule.rounds {
            let mut follow = |steps: &[StepId], made_together: bool| {
                let known = is_known.clone();
                for &id in steps {
                    let before = if made_together { &known } else { &is_known };
                    assert!(outline.step(id).inputs.iter().all(|value| before[value.0]), "{id:?}");
                    assert!(!std::mem::replace(&mut is_known[id.output().0], true), "{id:?} is done twice");
                }
            };
            follow(&round.interactive, true);
            follow(&round.local, false);
        }
        assert!(is_known.iter().all(|known| *known));
    }

    #[test]
    fn the_client_can_ask_for_a_layer_once_the_answers_before_it_came() {
        let outline = outline("resnet18:m=2");
        let mut is_known = vec![false; outline.value_count()];
        is_known[ValueId::IMAGE.0] = true;
        for (id, _) in outline.numbered_steps().filter(|(_, step)| step.operation.is_interactive()) {
            is_known[id.output().0] = true;
        }
        let schedule = outline.schedule();
        assert!(schedule.flights[0].weighted.is_empty());
        for flight in &schedule.flights {
            for &id in &flight.weighted {
                assert!(outline.step(id).inputs.iter().all(|value| is_known[value.0]), "{id:?}");
            }
            for &id in flight.weighted.iter().chain(&flight.local) {
                assert!(outline.step(id).inputs.iter().all(|value| is_known[value.0]), "{id:?}");
                assert!(!std::mem::replace(&mut is_known[id.output().0], true), "{id:?} is done twice");
            }
        }
        assert!(is_known.iter().all(|known| *known));
    }
}
