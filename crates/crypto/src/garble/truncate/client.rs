//! The client's side of a truncation.

use super::{TruncationOffer, TruncationOpening, TruncationReply, TruncationShape, check_factors, factor};
use crate::garble::bits::{low_bits, signed_by};
use crate::garble::error::{Counted, GarbleError, Message, check_count, check_length};
use crate::garble::hash::{CounterRange, HashKey, hash_labels};
use crate::garble::label::WireLabel;
use crate::garble::sections::{pack_sections, sections_length, unpack_sections};
use crate::secret::Secret;

/// What the client keeps after the server's offer: good for one inference. Known to the client only.
#[derive(Debug)]
pub struct PreparedTruncation {
    shape: TruncationShape,
    /// b_m of each position.
    tops: Secret<Vec<u64>>,
    /// u_c of each position.
    shares: Secret<Vec<u64>>,
    /// (b>>f) - r' of each position, which needs no word from the server.
    known: Secret<Vec<u64>>,
}

/// What the client brings to truncations, position by position.
#[derive(Clone, Copy)]
pub struct ClientInputs<'a> {
    /// Its shares.
    pub shares: &'a [u64],
    /// Fresh, uniform in the output ring: its new shares.
    pub blinds: &'a [u64],
    /// Its outputs of the transfers that it chose in by [`TruncationShape::choices`].
    pub labels: &'a [WireLabel],
}

impl PreparedTruncation {
    /// Takes the offer. Factors, if there are any, are two's complement, one for each position.
    ///
    /// # Errors
    /// When labels, blinds, factors or the offer are not as many as the shares, or the counters do not suffice.
    pub fn new(
        shape: TruncationShape,
        key: HashKey,
        counters: &mut CounterRange,
        own: ClientInputs<'_>,
        factors: &[u64],
        offer: &TruncationOffer,
    ) -> Result<Self, GarbleError> {
        let ClientInputs { shares, blinds, labels } = own;
        let count = shares.len();
        check_count(Counted::ClientLabels, count, labels.len())?;
        check_count(Counted::Blinds, count, blinds.len())?;
        check_factors(count, factors)?;
        let length = |count| TruncationOffer::length(&shape, count);
        check_length(Message::TruncationOffer, length(count), length(offer.0.len()))?;
        let counters = counters.take(TruncationShape::hash_count(count))?;
        let [hashes, _] = hash_labels(key, counters, labels, None);
        let tops: Vec<u64> = shares.iter().map(|share| shape.top_bit(*share)).collect();
        let own = hashes.expose().iter().zip(&tops).zip(&offer.0);
        let own =
            own.map(|((hash, top), tau)| (*hash as u64).wrapping_add(top.wrapping_neg() & tau)).collect();
        let known = shares.iter().zip(blinds).enumerate().map(|(position, (share, blind))| {
            let quotient = (share & low_bits(shape.width)) >> shape.fraction_bits;
            quotient.wrapping_mul(factor(factors, position)).wrapping_sub(*blind)
        });
        let known = known.collect();
        Ok(Self { shape, tops: Secret::new(tops), shares: Secret::new(own), known: Secret::new(known) })
    }

    /// Length of the bytes below.
    pub fn stored_bytes(shape: &TruncationShape, count: usize) -> usize {
        sections_length(Self::stored_widths(shape).map(|width| (count, width)))
    }

    /// The secret bytes to store until the inference. Whoever stores them must see to it that they are used once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let [tops, shares, known] = Self::stored_widths(&self.shape);
        pack_sections([
            (&self.tops.expose()[..], tops),
            (self.shares.expose(), shares),
            (self.known.expose(), known),
        ])
    }

    /// Reads stored bytes back.
    ///
    /// # Errors
    /// When the length is another or bits behind the last value of a section are set.
    pub fn from_bytes(shape: &TruncationShape, count: usize, bytes: &[u8]) -> Result<Self, GarbleError> {
        let widths = Self::stored_widths(shape);
        let sections = unpack_sections(Message::Prepared, bytes, widths.map(|width| (count, width)))?;
        let [tops, shares, known] = sections.try_into().expect("as many sections as widths");
        Ok(Self { shape: *shape, tops, shares, known })
    }

    fn stored_widths(shape: &TruncationShape) -> [u32; 3] {
        [1, shape.wrap_bits(), shape.output_bits]
    }

    /// Answers the server's opening, with the factors that the offer was taken with.
    ///
    /// # Errors
    /// When the opening or the factors are for another number of positions.
    pub fn reply(self, opening: &TruncationOpening, factors: &[u64]) -> Result<TruncationReply, GarbleError> {
        let shape = self.shape;
        let (tops, shares, known) = (self.tops.expose(), self.shares.expose(), self.known.expose());
        check_factors(tops.len(), factors)?;
        let length = |count| TruncationOpening::length(&shape, count);
        check_length(Message::TruncationOpening, length(tops.len()), length(opening.0.len()))?;
        let mut values = Vec::with_capacity(tops.len());
        for (position, opened) in opening.0.iter().enumerate() {
            let (top, share) = (tops[position], shares[position]);
            let wrap = (opened & top).wrapping_add(signed_by(*opened, share)).wrapping_sub(top);
            let weight = shape.wrap_weight().wrapping_mul(factor(factors, position));
            values.push(known[position].wrapping_add(weight.wrapping_mul(wrap)) & shape.output_mask());
        }
        Ok(TruncationReply(values))
    }
}
