//! Filters go, the rest learns on, and an interrupted call comes to the same bits.

use recipes::method::l1_pruning::Pruning;

use super::*;

/// Stops after so many epochs.
struct Stopping {
    inner: Silent,
    after: usize,
}

impl Watch for Stopping {
    fn start(&mut self, _: &Start) {}
    fn step(&mut self, _: u64, _: u64) {}
    fn epoch(&mut self, epoch: &Epoch) {
        self.inner.epoch(epoch);
    }
    fn should_stop(&self) -> bool {
        self.inner.epochs >= self.after
    }
}

impl OptimizeWatch for Stopping {
    fn part(&mut self, title: &str) {
        self.inner.part(title);
    }
    fn search(&mut self, _: &SearchEpoch) {}
    fn cells(&mut self, _: &CellEpoch) {}
    fn locations(&mut self, _: &LocationEpoch) {}
}

fn weights(path: &Path) -> Checkpoint {
    Checkpoint::load(path, Part::Weights).unwrap()
}

#[test]
fn pruning_meets_its_budget_keeps_the_accuracy_and_goes_on_to_the_same_bits() {
    let whole = tempfile::tempdir().unwrap();
    let mut recipe = recipe("method = \"l1-pruning\"\nbudget = \"80%\"");
    recipe.training.schedule.learning_rate = 0.02;
    recipe.training.epochs = 4;
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(whole.path()), &mut watch).unwrap();
    let record = &found.records[0];
    // Of the 4,864 ReLUs 1,920 are inside the blocks.
    let budget = RELUS * 4 / 5;
    assert!(record.comparisons() <= budget && budget - record.comparisons() < 16, "{}", record.counts());
    assert_eq!((record.compared.before, record.method.as_str()), (RELUS, "l1-pruning"));
    let (_, full) = teacher();
    assert!(record.float_accuracy > full - 5.0, "{}% after {full}%", record.float_accuracy);
    assert!(watch.parts[1].starts_with("fine-tuning: 3"), "{:?}", watch.parts);

    // The spec of the checkpoint is the pruned one, and the recipe of the record builds it again.
    let checkpoint = weights(Path::new(&record.checkpoint));
    let spec = checkpoint.spec().unwrap();
    assert_eq!(Cost::of(&spec).relus, record.comparisons());
    assert_eq!(record.recipe.network.build(spec.draft().input, 10).unwrap(), spec);
    assert_eq!(record.macs, Cost::of(&spec).macs);
    let described = ResultRecord::of_checkpoint(&checkpoint, Path::new(&record.checkpoint)).unwrap();
    assert_eq!(described.counts(), record.counts());
    // It began with numbers of the teacher's: those of its largest filters.
    let (teacher, _) = teacher();
    let (before, after) = (weights(teacher).weights, weights(&whole.path().join("pruned")).weights);
    let original = network::zoo::build("resnet10:m=4", 16, 10).unwrap();
    let pruning = Pruning::new(&original, false, budget).unwrap();
    for (channels, count) in pruning.prunable().iter().zip(pruning.counts()) {
        let name = format!("{}.weight", channels.name);
        assert_eq!(after[&name].shape[0], count);
        let norms = |array: &recipes::array::Array| -> Vec<f32> {
            let values = array.floats().unwrap();
            values.chunks(values.len() / array.shape[0]).map(|f| f.iter().map(|w| w.abs()).sum()).collect()
        };
        let (mut all, mut kept) = (norms(&before[&name]), norms(&after[&name]));
        all.sort_by(|one, other| other.total_cmp(one));
        kept.sort_by(|one, other| other.total_cmp(one));
        assert_eq!(all[..count], kept);
    }

    // Stopped in the middle of the fine-tuning, the same comes out, to the bit.
    let cut = tempfile::tempdir().unwrap();
    let mut watch = Stopping { inner: Silent::default(), after: 1 };
    let error = optimize(&recipe, &options(cut.path()), &mut watch).unwrap_err();
    assert!(error.is_stop(), "{error}");
    let mut watch = Silent::default();
    let again = optimize(&recipe, &options(cut.path()), &mut watch).unwrap();
    assert!((1..4).contains(&watch.epochs), "{} epochs", watch.epochs);
    assert_eq!(weights(Path::new(&again.records[0].checkpoint)).digest(), checkpoint.digest());
    assert_eq!(again.records[0].float_accuracy, record.float_accuracy);
}

#[test]
fn the_stream_goes_too_and_nobody_has_to_teach() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(&format!(
        "method = \"l1-pruning\"\nbudget = 1500\nstream = true\nranking = \"network\"\ndistill = false\nstart = {:?}",
        teacher().0.display().to_string()
    ));
    recipe.teacher = None;
    recipe.training.schedule.learning_rate = 0.05;
    recipe.training.epochs = 2;
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(folder.path()), &mut watch).unwrap();
    let record = &found.records[0];
    assert!(record.comparisons() <= 1500 && record.comparisons() >= 936, "{}", record.counts());
    assert_eq!((record.recipe.teacher.as_ref(), record.recipe.training.loss.distillation), (None, None));
    // No teacher was trained, and a second call finds everything done.
    assert_eq!((watch.parts.len(), watch.epochs), (2, 2));
    let mut again = Silent::default();
    assert_eq!(optimize(&recipe, &options(folder.path()), &mut again).unwrap(), found);
    assert!(again.parts.is_empty());
}

#[test]
fn what_is_pruned_begins_with_the_network_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe("method = \"l1-pruning\"\nbudget = \"80%\"");
    let refused = |recipe: &Recipe| {
        optimize(recipe, &options(folder.path()), &mut Silent::default()).unwrap_err().to_string()
    };
    recipe.network = recipes::recipe::NetworkSection::named("resnet10:m=8");
    let error = refused(&recipe);
    assert!(error.contains("resnet10:m=8 is optimized from its trained weights"), "{error}");
    let Some(OptimizeSection::L1Pruning(section)) = &mut recipe.optimize else { unreachable!() };
    section.budget = "40%".parse().unwrap();
    assert!(refused(&recipe).contains("give 6228 or more; with --stream"), "{}", refused(&recipe));
}
