//! The search of locations: the network learns under its mask, and the mask moves to where it differs most from the teacher.

use std::path::Path;

use network::cost::Cost;
use recipes::checkpoint::{Checkpoint, Part, State};
use recipes::method::SearchLog;
use recipes::method::senet::{SenetSection, highest_in_each_site, random_mask};
use recipes::recipe::Distillation;

use crate::assemble::TrainableNetwork;
use crate::distill::Losses;
use crate::learn::{DeviceImages, LearnOptions, Learner, Optimizer, StepRates, TRIAL_BATCH, evaluate};
use crate::optimize::snl::{SEARCH_LOG, SearchEpoch, SearchFigures};
use crate::optimize::{Listener, OptimizeRunError, Told};

/// What a search of locations works on.
pub(super) struct Locating<'a> {
    /// The method's switches.
    pub(super) section: &'a SenetSection,
    /// How many ReLUs each site keeps.
    pub(super) counts: Vec<u64>,
    /// Seed, augmentation and the like; optimizer and losses are the search's own.
    pub(super) learning: LearnOptions,
    /// What is tried after each epoch, and what it is called.
    pub(super) trial: (&'static str, DeviceImages),
    /// Where checkpoints and the log go.
    pub(super) folder: &'a Path,
    /// The largest file of a checkpoint.
    pub(super) shard_bytes: u64,
}

impl Locating<'_> {
    /// Moves a mask from chance to its last places; goes on where an earlier attempt was interrupted.
    pub(super) fn run(
        self,
        mut network: TrainableNetwork,
        teacher: TrainableNetwork,
        images: DeviceImages,
        mut state: State,
        listener: &mut Listener<'_, SearchEpoch>,
    ) -> Result<(TrainableNetwork, SearchFigures), OptimizeRunError> {
        let earlier = self.earlier(&state)?;
        let mask = match &earlier {
            Some(earlier) => earlier.mask(network.spec())?.ok_or_else(|| self.other())?,
            None => random_mask(network.spec(), &self.counts, state.recipe.seed),
        };
        network.set_movable_mask(&mask)?;
        if let Some(earlier) = &earlier {
            network.load_arrays(&earlier.weights)?;
        }
        let mut learner = Learner::new(network, Some(teacher), self.options(), images)?;
        if let Some(earlier) = earlier {
            learner.restore(&earlier.optimizer)?;
            state = earlier.state;
        }
        learner.watch_differences()?;
        let mut log = SearchLog::open::<SearchEpoch>(&self.folder.join(SEARCH_LOG), state.epoch)?;
        while state.epoch < self.section.epochs {
            let epoch = self.epoch(&mut learner, &mut state, listener)?;
            log.add(&epoch)?;
            let is_stopping = listener(Told::Epoch(&epoch)).is_break();
            let goes_on = state.epoch < self.section.epochs;
            if goes_on && (is_stopping || state.epoch.is_multiple_of(self.section.checkpoint_every.max(1))) {
                self.save(&learner, &state)?;
            }
            if goes_on && is_stopping {
                return Err(OptimizeRunError::Stopped { folder: self.folder.to_owned(), epoch: state.epoch });
            }
        }
        self.finish(learner, &state)
    }

    /// Learns an epoch under the mask and moves it.
    fn epoch(
        &self,
        learner: &mut Learner,
        state: &mut State,
        listener: &mut Listener<'_, SearchEpoch>,
    ) -> Result<SearchEpoch, OptimizeRunError> {
        let learning_rate = self.section.learning_rate as f32;
        let rates = |_| StepRates { learning_rate, ..StepRates::default() };
        let steps = learner.steps_per_epoch();
        let figures = learner.run_epoch(u64::from(state.epoch), &rates, &mut |done| {
            let _ = listener(Told::Step { done, steps });
        })?;
        let differences = learner.take_differences();
        let mask = highest_in_each_site(learner.network().spec(), &differences, &self.counts);
        learner.network_mut().move_mask(&mask);
        state.epoch += 1;
        state.step += learner.steps_per_epoch();
        let tried = evaluate(learner.network(), &self.trial.1, TRIAL_BATCH)?;
        Ok(SearchEpoch {
            epoch: state.epoch,
            counts: Cost::masked(learner.network().spec(), &mask).counts(),
            penalty: None,
            loss: figures.loss,
            training_accuracy: figures.accuracy,
            tried_on: self.trial.0.to_owned(),
            accuracy: tried.accuracy(),
            seconds: figures.seconds,
            by_site: self.counts.clone(),
        })
    }

    fn finish(
        self,
        learner: Learner,
        state: &State,
    ) -> Result<(TrainableNetwork, SearchFigures), OptimizeRunError> {
        let mut network = learner.into_network();
        let mask = network.mask().clone();
        network.set_mask(&mask)?;
        let accuracy = evaluate(&network, &self.trial.1, TRIAL_BATCH)?.accuracy();
        let figures = SearchFigures {
            epochs: state.epoch,
            by_threshold: mask.relu_count(),
            counts: network.counts(),
            moved: 0,
            tried_on: self.trial.0.to_owned(),
            accuracy_before_settling: accuracy,
            accuracy_after_settling: accuracy,
        };
        Ok((network, figures))
    }

    /// SGD at one rate; cross-entropy and softened outputs share the loss.
    fn options(&self) -> LearnOptions {
        let distillation = Distillation::soft(self.section.temperature, self.section.distillation);
        LearnOptions {
            batch: self.section.batch,
            optimizer: Optimizer::Sgd { momentum: 0.9, nesterov: false },
            weight_decay: self.section.weight_decay as f32,
            ema: None,
            losses: Losses { distillation: Some(distillation), ..Losses::default() },
            ..self.learning.clone()
        }
    }

    fn other(&self) -> OptimizeRunError {
        OptimizeRunError::OtherSearch { folder: self.folder.to_owned() }
    }

    /// The last checkpoint of an interrupted search, if there is one.
    fn earlier(&self, state: &State) -> Result<Option<Checkpoint>, OptimizeRunError> {
        if recipes::checkpoint::find(self.folder).is_err() {
            return Ok(None);
        }
        let earlier = Checkpoint::load(self.folder, Part::All)?;
        if earlier.state.recipe.differences(&state.recipe).is_some() {
            return Err(self.other());
        }
        Ok(Some(earlier))
    }

    fn save(&self, learner: &Learner, state: &State) -> Result<(), OptimizeRunError> {
        let checkpoint = Checkpoint {
            state: state.clone(),
            weights: learner.network().to_arrays(),
            optimizer: learner.state(),
            mask: Some(learner.network().mask().to_bytes()),
        };
        checkpoint.save(self.folder, self.shard_bytes)?;
        Ok(())
    }
}
