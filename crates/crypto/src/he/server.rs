//! The server's side: products with the weights, made circuit-private, as an answer for the client.

use super::client::transform;
use super::encoding::{decode, rescale};
use super::error::HeError;
use super::kernel::{Accumulation, AlignedWords, LANES};
use super::messages::{AnswerCiphertext, LinearAnswer, LinearRequest, PublicKey};
use super::packing::Layout;
use super::sampling::{ShortPolynomial, binomial, expand_uniform, secret_residues, stream, ternary};
use super::section::Section;
use super::weights::{BlockWeights, PreparedWeights, WeightScratch, interleave};
use crate::domain;
use crate::random::{Scope, Seed};
use crate::secret::Secret;

/// The randomness of one answer: masks and encryptions of zero. One answer spends it.
pub struct AnswerSecrets {
    masks: Seed,
    zeros: Seed,
}

impl AnswerSecrets {
    /// The randomness of the answer at this place.
    pub fn derive(root: &Seed, scope: &Scope) -> Self {
        Self { masks: root.derive(domain::HE_MASK, scope), zeros: root.derive(domain::HE_ZERO, scope) }
    }

    /// The same with masks from another seed: one that may be stored, since nothing else comes from it.
    #[must_use]
    pub fn with_masks_of(mut self, masks_root: &Seed, scope: &Scope) -> Self {
        self.masks = masks_root.derive(domain::HE_MASK, scope);
        self
    }

    /// The server's share s of the answer that was made at this place: the same values that came with the answer,
    /// for a server that kept the root alone.
    pub fn rederive_masks(root: &Seed, scope: &Scope, layout: &Layout) -> Secret<Vec<u64>> {
        let masks = root.derive(domain::HE_MASK, scope);
        let mut share = Secret::new(vec![0; layout.shape().output_values()]);
        for output in 0..layout.output_ciphertexts() {
            let mask = OutputMask::draw(layout, &masks, output);
            layout.scatter(output, mask.share(layout).expose(), share.expose_mut());
        }
        share
    }
}

/// The mask S of one output ciphertext's useful coefficients: uniform modulo q, and so for each prime.
///
/// What the client sees of those coefficients is then uniform too, whatever it sent: they tell it nothing but its share.
pub(super) struct OutputMask {
    limbs: Vec<Secret<AlignedWords>>,
    count: usize,
}

impl OutputMask {
    pub(super) fn draw(layout: &Layout, masks: &Seed, output: usize) -> Self {
        let (mut generator, count) = (stream(masks, output), layout.output_count(output));
        let tables = layout.parameters().tables().iter();
        let limbs = tables.map(|table| secret_residues(&mut generator, table.modulus(), count)).collect();
        Self { limbs, count }
    }

    #[cfg(test)]
    pub(super) fn residue(&self, limb: usize, place: usize) -> u64 {
        self.limbs[limb].expose()[place]
    }

    /// The server's share: round(t S / q), since the client decrypts what S was subtracted from.
    fn share(&self, layout: &Layout) -> Secret<Vec<u64>> {
        let parameters = layout.parameters();
        let value = |place: usize| {
            let mut residues = [0; 2];
            residues.iter_mut().zip(&self.limbs).for_each(|(residue, limb)| *residue = limb.expose()[place]);
            decode(parameters, parameters.whole_reading(), &residues[..self.limbs.len()])
        };
        Secret::new((0..self.count).map(value).collect())
    }
}

/// One tile's ciphertexts, expanded and interleaved for the products.
pub struct TileInputs {
    /// For each prime both halves, `[lane block][term][8]`.
    limbs: Vec<[AlignedWords; 2]>,
}

/// What one unit of the server's work gives: ciphertexts to send and the masks to keep.
pub struct BlockAnswer {
    pub(super) outputs: Vec<(AnswerCiphertext, Secret<Vec<u64>>)>,
}

/// The encryption of zero that goes into one output ciphertext.
pub(super) struct FreshZero {
    pub(super) ternary: ShortPolynomial,
    pub(super) error: ShortPolynomial,
}

impl TileInputs {
    /// Expands the uniform halves of one tile's ciphertexts, and transforms the computed ones.
    pub fn expand(layout: &Layout, request: &LinearRequest, tile: usize) -> Self {
        let parameters = layout.parameters();
        let (terms, section) = (layout.inputs_per_tile(), Section::request(parameters));
        let zeros = || AlignedWords::zeros(parameters.degree() * terms);
        let mut limbs: Vec<_> = parameters.tables().iter().map(|_| [zeros(), zeros()]).collect();
        for (term, ciphertext) in request.ciphertexts[tile * terms..][..terms].iter().enumerate() {
            let uniform = expand_uniform(parameters, domain::HE_UNIFORM, &ciphertext.seed);
            for ((limb, table), uniform) in limbs.iter_mut().zip(parameters.tables()).zip(&uniform) {
                let mut computed = section.residues(&ciphertext.computed, table);
                parameters.kernels().forward(table, &mut computed);
                interleave(&mut limb[0], &[&computed], terms, term);
                interleave(&mut limb[1], &[uniform], terms, term);
            }
        }
        Self { limbs }
    }
}

impl PreparedWeights {
    /// The whole answer and the server's share s, on one thread.
    ///
    /// # Errors
    /// When the request has another number of ciphertexts than the layout.
    pub fn answer(
        &self,
        public_key: &PublicKey,
        request: &LinearRequest,
        secrets: AnswerSecrets,
    ) -> Result<(LinearAnswer, Secret<Vec<u64>>), HeError> {
        let layout = self.layout();
        let (expected, got) = (layout.input_ciphertexts(), request.ciphertexts.len());
        if expected != got {
            return Err(HeError::Count { what: "ciphertexts of a request", expected, got });
        }
        let mut blocks = Vec::with_capacity(layout.blocks());
        let mut scratch = WeightScratch::default();
        for tile in 0..layout.tiles() {
            let inputs = TileInputs::expand(layout, request, tile);
            for block in layout.tile_blocks(tile) {
                blocks.push(self.answer_block(public_key, &inputs, &secrets, block, &mut scratch));
            }
        }
        LinearAnswer::assemble(layout, blocks)
    }

    /// One unit of work: the block with this index, given the inputs of its tile. Each block is answered once; the
    /// scratch may serve any number of them.
    pub fn answer_block(
        &self,
        public_key: &PublicKey,
        inputs: &TileInputs,
        secrets: &AnswerSecrets,
        block: usize,
        scratch: &mut WeightScratch,
    ) -> BlockAnswer {
        let layout = self.layout();
        let (tile, inner) = (block / layout.blocks_per_tile(), block % layout.blocks_per_tile());
        let outputs = layout.block_outputs(inner).map(|output| tile * layout.outputs_per_tile() + output);
        let zeros: Vec<_> = outputs.clone().map(|output| FreshZero::draw(layout, secrets, output)).collect();
        let weights = match self.kept_block(inner) {
            Some(kept) => kept,
            None => self.transform_into(inner, scratch),
        };
        let products = multiply_block(layout, inner, public_key, inputs, weights, &zeros);
        let finish = |((output, zero), halves)| finish_output(layout, output, zero, halves, secrets);
        BlockAnswer { outputs: outputs.zip(&zeros).zip(products).map(finish).collect() }
    }
}

impl FreshZero {
    pub(super) fn draw(layout: &Layout, secrets: &AnswerSecrets, output: usize) -> Self {
        let mut generator = stream(&secrets.zeros, output);
        let degree = layout.parameters().degree();
        let ternary = ternary(&mut generator, degree);
        Self { ternary, error: binomial(&mut generator, degree) }
    }
}

/// For each output of a block and each prime, both halves of weights times inputs plus u times the public key, as
/// coefficients.
pub(super) fn multiply_block(
    layout: &Layout,
    block: usize,
    public_key: &PublicKey,
    inputs: &TileInputs,
    weights: &BlockWeights,
    zeros: &[FreshZero],
) -> Vec<Vec<[Secret<AlignedWords>; 2]>> {
    let parameters = layout.parameters();
    let (kernels, degree) = (parameters.kernels(), parameters.degree());
    let terms = layout.block_inputs(block);
    let mut products: Vec<Vec<_>> = zeros.iter().map(|_| Vec::new()).collect();
    for (limb, table) in parameters.tables().iter().enumerate() {
        let mut zero_values = Secret::new(AlignedWords::zeros(zeros.len() * degree));
        for (slot, zero) in zeros.iter().enumerate() {
            let values = Secret::new(transform(parameters, table, &zero.ternary));
            interleave(zero_values.expose_mut(), &[values.expose()], zeros.len(), slot);
        }
        let accumulation = Accumulation {
            stored_terms: layout.inputs_per_tile(),
            first_term: terms.start,
            terms: terms.len(),
            outputs: zeros.len(),
            ciphertext: [&inputs.limbs[limb][0], &inputs.limbs[limb][1]],
            weights: weights.limbs[limb].expose(),
            public_key: [&public_key.halves[limb][0], &public_key.halves[limb][1]],
            zero: zero_values.expose(),
        };
        let mut results = vec![AlignedWords::zeros(degree); 2 * zeros.len()];
        kernels.accumulate(table.modulus(), &accumulation, &mut results);
        for (index, mut result) in results.into_iter().enumerate() {
            kernels.inverse(table, &mut result, table.montgomery_scale);
            products[index / 2].push(Secret::new(result));
        }
    }
    products.into_iter().map(pair_halves).collect()
}

fn pair_halves(polynomials: Vec<Secret<AlignedWords>>) -> Vec<[Secret<AlignedWords>; 2]> {
    let mut polynomials = polynomials.into_iter();
    std::iter::from_fn(|| Some([polynomials.next()?, polynomials.next()?])).collect()
}

/// Subtracts the mask, adds e_2, and writes what may be sent.
fn finish_output(
    layout: &Layout,
    output: usize,
    zero: &FreshZero,
    limbs: Vec<[Secret<AlignedWords>; 2]>,
    secrets: &AnswerSecrets,
) -> (AnswerCiphertext, Secret<Vec<u64>>) {
    let parameters = layout.parameters();
    let count = layout.output_count(output);
    let mask = OutputMask::draw(layout, &secrets.masks, output);
    let (mut values, mut uniform) = (Vec::new(), Vec::new());
    for (limb, [product, mut second]) in limbs.into_iter().enumerate() {
        let modulus = parameters.tables()[limb].modulus();
        let mut useful = Secret::new(AlignedWords::zeros(count.next_multiple_of(LANES)));
        let hidden = layout.output_places(output).zip(mask.limbs[limb].expose().iter());
        for (value, ((coefficient, _), mask)) in useful.expose_mut().iter_mut().zip(hidden) {
            *value = modulus.subtract(product.expose()[coefficient], *mask);
        }
        values.push(useful);
        for (coefficient, error) in second.expose_mut().iter_mut().zip(zero.error.expose()) {
            *coefficient = modulus.add(*coefficient, modulus.lift(i64::from(*error)));
        }
        uniform.push(second);
    }
    let sections = [Section::uniform(parameters), Section::values(layout, output)];
    let mut bytes = Vec::with_capacity(sections.iter().map(Section::length).sum());
    for (section, mut limbs) in sections.into_iter().zip([uniform, values]) {
        rescale(parameters, &mut limbs);
        section.write(&mut bytes, parameters, &limbs.iter().map(Secret::expose).collect::<Vec<_>>());
    }
    (AnswerCiphertext { bytes }, mask.share(layout))
}
