//! What travels: the public key, the encrypted blinds, the answers. Lengths follow from the layout alone.
//!
//! Polynomials travel as coefficients, of which low bits may be left out; those of the public key are whole.

use super::bits::{BitWriter, packed_length, words};
use super::error::HeError;
use super::kernel::AlignedWords;
use super::packing::Layout;
use super::parameters::HeParameters;
use super::sampling::expand_uniform;
use super::section::Section;
use super::server::BlockAnswer;
use crate::domain;
use crate::secret::Secret;

/// The seed of all uniform halves: a hash of what names the served model. They are the same for all its clients and
/// sessions, so that the second halves of its answers are, too.
///
/// There is no other way to make one. A client that chose it could choose the uniform half zero, and would then read the
/// weights off the answers; a server that chose it, blinds off the requests. Of a hash, either can only try many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicSeed([u8; 32]);

impl PublicSeed {
    /// The seed of the model that is served under this id.
    pub fn derive(id: &[u8; 32]) -> Self {
        Self(blake3::derive_key(domain::HE_PUBLIC_SEED.context(), id))
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Where the uniform halves of one layer's ciphertexts come from: neither party chooses them, and they are the same for all
/// inferences of the model. The client encrypts under a new key each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerUniform {
    model: PublicSeed,
    layer: u32,
}

impl LayerUniform {
    /// Those of the layer with this number.
    pub fn new(model: &PublicSeed, layer: u32) -> Self {
        Self { model: *model, layer }
    }

    /// The uniform half of one ciphertext, for each prime, as values.
    pub(super) fn expand(&self, parameters: &HeParameters, ciphertext: usize) -> Vec<AlignedWords> {
        let mut hasher = blake3::Hasher::new_derive_key(domain::HE_UNIFORM_SEED.context());
        hasher.update(self.model.bytes()).update(&self.layer.to_le_bytes());
        hasher.update(&(ciphertext as u64).to_le_bytes());
        expand_uniform(parameters, domain::HE_UNIFORM, hasher.finalize().as_bytes())
    }

    /// Whether a public key's uniform half is that of the same model.
    pub(super) fn is_of_key(&self, public_key: &PublicKey) -> bool {
        self.model == public_key.seed
    }
}

/// Which halves of a layer's answer are sent. Second halves are the same for all inferences of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halves {
    /// Both, to a client that has no second halves yet.
    Both,
    /// The first alone.
    First,
}

/// The client's public key for one inference, with which the server makes encryptions of zero.
#[derive(Clone)]
pub struct PublicKey {
    seed: PublicSeed,
    /// For each prime the computed half, as coefficients.
    computed: Vec<AlignedWords>,
    /// For each prime the computed and the uniform half, as values.
    pub(super) halves: Vec<[AlignedWords; 2]>,
}

impl PublicKey {
    pub(super) fn new(parameters: &HeParameters, seed: PublicSeed, computed: Vec<AlignedWords>) -> Self {
        let uniform = expand_uniform(parameters, domain::HE_PUBLIC_UNIFORM, seed.bytes());
        let values = computed.iter().zip(parameters.tables()).map(|(computed, table)| {
            let mut values = computed.clone();
            parameters.kernels().forward(table, &mut values);
            values
        });
        Self {
            seed,
            halves: values.zip(uniform).map(|(values, uniform)| [values, uniform]).collect(),
            computed,
        }
    }

    /// Bytes on the wire.
    pub fn length(parameters: &HeParameters) -> usize {
        residues_length(parameters)
    }

    /// The message.
    pub fn to_bytes(&self, parameters: &HeParameters) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::length(parameters));
        write_residues(&mut bytes, parameters, self.computed.iter());
        bytes
    }

    /// Reads the computed half of the client's key. The uniform half is the model's, whatever the client took.
    ///
    /// # Errors
    /// On a wrong length or a coefficient that is not a residue.
    pub fn from_bytes(parameters: &HeParameters, model: &PublicSeed, bytes: &[u8]) -> Result<Self, HeError> {
        const WHAT: &str = "a public key";
        expect_length(WHAT, Self::length(parameters), bytes)?;
        Ok(Self::new(parameters, *model, read_residues(WHAT, parameters, bytes)?))
    }
}

/// One ciphertext from the client, as it travels: the computed half.
#[derive(Clone)]
pub struct InputCiphertext {
    pub(super) computed: Vec<u8>,
}

impl InputCiphertext {
    /// Shortens and packs the coefficients of a computed half.
    pub(super) fn pack(parameters: &HeParameters, limbs: &[AlignedWords]) -> Self {
        let section = Section::request(parameters);
        let mut computed = Vec::with_capacity(section.length());
        section.write(&mut computed, parameters, &limbs.iter().collect::<Vec<_>>());
        Self { computed }
    }
}

/// The encrypted blinds of a layer, from the client.
#[derive(Clone)]
pub struct LinearRequest {
    pub(super) ciphertexts: Vec<InputCiphertext>,
}

impl LinearRequest {
    /// Puts together what [`super::ClientKey::encrypt_ciphertext`] made, in order.
    ///
    /// # Errors
    /// When their number is not the layout's.
    pub fn assemble(layout: &Layout, ciphertexts: Vec<InputCiphertext>) -> Result<Self, HeError> {
        let (expected, got) = (layout.input_ciphertexts(), ciphertexts.len());
        if expected != got {
            return Err(HeError::Count { what: "ciphertexts of a request", expected, got });
        }
        Ok(Self { ciphertexts })
    }

    /// Bytes on the wire.
    pub fn length(layout: &Layout) -> usize {
        layout.input_ciphertexts() * Section::request(layout.parameters()).length()
    }

    /// The message.
    pub fn to_bytes(&self, layout: &Layout) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::length(layout));
        for ciphertext in &self.ciphertexts {
            bytes.extend_from_slice(&ciphertext.computed);
        }
        bytes
    }

    /// Reads the client's message.
    ///
    /// # Errors
    /// On a wrong length or a coefficient that is not a residue.
    pub fn from_bytes(layout: &Layout, bytes: &[u8]) -> Result<Self, HeError> {
        const WHAT: &str = "encrypted blinds";
        expect_length(WHAT, Self::length(layout), bytes)?;
        let section = Section::request(layout.parameters());
        let read = |chunk: &[u8]| {
            section.check(WHAT, chunk)?;
            Ok(InputCiphertext { computed: chunk.to_vec() })
        };
        let chunks = bytes.chunks_exact(section.length());
        Ok(Self { ciphertexts: chunks.map(read).collect::<Result<_, _>>()? })
    }
}

/// One ciphertext from the server, as it travels: the second half, where it is sent, and the useful coefficients of the
/// first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerCiphertext {
    pub(super) second: Option<Vec<u8>>,
    pub(super) values: Vec<u8>,
}

/// The server's answer for a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearAnswer {
    pub(super) ciphertexts: Vec<AnswerCiphertext>,
}

/// The second halves of a layer's answers, which a client keeps for as long as it likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecondHalves(pub(super) Vec<Vec<u8>>);

impl SecondHalves {
    /// Bytes of a layer's.
    pub fn length(layout: &Layout) -> usize {
        layout.output_ciphertexts() * Section::uniform(layout.parameters()).length()
    }

    /// As a client keeps them.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// Reads what was kept.
    ///
    /// # Errors
    /// On a wrong length or a coefficient that is not a residue.
    pub fn from_bytes(layout: &Layout, bytes: &[u8]) -> Result<Self, HeError> {
        expect_length("second halves", Self::length(layout), bytes)?;
        let section = Section::uniform(layout.parameters());
        let mut rest = bytes;
        let halves = (0..layout.output_ciphertexts()).map(|_| take_section(&section, &mut rest));
        halves.collect::<Result<_, _>>().map(Self)
    }

    /// The half that belongs to the ciphertext with this number.
    pub(super) fn checked(&self, layout: &Layout, index: usize) -> Result<&[u8], HeError> {
        let half = self.0.get(index).map_or(&[][..], |half| &half[..]);
        expect_length("an answer's second half", Section::uniform(layout.parameters()).length(), half)?;
        Ok(half)
    }
}

impl LinearAnswer {
    /// Puts together all blocks of a layer, in order, and with them the server's share.
    ///
    /// # Errors
    /// When their number is not the layout's.
    pub fn assemble(layout: &Layout, blocks: Vec<BlockAnswer>) -> Result<(Self, Secret<Vec<u64>>), HeError> {
        let (expected, got) = (layout.blocks(), blocks.len());
        if expected != got {
            return Err(HeError::Count { what: "blocks of an answer", expected, got });
        }
        let mut share = Secret::new(vec![0; layout.shape().output_values()]);
        let mut ciphertexts = Vec::with_capacity(layout.output_ciphertexts());
        for block in blocks {
            for (ciphertext, masks) in block.outputs {
                layout.scatter(ciphertexts.len(), masks.expose(), share.expose_mut());
                ciphertexts.push(ciphertext);
            }
        }
        Ok((Self { ciphertexts }, share))
    }

    /// The ciphertexts, for a client that decrypts them in parallel.
    pub fn ciphertexts(&self) -> &[AnswerCiphertext] {
        &self.ciphertexts
    }

    /// Takes out the second halves, if they came.
    pub fn take_second_halves(&mut self) -> Option<SecondHalves> {
        let halves = self.ciphertexts.iter_mut().map(|ciphertext| ciphertext.second.take());
        halves.collect::<Option<_>>().map(SecondHalves)
    }

    /// Bytes on the wire.
    pub fn length(layout: &Layout, halves: Halves) -> usize {
        let second = if halves == Halves::Both { SecondHalves::length(layout) } else { 0 };
        let values = |ciphertext| Section::values(layout, ciphertext).length();
        second + (0..layout.output_ciphertexts()).map(values).sum::<usize>()
    }

    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = |ciphertext: &AnswerCiphertext| {
            [ciphertext.second.as_deref().unwrap_or_default(), &ciphertext.values].concat()
        };
        self.ciphertexts.iter().flat_map(parts).collect()
    }

    /// Reads the server's message.
    ///
    /// # Errors
    /// On a wrong length or a coefficient that is not a residue.
    pub fn from_bytes(layout: &Layout, halves: Halves, bytes: &[u8]) -> Result<Self, HeError> {
        expect_length("an answer", Self::length(layout, halves), bytes)?;
        let mut rest = bytes;
        let mut ciphertexts = Vec::with_capacity(layout.output_ciphertexts());
        for index in 0..layout.output_ciphertexts() {
            let second = match halves {
                Halves::Both => Some(take_section(&Section::uniform(layout.parameters()), &mut rest)?),
                Halves::First => None,
            };
            let values = take_section(&Section::values(layout, index), &mut rest)?;
            ciphertexts.push(AnswerCiphertext { second, values });
        }
        Ok(Self { ciphertexts })
    }
}

fn take_section(section: &Section, bytes: &mut &[u8]) -> Result<Vec<u8>, HeError> {
    let (own, rest) = bytes.split_at(section.length());
    section.check("an answer", own)?;
    *bytes = rest;
    Ok(own.to_vec())
}

impl AnswerCiphertext {
    /// The useful coefficients' bytes, if they have the length of this place.
    pub(super) fn checked_values(&self, layout: &Layout, index: usize) -> Result<&[u8], HeError> {
        expect_length("an answer's ciphertext", Section::values(layout, index).length(), &self.values)?;
        Ok(&self.values)
    }
}

fn expect_length(what: &'static str, expected: usize, bytes: &[u8]) -> Result<(), HeError> {
    match bytes.len() == expected {
        true => Ok(()),
        false => Err(HeError::Length { what, expected, sent: bytes.len() }),
    }
}

/// A polynomial's residues take whole bytes, because the degree is a multiple of eight.
fn residues_length(parameters: &HeParameters) -> usize {
    packed_length(parameters.degree(), parameters.modulus_bits())
}

fn write_residues<'a>(
    bytes: &mut Vec<u8>,
    parameters: &HeParameters,
    limbs: impl Iterator<Item = &'a AlignedWords>,
) {
    for (limb, table) in limbs.zip(parameters.tables()) {
        let mut writer = BitWriter::new(bytes);
        limb.iter().for_each(|residue| writer.push(u128::from(*residue), table.modulus().bits()));
        writer.finish();
    }
}

fn read_residues(
    what: &'static str,
    parameters: &HeParameters,
    bytes: &[u8],
) -> Result<Vec<AlignedWords>, HeError> {
    let mut rest = bytes;
    let mut limbs = Vec::with_capacity(parameters.tables().len());
    for table in parameters.tables() {
        let (width, degree) = (table.modulus().bits(), table.degree());
        let (own, after) = rest.split_at(packed_length(degree, width));
        rest = after;
        let mut limb = AlignedWords::zeros(degree);
        let largest = u128::from(table.modulus().value() - 1);
        limb.iter_mut().zip(words(own, width, degree)).for_each(|(residue, sent)| *residue = sent);
        if let Some(index) = limb.iter().position(|residue| *residue >= table.modulus().value()) {
            return Err(HeError::CoefficientRange { what, index, largest, sent: u128::from(limb[index]) });
        }
        limbs.push(limb);
    }
    Ok(limbs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::he::packing::{ConvolutionShape, LinearShape};
    use crate::he::parameters::{HeOutline, WeightBits};
    use crate::he::tests::scope;
    use crate::he::{AnswerSecrets, ClientKey, LayerSecrets, PreparedWeights, RequestSecrets, WeightStorage};
    use crate::random::{Direction, Seed};

    struct Messages {
        parameters: HeParameters,
        layout: Layout,
        session: PublicSeed,
        public_key: Vec<u8>,
        request: Vec<u8>,
        answer: Vec<u8>,
    }

    fn messages(ring_bits: u32) -> Messages {
        let shape = LinearShape::Convolution(ConvolutionShape::same(3, 3, 5, 3));
        let outline = HeOutline::from_layers(ring_bits, WeightBits::Eight, vec![shape]).also_bearing(4608);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        let session = PublicSeed::derive(&[3; 32]);
        let (root, place) = (Seed::from_bytes([1; 32]), scope(1, Direction::ClientToServer));
        let key = ClientKey::generate(&parameters, &root, &place);
        let public_key = key.public_key(&session, &root, &place);
        let uniform = LayerUniform::new(&session, 1);
        let request =
            key.encrypt(&layout, &uniform, &[5; 75], RequestSecrets::derive(&root, &place)).unwrap();
        let weights = PreparedWeights::new(&layout, &[1; 81], WeightStorage::Everything).unwrap();
        let layer = LayerSecrets::derive(&root, &session, 1);
        let secrets = (&layer, AnswerSecrets::derive(&root, &place));
        let (answer, _) = weights.answer(&public_key, &request, secrets, Halves::Both).unwrap();
        let public_key = public_key.to_bytes(&parameters);
        let (request, answer) = (request.to_bytes(&layout), answer.to_bytes());
        Messages { parameters, layout, session, public_key, request, answer }
    }

    fn set_bits(bytes: &mut [u8], bits: std::ops::Range<usize>) {
        bits.for_each(|bit| bytes[bit / 8] |= 1 << (bit % 8));
    }

    #[test]
    fn messages_come_back_as_they_were() {
        for ring_bits in [32, 41, 64] {
            let messages = messages(ring_bits);
            let key =
                PublicKey::from_bytes(&messages.parameters, &messages.session, &messages.public_key).unwrap();
            assert!(key.to_bytes(&messages.parameters) == messages.public_key);
            let request = LinearRequest::from_bytes(&messages.layout, &messages.request).unwrap();
            assert!(request.to_bytes(&messages.layout) == messages.request);
            let answer = LinearAnswer::from_bytes(&messages.layout, Halves::Both, &messages.answer).unwrap();
            assert!(answer.to_bytes() == messages.answer);
        }
    }

    #[test]
    fn an_answer_without_its_second_halves_is_the_rest_of_it() {
        let messages = messages(32);
        let mut answer = LinearAnswer::from_bytes(&messages.layout, Halves::Both, &messages.answer).unwrap();
        let second = answer.take_second_halves().unwrap();
        assert!(answer.take_second_halves().is_none());
        let alone = answer.to_bytes();
        assert_eq!(alone.len(), LinearAnswer::length(&messages.layout, Halves::First));
        assert_eq!(alone.len() + SecondHalves::length(&messages.layout), messages.answer.len());
        assert_eq!(LinearAnswer::from_bytes(&messages.layout, Halves::First, &alone).unwrap(), answer);
        let kept = second.to_bytes();
        assert_eq!(SecondHalves::from_bytes(&messages.layout, &kept), Ok(second.clone()));
        for length in [0, kept.len() - 1] {
            let cut = SecondHalves::from_bytes(&messages.layout, &kept[..length]);
            assert!(matches!(cut, Err(HeError::Length { .. })));
        }
        assert!(second.checked(&messages.layout, 0).is_ok());
        assert!(second.checked(&messages.layout, messages.layout.output_ciphertexts()).is_err());
    }

    #[test]
    fn messages_of_any_other_length_are_refused() {
        let messages = messages(32);
        let is_length = |error: Option<HeError>| matches!(error, Some(HeError::Length { .. }));
        for change in [-1_isize, 1, isize::MIN] {
            let cut = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                bytes.resize(bytes.len().saturating_add_signed(change), 0);
                bytes
            };
            let key = cut(&messages.public_key);
            assert!(is_length(PublicKey::from_bytes(&messages.parameters, &messages.session, &key).err()));
            assert!(is_length(LinearRequest::from_bytes(&messages.layout, &cut(&messages.request)).err()));
            assert!(is_length(
                LinearAnswer::from_bytes(&messages.layout, Halves::Both, &cut(&messages.answer)).err()
            ));
        }
    }

    #[test]
    fn coefficients_beyond_their_modulus_are_refused() {
        let out_of_range = |error: Option<HeError>, place: usize| matches!(error, Some(HeError::CoefficientRange { index, .. }) if index == place);
        let mut sent = messages(32);
        let width = sent.parameters.tables()[0].modulus().bits() as usize;
        set_bits(&mut sent.public_key, width..2 * width);
        let key = PublicKey::from_bytes(&sent.parameters, &sent.session, &sent.public_key);
        assert!(out_of_range(key.err(), 1));
        for ring_bits in [32, 64] {
            let mut sent = messages(ring_bits);
            let format = sent.parameters.format().clone();
            // Only where the modulus is a little below the power of two is there a number to refuse.
            let width = format.uniform_bits as usize;
            let all_ones = (1_u128 << width) - 1;
            let refused = all_ones > (format.kept_modulus - 1) >> format.uniform_dropped;
            set_bits(&mut sent.answer, 3 * width..4 * width);
            assert_eq!(
                out_of_range(LinearAnswer::from_bytes(&sent.layout, Halves::Both, &sent.answer).err(), 3),
                refused
            );
            let width = format.input_bits as usize;
            let largest =
                (sent.parameters.primes().map(u128::from).product::<u128>() - 1) >> format.input_dropped;
            set_bits(&mut sent.request, 4 * width..5 * width);
            let refused = (1_u128 << width) - 1 > largest;
            assert_eq!(
                out_of_range(LinearRequest::from_bytes(&sent.layout, &sent.request).err(), 4),
                refused
            );
        }
    }

    #[test]
    fn stray_bits_after_the_last_coefficient_are_refused() {
        let mut messages = messages(32);
        assert_ne!(messages.layout.output_count(0) * messages.parameters.format().value_bits as usize % 8, 0);
        *messages.answer.last_mut().unwrap() |= 0x80;
        let error = LinearAnswer::from_bytes(&messages.layout, Halves::Both, &messages.answer).err();
        assert_eq!(error, Some(HeError::Padding { what: "an answer" }));
    }

    #[test]
    fn parts_of_another_layer_are_refused() {
        let messages = messages(32);
        assert!(matches!(
            LinearRequest::assemble(&messages.layout, vec![]).err(),
            Some(HeError::Count { .. })
        ));
        assert!(matches!(
            LinearAnswer::assemble(&messages.layout, vec![]).err(),
            Some(HeError::Count { .. })
        ));
    }
}
