//! Networks and frozen models on images whose classes are known, in the clear. Needs no libtorch.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use network::freeze::{FreezeError, FreezeOptions, FreezeReport, count_overflows, freeze};
use network::image::{Image, ImageError};
use network::inference_model::{ImageFormat, InferenceModel};
use network::mask::ActivationMask;
use network::reference::bound::{ReluRounding, TrialShares};
use network::reference::float::{self, FloatError};
use network::reference::{self, Trace};
use network::shape::Shape;
use network::spec::NetworkSpec;
use network::weights::FloatWeights;

use crate::checkpoint::{Checkpoint, CheckpointError, Part};
use crate::data::Dataset;
use crate::random::Stream;

/// A network or model that cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Images of another kind.
    #[error("{model} takes images of {input} in {classes} classes, the set has {came} in {came_classes}")]
    OtherImages {
        /// Which model.
        model: String,
        /// What it takes.
        input: Shape,
        /// How many it knows.
        classes: usize,
        /// What the set has.
        came: Shape,
        /// How many it knows.
        came_classes: usize,
    },
    /// An image that the model does not take.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The network cannot be run.
    #[error(transparent)]
    Float(#[from] FloatError),
}

/// Is told of every image that was tried, by whichever thread tried it.
pub type Watch<'a> = &'a (dyn Fn() + Sync);

/// A trained network, ready to be tried and frozen.
pub struct TrainedNetwork {
    /// The run that it comes from.
    pub checkpoint: Checkpoint,
    /// What it is.
    pub spec: NetworkSpec,
    /// What it learned.
    pub weights: FloatWeights,
    /// Which ReLUs stay, where not all do.
    pub mask: Option<ActivationMask>,
    /// What training did to pixels.
    pub format: ImageFormat,
}

impl TrainedNetwork {
    /// Reads a checkpoint, or the last one of a run.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn load(path: &Path) -> Result<Self, CheckpointError> {
        let checkpoint = Checkpoint::load(path, Part::Weights)?;
        let spec = checkpoint.spec()?;
        Ok(Self {
            weights: checkpoint.float_weights(&spec)?,
            mask: checkpoint.mask(&spec)?,
            format: checkpoint.state.normalization.image_format(),
            spec,
            checkpoint,
        })
    }

    /// Freezes it on these images, with the names of its classes and its way to treat pixels.
    ///
    /// # Errors
    /// As [`freeze`].
    pub fn freeze(
        &self,
        images: &[Image],
        options: FreezeOptions,
    ) -> Result<(InferenceModel, FreezeReport), FreezeError> {
        let class_names = self.checkpoint.state.classes.clone();
        let options = FreezeOptions { class_names, image: Some(self.format.clone()), ..options };
        freeze(&self.spec, &self.weights, self.mask.as_ref(), images, &options)
    }

    /// The class of each image in floating point, by the plain executor.
    ///
    /// # Errors
    /// When an image does not fit.
    pub fn answers(&self, set: &Dataset, threads: usize) -> Result<Vec<usize>, TrialError> {
        let answers: Vec<AtomicUsize> = set.labels.iter().map(|_| AtomicUsize::new(0)).collect();
        in_parallel(set.len(), threads, &|index| {
            let pixels = self.format.normalize(&set.image(index));
            let trace = float::run(&self.spec, &self.weights, self.mask.as_ref(), &pixels)?;
            let answer = largest(trace.logits().iter().map(|logit| f64::from(*logit)));
            answers[index].store(answer, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(answers.into_iter().map(AtomicUsize::into_inner).collect())
    }
}

/// How a network and the model it became do on the same images.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Accuracy {
    /// How many images.
    pub images: u64,
    /// The share that the network tells right in floating point, from 0 to 1.
    pub float: f64,
    /// The share that the model tells right on integers.
    pub integer: f64,
    /// Images on which both say the same.
    pub agreement: f64,
    /// Values of all these images that do not fit their widths.
    pub overflows: u64,
}

impl Accuracy {
    /// Tries a model on images of which the network's answers are known.
    ///
    /// # Errors
    /// When the images are of another kind.
    pub fn measure(
        model: &InferenceModel,
        set: &Dataset,
        answers: &[usize],
        threads: usize,
        watch: Watch<'_>,
    ) -> Result<Self, TrialError> {
        expect_images(model, set)?;
        let counts = Counts::default();
        in_parallel(set.len(), threads, &|index| {
            counts.add(model, &set.image(index), usize::from(set.labels[index]), answers[index])?;
            watch();
            Ok(())
        })?;
        let share = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64 / set.len() as f64;
        Ok(Self {
            images: set.len() as u64,
            float: share(&counts.float),
            integer: share(&counts.integer),
            agreement: share(&counts.same),
            overflows: counts.overflows.load(Ordering::Relaxed),
        })
    }
}

/// What the threads have found so far.
#[derive(Default)]
struct Counts {
    float: AtomicU64,
    integer: AtomicU64,
    same: AtomicU64,
    overflows: AtomicU64,
}

impl Counts {
    fn add(
        &self,
        model: &InferenceModel,
        image: &Image,
        class: usize,
        float: usize,
    ) -> Result<(), TrialError> {
        let trace = reference::trace(model, image, None)?;
        let integer = largest(trace.logits.iter().map(|logit| *logit as f64));
        let count = |counter: &AtomicU64, value: u64| counter.fetch_add(value, Ordering::Relaxed);
        count(&self.float, u64::from(float == class));
        count(&self.integer, u64::from(integer == class));
        count(&self.same, u64::from(float == integer));
        count(&self.overflows, count_overflows(model, &trace));
        Ok(())
    }
}

/// How a trial in the clear rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialRounding {
    /// To nearest.
    Nearest,
    /// By shares, as private inference does at all positions with or without ReLU, drawn from a seed; each image has its own.
    Private(u16),
}

impl TrialRounding {
    fn trace(self, model: &InferenceModel, image: &Image, index: usize) -> Result<Trace, ImageError> {
        match self {
            Self::Nearest => reference::trace(model, image, None),
            Self::Private(seed) => {
                let seed = (u64::from(seed) << 28) + index as u64;
                let shares = TrialShares { seed, relus: ReluRounding::Stochastic };
                reference::trace(model, image, Some(&shares))
            }
        }
    }
}

/// What a model says of a set, on integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelAnswers {
    /// The class of each image.
    pub classes: Vec<usize>,
    /// Values of all images that do not fit their widths.
    pub overflows: u64,
}

impl ModelAnswers {
    /// How many classes are those of the labels.
    pub fn correct(&self, labels: &[u16]) -> u64 {
        labels.iter().zip(&self.classes).filter(|(label, class)| usize::from(**label) == **class).count()
            as u64
    }
}

/// Tries a model on each image of a set, on integers.
///
/// # Errors
/// When the images are of another kind.
pub fn model_answers(
    model: &InferenceModel,
    set: &Dataset,
    rounding: TrialRounding,
    threads: usize,
    watch: Watch<'_>,
) -> Result<ModelAnswers, TrialError> {
    expect_images(model, set)?;
    let answers: Vec<AtomicUsize> = set.labels.iter().map(|_| AtomicUsize::new(0)).collect();
    let overflows = AtomicU64::new(0);
    in_parallel(set.len(), threads, &|index| {
        let trace = rounding.trace(model, &set.image(index), index)?;
        let class = largest(trace.logits.iter().map(|logit| *logit as f64));
        answers[index].store(class, Ordering::Relaxed);
        overflows.fetch_add(count_overflows(model, &trace), Ordering::Relaxed);
        watch();
        Ok(())
    })?;
    let classes = answers.into_iter().map(AtomicUsize::into_inner).collect();
    Ok(ModelAnswers { classes, overflows: overflows.into_inner() })
}

/// So many images, evenly over a set that may be sorted by class.
pub fn spread(set: &Dataset, count: usize) -> Dataset {
    let count = count.min(set.len());
    let indices: Vec<u32> = (0..count).map(|index| (index * set.len() / count) as u32).collect();
    set.subset(&indices)
}

/// Some images to fix scales on, the same each time.
pub fn calibration_images(set: &Dataset, count: usize) -> Vec<Image> {
    let mut order: Vec<usize> = (0..set.len()).collect();
    Stream::new("calibration images", 1).shuffle(&mut order);
    order.into_iter().take(count).map(|index| set.image(index)).collect()
}

fn expect_images(model: &InferenceModel, set: &Dataset) -> Result<(), TrialError> {
    let outline = model.outline();
    if outline.input == set.shape && outline.classes == set.classes.len() {
        return Ok(());
    }
    Err(TrialError::OtherImages {
        model: outline.name.clone(),
        input: outline.input,
        classes: outline.classes,
        came: set.shape,
        came_classes: set.classes.len(),
    })
}

/// Does something for every number below a count, on several threads.
fn in_parallel(
    count: usize,
    threads: usize,
    work: &(dyn Fn(usize) -> Result<(), TrialError> + Sync),
) -> Result<(), TrialError> {
    let next = AtomicUsize::new(0);
    let share = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return Ok(());
            }
            work(index)?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, 256)).map(|_| scope.spawn(share)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker returns its errors"))
    })
}

/// The place of the largest number; the first of several.
fn largest(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, value) in values.enumerate() {
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{SyntheticSize, synthetic};

    fn set() -> Dataset {
        synthetic(&SyntheticSize { training: 10, test: 40, ..SyntheticSize::default() }).test
    }

    #[test]
    fn images_are_spread_over_the_whole_set() {
        let set = set();
        assert_eq!(spread(&set, 4).labels, [0, 0, 0, 0]);
        assert_eq!(spread(&set, 4).image(3), set.image(30));
        assert_eq!(spread(&set, 99), set);
        assert!(spread(&set, 0).is_empty());
    }

    #[test]
    fn the_first_of_equal_logits_is_the_answer() {
        assert_eq!(largest([1.0, 3.0, 3.0].into_iter()), 1);
        assert_eq!(largest([f64::NAN, -1.0].into_iter()), 1);
    }

    #[test]
    fn private_rounding_is_that_of_its_seed_and_image() {
        let set = set();
        let spec = network::zoo::build("resnet10:m=2", set.shape.height, set.classes.len()).unwrap();
        let weights = FloatWeights::random(&spec, 1);
        let images = calibration_images(&set, 2);
        let (model, _) = freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap();
        let logits =
            |rounding: TrialRounding, index| rounding.trace(&model, &images[0], index).unwrap().logits;
        let private = logits(TrialRounding::Private(1), 0);
        assert_eq!(private, logits(TrialRounding::Private(1), 0));
        for other in [logits(TrialRounding::Private(2), 0), logits(TrialRounding::Private(1), 1)] {
            assert_ne!(private, other);
        }
        assert_ne!(private, logits(TrialRounding::Nearest, 0));
    }

    /// Frozen on a single image and without a margin, a model has no room for others.
    #[test]
    fn values_out_of_range_are_counted_with_the_answers() {
        let set = set();
        let spec = network::zoo::build("resnet10:m=2", set.shape.height, set.classes.len()).unwrap();
        let options = FreezeOptions { margin: 1.0, ..FreezeOptions::default() };
        let (model, _) =
            freeze(&spec, &FloatWeights::random(&spec, 1), None, &[set.image(0)], &options).unwrap();
        let answers = model_answers(&model, &set, TrialRounding::Nearest, 2, &|| ()).unwrap();
        let tried = Accuracy::measure(&model, &set, &answers.classes, 1, &|| ()).unwrap();
        assert!(answers.overflows > 0);
        assert_eq!((answers.overflows, tried.agreement), (tried.overflows, 1.0));
        assert_eq!(answers.correct(&set.labels) as f64 / set.len() as f64, tried.integer);
        let alone = model_answers(&model, &spread(&set, 1), TrialRounding::Nearest, 1, &|| ()).unwrap();
        assert_eq!(alone.overflows, 0, "it is the image that the scales were fixed on");
    }

    #[test]
    fn calibration_images_are_the_same_each_time() {
        assert_eq!(calibration_images(&set(), 5), calibration_images(&set(), 5));
    }
}
