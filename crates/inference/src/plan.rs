//! What both parties derive from the outline: which layers travel under encryption when, which circuits stand where,
//! and every byte and round that follows.
//!
//! Linear layers are grouped into *flights*: a layer whose input depends on the answer to another one must wait for
//! it. Steps with messages are grouped into *rounds*: those whose inputs are known after the same number of round
//! trips share one. Lengths, order and number of messages are functions of this plan alone.

mod linear;
mod memory;
mod messages;
mod nonlinear;
mod traffic;

use std::sync::Arc;

use crypto::he::HeParameters;
use network::inference_model::{ModelOperation, ModelOutline};
use network::walk::ValueId;

pub use linear::LinearJob;
pub use memory::PlannedMemory;
pub use messages::PlannedMessage;
pub(crate) use nonlinear::{GarbledPart, NonlinearJob, Part, TruncatedPart, low_bits};
pub use traffic::{LayerTraffic, PlannedTraffic};

use crate::InferenceError;

/// What the client learns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reveal {
    /// The logits, rounded as the model says.
    #[default]
    Logits,
    /// The number of the class alone; of equal logits the lowest.
    Class,
}

/// The steps of one inference.
#[derive(Debug)]
pub struct Plan {
    outline: Arc<ModelOutline>,
    reveal: Reveal,
    parameters: Vec<HeParameters>,
    linear: Vec<LinearJob>,
    rounds: Vec<Vec<NonlinearJob>>,
    argmax: Option<GarbledPart>,
}

impl Plan {
    /// Plans one inference.
    ///
    /// # Errors
    /// When the outline asks for rings, layers or circuits that do not exist, or no encryption parameters keep the
    /// statistical promise.
    pub fn new(outline: Arc<ModelOutline>, reveal: Reveal) -> Result<Self, InferenceError> {
        let (parameters, linear) = linear::plan(&outline)?;
        let rounds = nonlinear::plan(&outline)?;
        let argmax = match reveal {
            Reveal::Logits => None,
            Reveal::Class => Some(GarbledPart::argmax(&outline)?),
        };
        Ok(Self { outline, reveal, parameters, linear, rounds, argmax })
    }

    /// The outline it follows.
    pub fn outline(&self) -> &Arc<ModelOutline> {
        &self.outline
    }

    /// What the client learns.
    pub fn reveal(&self) -> Reveal {
        self.reveal
    }

    /// The encryption parameters in use: one set for narrow rings and, where there are wide ones, another.
    pub fn parameters(&self) -> &[HeParameters] {
        &self.parameters
    }

    /// Base-two logarithm of the bound on the statistical distance of all answers under encryption from ones that
    /// hold no weights: over the whole inference, all sets of parameters together. At most -40.
    pub fn distance_log2(&self) -> f64 {
        HeParameters::joint_distance_log2(&self.parameters)
    }

    /// The linear layers that travel under encryption, in the order of the steps.
    pub fn linear(&self) -> &[LinearJob] {
        &self.linear
    }

    /// How many flights of ciphertexts the offline phase has.
    pub fn flight_count(&self) -> usize {
        self.linear.iter().map(|job| job.flight + 1).max().unwrap_or(0)
    }

    /// How many round trips the online phase has for activations.
    pub fn round_count(&self) -> usize {
        self.rounds.len()
    }

    /// How many layers have offline work: linear ones, activations and maxima.
    pub fn layer_count(&self) -> usize {
        self.linear.len() + self.rounds.iter().map(Vec::len).sum::<usize>()
    }

    pub(crate) fn rounds(&self) -> &[Vec<NonlinearJob>] {
        &self.rounds
    }

    pub(crate) fn argmax(&self) -> Option<&GarbledPart> {
        self.argmax.as_ref()
    }

    /// All parts with messages, in the order of the plan.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.rounds.iter().flatten().flat_map(|job| &job.parts)
    }

    /// Oblivious transfers of one inference, padding included.
    pub(crate) fn transfer_count(&self) -> usize {
        let parts: usize = self.parts().map(Part::transfer_count).sum();
        parts + self.argmax.as_ref().map_or(0, GarbledPart::transfer_count)
    }
}

/// How many round trips lie before each value.
fn depths(outline: &ModelOutline) -> Vec<usize> {
    let mut depths = vec![0; outline.steps.len() + 1];
    for (index, step) in outline.steps.iter().enumerate() {
        let before = step.inputs.iter().map(|input: &ValueId| depths[input.0]).max().unwrap_or(0);
        let costs_a_trip =
            matches!(step.operation, ModelOperation::Activate { .. } | ModelOperation::Maximum { .. });
        depths[index + 1] = before + usize::from(costs_a_trip);
    }
    depths
}
