//! Every byte and round of an inference, predicted from the plan alone.

use crypto::he::{Halves, LinearAnswer, LinearRequest, SecondHalves};
use crypto::ot::Depth;
use network::cost::Counts;
use network::walk::StepId;

use super::{Plan, PlannedMessage};
use crate::transcript::{Phase, Traffic};

/// What one session and one inference will send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedTraffic {
    /// Once per connection.
    pub set_up: Traffic,
    /// Before the image is known, for the first inference of a client that has no second halves of the model's answers.
    pub offline: Traffic,
    /// The same for the first inference of a session with a client that has them.
    pub returning_offline: Traffic,
    /// The same for every further one.
    pub later_offline: Traffic,
    /// After.
    pub online: Traffic,
}

/// What one step of the outline costs, both directions together, headers of the frames left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTraffic {
    /// The step.
    pub step: StepId,
    /// Its name.
    pub name: String,
    /// Comparisons: ReLUs, shared signs, or windows of maxima.
    pub relus: u64,
    /// Values that follow the sign of another one.
    pub gated_values: u64,
    /// Positions truncated without one.
    pub linearized: u64,
    /// Ciphertexts, offline, for the first inference of a client; keys left out.
    pub homomorphic: u64,
    /// Of them, those that further ones do without.
    pub second_halves: u64,
    /// Tables, labels chosen and truncation offers, offline.
    pub nonlinear_offline: u64,
    /// Labels, replies and truncations, online.
    pub online: u64,
    /// Of the bytes above, those for positions without ReLU.
    pub truncation: u64,
}

impl LayerTraffic {
    /// What it compares and gates.
    pub fn counts(&self) -> Counts {
        Counts { comparisons: self.relus, gated_values: self.gated_values }
    }
}

impl PlannedTraffic {
    /// What so many inferences prepared in one session send before their images are known.
    pub fn offline_of(&self, inferences: u64) -> Traffic {
        let further = inferences.saturating_sub(1);
        let sum = |first: u64, later: u64| if inferences == 0 { 0 } else { first + further * later };
        Traffic {
            bytes_up: sum(self.offline.bytes_up, self.later_offline.bytes_up),
            bytes_down: sum(self.offline.bytes_down, self.later_offline.bytes_down),
            rounds: sum(self.offline.rounds, self.later_offline.rounds),
        }
    }
}

impl Plan {
    /// What each step with messages costs, in order, with transfers of this depth.
    pub fn layers(&self, depth: Depth) -> Vec<LayerTraffic> {
        let mut layers: Vec<LayerTraffic> = Vec::new();
        for job in &self.linear {
            let answer = LinearAnswer::length(&job.layout, Halves::Both);
            layers.push(LayerTraffic {
                homomorphic: (LinearRequest::length(&job.layout) + answer) as u64,
                second_halves: SecondHalves::length(&job.layout) as u64,
                ..self.empty_layer(job.step)
            });
        }
        for planned in &self.parts {
            let Some(step) = planned.step else { continue };
            if layers.last().is_none_or(|layer| layer.step != step) {
                layers.push(self.empty_layer(step));
            }
            let layer = layers.last_mut().expect("one was pushed");
            let (counts, bytes) = (planned.part.counts(), planned.part.bytes());
            let transfers = planned.part.transfer_count() + planned.part.reverse_count();
            let offline = (bytes.offer + bytes.advance + depth.trees() / 8 * transfers) as u64;
            let online = (bytes.opening + bytes.reply) as u64;
            layer.relus += counts.relus as u64;
            layer.gated_values += counts.gated as u64;
            layer.linearized += counts.linearized as u64;
            layer.nonlinear_offline += offline;
            layer.online += online;
            if counts.linearized > 0 {
                layer.truncation += offline + online;
            }
        }
        layers.sort_by_key(|layer| layer.step);
        layers
    }

    fn empty_layer(&self, step: StepId) -> LayerTraffic {
        LayerTraffic {
            step,
            name: self.outline.step(step).name.clone(),
            relus: 0,
            gated_values: 0,
            linearized: 0,
            homomorphic: 0,
            second_halves: 0,
            nonlinear_offline: 0,
            online: 0,
            truncation: 0,
        }
    }

    /// Predicts the traffic, headers of the frames included, with transfers of this depth.
    pub fn traffic(&self, depth: Depth) -> PlannedTraffic {
        // Every request asks, and the sum goes over every message.
        *self.traffic[depth as usize].get_or_init(|| self.summed_traffic(depth))
    }

    fn summed_traffic(&self, depth: Depth) -> PlannedTraffic {
        let (messages, returning) = (self.messages(depth), self.returning_messages(depth));
        let further = self.further_messages(depth);
        let of = |messages: &[PlannedMessage], phase| {
            let mut traffic = Traffic::default();
            let mut last = None;
            for message in messages.iter().filter(|message| message.phase == phase) {
                let bytes = message.framed_bytes() as u64;
                if message.is_upward {
                    traffic.bytes_up += bytes;
                } else {
                    traffic.bytes_down += bytes;
                }
                traffic.rounds += u64::from(last != Some(message.is_upward));
                last = Some(message.is_upward);
            }
            traffic
        };
        PlannedTraffic {
            set_up: of(&messages, Phase::SetUp),
            offline: of(&messages, Phase::Offline),
            returning_offline: of(&returning, Phase::Offline),
            later_offline: of(&further, Phase::Offline),
            online: of(&messages, Phase::Online),
        }
    }
}
