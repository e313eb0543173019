//! The search of locations (Algorithm 1): which two cells reduce.
//!
//! In each step a network is drawn and learns, then one is drawn for the scores, which learn how its weight would change
//! the loss (`recipes::method::sphynx::LocationScores`). The temperature falls in a line. "Until converged" is not
//! defined in the paper; the number of epochs is fixed.

use std::path::Path;
use std::time::Instant;

use network::spec::NetworkSpec;
use recipes::array::{Array, ArrayKind};
use recipes::checkpoint::{Checkpoint, Part, State};
use recipes::data::Dataset;
use recipes::file::FileError;
use recipes::method::sphynx::{
    LOCATION_LOG, LocationEpoch, LocationScores, LocationSearch, MeanSlope, UpdateOrder,
};
use recipes::method::{SearchLog, read_epochs};
use recipes::random::Stream;
use recipes::recipe::Augmentation;
use recipes::schedule::Ramp;

use super::branches::Branches;
use super::cells::rate;
use super::halves::Half;
use super::state::{load, save_arrays};
use crate::assemble::AssembleOptions;
use crate::learn::LearnError;
use crate::optimize::{Listener, OptimizeRunError, Told};
use crate::tensor::Device;

/// Where a checkpoint keeps the scores, and the mean of slopes.
const SCORES: &str = "search/scores";
const MEAN: &str = "search/mean";

/// A search of locations.
pub(crate) struct LocationSearcher<'a> {
    search: &'a LocationSearch,
    candidates: Vec<[usize; 2]>,
    branches: Branches,
    scores: LocationScores,
    mean: MeanSlope,
    state: State,
}

impl<'a> LocationSearcher<'a> {
    /// A search at its first step, or where a checkpoint of the same recipe left it.
    pub(crate) fn new(
        search: &'a LocationSearch,
        networks: Vec<([usize; 2], NetworkSpec)>,
        (set, augmentation): (&Dataset, Augmentation),
        options: &AssembleOptions,
        state: State,
        (folder, device): (&Path, Device),
    ) -> Result<Self, OptimizeRunError> {
        let (candidates, specs): (Vec<_>, Vec<_>) = networks.into_iter().unzip();
        let seed = state.recipe.seed;
        let halves = Half::both(set, (search.batch, augmentation), seed, device)?;
        let branches = Branches::new(&specs, options, &search.weights, (halves, search.batch), device)?;
        let scores = LocationScores::new(candidates.len(), seed);
        let mut searcher = Self { search, candidates, branches, scores, mean: MeanSlope::default(), state };
        if recipes::checkpoint::find(folder).is_ok() {
            searcher.restore(Checkpoint::load(folder, Part::All)?, folder)?;
        }
        Ok(searcher)
    }

    fn restore(&mut self, earlier: Checkpoint, folder: &Path) -> Result<(), OptimizeRunError> {
        let other = || OptimizeRunError::OtherSearch { folder: folder.to_owned() };
        if earlier.state.recipe.differences(&self.state.recipe).is_some() {
            return Err(other());
        }
        let read = |name: &str| earlier.optimizer.get(name).map(|array| array.bytes.as_slice());
        let scores = read(SCORES).ok_or_else(other)?;
        let scores: LocationScores = serde_json::from_slice(scores).map_err(|_| other())?;
        // Checkpoints of builds that knew zeros alone have none.
        let mean = read(MEAN).map_or(Ok(MeanSlope::default()), serde_json::from_slice);
        let mean = mean.map_err(|_| other())?;
        if scores.len() != self.candidates.len() {
            return Err(other());
        }
        load(&self.branches.named_numbers(), &earlier.weights)?;
        load(&self.branches.named_memory(), &earlier.optimizer)?;
        self.branches.refresh();
        (self.scores, self.mean, self.state) = (scores, mean, earlier.state);
        Ok(())
    }

    /// Epochs that are done, here or before an interruption.
    pub(crate) fn epochs_done(&self) -> u32 {
        self.state.epoch
    }

    /// All epochs; the best pair, and the chance of each.
    pub(crate) fn run(
        mut self,
        folder: &Path,
        shard_bytes: u64,
        listener: &mut Listener<'_, LocationEpoch>,
    ) -> Result<LocationEpoch, OptimizeRunError> {
        std::fs::create_dir_all(folder).map_err(FileError::on("make the folder", folder))?;
        let path = folder.join(LOCATION_LOG);
        let mut log = SearchLog::open::<LocationEpoch>(&path, self.state.epoch)?;
        let mut last = None;
        while self.state.epoch < self.search.epochs {
            let epoch = self.epoch(listener)?;
            log.add(&epoch)?;
            let is_stopping = listener(Told::Epoch(&epoch)).is_break();
            last = Some(epoch);
            let is_last = self.state.epoch == self.search.epochs;
            let is_due = self.state.epoch.is_multiple_of(self.search.checkpoint_every.max(1));
            if is_last || is_due || is_stopping {
                self.save(folder, shard_bytes)?;
            }
            if is_stopping && !is_last {
                return Err(OptimizeRunError::Stopped { folder: folder.to_owned(), epoch: self.state.epoch });
            }
        }
        let earlier = || read_epochs::<LocationEpoch>(&path).ok()?.pop();
        last.or_else(earlier).ok_or_else(|| OptimizeRunError::Damaged {
            path: path.clone(),
            reason: "it has no line of the last epoch".to_owned(),
        })
    }

    fn epoch(
        &mut self,
        listener: &mut Listener<'_, LocationEpoch>,
    ) -> Result<LocationEpoch, OptimizeRunError> {
        let began = Instant::now();
        let number = self.state.epoch;
        let steps = self.branches.steps();
        self.branches
            .begin_epoch(number, rate(&self.search.weights, self.search.epochs).at(number.into()))?;
        let temperature = self.temperature(number);
        let mut stream = Stream::new(&format!("locations of epoch {number}"), self.state.recipe.seed);
        let mut drawn = vec![0; self.candidates.len()];
        for done in 1..=steps {
            if self.search.order == UpdateOrder::ScoresFirst {
                self.move_scores(temperature, &mut stream)?;
            }
            let chosen = self.scores.draw(&mut stream).chosen;
            self.branches.learn(chosen)?;
            drawn[chosen] += 1;
            if self.search.order == UpdateOrder::WeightsFirst {
                self.move_scores(temperature, &mut stream)?;
            }
            let _ = listener(Told::Step { done, steps });
        }
        let [loss, score_loss] = self.branches.losses()?;
        if !loss.is_finite() || !score_loss.is_finite() {
            return Err(LearnError::Diverged { epoch: number.into() }.into());
        }
        self.state.epoch += 1;
        self.state.step += steps;
        Ok(LocationEpoch {
            epoch: self.state.epoch,
            epochs: self.search.epochs,
            temperature,
            loss,
            score_loss,
            candidates: self.candidates.clone(),
            distribution: self.scores.distribution(),
            drawn,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// Draws a network for the scores, with companions where some are wanted, and moves the scores.
    fn move_scores(&mut self, temperature: f64, stream: &mut Stream) -> Result<(), OptimizeRunError> {
        let drawn = self.scores.draw(stream);
        let mut others: Vec<usize> =
            (0..self.candidates.len()).filter(|index| *index != drawn.chosen).collect();
        stream.shuffle(&mut others);
        others.truncate(self.search.companions as usize);
        let slopes = self.branches.slopes(drawn.chosen, &others)?;
        if slopes.iter().any(|(_, slope)| !slope.is_finite()) {
            return Err(LearnError::Diverged { epoch: self.state.epoch.into() }.into());
        }
        let slopes = self.mean.above_unseen(&slopes, self.search.unseen);
        let gradient = self.scores.gradient(&drawn, temperature, &slopes);
        self.scores.step(&gradient, self.search.score_rate, self.search.score_decay);
        Ok(())
    }

    /// From the first temperature to the last in a line, which the last epoch has.
    fn temperature(&self, epoch: u32) -> f64 {
        let Self { search, .. } = self;
        let ramp = Ramp {
            from: search.temperature,
            to: search.last_temperature,
            epochs: f64::from(search.epochs.saturating_sub(1).max(1)),
        };
        ramp.at(epoch.into())
    }

    fn save(&self, folder: &Path, shard_bytes: u64) -> Result<(), OptimizeRunError> {
        let weights = save_arrays(&self.branches.named_numbers());
        let mut optimizer = save_arrays(&self.branches.named_memory());
        let texts = [(SCORES, serde_json::to_vec(&self.scores)), (MEAN, serde_json::to_vec(&self.mean))];
        for (name, text) in texts {
            let bytes = text.expect("they are numbers");
            optimizer.insert(name.to_owned(), Array { shape: vec![bytes.len()], kind: ArrayKind::U8, bytes });
        }
        Checkpoint { state: self.state.clone(), weights, optimizer, mask: None }.save(folder, shard_bytes)?;
        Ok(())
    }
}
