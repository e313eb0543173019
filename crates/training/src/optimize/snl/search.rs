//! The search: weights and keep scores learn together until few enough scores stand above the threshold; with Taylor scores only
//! the weights learn, and the scores worth least go after each epoch.

use std::ops::ControlFlow;
use std::path::Path;

use network::cost::{Cost, Counts};
use network::spec::NetworkSpec;
use recipes::array::{Array, ArrayKind};
use recipes::checkpoint::{Checkpoint, Part, State};
use recipes::method::{
    Granularity, KeepScores, Numbered, Penalty, SearchLog, Settled, SnlSection, THRESHOLD, taylor,
};
use recipes::recipe::{Distillation, ReadingOfWeight};
use serde::{Deserialize, Serialize};

use super::count::{Counter, next_look};
use crate::assemble::TrainableNetwork;
use crate::distill::Losses;
use crate::learn::{
    DeviceImages, EpochFigures, LearnOptions, Learner, Optimizer, StepRates, TRIAL_BATCH, Teacher, evaluate,
};
use crate::optimize::{Listener, OptimizeRunError, Told};
use crate::tensor::to_floats;

/// The log of a search in its folder, one line for each epoch.
pub(in crate::optimize) const SEARCH_LOG: &str = "search.jsonl";
/// Where a checkpoint of the search keeps the state of the penalty.
const PENALTY: &str = "search/penalty";

/// What a search works on.
pub(crate) struct Search<'a> {
    /// The method's switches.
    pub(crate) section: &'a SnlSection,
    /// How many ReLUs stay.
    pub(crate) budget: u64,
    /// Seed, augmentation and the like; optimizer and losses are the search's own.
    pub(crate) learning: LearnOptions,
    /// What is tried after each epoch, and what it is called.
    pub(crate) trial: (&'static str, DeviceImages),
    /// Where checkpoints and the log go.
    pub(crate) folder: &'a Path,
    /// The largest file of a checkpoint.
    pub(crate) shard_bytes: u64,
}

/// One epoch of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchEpoch {
    /// Epochs done.
    pub epoch: u32,
    /// ReLUs whose score is above the threshold; comparisons and gated values, where channels share signs.
    #[serde(flatten)]
    pub counts: Counts,
    /// The penalty of this epoch, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<f64>,
    /// The mean loss, without the penalty.
    pub loss: f64,
    /// The share of training images that were told right while learning, from 0 to 1.
    pub training_accuracy: f64,
    /// What it was tried on.
    pub tried_on: String,
    /// The share that was right, from 0 to 1, with scores as they are.
    pub accuracy: f64,
    /// Seconds of learning.
    pub seconds: f64,
    /// ReLUs or comparisons left in each site, in the order of the walk.
    pub by_site: Vec<u64>,
}

impl Numbered for SearchEpoch {
    fn number(&self) -> u32 {
        self.epoch
    }
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchFigures {
    /// Epochs of the search; the last one may have ended early.
    pub epochs: u32,
    /// ReLUs or comparisons by threshold alone.
    pub by_threshold: u64,
    /// What is left after settling: the budget, and the values that follow it where channels share signs.
    #[serde(flatten)]
    pub counts: Counts,
    /// How many were moved by rank.
    pub moved: u64,
    /// What the two accuracies were measured on.
    pub tried_on: String,
    /// With scores as the search left them.
    pub accuracy_before_settling: f64,
    /// With the mask, before fine-tuning.
    pub accuracy_after_settling: f64,
}

/// A search in progress.
struct Running<'a> {
    search: Search<'a>,
    learner: Learner,
    counter: Counter,
    penalty: Penalty,
    /// ReLUs before the search.
    start: u64,
    state: State,
}

impl Search<'_> {
    /// Learns scores from a trained network down to the budget and settles them; goes on where an earlier attempt was
    /// interrupted.
    pub(crate) fn run(
        self,
        mut network: TrainableNetwork,
        teacher: Teacher,
        images: DeviceImages,
        state: State,
        listener: &mut Listener<'_, SearchEpoch>,
    ) -> Result<(TrainableNetwork, Settled, SearchFigures), OptimizeRunError> {
        network.enable_keep_scores(self.section.granularity)?;
        let start = network.relu_count();
        let earlier = self.earlier(&state)?;
        if let Some((earlier, _)) = &earlier {
            network.load_arrays(&earlier.weights)?;
        }
        let mut running = Running {
            counter: Counter::new(&network, self.section.granularity),
            learner: Learner::taught(network, Some(teacher), self.options(), images)?,
            penalty: Penalty::new(self.section.penalty, start, self.budget),
            start,
            search: self,
            state,
        };
        if let Some((earlier, penalty)) = earlier {
            running.learner.restore(&earlier.optimizer)?;
            running.penalty = penalty;
            running.state = earlier.state;
        }
        if running.search.section.taylor_epochs.is_some() {
            running.learner.watch_worth();
        }
        running.go(listener)
    }

    /// The last checkpoint of an interrupted search, if there is one.
    fn earlier(&self, state: &State) -> Result<Option<(Checkpoint, Penalty)>, OptimizeRunError> {
        if recipes::checkpoint::find(self.folder).is_err() {
            return Ok(None);
        }
        let mut earlier = Checkpoint::load(self.folder, Part::All)?;
        let other = || OptimizeRunError::OtherSearch { folder: self.folder.to_owned() };
        if earlier.state.recipe.differences(&state.recipe).is_some() {
            return Err(other());
        }
        let penalty = earlier.optimizer.remove(PENALTY).ok_or_else(other)?;
        let penalty = serde_json::from_slice(&penalty.bytes).map_err(|_| other())?;
        Ok(Some((earlier, penalty)))
    }

    /// Adam without decay, cross-entropy and distillation: all as in the authors' code.
    fn options(&self) -> LearnOptions {
        let distillation = Distillation::Kd {
            temperature: self.section.temperature,
            weight: self.section.distillation,
            reading: ReadingOfWeight::Added,
        };
        LearnOptions {
            batch: self.section.batch,
            optimizer: Optimizer::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
            weight_decay: 0.0,
            ema: None,
            losses: Losses { distillation: Some(distillation), ..Losses::default() },
            ..self.learning.clone()
        }
    }
}

impl Running<'_> {
    fn go(
        mut self,
        listener: &mut Listener<'_, SearchEpoch>,
    ) -> Result<(TrainableNetwork, Settled, SearchFigures), OptimizeRunError> {
        let mut log = SearchLog::open::<SearchEpoch>(&self.search.folder.join(SEARCH_LOG), self.state.epoch)?;
        let stop = self.stop_count();
        let mut kept = self.counter.above(self.learner.network(), THRESHOLD);
        while kept > stop {
            if self.state.epoch >= self.search.section.max_epochs {
                return Err(OptimizeRunError::SearchTooLong {
                    epochs: self.state.epoch,
                    kept,
                    noun: Cost::of(self.spec()).counts().noun(),
                    budget: self.search.budget,
                });
            }
            let epoch = match self.search.section.taylor_epochs {
                Some(epochs) => self.taylor_epoch(epochs, listener)?,
                None => self.epoch(listener)?,
            };
            kept = epoch.counts.comparisons;
            log.add(&epoch)?;
            let is_stopping = listener(Told::Epoch(&epoch)).is_break();
            self.penalty.observe(kept);
            let is_due = self.state.epoch.is_multiple_of(self.search.section.checkpoint_every.max(1));
            if kept > stop && (is_due || is_stopping) {
                self.save()?;
            }
            if kept > stop && is_stopping {
                let folder = self.search.folder.to_owned();
                return Err(OptimizeRunError::Stopped { folder, epoch: self.state.epoch });
            }
        }
        self.settle()
    }

    /// The search ends here: within half of what may be moved by rank. Taylor scores end on the budget, or as near as whole
    /// channels allow.
    fn stop_count(&self) -> u64 {
        if self.search.section.taylor_epochs.is_some() {
            return self.search.budget;
        }
        self.search.budget + (self.search.budget as f64 * self.search.section.max_moved / 2.0) as u64
    }

    /// Learns one epoch, or less when the budget is reached in it.
    fn epoch(&mut self, listener: &mut Listener<'_, SearchEpoch>) -> Result<SearchEpoch, OptimizeRunError> {
        let penalty = self.penalty.value();
        let learning_rate = self.search.section.learning_rate as f32;
        let rates = |_| StepRates { learning_rate, keep_penalty: penalty as f32, ..StepRates::default() };
        let stop = self.stop_count();
        let steps = self.learner.steps_per_epoch();
        let longest = (steps / 16).max(1);
        let counter = &self.counter;
        let mut look = next_look(
            |threshold| counter.above(self.learner.network(), threshold),
            stop,
            learning_rate,
            longest,
        );
        let figures =
            self.learner.run_epoch_until(u64::from(self.state.epoch), &rates, &mut |network, done| {
                let _ = listener(Told::Step { done, steps });
                if done < look {
                    return ControlFlow::Continue(());
                }
                if counter.above(network, THRESHOLD) <= stop {
                    return ControlFlow::Break(());
                }
                look = done
                    + next_look(|threshold| counter.above(network, threshold), stop, learning_rate, longest);
                ControlFlow::Continue(())
            })?;
        self.look(figures, Some(penalty))
    }

    /// Learns one epoch with scores as they are, and drops those that were worth least in it.
    fn taylor_epoch(
        &mut self,
        epochs: u32,
        listener: &mut Listener<'_, SearchEpoch>,
    ) -> Result<SearchEpoch, OptimizeRunError> {
        let learning_rate = self.search.section.learning_rate as f32;
        let rates = |_| StepRates { learning_rate, ..StepRates::default() };
        let steps = self.learner.steps_per_epoch();
        let figures = self.learner.run_epoch(u64::from(self.state.epoch), &rates, &mut |done| {
            let _ = listener(Told::Step { done, steps });
        })?;
        let kept = taylor::kept_after(self.start, self.search.budget, self.state.epoch + 1, epochs);
        let worth = self.learner.take_worth();
        let (granularity, before) = (self.search.section.granularity, self.score_lists());
        let scores = taylor::prune(self.spec(), granularity, worth, &before, kept);
        self.learner.network_mut().set_keep_scores(&scores);
        self.look(figures, None)
    }

    /// What an epoch came to.
    fn look(&mut self, figures: EpochFigures, penalty: Option<f64>) -> Result<SearchEpoch, OptimizeRunError> {
        self.state.epoch += 1;
        self.state.step += self.learner.steps_per_epoch();
        let tried = evaluate(self.learner.network(), &self.search.trial.1, TRIAL_BATCH)?;
        let scores = self.scores()?;
        let mask = scores.mask_above(self.spec(), THRESHOLD);
        Ok(SearchEpoch {
            epoch: self.state.epoch,
            counts: Cost::masked(self.spec(), &mask).counts(),
            penalty,
            loss: figures.loss,
            training_accuracy: figures.accuracy,
            tried_on: self.search.trial.0.to_owned(),
            accuracy: tried.accuracy(),
            seconds: figures.seconds,
            by_site: scores.kept_by_site(THRESHOLD),
        })
    }

    fn spec(&self) -> &NetworkSpec {
        self.learner.network().spec()
    }

    fn score_lists(&self) -> Vec<Vec<f32>> {
        let network = self.learner.network();
        let mut lists = vec![Vec::new(); network.spec().walk().sites().len()];
        for (site, scores) in network.keep_scores() {
            lists[site.0] = to_floats(scores);
        }
        lists
    }

    fn scores(&self) -> Result<KeepScores, OptimizeRunError> {
        Ok(KeepScores::new(self.spec(), self.search.section.granularity, self.score_lists())
            .map_err(crate::assemble::AssembleError::from)?)
    }

    /// Cuts the scores to an exact mask, with the accuracy before and after.
    fn settle(self) -> Result<(TrainableNetwork, Settled, SearchFigures), OptimizeRunError> {
        let settled = self.scores()?.settle(self.spec(), self.search.budget, self.max_moved())?;
        let (tried_on, trial) = &self.search.trial;
        let before = evaluate(self.learner.network(), trial, TRIAL_BATCH)?.accuracy();
        let mut network = self.learner.into_network();
        network.set_mask(&settled.mask)?;
        let figures = SearchFigures {
            epochs: self.state.epoch,
            by_threshold: settled.by_threshold,
            counts: network.counts(),
            moved: settled.moved,
            tried_on: (*tried_on).to_owned(),
            accuracy_before_settling: before,
            accuracy_after_settling: evaluate(&network, trial, TRIAL_BATCH)?.accuracy(),
        };
        Ok((network, settled, figures))
    }

    /// Whole channels cannot stop on the ReLU; one channel of the largest map is allowed then.
    fn max_moved(&self) -> f64 {
        let allowed = self.search.section.max_moved;
        match self.search.section.granularity {
            Granularity::Pixel => allowed,
            Granularity::Channel => {
                let sites = self.spec().walk().sites().iter();
                let channel = sites.map(|site| site.shape.pixels()).max().unwrap_or(1);
                allowed + channel as f64 / self.search.budget as f64
            }
        }
    }

    fn save(&self) -> Result<(), OptimizeRunError> {
        let mut optimizer = self.learner.state();
        let penalty = serde_json::to_vec(&self.penalty).expect("a penalty holds only numbers");
        let penalty = Array { shape: vec![penalty.len()], kind: ArrayKind::U8, bytes: penalty };
        optimizer.insert(PENALTY.to_owned(), penalty);
        let weights = self.learner.network().to_arrays();
        let checkpoint = Checkpoint { state: self.state.clone(), weights, optimizer, mask: None };
        checkpoint.save(self.search.folder, self.search.shard_bytes)?;
        Ok(())
    }
}
