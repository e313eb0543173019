//! The messages after the image is known.

use crate::conversation::Planned;
use crate::plan::{PartId, Plan};
use crate::stored::packed_bytes;
use crate::transcript::Kind;

/// One message after the image is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnlineMessage {
    /// The blinded image.
    Image,
    /// What the server says of its share at a nonlinear part.
    Opening(PartId),
    /// What the client makes of it.
    Reply(PartId),
    /// The server's share of the logits.
    Logits,
}

/// All of them, in order.
pub(crate) fn list(plan: &Plan) -> Vec<Planned<OnlineMessage>> {
    let outline = plan.outline();
    let (image, logits) = (outline.input.scalars() as usize, outline.classes);
    let image = packed_bytes(plan.image_width(), image);
    let mut list = vec![Planned::up(OnlineMessage::Image, Kind::Values, image)];
    let opening = |id: PartId| {
        let part = &plan.part(id).part;
        Planned::down(OnlineMessage::Opening(id), part.kind(), part.bytes().opening)
    };
    let reply = |id: PartId| {
        let part = &plan.part(id).part;
        Planned::up(OnlineMessage::Reply(id), part.kind(), part.bytes().reply)
    };
    for parts in plan.rounds() {
        list.extend(parts.clone().map(opening));
        list.extend(parts.map(reply));
    }
    list.push(match plan.argmax() {
        Some(argmax) => opening(argmax),
        None => Planned::down(OnlineMessage::Logits, Kind::Values, packed_bytes(plan.answer_width(), logits)),
    });
    list
}
