//! Chosen-message transfers on top of correlated ones: byte strings of one width, or single bits.
//!
//! Ishai, Kilian, Nissim and Petrank, CRYPTO 2003, section 3. Both labels of a transfer are hashed to pads
//! ([`super`]'s re-keyed cipher); the receiver can make one of the two.
//!
//! ```text
//!   sender: Q_j, offset D, messages m0_j, m1_j                     receiver: T_j, choice b_j
//!      m0_j xor H(j, Q_j),  m1_j xor H(j, Q_j xor D)   ------>     mb_j = message b_j xor H(j, T_j)
//! ```
//!
//! Bytes on the wire, besides those of the correlated transfer: twice the width, or two bits.

use std::num::NonZeroU16;

use zeroize::Zeroizing;

use crate::domain;
use crate::ot::error::{OtError, OtMessage};
use crate::ot::extension::{ReceiverLabels, SenderLabels};
use crate::ot::pad::{LANES, Pads};
use crate::ot::values::{SecretBits, check_count, check_length, check_padding};
use crate::secret::Secret;

/// The sender's message: both messages of every transfer under their pads.
#[derive(Clone, PartialEq, Eq)]
pub struct PaddedMessages {
    count: usize,
    width: NonZeroU16,
    /// All messages of choice 0, then all of choice 1.
    bytes: Vec<u8>,
}

impl PaddedMessages {
    /// Length on the wire.
    pub const fn byte_length(count: usize, width: NonZeroU16) -> usize {
        count.saturating_mul(2 * width.get() as usize)
    }

    /// The message as sent.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads the peer's message for `count` transfers of `width` bytes.
    ///
    /// # Errors
    /// When the length is wrong.
    pub fn from_bytes(count: usize, width: NonZeroU16, bytes: &[u8]) -> Result<Self, OtError> {
        check_length(OtMessage::PaddedMessages, Self::byte_length(count, width), bytes.len())?;
        Ok(Self { count, width, bytes: bytes.to_vec() })
    }
}

impl std::fmt::Debug for PaddedMessages {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PaddedMessages({} transfers of {} bytes)", self.count, self.width)
    }
}

/// Sends one of two strings per transfer; `zero` and `one` hold them one after the other, `width` bytes each.
///
/// # Errors
/// [`OtError::ItemCount`] when there are not as many messages as transfers.
pub fn send(
    labels: SenderLabels,
    width: NonZeroU16,
    zero: &[u8],
    one: &[u8],
) -> Result<PaddedMessages, OtError> {
    let (count, size) = (labels.labels.len(), usize::from(width.get()));
    for messages in [zero, one] {
        if messages.len() != count * size {
            return Err(OtError::ItemCount { expected: count, given: messages.len().div_ceil(size) });
        }
    }
    let pads = Pads::new(domain::OT_CHOSEN_PAD, &labels.range, size.div_ceil(16));
    let mut bytes = Vec::with_capacity(PaddedMessages::byte_length(count, width));
    for (messages, offset) in [(zero, 0), (one, labels.offset().expose())] {
        let start = bytes.len();
        bytes.extend_from_slice(messages);
        add_pads(&pads, &labels.labels, offset, size, &mut bytes[start..]);
    }
    Ok(PaddedMessages { count, width, bytes })
}

/// Opens the chosen string of every transfer: `width` bytes each, one after the other.
///
/// # Errors
/// [`OtError::ItemCount`] when the message is for another number of transfers.
pub fn receive(labels: ReceiverLabels, padded: &PaddedMessages) -> Result<Secret<Vec<u8>>, OtError> {
    check_count(labels.labels.len(), padded.count)?;
    let size = usize::from(padded.width.get());
    let (zero, one) = padded.bytes.split_at(padded.bytes.len() / 2);
    let mut chosen = Secret::new(zero.to_vec());
    let messages = chosen.expose_mut().chunks_exact_mut(size).zip(one.chunks_exact(size));
    for (index, (message, one)) in messages.enumerate() {
        let mask = labels.choices.bit(index).wrapping_neg();
        for (byte, one) in message.iter_mut().zip(one) {
            *byte ^= mask & (*byte ^ one);
        }
    }
    let pads = Pads::new(domain::OT_CHOSEN_PAD, &labels.range, size.div_ceil(16));
    add_pads(&pads, &labels.labels, 0, size, chosen.expose_mut());
    Ok(chosen)
}

/// Adds each transfer's pad to its message.
fn add_pads(pads: &Pads, labels: &[u128], offset: u128, size: usize, messages: &mut [u8]) {
    let groups = labels.chunks(LANES).zip(messages.chunks_mut(LANES * size));
    for (group, (labels, messages)) in groups.enumerate() {
        for piece in 0..size.div_ceil(16) {
            let pads = pads.group(group, piece, labels, offset);
            for (message, pad) in messages.chunks_exact_mut(size).zip(pads.iter()) {
                let place = &mut message[16 * piece..size.min(16 * (piece + 1))];
                let pad = Zeroizing::new(pad.to_le_bytes());
                place.iter_mut().zip(pad.iter()).for_each(|(byte, pad)| *byte ^= pad);
            }
        }
    }
}

/// The sender's message of chosen-bit transfers: both bits of every transfer under their pads.
#[derive(Clone, PartialEq, Eq)]
pub struct PaddedBits {
    count: usize,
    /// All bits of choice 0, then all of choice 1, each part padded to bytes.
    bytes: Vec<u8>,
}

impl PaddedBits {
    /// Length on the wire.
    pub const fn byte_length(count: usize) -> usize {
        2 * count.div_ceil(8)
    }

    /// The message as sent.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads the peer's message for `count` transfers.
    ///
    /// # Errors
    /// When the length is wrong or a bit beyond the last transfer is set.
    pub fn from_bytes(count: usize, bytes: &[u8]) -> Result<Self, OtError> {
        check_length(OtMessage::PaddedBits, Self::byte_length(count), bytes.len())?;
        let (zero, one) = bytes.split_at(bytes.len() / 2);
        check_padding(OtMessage::PaddedBits, count, zero)?;
        check_padding(OtMessage::PaddedBits, count, one)?;
        Ok(Self { count, bytes: bytes.to_vec() })
    }
}

impl std::fmt::Debug for PaddedBits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PaddedBits({} transfers)", self.count)
    }
}

/// Sends one of two bits per transfer.
///
/// # Errors
/// [`OtError::ItemCount`] when there are not as many bits as transfers.
pub fn send_bits(labels: SenderLabels, zero: &SecretBits, one: &SecretBits) -> Result<PaddedBits, OtError> {
    let count = labels.labels.len();
    check_count(count, zero.count())?;
    check_count(count, one.count())?;
    let pads = Pads::new(domain::OT_CHOSEN_BIT_PAD, &labels.range, 1);
    let mut bytes = Vec::with_capacity(PaddedBits::byte_length(count));
    for (bits, offset) in [(zero, 0), (one, labels.offset().expose())] {
        let start = bytes.len();
        bytes.extend_from_slice(bits.expose());
        add_bit_pads(&pads, &labels.labels, offset, &mut bytes[start..]);
    }
    Ok(PaddedBits { count, bytes })
}

/// Opens the chosen bit of every transfer.
///
/// # Errors
/// [`OtError::ItemCount`] when the message is for another number of transfers.
pub fn receive_bits(labels: ReceiverLabels, padded: &PaddedBits) -> Result<SecretBits, OtError> {
    let count = labels.labels.len();
    check_count(count, padded.count)?;
    let (zero, one) = padded.bytes.split_at(padded.bytes.len() / 2);
    let choices = labels.choices.expose();
    let select = |((zero, one), choices): ((&u8, &u8), &u8)| zero ^ (choices & (zero ^ one));
    let mut chosen: Vec<u8> = zero.iter().zip(one).zip(choices).map(select).collect();
    add_bit_pads(&Pads::new(domain::OT_CHOSEN_BIT_PAD, &labels.range, 1), &labels.labels, 0, &mut chosen);
    SecretBits::from_packed(count, chosen)
}

/// Adds the lowest bit of each transfer's pad to its bit.
fn add_bit_pads(pads: &Pads, labels: &[u128], offset: u128, packed: &mut [u8]) {
    for (group, (labels, packed)) in labels.chunks(LANES).zip(packed.chunks_mut(LANES / 8)).enumerate() {
        let pads = pads.group(group, 0, labels, offset);
        for (index, pad) in pads[..labels.len()].iter().enumerate() {
            packed[index / 8] ^= (*pad as u8 & 1) << (index % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::ideal;
    use crate::ot::values::CorrelationOffset;
    use crate::random::{Generator, Seed, SessionId};

    fn generator() -> Generator {
        Seed::from_bytes([8; 32]).generator()
    }

    fn labels(count: usize) -> (SenderLabels, ReceiverLabels) {
        let mut generator = generator();
        let offset = CorrelationOffset::random(&mut generator);
        let (mut sender, mut receiver) = ideal::extension(SessionId([2; 32]), offset, &mut generator);
        let (corrections, chosen) = receiver.extend(SecretBits::random(count, &mut generator)).unwrap();
        (sender.extend(&corrections).unwrap(), chosen)
    }

    fn random_bytes(generator: &mut Generator, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        generator.fill(&mut bytes);
        bytes
    }

    #[test]
    fn the_receiver_opens_the_chosen_strings_and_not_the_others() {
        let mut generator = generator();
        for (count, size) in [(1, 1), (63, 16), (64, 17), (65, 32), (1000, 5), (129, 100)] {
            let width = NonZeroU16::new(size).unwrap();
            let [zero, one] = [0; 2].map(|_| random_bytes(&mut generator, count * usize::from(size)));
            let (sender, receiver) = labels(count);
            let choices: Vec<u8> = (0..count).map(|index| receiver.choices().bit(index)).collect();
            let padded = send(sender, width, &zero, &one).unwrap();
            let padded = PaddedMessages::from_bytes(count, width, padded.to_bytes()).unwrap();
            let chosen = receive(receiver, &padded).unwrap();
            let chunk =
                |bytes: &[u8], index: usize| bytes[index * usize::from(size)..][..usize::from(size)].to_vec();
            for (index, &choice) in choices.iter().enumerate() {
                let expected = if choice == 1 { &one } else { &zero };
                assert_eq!(chunk(chosen.expose(), index), chunk(expected, index));
            }
            assert_ne!(padded.to_bytes()[..zero.len()], zero);
            assert_ne!(padded.to_bytes()[zero.len()..], one);
        }
    }

    #[test]
    fn the_receiver_opens_the_chosen_bits() {
        let mut generator = generator();
        for count in [1, 8, 63, 64, 65, 1000] {
            let [zero, one] = [0; 2].map(|_| SecretBits::random(count, &mut generator));
            let (sender, receiver) = labels(count);
            let choices: Vec<u8> = (0..count).map(|index| receiver.choices().bit(index)).collect();
            let padded = send_bits(sender, &zero, &one).unwrap();
            let padded = PaddedBits::from_bytes(count, padded.to_bytes()).unwrap();
            assert_eq!(padded.to_bytes().len(), 2 * count.div_ceil(8));
            let chosen = receive_bits(receiver, &padded).unwrap();
            for (index, &choice) in choices.iter().enumerate() {
                let expected = if choice == 1 { &one } else { &zero };
                assert_eq!(chosen.bit(index), expected.bit(index));
            }
        }
    }

    #[test]
    fn padded_messages_of_wrong_length_are_refused() {
        let width = NonZeroU16::new(3).unwrap();
        for sent in [0, 59, 61] {
            let refused = PaddedMessages::from_bytes(10, width, &vec![0; sent]).unwrap_err();
            let message = OtMessage::PaddedMessages;
            assert_eq!(refused, OtError::MessageLength { message, expected: 60, sent });
        }
        let message = OtMessage::PaddedBits;
        for sent in [0, 3, 5] {
            let refused = PaddedBits::from_bytes(10, &vec![0; sent]).unwrap_err();
            assert_eq!(refused, OtError::MessageLength { message, expected: 4, sent });
        }
        for bytes in [[0, 4, 0, 0], [0, 0, 0, 4]] {
            let refused = PaddedBits::from_bytes(10, &bytes).unwrap_err();
            assert_eq!(refused, OtError::PaddingBits { message, transfers: 10 });
        }
    }

    #[test]
    fn counts_that_do_not_match_the_labels_are_refused() {
        let width = NonZeroU16::new(2).unwrap();
        let refused = send(labels(10).0, width, &[0; 20], &[0; 22]).unwrap_err();
        assert_eq!(refused, OtError::ItemCount { expected: 10, given: 11 });
        let padded = send(labels(10).0, width, &[0; 20], &[0; 20]).unwrap();
        let refused = receive(labels(9).1, &padded).unwrap_err();
        assert_eq!(refused, OtError::ItemCount { expected: 9, given: 10 });
        let [bits, more] = [10, 11].map(|count| SecretBits::random(count, &mut generator()));
        let refused = send_bits(labels(10).0, &bits, &more).unwrap_err();
        assert_eq!(refused, OtError::ItemCount { expected: 10, given: 11 });
        let padded = send_bits(labels(10).0, &bits, &bits).unwrap();
        let refused = receive_bits(labels(11).1, &padded).unwrap_err();
        assert_eq!(refused, OtError::ItemCount { expected: 11, given: 10 });
    }
}
