//! The client's side of gates.

use super::chain::{self, ClientChain, Words, cut};
use super::{GateShape, SenderSide, ValueShape};
use crate::garble::bits::{low_bits, signed_by, spread};
use crate::garble::error::{Counted, GarbleError, Message, check_count};
use crate::garble::hash::{CounterRange, HashKey, hash_labels};
use crate::garble::label::WireLabel;
use crate::garble::sections::{append_sections, pack_sections, sections_length, unpack_sections};
use crate::secret::Secret;
use crate::wide::wide;

/// What the client brings to gates, in the order of [`GateShape::choices`].
#[derive(Clone, Copy)]
pub struct ClientInputs<'a> {
    /// Its shares of all values.
    pub shares: &'a [u64],
    /// rho of each sign: fresh, uniform, and of these gates alone.
    pub coins: &'a [u64],
    /// Its shares of what the gates make: fresh and uniform in the output ring.
    pub blinds: &'a [u64],
    /// Its outputs of the transfers that it chose in, group after group.
    pub labels: &'a [WireLabel],
}

/// Gates that wait for the server's opening. Good for one inference. Known to the client only.
#[derive(Debug)]
pub struct PreparedGates {
    shape: GateShape,
    chain: ClientChain,
    /// rho.
    coins: Words,
    values: Vec<PreparedValue>,
}

/// What the client keeps for one value of every sign.
#[derive(Debug)]
pub(super) struct PreparedValue {
    /// C.
    known: Words,
    /// G.
    wrap: Words,
    /// K\[0\].
    product: Words,
    /// K'\[0\].
    wrapped: Words,
    /// h\[rho\].
    pad: Words,
    /// r.
    blind: Words,
}

impl PreparedGates {
    /// Takes the server's offer and appends the advance to a message.
    ///
    /// # Errors
    /// When inputs, labels or the offer are not as many as the signs need, or counters do not suffice.
    pub fn new(
        shape: GateShape,
        key: HashKey,
        counters: &mut CounterRange,
        own: ClientInputs<'_>,
        mut reverse: SenderSide<'_>,
        offer: &[u8],
        advance: &mut Vec<u8>,
    ) -> Result<Self, GarbleError> {
        let (signs, values) = (own.coins.len(), own.coins.len() * shape.values_per_sign);
        check_count(Counted::ClientValues, values, own.shares.len())?;
        check_count(Counted::Blinds, values, own.blinds.len())?;
        check_count(Counted::ClientLabels, signs * shape.transfers_per_sign(), own.labels.len())?;
        check_count(Counted::ReverseLabels, signs, reverse.zero_labels.len())?;
        let sections = unpack_sections(Message::GateOffer, offer, shape.offer_sections(signs))?;
        let (chain_offer, taus) = sections.split_at(shape.compared_bits() as usize - 2);
        let mut counters = counters.take(shape.hash_count(signs))?;
        let (chained, others) = own.labels.split_at(signs * (shape.compared_bits() as usize - 1));
        let inputs = own.shares[..signs].iter().map(|share| shape.client_input(*share));
        let inputs: Words = Secret::new(inputs.collect());
        let chain = ClientChain::accept(&shape, key, &mut counters, chained, inputs.expose(), chain_offer)?;
        let (turned, tops) = others.split_at(signs);
        let mut prepared = Vec::with_capacity(shape.values_per_sign);
        let own_values = own.shares.chunks_exact(signs).zip(own.blinds.chunks_exact(signs));
        let offered = tops.chunks_exact(signs).zip(taus);
        for ((value, (shares, blinds)), (tops, taus)) in shape.values().zip(own_values).zip(offered) {
            let [pads, _] = hash_labels(key, counters.take(GateShape::hashes_of(signs))?, turned, None);
            let [wraps, _] = hash_labels(key, counters.take(GateShape::hashes_of(signs))?, tops, None);
            let range = reverse.counters.take(GateShape::hashes_of(signs))?;
            let products = hash_labels(reverse.key, range, reverse.zero_labels, Some(reverse.offset));
            let value_prepared =
                PreparedValue::new(&value, shares, blinds, [&pads, &wraps, &products[0]], taus);
            value_prepared.advance(&value, &products[1], advance);
            prepared.push(value_prepared);
        }
        let coins = Secret::new(own.coins.iter().map(|coin| coin & 1).collect());
        Ok(Self { shape, chain, coins, values: prepared })
    }

    /// Words a sign takes in memory besides two for each level of its chain.
    pub const SIGN_WORDS: usize = 2;
    /// Words that each of its values takes.
    pub const VALUE_WORDS: usize = 6;

    /// Length of the bytes below.
    pub fn stored_bytes(shape: &GateShape, signs: usize) -> usize {
        sections_length(Self::stored_sections(shape, signs))
    }

    fn stored_sections(shape: &GateShape, signs: usize) -> impl Iterator<Item = (usize, u32)> + Clone {
        let (bits, output) = (shape.compared_bits(), shape.output_bits);
        let chain = (0..bits - 1).flat_map(move |level| {
            let pad = chain::pad_bits(bits, level);
            [pad, if level == 0 { 0 } else { pad }]
        });
        let values = shape.values().flat_map(move |value| {
            let wrap = value.wrap_bits;
            [output, wrap, output, wrap, output, output]
        });
        [2, 1].into_iter().chain(chain).chain(values).map(move |bits| (signs, bits))
    }

    /// The secret bytes to store until the inference. Whoever stores them must see to it that they are used once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let mut words = vec![&self.chain.ends, &self.coins];
        words.extend(self.chain.levels.iter().flatten());
        for value in &self.values {
            let PreparedValue { known, wrap, product, wrapped, pad, blind } = value;
            words.extend([known, wrap, product, wrapped, pad, blind]);
        }
        let widths = Self::stored_sections(&self.shape, self.coins.expose().len());
        pack_sections(words.into_iter().zip(widths).map(|(words, (_, bits))| (&words.expose()[..], bits)))
    }

    /// Reads stored bytes back.
    ///
    /// # Errors
    /// When the length is another or bits behind the last value of a section are set.
    pub fn from_bytes(shape: &GateShape, signs: usize, bytes: &[u8]) -> Result<Self, GarbleError> {
        let sections = unpack_sections(Message::Prepared, bytes, Self::stored_sections(shape, signs))?;
        let mut sections = sections.into_iter();
        let mut next = || sections.next().expect("a section for every width");
        let (bits, ends, coins) = (shape.compared_bits(), next(), next());
        let levels = (0..bits - 1).map(|_| [next(), next()]).collect();
        let value = |_| PreparedValue {
            known: next(),
            wrap: next(),
            product: next(),
            wrapped: next(),
            pad: next(),
            blind: next(),
        };
        let values = shape.values().map(value).collect();
        Ok(Self { shape: *shape, chain: ClientChain { ends, levels }, coins, values })
    }

    /// Appends the reply to the server's opening to a message. Slopes are two's complement, one for each value in the order of
    /// [`GateShape::choices`], or none where the shape has none.
    ///
    /// # Errors
    /// When the opening is for another number of signs, bits behind its last value are set, or there are not as many slopes.
    pub fn reply(self, opening: &[u8], slopes: &[u64], reply: &mut Vec<u8>) -> Result<(), GarbleError> {
        let Self { shape, chain, coins, values } = self;
        let signs = coins.expose().len();
        shape.check_slopes(signs, slopes)?;
        let sections = unpack_sections(Message::GateOpening, opening, shape.opening_sections(signs))?;
        let (chained, opened) = sections.split_at(shape.compared_bits() as usize - 1);
        let deltas = chain.evaluate(chained);
        let turns = deltas.expose().iter().zip(coins.expose()).map(|(delta, coin)| delta ^ coin);
        let turns: Words = Secret::new(turns.collect());
        append_sections(reply, [(&turns.expose()[..], 1)]);
        let own_values = shape.values().zip(values).enumerate();
        for ((number, (value, own)), opened) in own_values.zip(opened.chunks_exact(2)) {
            let slopes = slopes.get(number * signs..(number + 1) * signs);
            let words = own.reply(&value, deltas.expose(), coins.expose(), opened, slopes);
            append_sections(reply, [(&words[..], shape.output_bits)]);
        }
        Ok(())
    }
}

impl PreparedValue {
    pub(super) fn new(
        value: &ValueShape,
        shares: &[u64],
        blinds: &[u64],
        [pads, wraps, products]: [&Secret<Vec<u128>>; 3],
        taus: &Words,
    ) -> Self {
        let [mut known, mut wrap] = [(); 2].map(|()| Secret::new(vec![0; shares.len()]));
        know(value, shares, wraps.expose(), taus.expose(), known.expose_mut(), wrap.expose_mut());
        Self {
            known,
            wrap,
            product: cut(products, 0, value.output),
            wrapped: cut(products, 64, value.wrap_mask()),
            pad: cut(pads, 0, value.output),
            blind: Secret::new(blinds.iter().map(|blind| blind & value.output).collect()),
        }
    }

    /// t and t' of every sign, given the hashes of the labels of choice 1.
    pub(super) fn advance(&self, value: &ValueShape, others: &Secret<Vec<u128>>, advance: &mut Vec<u8>) {
        let sums = |zero: &Words, added: &Words, shift: u32, mask: u64| {
            advance_words(zero.expose(), others.expose(), added.expose(), shift, mask)
        };
        let products = sums(&self.product, &self.known, 0, value.output);
        let wraps = sums(&self.wrapped, &self.wrap, 64, value.wrap_mask());
        let output_bits = value.output.count_ones();
        append_sections(advance, [(&products[..], output_bits), (&wraps[..], value.wrap_bits)]);
    }

    /// The reply of every sign, given d and m.
    pub(super) fn reply(
        self,
        value: &ValueShape,
        deltas: &[u64],
        coins: &[u64],
        opened: &[Words],
        slopes: Option<&[u64]>,
    ) -> Vec<u64> {
        let own = OwnWords {
            known: self.known.expose(),
            wrap: self.wrap.expose(),
            product: self.product.expose(),
            wrapped: self.wrapped.expose(),
            pad: self.pad.expose(),
            blind: self.blind.expose(),
        };
        let mut replies = vec![0; deltas.len()];
        reply_words(value, own, deltas, coins, opened[0].expose(), opened[1].expose(), &mut replies);
        if let Some(slopes) = slopes {
            add_passed(value, own, opened[0].expose(), slopes, &mut replies);
        }
        replies
    }
}

/// What the client has of one value of every sign when the opening comes.
#[derive(Clone, Copy)]
struct OwnWords<'a> {
    known: &'a [u64],
    wrap: &'a [u64],
    product: &'a [u64],
    wrapped: &'a [u64],
    pad: &'a [u64],
    blind: &'a [u64],
}

wide! {
    /// C and G of every sign.
    fn know(
        value: &ValueShape,
        shares: &[u64],
        wraps: &[u128],
        taus: &[u64],
        known: &mut [u64],
        wrap: &mut [u64],
    ) {
        let own = shares.iter().zip(wraps).zip(taus);
        for (((share, hash), tau), (known, wrap)) in own.zip(known.iter_mut().zip(wrap)) {
            let top = value.top_bit(*share);
            let own = (*hash as u64).wrapping_add(tau & spread(top)) & value.wrap_mask();
            let quotient = (share & low_bits(value.ring)) >> value.fraction_bits;
            let wraps = value.wrap_weight.wrapping_mul(top.wrapping_sub(own));
            *known = quotient.wrapping_sub(wraps) & value.output;
            *wrap = top.wrapping_sub(own << 1) & value.wrap_mask();
        }
    }
}

wide! {
    /// t or t' of every sign.
    fn advance_words(zero: &[u64], others: &[u128], added: &[u64], shift: u32, mask: u64) -> Vec<u64> {
        let sum = |((zero, one), added): ((&u64, &u128), &u64)| {
            zero.wrapping_sub((one >> shift) as u64).wrapping_add(*added) & mask
        };
        zero.iter().zip(others).zip(added).map(sum).collect()
    }
}

wide! {
    /// The reply of every sign.
    fn reply_words(
        value: &ValueShape,
        own: OwnWords<'_>,
        deltas: &[u64],
        coins: &[u64],
        turned: &[u64],
        masked: &[u64],
        replies: &mut [u64],
    ) {
        let kept = own.known.iter().zip(own.wrap).zip(own.product.iter().zip(own.wrapped));
        let kept = kept.zip(own.pad.iter().zip(own.blind));
        let said = turned.iter().zip(masked).zip(deltas.iter().zip(coins));
        for (((((known, wrap), (product, wrapped)), (pad, blind)), said), reply) in
            kept.zip(said).zip(replies)
        {
            let ((turn, mask), (delta, coin)) = said;
            let weight = value.wrap_weight & spread(*turn);
            let chosen = (mask & spread(*coin)).wrapping_add(*pad);
            let own = known.wrapping_add(weight.wrapping_mul(*wrap));
            let products = product.wrapping_add(weight.wrapping_mul(*wrapped));
            let moved = signed_by(delta ^ coin, chosen).wrapping_sub(signed_by(*delta, products));
            let gated = moved.wrapping_add(own & spread(*delta)) << value.sign_shift;
            *reply = gated.wrapping_sub(*blind) & value.output;
        }
    }
}

wide! {
    /// Adds a (C + d W G) to the reply of every sign.
    fn add_passed(value: &ValueShape, own: OwnWords<'_>, turned: &[u64], slopes: &[u64], replies: &mut [u64]) {
        let kept = own.known.iter().zip(own.wrap).zip(turned).zip(slopes);
        for ((((known, wrap), turn), slope), reply) in kept.zip(replies) {
            let own = known.wrapping_add((value.wrap_weight & spread(*turn)).wrapping_mul(*wrap));
            *reply = reply.wrapping_add(slope.wrapping_mul(own)) & value.output;
        }
    }
}
