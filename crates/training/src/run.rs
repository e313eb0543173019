//! A recipe becomes a run: data, network, teacher, learning, checkpoints, log.
//!
//! ```text
//! recipe -> data -> network (+ mask, + weights of the last checkpoint) -> learn an epoch -> try -> log -> checkpoint -> ...
//! ```
//!
//! Several recipes that have data and teacher in common may share each batch and what the teacher says of it.
//!
//! All randomness is a function of seed and epoch, so a run that goes on after a checkpoint computes what it would have
//! computed without the interruption; on a CPU, with the same number of threads, to the bit.

mod error;
mod options;
mod prepare;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use network::cost::Counts;
use network::spec::NetworkSpec;
use recipes::checkpoint::{Checkpoint, Part, State};
use recipes::data::Dataset;
use recipes::log::{End, Epoch, Event, Log, Start, Tried};
use recipes::recipe::Recipe;
use serde::Serialize;

use crate::assemble::{AssembleOptions, TrainableNetwork};
use crate::learn::{self, DeviceImages, EpochFigures, LearnError, Learner, StepRates, TRIAL_BATCH};
use crate::tensor::{self, Device};

pub use error::RunError;
use options::Rates;
use prepare::Place;

pub(crate) use options::learn_options;
pub(crate) use prepare::{Images, assemble_options, image_set, teacher, trained};

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
    /// Whether to stop after this epoch, with a checkpoint. Asked once an epoch, and before the first.
    fn should_stop(&self) -> bool {
        false
    }
}

/// What a run or a trial came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The network, reduced.
    pub network: String,
    /// Its ReLUs, after masking; comparisons and gated values, where channels share signs.
    #[serde(flatten)]
    pub counts: Counts,
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
    let member = Member { recipe, folder: options.folder.clone(), watch };
    let mut outcomes = train_together(vec![member], options)?;
    outcomes.pop().expect("one run has one outcome")
}

/// One of several runs.
pub struct Member<'a> {
    /// What to train.
    pub recipe: Recipe,
    /// The folder of the run.
    pub folder: PathBuf,
    /// Is told how far it is.
    pub watch: &'a mut dyn Watch,
}

/// Trains networks side by side that have seed, data, teacher, epochs, batch, numbers and augmentation in common: every
/// batch, and what the teacher says of it, is made once for all. Each becomes what it would become alone; on a CPU, with
/// the same number of threads, to the bit. The folder of the options is not used. Outcomes come in the order of members.
///
/// # Errors
/// As for [`train`], and when the recipes cannot go together. One run whose loss is no number any more, or whose files
/// cannot be written, does not keep the others from going on: it has an error for its outcome.
///
/// # Panics
/// Without members.
pub fn train_together(
    mut members: Vec<Member<'_>>,
    options: &RunOptions,
) -> Result<Vec<Result<Outcome, RunError>>, RunError> {
    prepare::must_go_together(members.iter().map(|member| &member.recipe))?;
    let earlier =
        members.iter().map(|member| prepare::earlier(&member.recipe, &member.folder, options.resume));
    let earlier: Vec<Option<Checkpoint>> = earlier.collect::<Result<_, _>>()?;
    let done = |earlier: &Option<Checkpoint>| earlier.as_ref().map_or(0, |earlier| earlier.state.epoch);
    if let Some(other) = earlier.iter().position(|one| done(one) != done(&earlier[0])) {
        let folder = members[other].folder.clone();
        return Err(RunError::OtherEpoch {
            folder,
            came: done(&earlier[other]),
            expected: done(&earlier[0]),
        });
    }
    let first = &members[0].recipe;
    let images = Images::open(first, options.data.as_deref())?;
    if let Some(threads) = options.threads {
        tensor::set_threads(threads);
    }
    let mut learners = Vec::with_capacity(members.len());
    let mut specs = Vec::with_capacity(members.len());
    for (member, earlier) in members.iter().zip(&earlier) {
        let spec = member.recipe.network.build(images.training.shape, images.training.classes.len())?;
        let place = if learners.is_empty() { Place::First } else { Place::Fellow };
        learners.push(prepare::learner(
            &member.recipe,
            &spec,
            &images,
            earlier.as_ref(),
            options.device,
            place,
        )?);
        specs.push(spec);
    }
    let mut learner = learners.remove(0);
    learner.take_along(learners)?;
    let trial = images.trial_on_device(options.device)?;
    let mut runs = Vec::with_capacity(members.len());
    for ((member, earlier), spec) in members.iter_mut().zip(&earlier).zip(specs) {
        prepare::make_folder(&member.folder)?;
        let fresh = || images.state(&member.recipe, &spec);
        let state = earlier.as_ref().map_or_else(fresh, |earlier| earlier.state.clone());
        runs.push(Run {
            began: Instant::now(),
            rates: Rates::new(&member.recipe.training, learner.steps_per_epoch()),
            log: Log::open(&member.folder, state.epoch)?,
            folder: member.folder.clone(),
            watch: &mut *member.watch,
            images: &images,
            trial: &trial,
            failure: None,
            state,
            spec,
            options,
        });
    }
    go(runs, learner)
}

/// All epochs of all runs.
fn go(mut runs: Vec<Run<'_>>, mut learner: Learner) -> Result<Vec<Result<Outcome, RunError>>, RunError> {
    for (index, run) in runs.iter_mut().enumerate() {
        run.begin(learner.member(index))?;
    }
    let epochs = runs[0].state.recipe.training.epochs;
    let mut is_stopping = runs[0].watch.should_stop();
    while !is_stopping && runs[0].state.epoch < epochs && runs.iter().any(|run| run.failure.is_none()) {
        let number = u64::from(runs[0].state.epoch);
        let steps = learner.steps_per_epoch();
        let rates: Vec<Rates> = runs.iter().map(|run| run.rates.clone()).collect();
        let rates: Vec<_> = rates.iter().map(|rates| |step| rates.at(step)).collect();
        let rates: Vec<&dyn Fn(u64) -> StepRates> = rates.iter().map(|rates| rates as _).collect();
        let watch = &mut *runs[0].watch;
        let figures = learner.run_epoch_together(number, &rates, &mut |done| watch.step(done, steps))?;
        is_stopping = runs[0].watch.should_stop();
        for ((index, run), figures) in runs.iter_mut().enumerate().zip(figures) {
            run.state.epoch += 1;
            run.state.step += steps;
            if run.failure.is_none() {
                run.failure = run.after_epoch(learner.member(index), figures, is_stopping).err();
            }
        }
    }
    for run in runs.iter_mut().filter(|run| is_stopping && run.state.epoch < epochs && run.failure.is_none())
    {
        run.failure = Some(RunError::Stopped { folder: run.folder.clone(), epoch: run.state.epoch });
    }
    let ends = runs.into_iter().enumerate().map(|(index, run)| run.end(learner.member(index)));
    Ok(ends.collect())
}

/// A run in progress.
struct Run<'a> {
    began: Instant,
    rates: Rates,
    images: &'a Images,
    /// What each epoch is tried on: held-out images where there are some, test images otherwise.
    trial: &'a (&'static str, DeviceImages),
    state: State,
    spec: NetworkSpec,
    folder: PathBuf,
    log: Log,
    watch: &'a mut dyn Watch,
    options: &'a RunOptions,
    /// Why it ended before the others.
    failure: Option<RunError>,
}

impl Run<'_> {
    fn begin(&mut self, learner: &Learner) -> Result<(), RunError> {
        let start = self.start(learner);
        self.watch.start(&start);
        Ok(self.log.add(&Event::Start(start))?)
    }

    /// Tries what an epoch came to where that is due, and writes it down.
    fn after_epoch(
        &mut self,
        learner: &mut Learner,
        figures: Result<EpochFigures, LearnError>,
        is_stopping: bool,
    ) -> Result<(), RunError> {
        let figures = figures?;
        let training = &self.state.recipe.training;
        let is_last = self.state.epoch == training.epochs;
        let is_due = self.state.epoch.is_multiple_of(training.evaluate_every) || is_last;
        let is_kept = (self.state.epoch.is_multiple_of(training.checkpoint_every) || is_stopping) && !is_last;
        let epoch = Epoch {
            epoch: self.state.epoch,
            learning_rate: self.rates.rate.at(self.state.step.saturating_sub(1)),
            loss: figures.loss,
            training_accuracy: figures.accuracy,
            images_per_second: figures.images as f64 / figures.seconds.max(1e-9),
            seconds: figures.seconds,
            tried: if is_due { Some(self.try_on_trial(learner)?) } else { None },
        };
        self.watch.epoch(&epoch);
        self.log.add(&Event::Epoch(epoch))?;
        if is_kept {
            self.save(learner)?;
        }
        Ok(())
    }

    fn end(mut self, learner: &mut Learner) -> Result<Outcome, RunError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        // A run with held-out images is there to choose by; test images are for what was chosen (`evaluate`).
        let results = vec![self.try_on_trial(learner)?];
        self.state.accuracy = results.iter().map(|tried| (tried.on.clone(), tried.accuracy)).collect();
        let checkpoint = self.save(learner)?;
        let seconds = self.began.elapsed().as_secs_f64();
        self.log.add(&Event::End(End { results: results.clone(), seconds }))?;
        Ok(Outcome {
            network: self.spec.name().to_owned(),
            counts: learner.network().counts(),
            epoch: self.state.epoch,
            results,
            checkpoint,
        })
    }

    fn start(&self, learner: &Learner) -> Start {
        let network = learner.network();
        Start {
            title: self.state.recipe.title.clone(),
            network: self.spec.name().to_owned(),
            counts: network.counts(),
            parameters: network.parameter_count(),
            data: self.images.training.name.clone(),
            images: self.images.training.len() as u64,
            epochs: self.state.recipe.training.epochs,
            seed: self.state.recipe.seed,
            device: match self.options.device {
                Device::Cpu => "cpu".to_owned(),
                Device::Cuda => "cuda".to_owned(),
            },
            precision: Some(network.options().precision),
            resumed_after: self.state.epoch,
            deterministic: self.options.device == Device::Cpu,
        }
    }

    fn try_on_trial(&self, learner: &mut Learner) -> Result<Tried, RunError> {
        let (name, images) = self.trial;
        learner.with_average(|network| try_network(network, name, images))
    }

    fn save(&self, learner: &mut Learner) -> Result<PathBuf, RunError> {
        let mut optimizer = learner.state();
        let weights = learner.with_average(TrainableNetwork::to_arrays);
        if self.state.recipe.training.ema.is_some() {
            let learning = learner.network().to_arrays();
            optimizer.extend(learning.into_iter().map(|(name, array)| (format!("{LEARNING}{name}"), array)));
        }
        let mask = self.state.recipe.mask.is_some().then(|| learner.network().mask().to_bytes());
        let checkpoint = Checkpoint { state: self.state.clone(), weights, optimizer, mask };
        Ok(checkpoint.save(&self.folder, self.options.shard_bytes)?)
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
        counts: network.counts(),
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
