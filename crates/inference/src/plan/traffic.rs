//! Every byte and round of an inference, predicted from the plan alone.

use crypto::he::{LinearAnswer, LinearRequest, PublicKey};
use crypto::ot::TreeSums;
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ring::RingWidth;

use super::{Part, Plan, Reveal};
use crate::labels::correction_bytes;
use crate::setup::HELLO_BYTES;
use crate::transcript::Traffic;

/// What one session and one inference will send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedTraffic {
    /// Once per connection.
    pub set_up: Traffic,
    /// Before the image is known.
    pub offline: Traffic,
    /// After.
    pub online: Traffic,
}

/// What one step of the outline costs, both directions together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerTraffic {
    /// The step.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// ReLUs (or maxima) evaluated in circuits.
    pub relus: u64,
    /// Positions truncated without one.
    pub linearized: u64,
    /// Ciphertexts, offline.
    pub homomorphic: u64,
    /// Tables, labels chosen and truncation offers, offline.
    pub nonlinear_offline: u64,
    /// Labels, replies and truncations, online.
    pub online: u64,
    /// Of the bytes above, those for positions without ReLU.
    pub truncation: u64,
}

impl Plan {
    /// What each step with messages costs, in order.
    pub fn layers(&self) -> Vec<LayerTraffic> {
        let mut layers: Vec<LayerTraffic> = Vec::new();
        for job in &self.linear {
            let homomorphic = LinearRequest::length(&job.layout) + LinearAnswer::length(&job.layout);
            layers.push(LayerTraffic { homomorphic: homomorphic as u64, ..self.empty_layer(job.step) });
        }
        for job in self.rounds.iter().flatten() {
            let mut layer = self.empty_layer(job.step);
            for part in &job.parts {
                let corrections = 4 * part.transfer_count();
                match part {
                    Part::Garbled(part) => {
                        layer.relus += part.layer.instances() as u64;
                        layer.nonlinear_offline += (part.layer.table_bytes() + corrections) as u64;
                        layer.online += (part.layer.label_bytes() + part.layer.reply_bytes()) as u64;
                    }
                    Part::Truncated(part) => {
                        let offline = (part.offer_bytes() + corrections) as u64;
                        let online = (part.opening_bytes() + part.reply_bytes()) as u64;
                        layer.linearized += part.count() as u64;
                        layer.nonlinear_offline += offline;
                        layer.online += online;
                        layer.truncation += offline + online;
                    }
                }
            }
            layers.push(layer);
        }
        layers.sort_by_key(|layer| layer.step);
        layers
    }

    fn empty_layer(&self, step: usize) -> LayerTraffic {
        LayerTraffic {
            step,
            name: self.outline.steps[step].name.clone(),
            relus: 0,
            linearized: 0,
            homomorphic: 0,
            nonlinear_offline: 0,
            online: 0,
            truncation: 0,
        }
    }

    /// Predicts the traffic.
    pub fn traffic(&self) -> PlannedTraffic {
        PlannedTraffic {
            set_up: self.set_up_traffic(),
            offline: self.offline_traffic(),
            online: self.online_traffic(),
        }
    }

    fn set_up_traffic(&self) -> Traffic {
        let keys: usize = self.parameters.iter().map(PublicKey::length).sum();
        let outline = self.outline.to_bytes().len();
        Traffic {
            bytes_up: (HELLO_BYTES + keys + SenderPoint::BYTES + TreeSums::BYTES) as u64,
            bytes_down: (HELLO_BYTES + 1 + 8 + outline + ReceiverPoints::BYTES) as u64,
            rounds: 5,
        }
    }

    fn offline_traffic(&self) -> Traffic {
        let requests: usize = self.linear.iter().map(|job| LinearRequest::length(&job.layout)).sum();
        let answers: usize = self.linear.iter().map(|job| LinearAnswer::length(&job.layout)).sum();
        let offered: usize = self
            .parts()
            .map(|part| match part {
                Part::Garbled(part) => part.layer.table_bytes(),
                Part::Truncated(part) => part.offer_bytes(),
            })
            .sum();
        let argmax = self.argmax.as_ref().map_or(0, |part| part.layer.table_bytes());
        let transfers = self.transfer_count();
        let exchanges = self.flight_count() + usize::from(transfers > 0);
        Traffic {
            bytes_up: (requests + correction_bytes(transfers)) as u64,
            bytes_down: (answers + if transfers > 0 { 16 } else { 0 } + offered + argmax) as u64,
            rounds: 2 * exchanges as u64,
        }
    }

    fn online_traffic(&self) -> Traffic {
        let outline = &self.outline;
        let image = packed(self.outline.image_ring_bits, outline.input.scalars() as usize);
        let sum = |of: fn(&Part) -> usize| self.parts().map(of).sum::<usize>();
        let down = sum(|part| match part {
            Part::Garbled(part) => part.layer.label_bytes(),
            Part::Truncated(part) => part.opening_bytes(),
        });
        let up = sum(|part| match part {
            Part::Garbled(part) => part.layer.reply_bytes(),
            Part::Truncated(part) => part.reply_bytes(),
        });
        let answer = match (self.reveal, &self.argmax) {
            (Reveal::Class, Some(part)) => part.layer.label_bytes(),
            _ => packed(outline.ring_bits(outline.output()) - outline.logit_drop, outline.classes),
        };
        Traffic {
            bytes_up: (image + up) as u64,
            bytes_down: (down + answer) as u64,
            rounds: 2 + 2 * self.rounds.len() as u64,
        }
    }
}

pub(super) fn packed(bits: u32, count: usize) -> usize {
    RingWidth::new(bits).ok().and_then(|width| width.packed_bytes(count)).unwrap_or(0)
}
