//! Attacks of curious and cheating clients on the weights. Each succeeds against a weakened server and fails against ours.

use super::encoding::{compose, encode};
use super::kernel::AlignedWords;
use super::ntt::NttTable;
use super::sampling::binomial;
use super::server::{FreshZero, OutputMask, TileInputs, multiply_block};
use super::tests::scope;
use super::*;
use crate::random::{Direction, Generator, Seed};
use crate::secret::Secret;

/// Both parties' state around one answer of one ciphertext from one ciphertext.
struct Scene {
    parameters: HeParameters,
    layout: Layout,
    key: ClientKey,
    public_key: PublicKey,
    request: LinearRequest,
    layer: LayerSecrets,
}

/// Both halves of an answer before mask and rescaling: for each prime, as coefficients.
type RawAnswer = Vec<Vec<Secret<AlignedWords>>>;

impl Scene {
    fn new(seed: u8) -> Self {
        let shape = LinearShape::Convolution(ConvolutionShape::same(3, 1, 32, 3));
        let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]).also_bearing(4608);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        assert_eq!((layout.input_ciphertexts(), layout.output_ciphertexts()), (1, 1));
        let up = scope(1, Direction::ClientToServer);
        let root = Seed::from_bytes([seed; 32]);
        let key = ClientKey::generate(&parameters, &root, &up);
        let session = PublicSeed::derive(&[3; 32]);
        let public_key = key.public_key(&session, &root, &up);
        let mut generator = Seed::from_bytes([seed ^ 0xa5; 32]).generator();
        let blinds: Vec<_> = (0..shape.input_values()).map(|_| generator.next_u64() & 0xffff_ffff).collect();
        let uniform = LayerUniform::new(&session, 1);
        let request = key.encrypt(&layout, &uniform, &blinds, RequestSecrets::derive(&root, &up)).unwrap();
        let layer = LayerSecrets::derive(&Seed::from_bytes([seed ^ 0xff; 32]), &session, 1);
        Self { parameters, layout, key, public_key, request, layer }
    }

    fn random_weights(&self) -> Vec<i16> {
        let mut generator = Seed::from_bytes([77; 32]).generator();
        (0..self.layout.shape().weights()).map(|_| (generator.next_u64() % 255) as i16 - 127).collect()
    }

    fn zero_as_specified(&self) -> FreshZero {
        FreshZero::draw(&self.layout, &self.layer, 0, Halves::Both)
    }

    fn no_zero(&self) -> FreshZero {
        let nothing = || Secret::new(vec![0; self.parameters.degree()]);
        FreshZero { ternary: nothing(), error: nothing() }
    }

    fn raw_answer(&self, weights: &[i16], public_key: &PublicKey, zero: FreshZero) -> RawAnswer {
        let prepared = PreparedWeights::new(&self.layout, weights, WeightStorage::Everything).unwrap();
        let inputs = TileInputs::expand(&self.layout, &self.layer, &self.request, 0, Halves::Both);
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
        self.layer.uniform().expand(&self.parameters, 0).remove(0)
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

    /// A request whose only ciphertext encrypts `q / (2 t)` at one value: half of what a ring element's one would be.
    fn half_unit_request(&self, value: usize, seed: u8) -> LinearRequest {
        let mut generator = Seed::from_bytes([seed; 32]).generator();
        let error = binomial(&mut generator, self.parameters.degree());
        let uniform = self.layer.uniform().expand(&self.parameters, 0);
        let (place, _) = self.layout.input_places(0).find(|(_, source)| *source == value).unwrap();
        let limbs = self.key.encrypt_under(uniform, &error, |coefficients, limb| {
            let modulus = self.parameters.tables()[limb].modulus();
            let half = modulus.reduce(half_gap(&self.parameters));
            coefficients[place] = modulus.add(coefficients[place], half);
        });
        LinearRequest { ciphertexts: vec![InputCiphertext::pack(&self.parameters, &limbs)] }
    }

    /// What the client's key makes of the useful coefficients, modulo q, after the server hid them.
    fn phases(&self, answer: &RawAnswer, hide: impl Fn(usize, usize, u64) -> u64) -> Vec<u128> {
        let mut limbs = Vec::new();
        for (limb, table) in self.parameters.tables().iter().enumerate() {
            let (modulus, kernels) = (table.modulus(), self.parameters.kernels());
            let mut product = answer[limb][1].expose().clone();
            kernels.forward(table, &mut product);
            kernels.multiply_montgomery(modulus, &mut product, self.key.values[limb].expose());
            kernels.inverse(table, &mut product, table.plain_scale);
            let phase = self.layout.output_places(0).enumerate().map(|(index, (coefficient, _))| {
                let hidden = hide(limb, index, answer[limb][0].expose()[coefficient]);
                modulus.add(hidden, product[coefficient])
            });
            limbs.push(phase.collect::<Vec<_>>());
        }
        let residues = |place: usize| limbs.iter().map(|limb| limb[place]).collect::<Vec<_>>();
        (0..limbs[0].len()).map(|place| compose(&self.parameters, &residues(place))).collect()
    }

    /// The mask of earlier versions: a multiple of `q / t`, and three uniforms that cover honest noise.
    fn phases_under_grid_and_flood(&self, answer: &RawAnswer, generator: &mut Generator) -> Vec<u128> {
        let flood_bits = self.parameters.modulus_bits() - self.parameters.ring_bits() - 2;
        let flood = |generator: &mut Generator| -> u128 {
            (0..3).map(|_| generator.next_u128() >> (128 - flood_bits)).sum()
        };
        let drawn: Vec<_> = self
            .layout
            .output_places(0)
            .map(|_| (generator.next_u64() & self.parameters.ring_mask(), flood(generator)))
            .collect();
        self.phases(answer, |limb, index, residue| {
            let modulus = self.parameters.tables()[limb].modulus();
            let (mask, flood) = drawn[index];
            let center = modulus.reduce(3 << (flood_bits - 1));
            let masked = modulus.add(residue, encode(&self.parameters, limb, mask));
            modulus.add(masked, modulus.subtract(modulus.reduce(flood), center))
        })
    }

    fn phases_under_our_mask(&self, answer: &RawAnswer, seed: &Seed) -> Vec<u128> {
        let mask = OutputMask::draw(&self.layout, seed, 0);
        self.phases(answer, |limb, index, residue| {
            self.parameters.tables()[limb].modulus().subtract(residue, mask.residue(limb, index))
        })
    }
}

fn modulus_of(parameters: &HeParameters) -> u128 {
    parameters.primes().map(u128::from).product()
}

/// `q / (2 t)`, rounded down.
fn half_gap(parameters: &HeParameters) -> u128 {
    modulus_of(parameters) >> (parameters.ring_bits() + 1)
}

/// The parity that a phase shows: is it closer to a multiple of `q / t` or to the middle between two?
fn parity(parameters: &HeParameters, phase: u128) -> bool {
    let within = phase % (2 * half_gap(parameters));
    let half = half_gap(parameters);
    within.abs_diff(half) < half / 2
}

/// How many parities of the first input channel's weights a client guesses right in so many preparations.
fn parities_read(scene: &mut Scene, weights: &[i16], rounds: u8, ours: bool) -> (usize, usize) {
    let mut generator = Seed::from_bytes([91; 32]).generator();
    // The middle pixel of the first channel meets each of the channel's nine weights in another output.
    let middle = 16 * 32 + 16;
    let mut right = 0;
    for round in 0..rounds {
        scene.request = scene.half_unit_request(middle, round);
        let answer = scene.raw_answer(weights, &scene.public_key, scene.zero_as_specified());
        let phases = match ours {
            true => scene.phases_under_our_mask(&answer, &generator.seed()),
            false => scene.phases_under_grid_and_flood(&answer, &mut generator),
        };
        for (tap, weight) in weights.iter().enumerate().take(9) {
            let output = (16 + 1 - tap / 3) * 32 + 16 + 1 - tap % 3;
            let place = scene.layout.output_places(0).position(|(_, value)| value == output).unwrap();
            right += usize::from(parity(&scene.parameters, phases[place]) == (weight % 2 != 0));
        }
    }
    (right, usize::from(rounds) * 9)
}

fn centered(residues: &[u64], prime: u64) -> Vec<i64> {
    residues
        .iter()
        .map(|&residue| residue as i64 - if residue > prime / 2 { prime as i64 } else { 0 })
        .collect()
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
    let small = quotient.iter().filter(|value| value.abs() < 1 << 35).count();
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

/// The uniform halves of another model under the same u: the difference of both second halves has no u left in it, and
/// dividing it by the difference of the uniform halves gives the weights.
#[test]
fn one_u_for_two_uniform_halves_gives_the_weights_and_ours_never_meets_two() {
    let mut scene = Scene::new(6);
    let weights = scene.random_weights();
    let truth = scene.true_polynomial(&weights);
    // The weakened server draws its errors, and u, from the layer alone: both models have the same.
    let reused = |scene: &Scene| {
        let mut zero = scene.zero_as_specified();
        zero.error.expose_mut().fill(0);
        zero
    };
    let (before, uniform) =
        (scene.raw_answer(&weights, &scene.public_key, reused(&scene)), scene.own_uniform());
    let first_zero = scene.zero_as_specified();
    let (root, other) = (Seed::from_bytes([6 ^ 0xff; 32]), PublicSeed::derive(&[9; 32]));
    let model = PublicSeed::derive(&[3; 32]);
    scene.layer = LayerSecrets::derive(&root, &model, 1).meeting(LayerUniform::new(&other, 1));
    let after = scene.raw_answer(&weights, &scene.public_key, reused(&scene));
    let (table, kernels) = (scene.first_table(), scene.parameters.kernels());
    let modulus = table.modulus();
    let mut quotient = before[0][1].expose().clone();
    for (value, other) in quotient.iter_mut().zip(after[0][1].expose().iter()) {
        *value = modulus.subtract(*value, *other);
    }
    kernels.forward(table, &mut quotient);
    let divisors =
        uniform.iter().zip(scene.own_uniform().to_vec()).map(|(one, other)| modulus.subtract(*one, other));
    for (value, divisor) in quotient.iter_mut().zip(divisors) {
        *value = modulus.multiply(*value, modulus.factor(modulus.inverse(divisor)));
    }
    kernels.inverse(table, &mut quotient, table.plain_scale);
    assert_eq!(centered(&quotient, modulus.value()), truth);

    // Ours draws them from the model's seed and the layer, so that another model, or another layer, has another u.
    let own = |model: &PublicSeed, layer: u32| {
        FreshZero::draw(&scene.layout, &LayerSecrets::derive(&root, model, layer), 0, Halves::Both)
            .ternary
            .expose()
            .clone()
    };
    assert_eq!(own(&model, 1), *first_zero.ternary.expose());
    assert_ne!(own(&other, 1), own(&model, 1));
    assert_ne!(own(&model, 2), own(&model, 1));
}

/// A server that was handed a key for another model does not answer.
#[test]
#[should_panic(expected = "its own model alone")]
fn a_key_of_another_model_is_never_answered() {
    let scene = Scene::new(7);
    let other = PublicSeed::derive(&[9; 32]);
    let up = scope(1, Direction::ClientToServer);
    let key = scene.key.public_key(&other, &Seed::from_bytes([1; 32]), &up);
    let weights = scene.random_weights();
    let prepared = PreparedWeights::new(&scene.layout, &weights, WeightStorage::Everything).unwrap();
    let masks = AnswerSecrets::derive(&Seed::from_bytes([2; 32]), &scope(1, Direction::ServerToClient));
    let _ = prepared.answer(&key, &scene.request, (&scene.layer, masks), Halves::Both);
}

/// A cheating client encrypts half of a unit. A mask that is a multiple of the unit leaves the parity of the weight
/// standing, and a flood made for honest noise does not cover it. A mask that is uniform modulo q leaves nothing.
#[test]
fn half_a_unit_reads_parities_from_a_mask_on_the_grid_and_nothing_from_ours() {
    let mut scene = Scene::new(4);
    let weights = scene.random_weights();
    let (right, guesses) = parities_read(&mut scene, &weights, 40, false);
    assert!(right * 10 > guesses * 9, "{right} of {guesses} against the weakened server");
    // A coin that is right half of the time strays 5.1 deviations with a probability below 4 in ten million.
    let (right, guesses) = parities_read(&mut scene, &weights, 200, true);
    let deviations = (2.0 * right as f64 - guesses as f64) / (guesses as f64).sqrt();
    assert!(deviations.abs() < 5.1, "{right} of {guesses} against ours");
}

#[test]
fn what_the_client_sees_is_uniform_whatever_the_weights_are() {
    let scene = Scene::new(5);
    let seen = |weight: i16, seed: u8| -> Vec<f64> {
        let weights = vec![weight; scene.layout.shape().weights()];
        let answer = scene.raw_answer(&weights, &scene.public_key, scene.zero_as_specified());
        let phases = scene.phases_under_our_mask(&answer, &Seed::from_bytes([seed; 32]));
        phases.into_iter().map(|phase| phase as f64).collect()
    };
    // Beyond 1.95 the two samples come from one distribution with a probability below one in a thousand.
    let apart = kolmogorov_smirnov(seen(0, 1), seen(127, 2));
    assert!(apart < 1.95, "{apart}");
}
