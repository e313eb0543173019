//! The server's side of a truncation.

use super::{TruncationOffer, TruncationOpening, TruncationReply, TruncationShape, check_factors, factor};
use crate::garble::bits::{low_bits, signed_by};
use crate::garble::error::{Counted, GarbleError, Message, check_count, check_length};
use crate::garble::hash::{CounterRange, HashKey, hash_labels};
use crate::garble::label::{Offset, WireLabel};
use crate::garble::sections::{pack_sections, sections_length, unpack_sections};
use crate::random::Generator;
use crate::secret::Secret;

/// What the server keeps after its offer: good for one inference. Known to the server only.
#[derive(Debug)]
pub struct OfferedTruncation {
    shape: TruncationShape,
    /// u_s of each position.
    shares: Secret<Vec<u64>>,
    /// rho of each position.
    coins: Secret<Vec<u64>>,
}

impl OfferedTruncation {
    /// Makes the offer for as many positions as there are transfers. `zero_labels` are the server's outputs
    /// of those.
    ///
    /// # Errors
    /// When the counters do not suffice.
    pub fn new(
        shape: TruncationShape,
        key: HashKey,
        counters: &mut CounterRange,
        offset: &Offset,
        zero_labels: &[WireLabel],
        generator: &mut Generator,
    ) -> Result<(TruncationOffer, Self), GarbleError> {
        let counters = counters.take(TruncationShape::hash_count(zero_labels.len()))?;
        let [zero, one] = hash_labels(key, counters, zero_labels, Some(offset));
        let coins: Vec<u64> = zero_labels.iter().map(|_| generator.next_u64() & 1).collect();
        let mask = low_bits(shape.wrap_bits());
        let hashes = zero.expose().iter().zip(one.expose());
        let offers = hashes
            .zip(&coins)
            .map(|((zero, one), rho)| (zero.wrapping_sub(*one) as u64).wrapping_add(*rho) & mask);
        let offer = TruncationOffer(offers.collect());
        let shares = zero.expose().iter().map(|hash| (*hash as u64).wrapping_neg() & mask).collect();
        Ok((offer, Self { shape, shares: Secret::new(shares), coins: Secret::new(coins) }))
    }

    /// Length of the bytes below.
    pub fn stored_bytes(shape: &TruncationShape, count: usize) -> usize {
        sections_length([shape.wrap_bits(), 1].map(|width| (count, width)))
    }

    /// The secret bytes to store until the inference. Whoever stores them must see to it that they are used once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let own = (&self.shares.expose()[..], self.shape.wrap_bits());
        pack_sections([own, (self.coins.expose(), 1)])
    }

    /// Reads stored bytes back.
    ///
    /// # Errors
    /// When the length is another or bits behind the last value of a section are set.
    pub fn from_bytes(shape: &TruncationShape, count: usize, bytes: &[u8]) -> Result<Self, GarbleError> {
        let widths = [shape.wrap_bits(), 1];
        let sections = unpack_sections(Message::Prepared, bytes, widths.map(|width| (count, width)))?;
        let [shares, coins] = sections.try_into().expect("as many sections as widths");
        Ok(Self { shape: *shape, shares, coins })
    }

    /// Opens with the server's shares of the values.
    ///
    /// # Errors
    /// When there are not as many shares as positions.
    pub fn open(self, shares: &[u64]) -> Result<(TruncationOpening, WaitingTruncation), GarbleError> {
        let shape = self.shape;
        check_count(Counted::ServerValues, self.coins.expose().len(), shares.len())?;
        let (l, f) = (shape.width, shape.fraction_bits);
        let lift = 1_u64 << (l - 2);
        let mut openings = Vec::with_capacity(shares.len());
        let mut known = Vec::with_capacity(shares.len());
        let secrets = self.coins.expose().iter().zip(self.shares.expose());
        for (share, (rho, own)) in shares.iter().zip(secrets) {
            let lifted = share.wrapping_add(lift).wrapping_add(low_bits(f)) & low_bits(l);
            let top = shape.top_bit(lifted);
            let opening = top ^ rho;
            let wrap = top.wrapping_sub(signed_by(opening, *own));
            let quotient = (lifted >> f).wrapping_sub(lift >> f);
            known.push(quotient.wrapping_sub(shape.wrap_weight().wrapping_mul(wrap)));
            openings.push(opening);
        }
        Ok((TruncationOpening(openings), WaitingTruncation { shape, known: Secret::new(known) }))
    }
}

/// What turns the client's reply into the server's shares.
#[derive(Debug)]
pub struct WaitingTruncation {
    shape: TruncationShape,
    known: Secret<Vec<u64>>,
}

impl WaitingTruncation {
    /// The server's shares of the quotients, each times its factor and less the client's blind.
    ///
    /// # Errors
    /// When the reply or the factors are for another number of positions.
    pub fn finish(self, reply: &TruncationReply, factors: &[u64]) -> Result<Secret<Vec<u64>>, GarbleError> {
        let shape = self.shape;
        let known = self.known.expose();
        check_factors(known.len(), factors)?;
        let length = |count| TruncationReply::length(&shape, count);
        check_length(Message::TruncationReply, length(known.len()), length(reply.0.len()))?;
        check_count(Counted::ClientValues, known.len(), reply.0.len())?;
        let share = |(position, (known, answer)): (usize, (&u64, &u64))| {
            known.wrapping_mul(factor(factors, position)).wrapping_add(*answer) & shape.output_mask()
        };
        Ok(Secret::new(known.iter().zip(&reply.0).enumerate().map(share).collect()))
    }
}
