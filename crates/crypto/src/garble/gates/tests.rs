use super::*;
use crate::garble::bits::pack;
use crate::garble::hash::HashCounter;
use crate::garble::testing::{deal, random_values};
use crate::random::{Generator, Seed};
use crate::secret::Secret;
use proptest::prelude::*;

fn generator(seed: u8) -> Generator {
    Seed::from_bytes([seed; 32]).generator()
}

/// Labels of groups of choices, each padded to whole bytes, without the padding.
fn deal_groups(
    choices: &[u8],
    signs: usize,
    offset: &Offset,
    generator: &mut Generator,
) -> [Vec<WireLabel>; 2] {
    let mut labels = [Vec::new(), Vec::new()];
    for group in choices.chunks_exact(signs.div_ceil(8)) {
        let (zero, chosen) = deal(group, signs, offset, generator);
        labels[0].extend(zero);
        labels[1].extend(chosen);
    }
    labels
}

/// The whole course through bytes, stored forms included: the sums of both parties' shares of what comes out.
fn run(shape: GateShape, server: &[u64], client: &[u64], slopes: &[i64], seed: u8) -> Vec<u64> {
    let values = server.len();
    let signs = values / shape.values_per_sign();
    let mut generator = generator(seed);
    let [offset, reverse_offset] = [(); 2].map(|()| Offset::random(&mut generator));
    let [key, reverse_key] = [(); 2].map(|()| HashKey::random(&mut generator));
    let (coins, masks) = (random_values(signs, 1, seed), random_values(signs, 1, seed.wrapping_add(77)));
    let blinds = random_values(values, shape.output_bits(), 9);
    let [zero, chosen] = deal_groups(shape.choices(client, &coins).expose(), signs, &offset, &mut generator);
    let (reverse_zero, reverse_chosen) = deal(&pack(&masks, 1), signs, &reverse_offset, &mut generator);
    let counters = || HashCounter::new().take(shape.hash_count(signs)).unwrap();
    let reverse_counters = || HashCounter::new().take(shape.reverse_hash_count(signs)).unwrap();

    let reverse = ReverseReceiver { choices: Secret::new(masks), labels: Secret::new(reverse_chosen) };
    let (mut offer, mut advance, mut opening, mut reply) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let forward = SenderSide { key, counters: counters(), offset: &offset, zero_labels: &zero };
    let offered = OfferedGates::new(shape, forward, reverse, &mut generator, &mut offer).unwrap();
    let own = ClientInputs { shares: client, coins: &coins, blinds: &blinds, labels: &chosen };
    let reverse = SenderSide {
        key: reverse_key,
        counters: reverse_counters(),
        offset: &reverse_offset,
        zero_labels: &reverse_zero,
    };
    let prepared =
        PreparedGates::new(shape, key, &mut counters(), own, reverse, &offer, &mut advance).unwrap();
    let advanced = offered.take_advance(reverse_key, &mut reverse_counters(), &advance).unwrap();
    // Both sides forget everything but the bytes that a store would hold.
    let stored = advanced.into_bytes();
    assert_eq!(stored.expose().len(), AdvancedGates::stored_bytes(&shape, signs));
    let advanced = AdvancedGates::from_bytes(&shape, signs, stored.expose()).unwrap();
    let stored = prepared.into_bytes();
    assert_eq!(stored.expose().len(), PreparedGates::stored_bytes(&shape, signs));
    let prepared = PreparedGates::from_bytes(&shape, signs, stored.expose()).unwrap();

    let slopes: Vec<u64> = slopes.iter().map(|slope| *slope as u64).collect();
    let waiting = advanced.open(server, &slopes, &mut opening).unwrap();
    prepared.reply(&opening, &slopes, &mut reply).unwrap();
    let lengths = [&offer, &advance, &opening, &reply].map(Vec::len);
    let planned =
        [GateShape::offer_bytes, GateShape::advance_bytes, GateShape::opening_bytes, GateShape::reply_bytes];
    assert_eq!(lengths, planned.map(|length| length(&shape, signs)));
    let shares = waiting.finish(&reply).unwrap();
    let sum = |(share, blind): (&u64, &u64)| share.wrapping_add(*blind) & low_bits(shape.output_bits());
    shares.expose().iter().zip(&blinds).map(sum).collect()
}

/// What a trusted third party makes of the same shares.
fn expected(shape: &GateShape, server: &[u64], client: &[u64], slopes: &[i64]) -> Vec<u64> {
    let signs = server.len() / shape.values_per_sign();
    let value = |place: usize| {
        let (number, sign) = (place / signs, place % signs);
        let sign = ideal::sign(shape, server[sign], client[sign]);
        let slope = slopes.get(place).copied().unwrap_or(0);
        ideal::gate(shape, number, sign, slope, server[place], client[place])
    };
    (0..server.len()).map(value).collect()
}

fn all_pairs(width: u32) -> (Vec<u64>, Vec<u64>) {
    (0..1_u64 << (2 * width)).map(|word| (word >> width, word & low_bits(width))).unzip()
}

#[test]
fn relus_of_all_pairs_of_shares_are_right() {
    for (width, fraction, output) in
        [(2, 0, 3), (3, 1, 3), (3, 0, 9), (4, 1, 6), (5, 2, 4), (6, 0, 7), (6, 3, 6), (8, 3, 12), (8, 0, 63)]
    {
        let shape = GateShape::new(width, fraction, output).unwrap();
        let (server, client) = all_pairs(width);
        for seed in 1..if width < 6 { 9 } else { 3 } {
            let made = run(shape, &server, &client, &[], seed);
            assert_eq!(made, expected(&shape, &server, &client, &[]), "{shape:?}");
        }
    }
}

/// With a slope the compared value is wanted where its sign is zero, too; its range is that of the others.
#[test]
fn slopes_pass_a_part_of_every_value_whatever_its_sign() {
    for (width, fraction, output, bits) in [(4, 1, 12, 0), (5, 2, 12, 4), (6, 0, 14, 2)] {
        let shape = GateShape::new(width, fraction, output).unwrap().with_slopes(bits).unwrap();
        let half = 1_i64 << (width - 1);
        let (mut server, mut client, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for value in -half..=half - (1 << fraction) {
            for share in 0..1_u64 << (width + 1) {
                server.push((value as u64).wrapping_sub(share) & low_bits(width + 1));
                client.push(share);
                values.push(value);
            }
        }
        for slope in [0, 1, -1, 5, -16] {
            let slopes = vec![slope; server.len()];
            let made = run(shape, &server, &client, &slopes, 4);
            assert_eq!(made, expected(&shape, &server, &client, &slopes), "{shape:?} {slope}");
            for (value, made) in values.iter().zip(made) {
                let factor = if *value >= 0 { (1 << bits) + slope } else { slope };
                let made = crate::garble::ideal::signed(made, output) << fraction;
                let off = (made - factor * value).abs();
                // Below zero, and within a unit of it, the sign is a coin.
                let may_flip = -(1 << fraction) < *value && *value < 0;
                let room = factor.abs().max(if may_flip { (1 << bits) + slope.abs() } else { 0 });
                assert!(off <= room << fraction, "{shape:?} {slope} {value}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn values_that_share_a_sign_are_right_at_every_width(
        width in 4_u32..50,
        part in 0.0..1.0,
        more in 2_u32..12,
        values in 1_usize..6,
        signs in 1_usize..200,
        slope_bits in proptest::option::of(0_u32..5),
        seed in any::<u8>(),
    ) {
        let fraction = (f64::from(width - 2) * part) as u32;
        let output = (width - fraction + more).min(63);
        let mut shape = GateShape::new(width, fraction, output).unwrap().with_values_per_sign(values).unwrap();
        let count = signs * values;
        let mut slopes = Vec::new();
        if let Some(bits) = slope_bits {
            shape = shape.with_slopes(bits).unwrap();
            slopes = random_values(count, 8, seed.wrapping_add(3)).into_iter().map(|word| word as i64 - 128).collect();
        }
        let client = random_values(count, width + 1, seed.wrapping_add(1));
        // Followers, and with slopes all values, lie in the range of known-MSB truncation; what is only compared may be anything.
        let room = low_bits(width) - low_bits(fraction);
        let is_free = |place: usize| place < signs && slope_bits.is_none();
        let value = |(place, word): (usize, u64)| {
            if is_free(place) { word } else { (word % room).wrapping_sub(1 << (width - 1)) }
        };
        let words = random_values(count, 63, seed.wrapping_add(2)).into_iter().enumerate().map(value);
        let server: Vec<u64> = words.zip(&client)
            .map(|(value, client)| value.wrapping_sub(*client) & low_bits(width + 1))
            .collect();
        let made = run(shape, &server, &client, &slopes, seed);
        prop_assert_eq!(made, expected(&shape, &server, &client, &slopes));
    }
}

#[test]
fn the_quotient_is_rounded_without_bias() {
    let shape = GateShape::new(8, 3, 12).unwrap();
    for x in 0..(1_u64 << 7) - 8 {
        let sum: u64 = (0..256_u64)
            .map(|client| ideal::gate(&shape, 0, true, 0, x.wrapping_sub(client) & 255, client))
            .sum();
        assert_eq!(8 * sum, 256 * x);
    }
}

/// The table of the security chapter.
#[test]
fn the_working_point_costs_what_the_docs_say() {
    let shape = GateShape::new(30, 16, 31).unwrap();
    assert_eq!(shape.compared_bits(), 14);
    assert_eq!((shape.transfers_per_sign(), shape.offer_bytes(8000)), (15, 90_000 + 17_000));
    assert_eq!((shape.advance_bytes(8000), shape.opening_bytes(8000)), (48_000, 104_000 + 32_000));
    assert_eq!(shape.reply_bytes(8000), 32_000);
    let stored = [PreparedGates::stored_bytes(&shape, 8000), AdvancedGates::stored_bytes(&shape, 8000)];
    assert!(stored.iter().all(|bytes| *bytes < 8000 * 60), "{stored:?}");
    // A further value of a sign: one transfer, 63 bits before the image and 63 after.
    let shared = shape.with_values_per_sign(2).unwrap();
    let more = |length: fn(&GateShape, usize) -> usize| length(&shared, 8000) - length(&shape, 8000);
    assert_eq!(shared.transfers_per_sign(), 16);
    assert_eq!(more(GateShape::offer_bytes) + more(GateShape::advance_bytes), 63_000);
    assert_eq!(more(GateShape::opening_bytes) + more(GateShape::reply_bytes), 63_000);
}

#[test]
fn wrong_lengths_and_padding_are_refused() {
    let shape = GateShape::new(10, 3, 13).unwrap();
    let signs = 5;
    for length in [AdvancedGates::stored_bytes(&shape, signs), PreparedGates::stored_bytes(&shape, signs)] {
        for bytes in [vec![0; length - 1], vec![0; length + 1], vec![0xff; length]] {
            assert!(AdvancedGates::from_bytes(&shape, signs, &bytes).is_err());
            assert!(PreparedGates::from_bytes(&shape, signs, &bytes).is_err());
        }
    }
    let advanced = || {
        let length = AdvancedGates::stored_bytes(&shape, signs);
        AdvancedGates::from_bytes(&shape, signs, &vec![0; length]).unwrap()
    };
    let prepared = || {
        let length = PreparedGates::stored_bytes(&shape, signs);
        PreparedGates::from_bytes(&shape, signs, &vec![0; length]).unwrap()
    };
    assert!(advanced().open(&[0; 4], &[], &mut Vec::new()).is_err());
    assert!(advanced().open(&[0; 5], &[0; 5], &mut Vec::new()).is_err());
    let waiting = || advanced().open(&[0; 5], &[], &mut Vec::new()).unwrap();
    let length = shape.reply_bytes(signs);
    assert!(waiting().finish(&vec![0; length]).is_ok());
    assert!(waiting().finish(&vec![0; length - 1]).is_err());
    assert!(waiting().finish(&vec![0xff; length]).is_err());
    let length = shape.opening_bytes(signs);
    assert!(prepared().reply(&vec![0; length], &[], &mut Vec::new()).is_ok());
    assert!(prepared().reply(&vec![0; length], &[1; 5], &mut Vec::new()).is_err());
    assert!(prepared().reply(&vec![0; length + 1], &[], &mut Vec::new()).is_err());
    assert!(prepared().reply(&vec![0xff; length], &[], &mut Vec::new()).is_err());
}

#[test]
fn shapes_out_of_range_are_refused() {
    assert!(GateShape::new(63, 10, 60).is_err());
    assert!(GateShape::new(10, 9, 20).is_err());
    assert!(GateShape::new(10, 3, 7).is_err() && GateShape::new(10, 3, 8).is_ok());
    let shape = GateShape::new(10, 3, 8).unwrap();
    assert!(shape.with_values_per_sign(2).is_err() && shape.with_values_per_sign(0).is_err());
    assert!(shape.with_slopes(4).is_err() && GateShape::new(10, 3, 9).unwrap().with_slopes(4).is_ok());
    assert!(GateShape::new(10, 3, 30).unwrap().with_slopes(9).is_err());
}
