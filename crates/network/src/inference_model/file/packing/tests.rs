use super::*;
use proptest::prelude::*;

fn layer(outputs: usize, weights: Vec<i16>) -> (LinearGeometry, LinearWeights) {
    let geometry = LinearGeometry::FullyConnected { inputs: weights.len() / outputs, outputs };
    (geometry, LinearWeights { weights, biases: (0..outputs as i64).map(|bias| bias - 3).collect() })
}

fn written(layers: &[(LinearGeometry, LinearWeights)], bits: WeightBits) -> Vec<u8> {
    let layers: Vec<_> = layers.iter().map(|(_, layer)| layer.clone()).collect();
    let mut bytes = Vec::new();
    write(&layers, bits, &mut bytes);
    bytes
}

fn read_back(
    bytes: &[u8],
    layers: &[(LinearGeometry, LinearWeights)],
    bits: WeightBits,
) -> Outcome<Vec<LinearWeights>> {
    let mut reader = Reader::new(bytes);
    let read = read(&mut reader, layers.iter().map(|(geometry, _)| *geometry), bits)?;
    reader.finish()?;
    Ok(read)
}

/// Weights in the shape of a bell, as trained ones are: the sum of three uniform numbers.
fn bell(count: usize, widest: i16, mut seed: u64) -> Vec<i16> {
    let mut uniform = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 33) % (2 * widest as u64 / 3 + 1)) as i16 - widest / 3
    };
    (0..count).map(|_| uniform() + uniform() + uniform()).collect()
}

fn bell_layers(bits: WeightBits) -> Vec<(LinearGeometry, LinearWeights)> {
    let widest = bits.bound();
    vec![
        layer(40, bell(40 * 900, widest, 1)),
        layer(7, bell(7 * 31, widest, 2)),
        layer(30, bell(30 * 900, widest / 4, 3)),
    ]
}

/// The empirical entropy of what is coded, with one distribution for each layer: a coder that adapts to nothing else
/// cannot do better.
fn entropy_bytes(layers: &[(LinearGeometry, LinearWeights)], bits: WeightBits) -> f64 {
    let entropy = |weights: &[i16]| {
        let mut counts = [0.0_f64; 256];
        weights.iter().for_each(|weight| counts[usize::from(symbol(*weight, bits))] += 1.0);
        let total = weights.len() as f64;
        let cost = |count: &f64| count * (total / count).log2();
        counts.iter().filter(|count| **count > 0.0).map(cost).sum::<f64>() / 8.0
    };
    layers.iter().map(|(_, layer)| entropy(&layer.weights)).sum()
}

#[test]
fn weights_take_their_entropy_and_little_more() {
    for bits in [WeightBits::Eight, WeightBits::Twelve] {
        let layers = bell_layers(bits);
        let bytes = written(&layers, bits);
        let read: Vec<_> = layers.iter().map(|(_, layer)| layer.clone()).collect();
        assert_eq!(read_back(&bytes, &layers, bits).unwrap(), read);
        let count: usize = layers.iter().map(|(_, layer)| layer.weights.len()).sum();
        let biases: usize = layers.iter().map(|(_, layer)| 8 * layer.biases.len()).sum();
        let low_bits = if bits == WeightBits::Twelve { count / 2 } else { 0 };
        let coded = (bytes.len() - biases - low_bits) as f64;
        let entropy = entropy_bytes(&layers, bits);
        assert!((0.999 * entropy..1.02 * entropy + 800.0).contains(&coded), "{coded} for {entropy}");
        assert!(bytes[0] >= 2, "two magnitudes, {} tables", bytes[0]);
    }
}

#[test]
fn few_weights_are_written_plainly_and_so_are_those_that_a_byte_would_hold_too_many_of() {
    let few = [layer(3, bell(30, 127, 1))];
    let bytes = written(&few, WeightBits::Eight);
    assert_eq!((bytes[0], bytes.len()), (0, 1 + 24 + 1 + 30));
    assert_eq!(read_back(&bytes, &few, WeightBits::Eight).unwrap(), [few[0].1.clone()]);

    let zeros = [layer(3, vec![0; 3000])];
    let bytes = written(&zeros, WeightBits::Eight);
    assert_eq!(bytes.len(), 1 + 24 + 1 + 3000);
    assert_eq!(read_back(&bytes, &zeros, WeightBits::Eight).unwrap(), [zeros[0].1.clone()]);
}

/// One layer of 64 zeros and 64 ones in one channel by hand: two symbols of equal frequency.
fn by_hand(tables: &[u8], name: u8, words: &[u8], state: u32) -> Vec<u8> {
    let words_count = (words.len() as u32 / 2).to_le_bytes();
    [tables, &[0; 8], &[CODED, name], &words_count, &state.to_le_bytes(), words].concat()
}

#[test]
fn refusals_say_what_was_expected_and_what_came() {
    let shape = [layer(1, vec![0; 16])];
    let half = [1, 128, 129, 0x80, 16, 0x80, 16];
    let refusal = |bytes: &[u8]| read_back(bytes, &shape, WeightBits::Eight).unwrap_err().to_string();
    // Sixteen symbols of one bit each take sixteen bits: the state ends where it began, one word later.
    let good = by_hand(&half, 0, &[0, 0], LOWEST_STATE);
    let read = read_back(&good, &shape, WeightBits::Eight);
    assert!(read.is_ok(), "{read:?}");

    assert_eq!(refusal(&[65]), "the number of tables is 65; expected at most 64");
    assert_eq!(refusal(&[1, 128, 129, 1, 2]), "the sum of a table's frequencies is 3; expected 4096");
    assert!(refusal(&[1, 129, 128, 1, 2]).contains("frequencies is 0"));
    assert!(refusal(&[1, 128]).contains("end too early"));
    assert!(refusal(&by_hand(&half, 1, &[0, 0], LOWEST_STATE)).contains("table of a channel is 1"));
    assert!(refusal(&by_hand(&[0], 0, &[0, 0], LOWEST_STATE)).contains("table of a channel is 0"));
    assert!(
        refusal(&by_hand(&half, 0, &[0, 0], LOWEST_STATE - 1)).contains("state of a layer's code is 65535")
    );
    for (words, state) in
        [(&[][..], LOWEST_STATE), (&[0, 0, 0, 0], LOWEST_STATE), (&[1, 0], LOWEST_STATE), (&[0, 0], 1 << 17)]
    {
        assert!(refusal(&by_hand(&half, 0, words, state)).contains("does not end where it must"));
    }
    let mut other_form = good.clone();
    other_form[half.len() + 8] = 2;
    assert!(refusal(&other_form).contains("form of a layer's weights is 2; expected 0 or 1"));
    assert_eq!(refusal(&[&good[..], &[0]].concat()), "1 bytes follow the end");
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    let certain = [1, 128, 128, 0x80, 32];
    let huge = LinearGeometry::FullyConnected { inputs: 1 << 29, outputs: 1 };
    let bytes = by_hand(&certain, 0, &[], LOWEST_STATE);
    let mut reader = Reader::new(&bytes);
    let refusal = read(&mut reader, std::iter::once(huge), WeightBits::Eight).unwrap_err().to_string();
    assert!(refusal.contains("end too early: 8388604 more were expected"), "{refusal}");
}

fn any_layers(bits: WeightBits) -> impl Strategy<Value = Vec<(LinearGeometry, LinearWeights)>> {
    let bound = bits.bound();
    let weight = prop_oneof![8 => -3..=3_i16, 3 => -bound / 3..=bound / 3, 1 => -bound..=bound];
    let shape = (1..20_usize, 1..60_usize);
    prop::collection::vec(
        shape.prop_flat_map(move |(outputs, taps)| {
            prop::collection::vec(weight.clone(), outputs * taps)
                .prop_map(move |weights| layer(outputs, weights))
        }),
        1..5,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_reads_back(eight in any_layers(WeightBits::Eight), twelve in any_layers(WeightBits::Twelve)) {
        for (layers, bits) in [(eight, WeightBits::Eight), (twelve, WeightBits::Twelve)] {
            let expected: Vec<_> = layers.iter().map(|(_, layer)| layer.clone()).collect();
            prop_assert_eq!(read_back(&written(&layers, bits), &layers, bits).unwrap(), expected.clone());
            // The coder itself, also where the plain form is shorter.
            let grouping = Grouping::of(&expected, bits);
            let tables: Vec<_> = grouping.tables.iter().map(Table::slots).collect();
            for (geometry, layer) in &layers {
                let Some(coded) = grouping.coded(layer, bits) else { continue };
                let read = read_coded(&mut Reader::new(&coded[1..]), &tables, *geometry, bits);
                prop_assert_eq!(&read.unwrap(), &layer.weights);
            }
        }
    }

    #[test]
    fn tables_read_back_whatever_the_counts(counts in prop::collection::vec(prop_oneof![Just(0_u64), 1..20_u64, 1..1_u64 << 40], 256)) {
        prop_assume!(counts.iter().any(|count| *count > 0));
        let table = Table::fitting(&counts.clone().try_into().unwrap());
        let mut bytes = Vec::new();
        table.write(&mut bytes);
        prop_assert_eq!(Table::read(&mut Reader::new(&bytes)).unwrap().frequencies, table.frequencies);
        for (frequency, count) in table.frequencies.iter().zip(counts) {
            prop_assert_eq!(*frequency > 0, count > 0);
        }
    }

    #[test]
    fn altered_codes_are_refused_or_read_without_panic(changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let layers = [layer(4, bell(4 * 2000, 127, 5))];
        let mut bytes = written(&layers, WeightBits::Eight);
        prop_assert_eq!(bytes[0], 1);
        for (at, value) in changes {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if let Ok(read) = read_back(&bytes, &layers, WeightBits::Eight) {
            prop_assert_eq!(read[0].weights.len(), 8000);
        }
    }
}
