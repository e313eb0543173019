//! l1 filter pruning: a trained network loses its smallest filters at once, and what is left is trained on.
//!
//! ```text
//! OUT/pruned    the smaller network with the weights it keeps, `pruned.json`
//! OUT/trained   the same after fine-tuning
//! ```
//!
//! Which filters go is decided without tensors, in [`recipes::method::l1_pruning`], with the paper.

use std::path::Path;

use network::cost::{Cost, Counts};
use network::spec::NetworkSpec;
use network::transform::PrunableChannels;
use recipes::checkpoint::{Arrays, Checkpoint};
use recipes::method::OptimizeError;
use recipes::method::l1_pruning::{L1PruningSection, Pruning, copy_kept, filter_norms};
use recipes::recipe::{NetworkSection, Recipe, StartSection};
use serde::{Deserialize, Serialize};

use super::snl::trial_images;
use super::{Found, Job, OptimizeRunError, OptimizeWatch, read_json, write_json};
use crate::assemble::{AssembleOptions, TrainableNetwork};
use crate::learn::{TRIAL_BATCH, evaluate};
use crate::run::{Images, assemble_options};

/// What the folder of the pruned network has beside its checkpoint.
const PRUNED: &str = "pruned.json";

/// What pruning came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PruningFigures {
    /// The smaller network as a recipe writes it.
    network: NetworkSection,
    /// What is left.
    #[serde(flatten)]
    counts: Counts,
    /// Channels of each layer that could lose some.
    layers: Vec<PrunedLayer>,
    /// What the two accuracies were measured on.
    tried_on: String,
    /// Of the network as it was.
    accuracy_before: f64,
    /// Without the filters, before fine-tuning.
    accuracy_after: f64,
}

/// One layer before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PrunedLayer {
    name: String,
    before: usize,
    after: usize,
}

impl Job<'_> {
    pub(super) fn l1_pruning(
        &self,
        section: &L1PruningSection,
        images: &Images,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let budget = section.budget.resolve(self.spec.name(), self.whole())?;
        self.check_start(section.start.as_deref(), images)?;
        // The teacher's own filters are pruned where there is no start.
        let teacher = section.needs_teacher().then(|| self.teacher(watch)).transpose()?;
        let pruned = self.options.folder.join("pruned");
        if !pruned.join(PRUNED).is_file() {
            let before = Cost::of(&self.spec).counts();
            watch.part(&format!("pruning: {} from {before} to {budget}", self.spec.name()));
            let start = section.start.as_deref();
            let beginning = start.or(teacher.as_deref()).expect("without a start there is a teacher");
            let network = self.started(start, beginning, images)?;
            self.prune(section, budget, &network, images, &pruned)?;
        }
        let figures: PruningFigures = read_json(&pruned.join(PRUNED))?;
        watch.part(&format!(
            "fine-tuning: {}; {:.2}% before pruning, {:.2}% after, on {} images",
            figures.counts,
            100.0 * figures.accuracy_before,
            100.0 * figures.accuracy_after,
            figures.tried_on
        ));
        self.fine_tune_pruned(&figures, &pruned, teacher.as_deref().filter(|_| section.distill), watch)
    }

    /// Chooses filters and writes the smaller network as a checkpoint to fine-tune from.
    fn prune(
        &self,
        section: &L1PruningSection,
        budget: u64,
        network: &TrainableNetwork,
        images: &Images,
        folder: &Path,
    ) -> Result<(), OptimizeRunError> {
        let device = self.options.device;
        if let Some(threads) = self.options.threads {
            crate::tensor::set_threads(threads);
        }
        let pruning = Pruning::new(&self.spec, section.stream, budget)?;
        let weights = network.to_arrays();
        let norms: Vec<Vec<f64>> =
            pruning.prunable().iter().map(|channels| filter_norms(&self.spec, channels, &weights)).collect();
        let kept = pruning.choose(section.ranking, &norms);
        let counts: Vec<usize> = kept.iter().map(Vec::len).collect();
        let plan = pruning.planned(&self.recipe.network, &self.spec, &counts)?;
        let section = plan.section();
        let spec = self.smaller(&section)?;
        let weights = copy_kept(&self.spec, pruning.prunable(), &kept, &weights);
        let options = AssembleOptions { auxiliary_head: false, ..assemble_options(self.recipe, device) };
        let mut smaller = TrainableNetwork::new(&spec, &options, device)?;
        smaller.load_arrays(&weights)?;

        let (tried_on, trial) = trial_images(images, device)?;
        let tried = |network: &TrainableNetwork| evaluate(network, &trial, TRIAL_BATCH);
        let layer = |(channels, after): (&PrunableChannels, &usize)| PrunedLayer {
            name: channels.name.clone(),
            before: channels.channels,
            after: *after,
        };
        let figures = PruningFigures {
            network: section,
            counts: plan.cost.counts(),
            layers: pruning.prunable().iter().zip(&counts).map(layer).collect(),
            tried_on: tried_on.to_owned(),
            accuracy_before: tried(network)?.accuracy(),
            accuracy_after: tried(&smaller)?.accuracy(),
        };
        let recipe = Recipe { network: figures.network.clone(), ..self.bare_recipe() };
        let state = images.state(&recipe, &spec);
        let checkpoint = Checkpoint { state, weights, optimizer: Arrays::new(), mask: None };
        checkpoint.save(folder, self.options.shard_bytes)?;
        // Written last: it says that the checkpoint is whole.
        write_json(&folder.join(PRUNED), &figures)
    }

    /// Trains the smaller network on, with the teacher where there is one.
    fn fine_tune_pruned(
        &self,
        figures: &PruningFigures,
        pruned: &Path,
        teacher: Option<&Path>,
        watch: &mut dyn OptimizeWatch,
    ) -> Result<Found, OptimizeRunError> {
        let mut recipe = match teacher {
            Some(teacher) => self.distilled_recipe(teacher),
            None => Recipe { teacher: None, ..self.bare_recipe() },
        };
        if teacher.is_none() {
            (recipe.training.loss.distillation, recipe.training.loss.attention) = (None, 0.0);
        }
        let spec = self.smaller(&figures.network)?;
        recipe.network = figures.network.clone();
        recipe.start = Some(StartSection { checkpoint: pruned.to_owned() });
        recipe.title = format!("{}, {}", spec.name(), figures.counts);
        let folder = self.options.folder.join("trained");
        let record = self.train_recorded(recipe, spec.name(), Cost::of(&spec).macs, &folder, watch)?;
        Ok(Found { records: vec![record], ..Found::default() })
    }

    fn smaller(&self, network: &NetworkSection) -> Result<NetworkSpec, OptimizeRunError> {
        let draft = self.spec.draft();
        Ok(network.build(draft.input, draft.classes).map_err(OptimizeError::from)?)
    }
}
