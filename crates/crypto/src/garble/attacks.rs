//! Attacks on weakened variants, which must succeed there and fail here.

use std::collections::BTreeMap;
use std::sync::Arc;

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use super::hash::{HashCounter, HashKey, KeyStream};
use super::kernel::{AndInputs, GROUP, Kernel, KeyBatch, sigma};
use super::label::{Offset, WireLabel};
use super::layer::Layer;
use super::relu::{ReluForm, ReluShape, Rounding};
use super::workspace::Workspace;
use crate::cpu::CpuFeatures;
use crate::random::{Generator, Seed};

fn generator() -> Generator {
    Seed::from_bytes([11; 32]).generator()
}

fn kernel() -> Kernel {
    Kernel::for_cpu(CpuFeatures::available())
}

fn encrypt(key: u128, block: u128) -> u128 {
    let mut block = block.to_le_bytes().into();
    Aes128::new(&key.to_le_bytes().into()).encrypt_block(&mut block);
    u128::from_le_bytes(block.into())
}

fn decrypt(key: u128, block: u128) -> u128 {
    let mut block = block.to_le_bytes().into();
    Aes128::new(&key.to_le_bytes().into()).decrypt_block(&mut block);
    u128::from_le_bytes(block.into())
}

fn unsigma(mixed: u128) -> u128 {
    let (high, low) = (mixed >> 64, mixed & u128::from(u64::MAX));
    low << 64 | (high ^ low)
}

/// The generator's halves that our kernel makes of a gate, with two keys of the batch.
fn our_halves(keys: &KeyBatch, key: usize, offset: u128, left: &[u128], right: &[u128]) -> Vec<u128> {
    let (mut out, mut tables) = (vec![0; left.len()], vec![0; 32 * left.len()]);
    let gate = AndInputs { left, right, shared: None };
    kernel().garble_and(keys, key, offset, &gate, &mut out, &mut tables);
    tables.as_chunks().0[..left.len()].iter().map(|half| u128::from_le_bytes(*half)).collect()
}

#[test]
fn a_hash_without_sigma_gives_the_offset_away_and_ours_does_not() {
    let mut generator = generator();
    for _ in 0..200 {
        let key = generator.next_u128();
        let offset = generator.next_u128() | 1;
        let (left, right) = (generator.next_u128(), generator.next_u128() | 1);

        // The weakened hash is AES_k(x) xor x. The evaluator holds the left label and its table.
        let weak_hash = |label: u128| encrypt(key, label) ^ label;
        let weak_half = weak_hash(left) ^ weak_hash(left ^ offset) ^ offset;
        assert_eq!(decrypt(key, weak_half ^ weak_hash(left) ^ left) ^ left, offset);

        let mut keys = KeyBatch::default();
        kernel().expand(key, 0, &mut keys);
        let half = our_halves(&keys, 0, offset, &[left; GROUP], &[right; GROUP])[0];
        let hash = encrypt(key, sigma(left)) ^ sigma(left);
        // The same inversion, with every reading of which sigma might cancel what.
        for cancel in [left, sigma(left), 0] {
            let inverted = decrypt(key, half ^ hash ^ cancel);
            for guess in [inverted ^ left, inverted ^ sigma(left), unsigma(inverted) ^ left] {
                assert_ne!(guess, offset);
            }
        }
    }
}

#[test]
fn sigma_and_its_sum_with_the_identity_are_one_to_one() {
    // Linear maps: one to one exactly when the images of the unit vectors are independent.
    for map in [sigma as fn(u128) -> u128, |label| sigma(label) ^ label] {
        let mut basis: Vec<u128> = Vec::new();
        for bit in 0..128 {
            let image = basis.iter().fold(map(1 << bit), |image, &row| image.min(image ^ row));
            assert_ne!(image, 0);
            basis.push(image);
            basis.sort_unstable_by(|one, other| other.cmp(one));
        }
    }
}

#[test]
fn two_lanes_with_one_label_give_the_offset_away_and_distinct_ones_do_not() {
    let mut generator = generator();
    let mut keys = KeyBatch::default();
    kernel().expand(generator.next_u128(), 0, &mut keys);
    let offset = generator.next_u128() | 1;
    let right: Vec<u128> = (0..GROUP).map(|lane| generator.next_u128() & !1 | (lane as u128 & 1)).collect();

    let shared = [generator.next_u128(); GROUP];
    let halves = our_halves(&keys, 0, offset, &shared, &right);
    assert_eq!(halves[0] ^ halves[1], offset, "a label shared by lanes is the weakness");

    let distinct: Vec<u128> = shared.iter().map(|_| generator.next_u128()).collect();
    let halves = our_halves(&keys, 0, offset, &distinct, &right);
    assert!(no_pair_differs_by(&halves, offset));
}

fn no_pair_differs_by(values: &[u128], offset: u128) -> bool {
    let pairs = values
        .iter()
        .enumerate()
        .flat_map(|(place, first)| values[..place].iter().map(move |second| first ^ second));
    pairs.into_iter().all(|difference| difference != offset && difference != 0)
}

#[test]
fn a_counter_that_repeats_gives_the_offset_away_and_ours_does_not() {
    let mut generator = generator();
    let key = HashKey::random(&mut generator);
    let offset = generator.next_u128() | 1;
    // One wire feeds two gates, whose other inputs differ in their permute bits.
    let left: Vec<u128> = (0..GROUP).map(|_| generator.next_u128()).collect();
    let even: Vec<u128> = left.iter().map(|_| generator.next_u128() & !1).collect();
    let odd: Vec<u128> = left.iter().map(|_| generator.next_u128() | 1).collect();

    let restarted = || KeyStream::new(kernel(), key, HashCounter::new().take(4).unwrap());
    let (mut first, mut second) = (restarted(), restarted());
    let (keys, place) = first.take(2);
    let halves = our_halves(keys, place, offset, &left, &even);
    let (keys, place) = second.take(2);
    let again = our_halves(keys, place, offset, &left, &odd);
    assert!(
        halves.iter().zip(&again).all(|(half, again)| half ^ again == offset),
        "a restarted counter is the weakness"
    );

    let mut stream = restarted();
    let (keys, place) = stream.take(2);
    let halves = our_halves(keys, place, offset, &left, &even);
    let (keys, place) = stream.take(2);
    let next = our_halves(keys, place, offset, &left, &odd);
    let all: Vec<u128> = halves.into_iter().chain(next).collect();
    assert!(no_pair_differs_by(&all, offset));
}

#[test]
fn no_two_blocks_of_a_garbled_layer_differ_by_the_offset() {
    let mut generator = generator();
    let shape = ReluShape::new(8, 2, 8, Rounding::Floor, ReluForm::AndOnly).unwrap();
    let layer = Layer::new(Arc::new(shape.circuit()), 70);
    let offset = Offset::random(&mut generator);
    let key = HashKey::random(&mut generator);
    let mut counters = HashCounter::new().take(layer.hash_count()).unwrap();
    let mut workspace = Workspace::new(CpuFeatures::available());
    let mut blocks = Vec::new();
    for garbler in layer.garblers(key, &mut counters, &mut generator).unwrap() {
        let wires = layer.circuit().client_wires() * garbler.lanes();
        let labels: Vec<WireLabel> = (0..wires).map(|_| generator.next_u128().into()).collect();
        let (tables, _) = garbler.garble(&offset, &labels, &mut workspace).unwrap();
        blocks.extend(tables.as_bytes().as_chunks().0.iter().map(|block| u128::from_le_bytes(*block)));
    }
    assert!(no_pair_differs_by(&blocks, offset.expose()));
}

/// All that the evaluator sees of one bit x selected by v, in the ring of two bits, for one choice of ideal
/// hashes.
fn view(x: u64, v: u64, permute: [u64; 2], hashes: [u64; 6]) -> [u64; 8] {
    let [px, pv] = permute;
    // Hashes by color: both pieces of X's two labels, then V's two labels.
    let [x0_first, x0_second, x1_first, x1_second, v0, v1] = hashes;
    let sign = |bit: u64| 1_u64.wrapping_sub(2 * bit);
    let (k_first, k_second) = (pv, sign(pv));
    let row = |zero: u64, one: u64, k: u64| zero.wrapping_sub(one).wrapping_add(k.wrapping_mul(sign(px))) & 3;
    let mask = x0_second.wrapping_sub(k_second.wrapping_mul(px));
    let select_row = v0.wrapping_sub(v1).wrapping_sub(mask) & 3;
    let (color_x, color_v) = (px ^ x, pv ^ v);
    let known_x = if color_x == 0 { [x0_first, x0_second] } else { [x1_first, x1_second] };
    let known_v = if color_v == 0 { v0 } else { v1 };
    [
        color_x,
        color_v,
        known_x[0],
        known_x[1],
        known_v,
        row(x0_first, x1_first, k_first),
        row(x0_second, x1_second, k_second),
        select_row,
    ]
}

#[test]
fn rows_show_the_evaluator_the_same_for_every_input() {
    // Exhaustive over ideal hashes and permute bits: every view is equally likely, whatever x and v are.
    for (x, v) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut seen = BTreeMap::<[u64; 8], u32>::new();
        for permute in 0..4 {
            for bits in 0..1_u64 << 12 {
                let hashes = std::array::from_fn(|place| bits >> (2 * place) & 3);
                *seen.entry(view(x, v, [permute & 1, permute >> 1], hashes)).or_default() += 1;
            }
        }
        assert_eq!(seen.len(), 1 << 14, "all colors, known hashes and rows occur");
        assert!(seen.values().all(|count| *count == 1));
    }
}
