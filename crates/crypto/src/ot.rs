//! Oblivious transfer: how the client gets the wire labels of its bits while the server stays unaware of it.
//!
//! 128 transfers on Ristretto ([`base`]) are extended to any number at four bytes each, or at two ([`Depth`]), by
//! SoftSpokenOT (Roy, CRYPTO 2022, section 3; [`extension`]). Their labels are correlated: the two of a transfer differ
//! by one secret offset of the server, which is the free-XOR offset of its garbled circuits, so the outcome
//! of a transfer *is* the wire label and nothing more is sent.
//!
//! ```text
//!   client = receiver                                     server = sender, offset D with lowest bit 1
//!
//!   once per session
//!      SenderPoint      32 B    ----------------------->
//!                               <-----------------------     ReceiverPoints   4 KiB
//!      TreeSums         8 KiB   ----------------------->
//!
//!   per chunk of n transfers, choices b
//!      Corrections      4 n B + 560 B ----------------->     checked: one list of choices
//!        at depth 8     2 n B + 304 B
//!      holds T_j                                             holds Q_j = T_j xor b_j D
//! ```
//!
//! The types say sender and receiver and not server and client: where the server chooses, the client is the sender
//! with an offset of its own, both under [`SessionId::reversed`](crate::random::SessionId::reversed).
//!
//! Neither party needs to follow the protocol. What is promised, and what callers must keep, stands in
//! `docs/src/security/oblivious-transfer.md`.

pub mod base;
mod depth;
pub mod error;
pub mod extension;
#[cfg(any(test, feature = "testing"))]
pub mod ideal;
mod kernel;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod stages;
mod tree;
pub mod values;

pub use depth::Depth;
pub use tree::TreeSums;

/// Bytes that one extension holds for a session on this processor, at the depth that takes most.
pub fn most_session_bytes() -> usize {
    kernel::Engine::most_bytes()
}

#[cfg(test)]
mod tests {
    use super::base::{ReceiverPoints, SenderPoint};
    use super::error::OtError;
    use super::extension::{Corrections, CorrelatedReceiver, CorrelatedSender, ReceiverSetup, SenderSetup};
    use super::values::{CorrelationOffset, SecretBits};
    use super::*;
    use crate::random::{Generator, Seed, SessionId};

    fn generator(seed: u8) -> Generator {
        Seed::from_bytes([seed; 32]).generator()
    }

    /// The whole setup through bytes, with the session ids that each side believes in.
    fn set_up(depth: Depth, client: SessionId, server: SessionId) -> (CorrelatedReceiver, CorrelatedSender) {
        let (mut client_generator, mut server_generator) = (generator(1), generator(2));
        let (offer, receiver) = ReceiverSetup::start(client, depth, &mut client_generator);
        let offer = SenderPoint::from_bytes(&offer.to_bytes()).unwrap();
        let offset = CorrelationOffset::random(&mut server_generator);
        let (answer, sender) = SenderSetup::start(server, depth, offset, &offer, &mut server_generator);
        let answer = ReceiverPoints::from_bytes(&answer.to_bytes()).unwrap();
        let (sums, receiver) = receiver.finish(&answer, &mut client_generator).unwrap();
        let sums = TreeSums::from_bytes(&sums.to_bytes()).unwrap();
        (receiver, sender.finish(&sums))
    }

    #[test]
    fn from_points_to_labels_the_offset_separates_the_two_choices() {
        for depth in Depth::ALL {
            let (mut receiver, mut sender) = set_up(depth, SessionId([5; 32]), SessionId([5; 32]));
            assert_eq!((receiver.depth(), sender.depth()), (depth, depth));
            for count in [1, 127, 128, 129, 1000, 10_000] {
                let (message, chosen) =
                    receiver.extend(SecretBits::random(count, &mut generator(3))).unwrap();
                let message = Corrections::from_bytes(count, depth, message.to_bytes()).unwrap();
                let zero = sender.extend(&message).unwrap();
                for index in 0..count {
                    let (zero, chosen_label) = (zero.labels()[index], chosen.labels()[index]);
                    let choice = chosen.choices().bit(index);
                    assert_eq!(chosen_label, zero ^ (sender.offset().expose() * u128::from(choice)));
                    assert_eq!(
                        (zero ^ chosen_label) as u8 & 1,
                        choice,
                        "colors differ exactly when labels do"
                    );
                }
            }
        }
    }

    #[test]
    fn sides_of_different_sessions_share_nothing() {
        for depth in Depth::ALL {
            let (mut receiver, mut sender) = set_up(depth, SessionId([5; 32]), SessionId([6; 32]));
            let (message, _) = receiver.extend(SecretBits::random(1000, &mut generator(3))).unwrap();
            assert_eq!(sender.extend(&message).unwrap_err(), OtError::Inconsistent);
        }
    }

    #[test]
    fn the_two_directions_of_a_session_share_nothing() {
        for depth in Depth::ALL {
            let id = SessionId([5; 32]);
            let (mut receiver, mut sender) = set_up(depth, id, id);
            // The same randomness again: only the id tells the directions apart.
            let (mut reverse_receiver, mut reverse_sender) = set_up(depth, id.reversed(), id.reversed());
            let choices = || SecretBits::random(1000, &mut generator(3));
            let (message, chosen) = receiver.extend(choices()).unwrap();
            let (reverse_message, reverse_chosen) = reverse_receiver.extend(choices()).unwrap();
            assert!(chosen.labels().iter().all(|label| !reverse_chosen.labels().contains(label)));

            let zero = sender.extend(&message).unwrap();
            let reverse_zero = reverse_sender.extend(&reverse_message).unwrap();
            assert!(zero.labels().iter().all(|label| !reverse_zero.labels().contains(label)));
            // What belongs to one direction is refused by the other.
            let (message, _) = receiver.extend(choices()).unwrap();
            assert_eq!(reverse_sender.extend(&message).unwrap_err(), OtError::Inconsistent);
        }
    }
}
