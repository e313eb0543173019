use super::*;
use crate::random::{Generator, Seed};

fn levels() -> Vec<Kernel> {
    let all = CpuFeatures::detect();
    let mut kernels: Vec<Kernel> = [all, all.limited_to("avx2")]
        .into_iter()
        .map(Kernel::for_cpu)
        .filter(|kernel| *kernel != twin())
        .collect();
    kernels.dedup();
    kernels
}

fn twin() -> Kernel {
    Kernel::for_cpu(CpuFeatures::PORTABLE)
}

fn generator(seed: u8) -> Generator {
    Seed::from_bytes([seed; 32]).generator()
}

fn labels(generator: &mut Generator, lanes: usize) -> Vec<u128> {
    (0..lanes).map(|_| generator.next_u128()).collect()
}

fn block(hex: &str) -> u128 {
    u128::from_str_radix(hex, 16).unwrap().swap_bytes()
}

/// FIPS 197, appendices B and C.1, and SP 800-38A, F.1.1: key, plaintext, ciphertext.
const PUBLISHED: [(&str, &str, &str); 6] = [
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "3243f6a8885a308d313198a2e0370734",
        "3925841d02dc09fbdc118597196a0b32",
    ),
    (
        "000102030405060708090a0b0c0d0e0f",
        "00112233445566778899aabbccddeeff",
        "69c4e0d86a7b0430d8cdb78070b4c55a",
    ),
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "6bc1bee22e409f96e93d7e117393172a",
        "3ad77bb40d7a3660a89ecaf32466ef97",
    ),
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "ae2d8a571e03ac9c9eb76fac45af8e51",
        "f5d3d58503b9699de785895a96fdbaaf",
    ),
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "30c81c46a35ce411e5fbc1191a0a52ef",
        "43b1cd7f598ece23881b00e3ed030688",
    ),
    (
        "2b7e151628aed2a6abf7158809cf4f3c",
        "f69f2445df4f9b17ad2b417be66c3710",
        "7b0c785e27e8ad3f8223207104725dd4",
    ),
];

fn unsigma(mixed: u128) -> u128 {
    // sigma(L || R) = (L xor R) || L, so L is the low half and R the xor of both.
    let (high, low) = (mixed >> 64, mixed & u128::from(u64::MAX));
    low << 64 | (high ^ low)
}

#[test]
fn every_kernel_encrypts_the_published_vectors() {
    for kernel in levels().into_iter().chain([twin()]) {
        for (key, plaintext, ciphertext) in PUBLISHED {
            let mut keys = KeyBatch::default();
            kernel.expand(block(key), 0, &mut keys);
            let mut out = vec![0; GROUP];
            kernel.keystream(&keys, block(plaintext), &mut out);
            assert_eq!(out[0], block(ciphertext), "{kernel:?}");
            let label = unsigma(block(plaintext));
            kernel.hash(&keys, 0, &[label; GROUP], &mut out);
            assert!(out.iter().all(|hash| hash ^ block(plaintext) == block(ciphertext)), "{kernel:?}");
        }
    }
}

#[test]
fn every_key_of_a_batch_is_the_base_xor_its_counter() {
    let mut generator = generator(1);
    for kernel in levels().into_iter().chain([twin()]) {
        for counter in [0, 5, u64::from(u32::MAX) - 3] {
            let (base, input) = (generator.next_u128(), labels(&mut generator, GROUP));
            let (mut batch, mut single) = (KeyBatch::default(), KeyBatch::default());
            kernel.expand(base, counter, &mut batch);
            for key in 0..KeyBatch::KEYS {
                twin().expand(base ^ u128::from(counter + key as u64), 0, &mut single);
                let (mut got, mut want) = (vec![0; GROUP], vec![0; GROUP]);
                kernel.hash(&batch, key, &input, &mut got);
                twin().hash(&single, 0, &input, &mut want);
                assert_eq!(got, want, "{kernel:?}, key {key}");
            }
        }
    }
}

/// Runs every routine once over some lanes at some misalignment of labels and tables; returns all that it
/// wrote.
fn run_all(kernel: Kernel, lanes: usize, shift: usize) -> Vec<Vec<u128>> {
    let mut generator = generator(2);
    let mut keys = KeyBatch::default();
    kernel.expand(generator.next_u128(), 77, &mut keys);
    let offset = generator.next_u128() | 1;
    let inputs: Vec<Vec<u128>> = (0..5).map(|_| labels(&mut generator, lanes + shift)).collect();
    let wire = |index: usize| &inputs[index][shift..];
    let mut written = Vec::new();
    let mut out = vec![0; lanes + shift];
    let mut tables = vec![0; 32 * lanes + shift];
    for shared in [None, Some(wire(2))] {
        let gate = AndInputs { left: wire(0), right: wire(1), shared };
        kernel.garble_and(&keys, 3, offset, &gate, &mut out[shift..], &mut tables[shift..]);
        written.push(out.clone());
        written.push(tables.iter().map(|byte| u128::from(*byte)).collect());
        kernel.evaluate_and(&keys, 3, &gate, &mut out[shift..], &tables[shift..]);
        written.push(out.clone());
    }
    let weights = RowWeights { weight: generator.next_u64(), keep: wire(3), negate: wire(4) };
    let mut sums = wire(2).to_vec();
    kernel.garble_row(&keys, 15, offset, wire(0), &weights, &mut out[shift..], &mut sums);
    kernel.evaluate_row(&keys, 15, wire(0), wire(1), &mut sums);
    written.extend([out.clone(), sums]);
    for third in [None, Some(wire(2))] {
        kernel.xor(wire(0), wire(1), third, &mut out[shift..]);
        written.push(out.clone());
    }
    kernel.hash(&keys, 9, wire(0), &mut out[shift..]);
    written.push(out.clone());
    kernel.keystream(&keys, generator.next_u128(), &mut out[shift..]);
    written.push(out);
    written
}

#[test]
fn every_kernel_agrees_with_its_safe_twin() {
    for kernel in levels() {
        for lanes in [16, 32, 48, 64, 80] {
            for shift in [0, 1, 3] {
                assert_eq!(
                    run_all(kernel, lanes, shift),
                    run_all(twin(), lanes, shift),
                    "{kernel:?}, {lanes} lanes, shifted by {shift}"
                );
            }
        }
    }
}

#[test]
fn half_gates_hold_for_all_inputs_and_colors() {
    let mut generator = generator(3);
    for kernel in levels().into_iter().chain([twin()]) {
        let mut keys = KeyBatch::default();
        kernel.expand(generator.next_u128(), 0, &mut keys);
        let offset = generator.next_u128() | 1;
        for bits in 0..8_u32 {
            let bit = |index: u32| u128::from(bits >> index & 1).wrapping_neg() & offset;
            for with_shared in [false, true] {
                let zero: Vec<Vec<u128>> = (0..3).map(|_| labels(&mut generator, 64)).collect();
                let active: Vec<Vec<u128>> = (0..3)
                    .map(|wire| zero[wire].iter().map(|label| label ^ bit(wire as u32)).collect())
                    .collect();
                let (mut out_zero, mut out, mut tables) = (vec![0; 64], vec![0; 64], vec![0; 32 * 64]);
                let shared = |wires: &'_ Vec<Vec<u128>>| with_shared.then(|| wires[2].clone());
                let (zero_shared, active_shared) = (shared(&zero), shared(&active));
                let gate = AndInputs { left: &zero[0], right: &zero[1], shared: zero_shared.as_deref() };
                kernel.garble_and(&keys, 0, offset, &gate, &mut out_zero, &mut tables);
                let gate =
                    AndInputs { left: &active[0], right: &active[1], shared: active_shared.as_deref() };
                kernel.evaluate_and(&keys, 0, &gate, &mut out, &tables);
                let (left, right, third) = (bits & 1, bits >> 1 & 1, bits >> 2 & 1);
                let want = if with_shared { u32::from(left + right + third >= 2) } else { left & right };
                let want = u128::from(want).wrapping_neg() & offset;
                assert!(out.iter().zip(&out_zero).all(|(active, zero)| active ^ zero == want));
            }
        }
    }
}

#[test]
#[should_panic(expected = "padded to whole groups")]
fn lanes_that_are_not_padded_are_a_mistake_of_the_caller() {
    twin().xor(&[0; 3], &[0; 3], None, &mut [0; 3]);
}
