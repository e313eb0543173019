//! The server's side of gates.

use super::chain::{self, ServerChain, ServerLevel, Words};
use super::{GateShape, SenderSide, ValueShape};
use crate::garble::bits::{low_bits, signed_by, spread};
use crate::garble::error::{Counted, GarbleError, Message, check_count};
use crate::garble::hash::{CounterRange, HashKey, hash_labels};
use crate::garble::label::WireLabel;
use crate::garble::sections::{append_sections, pack_sections, sections_length, unpack_sections};
use crate::random::Generator;
use crate::secret::Secret;

/// What the server has of the transfers in which it chose, one for each sign.
#[derive(Debug)]
pub struct ReverseReceiver {
    /// p: fresh, uniform, and of these gates alone.
    pub choices: Secret<Vec<u64>>,
    /// The labels it got for them.
    pub labels: Secret<Vec<WireLabel>>,
}

/// Gates whose offer is made, until the client's advance comes. Known to the server only.
#[derive(Debug)]
pub struct OfferedGates {
    shape: GateShape,
    chain: ServerChain,
    values: Vec<OfferedValue>,
    labels: Secret<Vec<WireLabel>>,
}

/// What the server draws for one value of every sign.
#[derive(Debug)]
pub(super) struct OfferedValue {
    /// H\[0\].
    wrap: Words,
    /// q.
    coin: Words,
    /// h\[0\].
    pad: Words,
    /// h\[1\] - h\[0\].
    step: Words,
}

impl OfferedGates {
    /// Makes the offer and appends it to a message. The labels are the server's outputs of the transfers that the client
    /// chose in by [`GateShape::choices`], group after group, without what pads them to bytes.
    ///
    /// # Errors
    /// When labels are not as many as the signs need, or the counters do not suffice.
    pub fn new(
        shape: GateShape,
        forward: SenderSide<'_>,
        reverse: ReverseReceiver,
        generator: &mut Generator,
        offer: &mut Vec<u8>,
    ) -> Result<Self, GarbleError> {
        let SenderSide { key, mut counters, offset, zero_labels } = forward;
        let signs = reverse.choices.expose().len();
        check_count(Counted::ReverseLabels, signs, reverse.labels.expose().len())?;
        check_count(Counted::ClientLabels, signs * shape.transfers_per_sign(), zero_labels.len())?;
        let mut counters = counters.take(shape.hash_count(signs))?;
        let (chained, others) = zero_labels.split_at(signs * (shape.compared_bits() as usize - 1));
        let masks = reverse.choices.expose();
        let (words, chain) =
            ServerChain::offer(&shape, key, &mut counters, offset, chained, masks, generator)?;
        let widths = chain::offer_bits(shape.compared_bits());
        append_sections(offer, words.iter().zip(widths).map(|(words, bits)| (&words.expose()[..], bits)));
        let (turned, tops) = others.split_at(signs);
        let mut values = Vec::with_capacity(shape.values_per_sign);
        for (value, tops) in shape.values().zip(tops.chunks_exact(signs)) {
            let range = counters.take(GateShape::hashes_of(signs))?;
            let pads = hash_labels(key, range, turned, Some(offset));
            let range = counters.take(GateShape::hashes_of(signs))?;
            let wraps = hash_labels(key, range, tops, Some(offset));
            let coin = Secret::new(masks.iter().map(|_| generator.next_u64() & 1).collect());
            let (taus, value_offered) = OfferedValue::new(&value, &pads, &wraps, coin);
            append_sections(offer, [(&taus[..], value.wrap_bits)]);
            values.push(value_offered);
        }
        Ok(Self { shape, chain, values, labels: reverse.labels })
    }

    /// Takes the client's advance, whose pads are hashed under the client's key.
    ///
    /// # Errors
    /// When the advance is for another number of signs, or the counters do not suffice.
    #[must_use = "the gates are spent by this call and come back with the advance"]
    pub fn take_advance(
        self,
        key: HashKey,
        counters: &mut CounterRange,
        advance: &[u8],
    ) -> Result<AdvancedGates, GarbleError> {
        let Self { shape, chain, values, labels } = self;
        let signs = labels.expose().len();
        let mut counters = counters.take(shape.reverse_hash_count(signs))?;
        let sections = unpack_sections(Message::GateAdvance, advance, shape.advance_sections(signs))?;
        let mut advanced = Vec::with_capacity(values.len());
        for ((value, offered), sent) in shape.values().zip(values).zip(sections.chunks_exact(2)) {
            let range = counters.take(GateShape::hashes_of(signs))?;
            let [hashes, _] = hash_labels(key, range, labels.expose(), None);
            let choices = chain.stars.expose().iter().map(|stars| stars >> (chain.bits - 1));
            advanced.push(AdvancedValue::new(&value, offered, &hashes, choices, sent));
        }
        Ok(AdvancedGates { shape, chain, values: advanced })
    }
}

impl OfferedValue {
    pub(super) fn new(
        value: &ValueShape,
        pads: &[Secret<Vec<u128>>; 2],
        wraps: &[Secret<Vec<u128>>; 2],
        coin: Words,
    ) -> (Vec<u64>, Self) {
        let low = |hashes: &Secret<Vec<u128>>, mask: u64| -> Words {
            Secret::new(hashes.expose().iter().map(|hash| *hash as u64 & mask).collect())
        };
        let (wrap, pad) = (low(&wraps[0], value.wrap_mask()), low(&pads[0], value.output));
        let taus = wrap.expose().iter().zip(wraps[1].expose()).zip(coin.expose());
        let taus = taus.map(|((zero, one), q)| zero.wrapping_sub(*one as u64).wrapping_add(*q));
        let taus = taus.map(|tau| tau & value.wrap_mask()).collect();
        let step = pads[1].expose().iter().zip(pad.expose());
        let step = step.map(|(one, zero)| (*one as u64).wrapping_sub(*zero) & value.output).collect();
        (taus, Self { wrap, coin, pad, step: Secret::new(step) })
    }
}

/// Gates that wait for the server's shares. Good for one inference. Known to the server only.
#[derive(Debug)]
pub struct AdvancedGates {
    shape: GateShape,
    chain: ServerChain,
    values: Vec<AdvancedValue>,
}

#[derive(Debug)]
pub(super) struct AdvancedValue {
    offered: OfferedValue,
    /// v.
    product: Words,
    /// v'.
    wrapped: Words,
}

impl AdvancedGates {
    /// Words a sign takes in memory besides three for each level of its chain.
    pub const SIGN_WORDS: usize = 1;
    /// Words that each of its values takes.
    pub const VALUE_WORDS: usize = 6;

    /// Length of the bytes below.
    pub fn stored_bytes(shape: &GateShape, signs: usize) -> usize {
        sections_length(Self::stored_sections(shape, signs))
    }

    fn stored_sections(shape: &GateShape, signs: usize) -> impl Iterator<Item = (usize, u32)> + Clone {
        let (bits, output) = (shape.compared_bits(), shape.output_bits);
        let chain = (0..bits - 1).flat_map(move |level| [chain::pad_bits(bits, level); 3]);
        let values = shape.values().flat_map(move |value| {
            let wrap = value.wrap_bits;
            [wrap, 1, output, output, output, wrap]
        });
        std::iter::once(bits).chain(chain).chain(values).map(move |bits| (signs, bits))
    }

    /// The secret bytes to store until the inference. Whoever stores them must see to it that they are used once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let mut words = vec![&self.chain.stars];
        for level in &self.chain.levels {
            words.extend([&level.zero, &level.one, &level.difference]);
        }
        for AdvancedValue { offered, product, wrapped } in &self.values {
            words.extend([&offered.wrap, &offered.coin, &offered.pad, &offered.step, product, wrapped]);
        }
        let widths = Self::stored_sections(&self.shape, self.chain.stars.expose().len());
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
        let bits = shape.compared_bits();
        let stars = next();
        let levels =
            (0..bits - 1).map(|_| ServerLevel { zero: next(), one: next(), difference: next() }).collect();
        let values = shape.values().map(|_| {
            let offered = OfferedValue { wrap: next(), coin: next(), pad: next(), step: next() };
            AdvancedValue { offered, product: next(), wrapped: next() }
        });
        let values = values.collect();
        Ok(Self { shape: *shape, chain: ServerChain { bits, stars, levels }, values })
    }

    /// Appends the opening for the server's shares to a message; their order is that of [`GateShape::choices`]. Slopes are
    /// those of [`super::PreparedGates::reply`].
    ///
    /// # Errors
    /// When there are not as many shares or slopes as values.
    pub fn open(
        self,
        shares: &[u64],
        slopes: &[u64],
        opening: &mut Vec<u8>,
    ) -> Result<WaitingGates, GarbleError> {
        let Self { shape, chain, values } = self;
        let signs = chain.stars.expose().len();
        shape.check_slopes(signs, slopes)?;
        check_count(Counted::ServerValues, signs * shape.values_per_sign, shares.len())?;
        let inputs = shares[..signs].iter().map(|share| shape.server_input(*share));
        let inputs: Words = Secret::new(inputs.collect());
        let words = chain.open(inputs.expose());
        let widths = chain::opening_bits(chain.bits);
        append_sections(opening, words.iter().zip(widths).map(|(words, bits)| (&words.expose()[..], bits)));
        let mut waiting = Vec::with_capacity(values.len());
        let own_values = shape.values().zip(values).enumerate();
        for ((number, (value, own)), shares) in own_values.zip(shares.chunks_exact(signs)) {
            let slopes = slopes.get(number * signs..(number + 1) * signs);
            let (turned, masked, own) = own.open(&value, &chain, shares, slopes);
            append_sections(opening, [(&turned[..], 1), (&masked[..], shape.output_bits)]);
            waiting.push(own);
        }
        Ok(WaitingGates { shape, signs, values: waiting })
    }
}

impl AdvancedValue {
    /// From the hashes of the labels it chose, and t and t'.
    pub(super) fn new(
        value: &ValueShape,
        offered: OfferedValue,
        hashes: &Secret<Vec<u128>>,
        choices: impl Iterator<Item = u64> + Clone,
        sent: &[Words],
    ) -> Self {
        let share = |shift: u32, mask: u64, sent: &Words| {
            let own = hashes.expose().iter().zip(choices.clone()).zip(sent.expose());
            let own = own.map(|((hash, p), t)| ((hash >> shift) as u64).wrapping_add(spread(p) & t) & mask);
            Secret::new(own.collect())
        };
        let product = share(0, value.output, &sent[0]);
        let wrapped = share(64, value.wrap_mask(), &sent[1]);
        Self { offered, product, wrapped }
    }

    /// d and m of every sign.
    pub(super) fn open(
        self,
        value: &ValueShape,
        chain: &ServerChain,
        shares: &[u64],
        slopes: Option<&[u64]>,
    ) -> (Vec<u64>, Vec<u64>, WaitingValue) {
        let Self { mut offered, product, wrapped } = self;
        let signs = shares.len();
        let (mut turned, mut masked) = (Vec::with_capacity(signs), Vec::with_capacity(signs));
        let [mut still, mut lever] = [(); 2].map(|()| Secret::new(Vec::with_capacity(signs)));
        let (f, weight) = (value.fraction_bits, value.wrap_weight);
        let own = offered.wrap.expose().iter().zip(offered.coin.expose()).zip(offered.step.expose());
        let shared = product.expose().iter().zip(wrapped.expose()).zip(chain.stars.expose());
        let all = shares.iter().zip(own).zip(shared).enumerate();
        for (sign, ((share, ((wrap, coin), step)), ((product, wrapped), stars))) in all {
            let p = stars >> (chain.bits - 1);
            let lifted = share.wrapping_add(value.lift).wrapping_add(low_bits(f)) & low_bits(value.ring);
            let top = value.top_bit(lifted);
            let turn = top ^ coin;
            let wraps = weight.wrapping_mul(top.wrapping_add(signed_by(turn, *wrap)));
            let quotient = (lifted >> f).wrapping_sub(value.lift >> f).wrapping_sub(wraps);
            let product = product.wrapping_add(weight.wrapping_mul(wrapped & spread(turn)));
            let change = signed_by(p, quotient).wrapping_sub(product << 1);
            turned.push(turn);
            masked.push(change.wrapping_sub(*step) & value.output);
            let gated = (quotient & spread(p)).wrapping_add(product) << value.sign_shift;
            let passed = slopes.map_or(0, |slopes| slopes[sign].wrapping_mul(quotient));
            still.expose_mut().push(gated.wrapping_add(passed));
            lever.expose_mut().push(change << value.sign_shift);
        }
        offered.pad.expose_mut().iter_mut().for_each(|pad| *pad <<= value.sign_shift);
        (turned, masked, WaitingValue { still, lever, pad: offered.pad })
    }
}

/// What turns the client's reply into the server's shares.
#[derive(Debug)]
pub struct WaitingGates {
    shape: GateShape,
    signs: usize,
    values: Vec<WaitingValue>,
}

#[derive(Debug)]
pub(super) struct WaitingValue {
    /// 2^e (p A + V) + a A.
    still: Words,
    /// 2^e A'.
    lever: Words,
    /// 2^e h\[0\].
    pad: Words,
}

impl WaitingGates {
    /// The server's shares of all values, each less the client's blind, in the order of [`GateShape::choices`].
    ///
    /// # Errors
    /// When the reply is for another number of signs, or bits behind its last value are set.
    pub fn finish(self, reply: &[u8]) -> Result<Secret<Vec<u64>>, GarbleError> {
        let Self { shape, signs, values } = self;
        let sections = unpack_sections(Message::GateReply, reply, shape.reply_sections(signs))?;
        let (turns, replies) = sections.split_first().expect("a reply begins with its turns");
        let mut shares = Secret::new(Vec::with_capacity(signs * shape.values_per_sign));
        for (own, reply) in values.iter().zip(replies) {
            own.finish(shape.output_bits, turns.expose(), reply.expose(), shares.expose_mut());
        }
        Ok(shares)
    }
}

impl WaitingValue {
    /// Adds the server's share for every sign, less the client's blind.
    pub(super) fn finish(&self, output_bits: u32, turns: &[u64], reply: &[u64], shares: &mut Vec<u64>) {
        let own = self.still.expose().iter().zip(self.lever.expose()).zip(self.pad.expose());
        shares.extend(own.zip(turns.iter().zip(reply)).map(|(((still, lever), pad), (turn, reply))| {
            let moved = (lever & spread(*turn)).wrapping_sub(signed_by(*turn, *pad));
            still.wrapping_add(moved).wrapping_add(*reply) & low_bits(output_bits)
        }));
    }
}
