//! The whole exchange once more with schoolbook polynomials modulo q: slow, and written from the formulas alone.
//!
//! Knowing both parties' secrets it predicts every byte of requests and answers and both shares, the rounding included.

use super::bits::BitWriter;
use super::sampling::{binomial, expand_uniform, stream, ternary};
use super::server::{FreshZero, OutputMask};
use super::tests::scope;
use super::*;
use crate::domain;
use crate::random::{Direction, Scope, Seed};

/// A polynomial modulo q.
type Wide = Vec<u128>;

/// Numbers modulo q, q being one or two primes.
struct Slow<'a> {
    parameters: &'a HeParameters,
    modulus: u128,
}

impl Slow<'_> {
    fn new(parameters: &HeParameters) -> Slow<'_> {
        Slow { parameters, modulus: parameters.primes().map(u128::from).product() }
    }

    /// The number with these residues.
    fn compose(&self, residues: &[u64]) -> u128 {
        let primes: Vec<_> = self.parameters.primes().map(u128::from).collect();
        if primes.len() == 1 {
            return u128::from(residues[0]);
        }
        // The inverse of the first prime modulo the second, by Fermat.
        let power = |mut base: u128, mut exponent: u128, modulus: u128| {
            let mut result = 1;
            while exponent > 0 {
                if exponent % 2 == 1 {
                    result = result * base % modulus;
                }
                base = base * base % modulus;
                exponent /= 2;
            }
            result
        };
        let inverse = power(primes[0] % primes[1], primes[1] - 2, primes[1]);
        let difference =
            (u128::from(residues[1]) + primes[1] - u128::from(residues[0]) % primes[1]) % primes[1];
        u128::from(residues[0]) + primes[0] * (difference * inverse % primes[1])
    }

    fn add(&self, left: &Wide, right: &Wide) -> Wide {
        left.iter().zip(right).map(|(a, b)| (a + b) % self.modulus).collect()
    }

    /// Modulo x^n + 1, one side short.
    fn multiply(&self, short: &[i64], wide: &Wide) -> Wide {
        let degree = wide.len();
        let mut product = vec![0_u128; degree];
        for (i, factor) in short.iter().enumerate().filter(|(_, factor)| **factor != 0) {
            for (j, value) in wide.iter().enumerate() {
                let term = value * u128::from(factor.unsigned_abs()) % self.modulus;
                let is_negative = (*factor < 0) != (i + j >= degree);
                let term = if is_negative { (self.modulus - term) % self.modulus } else { term };
                product[(i + j) % degree] = (product[(i + j) % degree] + term) % self.modulus;
            }
        }
        product
    }

    fn lift(&self, short: &[i64]) -> Wide {
        short.iter().map(|value| (self.modulus as i128 + i128::from(*value)) as u128 % self.modulus).collect()
    }

    /// A uniform polynomial of which the messages hold the values.
    fn uniform(&self, mut limbs: Vec<super::kernel::AlignedWords>) -> Wide {
        for (limb, table) in limbs.iter_mut().zip(self.parameters.tables()) {
            self.parameters.kernels().inverse(table, limb, table.plain_scale);
        }
        let residues = |place: usize| limbs.iter().map(|limb| limb[place]).collect::<Vec<_>>();
        (0..self.parameters.degree()).map(|place| self.compose(&residues(place))).collect()
    }

    /// round(q m / t).
    fn encode(&self, element: u64) -> u128 {
        let t = 1_u128 << self.parameters.ring_bits();
        // q has 73 bits at most here, and a ring element 40.
        (self.modulus * u128::from(element) + t / 2) / t % self.modulus
    }

    /// round(t v / modulus) modulo t, for any modulus.
    fn read(&self, value: u128, modulus: u128) -> u64 {
        let t = 1_u128 << self.parameters.ring_bits();
        ((value * t + modulus / 2) / modulus % t) as u64
    }

    /// Divides by the dropped prime.
    fn rescale(&self, value: u128) -> u128 {
        let kept: u128 = self.parameters.format().kept_modulus;
        let divisor = self.modulus / kept;
        (value + divisor / 2) / divisor % kept
    }

    /// Leaves out low bits; what is sent, and what it is taken for.
    fn shorten(&self, value: u128, dropped: u32) -> (u128, u128) {
        let sent = value >> dropped;
        let middle = if dropped == 0 { 0 } else { 1 << (dropped - 1) };
        (sent, ((sent << dropped) + middle) % self.modulus)
    }
}

fn signed(short: &crate::secret::Secret<Vec<i8>>) -> Vec<i64> {
    short.expose().iter().map(|value| i64::from(*value)).collect()
}

#[test]
fn every_byte_and_both_shares_are_what_the_formulas_say() {
    for (ring_bits, tolerance, seed) in
        [(20, 0, 1), (31, 0, 2), (31, 16, 3), (40, 12, 4), (22, 9, 5), (40, 0, 6)]
    {
        let degree = predict(ring_bits, tolerance, seed);
        assert_eq!(degree, if (ring_bits, tolerance) == (40, 0) { 4096 } else { 2048 });
    }
}

/// Compares, and tells the degree that was chosen.
fn predict(ring_bits: u32, tolerance: u32, seed: u8) -> usize {
    let shape = LinearShape::Convolution(ConvolutionShape::same(2, 1, 8, 3));
    let outline = HeOutline::from_layers(ring_bits, WeightBits::Eight, vec![shape]);
    let outline = outline.also_bearing(4608).tolerating(tolerance);
    let parameters = HeParameters::from_outline(&outline).unwrap();
    let layout = Layout::new(&parameters, &shape).unwrap();
    assert_eq!((layout.input_ciphertexts(), layout.output_ciphertexts()), (1, 1));
    let slow = Slow::new(&parameters);
    let (up, down): (Scope, Scope) =
        (scope(1, Direction::ClientToServer), scope(1, Direction::ServerToClient));
    let (client_root, server_root) = (Seed::from_bytes([seed; 32]), Seed::from_bytes([seed ^ 0xff; 32]));
    let session = PublicSeed::derive(&[3; 32]);
    let mut generator = Seed::from_bytes([seed ^ 0x55; 32]).generator();
    let weights: Vec<_> = (0..shape.weights()).map(|_| (generator.next_u64() % 255) as i16 - 127).collect();
    let blinds: Vec<_> =
        (0..shape.input_values()).map(|_| generator.next_u64() & parameters.ring_mask()).collect();

    // The code.
    let key = ClientKey::generate(&parameters, &client_root, &up);
    let public_key = key.public_key(&session, &client_root, &up);
    let uniform = LayerUniform::new(&session, 1);
    let secrets = RequestSecrets::derive(&client_root, &up);
    let request = key.encrypt(&layout, &uniform, &blinds, secrets).unwrap();
    let prepared = PreparedWeights::new(&layout, &weights, WeightStorage::Everything).unwrap();
    let layer = LayerSecrets::derive(&server_root, &session, 1);
    let secrets = (&layer, AnswerSecrets::derive(&server_root, &down));
    let (mut answer, server_share) = prepared.answer(&public_key, &request, secrets, Halves::Both).unwrap();
    let sent = answer.to_bytes();
    let second_halves = answer.take_second_halves().unwrap();
    let client_share = key.decrypt(&layout, &second_halves, &answer).unwrap();

    // The formulas. The client: key, errors, message.
    let degree = parameters.degree();
    let secret = signed(&ternary(&mut client_root.derive(domain::HE_SECRET_KEY, &up).generator(), degree));
    let key_error =
        signed(&binomial(&mut client_root.derive(domain::HE_PUBLIC_ERROR, &up).generator(), degree));
    let a_key = slow.uniform(expand_uniform(&parameters, domain::HE_PUBLIC_UNIFORM, session.bytes()));
    let negated: Vec<_> = secret.iter().map(|trit| -trit).collect();
    let b_key = slow.add(&slow.lift(&key_error), &slow.multiply(&negated, &a_key));
    let error = client_root.derive(domain::HE_ERROR, &up);
    let error = signed(&binomial(&mut stream(&error, 0), degree));
    let mut message = slow.lift(&error);
    for (coefficient, value) in layout.input_places(0) {
        message[coefficient] = (message[coefficient] + slow.encode(blinds[value])) % slow.modulus;
    }
    let a = slow.uniform(uniform.expand(&parameters, 0));
    let format = parameters.format();
    let mut bytes = Vec::new();
    let mut writer = BitWriter::new(&mut bytes);
    let mut b = slow.add(&message, &slow.multiply(&negated, &a));
    for value in &mut b {
        let (sent, read) = slow.shorten(*value, format.input_dropped);
        writer.push(sent, format.input_bits);
        *value = read;
    }
    writer.finish();
    assert!(request.to_bytes(&layout) == bytes, "{parameters}");
    // The server: weights, encryption of zero, mask.
    let mut polynomial = vec![0; degree];
    for place in layout.weight_places(0, 0) {
        let weight = i64::from(weights[place.weight]);
        polynomial[place.coefficient] = if place.is_negated { -weight } else { weight };
    }
    let zero = FreshZero::draw(&layout, &layer, 0, Halves::Both);
    let (u, e_2) = (signed(&zero.ternary), signed(&zero.error));
    let first = slow.add(&slow.multiply(&polynomial, &b), &slow.multiply(&u, &b_key));
    let second = slow.add(&slow.multiply(&polynomial, &a), &slow.multiply(&u, &a_key));
    let second = slow.add(&second, &slow.lift(&e_2));
    let mask = OutputMask::draw(&layout, &server_root.derive(domain::HE_MASK, &down), 0);
    let primes = parameters.primes().len();
    let mask =
        |place: usize| slow.compose(&(0..primes).map(|limb| mask.residue(limb, place)).collect::<Vec<_>>());
    // What is sent, and what is read.
    let kept = Slow { parameters: &parameters, modulus: format.kept_modulus };
    let mut bytes = Vec::new();
    let mut writer = BitWriter::new(&mut bytes);
    let mut taken = Vec::new();
    for value in &second {
        let (sent, read) = kept.shorten(slow.rescale(*value), format.uniform_dropped);
        writer.push(sent, format.uniform_bits);
        taken.push(read);
    }
    writer.finish();
    let product = kept.multiply(&secret, &taken);
    let mut writer = BitWriter::new(&mut bytes);
    let places: Vec<_> = layout.output_places(0).collect();
    for (place, (coefficient, value)) in places.into_iter().enumerate() {
        let hidden = (first[coefficient] + slow.modulus - mask(place)) % slow.modulus;
        let (sent, read) = kept.shorten(slow.rescale(hidden), format.value_dropped);
        writer.push(sent, format.value_bits);
        let phase = (read + product[coefficient]) % kept.modulus;
        assert_eq!(client_share.expose()[value], slow.read(phase, kept.modulus), "{value} at {parameters}");
        assert_eq!(
            server_share.expose()[value],
            slow.read(mask(place), slow.modulus),
            "{value} at {parameters}"
        );
    }
    writer.finish();
    assert!(sent == bytes, "{parameters}");
    degree
}
