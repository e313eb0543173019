//! What a client expects of a server before it goes on, and what it is willing to spend.

use std::sync::Arc;

use crypto::ot::Depth;
use network::digest::Digest;
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};

use super::HalvesCache;
use crate::InferenceError;
use crate::plan::{Plan, ReluRounding, Reveal};
use crate::setup::check_wishes;
use crate::setup::messages::{ModelName, ServerHello};

/// Bytes that planning takes for each scalar of an outline, at least.
const PLANNING_BYTES_PER_SCALAR: u64 = 16;
/// Bytes of the number of one value of a window.
const PLANNING_BYTES_PER_PLACE: u64 = 4;
/// Bytes of a circuit for each bit of a value that it compares, while it is built.
const CIRCUIT_BYTES_PER_BIT: u64 = 300;
/// What one inference may take unless somebody says otherwise.
pub const DEFAULT_MAX_MEMORY: u64 = 4 << 30;

/// What a client expects of a server.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Which model; empty where the server has only one.
    pub model: ModelName,
    /// What to learn; none takes what the server gives.
    pub reveal: Option<Reveal>,
    /// How ReLUs are to round; none takes what the server gives.
    pub relus: Option<ReluRounding>,
    /// How deep the trees of transfers are to be: deep ones for slow links. None takes what the server gives.
    pub depth: Option<Depth>,
    /// Where second halves of answers are kept between sessions. None fetches them in every session.
    pub halves: Option<Arc<dyn HalvesCache>>,
    /// The digest of the outline, where it is known from before.
    pub outline_digest: Option<Digest>,
    /// The commitment to the weights, where it is known from before.
    pub commitment: Option<Digest>,
    /// The most memory that one inference may take here, whatever the outline says.
    pub max_memory: u64,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            model: ModelName::default(),
            reveal: None,
            relus: None,
            depth: None,
            halves: None,
            outline_digest: None,
            commitment: None,
            max_memory: DEFAULT_MAX_MEMORY,
        }
    }
}

impl Wishes {
    /// The longest outline that is read.
    pub(crate) fn max_outline_bytes(&self) -> u64 {
        crate::setup::MAX_OUTLINE_BYTES.min(self.max_memory)
    }

    /// Compares a hello with what was expected, before anything is derived from it.
    pub(crate) fn check_hello(&self, hello: &ServerHello, digest: Digest) -> Result<(), InferenceError> {
        check_wishes(self.reveal, self.relus, hello.terms)?;
        let pairs = [
            ("outline digest", self.outline_digest, digest),
            ("commitment to the weights", self.commitment, hello.commitment),
        ];
        for (what, expected, came) in pairs {
            if let Some(expected) = expected.filter(|expected| *expected != came) {
                return Err(InferenceError::OtherModel { what, expected, came });
            }
        }
        Ok(())
    }

    /// Whether planning is affordable; the outline's counts are the peer's word.
    pub(crate) fn check_outline(&self, outline: &ModelOutline, reveal: Reveal) -> Result<(), InferenceError> {
        let input = outline.input.scalars().saturating_mul(PLANNING_BYTES_PER_SCALAR);
        let steps = outline.steps.iter().map(planning_bytes).fold(input, u64::saturating_add);
        let class = match reveal {
            Reveal::Logits => 0,
            Reveal::Class => circuit_bytes(outline.classes as u64, outline.ring_bits(outline.output())),
        };
        self.check(steps.saturating_add(class))
    }

    /// Whether an inference is affordable.
    pub(crate) fn check_plan(&self, plan: &Plan) -> Result<(), InferenceError> {
        self.check(plan.client_memory())
    }

    fn check(&self, needed: u64) -> Result<(), InferenceError> {
        if needed > self.max_memory {
            return Err(InferenceError::TooLarge { needed, limit: self.max_memory });
        }
        Ok(())
    }
}

/// What planning a step takes, about.
fn planning_bytes(step: &ModelStep) -> u64 {
    let outputs = step.shape.scalars();
    let scalars = outputs.saturating_mul(PLANNING_BYTES_PER_SCALAR);
    let ModelOperation::Maximum { pool, width } = &step.operation else { return scalars };
    let window = (pool.window as u64).saturating_pow(2);
    let places = outputs.saturating_mul(window).saturating_mul(PLANNING_BYTES_PER_PLACE);
    // Windows at the border are smaller, and each size has a circuit of its own.
    let sizes = (pool.padding as u64 + 1).saturating_pow(2);
    let circuits = circuit_bytes(window, *width).saturating_mul(sizes);
    scalars.saturating_add(places).saturating_add(circuits)
}

/// What a circuit takes that compares so many values of a width.
fn circuit_bytes(values: u64, width: u32) -> u64 {
    values.saturating_mul(u64::from(width)).saturating_mul(CIRCUIT_BYTES_PER_BIT)
}
