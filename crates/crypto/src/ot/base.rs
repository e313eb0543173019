//! 128 base transfers on Ristretto, bound to the session: the only public-key step of the extension.
//!
//! Chou and Orlandi, "The Simplest Protocol for Oblivious Transfer", LATINCRYPT 2015, figure 1, for
//! semi-honest parties and with random messages: the two keys of a transfer are the output.
//!
//! ```text
//!   base sender                                        base receiver, one choice bit each
//!   a random, A = a G        ---- SenderPoint --->
//!                            <-- ReceiverPoints --     b random, B = b G  or  b G + A
//!   key 0 = H(a B)                                     key of the choice = H(b A)
//!   key 1 = H(a (B - A))
//! ```
//!
//! H hashes the session id, the number of the transfer and both points besides the shared one, so keys of
//! another session, or of another transfer, have nothing to do with these. B is uniform whatever the choice:
//! the choices are hidden from any sender. The key that was not chosen needs a a G, which is as hard as
//! Diffie-Hellman.

use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::ristretto::{CompressedRistretto, RistrettoBasepointTable, RistrettoPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity, IsIdentity};
use subtle::{Choice, ConditionallySelectable};
use zeroize::{Zeroize, Zeroizing};

use crate::domain;
use crate::ot::error::{OtError, OtMessage};
use crate::ot::values::{check_length, opaque_debug};
use crate::random::{Generator, SessionId};

/// How many base transfers a session makes: one per bit of the offset.
pub const BASE_TRANSFERS: usize = 128;

/// 32 secret bytes, the outcome of one base transfer.
pub(in crate::ot) type BaseKey = [u8; 32];

/// The first message: the base sender's point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderPoint {
    point: RistrettoPoint,
    bytes: [u8; 32],
}

impl SenderPoint {
    /// Length on the wire.
    pub const BYTES: usize = 32;

    /// The message as sent.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        self.bytes
    }

    /// Reads the peer's message.
    ///
    /// # Errors
    /// When the length is wrong, or the point is not canonical or the identity.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OtError> {
        check_length(OtMessage::SenderPoint, Self::BYTES, bytes.len())?;
        let (point, bytes) = read_point(OtMessage::SenderPoint, 0, bytes)?;
        Ok(Self { point, bytes })
    }
}

/// The second message: one point per transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverPoints(Vec<(RistrettoPoint, [u8; 32])>);

impl ReceiverPoints {
    /// Length on the wire.
    pub const BYTES: usize = 32 * BASE_TRANSFERS;

    /// The message as sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(_, bytes)| *bytes).collect()
    }

    /// Reads the peer's message.
    ///
    /// # Errors
    /// When the length is wrong, or a point is not canonical or the identity.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OtError> {
        check_length(OtMessage::ReceiverPoints, Self::BYTES, bytes.len())?;
        let read = |(index, bytes)| read_point(OtMessage::ReceiverPoints, index, bytes);
        bytes.chunks_exact(32).enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }
}

fn read_point(message: OtMessage, index: usize, bytes: &[u8]) -> Result<(RistrettoPoint, [u8; 32]), OtError> {
    let bytes: [u8; 32] = bytes.try_into().expect("the caller cuts 32 bytes");
    let point =
        CompressedRistretto(bytes).decompress().ok_or(OtError::NonCanonicalPoint { message, index })?;
    if point.is_identity() {
        return Err(OtError::IdentityPoint { message, index });
    }
    Ok((point, bytes))
}

/// The base sender between its two steps.
pub struct BaseSender {
    session: SessionId,
    scalar: Zeroizing<Scalar>,
    message: SenderPoint,
}

impl BaseSender {
    /// Draws the secret scalar and makes the first message.
    pub fn start(session: SessionId, generator: &mut Generator) -> (SenderPoint, Self) {
        let scalar = random_scalar(generator);
        let point = RISTRETTO_BASEPOINT_TABLE * &*scalar;
        let message = SenderPoint { point, bytes: point.compress().to_bytes() };
        (message.clone(), Self { session, scalar, message })
    }

    /// Makes both keys of every transfer.
    ///
    /// # Errors
    /// [`OtError::EchoedPoint`] when a point of the receiver equals the sender's own.
    pub fn finish(self, answer: &ReceiverPoints) -> Result<BaseSenderKeys, OtError> {
        // The keys of choice 1 come from a (B - A) = a B - a A; the second product is shared by all
        // transfers.
        let square = Zeroizing::new(*self.scalar * self.message.point);
        let mut pairs = Vec::with_capacity(BASE_TRANSFERS);
        for (index, (point, bytes)) in answer.0.iter().enumerate() {
            if *bytes == self.message.bytes {
                return Err(OtError::EchoedPoint { message: OtMessage::ReceiverPoints, index });
            }
            let shared = Zeroizing::new(*self.scalar * point);
            let difference = Zeroizing::new(*shared - *square);
            let points = [&self.message.bytes, bytes];
            pairs.push([&shared, &difference].map(|shared| hash_key(self.session, index, points, shared)));
        }
        Ok(BaseSenderKeys(pairs))
    }
}

/// Both keys of every base transfer, wiped on drop.
pub struct BaseSenderKeys(pub(in crate::ot) Vec<[BaseKey; 2]>);

/// The chosen key of every base transfer, wiped on drop.
pub struct BaseReceiverKeys(pub(in crate::ot) Vec<BaseKey>);

impl Drop for BaseSenderKeys {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Drop for BaseReceiverKeys {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

opaque_debug!(BaseSender, BaseSenderKeys, BaseReceiverKeys);

/// The base receiver's only step: transfer `index` chooses by bit `index` of `choices`.
pub fn receive(
    session: SessionId,
    choices: u128,
    offer: &SenderPoint,
    generator: &mut Generator,
) -> (ReceiverPoints, BaseReceiverKeys) {
    let table = RistrettoBasepointTable::create(&offer.point);
    let mut points = Vec::with_capacity(BASE_TRANSFERS);
    let mut keys = Vec::with_capacity(BASE_TRANSFERS);
    for index in 0..BASE_TRANSFERS {
        let choice = Choice::from((choices >> index) as u8 & 1);
        let (scalar, point) = draw_answer(choice, offer, generator);
        let bytes = point.compress().to_bytes();
        let shared = Zeroizing::new(&table * &*scalar);
        keys.push(hash_key(session, index, [&offer.bytes, &bytes], &shared));
        points.push((point, bytes));
    }
    (ReceiverPoints(points), BaseReceiverKeys(keys))
}

/// A scalar and its point, shifted by the sender's when the choice is 1. The sender refuses the identity and
/// its own point, either of which comes up once in 2^252 draws, so those are drawn again.
fn draw_answer(
    choice: Choice,
    offer: &SenderPoint,
    generator: &mut Generator,
) -> (Zeroizing<Scalar>, RistrettoPoint) {
    loop {
        let scalar = random_scalar(generator);
        let shift = Zeroizing::new(RistrettoPoint::conditional_select(
            &RistrettoPoint::identity(),
            &offer.point,
            choice,
        ));
        let point = RISTRETTO_BASEPOINT_TABLE * &*scalar + *shift;
        if !point.is_identity() && point != offer.point {
            return (scalar, point);
        }
    }
}

fn random_scalar(generator: &mut Generator) -> Zeroizing<Scalar> {
    let bytes = Zeroizing::new(generator.array::<64>());
    Zeroizing::new(Scalar::from_bytes_mod_order_wide(&bytes))
}

/// The key of transfer `index`: every field has a fixed length, so the hashed string is unambiguous.
fn hash_key(session: SessionId, index: usize, points: [&[u8; 32]; 2], shared: &RistrettoPoint) -> BaseKey {
    let mut hasher = Zeroizing::new(blake3::Hasher::new_derive_key(domain::OT_BASE_KEY.context()));
    hasher.update(&session.0);
    hasher.update(&(index as u32).to_le_bytes());
    hasher.update(points[0]);
    hasher.update(points[1]);
    hasher.update(&*Zeroizing::new(shared.compress().to_bytes()));
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    const SESSION: SessionId = SessionId([3; 32]);
    const CHOICES: u128 = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;

    fn generator(seed: u8) -> Generator {
        Seed::from_bytes([seed; 32]).generator()
    }

    fn run(sender_session: SessionId, receiver_session: SessionId) -> (BaseSenderKeys, BaseReceiverKeys) {
        let (offer, sender) = BaseSender::start(sender_session, &mut generator(1));
        let offer = SenderPoint::from_bytes(&offer.to_bytes()).unwrap();
        let (answer, chosen) = receive(receiver_session, CHOICES, &offer, &mut generator(2));
        let answer = ReceiverPoints::from_bytes(&answer.to_bytes()).unwrap();
        (sender.finish(&answer).unwrap(), chosen)
    }

    #[test]
    fn the_receiver_gets_the_chosen_key_and_not_the_other() {
        let (pairs, chosen) = run(SESSION, SESSION);
        assert_eq!((pairs.0.len(), chosen.0.len()), (BASE_TRANSFERS, BASE_TRANSFERS));
        for (index, (pair, key)) in pairs.0.iter().zip(&chosen.0).enumerate() {
            let choice = (CHOICES >> index & 1) as usize;
            assert_eq!(pair[choice], *key);
            assert_ne!(pair[1 - choice], *key);
        }
    }

    #[test]
    fn all_keys_of_a_session_differ() {
        let (pairs, _) = run(SESSION, SESSION);
        let mut keys: Vec<_> = pairs.0.iter().flatten().collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 2 * BASE_TRANSFERS);
    }

    #[test]
    fn another_session_id_gives_unrelated_keys() {
        let (pairs, chosen) = run(SESSION, SessionId([4; 32]));
        for (pair, key) in pairs.0.iter().zip(&chosen.0) {
            assert!(!pair.contains(key));
            let agreeing = pair[0].iter().zip(key).filter(|(one, other)| one == other).count();
            assert!(agreeing < 8, "unrelated bytes agree once in 256");
        }
    }

    #[test]
    fn a_replayed_answer_gives_unrelated_keys_at_another_index() {
        let (offer, sender) = BaseSender::start(SESSION, &mut generator(1));
        let (mut answer, chosen) = receive(SESSION, 0, &offer, &mut generator(2));
        answer.0[1] = answer.0[0];
        let pairs = sender.finish(&answer).unwrap();
        assert_eq!(pairs.0[0][0], chosen.0[0]);
        assert_ne!(pairs.0[1][0], chosen.0[0]);
    }

    #[test]
    fn points_of_wrong_length_are_refused() {
        let message = OtMessage::SenderPoint;
        for sent in [0, 31, 33] {
            let refused = SenderPoint::from_bytes(&vec![0; sent]).unwrap_err();
            assert_eq!(refused, OtError::MessageLength { message, expected: 32, sent });
        }
        let message = OtMessage::ReceiverPoints;
        for sent in [0, 32, 4064, 4095, 4097, 4128] {
            let refused = ReceiverPoints::from_bytes(&vec![0; sent]).unwrap_err();
            assert_eq!(refused, OtError::MessageLength { message, expected: 4096, sent });
        }
    }

    #[test]
    fn the_identity_and_non_canonical_points_are_refused() {
        let message = OtMessage::SenderPoint;
        let refused = SenderPoint::from_bytes(&[0; 32]).unwrap_err();
        assert_eq!(refused, OtError::IdentityPoint { message, index: 0 });
        // p itself encodes zero a second time; 1 is a negative field element; all ones exceed p.
        let mut modulus = [0xff; 32];
        (modulus[0], modulus[31]) = (0xed, 0x7f);
        let mut one = [0; 32];
        one[0] = 1;
        for bytes in [modulus, one, [0xff; 32]] {
            let refused = SenderPoint::from_bytes(&bytes).unwrap_err();
            assert_eq!(refused, OtError::NonCanonicalPoint { message, index: 0 });
        }

        let (offer, _) = BaseSender::start(SESSION, &mut generator(1));
        let (answer, _) = receive(SESSION, CHOICES, &offer, &mut generator(2));
        let message = OtMessage::ReceiverPoints;
        let mut bytes = answer.to_bytes();
        bytes[32 * 77..32 * 78].fill(0);
        let refused = ReceiverPoints::from_bytes(&bytes).unwrap_err();
        assert_eq!(refused, OtError::IdentityPoint { message, index: 77 });
        bytes[32 * 5..32 * 6].fill(0xff);
        let refused = ReceiverPoints::from_bytes(&bytes).unwrap_err();
        assert_eq!(refused, OtError::NonCanonicalPoint { message, index: 5 });
    }

    #[test]
    fn the_senders_own_point_is_refused() {
        let (offer, sender) = BaseSender::start(SESSION, &mut generator(1));
        let (mut answer, _) = receive(SESSION, CHOICES, &offer, &mut generator(2));
        answer.0[9] = (offer.point, offer.bytes);
        let refused = sender.finish(&answer).unwrap_err();
        assert_eq!(refused, OtError::EchoedPoint { message: OtMessage::ReceiverPoints, index: 9 });
    }

    #[test]
    fn states_and_keys_print_nothing() {
        let (_, sender) = BaseSender::start(SESSION, &mut generator(1));
        assert_eq!(format!("{sender:?}"), "BaseSender(..)");
        let (pairs, chosen) = run(SESSION, SESSION);
        assert_eq!(format!("{pairs:?} {chosen:?}"), "BaseSenderKeys(..) BaseReceiverKeys(..)");
    }
}
