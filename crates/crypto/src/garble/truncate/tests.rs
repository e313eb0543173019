use super::*;
use crate::garble::hash::{HashCounter, HashKey};
use crate::garble::ideal;
use crate::garble::label::Offset;
use crate::garble::testing::{deal, random_values};
use crate::random::Seed;

/// The whole protocol; the server's shares plus the client's blinds.
fn run(shape: TruncationShape, server: &[u64], client: &[u64], factors: &[u64]) -> Vec<u64> {
    let count = server.len();
    let mut generator = Seed::from_bytes([6; 32]).generator();
    let offset = Offset::random(&mut generator);
    let key = HashKey::random(&mut generator);
    let counters = || HashCounter::new().take(TruncationShape::hash_count(count)).unwrap();
    let (zero, chosen) = deal(shape.choices(client).expose(), count, &offset, &mut generator);
    let blinds = random_values(count, shape.output_bits(), 9);

    let (offer, offered) =
        OfferedTruncation::new(shape, key, &mut counters(), &offset, &zero, &mut generator).unwrap();
    let offer = TruncationOffer::from_bytes(&shape, count, &offer.to_bytes(&shape)).unwrap();
    let own = ClientInputs { shares: client, blinds: &blinds, labels: &chosen };
    let prepared = PreparedTruncation::new(shape, key, &mut counters(), own, factors, &offer).unwrap();
    // Both sides forget everything but the bytes that a store would keep.
    let stored = offered.into_bytes();
    assert_eq!(stored.expose().len(), OfferedTruncation::stored_bytes(&shape, count));
    let offered = OfferedTruncation::from_bytes(&shape, count, stored.expose()).unwrap();
    let stored = prepared.into_bytes();
    assert_eq!(stored.expose().len(), PreparedTruncation::stored_bytes(&shape, count));
    let prepared = PreparedTruncation::from_bytes(&shape, count, stored.expose()).unwrap();
    let (opening, waiting) = offered.open(server).unwrap();
    let opening = TruncationOpening::from_bytes(&shape, count, &opening.to_bytes(&shape)).unwrap();
    let reply = prepared.reply(&opening, factors).unwrap().to_bytes(&shape);
    assert_eq!(reply.len(), TruncationReply::length(&shape, count));
    let reply = TruncationReply::from_bytes(&shape, count, &reply).unwrap();
    let shares = waiting.finish(&reply, factors).unwrap();
    shares
        .expose()
        .iter()
        .zip(blinds)
        .map(|(share, blind)| share.wrapping_add(blind) & shape.output_mask())
        .collect()
}

/// Shares of the values z: `client` at random or given.
fn check(shape: TruncationShape, values: &[(i64, u64)]) {
    let client: Vec<u64> = values.iter().map(|(_, b)| *b).collect();
    let server: Vec<u64> =
        values.iter().map(|(z, b)| (*z as u64).wrapping_sub(*b) & low_bits(shape.width())).collect();
    let got = run(shape, &server, &client, &[]);
    let unit = 1_i64 << shape.fraction_bits();
    for (((z, b), a), got) in values.iter().zip(&server).zip(got) {
        assert_eq!(got, ideal::truncate(&shape, *a, *b), "{shape:?}: z = {z}, b = {b}");
        let difference =
            i128::from(ideal::signed(got, shape.output_bits())) * i128::from(unit) - i128::from(*z);
        assert!(difference.abs() < i128::from(unit), "{shape:?}: z = {z}, b = {b}");
    }
}

fn range(shape: &TruncationShape) -> std::ops::RangeInclusive<i64> {
    let quarter = 1_i64 << (shape.width() - 2);
    -quarter..=quarter - (1 << shape.fraction_bits())
}

#[test]
fn every_value_and_share_of_nine_bits_is_right() {
    for output_bits in [7, 9, 14] {
        let shape = TruncationShape::new(9, 3, output_bits).unwrap();
        let all: Vec<(i64, u64)> = range(&shape).flat_map(|z| (0..512).map(move |b| (z, b))).collect();
        check(shape, &all);
    }
    for (width, fraction_bits, output_bits) in [(2, 0, 5), (6, 0, 12), (8, 6, 8), (8, 1, 64)] {
        let shape = TruncationShape::new(width, fraction_bits, output_bits).unwrap();
        let all: Vec<(i64, u64)> = range(&shape).flat_map(|z| (0..1 << width).map(move |b| (z, b))).collect();
        check(shape, &all);
    }
}

#[test]
fn a_million_random_values_are_right_at_each_width() {
    for width in [20, 24, 32, 41] {
        let shape = TruncationShape::new(width, 12, width).unwrap();
        let count = 1_000_000;
        let (low, high) = range(&shape).into_inner();
        let span = (high - low + 1) as u64;
        let clients = random_values(count, width, 2);
        let values = random_values(count, 64, 1);
        let mut cases: Vec<(i64, u64)> =
            values.iter().zip(&clients).map(|(z, b)| (low + (z % span) as i64, *b)).collect();
        cases.extend([low, low + 1, -1, 0, 1, high - 1, high].into_iter().zip(clients));
        check(shape, &cases);
    }
}

#[test]
fn factors_multiply_the_quotient_whatever_their_sign() {
    for (width, fraction, output) in [(8, 3, 14), (9, 0, 16)] {
        let shape = TruncationShape::new(width, fraction, output).unwrap();
        for factor in [0_i64, 1, -1, 2, 16, 21, -37] {
            let (client, server): (Vec<u64>, Vec<u64>) = range(&shape)
                .flat_map(|z| (0..1_u64 << width).step_by(7).map(move |b| (b, (z as u64).wrapping_sub(b))))
                .map(|(b, a)| (b, a & low_bits(width)))
                .unzip();
            let got = run(shape, &server, &client, &vec![factor as u64; client.len()]);
            for ((a, b), got) in server.iter().zip(&client).zip(got) {
                let quotient = ideal::signed(ideal::truncate(&shape, *a, *b), output);
                assert_eq!(got, (quotient * factor) as u64 & low_bits(output), "{shape:?} {factor}");
            }
        }
    }
}

#[test]
fn the_client_shifts_the_rounding_without_bias() {
    let shape = TruncationShape::new(8, 3, 8).unwrap();
    for z in range(&shape) {
        let quotients = (0..256_u64).map(|b| {
            let a = (z as u64).wrapping_sub(b) & 255;
            ideal::signed(ideal::truncate(&shape, a, b), 8)
        });
        assert_eq!(quotients.sum::<i64>() * 8, z * 256, "unbiased at {z}");
    }
}

#[test]
fn the_working_point_costs_what_the_design_says() {
    let shape = TruncationShape::new(32, 12, 32).unwrap();
    assert_eq!(TruncationOffer::length(&shape, 1000), 1500);
    assert_eq!(TruncationOpening::length(&shape, 1000), 125);
    assert_eq!(TruncationReply::length(&shape, 1000), 4000);
}

#[test]
fn wrong_counts_and_lengths_are_refused() {
    let shape = TruncationShape::new(32, 12, 32).unwrap();
    assert!(TruncationOffer::from_bytes(&shape, 10, &[0; 14]).is_err());
    assert!(TruncationOffer::from_bytes(&shape, 10, &[0; 16]).is_err());
    assert!(TruncationOpening::from_bytes(&shape, 10, &[0; 1]).is_err());
    assert!(TruncationOpening::from_bytes(&shape, 10, &[0, 0xff]).is_err());
    assert!(TruncationReply::from_bytes(&shape, 10, &[0; 41]).is_err());
    let length = OfferedTruncation::stored_bytes(&shape, 10);
    assert!(OfferedTruncation::from_bytes(&shape, 10, &vec![0; length]).is_ok());
    assert!(OfferedTruncation::from_bytes(&shape, 10, &vec![0; length - 1]).is_err());
    assert!(OfferedTruncation::from_bytes(&shape, 10, &vec![0xff; length]).is_err());
    let length = PreparedTruncation::stored_bytes(&shape, 10);
    let prepared = || PreparedTruncation::from_bytes(&shape, 10, &vec![0; length]).unwrap();
    assert!(PreparedTruncation::from_bytes(&shape, 10, &vec![0; length + 1]).is_err());
    assert!(PreparedTruncation::from_bytes(&shape, 10, &vec![0xff; length]).is_err());
    let opening = TruncationOpening::from_bytes(&shape, 10, &[0; 2]).unwrap();
    assert!(prepared().reply(&opening, &[1; 9]).is_err());
    assert!(prepared().reply(&opening, &[]).is_ok() && prepared().reply(&opening, &[1; 10]).is_ok());
    assert!(TruncationShape::new(32, 31, 32).is_err());
    assert!(TruncationShape::new(32, 12, 20).is_err() && TruncationShape::new(32, 12, 21).is_ok());
}
