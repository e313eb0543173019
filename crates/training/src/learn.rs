//! The loop: batches, gradients, optimizer.
//!
//! ```text
//! host, once per epoch    order, crops, flips, mixtures, rates  ──> tables on the device
//! device, every step      row of the tables ─> batch ─> teacher ─> student ─> loss ─> gradient ─> optimizer ─> counter
//!                                                             └──> other students of the same batch and teacher, beside it
//! host, once per epoch    <── summed loss and right answers
//! ```
//!
//! Nothing in a step waits for the device or reads from it, so on a GPU the whole step is recorded once and replayed
//! ([`crate::tensor::CapturedStep`]). All randomness is a function of seed and epoch, so on the processor a run is
//! bit-equal for one number of threads, also when it is resumed; on a GPU sums are in no fixed order, and it is not.

mod agreement;
mod answers;
mod bench;
mod error;
mod evaluate;
mod images;
mod inside;
mod optimizer;
mod state;
mod step;
mod tables;
mod teacher;

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Instant;

use recipes::random::Stream;
use recipes::recipe::{Augmentation, Distillation};

use crate::assemble::TrainableNetwork;
use crate::distill::Losses;
use crate::tensor::{
    CapturedStep, Device, GraphError, Kind, Lane, Phase, Tensor, TensorError, guarded, no_grad,
};

use answers::Answers;

pub(crate) use agreement::sign_agreement;
pub use bench::{BenchOptions, StepTime, measure_step};
pub use error::LearnError;
pub(crate) use evaluate::{TRIAL_BATCH, evaluate, evaluate_with, predict};
pub(crate) use images::{DeviceImages, ImageSet};
pub(crate) use optimizer::{Memory, Optimizer};
pub(crate) use step::shorten;
pub(crate) use tables::{Row, Tables};
pub(crate) use teacher::Teacher;

/// Steps made and undone before one is recorded: libraries choose their algorithms in them.
pub(crate) const WARM_UPS: usize = 3;

/// Whether steps are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GraphUse {
    /// On a GPU, where it works.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// How a network learns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LearnOptions {
    /// Fixes the order of images and how they are changed.
    pub(crate) seed: u64,
    /// Images per step.
    pub(crate) batch: usize,
    pub(crate) optimizer: Optimizer,
    /// How much of each weight goes into its gradient.
    pub(crate) weight_decay: f32,
    /// Whether batch norms and constants decay too, as in the papers. Keep scores never do.
    pub(crate) decay_norms_and_biases: bool,
    /// The longest gradient; longer ones are shortened.
    pub(crate) clip: Option<f32>,
    /// How much of an average of the weights stays at each step.
    pub(crate) ema: Option<f32>,
    pub(crate) losses: Losses,
    pub(crate) augmentation: Augmentation,
    /// How many views of each image there are, after which they come again; new ones in every epoch where absent.
    pub(crate) views: Option<NonZeroU32>,
    pub(crate) graph: GraphUse,
}

impl Default for LearnOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            batch: 128,
            optimizer: Optimizer::Sgd { momentum: 0.9, nesterov: true },
            weight_decay: 4e-4,
            decay_norms_and_biases: true,
            clip: None,
            ema: None,
            losses: Losses::default(),
            augmentation: Augmentation::default(),
            views: None,
            graph: GraphUse::Auto,
        }
    }
}

/// What a schedule says of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepRates {
    /// How far weights move.
    pub(crate) learning_rate: f32,
    /// Scales what a teacher adds in decoupled distillation.
    pub(crate) distillation: f32,
    /// The chance that an edge of a cell is silenced for an image.
    pub(crate) drop_path: f32,
    /// Times the sum of all keep scores' magnitudes is added to the loss (SNL's lambda).
    pub(crate) keep_penalty: f32,
}

impl Default for StepRates {
    fn default() -> Self {
        Self { learning_rate: 0.0, distillation: 1.0, drop_path: 0.0, keep_penalty: 0.0 }
    }
}

impl StepRates {
    fn row(self) -> [f32; 4] {
        [self.learning_rate, self.distillation, self.drop_path, self.keep_penalty]
    }
}

/// What an epoch came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EpochFigures {
    /// The mean loss of its steps.
    pub(crate) loss: f64,
    /// The fraction of right answers on the changed images, while learning.
    pub(crate) accuracy: f64,
    pub(crate) images: u64,
    pub(crate) seconds: f64,
}

/// A network that learns from images.
pub(crate) struct Learner {
    network: TrainableNetwork,
    teacher: Option<Teacher>,
    /// What the teacher said, where views come again.
    answers: Option<Answers>,
    options: LearnOptions,
    images: DeviceImages,
    memory: Memory,
    /// Averages of parameters and statistics.
    average: Option<(Tensor, Tensor)>,
    tables: Tables,
    /// Summed loss and right answers.
    totals: Tensor,
    recorded: Recorded,
    /// What is summed up of the network's inside.
    sums: inside::Sums,
    /// Those that learn from the same batches and teacher.
    fellows: Vec<Fellow>,
    /// Whether a step was made. In the first one nothing runs side by side: libraries time their algorithms in it.
    is_settled: bool,
    /// A batch that is used again and again instead of the tables', for measuring the step alone.
    fixed_batch: Option<(Tensor, Tensor)>,
}

/// A learner without a teacher of its own, and where it runs.
struct Fellow {
    learner: Learner,
    lane: Lane,
}

enum Recorded {
    NotYet,
    Step(CapturedStep),
    /// With the reason.
    No(String),
}

impl Learner {
    /// Brings everything together.
    ///
    /// # Errors
    /// When network, teacher and images do not fit each other, options exclude each other, or the device has no room.
    pub(crate) fn new(
        network: TrainableNetwork,
        teacher: Option<TrainableNetwork>,
        options: LearnOptions,
        images: DeviceImages,
    ) -> Result<Self, LearnError> {
        Self::taught(network, teacher.map(|teacher| Teacher::Network(Box::new(teacher))), options, images)
    }

    /// The same with any kind of teacher.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(crate) fn taught(
        network: TrainableNetwork,
        teacher: Option<Teacher>,
        options: LearnOptions,
        images: DeviceImages,
    ) -> Result<Self, LearnError> {
        let has_teacher = teacher.is_some();
        Self::place(network, teacher, has_teacher, options, images)
    }

    /// One that learns along with others, from their teacher; it does so once it was taken along.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(crate) fn fellow(
        network: TrainableNetwork,
        options: LearnOptions,
        images: DeviceImages,
    ) -> Result<Self, LearnError> {
        let has_teacher = options.losses.distillation.is_some();
        Self::place(network, None, has_teacher, options, images)
    }

    fn place(
        network: TrainableNetwork,
        teacher: Option<Teacher>,
        has_teacher: bool,
        options: LearnOptions,
        images: DeviceImages,
    ) -> Result<Self, LearnError> {
        check_fit(&network, teacher.as_ref(), has_teacher, &options, &images)?;
        let device = network.device();
        let recorded = match (device, options.graph) {
            (Device::Cuda, GraphUse::Auto) => Recorded::NotYet,
            (Device::Cuda, GraphUse::Never) => Recorded::No("recording was turned off".to_owned()),
            (Device::Cpu, _) => Recorded::No("steps are recorded on GPUs only".to_owned()),
        };
        let place = || {
            let parameters = network.parameters();
            let copies = || (parameters.masters().copy(), network.statistics().copy());
            let memory = Memory::new(
                options.optimizer,
                parameters,
                options.weight_decay,
                options.decay_norms_and_biases,
            );
            let steps = images.len() / options.batch;
            let edges = network.drop_path_edges();
            let tables = Tables::new((steps, options.batch), edges, &options.augmentation, device);
            let answers = options
                .views
                .filter(|_| teacher.is_some())
                .map(|views| Answers::new(views.get(), (images.len(), images.classes), device));
            let totals = device.zeros(&[2], Kind::Double);
            (memory, options.ema.map(|_| copies()), tables, totals, answers)
        };
        let (memory, average, tables, totals, answers) = guarded(place)?;
        Ok(Self {
            network,
            teacher,
            answers,
            options,
            images,
            memory,
            average,
            tables,
            totals,
            recorded,
            sums: inside::Sums::default(),
            fellows: Vec::new(),
            is_settled: false,
            fixed_batch: None,
        })
    }

    /// Takes others along: a batch, and what the teacher says of it, is then made once for all. Each of them learns what
    /// it would learn alone.
    ///
    /// # Errors
    /// When they would not see the same batches, or the device refuses.
    pub(crate) fn take_along(&mut self, others: Vec<Self>) -> Result<(), LearnError> {
        let seen = |learner: &Self| {
            let LearnOptions { seed, batch, augmentation, views, .. } = learner.options;
            (
                seed,
                batch,
                augmentation,
                views,
                learner.images.len(),
                learner.options.losses.distillation.is_some(),
            )
        };
        for learner in others {
            if seen(&learner) != seen(self) || !learner.fellows.is_empty() {
                return Err(LearnError::Apart);
            }
            if let Some(teacher) = self.teacher.as_ref().filter(|_| learner.wanted().stages) {
                teacher.check_maps(&learner.network)?;
            }
            self.fellows.push(Fellow { lane: Lane::new(self.network.device())?, learner });
        }
        Ok(())
    }

    /// One of all that learn together: this one, then those it took along.
    ///
    /// # Panics
    /// Beyond the last.
    pub(crate) fn member(&mut self, index: usize) -> &mut Self {
        match index.checked_sub(1) {
            None => self,
            Some(index) => &mut self.fellows[index].learner,
        }
    }

    /// Whole batches in an epoch. The images beyond the last one are left out, others in each epoch.
    pub(crate) fn steps_per_epoch(&self) -> u64 {
        (self.images.len() / self.options.batch) as u64
    }

    /// The network as it is.
    pub(crate) fn network(&self) -> &TrainableNetwork {
        &self.network
    }

    pub(crate) fn into_network(self) -> TrainableNetwork {
        self.network
    }

    /// Why steps are not recorded; nothing if they are, or will be.
    pub(crate) fn why_not_recorded(&self) -> Option<&str> {
        match &self.recorded {
            Recorded::No(reason) => Some(reason),
            Recorded::NotYet | Recorded::Step(_) => None,
        }
    }

    /// Learns from every image once. `rates` is asked for every step, counted over all epochs; `progress` is told how
    /// many steps of this epoch were given to the device.
    ///
    /// # Errors
    /// When the device runs out of memory, or the loss is no number any more.
    pub(crate) fn run_epoch(
        &mut self,
        epoch: u64,
        rates: &dyn Fn(u64) -> StepRates,
        progress: &mut dyn FnMut(u64),
    ) -> Result<EpochFigures, LearnError> {
        self.run_epoch_until(epoch, rates, &mut |_, done| {
            progress(done);
            ControlFlow::Continue(())
        })
    }

    /// The same, but after each step the network may be looked at and the epoch ended.
    pub(crate) fn run_epoch_until(
        &mut self,
        epoch: u64,
        rates: &dyn Fn(u64) -> StepRates,
        look: &mut dyn FnMut(&TrainableNetwork, u64) -> ControlFlow<()>,
    ) -> Result<EpochFigures, LearnError> {
        let began = Instant::now();
        self.begin_epoch(epoch, rates)?;
        let steps = self.steps(look)?;
        self.figures(epoch, steps, began)
    }

    /// The same for all that learn together, each with its own rates and its own figures. One whose loss is no number any
    /// more does not keep the others from learning.
    ///
    /// # Errors
    /// When the device runs out of memory.
    pub(crate) fn run_epoch_together(
        &mut self,
        epoch: u64,
        rates: &[&dyn Fn(u64) -> StepRates],
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Result<EpochFigures, LearnError>>, LearnError> {
        let began = Instant::now();
        for (index, rates) in rates.iter().enumerate() {
            self.member(index).begin_epoch(epoch, rates)?;
        }
        let steps = self.steps(&mut |_, done| {
            progress(done);
            ControlFlow::Continue(())
        })?;
        Ok((0..rates.len()).map(|index| self.member(index).figures(epoch, steps, began)).collect())
    }

    /// The steps of an epoch, or those until somebody has seen enough; how many they were.
    fn steps(
        &mut self,
        look: &mut dyn FnMut(&TrainableNetwork, u64) -> ControlFlow<()>,
    ) -> Result<u64, LearnError> {
        self.record()?;
        let mut steps = 0;
        while steps < self.steps_per_epoch() {
            self.one_step()?;
            steps += 1;
            if look(&self.network, steps).is_break() {
                break;
            }
        }
        Ok(steps)
    }

    fn figures(&self, epoch: u64, steps: u64, began: Instant) -> Result<EpochFigures, LearnError> {
        let totals = guarded(|| crate::tensor::to_floats(&self.totals))?;
        let figures = EpochFigures {
            loss: f64::from(totals[0]) / steps as f64,
            accuracy: f64::from(totals[1]) / (steps as f64 * self.options.batch as f64),
            images: steps * self.options.batch as u64,
            seconds: began.elapsed().as_secs_f64(),
        };
        if !figures.loss.is_finite() {
            return Err(LearnError::Diverged { epoch });
        }
        Ok(figures)
    }

    fn begin_epoch(&mut self, epoch: u64, rates: &dyn Fn(u64) -> StepRates) -> Result<(), LearnError> {
        let steps = self.steps_per_epoch();
        let seed = self.options.seed;
        let draws = self.draws(epoch);
        let rates: Vec<StepRates> = (0..steps).map(|step| rates(epoch * steps + step)).collect();
        guarded(|| {
            self.tables.fill(&draws, &rates, |count| {
                let mut stream = Stream::new(&format!("drop-path of epoch {epoch}"), seed);
                (0..count).map(|_| stream.unit()).collect()
            });
            let _ = self.totals.zero_();
        })?;
        self.recall(epoch)
    }

    /// Records the step, unless it was tried before. A step that cannot be recorded is run as it is; only a device
    /// without memory is an error.
    fn record(&mut self) -> Result<(), LearnError> {
        if !matches!(self.recorded, Recorded::NotYet) {
            return Ok(());
        }
        crate::tensor::choose_fastest_convolutions();
        let before = guarded(|| self.snapshot())?;
        let outcome = CapturedStep::record(WARM_UPS, |phase| match phase {
            Phase::Step => self.step(),
            Phase::Undo => no_grad(|| self.undo(&before)),
        });
        self.recorded = match outcome {
            Ok(step) => Recorded::Step(step),
            Err(GraphError::Step(error @ TensorError::OutOfMemory { .. })) => return Err(error.into()),
            Err(error) => {
                guarded(|| no_grad(|| self.undo(&before)))?;
                Recorded::No(error.to_string())
            }
        };
        Ok(())
    }

    fn one_step(&mut self) -> Result<(), LearnError> {
        match &mut self.recorded {
            Recorded::Step(step) => Ok(step.replay()?),
            Recorded::NotYet | Recorded::No(_) => {
                let _alone = self.network.device().alone();
                Ok(guarded(|| self.step())?)
            }
        }
    }
}

/// Refuses parts that do not fit each other.
fn check_fit(
    network: &TrainableNetwork,
    teacher: Option<&Teacher>,
    has_teacher: bool,
    options: &LearnOptions,
    images: &DeviceImages,
) -> Result<(), LearnError> {
    images.check(network)?;
    teacher.map_or(Ok(()), |teacher| teacher.check(images))?;
    options.check(has_teacher, images.len())?;
    if let Some(teacher) = teacher.filter(|_| options.losses.attention > 0.0) {
        teacher.check_maps(network)?;
    }
    let is_elsewhere = |device: Device| device != network.device();
    if is_elsewhere(images.pixels.device()) || teacher.is_some_and(|teacher| is_elsewhere(teacher.device())) {
        return Err(LearnError::Devices);
    }
    Ok(())
}

impl LearnOptions {
    fn check(&self, has_teacher: bool, images: usize) -> Result<(), LearnError> {
        if self.batch == 0 || self.batch > images {
            return Err(LearnError::Batch { batch: self.batch, images });
        }
        if self.losses.distillation.is_some() != has_teacher {
            return Err(LearnError::Teacher { has_teacher });
        }
        let Augmentation { mixup, cutmix, .. } = self.augmentation;
        let is_decoupled = matches!(self.losses.distillation, Some(Distillation::Dkd { .. }));
        if (mixup > 0.0 && cutmix > 0.0) || (is_decoupled && mixup.max(cutmix) > 0.0) {
            return Err(LearnError::Mixtures);
        }
        if self.views.is_some() && (mixup.max(cutmix) > 0.0 || self.losses.attention > 0.0) {
            return Err(LearnError::Views);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
