//! The client's side: keys, encryption of the blinds, decryption of its share.

use super::encoding::{decode, encode};
use super::error::HeError;
use super::kernel::AlignedWords;
use super::messages::{
    AnswerCiphertext, InputCiphertext, LayerUniform, LinearAnswer, LinearRequest, PublicKey, PublicSeed,
    SecondHalves,
};
use super::ntt::NttTable;
use super::packing::Layout;
use super::parameters::HeParameters;
use super::sampling::{ShortPolynomial, binomial, expand_uniform, stream, ternary};
use super::section::Section;
use crate::domain;
use crate::random::{Scope, Seed};
use crate::secret::Secret;

/// The client's secret key. Known to the client only; drawn fresh for every inference, since the uniform halves are always
/// those of the model. It serves all parameters with its ring.
pub struct ClientKey {
    parameters: HeParameters,
    /// For each prime the key's values, times 2^52.
    pub(super) values: Vec<Secret<AlignedWords>>,
}

/// The randomness of one request. One request spends it.
pub struct RequestSecrets {
    errors: Seed,
}

impl RequestSecrets {
    /// The randomness of the request at this place.
    pub fn derive(root: &Seed, scope: &Scope) -> Self {
        Self { errors: root.derive(domain::HE_ERROR, scope) }
    }
}

impl ClientKey {
    /// A uniform ternary key.
    pub fn generate(parameters: &HeParameters, root: &Seed, scope: &Scope) -> Self {
        let mut generator = root.derive(domain::HE_SECRET_KEY, scope).generator();
        let key = ternary(&mut generator, parameters.degree());
        let values = parameters.tables().iter().map(|table| {
            let mut values = Secret::new(transform(parameters, table, &key));
            let word = table.modulus().word_factor();
            values.expose_mut().iter_mut().for_each(|value| *value = table.modulus().multiply(*value, word));
            values
        });
        Self { parameters: parameters.clone(), values: values.collect() }
    }

    /// The public key `(-(a s + e), a)` whose uniform half is the model's.
    pub fn public_key(&self, seed: &PublicSeed, root: &Seed, scope: &Scope) -> PublicKey {
        let mut generator = root.derive(domain::HE_PUBLIC_ERROR, scope).generator();
        let error = binomial(&mut generator, self.parameters.degree());
        let uniform = expand_uniform(&self.parameters, domain::HE_PUBLIC_UNIFORM, seed.bytes());
        let no_message = |_: &mut [u64], _: usize| {};
        PublicKey::new(&self.parameters, *seed, self.encrypt_under(uniform, &error, no_message))
    }

    /// Encrypts the blinds of a layer.
    ///
    /// # Errors
    /// When the number of blinds is not the layer's number of inputs.
    pub fn encrypt(
        &self,
        layout: &Layout,
        uniform: &LayerUniform,
        blinds: &[u64],
        secrets: RequestSecrets,
    ) -> Result<LinearRequest, HeError> {
        let one = |index| self.encrypt_ciphertext(layout, uniform, blinds, &secrets, index);
        let ciphertexts = (0..layout.input_ciphertexts()).map(one).collect::<Result<_, _>>()?;
        LinearRequest::assemble(layout, ciphertexts)
    }

    /// One ciphertext of a request, for callers that divide the work. Each index is encrypted once.
    ///
    /// # Errors
    /// When the number of blinds is not the layer's number of inputs.
    pub fn encrypt_ciphertext(
        &self,
        layout: &Layout,
        uniform: &LayerUniform,
        blinds: &[u64],
        secrets: &RequestSecrets,
        index: usize,
    ) -> Result<InputCiphertext, HeError> {
        let (expected, got) = (layout.shape().input_values(), blinds.len());
        if expected != got {
            return Err(HeError::Count { what: "blinds of a layer", expected, got });
        }
        let parameters = self.admit(layout)?;
        let uniform = uniform.expand(parameters, index);
        let error = binomial(&mut stream(&secrets.errors, index), parameters.degree());
        let mask = parameters.ring_mask();
        let limbs = self.encrypt_under(uniform, &error, |coefficients, limb| {
            let modulus = parameters.tables()[limb].modulus();
            for (coefficient, source) in layout.input_places(index) {
                let message = encode(parameters, limb, blinds[source] & mask);
                coefficients[coefficient] = modulus.add(coefficients[coefficient], message);
            }
        });
        Ok(InputCiphertext::pack(parameters, &limbs))
    }

    /// The parameters of a layer, if this key is one for them.
    fn admit<'a>(&self, layout: &'a Layout) -> Result<&'a HeParameters, HeError> {
        match self.parameters.shares_key_with(layout.parameters()) {
            true => Ok(layout.parameters()),
            false => Err(HeError::OtherRing),
        }
    }

    /// `message + e - a s` as coefficients, for each prime; `add_message` adds the message's.
    pub(super) fn encrypt_under(
        &self,
        uniform: Vec<AlignedWords>,
        error: &ShortPolynomial,
        add_message: impl Fn(&mut [u64], usize),
    ) -> Vec<AlignedWords> {
        let kernels = self.parameters.kernels();
        let limbs = uniform.into_iter().zip(self.parameters.tables()).zip(&self.values).enumerate();
        let encrypt =
            |(limb, ((mut product, table), key)): (_, ((AlignedWords, &NttTable), &Secret<AlignedWords>))| {
                let modulus = table.modulus();
                kernels.multiply_montgomery(modulus, &mut product, key.expose());
                kernels.inverse(table, &mut product, table.plain_scale);
                let mut body = Secret::new(lift(table, error));
                add_message(body.expose_mut(), limb);
                for (product, body) in product.iter_mut().zip(body.expose().iter()) {
                    *product = modulus.subtract(*body, *product);
                }
                product
            };
        limbs.map(encrypt).collect()
    }

    /// The client's share of the layer's output: W r - s, off by what the parameters allow.
    ///
    /// # Errors
    /// When the answer has another number of ciphertexts than the layout.
    pub fn decrypt(
        &self,
        layout: &Layout,
        second: &SecondHalves,
        answer: &LinearAnswer,
    ) -> Result<Secret<Vec<u64>>, HeError> {
        let (expected, got) = (layout.output_ciphertexts(), answer.ciphertexts.len());
        if expected != got {
            return Err(HeError::Count { what: "ciphertexts of an answer", expected, got });
        }
        let mut share = Secret::new(vec![0; layout.shape().output_values()]);
        for (index, ciphertext) in answer.ciphertexts.iter().enumerate() {
            let values = self.decrypt_ciphertext(layout, second, index, ciphertext)?;
            layout.scatter(index, values.expose(), share.expose_mut());
        }
        Ok(share)
    }

    /// The useful values of one ciphertext, for callers that divide the work; [`Layout::scatter`] places them.
    ///
    /// # Errors
    /// When the ciphertext does not have the length of this index.
    pub fn decrypt_ciphertext(
        &self,
        layout: &Layout,
        second: &SecondHalves,
        index: usize,
        ciphertext: &AnswerCiphertext,
    ) -> Result<Secret<Vec<u64>>, HeError> {
        let (uniform, values) = (second.checked(layout, index)?, ciphertext.checked_values(layout, index)?);
        let (parameters, count) = (self.admit(layout)?, layout.output_count(index));
        let sections = [Section::uniform(parameters), Section::values(layout, index)];
        let limbs = parameters.tables().iter().zip(&self.values).take(parameters.answer_primes());
        let phases: Vec<_> = limbs
            .map(|(table, key)| {
                let product = self.key_product(table, key, sections[0].residues(uniform, table));
                let mut phase = Secret::new(sections[1].residues(values, table));
                for (phase, (coefficient, _)) in
                    phase.expose_mut().iter_mut().zip(layout.output_places(index))
                {
                    *phase = table.modulus().add(*phase, product.expose()[coefficient]);
                }
                phase
            })
            .collect();
        let decoded = (0..count).map(|place| {
            let mut residues = [0; 2];
            residues.iter_mut().zip(&phases).for_each(|(residue, phase)| *residue = phase.expose()[place]);
            decode(parameters, parameters.kept_reading(), &residues[..phases.len()])
        });
        Ok(Secret::new(decoded.collect()))
    }

    /// The second half times the key modulo one prime, as coefficients.
    fn key_product(
        &self,
        table: &NttTable,
        key: &Secret<AlignedWords>,
        second: AlignedWords,
    ) -> Secret<AlignedWords> {
        let kernels = self.parameters.kernels();
        let mut product = Secret::new(second);
        kernels.forward(table, product.expose_mut());
        kernels.multiply_montgomery(table.modulus(), product.expose_mut(), key.expose());
        kernels.inverse(table, product.expose_mut(), table.plain_scale);
        product
    }
}

/// The residues of a short polynomial's coefficients.
pub(super) fn lift(table: &NttTable, polynomial: &ShortPolynomial) -> AlignedWords {
    let mut residues = AlignedWords::zeros(table.degree());
    for (residue, coefficient) in residues.iter_mut().zip(polynomial.expose()) {
        *residue = table.modulus().lift(i64::from(*coefficient));
    }
    residues
}

/// The values of a short polynomial.
pub(super) fn transform(
    parameters: &HeParameters,
    table: &NttTable,
    polynomial: &ShortPolynomial,
) -> AlignedWords {
    let mut values = lift(table, polynomial);
    parameters.kernels().forward(table, &mut values);
    values
}
