//! The messages before the image is known.

use crypto::he::{Halves, LinearAnswer, LinearRequest, PublicKey};
use crypto::ot::{Depth, TreeSums};

use crate::conversation::Planned;
use crate::labels::correction_bytes;
use crate::plan::{JobId, PartId, Plan};
use crate::transcript::Kind;

/// Bytes of the key of the gate hash.
const HASH_KEY_BYTES: usize = 16;

/// What the client says before the image is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientWords {
    /// Its public key of this inference for the ring with this number.
    PublicKey(usize),
    /// Its encrypted share of what a layer reads.
    Request(JobId),
    /// What makes its labels those of its bits.
    Corrections,
    /// The key of the hash where the server chooses.
    ReverseKey,
    /// What it says to an offer.
    Advance(PartId),
}

/// What the server says before the image is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerWords {
    /// The client's encrypted share of what a layer makes.
    Answer(JobId),
    /// The sums of the trees in which the server chooses, once per session.
    ReverseSums,
    /// What makes the server's labels those of its coins.
    ReverseCorrections,
    /// The key of the gate hash.
    HashKey,
    /// Tables or whatever else a nonlinear part needs.
    Offer(PartId),
}

/// What an inference brings that later ones use too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Once {
    /// Second halves of answers, for a client that has none.
    pub(crate) halves: Halves,
    /// What the transfers of the other direction begin with, in every session's first.
    pub(crate) sums: bool,
}

impl Once {
    /// The first inference of a session with a client that has the second halves, or has not.
    pub(crate) fn first(has_halves: bool) -> Self {
        Self { halves: if has_halves { Halves::First } else { Halves::Both }, sums: true }
    }
}

/// A further inference: it brings nothing for others.
impl Default for Once {
    fn default() -> Self {
        Self { halves: Halves::First, sums: false }
    }
}

/// All of them, in order.
pub(crate) fn list(plan: &Plan, depth: Depth, once: Once) -> Vec<Planned<ClientWords, ServerWords>> {
    let key = |(ring, parameters)| {
        Planned::up(ClientWords::PublicKey(ring), Kind::Homomorphic, PublicKey::length(parameters))
    };
    let mut list: Vec<_> = plan.parameters().iter().enumerate().map(key).collect();
    for flight in &plan.schedule().flights[1..] {
        let jobs = || flight.weighted.iter().map(|step| plan.job_at(*step));
        list.extend(jobs().map(|id| {
            Planned::up(
                ClientWords::Request(id),
                Kind::Homomorphic,
                LinearRequest::length(&plan.job(id).layout),
            )
        }));
        list.extend(jobs().map(|id| {
            Planned::down(
                ServerWords::Answer(id),
                Kind::Homomorphic,
                LinearAnswer::length(&plan.job(id).layout, once.halves),
            )
        }));
    }
    let transfers = plan.transfer_count();
    if transfers > 0 {
        list.push(Planned::up(ClientWords::Corrections, Kind::Transfer, correction_bytes(transfers, depth)));
        let reverse = plan.reverse_count();
        if reverse > 0 && once.sums {
            list.push(Planned::down(ServerWords::ReverseSums, Kind::Transfer, TreeSums::BYTES));
        }
        if reverse > 0 {
            let bytes = correction_bytes(reverse, depth);
            list.push(Planned::down(ServerWords::ReverseCorrections, Kind::Transfer, bytes));
        }
        list.push(Planned::down(ServerWords::HashKey, Kind::Garbled, HASH_KEY_BYTES));
        list.extend(plan.parts().iter().enumerate().map(|(index, planned)| {
            let part = &planned.part;
            Planned::down(ServerWords::Offer(PartId(index)), part.kind(), part.bytes().offer)
        }));
        if reverse > 0 {
            list.push(Planned::up(ClientWords::ReverseKey, Kind::Gates, HASH_KEY_BYTES));
        }
        let advancing =
            plan.parts().iter().enumerate().filter(|(_, planned)| planned.part.bytes().advance > 0);
        list.extend(advancing.map(|(index, planned)| {
            let part = &planned.part;
            Planned::up(ClientWords::Advance(PartId(index)), part.kind(), part.bytes().advance)
        }));
    }
    list
}
