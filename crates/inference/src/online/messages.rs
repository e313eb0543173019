//! The messages after the image is known.

use crate::conversation::Planned;
use crate::plan::{PartId, Plan};
use crate::stored::packed_bytes;
use crate::transcript::Kind;

/// What the client says after the image is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientWords {
    /// The blinded image.
    Image,
    /// What it makes of an opening.
    Reply(PartId),
}

/// What the server says after the image is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerWords {
    /// What the client needs of its share at a nonlinear part.
    Opening(PartId),
    /// Its share of the logits.
    Logits,
}

/// All of them, in order.
pub(crate) fn list(plan: &Plan) -> Vec<Planned<ClientWords, ServerWords>> {
    let outline = plan.outline();
    let (image, logits) = (outline.input.scalars() as usize, outline.classes);
    let image = packed_bytes(plan.image_width(), image);
    let mut list = vec![Planned::up(ClientWords::Image, Kind::Values, image)];
    let opening = |id: PartId| {
        let part = &plan.part(id).part;
        Planned::down(ServerWords::Opening(id), part.kind(), part.bytes().opening)
    };
    let reply = |id: PartId| {
        let part = &plan.part(id).part;
        Planned::up(ClientWords::Reply(id), part.kind(), part.bytes().reply)
    };
    for parts in plan.rounds() {
        list.extend(parts.clone().map(opening));
        list.extend(parts.map(reply));
    }
    list.push(match plan.argmax() {
        Some(argmax) => opening(argmax),
        None => Planned::down(ServerWords::Logits, Kind::Values, packed_bytes(plan.answer_width(), logits)),
    });
    list
}
