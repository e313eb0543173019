//! The client's side of a truncation.

use super::{TruncationAdvance, TruncationOffer, TruncationOpening, TruncationReply, TruncationShape};
use crate::garble::bits::{low_bits, signed_by};
use crate::garble::error::{Counted, GarbleError, Message, check_count, check_length};
use crate::garble::hash::{CounterRange, HashKey, hash_labels};
use crate::garble::label::WireLabel;
use crate::garble::sections::{pack_sections, sections_length, unpack_sections};
use crate::random::Generator;
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
    /// kappa of each position, if an advance was sent.
    pads: Option<Secret<Vec<u64>>>,
}

impl PreparedTruncation {
    /// Takes the offer. `labels` are the client's outputs of the transfers that it chose in by
    /// [`TruncationShape::choices`]; the blinds are fresh, uniform in the output ring, and become its new
    /// shares.
    ///
    /// # Errors
    /// When labels, blinds or the offer are not as many as the shares, or the counters do not suffice.
    pub fn new(
        shape: TruncationShape,
        key: HashKey,
        counters: &mut CounterRange,
        labels: &[WireLabel],
        shares: &[u64],
        blinds: &[u64],
        offer: &TruncationOffer,
    ) -> Result<Self, GarbleError> {
        let count = shares.len();
        check_count(Counted::ClientLabels, count, labels.len())?;
        check_count(Counted::Blinds, count, blinds.len())?;
        let length = |count| TruncationOffer::length(&shape, count);
        check_length(Message::TruncationOffer, length(count), length(offer.0.len()))?;
        let counters = counters.take(TruncationShape::hash_count(count))?;
        let [hashes, _] = hash_labels(key, counters, labels, None);
        let tops: Vec<u64> = shares.iter().map(|share| shape.top_bit(*share)).collect();
        let own = hashes.expose().iter().zip(&tops).zip(&offer.0);
        let own =
            own.map(|((hash, top), tau)| (*hash as u64).wrapping_add(top.wrapping_neg() & tau)).collect();
        let known = shares.iter().zip(blinds).map(|(share, blind)| {
            ((share & low_bits(shape.width)) >> shape.fraction_bits).wrapping_sub(*blind)
        });
        let known = known.collect();
        Ok(Self {
            shape,
            tops: Secret::new(tops),
            shares: Secret::new(own),
            known: Secret::new(known),
            pads: None,
        })
    }

    /// Sends offline what is known of the reply, so that k bits of it are left for the online phase.
    pub fn advance(self, generator: &mut Generator) -> (TruncationAdvance, Self) {
        let shape = self.shape;
        let pads: Vec<u64> =
            self.known.expose().iter().map(|_| generator.next_u64() & low_bits(shape.wrap_bits())).collect();
        let advance = self.known.expose().iter().zip(&pads).map(|(known, pad)| {
            known.wrapping_add(shape.wrap_weight().wrapping_mul(*pad)) & shape.output_mask()
        });
        let advance = TruncationAdvance(advance.collect());
        (advance, Self { pads: Some(Secret::new(pads)), ..self })
    }

    /// Length of the bytes below.
    pub fn stored_bytes(shape: &TruncationShape, count: usize, is_advanced: bool) -> usize {
        sections_length(Self::stored_widths(shape, is_advanced).map(|width| (count, width)))
    }

    /// The secret bytes to store until the inference. Whoever stores them must see to it that they are used once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let [tops, shares, known, pads] = Self::stored_widths(&self.shape, self.pads.is_some());
        pack_sections([
            (&self.tops.expose()[..], tops),
            (self.shares.expose(), shares),
            (self.known.expose(), known),
            (self.pads.as_ref().map_or(&[][..], |values| values.expose()), pads),
        ])
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
        let widths = Self::stored_widths(shape, is_advanced);
        let sections = unpack_sections(Message::Prepared, bytes, widths.map(|width| (count, width)))?;
        let [tops, shares, known, pads] = sections.try_into().expect("as many sections as widths");
        Ok(Self { shape: *shape, tops, shares, known, pads: is_advanced.then_some(pads) })
    }

    fn stored_widths(shape: &TruncationShape, is_advanced: bool) -> [u32; 4] {
        [1, shape.wrap_bits(), shape.output_bits, if is_advanced { shape.wrap_bits() } else { 0 }]
    }

    /// Answers the server's opening.
    ///
    /// # Errors
    /// When the opening is for another number of positions.
    pub fn reply(self, opening: &TruncationOpening) -> Result<TruncationReply, GarbleError> {
        let shape = self.shape;
        let (tops, shares, known) = (self.tops.expose(), self.shares.expose(), self.known.expose());
        let length = |count| TruncationOpening::length(&shape, count);
        check_length(Message::TruncationOpening, length(tops.len()), length(opening.0.len()))?;
        let mut values = Vec::with_capacity(tops.len());
        for (position, opened) in opening.0.iter().enumerate() {
            let (top, share) = (tops[position], shares[position]);
            let wrap = (opened & top).wrapping_add(signed_by(*opened, share)).wrapping_sub(top);
            values.push(match &self.pads {
                None => known[position].wrapping_add(shape.wrap_weight().wrapping_mul(wrap)),
                Some(pads) => wrap.wrapping_sub(pads.expose()[position]),
            });
        }
        let bits = if self.pads.is_some() { shape.wrap_bits() } else { shape.output_bits };
        for value in &mut values {
            *value &= low_bits(bits);
        }
        Ok(TruncationReply::new(&shape, self.pads.is_some(), values))
    }
}
