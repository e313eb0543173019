//! What each party sees, over all randomness of the other, at widths at which every case can be counted: exactly uniform,
//! whatever the shares are. And what it would see if randomness were used twice.
//!
//! A lane is one assignment of all random bits, with pads from ideal transfers.

use super::chain::{ClientChain, ServerChain, Words, first_level};
use super::client::PreparedValue;
use super::server::{AdvancedValue, OfferedValue};
use super::{GateShape, ideal};
use crate::garble::error::Message;
use crate::garble::sections::unpack_sections;
use crate::secret::Secret;

/// Cuts fields from the number of a lane.
struct Lanes {
    count: u64,
    used: u32,
}

impl Lanes {
    fn of_bits(bits: u32) -> Self {
        Self { count: 1 << bits, used: 0 }
    }

    /// A field of so many random bits, in all lanes.
    fn field(&mut self, bits: u32) -> Words {
        let shift = self.used;
        self.used += bits;
        assert!(self.count >> self.used >= 1, "more fields than random bits");
        Secret::new((0..self.count).map(|lane| lane >> shift & ((1 << bits) - 1)).collect())
    }

    fn constant(&self, value: u64) -> Vec<u64> {
        vec![value; self.count as usize]
    }
}

/// Glues fields of a view together; every word of so many bits must be seen equally often.
fn assert_uniform(fields: &[(&[u64], u32)], case: &str) {
    let bits: u32 = fields.iter().map(|(_, bits)| bits).sum();
    let lanes = fields[0].0.len();
    assert!(lanes >= 1 << bits, "{case}: {lanes} lanes cannot cover a view of {bits} bits");
    let mut seen = vec![0_usize; 1 << bits];
    for lane in 0..lanes {
        let word = fields.iter().rev().fold(0, |word, (values, bits)| {
            assert!(values[lane] >> bits == 0, "{case}: a field is wider than it says");
            word << bits | values[lane]
        });
        seen[word as usize] += 1;
    }
    assert!(seen.iter().all(|times| *times == lanes >> bits), "{case}: the view is not uniform");
}

fn copy(words: &Words) -> Words {
    Secret::new(words.expose().clone())
}

/// Of the words of both choices those that a bit chooses.
fn chosen(bit: u64, words: &[Words; 2]) -> Words {
    copy(&words[bit as usize])
}

/// A chain of two or three bits with all its randomness, and what the client sees of it.
struct EnumeratedChain {
    chain: ServerChain,
    offer: Vec<Words>,
    first: [Words; 2],
    /// By choice, then by color.
    second: Option<[[Words; 2]; 2]>,
}

impl EnumeratedChain {
    const fn random_bits(bits: u32) -> u32 {
        match bits {
            2 => 2 + 1,
            _ => 2 * 2 + 4 + 1 + 1 + 1,
        }
    }

    fn new(bits: u32, lanes: &mut Lanes) -> Self {
        let first = [lanes.field(bits - 1), lanes.field(bits - 1)];
        let difference = lanes.field(bits - 2);
        let difference = difference.expose().iter().map(|sigma| sigma << 1 | 1).collect();
        let stars = lanes.field(bits - 1);
        let stars = Secret::new(stars.expose().iter().map(|stars| stars << 1).collect());
        let levels = vec![first_level(&first[0], &first[1], Secret::new(difference))];
        let mut chain = ServerChain { bits, stars, levels };
        let (mut offer, mut second) = (Vec::new(), None);
        if bits == 3 {
            let pads = [(); 2].map(|()| [lanes.field(1), lanes.field(1)]);
            let (words, level) = chain.offer_level(1, pads[0].each_ref().map(copy), &pads[1]);
            offer.push(words);
            chain.levels.push(level);
            second = Some(pads);
        }
        Self { chain, offer, first, second }
    }

    /// p in every lane.
    fn masks(&self) -> Vec<u64> {
        self.chain.stars.expose().iter().map(|stars| stars >> (self.chain.bits - 1)).collect()
    }

    /// The client's words with their bits, and what it gets.
    fn run(&self, server: u64, client: u64) -> (Vec<(Words, u32)>, Words) {
        let (bits, lanes) = (self.chain.bits, self.chain.stars.expose().len());
        let inputs = vec![client; lanes];
        let mut levels = vec![[chosen(client & 1, &self.first), Secret::new(Vec::new())]];
        let mut seen = vec![(chosen(client & 1, &self.first), bits - 1)];
        if let Some(second) = &self.second {
            let own = &second[(client >> 1 & 1) as usize];
            seen.extend(own.iter().map(|pad| (copy(pad), 1)));
            seen.push((copy(&self.offer[0]), 2));
            levels.push(ClientChain::accept_level(1, own.each_ref().map(copy), &inputs, &self.offer[0]));
        }
        let ends = Secret::new(vec![client & 1 | (client >> (bits - 1) & 1) << 1; lanes]);
        let opening = self.chain.open(&vec![server; lanes]);
        let deltas = ClientChain { ends, levels }.evaluate(&opening);
        seen.extend(opening.into_iter().zip((2..=bits).rev()));
        (seen, deltas)
    }
}

fn fields(seen: &[(Words, u32)]) -> Vec<(&[u64], u32)> {
    seen.iter().map(|(words, bits)| (&words.expose()[..], *bits)).collect()
}

#[test]
fn the_client_sees_uniform_bits_of_a_chain_whatever_the_shares_are() {
    for bits in [2, 3] {
        let mut lanes = Lanes::of_bits(EnumeratedChain::random_bits(bits));
        let enumerated = EnumeratedChain::new(bits, &mut lanes);
        for (server, client) in
            (0..1 << bits).flat_map(|server| (0..1 << bits).map(move |client| (server, client)))
        {
            let (seen, deltas) = enumerated.run(server, client);
            assert_uniform(&fields(&seen), &format!("{bits} bits, {server} + {client}"));
            let sign = 1 ^ (server + client) >> (bits - 1) & 1;
            assert!(deltas.expose().iter().zip(enumerated.masks()).all(|(delta, p)| delta ^ p == sign));
        }
    }
}

fn hashes(low: &Words, high: Option<&Words>) -> Secret<Vec<u128>> {
    let high = |lane: usize| high.map_or(0, |high| u128::from(high.expose()[lane]));
    let hash = |(lane, low): (usize, &u64)| u128::from(*low) | high(lane) << 64;
    Secret::new(low.expose().iter().enumerate().map(hash).collect())
}

/// The gate of a ReLU of three bits, one of them dropped, with given randomness in every lane; or that of another value of the
/// same sign. With a slope, and behind the first, a value is lifted, to a ring of four bits.
struct EnumeratedGate {
    shape: GateShape,
    /// Which of the sign's values it is.
    number: usize,
    /// In two's complement, where there is one.
    slope: Option<u64>,
    lanes: usize,
    /// q.
    coin: Words,
    /// H, by choice.
    wraps: [Words; 2],
    /// h, by choice.
    pads: [Words; 2],
    /// rho.
    turns: Words,
    /// K by choice, then K'.
    reverse: [Words; 4],
    /// r.
    blinds: Words,
}

/// Everything one run of the gate lets the parties see, and what comes out.
struct Run {
    tau: Words,
    /// t and t'.
    advance: Vec<Words>,
    /// d and m.
    opening: [Words; 2],
    reply: Words,
    /// The sum of both shares.
    outcome: Vec<u64>,
}

impl EnumeratedGate {
    fn shape() -> GateShape {
        GateShape::new(3, 1, 3).unwrap()
    }

    fn sloping_shape() -> GateShape {
        GateShape::new(3, 1, 4).unwrap().with_slopes(1).unwrap()
    }

    fn words(&self, value: u64) -> Words {
        Secret::new(vec![value; self.lanes])
    }

    /// Word by word from one of two lists.
    fn pick(bits: &[u64], words: [&Words; 2]) -> Words {
        let word = |(lane, bit): (usize, &u64)| words[*bit as usize].expose()[lane];
        Secret::new(bits.iter().enumerate().map(word).collect())
    }

    /// Both shares and p given. Of a client that follows the protocol `deltas` are the chain's.
    fn run(&self, server: u64, client: u64, chain: &ServerChain, deltas: &[u64]) -> Run {
        let value = self.shape.values().nth(self.number).unwrap();
        let slopes = self.slope.map(|slope| vec![slope; self.lanes]);
        let slopes = slopes.as_deref();
        let both = |words: &[Words; 2]| words.each_ref().map(|words| hashes(words, None));
        let (tau, kept) = OfferedValue::new(&value, &both(&self.pads), &both(&self.wraps), copy(&self.coin));
        let tau = Secret::new(tau);
        let turns = self.turns.expose();
        let own_pad = hashes(&Self::pick(turns, self.pads.each_ref()), None);
        let own_wrap = hashes(&self.wraps[value.top_bit(client) as usize], None);
        let products = [0, 1].map(|choice| hashes(&self.reverse[choice], Some(&self.reverse[2 + choice])));
        let shares = self.words(client);
        let inputs = [&own_pad, &own_wrap, &products[0]];
        let prepared = PreparedValue::new(&value, shares.expose(), self.blinds.expose(), inputs, &tau);
        let mut bytes = Vec::new();
        prepared.advance(&value, &products[1], &mut bytes);
        let sections = [(self.lanes, self.shape.output_bits()), (self.lanes, value.wrap_bits)].into_iter();
        let advance = unpack_sections(Message::GateAdvance, &bytes, sections).unwrap();
        let masks: Vec<u64> = chain.stars.expose().iter().map(|stars| stars >> (chain.bits - 1)).collect();
        let [product, wrapped] =
            [0, 2].map(|first| Self::pick(&masks, [&self.reverse[first], &self.reverse[first + 1]]));
        let held = hashes(&product, Some(&wrapped));
        let kept = AdvancedValue::new(&value, kept, &held, &masks, &advance);
        let (turned, masked, waiting) = kept.open(&value, &masks, self.words(server).expose(), slopes);
        let opening = [Secret::new(turned), Secret::new(masked)];
        let reply = Secret::new(prepared.reply(&value, deltas, turns, &opening, slopes));
        let turned: Vec<u64> = turns.iter().zip(deltas).map(|(turn, delta)| turn ^ delta).collect();
        let (output, mut outcome) = (self.shape.output_bits(), Vec::new());
        waiting.finish(output, &turned, reply.expose(), &mut outcome);
        let sum = |(share, blind): (u64, &u64)| share.wrapping_add(*blind) & ((1 << output) - 1);
        let outcome = outcome.into_iter().zip(self.blinds.expose()).map(sum).collect();
        Run { tau, advance, opening, reply, outcome }
    }
}

/// Chain and gate together.
fn client_view_is_uniform(shape: GateShape, slope: Option<u64>) {
    let output = shape.output_bits();
    let value = shape.values().next().unwrap();
    let mut lanes = Lanes::of_bits(EnumeratedChain::random_bits(2) + 1 + 2 + 2 * output + 1);
    let enumerated = EnumeratedChain::new(2, &mut lanes);
    let constant = |value: u64| Secret::new(lanes.constant(value));
    // The client's own pads and blind are whatever they are.
    let (reverse, blinds) = ([5, 3, 1, 0].map(constant), constant(6));
    let coin = lanes.field(1);
    let wraps = [lanes.field(1), lanes.field(1)];
    let pads = [lanes.field(output), lanes.field(output)];
    let turns = lanes.field(1);
    let lane_count = lanes.count as usize;
    let gate = EnumeratedGate {
        shape,
        number: 0,
        slope,
        lanes: lane_count,
        coin,
        wraps,
        pads,
        turns,
        reverse,
        blinds,
    };
    let all = 1 << value.ring;
    for (server, client) in (0..all).flat_map(|server| (0..all).map(move |client| (server, client))) {
        let (mut seen, deltas) = enumerated.run(shape.server_input(server), shape.client_input(client));
        let Run { tau, opening: [turned, masked], .. } =
            gate.run(server, client, &enumerated.chain, deltas.expose());
        let own_pad = EnumeratedGate::pick(gate.turns.expose(), gate.pads.each_ref());
        let own_wrap = chosen(value.top_bit(client), &gate.wraps);
        seen.extend([(copy(&gate.turns), 1), (own_wrap, 1), (own_pad, output)]);
        seen.extend([(tau, 1), (turned, 1), (masked, output)]);
        assert_uniform(&fields(&seen), &format!("{server} and {client}"));
    }
}

#[test]
fn the_client_sees_uniform_bits_of_a_whole_relu_whatever_the_shares_are() {
    client_view_is_uniform(EnumeratedGate::shape(), None);
}

#[test]
fn the_client_sees_uniform_bits_of_a_gate_with_a_slope_whatever_the_shares_are() {
    client_view_is_uniform(EnumeratedGate::sloping_shape(), Some(3));
}

fn server_view_is_uniform(shape: GateShape, slope: Option<u64>) {
    let (output, ring) = (shape.output_bits(), shape.values().next().unwrap().ring);
    let mut lanes = Lanes::of_bits(output + 1 + 1 + output);
    let (other, other_wrap) = (lanes.field(output), lanes.field(1));
    let (turns, blinds) = (lanes.field(1), lanes.field(output));
    let constant = |value: u64| Secret::new(lanes.constant(value));
    let all = (1 << ring) - 1;
    for case in 0..(all + 1) * (all + 1) * 2 * 2 {
        let (server, client) = (case & all, case >> ring & all);
        let (p, coin) = (case >> (2 * ring) & 1, case >> (2 * ring + 1));
        // The pad of the choice that the server did not make is what it lacks.
        let order = |known: u64, lacking: &Words| match p {
            0 => [constant(known), copy(lacking)],
            _ => [copy(lacking), constant(known)],
        };
        let ([k0, k1], [w0, w1]) = (order(5, &other), order(1, &other_wrap));
        let gate = EnumeratedGate {
            shape,
            number: 0,
            slope,
            lanes: lanes.count as usize,
            coin: constant(coin),
            wraps: [1, 0].map(constant),
            pads: [2, 7].map(constant),
            turns: copy(&turns),
            reverse: [k0, k1, w0, w1],
            blinds: copy(&blinds),
        };
        let chain = ServerChain { bits: 2, stars: constant(p << 1), levels: Vec::new() };
        let delta = u64::from(ideal::sign(&shape, server, client)) ^ p;
        let Run { advance, reply, .. } = gate.run(server, client, &chain, &lanes.constant(delta));
        let turned = turns.expose().iter().map(|turn| turn ^ delta).collect();
        let [product, wrap]: [Words; 2] = advance.try_into().unwrap();
        let seen = [(product, output), (wrap, 1), (Secret::new(turned), 1), (reply, output)];
        assert_uniform(&fields(&seen), &format!("{server} and {client}, p {p}, q {coin}"));
    }
}

#[test]
fn the_server_sees_uniform_bits_of_a_gate_whatever_the_shares_are() {
    server_view_is_uniform(EnumeratedGate::shape(), None);
}

#[test]
fn the_server_sees_uniform_bits_of_a_gate_with_a_slope_whatever_the_shares_are() {
    server_view_is_uniform(EnumeratedGate::sloping_shape(), Some(13));
}

/// Gates of two values of one sign, with slopes or without.
fn shapes_of_two_values() -> [(GateShape, Option<u64>); 2] {
    let shape = GateShape::new(3, 1, 4).unwrap().with_values_per_sign(2).unwrap();
    [(shape, None), (shape.with_slopes(1).unwrap(), Some(13))]
}

/// Each value of the shapes above, with p, rho, the sign and both shares: what is the same for all its values, or given.
fn values_of_one_sign(mut check: impl FnMut(GateShape, usize, Option<u64>, [u64; 5])) {
    for (shape, slope) in shapes_of_two_values() {
        for number in 0..2 {
            let ring = shape.values().nth(number).unwrap().ring;
            let all = (1 << ring) - 1;
            for case in 0..8 << (2 * ring) {
                let (server, client) = (case >> 3 & all, case >> (3 + ring));
                check(shape, number, slope, [case & 1, case >> 1 & 1, case >> 2 & 1, server, client]);
            }
        }
    }
}

/// Why values may have p and rho in common: given both and the sign, what the client sees of each value is uniform, by coins
/// and pads of that value alone. So what it sees of all of them is.
#[test]
fn the_client_sees_uniform_bits_of_each_value_given_what_they_share() {
    values_of_one_sign(|shape, number, slope, [p, rho, sign, server, client]| {
        let value = shape.values().nth(number).unwrap();
        let (output, wrap_bits) = (shape.output_bits(), value.wrap_bits);
        let mut lanes = Lanes::of_bits(1 + 2 * wrap_bits + 2 * output);
        let coin = lanes.field(1);
        let wraps = [(); 2].map(|()| lanes.field(wrap_bits));
        let pads = [(); 2].map(|()| lanes.field(output));
        let constant = |value: u64| Secret::new(lanes.constant(value));
        let (own_pad, own_wrap) = (copy(&pads[rho as usize]), chosen(value.top_bit(client), &wraps));
        let gate = EnumeratedGate {
            shape,
            number,
            slope,
            lanes: lanes.count as usize,
            coin,
            wraps,
            pads,
            turns: constant(rho),
            reverse: [5, 3, 1, 0].map(constant),
            blinds: constant(6),
        };
        let chain = ServerChain { bits: 2, stars: constant(p << 1), levels: Vec::new() };
        let Run { tau, opening: [turned, masked], .. } =
            gate.run(server, client, &chain, &lanes.constant(sign ^ p));
        let seen =
            [(own_wrap, wrap_bits), (own_pad, output), (tau, wrap_bits), (turned, 1), (masked, output)];
        assert_uniform(&fields(&seen), &format!("value {number}, {server} and {client}, p {p}, rho {rho}"));
    });
}

/// The same for the server, to whom eps is what rho makes of the sign.
#[test]
fn the_server_sees_uniform_bits_of_each_value_given_what_they_share() {
    values_of_one_sign(|shape, number, slope, [p, rho, sign, server, client]| {
        let (output, wrap_bits) = (shape.output_bits(), shape.values().nth(number).unwrap().wrap_bits);
        let mut lanes = Lanes::of_bits(2 * output + wrap_bits);
        let (other, other_wrap) = (lanes.field(output), lanes.field(wrap_bits));
        let blinds = lanes.field(output);
        let constant = |value: u64| Secret::new(lanes.constant(value));
        let order = |known: u64, lacking: Words| match p {
            0 => [constant(known), lacking],
            _ => [lacking, constant(known)],
        };
        let ([k0, k1], [w0, w1]) = (order(5, other), order(1, other_wrap));
        let gate = EnumeratedGate {
            shape,
            number,
            slope,
            lanes: lanes.count as usize,
            coin: constant(1),
            wraps: [1, 0].map(constant),
            pads: [2, 7].map(constant),
            turns: constant(rho),
            reverse: [k0, k1, w0, w1],
            blinds,
        };
        let chain = ServerChain { bits: 2, stars: constant(p << 1), levels: Vec::new() };
        let Run { advance, reply, .. } = gate.run(server, client, &chain, &lanes.constant(sign ^ p));
        let [product, wrap]: [Words; 2] = advance.try_into().unwrap();
        let seen = [(product, output), (wrap, wrap_bits), (reply, output)];
        assert_uniform(&fields(&seen), &format!("value {number}, {server} and {client}, p {p}, rho {rho}"));
    });
}

/// What a false eps is good for, with the reply that goes with it: the sign is what the client says, and the value comes out by it.
/// Compared with an honest answer that tells the client the sign; p has no part in it.
#[test]
fn a_client_that_turns_its_bit_gets_the_same_value_by_the_other_sign() {
    let plain = GateShape::new(3, 1, 4).unwrap().with_values_per_sign(2).unwrap();
    let sloping = EnumeratedGate::sloping_shape().with_values_per_sign(2).unwrap();
    for (shape, number, slope) in
        [(plain, 0, None), (plain, 1, None), (sloping, 0, Some(3)), (sloping, 1, Some(3))]
    {
        let mut lanes = Lanes::of_bits(1 + 1 + 2 + 1 + 3);
        let (masks, coin, turns) = (lanes.field(1), lanes.field(1), lanes.field(1));
        let (wraps, blinds) = ([lanes.field(1), lanes.field(1)], lanes.field(3));
        let constant = |value: u64| Secret::new(lanes.constant(value));
        let stars = masks.expose().iter().map(|p| p << 1).collect();
        let chain = ServerChain { bits: 2, stars: Secret::new(stars), levels: Vec::new() };
        let gate = EnumeratedGate {
            shape,
            number,
            slope,
            lanes: lanes.count as usize,
            coin,
            wraps,
            pads: [2, 7].map(constant),
            turns,
            reverse: [5, 3, 1, 0].map(constant),
            blinds,
        };
        let ring = shape.values().nth(number).unwrap().ring;
        let all = 1 << ring;
        for (server, client) in (0..all).flat_map(|server| (0..all).map(move |client| (server, client))) {
            for says in [0, 1] {
                let deltas: Vec<u64> = masks.expose().iter().map(|p| p ^ says).collect();
                let Run { outcome, .. } = gate.run(server, client, &chain, &deltas);
                assert!(outcome.iter().all(|came| *came == outcome[0]), "whatever p is: {server} + {client}");
                // Values that are lifted have their range, others a top bit that is known where they are not negative.
                let value = crate::garble::ideal::signed((server + client) & (all - 1), ring);
                let is_lifted = number > 0 || slope.is_some();
                let fits =
                    if is_lifted { (-4..=2).contains(&value) } else { ideal::sign(&shape, server, client) };
                if says == 0 && slope.is_none() || fits {
                    let slope = slope.unwrap_or(0) as i64;
                    let expected = ideal::gate(&shape, number, says == 1, slope, server, client);
                    assert_eq!(outcome[0], expected, "{shape:?} {number}: {server} + {client}");
                }
            }
        }
    }
}

/// The reason why every value of a sign has pads of its own: with the same pads for two of them the client sees the difference of
/// what the server hides.
#[test]
fn pads_that_two_values_share_give_their_difference_away() {
    let shape = GateShape::new(3, 1, 4).unwrap().with_values_per_sign(3).unwrap();
    let output = shape.output_bits();
    let mut lanes = Lanes::of_bits(4 * output);
    let pads = [(); 2].map(|()| [lanes.field(output), lanes.field(output)]);
    // Two values that follow, of these shares at the server.
    let differences = |shares: [u64; 2], pads: [&[Words; 2]; 2]| {
        let [first, second] = [0, 1].map(|number| {
            let constant = |value: u64| Secret::new(lanes.constant(value));
            let gate = EnumeratedGate {
                shape,
                number: 1 + number,
                slope: None,
                lanes: lanes.count as usize,
                coin: constant(1),
                wraps: [1, 0].map(constant),
                pads: pads[number].each_ref().map(copy),
                turns: constant(0),
                reverse: [5, 3, 1, 0].map(constant),
                blinds: constant(6),
            };
            let chain = ServerChain { bits: 2, stars: constant(0), levels: Vec::new() };
            gate.run(shares[number], 1, &chain, &lanes.constant(1)).opening[1].expose().clone()
        });
        let mut seen = vec![0_u64; 1 << output];
        for (first, second) in first.iter().zip(&second) {
            seen[(first.wrapping_sub(*second) & ((1 << output) - 1)) as usize] += 1;
        }
        seen
    };
    for shares in [[2, 2], [2, 6], [4, 0]] {
        let shared = differences(shares, [&pads[0], &pads[0]]);
        let certain: Vec<usize> = (0..shared.len()).filter(|place| shared[*place] > 0).collect();
        assert_eq!((certain.len(), certain[0] == 0), (1, shares[0] == shares[1]), "{shares:?}");
        let apart = differences(shares, [&pads[0], &pads[1]]);
        assert!(apart.iter().all(|times| *times == lanes.count >> output), "{shares:?}");
    }
}

/// The reason why p belongs to one inference: with the same p twice the client learns whether two signs differ.
#[test]
fn a_mask_that_is_used_twice_gives_the_difference_of_signs_away() {
    let mut lanes = Lanes::of_bits(EnumeratedChain::random_bits(3));
    let enumerated = EnumeratedChain::new(3, &mut lanes);
    let deltas = |server: u64| enumerated.run(server, 2).1;
    let differs = |first: u64, second: u64| {
        let (first, second) = (deltas(first), deltas(second));
        let pairs = first.expose().iter().zip(second.expose());
        pairs.filter(|(first, second)| first != second).count() as u64
    };
    // 2 + 1 is not negative in three bits, 2 + 2 is.
    assert_eq!((differs(1, 0), differs(1, 2)), (0, lanes.count));
    // With masks of their own the two say nothing of each other.
    let [first, second] = [deltas(1), deltas(2)];
    let ones = |words: &Words| words.expose().iter().sum::<u64>();
    assert_eq!((ones(&first), ones(&second)), (lanes.count / 2, lanes.count / 2));
}

/// The reason why rho belongs to one inference: with the same rho twice the server, who knows both p, learns whether two signs
/// differ.
#[test]
fn a_turn_that_is_used_twice_gives_the_difference_of_signs_away() {
    let (mut lanes, mut others) = (Lanes::of_bits(12), Lanes::of_bits(12));
    let [first, second] = [EnumeratedChain::new(3, &mut lanes), EnumeratedChain::new(3, &mut others)];
    let turns = lanes.field(1);
    let sent = |chain: &EnumeratedChain, server: u64| {
        let deltas = chain.run(server, 2).1;
        let turned = deltas.expose().iter().zip(turns.expose()).map(|(delta, turn)| delta ^ turn);
        turned.zip(chain.masks()).map(|(turned, mask)| turned ^ mask).collect::<Vec<_>>()
    };
    let differing =
        |left: &[u64], right: &[u64]| left.iter().zip(right).filter(|(a, b)| a != b).count() as u64;
    assert_eq!(differing(&sent(&first, 1), &sent(&second, 0)), 0);
    assert_eq!(differing(&sent(&first, 1), &sent(&second, 2)), lanes.count);
    // One alone is a coin, whatever the sign.
    let ones = |server: u64| sent(&first, server).iter().sum::<u64>();
    assert_eq!((ones(1), ones(2)), (lanes.count / 2, lanes.count / 2));
}
