//! The gates in terms of a vector of AES blocks, written once for both instruction sets.
//!
//! AES and the hash are macros, since a function of that size is not inlined and would pass its vectors
//! through memory; an attribute that forces it may not stand beside `target_feature`.

/// AES of two groups, each under its own key of the batch.
macro_rules! encrypt {
    ($keys:expr, [$first_key:expr, $second_key:expr], $first:expr, $second:expr) => {{
        let (keys, first_key, second_key): (&KeyBatch, usize, usize) = ($keys, $first_key, $second_key);
        let (mut first, mut second): (Group, Group) = ($first, $second);
        let left = broadcast(keys.rounds[0][first_key]);
        let right = broadcast(keys.rounds[0][second_key]);
        first = all(first, |state| xor_two(state, left));
        second = all(second, |state| xor_two(state, right));
        for middle in &keys.rounds[1..10] {
            let (left, right) = (broadcast(middle[first_key]), broadcast(middle[second_key]));
            first = all(first, |state| round(state, left));
            second = all(second, |state| round(state, right));
        }
        let left = broadcast(keys.rounds[10][first_key]);
        let right = broadcast(keys.rounds[10][second_key]);
        (all(first, |state| last_round(state, left)), all(second, |state| last_round(state, right)))
    }};
}

/// H of two groups of labels already passed through sigma.
macro_rules! hash_mixed {
    ($keys:expr, [$first_key:expr, $second_key:expr], $first:expr, $second:expr) => {{
        let (first, second): (Group, Group) = ($first, $second);
        let (left, right) = encrypt!($keys, [$first_key, $second_key], first, second);
        (xor_each(left, first), xor_each(right, second))
    }};
}

/// H of the zero labels and of the one labels of a wire.
macro_rules! hash_both {
    ($keys:expr, $key:expr, $offset:expr, $labels:expr) => {{
        let mixed_offset = sigma($offset);
        let zero = all($labels, |label| sigma(label));
        let one = all(zero, |label| xor_two(label, mixed_offset));
        hash_mixed!($keys, [$key, $key], zero, one)
    }};
}

/// The labels that the two halves of a gate hash.
macro_rules! load_inputs {
    ($inputs:expr, $first:expr) => {{
        let (left, right) = (load_labels($inputs.left, $first), load_labels($inputs.right, $first));
        match $inputs.shared {
            None => (left, right),
            Some(shared) => {
                let shared = load_labels(shared, $first);
                (xor_each(left, shared), xor_each(right, shared))
            }
        }
    }};
}

/// Defines the routines of a level. The module that expands it provides, under the same target features, the
/// type `Vector`, `BLOCKS` per vector, and `load`, `store`, `broadcast`, `xor`, `and`, `add`, `subtract` (on
/// 64-bit pieces), `round`, `last_round`, `sigma` and `color_mask`.
///
/// Four vectors make a group. A pass carries two groups through AES together, eight vectors, which hides the
/// latency of a round.
macro_rules! lockstep {
    ($features:literal) => {
        const LANES: usize = 4 * BLOCKS;
        type Group = [Vector; 4];

        #[target_feature(enable = $features)]
        #[inline]
        fn each(left: Group, right: Group, operation: impl Fn(Vector, Vector) -> Vector) -> Group {
            [
                operation(left[0], right[0]),
                operation(left[1], right[1]),
                operation(left[2], right[2]),
                operation(left[3], right[3]),
            ]
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn all(group: Group, operation: impl Fn(Vector) -> Vector) -> Group {
            [operation(group[0]), operation(group[1]), operation(group[2]), operation(group[3])]
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn xor_each(left: Group, right: Group) -> Group {
            each(left, right, |x, y| xor_two(x, y))
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn load_labels(labels: &[u128], first: usize) -> Group {
            let lanes: &[u128; LANES] =
                labels[first..].first_chunk().expect("lanes are padded to whole groups");
            let lanes: *const u128 = lanes.as_ptr();
            // SAFETY: the four vectors read are exactly the LANES labels of the array just taken.
            unsafe {
                [
                    load(lanes.cast()),
                    load(lanes.add(BLOCKS).cast()),
                    load(lanes.add(2 * BLOCKS).cast()),
                    load(lanes.add(3 * BLOCKS).cast()),
                ]
            }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn store_labels(labels: &mut [u128], first: usize, group: Group) {
            let lanes: &mut [u128; LANES] =
                labels[first..].first_chunk_mut().expect("lanes are padded to whole groups");
            let lanes: *mut u128 = lanes.as_mut_ptr();
            // SAFETY: the four vectors written are exactly the LANES labels of the array just taken.
            unsafe {
                store(lanes.cast(), group[0]);
                store(lanes.add(BLOCKS).cast(), group[1]);
                store(lanes.add(2 * BLOCKS).cast(), group[2]);
                store(lanes.add(3 * BLOCKS).cast(), group[3]);
            }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn load_table(tables: &[u8], lane: usize) -> Group {
            let bytes: &[u8; 16 * LANES] =
                tables[16 * lane..].first_chunk().expect("a table has 16 bytes per lane and half");
            let bytes: *const u8 = bytes.as_ptr();
            // SAFETY: the four vectors read are exactly the bytes of the array just taken.
            unsafe {
                [
                    load(bytes),
                    load(bytes.add(16 * BLOCKS)),
                    load(bytes.add(32 * BLOCKS)),
                    load(bytes.add(48 * BLOCKS)),
                ]
            }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn store_table(tables: &mut [u8], lane: usize, group: Group) {
            let bytes: &mut [u8; 16 * LANES] =
                tables[16 * lane..].first_chunk_mut().expect("a table has 16 bytes per lane and half");
            let bytes: *mut u8 = bytes.as_mut_ptr();
            // SAFETY: the four vectors written are exactly the bytes of the array just taken.
            unsafe {
                store(bytes, group[0]);
                store(bytes.add(16 * BLOCKS), group[1]);
                store(bytes.add(32 * BLOCKS), group[2]);
                store(bytes.add(48 * BLOCKS), group[3]);
            }
        }

        #[target_feature(enable = $features)]
        pub(super) fn hash(keys: &KeyBatch, key: usize, labels: &[u128], out: &mut [u128]) {
            for first in (0..labels.len()).step_by(LANES) {
                let mixed = all(load_labels(labels, first), |label| sigma(label));
                let (hashes, _) = hash_mixed!(keys, [key, key], mixed, mixed);
                store_labels(out, first, hashes);
            }
        }

        #[target_feature(enable = $features)]
        pub(super) fn encrypt_registers(keys: &KeyBatch, passes: usize) -> (usize, u128) {
            let mut lanes: [u128; 2 * LANES] = std::array::from_fn(|lane| lane as u128);
            let (mut left, mut right) = (load_labels(&lanes, 0), load_labels(&lanes, LANES));
            for _ in 0..passes {
                (left, right) = encrypt!(keys, [0, 1], left, right);
            }
            store_labels(&mut lanes, 0, left);
            store_labels(&mut lanes, LANES, right);
            (2 * LANES * passes, lanes.iter().fold(0, |sum, lane| sum ^ lane))
        }

        #[target_feature(enable = $features)]
        pub(super) fn keystream(keys: &KeyBatch, nonce: u128, out: &mut [u128]) {
            let lanes: [u128; 2 * LANES] = std::array::from_fn(|lane| lane as u128);
            let (left, right) = (load_labels(&lanes, 0), load_labels(&lanes, LANES));
            for first in (0..out.len()).step_by(2 * LANES) {
                // `first` is a multiple of two groups, so its bits and a lane's do not meet.
                let block = broadcast(nonce ^ first as u128);
                let left = all(left, |lane| xor_two(lane, block));
                let right = all(right, |lane| xor_two(lane, block));
                let (left, right) = encrypt!(keys, [0, 0], left, right);
                store_labels(out, first, left);
                if first + LANES < out.len() {
                    store_labels(out, first + LANES, right);
                }
            }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn store_output(inputs: &AndInputs<'_>, first: usize, out: &mut [u128], group: Group) {
            let group = match inputs.shared {
                None => group,
                Some(shared) => xor_each(group, load_labels(shared, first)),
            };
            store_labels(out, first, group);
        }

        #[target_feature(enable = $features)]
        pub(super) fn garble_and(
            keys: &KeyBatch,
            key: usize,
            offset: u128,
            inputs: &AndInputs<'_>,
            out: &mut [u128],
            tables: &mut [u8],
        ) {
            let offset = broadcast(offset);
            let lanes = out.len();
            for first in (0..lanes).step_by(LANES) {
                let (left, right) = load_inputs!(inputs, first);
                let right_colors = all(right, |label| color_mask(label));
                let (zero, one) = hash_both!(keys, key, offset, left);
                let generator_half =
                    each(xor_each(zero, one), right_colors, |sum, color| xor_two(sum, and(color, offset)));
                store_table(tables, first, generator_half);
                let left_out = xor_each(zero, each(left, generator_half, |x, y| and(color_mask(x), y)));
                let (zero, one) = hash_both!(keys, key + 1, offset, right);
                // The evaluator's half without the left label, which it gets only on its way into the table.
                let difference = xor_each(zero, one);
                store_table(tables, lanes + first, xor_each(difference, left));
                let right_out = xor_each(zero, each(right_colors, difference, |x, y| and(x, y)));
                store_output(inputs, first, out, xor_each(left_out, right_out));
            }
        }

        #[target_feature(enable = $features)]
        pub(super) fn evaluate_and(
            keys: &KeyBatch,
            key: usize,
            inputs: &AndInputs<'_>,
            out: &mut [u128],
            tables: &[u8],
        ) {
            let lanes = out.len();
            for first in (0..lanes).step_by(LANES) {
                let (left, right) = load_inputs!(inputs, first);
                let mixed = (all(left, |label| sigma(label)), all(right, |label| sigma(label)));
                let (left_hash, right_hash) = hash_mixed!(keys, [key, key + 1], mixed.0, mixed.1);
                let generator_half = load_table(tables, first);
                let evaluator_half = xor_each(load_table(tables, lanes + first), left);
                let left_row = each(left, generator_half, |x, y| and(color_mask(x), y));
                let right_row = each(right, evaluator_half, |x, y| and(color_mask(x), y));
                let hashes = xor_each(left_hash, right_hash);
                let rows = xor_each(left_row, right_row);
                store_output(inputs, first, out, xor_each(hashes, rows));
            }
        }

        #[target_feature(enable = $features)]
        pub(super) fn garble_row(
            keys: &KeyBatch,
            key: usize,
            offset: u128,
            zero_labels: &[u128],
            weights: &RowWeights<'_>,
            rows: &mut [u128],
            sums: &mut [u128],
        ) {
            let offset = broadcast(offset);
            let weight = broadcast(u128::from(weights.weight) << 64 | u128::from(weights.weight));
            for first in (0..zero_labels.len()).step_by(LANES) {
                let labels = load_labels(zero_labels, first);
                let (zero, one) = hash_both!(keys, key, offset, labels);
                let permute = all(labels, |label| color_mask(label));
                let swap = each(permute, xor_each(zero, one), |x, y| and(x, y));
                let color_zero = xor_each(zero, swap);
                let color_one = xor_each(one, swap);
                let keep = load_labels(weights.keep, first);
                let negate = load_labels(weights.negate, first);
                let weight = each(keep, negate, |x, y| subtract(xor_two(and(x, weight), y), y));
                let signed = each(weight, permute, |x, y| subtract(xor_two(x, y), y));
                let difference = each(color_zero, color_one, |x, y| subtract(x, y));
                store_labels(rows, first, each(difference, signed, |x, y| add(x, y)));
                let part = each(weight, permute, |x, y| and(x, y));
                let part = each(color_zero, part, |x, y| subtract(x, y));
                store_labels(sums, first, each(load_labels(sums, first), part, |x, y| add(x, y)));
            }
        }

        #[target_feature(enable = $features)]
        pub(super) fn evaluate_row(
            keys: &KeyBatch,
            key: usize,
            labels: &[u128],
            rows: &[u128],
            sums: &mut [u128],
        ) {
            let even = labels.len() - labels.len() % (2 * LANES);
            for first in (0..even).step_by(2 * LANES) {
                let (left, right) = (load_labels(labels, first), load_labels(labels, first + LANES));
                let mixed = (all(left, |label| sigma(label)), all(right, |label| sigma(label)));
                let (left_hash, right_hash) = hash_mixed!(keys, [key, key], mixed.0, mixed.1);
                add_row(first, left, left_hash, rows, sums);
                add_row(first + LANES, right, right_hash, rows, sums);
            }
            for first in (even..labels.len()).step_by(LANES) {
                let left = load_labels(labels, first);
                let mixed = all(left, |label| sigma(label));
                let (hashes, _) = hash_mixed!(keys, [key, key], mixed, mixed);
                add_row(first, left, hashes, rows, sums);
            }
        }

        #[target_feature(enable = $features)]
        #[inline]
        fn add_row(first: usize, labels: Group, hashes: Group, rows: &[u128], sums: &mut [u128]) {
            let chosen = each(labels, load_labels(rows, first), |x, y| and(color_mask(x), y));
            let part = each(hashes, chosen, |x, y| add(x, y));
            store_labels(sums, first, each(load_labels(sums, first), part, |x, y| add(x, y)));
        }

        #[target_feature(enable = $features)]
        pub(super) fn xor(first: &[u128], second: &[u128], third: Option<&[u128]>, out: &mut [u128]) {
            for lane in (0..out.len()).step_by(LANES) {
                let mut sum = xor_each(load_labels(first, lane), load_labels(second, lane));
                if let Some(third) = third {
                    sum = xor_each(sum, load_labels(third, lane));
                }
                store_labels(out, lane, sum);
            }
        }
    };
}

pub(super) use {encrypt, hash_both, hash_mixed, load_inputs, lockstep};
