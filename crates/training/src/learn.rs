//! The loop: batches, gradients, optimizer.
//!
//! ```text
//! host, once per epoch    order, crops, flips, mixtures, rates  ──> tables on the device
//! device, every step      row of the tables ─> batch ─> teacher, student ─> loss ─> gradient ─> optimizer ─> counter
//! host, once per epoch    <── summed loss and right answers
//! ```
//!
//! Nothing in a step waits for the device or reads from it, so on a GPU the whole step is recorded once and replayed
//! ([`crate::tensor::CapturedStep`]). All randomness is a function of seed and epoch, so on the processor a run is
//! bit-equal for one number of threads, also when it is resumed; on a GPU sums are in no fixed order, and it is not.

mod bench;
mod evaluate;
mod optimizer;
mod state;
mod step;
mod tables;

use std::time::Instant;

use network::shape::Shape;

use crate::assemble::{AssembleError, TrainableNetwork};
use crate::augment::{Augmentation, Draws, Pixels};
use crate::distill::{Distillation, Losses};
use crate::random::Stream;
use crate::tensor::{CapturedStep, Device, GraphError, Kind, Phase, Tensor, TensorError, guarded, no_grad};

use optimizer::Memory;
use tables::Tables;

pub use bench::{BenchOptions, StepTime, measure_step};
pub use evaluate::{Evaluation, evaluate, predict};
pub use optimizer::Optimizer;

/// Steps made and undone before one is recorded: libraries choose their algorithms in them.
const WARM_UPS: usize = 3;

/// Images with labels, on the host.
#[derive(Clone, Copy, Debug)]
pub struct ImageSet<'a> {
    /// Of one image.
    pub shape: Shape,
    /// How many classes there are.
    pub classes: usize,
    /// One image after the other: channels, rows, columns.
    pub images: &'a [u8],
    /// The class of each.
    pub labels: &'a [u16],
    /// Of each channel, on a scale from 0 to 1.
    pub mean: &'a [f32],
    /// Of each channel, on the same scale.
    pub deviation: &'a [f32],
}

/// Images with labels, on a device.
#[derive(Debug)]
pub struct DeviceImages {
    pixels: Pixels,
    labels: Tensor,
    classes: usize,
}

impl DeviceImages {
    /// Moves images to a device.
    ///
    /// # Errors
    /// When counts do not fit, a label is no class, or the device has no room.
    pub fn new(set: &ImageSet<'_>, device: Device) -> Result<Self, LearnError> {
        let ImageSet { shape, classes, images, labels, mean, deviation } = *set;
        let count = labels.len();
        if count == 0 || images.len() as u64 != shape.scalars() * count as u64 {
            return Err(LearnError::Images { bytes: images.len(), labels: count, shape });
        }
        if mean.len() != shape.channels || deviation.len() != shape.channels {
            let came = mean.len().min(deviation.len());
            return Err(LearnError::Normalization { channels: shape.channels, came });
        }
        if let Some(label) = labels.iter().find(|label| usize::from(**label) >= classes) {
            return Err(LearnError::Label { label: *label, classes });
        }
        let labels: Vec<i64> = labels.iter().map(|label| i64::from(*label)).collect();
        let place = || Self {
            pixels: Pixels::new(images, shape, mean, deviation, device),
            labels: device.integers(&labels, &[count as i64]),
            classes,
        };
        Ok(guarded(place)?)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pixels.count() as usize
    }

    /// Never: a set has at least one image.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a network takes such images and knows as many classes.
    fn check(&self, network: &TrainableNetwork) -> Result<(), LearnError> {
        let (expected, came) = (network.input_shape(), self.pixels.shape());
        if expected != came {
            return Err(LearnError::Input { network: network.spec().name().to_owned(), expected, came });
        }
        let (expected, came) = (network.classes(), self.classes);
        if expected != came {
            return Err(LearnError::Classes { network: network.spec().name().to_owned(), expected, came });
        }
        Ok(())
    }
}

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
pub struct LearnOptions {
    /// Fixes the order of images and how they are changed.
    pub seed: u64,
    /// Images per step.
    pub batch: usize,
    /// How weights move.
    pub optimizer: Optimizer,
    /// How much of each weight goes into its gradient.
    pub weight_decay: f32,
    /// Whether batch norms and constants decay too, as in the papers. Keep scores never do.
    pub decay_norms_and_biases: bool,
    /// The longest gradient; longer ones are shortened.
    pub clip: Option<f32>,
    /// How much of an average of the weights stays at each step.
    pub ema: Option<f32>,
    /// What is minimized.
    pub losses: Losses,
    /// How images are changed.
    pub augmentation: Augmentation,
    /// Whether steps are recorded.
    pub graph: GraphUse,
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
            graph: GraphUse::Auto,
        }
    }
}

/// What a schedule says of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepRates {
    /// How far weights move.
    pub learning_rate: f32,
    /// Scales what a teacher adds in decoupled distillation.
    pub distillation: f32,
    /// The chance that an edge of a cell is silenced for an image.
    pub drop_path: f32,
    /// Times the sum of all keep scores' magnitudes is added to the loss (SNL's lambda).
    pub keep_penalty: f32,
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
pub struct EpochFigures {
    /// The mean loss of its steps.
    pub loss: f64,
    /// The fraction of right answers on the changed images, while learning.
    pub accuracy: f64,
    /// Images seen.
    pub images: u64,
    /// Wall-clock time.
    pub seconds: f64,
}

/// A network that learns from images.
pub struct Learner {
    network: TrainableNetwork,
    teacher: Option<TrainableNetwork>,
    options: LearnOptions,
    images: DeviceImages,
    memory: Memory,
    /// Averages of parameters and statistics.
    average: Option<(Tensor, Tensor)>,
    tables: Tables,
    /// Summed loss and right answers.
    totals: Tensor,
    recorded: Recorded,
    /// A batch that is used again and again instead of the tables', for measuring the step alone.
    fixed_batch: Option<(Tensor, Tensor)>,
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
    pub fn new(
        network: TrainableNetwork,
        teacher: Option<TrainableNetwork>,
        options: LearnOptions,
        images: DeviceImages,
    ) -> Result<Self, LearnError> {
        images.check(&network)?;
        teacher.as_ref().map_or(Ok(()), |teacher| images.check(teacher))?;
        options.check(teacher.is_some(), images.len())?;
        let device = network.device();
        if images.pixels.device() != device
            || teacher.as_ref().is_some_and(|teacher| teacher.device() != device)
        {
            return Err(LearnError::Devices);
        }
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
            let has_mixtures = options.augmentation.has_mixtures();
            let tables = Tables::new(steps, options.batch, network.drop_path_edges(), has_mixtures, device);
            (memory, options.ema.map(|_| copies()), tables, device.zeros(&[2], Kind::Double))
        };
        let (memory, average, tables, totals) = guarded(place)?;
        Ok(Self {
            network,
            teacher,
            options,
            images,
            memory,
            average,
            tables,
            totals,
            recorded,
            fixed_batch: None,
        })
    }

    /// Whole batches in an epoch. The images beyond the last one are left out, others in each epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        (self.images.len() / self.options.batch) as u64
    }

    /// The network as it is.
    pub fn network(&self) -> &TrainableNetwork {
        &self.network
    }

    /// The network itself.
    pub fn into_network(self) -> TrainableNetwork {
        self.network
    }

    /// How it learns.
    pub fn options(&self) -> &LearnOptions {
        &self.options
    }

    /// Why steps are not recorded; nothing if they are, or will be.
    pub fn why_not_recorded(&self) -> Option<&str> {
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
    pub fn run_epoch(
        &mut self,
        epoch: u64,
        rates: &dyn Fn(u64) -> StepRates,
        progress: &mut dyn FnMut(u64),
    ) -> Result<EpochFigures, LearnError> {
        let began = Instant::now();
        let steps = self.steps_per_epoch();
        guarded(|| self.begin_epoch(epoch, rates))?;
        self.record()?;
        for step in 0..steps {
            self.one_step()?;
            progress(step + 1);
        }
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

    fn begin_epoch(&mut self, epoch: u64, rates: &dyn Fn(u64) -> StepRates) {
        let steps = self.steps_per_epoch();
        let (count, batch) = (self.images.len(), self.options.batch);
        let shape = self.images.pixels.shape();
        let seed = self.options.seed;
        let draws = Draws::new(&self.options.augmentation, shape, (count, batch), (seed, epoch));
        let rates: Vec<StepRates> = (0..steps).map(|step| rates(epoch * steps + step)).collect();
        self.tables.fill(&draws, &rates, |count| {
            let mut stream = Stream::new(&format!("drop-path of epoch {epoch}"), seed);
            (0..count).map(|_| stream.unit()).collect()
        });
        let _ = self.totals.zero_();
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
            Recorded::NotYet | Recorded::No(_) => Ok(guarded(|| self.step())?),
        }
    }
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
        let is_decoupled = matches!(self.losses.distillation, Some(Distillation::Decoupled { .. }));
        if (mixup > 0.0 && cutmix > 0.0) || (is_decoupled && mixup.max(cutmix) > 0.0) {
            return Err(LearnError::Mixtures);
        }
        Ok(())
    }
}

/// Learning that cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// Images and labels of different number.
    #[error(
        "{bytes} bytes of images do not make {labels} images of {shape}; expected at least one, and as many labels"
    )]
    Images {
        /// What came.
        bytes: usize,
        /// What came.
        labels: usize,
        /// Of one image.
        shape: Shape,
    },
    /// Too few means or deviations.
    #[error("images of {channels} channels need as many means and deviations; {came} came")]
    Normalization {
        /// Of an image.
        channels: usize,
        /// What came.
        came: usize,
    },
    /// A label beyond the last class.
    #[error("an image has the label {label}, but there are {classes} classes")]
    Label {
        /// The label.
        label: u16,
        /// The classes.
        classes: usize,
    },
    /// Images of another size.
    #[error("{network} takes images of {expected}, the data set has {came}; choose another size or data set")]
    Input {
        /// The network.
        network: String,
        /// What it takes.
        expected: Shape,
        /// What came.
        came: Shape,
    },
    /// Another number of classes.
    #[error(
        "{network} tells {expected} classes apart, the data set has {came}; choose a network for this data set"
    )]
    Classes {
        /// The network, or the teacher.
        network: String,
        /// What it knows.
        expected: usize,
        /// What came.
        came: usize,
    },
    /// No batch, or one larger than the data set.
    #[error("a batch of {batch} cannot be taken from {images} images; choose a number from 1 to {images}")]
    Batch {
        /// What was asked for.
        batch: usize,
        /// What there is.
        images: usize,
    },
    /// Distillation without a teacher, or the other way around.
    #[error(
        "{}",
        if *has_teacher { "there is a teacher but no distillation loss; name one, or drop the teacher" }
        else { "a distillation loss needs a teacher; name its checkpoint, or drop the loss" }
    )]
    Teacher {
        /// Whether there is one.
        has_teacher: bool,
    },
    /// Mixtures that exclude each other.
    #[error(
        "mixup and cutmix exclude each other, and decoupled distillation excludes both: it needs one label per image"
    )]
    Mixtures,
    /// Parts on different devices.
    #[error("network, teacher and images lie on different devices; expected all on one")]
    Devices,
    /// A loss that is no number.
    #[error("the loss of epoch {epoch} is not a finite number; lower the learning rate, or clip gradients")]
    Diverged {
        /// When.
        epoch: u64,
    },
    /// A state of another run.
    #[error("the saved state lacks {name}, or has it in another shape; is it another recipe's?")]
    State {
        /// What is missing.
        name: String,
    },
    /// A network that cannot be assembled.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The tensor library refused.
    #[error(transparent)]
    Tensor(#[from] TensorError),
    /// The GPU refused.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

#[cfg(test)]
mod tests;
