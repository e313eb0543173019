//! The safe routines, on the `aes` crate: the obvious version that defines what the others compute.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

use super::{AndInputs, GROUP, KeyBatch, RowWeights, sigma};

pub(super) fn expand(raw: &[u128; KeyBatch::KEYS], keys: &mut KeyBatch) {
    // The aes crate keeps its own schedule; the raw key is all that the routines below read.
    keys.rounds[0] = *raw;
}

fn cipher(keys: &KeyBatch, key: usize) -> Aes128 {
    Aes128::new(&keys.rounds[0][key].to_le_bytes().into())
}

fn encrypt(cipher: &Aes128, values: [u128; GROUP]) -> [u128; GROUP] {
    let mut blocks = values.map(|value| Block::from(value.to_le_bytes()));
    cipher.encrypt_blocks(&mut blocks);
    blocks.map(|block| u128::from_le_bytes(block.into()))
}

fn hash_group(cipher: &Aes128, labels: [u128; GROUP]) -> [u128; GROUP] {
    let inputs = labels.map(sigma);
    let mut hashes = encrypt(cipher, inputs);
    for (hash, input) in hashes.iter_mut().zip(inputs) {
        *hash ^= input;
    }
    hashes
}

fn mask(color_of: u128) -> u128 {
    (color_of & 1).wrapping_neg()
}

pub(super) fn hash(keys: &KeyBatch, key: usize, labels: &[u128], out: &mut [u128]) {
    let cipher = cipher(keys, key);
    for (group, out) in labels.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *out = hash_group(&cipher, *group);
    }
}

pub(super) fn keystream(keys: &KeyBatch, nonce: u128, out: &mut [u128]) {
    let cipher = cipher(keys, 0);
    for (first, group) in (0_u128..).step_by(GROUP).zip(out.as_chunks_mut().0) {
        *group = encrypt(&cipher, std::array::from_fn(|lane| nonce ^ (first + lane as u128)));
    }
}

fn gate_inputs(inputs: &AndInputs<'_>, lane: usize) -> (u128, u128, u128) {
    let shared = inputs.shared.map_or(0, |shared| shared[lane]);
    (inputs.left[lane] ^ shared, inputs.right[lane] ^ shared, shared)
}

fn table_at(tables: &[u8], position: usize) -> u128 {
    let bytes = tables[16 * position..][..16].try_into().expect("sixteen bytes were sliced");
    u128::from_le_bytes(bytes)
}

pub(super) fn garble_and(
    keys: &KeyBatch,
    key: usize,
    offset: u128,
    inputs: &AndInputs<'_>,
    out: &mut [u128],
    tables: &mut [u8],
) {
    let (left_cipher, right_cipher) = (cipher(keys, key), cipher(keys, key + 1));
    let lanes = out.len();
    for first in (0..lanes).step_by(GROUP) {
        let wires: [_; GROUP] = std::array::from_fn(|lane| gate_inputs(inputs, first + lane));
        let left_zero = hash_group(&left_cipher, wires.map(|(left, _, _)| left));
        let left_one = hash_group(&left_cipher, wires.map(|(left, _, _)| left ^ offset));
        let right_zero = hash_group(&right_cipher, wires.map(|(_, right, _)| right));
        let right_one = hash_group(&right_cipher, wires.map(|(_, right, _)| right ^ offset));
        for (lane, (left, right, shared)) in wires.into_iter().enumerate() {
            let generator_half = left_zero[lane] ^ left_one[lane] ^ (mask(right) & offset);
            let evaluator_half = right_zero[lane] ^ right_one[lane] ^ left;
            let generator_out = left_zero[lane] ^ (mask(left) & generator_half);
            let evaluator_out = right_zero[lane] ^ (mask(right) & (evaluator_half ^ left));
            let position = first + lane;
            out[position] = generator_out ^ evaluator_out ^ shared;
            tables[16 * position..][..16].copy_from_slice(&generator_half.to_le_bytes());
            tables[16 * (lanes + position)..][..16].copy_from_slice(&evaluator_half.to_le_bytes());
        }
    }
}

pub(super) fn evaluate_and(
    keys: &KeyBatch,
    key: usize,
    inputs: &AndInputs<'_>,
    out: &mut [u128],
    tables: &[u8],
) {
    let (left_cipher, right_cipher) = (cipher(keys, key), cipher(keys, key + 1));
    let lanes = out.len();
    for first in (0..lanes).step_by(GROUP) {
        let wires: [_; GROUP] = std::array::from_fn(|lane| gate_inputs(inputs, first + lane));
        let left_hash = hash_group(&left_cipher, wires.map(|(left, _, _)| left));
        let right_hash = hash_group(&right_cipher, wires.map(|(_, right, _)| right));
        for (lane, (left, right, shared)) in wires.into_iter().enumerate() {
            let position = first + lane;
            let generator_half = table_at(tables, position);
            let evaluator_half = table_at(tables, lanes + position);
            let generator_out = left_hash[lane] ^ (mask(left) & generator_half);
            let evaluator_out = right_hash[lane] ^ (mask(right) & (evaluator_half ^ left));
            out[position] = generator_out ^ evaluator_out ^ shared;
        }
    }
}

/// Applies an operation to the two 64-bit pieces of a lane.
fn pieces(left: u128, right: u128, operation: fn(u64, u64) -> u64) -> u128 {
    let low = operation(left as u64, right as u64);
    let high = operation((left >> 64) as u64, (right >> 64) as u64);
    u128::from(low) | u128::from(high) << 64
}

fn add(left: u128, right: u128) -> u128 {
    pieces(left, right, u64::wrapping_add)
}

fn subtract(left: u128, right: u128) -> u128 {
    pieces(left, right, u64::wrapping_sub)
}

pub(super) fn garble_row(
    keys: &KeyBatch,
    key: usize,
    offset: u128,
    zero_labels: &[u128],
    weights: &RowWeights<'_>,
    rows: &mut [u128],
    sums: &mut [u128],
) {
    let cipher = cipher(keys, key);
    let both = u128::from(weights.weight) << 64 | u128::from(weights.weight);
    for first in (0..zero_labels.len()).step_by(GROUP) {
        let labels: [u128; GROUP] = std::array::from_fn(|lane| zero_labels[first + lane]);
        let of_zero = hash_group(&cipher, labels);
        let of_one = hash_group(&cipher, labels.map(|label| label ^ offset));
        for (lane, label) in labels.into_iter().enumerate() {
            let position = first + lane;
            let permute = mask(label);
            let swap = permute & (of_zero[lane] ^ of_one[lane]);
            let (color_zero, color_one) = (of_zero[lane] ^ swap, of_one[lane] ^ swap);
            let negate = weights.negate[position];
            let weight = subtract((both & weights.keep[position]) ^ negate, negate);
            rows[position] = add(subtract(color_zero, color_one), subtract(weight ^ permute, permute));
            sums[position] = add(sums[position], subtract(color_zero, weight & permute));
        }
    }
}

pub(super) fn evaluate_row(keys: &KeyBatch, key: usize, labels: &[u128], rows: &[u128], sums: &mut [u128]) {
    let cipher = cipher(keys, key);
    for first in (0..labels.len()).step_by(GROUP) {
        let labels: [u128; GROUP] = std::array::from_fn(|lane| labels[first + lane]);
        for (lane, hash) in hash_group(&cipher, labels).into_iter().enumerate() {
            let row = rows[first + lane] & mask(labels[lane]);
            sums[first + lane] = add(sums[first + lane], add(hash, row));
        }
    }
}

pub(super) fn xor(first: &[u128], second: &[u128], third: Option<&[u128]>, out: &mut [u128]) {
    for (lane, out) in out.iter_mut().enumerate() {
        *out = first[lane] ^ second[lane] ^ third.map_or(0, |third| third[lane]);
    }
}

pub(super) fn encrypt_registers(keys: &KeyBatch, passes: usize) -> (usize, u128) {
    let cipher = cipher(keys, 0);
    let state = (0..passes).fold([0; GROUP], |state, _| encrypt(&cipher, state));
    (passes * GROUP, state[0])
}
