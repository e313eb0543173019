//! The server's side of gates.

use super::chain::{self, ServerChain, ServerLevel, Words, cut};
use super::{GateShape, SenderSide, ValueShape};
use crate::garble::bits::{low_bits, signed_by, spread};
use crate::garble::error::{Counted, GarbleError, Message, check_count};
use crate::garble::hash::{CounterRange, HashKey, hash_labels};
use crate::garble::label::WireLabel;
use crate::garble::sections::{append_sections, pack_sections, sections_length, unpack_sections};
use crate::random::Generator;
use crate::secret::Secret;
use crate::wide::wide;

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
        let choices = chain.masks();
        for ((value, offered), sent) in shape.values().zip(values).zip(sections.chunks_exact(2)) {
            let range = counters.take(GateShape::hashes_of(signs))?;
            let [hashes, _] = hash_labels(key, range, labels.expose(), None);
            advanced.push(AdvancedValue::new(&value, offered, &hashes, choices.expose(), sent));
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
        let (wrap, pad) = (cut(&wraps[0], 0, value.wrap_mask()), cut(&pads[0], 0, value.output));
        let taus = tau_words(wrap.expose(), wraps[1].expose(), coin.expose(), value.wrap_mask());
        let step = Secret::new(step_words(pads[1].expose(), pad.expose(), value.output));
        (taus, Self { wrap, coin, pad, step })
    }
}

wide! {
    /// What the server holds of the products of its p with what the client sent.
    fn product_words(hashes: &[u128], shift: u32, choices: &[u64], sent: &[u64], mask: u64) -> Vec<u64> {
        let word = |((hash, p), t): ((&u128, &u64), &u64)| {
            ((hash >> shift) as u64).wrapping_add(spread(*p) & t) & mask
        };
        hashes.iter().zip(choices).zip(sent).map(word).collect()
    }
}

wide! {
    /// tau of every sign.
    fn tau_words(wraps: &[u64], others: &[u128], coins: &[u64], mask: u64) -> Vec<u64> {
        let tau = |((zero, one), q): ((&u64, &u128), &u64)| {
            zero.wrapping_sub(*one as u64).wrapping_add(*q) & mask
        };
        wraps.iter().zip(others).zip(coins).map(tau).collect()
    }
}

wide! {
    /// h\[1\] - h\[0\] of every sign.
    fn step_words(others: &[u128], pads: &[u64], mask: u64) -> Vec<u64> {
        others.iter().zip(pads).map(|(one, zero)| (*one as u64).wrapping_sub(*zero) & mask).collect()
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
        let masks = chain.masks();
        let own_values = shape.values().zip(values).enumerate();
        for ((number, (value, own)), shares) in own_values.zip(shares.chunks_exact(signs)) {
            let slopes = slopes.get(number * signs..(number + 1) * signs);
            let (turned, masked, own) = own.open(&value, masks.expose(), shares, slopes);
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
        choices: &[u64],
        sent: &[Words],
    ) -> Self {
        let share = |shift: u32, mask: u64, sent: &Words| {
            Secret::new(product_words(hashes.expose(), shift, choices, sent.expose(), mask))
        };
        let product = share(0, value.output, &sent[0]);
        let wrapped = share(64, value.wrap_mask(), &sent[1]);
        Self { offered, product, wrapped }
    }

    /// d and m of every sign, whose p are the masks.
    pub(super) fn open(
        self,
        value: &ValueShape,
        masks: &[u64],
        shares: &[u64],
        slopes: Option<&[u64]>,
    ) -> (Vec<u64>, Vec<u64>, WaitingValue) {
        let Self { mut offered, product, wrapped } = self;
        let signs = shares.len();
        let (mut turned, mut masked) = (vec![0; signs], vec![0; signs]);
        let [mut still, mut lever] = [(); 2].map(|()| Secret::new(vec![0; signs]));
        let own = OwnWords {
            wrap: offered.wrap.expose(),
            coin: offered.coin.expose(),
            step: offered.step.expose(),
            product: product.expose(),
            wrapped: wrapped.expose(),
            masks,
        };
        let (still_words, lever_words) = (still.expose_mut(), lever.expose_mut());
        open_value(value, shares, own, &mut turned, &mut masked, still_words, lever_words);
        if let Some(slopes) = slopes {
            add_passed(value, shares, own, slopes, still.expose_mut());
        }
        offered.pad.expose_mut().iter_mut().for_each(|pad| *pad <<= value.sign_shift);
        (turned, masked, WaitingValue { still, lever, pad: offered.pad })
    }
}

/// What the server has of one value of every sign when its shares come.
#[derive(Clone, Copy)]
struct OwnWords<'a> {
    wrap: &'a [u64],
    coin: &'a [u64],
    step: &'a [u64],
    product: &'a [u64],
    wrapped: &'a [u64],
    /// p.
    masks: &'a [u64],
}

/// a_m xor q, and A.
#[inline(always)]
fn turn_and_quotient(value: &ValueShape, share: u64, wrap: u64, coin: u64) -> (u64, u64) {
    let f = value.fraction_bits;
    let lifted = share.wrapping_add(value.lift).wrapping_add(low_bits(f)) & low_bits(value.ring);
    let top = value.top_bit(lifted);
    let turn = top ^ coin;
    let wraps = value.wrap_weight.wrapping_mul(top.wrapping_add(signed_by(turn, wrap)));
    (turn, (lifted >> f).wrapping_sub(value.lift >> f).wrapping_sub(wraps))
}

wide! {
    /// d and m of every sign, and what its share will be made of.
    fn open_value(
        value: &ValueShape,
        shares: &[u64],
        own: OwnWords<'_>,
        turned: &mut [u64],
        masked: &mut [u64],
        still: &mut [u64],
        lever: &mut [u64],
    ) {
        let kept = own.wrap.iter().zip(own.coin).zip(own.step);
        let shared = own.product.iter().zip(own.wrapped).zip(own.masks);
        let made = turned.iter_mut().zip(masked).zip(still.iter_mut().zip(lever));
        for (((share, ((wrap, coin), step)), ((product, wrapped), p)), ((turned, masked), (still, lever))) in
            shares.iter().zip(kept).zip(shared).zip(made)
        {
            let (turn, quotient) = turn_and_quotient(value, *share, *wrap, *coin);
            let product = product.wrapping_add(value.wrap_weight.wrapping_mul(wrapped & spread(turn)));
            let change = signed_by(*p, quotient).wrapping_sub(product << 1);
            *turned = turn;
            *masked = change.wrapping_sub(*step) & value.output;
            *still = (quotient & spread(*p)).wrapping_add(product) << value.sign_shift;
            *lever = change << value.sign_shift;
        }
    }
}

wide! {
    /// a A of every sign.
    fn add_passed(value: &ValueShape, shares: &[u64], own: OwnWords<'_>, slopes: &[u64], still: &mut [u64]) {
        let kept = own.wrap.iter().zip(own.coin);
        for (((share, (wrap, coin)), slope), still) in shares.iter().zip(kept).zip(slopes).zip(still) {
            let (_, quotient) = turn_and_quotient(value, *share, *wrap, *coin);
            *still = still.wrapping_add(slope.wrapping_mul(quotient));
        }
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
        let Self { still, lever, pad } = self;
        let start = shares.len();
        shares.extend_from_slice(reply);
        let own = (still.expose(), lever.expose(), pad.expose());
        finish_value(own.0, own.1, own.2, turns, low_bits(output_bits), &mut shares[start..]);
    }
}

wide! {
    /// Turns the words of a reply into the server's shares.
    fn finish_value(still: &[u64], lever: &[u64], pad: &[u64], turns: &[u64], mask: u64, reply: &mut [u64]) {
        let own = still.iter().zip(lever).zip(pad);
        for ((((still, lever), pad), turn), reply) in own.zip(turns).zip(reply) {
            let moved = (lever & spread(*turn)).wrapping_sub(signed_by(*turn, *pad));
            *reply = still.wrapping_add(moved).wrapping_add(*reply) & mask;
        }
    }
}
