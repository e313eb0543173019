//! Linear layers under encryption: the client learns W r - s for its blinds r, the server keeps the mask s.
//!
//! RLWE with coefficient packing and no rotations, after Huang, Lu, Hong and Ding, "Cheetah: lean and fast secure
//! two-party deep neural network inference" (USENIX Security 2022), section 3, in the place that linearly
//! homomorphic encryption has in DELPHI (Mishra et al., USENIX Security 2020), section 4. Parameters follow from
//! the outline ([`HeParameters`]), places from the layer's shape ([`Layout`]).
//!
//! ```text
//! client                                                      server
//! s ternary, e small                                          W; u, e_2 for the layer
//!   a, a_k from the model's public name                       a, a_k from the model's public name
//!   PublicKey       b = -(a s + e)          ------------>
//!   LinearRequest   q/t r + e_k - a_k s     ------------>     c0 = sum of W_k times request k + u b
//!                                                               - S, uniform modulo q     hides all of c0
//!                                                             c1 = sum of W_k a_k + u a + e_2, once a client
//!                                                             rescale, shorten
//!   W r - s         <------------  LinearAnswer   useful coefficients of c0; c1 once      s = round(t S / q)
//! ```
//!
//! The client's key is fresh for every inference, S too. What does not depend on them, c1, is the same for all inferences of a
//! model; a client that does not have it yet gets it with an answer.
//!
//! What the client gets is pseudorandom whatever it sent: c0 is uniform because S is, c1 is hidden by the server's own u.
//! The price is that S has no exact share: both shares add up to W r plus the noise t delta / q, rounded to one of its
//! neighbors. Whoever reads a layer's output drops low bits of it; the noise stays well below what is kept
//! ([`HeParameters::deviation`]), and bits that would only say more than that are not sent, in neither direction.

#[cfg(test)]
mod attacks;
#[doc(hidden)]
pub mod bench_support;
mod bits;
mod client;
mod encoding;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod ideal;
mod kernel;
mod messages;
mod modulus;
mod ntt;
#[cfg(test)]
mod oracle;
mod packing;
mod parameters;
mod sampling;
mod section;
mod server;
mod weights;

pub use client::{ClientKey, RequestSecrets};
pub use error::HeError;
pub use messages::{
    AnswerCiphertext, Halves, InputCiphertext, LayerUniform, LinearAnswer, LinearRequest, PublicKey,
    PublicSeed, SecondHalves,
};
pub use packing::{ConvolutionShape, Layout, LinearShape};
pub use parameters::{HeOutline, HeParameters, WeightBits};
pub use server::{AnswerSecrets, BlockAnswer, LayerSecrets, TileInputs};
pub use weights::{PreparedWeights, WeightScratch, WeightStorage};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;
    use crate::random::{Direction, InferenceId, Scope, Seed, SessionId};

    pub(super) fn scope(step: u32, direction: Direction) -> Scope {
        Scope { session: SessionId([1; 32]), inference: InferenceId([2; 16]), step, direction }
    }

    /// Both parties, messages as bytes, and the comparison with the ideal layer: the errors, in last places.
    fn run_both_parties(
        parameters: &HeParameters,
        shape: LinearShape,
        weights: &[i16],
        storage: WeightStorage,
        seed: u8,
    ) -> Vec<i64> {
        let (up, down) = (scope(1, Direction::ClientToServer), scope(1, Direction::ServerToClient));
        let (client_root, server_root) = (Seed::from_bytes([seed; 32]), Seed::from_bytes([seed ^ 0xff; 32]));
        let mut blinds = Seed::from_bytes([seed ^ 0x55; 32]).generator();
        let layout = Layout::new(parameters, &shape).unwrap();
        let session = PublicSeed::derive(&[3; 32]);

        let uniform = LayerUniform::new(&session, 1);
        let key = ClientKey::generate(parameters, &client_root, &up);
        let public_key = key.public_key(&session, &client_root, &up).to_bytes(parameters);
        let blinds: Vec<_> =
            (0..shape.input_values()).map(|_| blinds.next_u64() & parameters.ring_mask()).collect();
        let secrets = RequestSecrets::derive(&client_root, &up);
        let request = key.encrypt(&layout, &uniform, &blinds, secrets).unwrap();
        let request = request.to_bytes(&layout);
        assert_eq!(request.len(), LinearRequest::length(&layout));

        let public_key = PublicKey::from_bytes(parameters, &session, &public_key).unwrap();
        let request = LinearRequest::from_bytes(&layout, &request).unwrap();
        let prepared = PreparedWeights::new(&layout, weights, storage).unwrap();
        let layer = LayerSecrets::derive(&server_root, &session, 1);
        let secrets = (&layer, AnswerSecrets::derive(&server_root, &down));
        let (answer, server_share) = prepared.answer(&public_key, &request, secrets, Halves::Both).unwrap();
        let answer = answer.to_bytes();
        assert_eq!(answer.len(), LinearAnswer::length(&layout, Halves::Both));

        let mut answer = LinearAnswer::from_bytes(&layout, Halves::Both, &answer).unwrap();
        let second = answer.take_second_halves().unwrap();
        let client_share = key.decrypt(&layout, &second, &answer).unwrap();
        let ring_bits = parameters.ring_bits();
        let expected =
            ideal::client_share(&shape, ring_bits, weights, &blinds, server_share.expose()).unwrap();
        let pairs = client_share.expose().iter().zip(expected.expose());
        let errors = pairs.map(|(came, expected)| {
            let error = came.wrapping_sub(*expected).wrapping_shl(64 - ring_bits) as i64 >> (64 - ring_bits);
            assert!(
                error.unsigned_abs() <= parameters.largest_error(),
                "{error} in {shape:?} at {parameters}"
            );
            error
        });
        errors.collect()
    }

    fn extreme_weights(shape: &LinearShape, bound: i16, seed: u8) -> Vec<i16> {
        let mut generator = Seed::from_bytes([seed; 32]).generator();
        let sign = |word: u64| if word & 1 == 0 { bound } else { -bound };
        (0..shape.weights()).map(|_| sign(generator.next_u64())).collect()
    }

    fn shapes() -> Vec<LinearShape> {
        let same = ConvolutionShape::same;
        let mut shapes: Vec<_> = [
            same(12, 9, 16, 3),
            same(20, 7, 8, 1),
            same(3, 4, 11, 5),
            ConvolutionShape { stride: [2; 2], ..same(6, 5, 16, 3) },
            ConvolutionShape { stride: [2; 2], ..same(6, 5, 16, 1) },
            ConvolutionShape { dilation: [2; 2], padding: [2; 2], ..same(4, 4, 10, 3) },
            ConvolutionShape { groups: 3, ..same(9, 6, 7, 3) },
            ConvolutionShape { groups: 30, ..same(30, 30, 8, 3) },
            ConvolutionShape { padding: [0; 2], input_size: [9, 14], ..same(3, 2, 6, 3) },
            same(1, 1, 70, 3),
        ]
        .map(LinearShape::Convolution)
        .to_vec();
        shapes.push(LinearShape::FullyConnected { inputs: 600, outputs: 40 });
        shapes
    }

    #[test]
    fn decrypted_answers_are_the_layer_for_every_kind_of_layer() {
        for (index, shape) in shapes().into_iter().enumerate() {
            let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]).also_bearing(4608);
            let parameters = HeParameters::from_outline(&outline).unwrap();
            let weights = extreme_weights(&shape, 127, index as u8);
            run_both_parties(&parameters, shape, &weights, WeightStorage::Everything, index as u8);
        }
    }

    /// The account is right, and not by being generous: worst weights come close to the deviation that it foresees.
    #[test]
    fn errors_have_the_deviation_of_the_account() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(16, 12, 16, 3));
        for (ring_bits, tolerance) in [(31, 16), (22, 9), (40, 10), (40, 3), (60, 30), (60, 6)] {
            let outline = HeOutline::from_layers(ring_bits, WeightBits::Eight, vec![shape]);
            let parameters = HeParameters::from_outline(&outline.tolerating(tolerance)).unwrap();
            let weights = extreme_weights(&shape, 127, ring_bits as u8);
            let errors = run_both_parties(&parameters, shape, &weights, WeightStorage::Everything, 3);
            let count = errors.len() as f64;
            let mean = errors.iter().sum::<i64>() as f64 / count;
            let squares = errors.iter().map(|error| (error * error) as f64).sum::<f64>();
            // Rounding to a neighbor adds at most a quarter.
            let (seen, foreseen) = ((squares / count).sqrt(), (parameters.deviation().powi(2) + 0.25).sqrt());
            assert!(seen <= 1.05 * foreseen && mean.abs() < 0.1 * foreseen, "{seen}, {mean} at {parameters}");
            if tolerance > 5 {
                assert!(seen >= 0.8 * foreseen, "{seen} at {parameters}");
            }
        }
    }

    /// Several inferences, each with a key of its own, on the second halves that came with the first.
    #[test]
    fn one_second_half_serves_all_inferences() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(6, 5, 8, 3));
        let outline = HeOutline::from_layers(31, WeightBits::Eight, vec![shape]).tolerating(12);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        let weights = extreme_weights(&shape, 127, 4);
        let prepared = PreparedWeights::new(&layout, &weights, WeightStorage::Everything).unwrap();
        let session = PublicSeed::derive(&[3; 32]);
        let layer_scope = scope(1, Direction::ServerToClient);
        let layer = LayerSecrets::derive(&Seed::from_bytes([7; 32]), &session, 1);
        let uniform = LayerUniform::new(&session, 1);
        let mut kept = None;
        for number in 1..=8_u64 {
            let (client, server) =
                (Seed::from_bytes([number as u8; 32]), Seed::from_bytes([99 + number as u8; 32]));
            let up = scope(1, Direction::ClientToServer);
            let key = ClientKey::generate(&parameters, &client, &up);
            let mut generator = Seed::from_bytes([200 + number as u8; 32]).generator();
            let blinds: Vec<_> =
                (0..shape.input_values()).map(|_| generator.next_u64() & parameters.ring_mask()).collect();
            let public_key = key.public_key(&session, &client, &up);
            let secrets = RequestSecrets::derive(&client, &up);
            let request = key.encrypt(&layout, &uniform, &blinds, secrets).unwrap();
            let answer = |halves| {
                let secrets = (&layer, AnswerSecrets::derive(&server, &layer_scope));
                prepared.answer(&public_key, &request, secrets, halves).unwrap()
            };
            let again = answer(Halves::Both).0.take_second_halves().unwrap();
            assert!(*kept.get_or_insert(again.clone()) == again, "all the same");
            let (answer, server_share) = answer(Halves::First);
            let client_share = key.decrypt(&layout, &again, &answer).unwrap();
            let expected = ideal::client_share(&shape, 31, &weights, &blinds, server_share.expose()).unwrap();
            for (came, expected) in client_share.expose().iter().zip(expected.expose()) {
                let error = (came.wrapping_sub(*expected) << 33) as i64 >> 33;
                assert!(error.unsigned_abs() <= parameters.largest_error(), "{number}: {error}");
            }
        }
    }

    #[test]
    fn a_key_of_another_ring_is_refused() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(3, 3, 5, 3));
        let [narrow, wide] = [31, 60].map(|ring_bits| {
            let outline = HeOutline::from_layers(ring_bits, WeightBits::Eight, vec![shape]);
            HeParameters::from_outline(&outline).unwrap()
        });
        let (root, place) = (Seed::from_bytes([1; 32]), scope(1, Direction::ClientToServer));
        let key = ClientKey::generate(&narrow, &root, &place);
        let layout = Layout::new(&wide, &shape).unwrap();
        let uniform = LayerUniform::new(&PublicSeed::derive(&[3; 32]), 1);
        let request = key.encrypt(&layout, &uniform, &[0; 75], RequestSecrets::derive(&root, &place));
        assert_eq!(request.err(), Some(HeError::OtherRing));
    }

    #[test]
    fn decrypted_answers_are_the_layer_at_every_width() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(8, 5, 6, 3));
        for ring_bits in (16..=41).chain([48, 57, 64]) {
            let outline =
                HeOutline::from_layers(ring_bits, WeightBits::Eight, vec![shape]).also_bearing(4608);
            let weights = extreme_weights(&shape, 127, ring_bits as u8);
            for (tolerance, storage) in [(0, WeightStorage::Everything), (9, WeightStorage::AtMost(0))] {
                let outline = outline.clone().tolerating(tolerance);
                let parameters = HeParameters::from_outline(&outline).unwrap();
                run_both_parties(&parameters, shape, &weights, storage, ring_bits as u8);
            }
        }
    }

    #[test]
    fn twelve_bit_weights_and_weights_of_one_sign_decrypt() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(20, 6, 8, 3));
        for ring_bits in [16, 24, 32, 41] {
            let outline =
                HeOutline::from_layers(ring_bits, WeightBits::Twelve, vec![shape]).also_bearing(4608);
            let parameters = HeParameters::from_outline(&outline).unwrap();
            for weights in
                [extreme_weights(&shape, 2047, 1), vec![2047; shape.weights()], vec![-2047; shape.weights()]]
            {
                run_both_parties(&parameters, shape, &weights, WeightStorage::Everything, 7);
            }
        }
    }

    #[test]
    fn layers_of_random_geometry_decrypt() {
        let mut generator = Seed::from_bytes([21; 32]).generator();
        let mut pick = |low: usize, high: usize| low + generator.next_u64() as usize % (high - low + 1);
        for round in 0..40_u8 {
            let groups = pick(1, 3);
            let shape = LinearShape::Convolution(ConvolutionShape {
                input_channels: groups * pick(1, 6),
                output_channels: groups * pick(1, 6),
                input_size: [pick(5, 24), pick(5, 24)],
                filter_size: [pick(1, 5), pick(1, 5)],
                stride: [pick(1, 3), pick(1, 3)],
                padding: [pick(0, 3), pick(0, 3)],
                dilation: [pick(1, 2), pick(1, 2)],
                groups,
            });
            let (ring_bits, twelve) = (pick(16, 41) as u32, pick(0, 1) == 1);
            let weight_bits = if twelve { WeightBits::Twelve } else { WeightBits::Eight };
            if shape.output_values() == 0 {
                continue;
            }
            let outline = HeOutline::from_layers(ring_bits, weight_bits, vec![shape]);
            let outline = outline.tolerating(pick(0, 16) as u32);
            let parameters = HeParameters::from_outline(&outline).unwrap();
            let weights = extreme_weights(&shape, weight_bits.bound() as i16, round);
            run_both_parties(&parameters, shape, &weights, WeightStorage::AtMost(1 << 20), round);
        }
    }

    #[test]
    fn a_picture_larger_than_a_ciphertext_decrypts() {
        let stem =
            ConvolutionShape { stride: [2; 2], padding: [3; 2], ..ConvolutionShape::same(3, 4, 224, 7) };
        let shape = LinearShape::Convolution(stem);
        let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]).also_bearing(4608);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let weights = extreme_weights(&shape, 127, 2);
        run_both_parties(&parameters, shape, &weights, WeightStorage::Everything, 5);
    }

    #[test]
    fn portable_and_vector_code_send_the_same_bytes() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(9, 11, 16, 3));
        let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]);
        let weights = extreme_weights(&shape, 127, 3);
        let (up, down) = (scope(1, Direction::ClientToServer), scope(1, Direction::ServerToClient));
        let root = Seed::from_bytes([8; 32]);
        let blinds: Vec<_> = (0..shape.input_values() as u64).collect();
        let run = |cpu| {
            let parameters = HeParameters::from_outline(&outline).unwrap().with_cpu(cpu);
            let layout = Layout::new(&parameters, &shape).unwrap();
            let session = PublicSeed::derive(&[3; 32]);
            let key = ClientKey::generate(&parameters, &root, &up);
            let public_key = key.public_key(&session, &root, &up);
            let uniform = LayerUniform::new(&session, 1);
            let request =
                key.encrypt(&layout, &uniform, &blinds, RequestSecrets::derive(&root, &up)).unwrap();
            let prepared = PreparedWeights::new(&layout, &weights, WeightStorage::AtMost(3 << 20)).unwrap();
            let layer = LayerSecrets::derive(&root, &session, 1);
            let answer = |halves| {
                let secrets = (&layer, AnswerSecrets::derive(&root, &down));
                prepared.answer(&public_key, &request, secrets, halves).unwrap().0
            };
            let (mut both, first) = (answer(Halves::Both), answer(Halves::First));
            let sent = both.to_bytes();
            let second = both.take_second_halves().unwrap();
            assert!(both == first);
            let share = key.decrypt(&layout, &second, &first).unwrap();
            (public_key.to_bytes(&parameters), request.to_bytes(&layout), sent, share.expose().clone())
        };
        let portable = run(CpuFeatures::PORTABLE);
        let fast = run(CpuFeatures::available());
        assert!(portable == fast);
    }

    #[test]
    fn wrong_counts_weights_and_layers_are_refused() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(3, 3, 5, 3));
        let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        let prepare =
            |weights: &[i16]| PreparedWeights::new(&layout, weights, WeightStorage::Everything).err();
        assert_eq!(prepare(&[128; 81]), Some(HeError::WeightRange { bound: 127 }));
        assert_eq!(prepare(&[i16::MIN; 81]), Some(HeError::WeightRange { bound: 127 }));
        assert!(matches!(prepare(&[1; 80]), Some(HeError::Count { expected: 81, got: 80, .. })));
        let larger = LinearShape::Convolution(ConvolutionShape::same(30, 30, 5, 3));
        assert!(matches!(Layout::new(&parameters, &larger), Err(HeError::TooManyTaps { .. })));
        let (root, place) = (Seed::from_bytes([1; 32]), scope(1, Direction::ClientToServer));
        let key = ClientKey::generate(&parameters, &root, &place);
        let uniform = LayerUniform::new(&PublicSeed::derive(&[3; 32]), 1);
        let request = key.encrypt(&layout, &uniform, &[0; 74], RequestSecrets::derive(&root, &place));
        assert!(matches!(request.err(), Some(HeError::Count { expected: 75, got: 74, .. })));
    }

    #[test]
    fn bounded_memory_gives_the_same_answer() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(6, 13, 32, 3));
        let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        let everything = PreparedWeights::bytes(&layout);
        let weights = extreme_weights(&shape, 127, 9);
        for bytes in [0, everything / 2, everything] {
            run_both_parties(&parameters, shape, &weights, WeightStorage::AtMost(bytes), 11);
        }
    }
}
