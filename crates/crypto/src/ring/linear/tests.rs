use std::ops::Range;

use super::*;
use crate::random::{Generator, Seed};
use crate::ring::geometry::{ConvShape, Extent};
use crate::ring::kernel::levels;
use crate::ring::reference;
use crate::ring::share::Share;
use proptest::prelude::*;

/// The widths in use, and one for each number of digits.
const WIDTHS: [u32; 12] = [1, 8, 16, 20, 24, 31, 32, 33, 41, 48, 56, 64];

fn extent(sizes: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Extent> {
    (sizes.clone(), sizes).prop_map(|(height, width)| Extent { height, width })
}

/// Small layers of every kind: grouped, depthwise, dilated, strided, padded, flat.
fn geometry() -> impl Strategy<Value = ConvGeometry> {
    let groups = prop_oneof![Just(1_usize), 1_usize..=5];
    let channels =
        (groups, prop_oneof![Just(1_usize), 1_usize..=9], prop_oneof![Just(1_usize), 1_usize..=36]);
    let sizes = (extent(1..=9), extent(1..=4), extent(1..=3), extent(0..=3), extent(1..=3));
    (channels, sizes).prop_filter_map("the filter must fit", |(channels, sizes)| {
        let (groups, inputs, outputs) = channels;
        let (input, filter, stride, padding, dilation) = sizes;
        ConvGeometry::new(ConvShape {
            in_channels: groups * inputs,
            out_channels: groups * outputs,
            input,
            filter,
            stride,
            padding,
            dilation,
            groups,
        })
        .ok()
    })
}

fn random_weights(geometry: &ConvGeometry, generator: &mut Generator) -> (Vec<i8>, Vec<i16>) {
    let halves: Vec<i16> = (0..geometry.weight_len()).map(|_| generator.next_u64() as i16).collect();
    (halves.iter().map(|&weight| weight as i8).collect(), halves)
}

fn widened(weights: &[i8]) -> Vec<i16> {
    weights.iter().map(|&weight| i16::from(weight)).collect()
}

fn random_images(geometry: &ConvGeometry, bits: u32, images: usize, generator: &mut Generator) -> RingVector {
    let width = RingWidth::new(bits).unwrap();
    Share::random(width, images * geometry.input_len(), generator).expose().clone()
}

fn random_images_like(vector: &RingVector, generator: &mut Generator) -> RingVector {
    Share::random(vector.width(), vector.len(), generator).expose().clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_layer_equals_its_definition(
        geometry in geometry(),
        bits in prop::sample::select(WIDTHS.to_vec()),
        images in 1_usize..=3,
        seed in any::<[u8; 32]>(),
    ) {
        let mut generator = Seed::from_bytes(seed).generator();
        let (bytes, halves) = random_weights(&geometry, &mut generator);
        let input = random_images(&geometry, bits, images, &mut generator);
        let cases = [
            (Weights::Bytes(&bytes), reference::convolve(&geometry, &widened(&bytes), &input)),
            (Weights::Halves(&halves), reference::convolve(&geometry, &halves, &input)),
        ];
        for (weights, expected) in cases {
            for features in levels() {
                let layer = PackedWeights::for_features(geometry, weights, features).unwrap();
                let found = layer.convolve(&input).unwrap();
                prop_assert!(found == expected, "{geometry:?}, {bits} bits, {features:?}");
            }
        }
    }

    #[test]
    fn regions_are_pieces_of_the_whole(
        geometry in geometry(),
        bits in prop::sample::select(vec![24_u32, 41]),
        images in 1_usize..=2,
        seed in any::<[u8; 32]>(),
        cuts in any::<[prop::sample::Index; 4]>(),
    ) {
        let mut generator = Seed::from_bytes(seed).generator();
        let (bytes, _) = random_weights(&geometry, &mut generator);
        let input = random_images(&geometry, bits, images, &mut generator);
        let layer = PackedWeights::new(geometry, Weights::Bytes(&bytes)).unwrap();
        let whole = layer.convolve(&input).unwrap();
        let (channels, rows) = (geometry.shape().out_channels, geometry.output().height);
        let range = |a: &prop::sample::Index, b: &prop::sample::Index, end: usize| {
            let (a, b) = (a.index(end + 1), b.index(end + 1));
            a.min(b)..a.max(b)
        };
        let region = Region { channels: range(&cuts[0], &cuts[1], channels), rows: range(&cuts[2], &cuts[3], rows) };
        let packed = layer.pack_input(&input).unwrap();
        let part = layer.convolve_region(&packed, &region).unwrap();
        let mut reused = random_images_like(&part, &mut generator);
        layer.convolve_region_into(&packed, &region, &mut reused).unwrap();
        prop_assert_eq!(&reused, &part);
        let columns = geometry.output().width;
        let mut places = part.iter();
        for image in 0..images {
            for channel in region.channels.clone() {
                for row in region.rows.clone() {
                    for column in 0..columns {
                        let index = ((image * channels + channel) * rows + row) * columns + column;
                        prop_assert_eq!(places.next(), whole.get(index));
                    }
                }
            }
        }
        prop_assert_eq!(places.next(), None);
    }
}

/// Large sums: taps beyond what 32 bits can sum exactly, with the largest digits and weights.
#[test]
fn extreme_values_and_weights_do_not_overflow() {
    let geometry = ConvGeometry::fully_connected(70_001, 2).unwrap();
    for bits in [32, 33, 41, 48, 64] {
        let width = RingWidth::new(bits).unwrap();
        for value in [width.mask(), 0x8080_8080_8080_8080, 0x8000_8000_8000_8000, 0x7fff_7fff_7fff_7fff] {
            let input = RingVector::from_unsigned(width, &vec![value; geometry.input_len()]);
            for weight in [-128_i8, 127] {
                let bytes = vec![weight; geometry.weight_len()];
                let halves = vec![if weight < 0 { i16::MIN } else { i16::MAX }; geometry.weight_len()];
                let total = |weight: i64| {
                    width.reduce(input.get(0).unwrap().wrapping_mul((weight * 70_001).cast_unsigned()))
                };
                for features in levels() {
                    let layer =
                        PackedWeights::for_features(geometry, Weights::Bytes(&bytes), features).unwrap();
                    let found = layer.convolve(&input).unwrap().to_unsigned();
                    assert_eq!(found, [total(i64::from(weight)); 2], "{bits} bits, {value:x} times {weight}");
                    let layer =
                        PackedWeights::for_features(geometry, Weights::Halves(&halves), features).unwrap();
                    let found = layer.convolve(&input).unwrap().to_unsigned();
                    assert_eq!(
                        found,
                        [total(i64::from(halves[0])); 2],
                        "{bits} bits, {value:x}, 16-bit weights"
                    );
                }
            }
        }
    }
}

#[test]
fn layers_of_the_working_point_equal_their_definition() {
    let mut generator = Seed::from_bytes([8; 32]).generator();
    let depthwise = ConvShape { groups: 24, ..*ConvGeometry::square(24, 24, 9, 3, 2).unwrap().shape() };
    let layers = [
        ConvGeometry::square(64, 64, 8, 3, 1).unwrap(),
        ConvGeometry::square(64, 48, 8, 3, 2).unwrap(),
        ConvGeometry::square(32, 64, 8, 1, 2).unwrap(),
        ConvGeometry::square(3, 33, 12, 7, 2).unwrap(),
        ConvGeometry::fully_connected(512, 100).unwrap(),
        ConvGeometry::new(depthwise).unwrap(),
    ];
    for geometry in layers {
        let (bytes, _) = random_weights(&geometry, &mut generator);
        for bits in [20, 32] {
            let input = random_images(&geometry, bits, 1, &mut generator);
            let expected = reference::convolve(&geometry, &widened(&bytes), &input);
            for features in levels() {
                let layer = PackedWeights::for_features(geometry, Weights::Bytes(&bytes), features).unwrap();
                assert!(
                    layer.convolve(&input).unwrap() == expected,
                    "{geometry:?}, {bits} bits, {features:?}"
                );
            }
        }
    }
}

/// Some channels, all rows.
fn convolve_channels(
    layer: &PackedWeights,
    input: &PackedInput,
    channels: Range<usize>,
) -> Result<RingVector, RingError> {
    layer.convolve_region(input, &Region { channels, ..Region::whole(layer.geometry()) })
}

#[test]
fn channels_computed_apart_concatenate() {
    let mut generator = Seed::from_bytes([9; 32]).generator();
    let geometry = ConvGeometry::square(8, 80, 5, 3, 1).unwrap();
    let (bytes, _) = random_weights(&geometry, &mut generator);
    let layer = PackedWeights::new(geometry, Weights::Bytes(&bytes)).unwrap();
    let input = random_images(&geometry, 32, 1, &mut generator);
    let packed = layer.pack_input(&input).unwrap();
    let ends = [0, CHANNEL_BLOCK, 2 * CHANNEL_BLOCK, 80];
    let parts: Vec<_> =
        ends.windows(2).map(|pair| convolve_channels(&layer, &packed, pair[0]..pair[1]).unwrap()).collect();
    assert_eq!(RingVector::concatenate(input.width(), &parts).unwrap(), layer.convolve(&input).unwrap());
}

#[test]
fn rows_computed_apart_interleave() {
    let mut generator = Seed::from_bytes([10; 32]).generator();
    // One layer for dot products, one whose channels do not see each other.
    let dense = ConvGeometry::square(8, 40, 7, 3, 1).unwrap();
    let apart = ConvShape { in_channels: 40, groups: 40, ..*dense.shape() };
    for geometry in [dense, ConvGeometry::new(apart).unwrap()] {
        let (bytes, _) = random_weights(&geometry, &mut generator);
        let layer = PackedWeights::new(geometry, Weights::Bytes(&bytes)).unwrap();
        for bits in [20, 40] {
            let input = random_images(&geometry, bits, 1, &mut generator);
            let packed = layer.pack_input(&input).unwrap();
            let whole = Region::whole(&geometry);
            let part = |rows| layer.convolve_region(&packed, &Region { rows, ..whole.clone() }).unwrap();
            let parts = [part(0..3), part(3..4), part(4..7)];
            let joined = RingVector::interleave(input.width(), &parts, whole.channels.end).unwrap();
            assert_eq!(joined, layer.convolve(&input).unwrap());
        }
    }
}

#[test]
fn what_does_not_fit_the_layer_is_refused() {
    let geometry = ConvGeometry::square(2, 3, 4, 3, 1).unwrap();
    let width = RingWidth::new(32).unwrap();
    assert_eq!(
        PackedWeights::new(geometry, Weights::Bytes(&[0; 53])).unwrap_err(),
        RingError::WeightCount { expected: 54, found: 53 }
    );
    let layer = PackedWeights::new(geometry, Weights::Halves(&[0; 54])).unwrap();
    for found in [0, 31, 33] {
        assert_eq!(
            layer.convolve(&RingVector::zeros(width, found)).unwrap_err(),
            RingError::NotWholeImages { image: 32, found }
        );
    }
    let input = layer.pack_input(&RingVector::zeros(width, 32)).unwrap();
    for (channels, rows) in [((0, 4), 0..4), ((0, 3), 3..5), ((3, 2), 0..4)] {
        let region = Region { channels: channels.0..channels.1, rows };
        assert_eq!(
            layer.convolve_region(&input, &region).unwrap_err(),
            RingError::Region { region, channels: 3, rows: 4 }
        );
    }
    let whole = Region::whole(&geometry);
    let mut output = RingVector::zeros(width, 47);
    assert_eq!(
        layer.convolve_region_into(&input, &whole, &mut output).unwrap_err(),
        RingError::LengthMismatch { expected: 48, found: 47 }
    );
    let narrower = RingWidth::new(31).unwrap();
    assert_eq!(
        layer.convolve_region_into(&input, &whole, &mut RingVector::zeros(narrower, 48)).unwrap_err(),
        RingError::WidthMismatch { expected: width, found: narrower }
    );
    let other = ConvGeometry::square(2, 3, 4, 1, 1).unwrap();
    let other = PackedWeights::new(other, Weights::Bytes(&[0; 6])).unwrap();
    assert_eq!(convolve_channels(&other, &input, 0..3).unwrap_err(), RingError::ForeignInput);
}

/// On processors without VNNI, 8-bit and 16-bit weights meet the values of wide rings in different digits.
#[test]
fn an_input_packed_for_other_kernels_is_refused() {
    let geometry = ConvGeometry::square(4, 16, 4, 3, 1).unwrap();
    let features = CpuFeatures::PORTABLE;
    let (bytes, halves) = (vec![1; geometry.weight_len()], vec![1; geometry.weight_len()]);
    let byte_layer = PackedWeights::for_features(geometry, Weights::Bytes(&bytes), features).unwrap();
    let half_layer = PackedWeights::for_features(geometry, Weights::Halves(&halves), features).unwrap();
    let values = RingVector::zeros(RingWidth::new(41).unwrap(), geometry.input_len());
    let packed = byte_layer.pack_input(&values).unwrap();
    assert!(convolve_channels(&byte_layer, &packed, 0..16).is_ok());
    assert_eq!(convolve_channels(&half_layer, &packed, 0..16).unwrap_err(), RingError::ForeignInput);
}

#[test]
fn weights_and_inputs_print_no_values() {
    let geometry = ConvGeometry::fully_connected(1, 1).unwrap();
    let layer = PackedWeights::new(geometry, Weights::Bytes(&[99])).unwrap();
    let input = layer.pack_input(&RingVector::from_unsigned(RingWidth::new(9).unwrap(), &[98])).unwrap();
    assert_eq!(format!("{input:?}"), "PackedInput(1 images, 9 bits)");
    assert_eq!(format!("{:?}", Weights::Bytes(&[99])), "Weights(1)");
    assert!(!format!("{layer:?}").contains("99"));
}
