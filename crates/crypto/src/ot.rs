//! Oblivious transfer: how the client gets the wire labels of its bits while the server stays unaware of it.
//!
//! 128 transfers on Ristretto ([`base`]) are extended to any number at four bytes each by SoftSpokenOT (Roy,
//! CRYPTO 2022, section 3; [`extension`]). Their labels are correlated: the two of a transfer differ
//! by one secret offset of the server, which is the free-XOR offset of its garbled circuits, so the outcome
//! of a transfer *is* the wire label and nothing more is sent. Where independent messages are wanted, a hash
//! breaks the correlation ([`chosen`], [`random`]).
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
//!      holds T_j                                             holds Q_j = T_j xor b_j D
//!
//!   only for chosen messages or bits
//!                               <-----------------------     PaddedMessages or PaddedBits
//! ```
//!
//! Neither party needs to follow the protocol. What is promised, and what callers must keep, stands in
//! `docs/src/security/oblivious-transfer.md`.

pub mod base;
pub mod chosen;
pub mod error;
pub mod extension;
pub mod ideal;
mod kernel;
mod pad;
pub mod random;
#[doc(hidden)]
pub mod stages;
mod tree;
pub mod values;

pub use tree::TreeSums;

#[cfg(test)]
mod tests {
    use super::base::{ReceiverPoints, SenderPoint};
    use super::extension::{Corrections, CorrelatedReceiver, CorrelatedSender, ReceiverSetup, SenderSetup};
    use super::values::{CorrelationOffset, SecretBits};
    use super::*;
    use crate::random::{Generator, Seed, SessionId};

    fn generator(seed: u8) -> Generator {
        Seed::from_bytes([seed; 32]).generator()
    }

    /// The whole setup through bytes, with the session ids that each side believes in.
    fn set_up(client: SessionId, server: SessionId) -> (CorrelatedReceiver, CorrelatedSender) {
        let (mut client_generator, mut server_generator) = (generator(1), generator(2));
        let (offer, receiver) = ReceiverSetup::start(client, &mut client_generator);
        let offer = SenderPoint::from_bytes(&offer.to_bytes()).unwrap();
        let offset = CorrelationOffset::random(&mut server_generator);
        let (answer, sender) = SenderSetup::start(server, offset, &offer, &mut server_generator);
        let answer = ReceiverPoints::from_bytes(&answer.to_bytes()).unwrap();
        let (sums, receiver) = receiver.finish(&answer, &mut client_generator).unwrap();
        let sums = TreeSums::from_bytes(&sums.to_bytes()).unwrap();
        (receiver, sender.finish(&sums))
    }

    #[test]
    fn from_points_to_labels_the_offset_separates_the_two_choices() {
        let (mut receiver, mut sender) = set_up(SessionId([5; 32]), SessionId([5; 32]));
        for count in [1, 127, 128, 129, 1000, 10_000] {
            let (message, chosen) = receiver.extend(SecretBits::random(count, &mut generator(3))).unwrap();
            let message = Corrections::from_bytes(count, message.to_bytes()).unwrap();
            let zero = sender.extend(&message).unwrap();
            for index in 0..count {
                let (zero, chosen_label) = (zero.labels()[index], chosen.labels()[index]);
                let choice = chosen.choices().bit(index);
                assert_eq!(chosen_label, zero ^ (sender.offset().expose() * u128::from(choice)));
                assert_eq!((zero ^ chosen_label) as u8 & 1, choice, "colors differ exactly when labels do");
            }
        }
    }

    #[test]
    fn sides_of_different_sessions_share_nothing() {
        let (mut receiver, mut sender) = set_up(SessionId([5; 32]), SessionId([6; 32]));
        let (message, chosen) = receiver.extend(SecretBits::random(1000, &mut generator(3))).unwrap();
        let zero = sender.extend(&message).unwrap();
        let offset = sender.offset().expose();
        for (zero, chosen) in zero.labels().iter().zip(chosen.labels()) {
            assert!(zero != chosen && zero ^ chosen != offset);
        }
    }
}
