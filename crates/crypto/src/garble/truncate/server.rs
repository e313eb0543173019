//! The server's side of a truncation.

use super::{TruncationAdvance, TruncationOffer, TruncationOpening, TruncationReply, TruncationShape};
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
    advance: Option<Vec<u64>>,
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
        let offered = Self { shape, shares: Secret::new(shares), coins: Secret::new(coins), advance: None };
        Ok((offer, offered))
    }

    /// Takes the client's advance; its online reply is then short.
    ///
    /// # Errors
    /// When the advance is for another number of positions.
    #[must_use = "the truncation is spent by this call and comes back with the advance"]
    pub fn with_advance(self, advance: TruncationAdvance) -> Result<Self, GarbleError> {
        let expected = TruncationAdvance::length(&self.shape, self.coins.expose().len());
        let came = TruncationAdvance::length(&self.shape, advance.0.len());
        check_length(Message::TruncationAdvance, expected, came)?;
        Ok(Self { advance: Some(advance.0), ..self })
    }

    /// Length of the bytes below.
    pub fn stored_bytes(shape: &TruncationShape, count: usize, is_advanced: bool) -> usize {
        let advance = if is_advanced { shape.output_bits } else { 0 };
        sections_length([shape.wrap_bits(), 1, advance].map(|width| (count, width)))
    }

    /// The secret bytes to store until the inference. Whoever stores them must see to it that they are used once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let advance = self.advance.as_deref().map_or((&[][..], 0), |values| (values, self.shape.output_bits));
        let own = (&self.shares.expose()[..], self.shape.wrap_bits());
        pack_sections([own, (self.coins.expose(), 1), advance])
    }

    /// Reads stored bytes back.
    ///
    /// # Errors
    /// When the length is another or bits behind the last value of a section are set.
    pub fn from_bytes(
        shape: &TruncationShape,
        count: usize,
        is_advanced: bool,
        bytes: &[u8],
    ) -> Result<Self, GarbleError> {
        let widths = [shape.wrap_bits(), 1, if is_advanced { shape.output_bits } else { 0 }];
        let sections = unpack_sections(Message::Prepared, bytes, widths.map(|width| (count, width)))?;
        let [shares, coins, mut advance] = sections.try_into().expect("as many sections as widths");
        let advance = is_advanced.then(|| std::mem::take(advance.expose_mut()));
        Ok(Self { shape: *shape, shares, coins, advance })
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
        let waiting = WaitingTruncation { shape, known: Secret::new(known), advance: self.advance };
        Ok((TruncationOpening(openings), waiting))
    }
}

/// What turns the client's reply into the server's shares.
#[derive(Debug)]
pub struct WaitingTruncation {
    shape: TruncationShape,
    known: Secret<Vec<u64>>,
    advance: Option<Vec<u64>>,
}

impl WaitingTruncation {
    /// The server's shares of the quotients: each less the client's blind.
    ///
    /// # Errors
    /// When the reply is for another number of positions or of the other kind.
    pub fn finish(self, reply: TruncationReply) -> Result<Vec<u64>, GarbleError> {
        let shape = self.shape;
        let known = self.known.expose();
        let expected = TruncationReply::length(&shape, known.len(), self.advance.is_some());
        check_length(Message::TruncationReply, expected, reply.byte_length())?;
        check_count(Counted::ClientValues, known.len(), reply.values.len())?;
        let mut shares = Vec::with_capacity(known.len());
        for (position, (known, value)) in known.iter().zip(reply.values).enumerate() {
            let answer = match &self.advance {
                None => value,
                Some(advance) => advance[position].wrapping_add(shape.wrap_weight().wrapping_mul(value)),
            };
            shares.push(known.wrapping_add(answer) & shape.output_mask());
        }
        Ok(shares)
    }
}
