//! Every kernel against its safe twin and against the definition.

use super::*;
use crate::ot::tree::LeafKey;
use crate::random::{Generator, Seed};

/// Places of the streams.
const FIRSTS: [u64; 5] = [0, 1, 16, u32::MAX as u64 - 3, (1 << 33) - 16];

/// The levels that this processor can tell apart, the portable one first.
fn levels() -> Vec<CpuFeatures> {
    let all = CpuFeatures::detect();
    vec![CpuFeatures::PORTABLE, all.limited_to("avx2"), all]
}

fn generator() -> Generator {
    Seed::from_bytes([11; 32]).generator()
}

fn random_leaves(depth: Depth, generator: &mut Generator) -> Leaves {
    let mut leaf = || LeafKey { key: generator.array(), whitening: generator.next_u128() };
    Leaves { depth, keys: (0..depth.trees() * depth.leaves()).map(|_| leaf()).collect() }
}

fn fill(generator: &mut Generator, words: &mut [u128]) {
    words.fill_with(|| generator.next_u128());
}

#[test]
fn streams_are_counter_mode_of_aes() {
    // FIPS 197, appendix B, reached with a whitening that turns counter 5 into the vector's input.
    let input = u128::from_le_bytes([
        0x32, 0x43, 0xf6, 0xa8, 0x88, 0x5a, 0x30, 0x8d, 0x31, 0x31, 0x98, 0xa2, 0xe0, 0x37, 0x07, 0x34,
    ]);
    let key =
        [0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c];
    let output = u128::from_le_bytes([
        0x39, 0x25, 0x84, 0x1d, 0x02, 0xdc, 0x09, 0xfb, 0xdc, 0x11, 0x85, 0x97, 0x19, 0x6a, 0x0b, 0x32,
    ]);
    let leaf = LeafKey { key, whitening: input ^ 5 };
    assert_eq!(portable::LeafCipher::new(&leaf).stream(5)[0], output);
    assert_eq!(portable::LeafCipher::new(&leaf).stream(0)[5], output);

    // One such leaf among leaves that cancel: with all leaves of a tree equal, every sum is zero but for one.
    for (cpu, depth) in levels().into_iter().flat_map(|cpu| Depth::ALL.map(|depth| (cpu, depth))) {
        let other = LeafKey { key: [1; 16], whitening: 9 };
        let mut leaves = Leaves { depth, keys: vec![other; depth.trees() * depth.leaves()] };
        leaves.keys[depth.leaves() + 2] = leaf;
        let mut workspace = Workspace::new();
        Engine::new(cpu, &leaves).receiver_columns(5, &mut workspace);
        let other = portable::LeafCipher::new(&other).stream(5)[0];
        assert_eq!(workspace.corrections[1][0], output ^ other);
        assert_eq!(workspace.columns[0][depth.bits() + 1][0], output ^ other);
        assert_eq!(workspace.columns[0][depth.bits()][0], 0);
    }
}

/// The columns of one tree as the definition has them: each bit of a leaf's number apart.
fn defined_columns(leaves: &[LeafKey], depth: Depth, first: u64) -> (Strip, Vec<Strip>) {
    let (mut sum, mut columns) = (Strip::default(), vec![Strip::default(); depth.bits()]);
    let add =
        |sum: &mut Strip, stream: &Strip| sum.iter_mut().zip(stream).for_each(|(sum, word)| *sum ^= word);
    for (number, leaf) in leaves.iter().enumerate() {
        let stream = portable::LeafCipher::new(leaf).stream(first);
        add(&mut sum, &stream);
        let set = columns.iter_mut().enumerate().filter(|(bit, _)| number >> bit & 1 == 1);
        set.for_each(|(_, column)| add(column, &stream));
    }
    (sum, columns)
}

#[test]
fn a_leaf_enters_the_columns_of_its_numbers_bits() {
    for (cpu, depth) in levels().into_iter().flat_map(|cpu| Depth::ALL.map(|depth| (cpu, depth))) {
        let leaves = random_leaves(depth, &mut generator());
        let engine = Engine::new(cpu, &leaves);
        let mut received = Workspace::new();
        let mut sent = Workspace::new();
        engine.receiver_columns(3, &mut received);
        // Without corrections the sender has the same columns: leaf 0 enters none.
        engine.sender_columns(3, u128::MAX, &mut sent);
        for (tree, leaves) in leaves.keys.chunks_exact(depth.leaves()).enumerate() {
            let (sum, columns) = defined_columns(leaves, depth, 3);
            assert_eq!(received.corrections(depth)[tree], sum);
            for (column, strip) in (tree * depth.bits()..).zip(columns) {
                for (quarter, words) in strip.as_chunks::<4>().0.iter().enumerate() {
                    assert_eq!(received.columns[quarter][column], *words, "tree {tree}, column {column}");
                    assert_eq!(sent.columns[quarter][column], *words, "tree {tree}, column {column}");
                }
            }
        }
    }
}

#[test]
fn every_level_makes_the_same_receiver_columns() {
    let mut generator = generator();
    for (depth, first) in Depth::ALL.into_iter().flat_map(|depth| FIRSTS.map(|first| (depth, first))) {
        let leaves = random_leaves(depth, &mut generator);
        let mut choices = Strip::default();
        fill(&mut generator, &mut choices);
        let results: Vec<_> = levels()
            .into_iter()
            .map(|cpu| {
                let mut workspace = Workspace::new();
                workspace.choices = choices;
                Engine::new(cpu, &leaves).receiver_columns(first, &mut workspace);
                workspace
            })
            .collect();
        for other in &results[1..] {
            assert!(other.columns == results[0].columns);
            assert!(other.corrections == results[0].corrections);
        }
    }
}

#[test]
fn every_level_multiplies_alike_and_turns_labels_into_columns() {
    let mut generator = generator();
    let leaves = random_leaves(Depth::default(), &mut generator);
    let mut labels = vec![0; 1300];
    fill(&mut generator, &mut labels);
    let results: Vec<_> = levels()
        .into_iter()
        .map(|cpu| {
            let engine = Engine::new(cpu, &leaves);
            let mut sums = [Product::default(); COLUMNS];
            let mut squares = Vec::new();
            engine.columns_of(&labels, |words| {
                squares.push(*words);
                engine.multiply_add(
                    &mut sums,
                    words,
                    0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978 << squares.len(),
                );
            });
            (squares, sums)
        })
        .collect();
    let (squares, sums) = &results[0];
    assert!(results[1..].iter().all(|(other, products)| other == squares && products == sums));
    assert_eq!(squares.len(), 11);
    for (index, label) in labels.iter().enumerate() {
        let bits =
            squares[index / 128].iter().rev().fold(0, |bits, word| bits << 1 | (word >> (index % 128) & 1));
        assert_eq!(bits, *label, "label {index}");
    }
}

#[test]
fn every_level_makes_the_same_sender_columns() {
    let mut generator = generator();
    for (depth, first) in Depth::ALL.into_iter().flat_map(|depth| FIRSTS.map(|first| (depth, first))) {
        let leaves = random_leaves(depth, &mut generator);
        let offset = generator.next_u128();
        let mut corrections = [Strip::default(); MAXIMUM_TREES];
        fill(&mut generator, corrections.as_flattened_mut());
        let results: Vec<_> = levels()
            .into_iter()
            .map(|cpu| {
                let mut workspace = Workspace::new();
                workspace.corrections = corrections;
                Engine::new(cpu, &leaves).sender_columns(first, offset, &mut workspace);
                workspace
            })
            .collect();
        for other in &results[1..] {
            assert!(other.columns == results[0].columns);
        }
    }
}

#[test]
fn every_level_transposes_to_any_place_in_memory() {
    let mut generator = generator();
    let leaves = random_leaves(Depth::default(), &mut generator);
    let mut workspace = Workspace::new();
    fill(&mut generator, workspace.columns.as_flattened_mut().as_flattened_mut());
    let bit = |transfer: usize, column: usize| {
        workspace.columns[transfer / 512][column][transfer / 128 % 4] >> (transfer % 128) & 1
    };
    let expected: Vec<u128> = (0..BLOCK)
        .map(|transfer| (0..COLUMNS).fold(0, |label, column| label | bit(transfer, column) << column))
        .collect();
    for cpu in levels() {
        let engine = Engine::new(cpu, &leaves);
        for shift in 0..5 {
            let mut labels = vec![7; BLOCK + 5];
            let place: &mut [u128; BLOCK] = (&mut labels[shift..shift + BLOCK]).try_into().unwrap();
            engine.transpose(&workspace, place);
            assert_eq!(labels[shift..shift + BLOCK], expected);
            assert!(labels[..shift].iter().chain(&labels[shift + BLOCK..]).all(|&label| label == 7));
        }
    }
}

#[test]
fn features_the_processor_lacks_are_not_believed() {
    let all = CpuFeatures { aes: true, vaes512: true, avx2: true, avx512: true, ifma: true, vnni: true };
    for depth in Depth::ALL {
        let leaves = random_leaves(depth, &mut generator());
        let [claimed, detected] = [all, CpuFeatures::detect()].map(|cpu| Engine::new(cpu, &leaves).streams);
        assert_eq!(std::mem::discriminant(&claimed), std::mem::discriminant(&detected));
    }
}
