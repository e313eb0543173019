//! The messages before the image is known.

use crypto::he::{LinearAnswer, LinearRequest};

use crate::conversation::Planned;
use crate::labels::correction_bytes;
use crate::plan::{JobId, PartId, Plan};
use crate::transcript::Kind;

/// Bytes of the key of the gate hash.
const HASH_KEY_BYTES: usize = 16;

/// One message before the image is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OfflineMessage {
    /// The client's encrypted share of what a layer reads.
    Request(JobId),
    /// Its encrypted share of what the layer makes.
    Answer(JobId),
    /// What makes the client's labels those of its bits.
    Corrections,
    /// The key of the gate hash.
    HashKey,
    /// Tables or whatever else a nonlinear part needs.
    Offer(PartId),
}

/// All of them, in order.
pub(crate) fn list(plan: &Plan) -> Vec<Planned<OfflineMessage>> {
    let mut list = Vec::new();
    for flight in &plan.schedule().flights[1..] {
        let jobs = || flight.weighted.iter().map(|step| plan.job_at(*step));
        list.extend(jobs().map(|id| {
            Planned::up(
                OfflineMessage::Request(id),
                Kind::Homomorphic,
                LinearRequest::length(&plan.job(id).layout),
            )
        }));
        list.extend(jobs().map(|id| {
            Planned::down(
                OfflineMessage::Answer(id),
                Kind::Homomorphic,
                LinearAnswer::length(&plan.job(id).layout),
            )
        }));
    }
    let transfers = plan.transfer_count();
    if transfers > 0 {
        list.push(Planned::up(OfflineMessage::Corrections, Kind::Transfer, correction_bytes(transfers)));
        list.push(Planned::down(OfflineMessage::HashKey, Kind::Garbled, HASH_KEY_BYTES));
        list.extend(plan.parts().iter().enumerate().map(|(index, planned)| {
            let part = &planned.part;
            Planned::down(OfflineMessage::Offer(PartId(index)), part.kind(), part.bytes().offer)
        }));
    }
    list
}
