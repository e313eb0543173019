//! A recipe becomes a run: data, network, teacher, learning, checkpoints, log.
//!
//! ```text
//! recipe -> data -> network (+ mask, + weights of the last checkpoint) -> learn an epoch -> try -> log -> checkpoint -> ...
//! ```
//!
//! All randomness is a function of seed and epoch, so a run that goes on after a checkpoint computes what it would have
//! computed without the interruption; on a CPU, with the same number of threads, to the bit.

mod error;
mod options;
mod prepare;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use network::spec::NetworkSpec;
use recipes::checkpoint::{Checkpoint, Part, State};
use recipes::data::Dataset;
use recipes::log::{End, Epoch, Event, Log, Start, Tried};
use recipes::recipe::Recipe;
use serde::Serialize;

use crate::assemble::{AssembleOptions, TrainableNetwork};
use crate::learn::{self, DeviceImages, Learner};
use crate::tensor::{self, Device};

pub use error::RunError;
use options::Rates;

pub(crate) use options::learn_options;
pub(crate) use prepare::{Images, assemble_options, image_set, trained};

/// Images of one step of a trial.
const TRIAL_BATCH: usize = 250;
/// Weights that learn, where averaged ones are kept beside them.
const LEARNING: &str = "learning/";

/// Where and how to run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The folder of the images; the recipe's where absent.
    pub data: Option<PathBuf>,
    /// What to compute on.
    pub device: Device,
    /// Whether to go on after the last checkpoint.
    pub resume: bool,
    /// The folder of the run.
    pub folder: PathBuf,
    /// The largest file of a checkpoint.
    pub shard_bytes: u64,
    /// CPU threads; all cores where absent.
    pub threads: Option<usize>,
}

/// Is told how far a run is.
pub trait Watch {
    /// It begins.
    fn start(&mut self, start: &Start);
    /// So many steps of the epoch are done.
    fn step(&mut self, done: u64, steps: u64);
    /// An epoch is done.
    fn epoch(&mut self, epoch: &Epoch);
}

/// What a run or a trial came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The network, reduced.
    pub network: String,
    /// Its ReLUs, after masking; comparisons, where channels share signs.
    pub relus: u64,
    /// Values that follow another channel's sign.
    #[serde(skip_serializing_if = "network::cost::is_zero")]
    pub gated_values: u64,
    /// Epochs that are done.
    pub epoch: u32,
    /// What the weights of the last epoch do: after training on held-out images, or on test images where there are none;
    /// after a trial on both.
    pub results: Vec<Tried>,
    /// Where the weights are.
    pub checkpoint: PathBuf,
}

/// Trains a network by a recipe.
///
/// # Errors
/// When data, network, mask, teacher or an earlier checkpoint cannot be used, memory or disk run out, or the loss is no
/// number any more. What was written before stays good.
pub fn train(recipe: Recipe, options: &RunOptions, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
    let earlier = prepare::earlier(&recipe, options)?;
    let images = Images::open(&recipe, options.data.as_deref())?;
    let spec = recipe.network.build(images.training.shape, images.training.classes.len())?;
    if let Some(threads) = options.threads {
        tensor::set_threads(threads);
    }
    let learner = prepare::learner(&recipe, &spec, &images, earlier.as_ref(), options.device)?;
    prepare::make_folder(&options.folder)?;
    let run = Run {
        began: Instant::now(),
        rates: Rates::new(&recipe.training, learner.steps_per_epoch()),
        trial: images.trial_on_device(options.device)?,
        state: earlier.as_ref().map_or_else(|| images.state(&recipe, &spec), |earlier| earlier.state.clone()),
        images,
        spec,
        learner,
        options,
    };
    run.go(watch)
}

/// A run in progress.
struct Run<'a> {
    began: Instant,
    rates: Rates,
    images: Images,
    /// What each epoch is tried on: held-out images where there are some, test images otherwise.
    trial: (&'static str, DeviceImages),
    state: State,
    spec: NetworkSpec,
    learner: Learner,
    options: &'a RunOptions,
}

impl Run<'_> {
    fn go(mut self, watch: &mut dyn Watch) -> Result<Outcome, RunError> {
        let mut log = Log::open(&self.options.folder, self.state.epoch)?;
        let start = self.start();
        watch.start(&start);
        log.add(&Event::Start(start))?;
        while self.state.epoch < self.state.recipe.training.epochs {
            let epoch = self.epoch(watch)?;
            watch.epoch(&epoch);
            log.add(&Event::Epoch(epoch))?;
            let training = &self.state.recipe.training;
            let is_last = self.state.epoch == training.epochs;
            if is_last {
                break;
            }
            if self.state.epoch.is_multiple_of(training.checkpoint_every) {
                self.save()?;
            }
        }
        // A run with held-out images is there to choose by; test images are for what was chosen (`evaluate`).
        let results = vec![self.try_on_trial()?];
        self.state.accuracy = results.iter().map(|tried| (tried.on.clone(), tried.accuracy)).collect();
        let checkpoint = self.save()?;
        log.add(&Event::End(End { results: results.clone(), seconds: self.began.elapsed().as_secs_f64() }))?;
        Ok(Outcome {
            network: self.spec.name().to_owned(),
            relus: self.learner.network().relu_count(),
            gated_values: self.learner.network().gated_values(),
            epoch: self.state.epoch,
            results,
            checkpoint,
        })
    }

    fn start(&self) -> Start {
        let network = self.learner.network();
        Start {
            title: self.state.recipe.title.clone(),
            network: self.spec.name().to_owned(),
            relus: network.relu_count(),
            gated_values: network.gated_values(),
            parameters: network.parameter_count(),
            data: self.images.training.name.clone(),
            images: self.images.training.len() as u64,
            epochs: self.state.recipe.training.epochs,
            seed: self.state.recipe.seed,
            device: match self.options.device {
                Device::Cpu => "cpu".to_owned(),
                Device::Cuda => "cuda".to_owned(),
            },
            resumed_after: self.state.epoch,
            deterministic: self.options.device == Device::Cpu,
        }
    }

    /// Learns one epoch and tries the result where that is due.
    fn epoch(&mut self, watch: &mut dyn Watch) -> Result<Epoch, RunError> {
        let steps = self.learner.steps_per_epoch();
        let rates = self.rates.clone();
        let number = u64::from(self.state.epoch);
        let figures =
            self.learner.run_epoch(number, &|step| rates.at(step), &mut |done| watch.step(done, steps))?;
        self.state.epoch += 1;
        self.state.step += steps;
        let training = &self.state.recipe.training;
        let is_due =
            self.state.epoch.is_multiple_of(training.evaluate_every) || self.state.epoch == training.epochs;
        let tried = if is_due { Some(self.try_on_trial()?) } else { None };
        Ok(Epoch {
            epoch: self.state.epoch,
            learning_rate: self.rates.rate.at(self.state.step.saturating_sub(1)),
            loss: figures.loss,
            training_accuracy: figures.accuracy,
            images_per_second: figures.images as f64 / figures.seconds.max(1e-9),
            seconds: figures.seconds,
            tried,
        })
    }

    fn try_on_trial(&mut self) -> Result<Tried, RunError> {
        let (name, images) = &self.trial;
        self.learner.with_average(|network| try_network(network, name, images))
    }

    fn save(&mut self) -> Result<PathBuf, RunError> {
        let mut optimizer = self.learner.state();
        let weights = self.learner.with_average(TrainableNetwork::to_arrays);
        if self.state.recipe.training.ema.is_some() {
            let learning = self.learner.network().to_arrays();
            optimizer.extend(learning.into_iter().map(|(name, array)| (format!("{LEARNING}{name}"), array)));
        }
        let mask = self.state.recipe.mask.is_some().then(|| self.learner.network().mask().to_bytes());
        let checkpoint = Checkpoint { state: self.state.clone(), weights, optimizer, mask };
        Ok(checkpoint.save(&self.options.folder, self.options.shard_bytes)?)
    }
}

fn try_network(network: &TrainableNetwork, name: &str, images: &DeviceImages) -> Result<Tried, RunError> {
    let found = learn::evaluate(network, images, TRIAL_BATCH)?;
    Ok(Tried { on: name.to_owned(), accuracy: found.accuracy(), images: found.images, loss: found.loss })
}

/// Tries the network of a checkpoint on held-out images, where the run left some out, and on test images.
///
/// # Errors
/// When checkpoint or data cannot be used.
pub fn evaluate(
    path: &Path,
    data: Option<&Path>,
    device: Device,
    threads: Option<usize>,
) -> Result<Outcome, RunError> {
    let checkpoint = Checkpoint::load(path, Part::Weights)?;
    let images = Images::open(&checkpoint.state.recipe, data)?;
    images.must_match(&checkpoint.state, path)?;
    if let Some(threads) = threads {
        tensor::set_threads(threads);
    }
    let spec = checkpoint.spec()?;
    let network = prepare::trained(&checkpoint, &spec, AssembleOptions::default(), device)?;
    let mut sets = BTreeMap::from([("test", &images.test)]);
    sets.extend(images.held_out.as_ref().map(|set| ("held-out", set)));
    let mut results = Vec::new();
    for (name, set) in sets {
        results.push(try_network(&network, name, &DeviceImages::new(&image_set(set), device)?)?);
    }
    Ok(Outcome {
        network: spec.name().to_owned(),
        relus: network.relu_count(),
        gated_values: network.gated_values(),
        epoch: checkpoint.state.epoch,
        results,
        checkpoint: recipes::checkpoint::find(path)?,
    })
}

/// The class that the network of a checkpoint finds for each image.
///
/// # Errors
/// When the checkpoint cannot be used, or memory runs out.
pub fn answers(checkpoint: &Checkpoint, set: &Dataset, device: Device) -> Result<Vec<usize>, RunError> {
    let spec = checkpoint.spec()?;
    let network = prepare::trained(checkpoint, &spec, AssembleOptions::default(), device)?;
    let logits = learn::predict(&network, &DeviceImages::new(&image_set(set), device)?, TRIAL_BATCH)?;
    let answer =
        |row: &[f32]| (1..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best });
    Ok(logits.chunks_exact(set.classes.len()).map(answer).collect())
}
