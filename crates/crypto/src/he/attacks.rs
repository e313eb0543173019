//! Attacks of a curious client on the weights. Each succeeds against a weakened server and fails against ours.

use super::encoding::encode;
use super::kernel::AlignedWords;
use super::ntt::NttTable;
use super::sampling::{expand_uniform, floods};
use super::server::{FreshZero, TileInputs, hide, multiply_block};
use super::tests::scope;
use super::*;
use crate::domain;
use crate::random::{Direction, Seed};
use crate::secret::Secret;

/// Both parties' state around one answer of one ciphertext from one ciphertext.
struct Scene {
    parameters: HeParameters,
    layout: Layout,
    key: ClientKey,
    public_key: PublicKey,
    blinds: Vec<u64>,
    request: LinearRequest,
    secrets: AnswerSecrets,
}

/// Both halves of an answer before mask, flood and rescaling: for each prime, as coefficients.
type RawAnswer = Vec<[Secret<AlignedWords>; 2]>;

impl Scene {
    fn new(seed: u8) -> Self {
        let shape = LinearShape::Convolution(ConvolutionShape::same(3, 1, 32, 3));
        let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]).also_counting(4608, 600_000);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        assert_eq!((layout.input_ciphertexts(), layout.output_ciphertexts()), (1, 1));
        let (up, down) = (scope(1, Direction::ClientToServer), scope(1, Direction::ServerToClient));
        let root = Seed::from_bytes([seed; 32]);
        let key = ClientKey::generate(&parameters, &root, &up);
        let session = PublicSeed::derive(&[3; 32], &[4; 32]).unwrap();
        let public_key = key.public_key(&session, &root, &up);
        let mut generator = Seed::from_bytes([seed ^ 0xa5; 32]).generator();
        let blinds: Vec<_> = (0..shape.input_values()).map(|_| generator.next_u64() & 0xffff_ffff).collect();
        let request = key.encrypt(&layout, &blinds, RequestSecrets::derive(&root, &up)).unwrap();
        let secrets = AnswerSecrets::derive(&Seed::from_bytes([seed ^ 0xff; 32]), &down);
        Self { parameters, layout, key, public_key, blinds, request, secrets }
    }

    fn random_weights(&self) -> Vec<i16> {
        let mut generator = Seed::from_bytes([77; 32]).generator();
        (0..self.layout.shape().weights()).map(|_| (generator.next_u64() % 255) as i16 - 127).collect()
    }

    fn zero_as_specified(&self) -> FreshZero {
        FreshZero::draw(&self.layout, &self.secrets, 0)
    }

    fn no_zero(&self) -> FreshZero {
        let nothing = || Secret::new(vec![0; self.parameters.degree()]);
        FreshZero { ternary: nothing(), error: nothing() }
    }

    fn raw_answer(&self, weights: &[i16], public_key: &PublicKey, zero: FreshZero) -> RawAnswer {
        let prepared = PreparedWeights::new(&self.layout, weights, WeightStorage::Everything).unwrap();
        let inputs = TileInputs::expand(&self.layout, &self.request, 0);
        let block = prepared.kept_block(0).unwrap();
        let mut answer =
            multiply_block(&self.layout, 0, public_key, &inputs, block, std::slice::from_ref(&zero))
                .remove(0);
        for (limb, table) in answer.iter_mut().zip(self.parameters.tables()) {
            for (coefficient, error) in limb[1].expose_mut().iter_mut().zip(zero.error.expose()) {
                let modulus = table.modulus();
                *coefficient = modulus.add(*coefficient, modulus.lift(i64::from(*error)));
            }
        }
        answer
    }

    fn first_table(&self) -> &NttTable {
        &self.parameters.tables()[0]
    }

    /// The uniform half of the client's own ciphertext, which it knows, modulo the first prime.
    fn own_uniform(&self) -> AlignedWords {
        expand_uniform(&self.parameters, domain::HE_UNIFORM, &self.request.ciphertexts[0].seed).remove(0)
    }

    /// Divides the answer's second half by the known uniform half: the weights, if nothing was added to it.
    fn divide_by_uniform(&self, answer: &RawAnswer) -> Vec<i64> {
        let (table, kernels) = (self.first_table(), self.parameters.kernels());
        let modulus = table.modulus();
        let mut quotient = answer[0][1].expose().clone();
        kernels.forward(table, &mut quotient);
        for (value, divisor) in quotient.iter_mut().zip(self.own_uniform().iter()) {
            *value = modulus.multiply(*value, modulus.factor(modulus.inverse(*divisor)));
        }
        kernels.inverse(table, &mut quotient, table.plain_scale);
        centered(&quotient, modulus.value())
    }

    /// What is left of the answer's second half after a guess of the weights is taken out.
    fn residue_of_guess(&self, answer: &RawAnswer, guess: &[i64]) -> Vec<i64> {
        let (table, kernels) = (self.first_table(), self.parameters.kernels());
        let modulus = table.modulus();
        let mut product = AlignedWords::zeros(table.degree());
        product.iter_mut().zip(guess).for_each(|(value, weight)| *value = modulus.lift(*weight));
        kernels.forward(table, &mut product);
        kernels.multiply_montgomery(modulus, &mut product, &self.own_uniform());
        kernels.inverse(table, &mut product, table.montgomery_scale);
        let sent = answer[0][1].expose();
        let residues: Vec<_> =
            sent.iter().zip(product.iter()).map(|(a, b)| modulus.subtract(*a, *b)).collect();
        centered(&residues, modulus.value())
    }

    /// The weight polynomial as it truly is.
    fn true_polynomial(&self, weights: &[i16]) -> Vec<i64> {
        let mut polynomial = vec![0; self.parameters.degree()];
        for place in self.layout.weight_places(0, 0) {
            let weight = i64::from(weights[place.weight]);
            polynomial[place.coefficient] = if place.is_negated { -weight } else { weight };
        }
        polynomial
    }

    /// The noise that a client sees who decrypts the flooded answer at the full modulus.
    fn decrypted_noise(&self, weights: &[i16], parameters: &HeParameters) -> Vec<f64> {
        let answer = self.raw_answer(weights, &self.public_key, self.zero_as_specified());
        let output = ideal::apply(self.layout.shape(), 32, weights, &self.blinds).unwrap();
        let mut generator =
            Seed::from_bytes([parameters.flood_bits() as u8 ^ weights[0] as u8; 32]).generator();
        let draws = floods(&mut generator, parameters.flood_bits(), output.len());
        let mut limbs = Vec::new();
        for (limb, table) in parameters.tables().iter().enumerate() {
            let (modulus, kernels) = (table.modulus(), parameters.kernels());
            let mut phase = answer[limb][1].expose().clone();
            kernels.forward(table, &mut phase);
            kernels.multiply_montgomery(modulus, &mut phase, self.key.values[limb].expose());
            kernels.inverse(table, &mut phase, table.plain_scale);
            let noise =
                self.layout.output_places(0).zip(draws.expose()).map(|((coefficient, value), flood)| {
                    let flooded = hide(parameters, limb, answer[limb][0].expose()[coefficient], 0, *flood);
                    let message = encode(parameters, limb, output[value]);
                    modulus.subtract(modulus.add(flooded, phase[coefficient]), message)
                });
            limbs.push(noise.collect::<Vec<_>>());
        }
        limbs[0]
            .iter()
            .zip(&limbs[1])
            .map(|(first, second)| compose_centered(parameters, *first, *second))
            .collect()
    }
}

fn centered(residues: &[u64], prime: u64) -> Vec<i64> {
    residues
        .iter()
        .map(|&residue| residue as i64 - if residue > prime / 2 { prime as i64 } else { 0 })
        .collect()
}

fn compose_centered(parameters: &HeParameters, first: u64, second: u64) -> f64 {
    let primes: Vec<_> = parameters.primes().collect();
    let modulus = parameters.tables()[1].modulus();
    let inverse = modulus.factor(modulus.inverse(primes[0] % primes[1]));
    let digit = modulus.multiply(modulus.subtract(second, first % primes[1]), inverse);
    let value = u128::from(first) + u128::from(primes[0]) * u128::from(digit);
    let product = u128::from(primes[0]) * u128::from(primes[1]);
    if value > product / 2 { -((product - value) as f64) } else { value as f64 }
}

/// The largest difference between two empirical distribution functions, in units of its usual size.
fn kolmogorov_smirnov(mut left: Vec<f64>, mut right: Vec<f64>) -> f64 {
    left.sort_by(f64::total_cmp);
    right.sort_by(f64::total_cmp);
    let below = |sorted: &[f64], bound: f64| {
        sorted.partition_point(|value| *value <= bound) as f64 / sorted.len() as f64
    };
    let largest =
        left.iter().chain(&right).map(|&x| (below(&left, x) - below(&right, x)).abs()).fold(0.0, f64::max);
    let (m, n) = (left.len() as f64, right.len() as f64);
    largest * (m * n / (m + n)).sqrt()
}

#[test]
fn without_the_encryption_of_zero_one_division_gives_the_weights() {
    let scene = Scene::new(1);
    let weights = scene.random_weights();
    let truth = scene.true_polynomial(&weights);
    let weakened = scene.raw_answer(&weights, &scene.public_key, scene.no_zero());
    assert_eq!(scene.divide_by_uniform(&weakened), truth);

    let ours = scene.raw_answer(&weights, &scene.public_key, scene.zero_as_specified());
    let quotient = scene.divide_by_uniform(&ours);
    let small = quotient.iter().filter(|value| value.abs() < 1 << 40).count();
    assert!(small < 50, "{small} of {} coefficients are small", quotient.len());
}

#[test]
fn with_a_zero_uniform_half_a_guess_of_the_weights_can_be_checked() {
    let scene = Scene::new(2);
    let weights = scene.random_weights();
    let truth = scene.true_polynomial(&weights);
    let mut degenerate = scene.public_key.clone();
    degenerate.halves.iter_mut().for_each(|halves| halves[1].fill(0));
    let is_confirmed = |answer: &RawAnswer, guess: &[i64]| {
        scene.residue_of_guess(answer, guess).iter().all(|residue| residue.abs() <= 21)
    };
    let mut wrong = truth.clone();
    *wrong.iter_mut().find(|weight| **weight != 0).unwrap() += 1;
    let weakened = scene.raw_answer(&weights, &degenerate, scene.zero_as_specified());
    assert!(is_confirmed(&weakened, &truth) && !is_confirmed(&weakened, &wrong));

    let ours = scene.raw_answer(&weights, &scene.public_key, scene.zero_as_specified());
    assert!(!is_confirmed(&ours, &truth));
}

#[test]
fn a_public_key_seed_of_zero_is_refused() {
    let scene = Scene::new(3);
    let session = PublicSeed::derive(&[3; 32], &[4; 32]).unwrap();
    let mut bytes = scene.public_key.to_bytes(&scene.parameters);
    assert!(PublicKey::from_bytes(&scene.parameters, &session, &bytes).is_ok());
    bytes[..32].fill(0);
    assert_eq!(PublicKey::from_bytes(&scene.parameters, &session, &bytes).err(), Some(HeError::PublicSeed));
    let chosen = PublicSeed::derive(&[3; 32], &[5; 32]).unwrap();
    let other =
        scene.key.public_key(&chosen, &Seed::from_bytes([1; 32]), &scope(1, Direction::ClientToServer));
    let bytes = other.to_bytes(&scene.parameters);
    assert_eq!(PublicKey::from_bytes(&scene.parameters, &session, &bytes).err(), Some(HeError::PublicSeed));
    for nonces in [([0; 32], [4; 32]), ([3; 32], [0; 32]), ([3; 32], [3; 32])] {
        assert_eq!(PublicSeed::derive(&nonces.0, &nonces.1), Err(HeError::Nonce));
    }
}

#[test]
fn a_small_flood_lets_the_noise_tell_weights_apart_and_ours_does_not() {
    let scene = Scene::new(4);
    let zeros = vec![0; scene.layout.shape().weights()];
    let extreme = vec![127; scene.layout.shape().weights()];
    let difference = |parameters: &HeParameters| {
        kolmogorov_smirnov(
            scene.decrypted_noise(&zeros, parameters),
            scene.decrypted_noise(&extreme, parameters),
        )
    };
    // Beyond 1.95 the two samples come from one distribution with a probability below one in a thousand.
    let (weak, ours) = (difference(&scene.parameters.with_weak_flood(8)), difference(&scene.parameters));
    assert!(weak > 5.0, "{weak}");
    assert!(ours < 1.95, "{ours}");
}
