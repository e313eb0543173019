//! The search of cells: weights and scores learn in turn, each from its own half of the images (DARTS, Sphynx Table 5).
//!
//! ```text
//! every step   scores  <- Adam on the loss of a batch of the second half     (first, as in the authors' code)
//!              weights <- SGD on the loss of a batch of the first half
//! every epoch  the cells that the scores stand for, their accuracy on the second half, a line of the log, a checkpoint
//! ```
//!
//! Of second order, the loss of the scores is that behind one step of the weights (`second_order`).

use std::path::Path;
use std::time::Instant;

use network::zoo::genotype::Genotype;
use recipes::checkpoint::{Checkpoint, Part, State};
use recipes::data::Dataset;
use recipes::file::{FileError, write_whole};
use recipes::method::sphynx::{CELL_LOG, CELLS_FILE, CellEpoch, CellSearch, Choose, Strategy, WeightUpdates};
use recipes::method::{SearchLog, read_epochs};
use recipes::recipe::{Augmentation, ScheduleKind, UpdateEvery};
use recipes::schedule::LearningRate;

use super::halves::Half;
use super::network::{Computation, SearchNetwork};
use super::recorded::{Recordable, Recorded};
use super::state::{load, named_memory, save_arrays};
use crate::assemble::{Mode, NumberKinds, Parameters};
use crate::distill::{Targets, cross_entropy};
use crate::learn::{LearnError, Memory, Optimizer, Row, TRIAL_BATCH, evaluate_with, shorten};
use crate::optimize::{Listener, OptimizeRunError, Told};
use crate::tensor::{Device, Kind, Tensor, guarded, no_grad, to_floats};

/// Adam's memories (the authors' code).
pub(super) const SCORE_OPTIMIZER: Optimizer = Optimizer::Adam { beta1: 0.5, beta2: 0.999, epsilon: 1e-8 };

/// A search of cells.
pub(crate) struct CellSearcher<'a> {
    search: &'a CellSearch,
    learning: Learning,
    /// Steps that move weights alone, and those that move both.
    recorded: [Recorded; 2],
    state: State,
    device: Device,
}

/// What steps change and read.
pub(super) struct Learning {
    pub(super) network: SearchNetwork,
    pub(super) halves: [Half; 2],
    pub(super) weight_memory: Memory,
    score_memory: Memory,
    pub(super) updates: WeightUpdates,
    /// Summed loss of weights, right answers, summed loss of scores.
    totals: Tensor,
}

impl<'a> CellSearcher<'a> {
    /// A search at its first step, or where a checkpoint of the same recipe left it.
    pub(crate) fn new(
        search: &'a CellSearch,
        set: &Dataset,
        augmentation: Augmentation,
        state: State,
        folder: &Path,
        device: Device,
    ) -> Result<Self, OptimizeRunError> {
        let seed = state.recipe.seed;
        let network =
            SearchNetwork::new(search, set.shape, set.classes.len(), seed, Computation::on(device, search))?;
        let halves = Half::both(set, (search.batch(), augmentation), seed, device)?;
        let learning =
            guarded(|| Learning::new(network, halves, search, device)).map_err(LearnError::from)?;
        let mut searcher =
            Self { search, learning, recorded: [Recorded::NotYet, Recorded::NotYet], state, device };
        if recipes::checkpoint::find(folder).is_ok() {
            let earlier = Checkpoint::load(folder, Part::All)?;
            if earlier.state.recipe.differences(&searcher.state.recipe).is_some() {
                return Err(OptimizeRunError::OtherSearch { folder: folder.to_owned() });
            }
            load(&searcher.learning.named_numbers(), &earlier.weights)?;
            load(&searcher.learning.named_memory(), &earlier.optimizer)?;
            searcher.learning.refresh();
            searcher.state = earlier.state;
        }
        Ok(searcher)
    }

    /// Epochs that are done, here or before an interruption.
    pub(crate) fn epochs_done(&self) -> u32 {
        self.state.epoch
    }

    /// All epochs; the cells are written into the folder.
    pub(crate) fn run(
        mut self,
        folder: &Path,
        shard_bytes: u64,
        listener: &mut Listener<'_, CellEpoch>,
    ) -> Result<Genotype, OptimizeRunError> {
        std::fs::create_dir_all(folder).map_err(FileError::on("make the folder", folder))?;
        let path = folder.join(CELL_LOG);
        let mut log = SearchLog::open::<CellEpoch>(&path, self.state.epoch)?;
        while self.state.epoch < self.search.epochs {
            let epoch = self.epoch(listener)?;
            log.add(&epoch)?;
            let is_stopping = listener(Told::Epoch(&epoch)).is_break();
            let is_last = self.state.epoch == self.search.epochs;
            let is_due = self.state.epoch.is_multiple_of(self.search.checkpoint_every.max(1));
            if is_last || is_due || is_stopping {
                self.save(folder, shard_bytes)?;
            }
            if is_stopping && !is_last {
                return Err(OptimizeRunError::Stopped { folder: folder.to_owned(), epoch: self.state.epoch });
            }
        }
        let cells = self.chosen(&path)?;
        write_whole(&folder.join(CELLS_FILE), cells.to_toml())?;
        Ok(cells)
    }

    /// The cells of the last epoch, or of the most accurate one.
    fn chosen(&self, log: &Path) -> Result<Genotype, OptimizeRunError> {
        let epochs: Vec<CellEpoch> = read_epochs(log)?;
        // Before scores move, the cells are drawn by lot.
        let moved = epochs.iter().filter(|epoch| epoch.epoch > self.search.frozen_epochs());
        let best = moved.reduce(|best, next| if next.accuracy > best.accuracy { next } else { best });
        let chosen = match self.search.choose {
            Choose::Last => epochs.last(),
            Choose::Best => best,
        };
        chosen.and_then(CellEpoch::genotype).ok_or_else(|| OptimizeRunError::Damaged {
            path: log.to_owned(),
            reason: "it has no line of the epoch whose cells are wanted".to_owned(),
        })
    }

    /// Learns one epoch.
    fn epoch(&mut self, listener: &mut Listener<'_, CellEpoch>) -> Result<CellEpoch, OptimizeRunError> {
        let began = Instant::now();
        let number = self.state.epoch;
        let steps = self.learning.halves[0].steps();
        let rate = rate(&self.search.updates(), self.search.epochs).at(u64::from(number));
        guarded(|| {
            self.learning.halves[0].begin_epoch(number.into(), rate);
            self.learning.halves[1].begin_epoch(number.into(), self.search.score_rate());
            let _ = self.learning.totals.zero_();
        })
        .map_err(LearnError::from)?;
        let moves_scores = number >= self.search.frozen_epochs();
        let is_second_order = self.search.strategy == Strategy::DartsSecond;
        for done in 1..=steps {
            self.recorded[usize::from(moves_scores)].run(self.device, &mut self.learning, |learning| {
                learning.step(moves_scores, is_second_order);
            })?;
            let _ = listener(Told::Step { done, steps });
        }
        let totals = guarded(|| to_floats(&self.learning.totals)).map_err(LearnError::from)?;
        let seconds = began.elapsed().as_secs_f64();
        self.state.epoch += 1;
        self.state.step += steps;
        let mean = |index: usize| f64::from(totals[index]) / steps as f64;
        if !mean(0).is_finite() || !mean(2).is_finite() {
            return Err(LearnError::Diverged { epoch: number.into() }.into());
        }
        let network = &self.learning.network;
        let tried = evaluate_with(self.learning.halves[1].images(), TRIAL_BATCH, |pixels| {
            network.forward(pixels, Mode::Evaluate)
        })?;
        let scores = network.cell_scores();
        let cells = scores.genotype(self.search.rank).map_err(network::zoo::ZooError::from);
        Ok(CellEpoch {
            epoch: self.state.epoch,
            epochs: self.search.epochs,
            loss: mean(0),
            training_accuracy: mean(1) / self.search.batch() as f64,
            score_loss: moves_scores.then(|| mean(2)),
            accuracy: tried.accuracy(),
            cells: cells.map_err(recipes::method::OptimizeError::from)?.to_word(),
            scores,
            seconds,
            unrecorded: self.recorded[usize::from(moves_scores)].refusal().map(str::to_owned),
        })
    }

    fn save(&self, folder: &Path, shard_bytes: u64) -> Result<(), OptimizeRunError> {
        let weights = save_arrays(&self.learning.named_numbers());
        let optimizer = save_arrays(&self.learning.named_memory());
        Checkpoint { state: self.state.clone(), weights, optimizer, mask: None }.save(folder, shard_bytes)?;
        Ok(())
    }
}

/// The rate of weights: half a wave of a cosine that changes with the epoch.
pub(super) fn rate(updates: &WeightUpdates, epochs: u32) -> LearningRate {
    let schedule = recipes::recipe::Schedule {
        kind: ScheduleKind::Cosine,
        learning_rate: updates.learning_rate,
        floor: updates.floor,
        update: UpdateEvery::Epoch,
        ..recipes::recipe::Schedule::default()
    };
    // One step an epoch, so that a step is an epoch.
    schedule.rate(epochs, 1)
}

impl Learning {
    pub(super) fn new(
        network: SearchNetwork,
        halves: [Half; 2],
        search: &CellSearch,
        device: Device,
    ) -> Self {
        let updates = search.updates();
        let sgd = Optimizer::Sgd { momentum: updates.momentum as f32, nesterov: updates.nesterov };
        Self {
            weight_memory: Memory::new(sgd, network.weights(), updates.weight_decay as f32, true),
            score_memory: Memory::new(SCORE_OPTIMIZER, network.scores(), search.score_decay as f32, true),
            totals: device.zeros(&[3], Kind::Double),
            network,
            halves,
            updates,
        }
    }

    /// One step. Everything it needs and makes stays on the device.
    pub(super) fn step(&mut self, moves_scores: bool, is_second_order: bool) {
        let [weight_row, score_row] = no_grad(|| [self.halves[0].read(), self.halves[1].read()]);
        let batch = no_grad(|| self.batch(0, &weight_row));
        if moves_scores {
            let validation = no_grad(|| self.batch(1, &score_row));
            let gradient = match is_second_order {
                true => self.unrolled_gradient(&batch, &validation, &weight_row.learning_rate),
                false => self.score_gradient(&validation),
            };
            no_grad(|| {
                let (_, scores) = self.network.both_mut();
                self.score_memory.step(scores.masters(), &gradient, &score_row.learning_rate);
                scores.refresh();
            });
        }
        self.learn(&batch, &weight_row.learning_rate);
        no_grad(|| self.halves.iter_mut().for_each(Half::advance));
    }

    fn batch(&self, half: usize, row: &Row) -> (Tensor, Targets) {
        self.halves[half].batch(row, self.network.setting().precision.master_kind())
    }

    /// The loss of a batch.
    pub(super) fn loss(&self, batch: &(Tensor, Targets)) -> (Tensor, Tensor) {
        let logits = self.network.forward(&batch.0, Mode::Train { drop_path: None });
        (cross_entropy(&logits, &batch.1.chances), logits)
    }

    /// How the loss of a batch changes with every score.
    pub(super) fn score_gradient(&mut self, batch: &(Tensor, Targets)) -> Tensor {
        let (loss, _) = self.loss(batch);
        self.count(2, &loss);
        let (_, scores) = self.network.both_mut();
        scores.gradient(&loss).shallow_clone()
    }

    /// How the loss of a batch changes with every weight.
    pub(super) fn weight_gradient(&mut self, batch: &(Tensor, Targets)) -> Tensor {
        let (loss, _) = self.loss(batch);
        let (weights, _) = self.network.both_mut();
        weights.gradient(&loss).shallow_clone()
    }

    /// How the loss of a batch changes with weights and scores.
    pub(super) fn both_gradients(&mut self, batch: &(Tensor, Targets)) -> [Tensor; 2] {
        let (loss, _) = self.loss(batch);
        self.count(2, &loss);
        let (weights, scores) = self.network.both_mut();
        Parameters::gradients(&loss, [weights, scores])
    }

    /// Moves the weights.
    fn learn(&mut self, batch: &(Tensor, Targets), rate: &Tensor) {
        let (loss, logits) = self.loss(batch);
        self.count(0, &loss);
        no_grad(|| {
            let right = logits.argmax(-1, false).eq_tensor(&batch.1.labels).sum(Kind::Double);
            let _ = self.totals.get(1).g_add_(&right);
        });
        let (weights, _) = self.network.both_mut();
        let mut gradient = weights.gradient(&loss).shallow_clone();
        drop((loss, logits));
        no_grad(|| {
            shorten(&mut gradient, self.updates.clip as f32);
            let (weights, _) = self.network.both_mut();
            self.weight_memory.step(weights.masters(), &gradient, rate);
            weights.refresh();
        });
    }

    fn count(&self, index: i64, loss: &Tensor) {
        no_grad(|| {
            let _ = self.totals.get(index).g_add_(&loss.detach().to_kind(Kind::Double));
        });
    }

    /// What a checkpoint holds as weights.
    fn named_numbers(&self) -> Vec<(String, Tensor)> {
        self.network.named_numbers()
    }

    /// What only going on needs.
    fn named_memory(&self) -> Vec<(String, Tensor)> {
        let mut named = named_memory("weights", &self.weight_memory, self.network.weights());
        named.extend(named_memory("scores", &self.score_memory, self.network.scores()));
        named
    }
}

impl Recordable for Learning {
    fn changed(&self) -> Vec<Tensor> {
        let memories = [&self.weight_memory, &self.score_memory];
        let rows = memories
            .iter()
            .flat_map(|memory| memory.named_rows().map(|(_, row)| row).chain([memory.steps()]));
        let own = [
            self.network.weights().masters(),
            self.network.scores().masters(),
            self.network.statistics(),
            &self.totals,
        ];
        let own = own.into_iter().chain(rows).map(Tensor::shallow_clone);
        own.chain(self.halves.iter().map(Half::position)).collect()
    }

    fn refresh(&mut self) {
        let (weights, scores) = self.network.both_mut();
        weights.refresh();
        scores.refresh();
    }
}
