//! The server's side: products with the weights, made circuit-private, as an answer for the client.

use super::client::transform;
use super::encoding::{decode, rescale};
use super::error::HeError;
use super::kernel::{Accumulation, AlignedWords, LANES};
use super::messages::{
    AnswerCiphertext, Halves, LayerUniform, LinearAnswer, LinearRequest, PublicKey, PublicSeed,
};
use super::packing::Layout;
use super::parameters::HeParameters;
use super::sampling::{ShortPolynomial, binomial, secret_residues, stream, ternary};
use super::section::Section;
use super::weights::{BlockWeights, PreparedWeights, WeightScratch, interleave};
use crate::domain;
use crate::random::{Direction, InferenceId, Scope, Seed, SessionId};
use crate::secret::Secret;

/// What one layer adds to all its answers, so that c1 = sum of W_k a_k + u a_pk + e_2 shows nothing of W.
///
/// u and e_2 belong to the uniform halves of one model. With others they must never meet: two such sums with one u reveal
/// the weights. So both come from the model's public seed and the layer, and there is no other way to make them.
pub struct LayerSecrets {
    zeros: Seed,
    uniform: LayerUniform,
}

impl LayerSecrets {
    /// Those of the layer with this number, from a root that is used for nothing else. The public seed stands for the
    /// weights: what it is the hash of must name them.
    pub fn derive(root: &Seed, public: &PublicSeed, layer: u32) -> Self {
        let (session, inference) = (SessionId(*public.bytes()), InferenceId([0; 16]));
        let scope = Scope { session, inference, step: layer, direction: Direction::ServerToClient };
        Self { zeros: root.derive(domain::HE_ZERO, &scope), uniform: LayerUniform::new(public, layer) }
    }

    /// What must never be: the same u for the uniform halves of another model.
    #[cfg(test)]
    pub(super) fn meeting(self, uniform: LayerUniform) -> Self {
        Self { uniform, ..self }
    }

    /// The layer's uniform halves.
    pub(super) fn uniform(&self) -> &LayerUniform {
        &self.uniform
    }
}

/// The masks of one answer. One answer spends them.
pub struct AnswerSecrets {
    masks: Seed,
}

impl AnswerSecrets {
    /// The masks of the answer at this place, from a root that may be stored, since nothing else comes from it.
    pub fn derive(root: &Seed, scope: &Scope) -> Self {
        Self { masks: root.derive(domain::HE_MASK, scope) }
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
    /// For each prime both halves, `[lane block][term][8]`; the second is empty where it is not wanted.
    limbs: Vec<[AlignedWords; 2]>,
    halves: Halves,
}

/// What one unit of the server's work gives: ciphertexts to send and the masks to keep.
pub struct BlockAnswer {
    pub(super) outputs: Vec<(AnswerCiphertext, Secret<Vec<u64>>)>,
}

/// The encryption of zero that goes into one output ciphertext.
pub(super) struct FreshZero {
    pub(super) ternary: ShortPolynomial,
    /// e_2; empty where only first halves are wanted, which have none.
    pub(super) error: ShortPolynomial,
}

impl TileInputs {
    /// Transforms the computed halves of one tile's ciphertexts and, where both are wanted, expands the uniform ones.
    pub fn expand(
        layout: &Layout,
        layer: &LayerSecrets,
        request: &LinearRequest,
        tile: usize,
        halves: Halves,
    ) -> Self {
        let parameters = layout.parameters();
        let (terms, section) = (layout.inputs_per_tile(), Section::request(parameters));
        let words = parameters.degree() * terms;
        let second = if halves == Halves::Both { words } else { 0 };
        let zeros = || [AlignedWords::zeros(words), AlignedWords::zeros(second)];
        let mut limbs: Vec<_> = parameters.tables().iter().map(|_| zeros()).collect();
        let first = tile * terms;
        for (term, ciphertext) in request.ciphertexts[first..][..terms].iter().enumerate() {
            for (limb, table) in limbs.iter_mut().zip(parameters.tables()) {
                let mut computed = section.residues(&ciphertext.computed, table);
                parameters.kernels().forward(table, &mut computed);
                interleave(&mut limb[0], &[&computed], terms, term);
            }
            if halves == Halves::Both {
                let uniform = layer.uniform().expand(parameters, first + term);
                for (limb, uniform) in limbs.iter_mut().zip(&uniform) {
                    interleave(&mut limb[1], &[uniform], terms, term);
                }
            }
        }
        Self { limbs, halves }
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
        (layer, secrets): (&LayerSecrets, AnswerSecrets),
        halves: Halves,
    ) -> Result<(LinearAnswer, Secret<Vec<u64>>), HeError> {
        let layout = self.layout();
        let (expected, got) = (layout.input_ciphertexts(), request.ciphertexts.len());
        if expected != got {
            return Err(HeError::Count { what: "ciphertexts of a request", expected, got });
        }
        let mut blocks = Vec::with_capacity(layout.blocks());
        let mut scratch = WeightScratch::default();
        for tile in 0..layout.tiles() {
            let inputs = TileInputs::expand(layout, layer, request, tile, halves);
            for block in layout.tile_blocks(tile) {
                let secrets = (layer, &secrets);
                blocks.push(self.answer_block(public_key, &inputs, secrets, block, &mut scratch));
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
        (layer, secrets): (&LayerSecrets, &AnswerSecrets),
        block: usize,
        scratch: &mut WeightScratch,
    ) -> BlockAnswer {
        let layout = self.layout();
        assert!(layer.uniform.is_of_key(public_key), "u meets the uniform halves of its own model alone");
        let (tile, inner) = (block / layout.blocks_per_tile(), block % layout.blocks_per_tile());
        let outputs = layout.block_outputs(inner).map(|output| tile * layout.outputs_per_tile() + output);
        let zeros: Vec<_> =
            outputs.clone().map(|output| FreshZero::draw(layout, layer, output, inputs.halves)).collect();
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
    pub(super) fn draw(layout: &Layout, layer: &LayerSecrets, output: usize, halves: Halves) -> Self {
        let mut generator = stream(&layer.zeros, output);
        let degree = layout.parameters().degree();
        let ternary = ternary(&mut generator, degree);
        let errors = if halves == Halves::Both { degree } else { 0 };
        Self { ternary, error: binomial(&mut generator, errors) }
    }
}

/// For each output of a block and each prime, the wanted halves of weights times inputs plus u times the public key, as
/// coefficients.
pub(super) fn multiply_block(
    layout: &Layout,
    block: usize,
    public_key: &PublicKey,
    inputs: &TileInputs,
    weights: &BlockWeights,
    zeros: &[FreshZero],
) -> Vec<Vec<Vec<Secret<AlignedWords>>>> {
    match inputs.halves {
        Halves::Both => multiply_halves::<2>(layout, block, public_key, inputs, weights, zeros),
        Halves::First => multiply_halves::<1>(layout, block, public_key, inputs, weights, zeros),
    }
}

fn multiply_halves<const HALVES: usize>(
    layout: &Layout,
    block: usize,
    public_key: &PublicKey,
    inputs: &TileInputs,
    weights: &BlockWeights,
    zeros: &[FreshZero],
) -> Vec<Vec<Vec<Secret<AlignedWords>>>> {
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
        let accumulation = Accumulation::<HALVES> {
            stored_terms: layout.inputs_per_tile(),
            first_term: terms.start,
            terms: terms.len(),
            outputs: zeros.len(),
            ciphertext: std::array::from_fn(|half| &inputs.limbs[limb][half][..]),
            weights: weights.limbs[limb].expose(),
            public_key: std::array::from_fn(|half| &public_key.halves[limb][half][..]),
            zero: zero_values.expose(),
        };
        let mut results = vec![AlignedWords::zeros(degree); HALVES * zeros.len()];
        kernels.accumulate(table.modulus(), &accumulation, &mut results);
        let mut results = results.into_iter().map(|mut result| {
            kernels.inverse(table, &mut result, table.montgomery_scale);
            Secret::new(result)
        });
        products.iter_mut().for_each(|limbs| limbs.push(results.by_ref().take(HALVES).collect()));
    }
    products
}

/// Subtracts the mask, adds e_2, and writes what may be sent.
fn finish_output(
    layout: &Layout,
    output: usize,
    zero: &FreshZero,
    limbs: Vec<Vec<Secret<AlignedWords>>>,
    secrets: &AnswerSecrets,
) -> (AnswerCiphertext, Secret<Vec<u64>>) {
    let parameters = layout.parameters();
    let count = layout.output_count(output);
    let mask = OutputMask::draw(layout, &secrets.masks, output);
    let (mut values, mut second_halves) = (Vec::new(), Vec::new());
    for (limb, halves) in limbs.into_iter().enumerate() {
        let modulus = parameters.tables()[limb].modulus();
        let mut halves = halves.into_iter();
        let product = halves.next().expect("there is always a first half");
        let mut useful = Secret::new(AlignedWords::zeros(count.next_multiple_of(LANES)));
        let hidden = layout.output_places(output).zip(mask.limbs[limb].expose().iter());
        for (value, ((coefficient, _), mask)) in useful.expose_mut().iter_mut().zip(hidden) {
            *value = modulus.subtract(product.expose()[coefficient], *mask);
        }
        values.push(useful);
        if let Some(mut second) = halves.next() {
            for (coefficient, error) in second.expose_mut().iter_mut().zip(zero.error.expose()) {
                *coefficient = modulus.add(*coefficient, modulus.lift(i64::from(*error)));
            }
            second_halves.push(second);
        }
    }
    let second = (!second_halves.is_empty())
        .then(|| shorten(parameters, &Section::uniform(parameters), second_halves));
    let values = shorten(parameters, &Section::values(layout, output), values);
    (AnswerCiphertext { second, values }, mask.share(layout))
}

/// Rescales, leaves out low bits and packs.
fn shorten(parameters: &HeParameters, section: &Section, mut limbs: Vec<Secret<AlignedWords>>) -> Vec<u8> {
    rescale(parameters, &mut limbs);
    let mut bytes = Vec::with_capacity(section.length());
    section.write(&mut bytes, parameters, &limbs.iter().map(Secret::expose).collect::<Vec<_>>());
    bytes
}
