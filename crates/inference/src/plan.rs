//! What both parties derive from the outline: which layers travel under encryption when, which circuits stand where,
//! and every byte and round that follows.
//!
//! The [`Schedule`] groups layers with weights into *flights* and interactive steps into *rounds*. Lengths, order and
//! number of messages are functions of this plan alone.

mod linear;
mod memory;
mod messages;
mod traffic;
mod work;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crypto::he::HeParameters;
pub use crypto::ot::Depth;
use crypto::ring::RingWidth;
use network::inference_model::{ModelFileError, ModelOutline, Schedule};
pub use network::reference::bound::ReluRounding;
use network::walk::{StepId, ValueId};

pub(crate) use linear::JobId;
pub use linear::{LinearJob, PlannedRing};
pub use memory::PlannedMemory;
pub use messages::PlannedMessage;
pub use traffic::{LayerTraffic, PlannedTraffic};
pub use work::PlannedWork;

use crate::InferenceError;
use crate::nonlinear::{self, Part};

/// What the client learns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reveal {
    /// The logits, rounded as the model says.
    #[default]
    Logits,
    /// The number of the class alone; of equal logits the lowest.
    Class,
}

/// What both parties hold to besides the outline. The server says it in its hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What the client learns.
    pub reveal: Reveal,
    /// How ReLUs without a ceiling round: by shares, for few bytes, or to nearest in garbled circuits.
    pub relus: ReluRounding,
}

impl Default for Terms {
    fn default() -> Self {
        Self { reveal: Reveal::default(), relus: ReluRounding::Stochastic }
    }
}

impl From<Reveal> for Terms {
    fn from(reveal: Reveal) -> Self {
        Self { reveal, ..Self::default() }
    }
}

/// The steps of one inference.
#[derive(Debug)]
pub struct Plan {
    outline: Arc<ModelOutline>,
    schedule: Schedule,
    terms: Terms,
    parameters: Vec<HeParameters>,
    linear: Vec<LinearJob>,
    /// Round after round; behind them, where only the class is revealed, the argmax.
    parts: Vec<PlannedPart>,
    /// The parts of each round trip.
    rounds: Vec<Range<usize>>,
    image_width: RingWidth,
    logits_width: RingWidth,
    answer_width: RingWidth,
    /// By depth of transfers, once somebody asked.
    traffic: [OnceLock<PlannedTraffic>; Depth::ALL.len()],
}

/// A part of the plan, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartId(pub(crate) usize);

/// A part at its place.
#[derive(Debug)]
pub(crate) struct PlannedPart {
    pub(crate) part: Arc<dyn Part>,
    /// The value it reads.
    pub(crate) input: ValueId,
    /// The step it belongs to; none for the argmax.
    pub(crate) step: Option<StepId>,
    /// Whether it is the last part of its step.
    pub(crate) completes_step: bool,
}

impl Plan {
    /// Plans one inference.
    ///
    /// # Errors
    /// When the outline asks for rings, layers or circuits that do not exist, or no encryption parameters bear its noise.
    pub fn new(outline: Arc<ModelOutline>, terms: impl Into<Terms>) -> Result<Self, InferenceError> {
        let terms = terms.into();
        outline.check().map_err(ModelFileError::from)?;
        let schedule = outline.schedule();
        let (parameters, linear) = linear::plan(&outline)?;
        let (mut parts, mut rounds) = (Vec::new(), Vec::new());
        for round in &schedule.rounds[1..] {
            let start = parts.len();
            for step in &round.interactive {
                parts.extend(PlannedPart::of_step(&outline, *step, terms.relus)?);
            }
            rounds.push(start..parts.len());
        }
        if terms.reveal == Reveal::Class {
            let (part, input) = (nonlinear::argmax::plan(&outline)?, outline.output());
            parts.push(PlannedPart { part, input, step: None, completes_step: false });
        }
        let logit_bits = outline.ring_bits(outline.output());
        Ok(Self {
            image_width: RingWidth::new(outline.image_ring_bits)?,
            logits_width: RingWidth::new(logit_bits)?,
            answer_width: RingWidth::new(logit_bits - outline.logit_drop)?,
            outline,
            schedule,
            terms,
            parameters,
            linear,
            parts,
            rounds,
            traffic: Default::default(),
        })
    }

    /// The outline it follows.
    pub fn outline(&self) -> &Arc<ModelOutline> {
        &self.outline
    }

    /// What the client learns.
    pub fn reveal(&self) -> Reveal {
        self.terms.reveal
    }

    /// How ReLUs without a ceiling round.
    pub fn relus(&self) -> ReluRounding {
        self.terms.relus
    }

    /// Both of these.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The rings of the encryption that are in use, each as the first layer has it that uses it: the client has a key for each.
    pub fn parameters(&self) -> &[HeParameters] {
        &self.parameters
    }

    /// The linear layers that travel under encryption, in the order of the steps.
    pub fn linear(&self) -> &[LinearJob] {
        &self.linear
    }

    /// The same, flight after flight of the offline phase.
    pub fn flights(&self) -> impl Iterator<Item = impl Iterator<Item = &LinearJob>> {
        let job = |step: &StepId| self.job(self.job_at(*step));
        self.schedule.flights[1..].iter().map(move |flight| flight.weighted.iter().map(job))
    }

    /// How many layers have offline work: linear ones, activations and maxima.
    pub fn layer_count(&self) -> usize {
        self.linear.len() + self.parts.iter().filter(|part| part.completes_step).count()
    }

    pub(crate) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The ring of the image's shares.
    pub fn image_width(&self) -> RingWidth {
        self.image_width
    }

    /// The ring of the logits' shares.
    pub(crate) fn logits_width(&self) -> RingWidth {
        self.logits_width
    }

    /// The ring of the logits that the client gets.
    pub(crate) fn answer_width(&self) -> RingWidth {
        self.answer_width
    }

    pub(crate) fn job(&self, id: JobId) -> &LinearJob {
        &self.linear[id.0]
    }

    /// The layer with weights at a step.
    pub(crate) fn job_at(&self, step: StepId) -> JobId {
        let found = self.linear.binary_search_by_key(&step, |job| job.step);
        JobId(found.expect("the plan lists every layer with weights"))
    }

    pub(crate) fn part(&self, id: PartId) -> &PlannedPart {
        &self.parts[id.0]
    }

    /// All parts in the order of the plan, the argmax last.
    pub(crate) fn parts(&self) -> &[PlannedPart] {
        &self.parts
    }

    /// The parts of each round trip.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = impl Iterator<Item = PartId> + Clone> {
        self.rounds.iter().map(|parts| parts.clone().map(PartId))
    }

    /// The part that finds the class.
    pub(crate) fn argmax(&self) -> Option<PartId> {
        (self.terms.reveal == Reveal::Class).then(|| PartId(self.parts.len() - 1))
    }

    /// Oblivious transfers of one inference, padding included.
    pub(crate) fn transfer_count(&self) -> usize {
        self.parts.iter().map(|planned| planned.part.transfer_count()).sum()
    }

    /// The same of those in which the server chooses.
    pub(crate) fn reverse_count(&self) -> usize {
        self.parts.iter().map(|planned| planned.part.reverse_count()).sum()
    }
}

impl PlannedPart {
    fn of_step(outline: &ModelOutline, id: StepId, relus: ReluRounding) -> Result<Vec<Self>, InferenceError> {
        let step = outline.step(id);
        let (input, step) = (step.inputs[0], nonlinear::plan(outline, step, relus)?);
        let planned = |part| Self { part, input, step: Some(id), completes_step: false };
        let mut parts: Vec<_> = step.into_iter().map(planned).collect();
        if let Some(last) = parts.last_mut() {
            last.completes_step = true;
        }
        Ok(parts)
    }
}
