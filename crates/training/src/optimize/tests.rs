//! Each method takes a small trained network to a quarter of its ReLUs and loses at most five points.

mod l1_pruning;

use std::path::Path;
use std::sync::OnceLock;

use network::mask::SiteMask;
use recipes::checkpoint::{Checkpoint, Part};
use recipes::log::{Epoch, Start};

use super::*;

/// The small network and its data.
const BASE: &str = "
seed = 3
[data]
set = \"synthetic\"
synthetic = { side = 16, training = 1500, test = 500, seed = 1 }
[network]
name = \"resnet10:m=4\"
[training]
epochs = 8
batch = 50
checkpoint_every = 100
evaluate_every = 100
optimizer = { kind = \"sgd\", momentum = 0.9, nesterov = true, weight_decay = 5e-4 }
schedule = { kind = \"cosine\", learning_rate = 0.1, warm_up_epochs = 1.0 }
";
const RELUS: u64 = 4864;

#[derive(Default)]
struct Silent {
    searches: Vec<SearchEpoch>,
    parts: Vec<String>,
    epochs: usize,
}

impl Watch for Silent {
    fn start(&mut self, _: &Start) {}
    fn step(&mut self, _: u64, _: u64) {}
    fn epoch(&mut self, _: &Epoch) {
        self.epochs += 1;
    }
}

impl OptimizeWatch for Silent {
    fn part(&mut self, title: &str) {
        self.parts.push(title.to_owned());
    }
    fn search(&mut self, epoch: &SearchEpoch) {
        self.searches.push(epoch.clone());
    }
    fn cells(&mut self, _: &CellEpoch) {}
    fn locations(&mut self, _: &LocationEpoch) {}
}

fn options(folder: &Path) -> OptimizeOptions {
    OptimizeOptions {
        data: None,
        device: Device::Cpu,
        folder: folder.to_owned(),
        shard_bytes: 15 << 20,
        threads: Some(1),
    }
}

/// The full network, trained once for all tests; with its accuracy in percent.
fn teacher() -> &'static (PathBuf, f64) {
    static TEACHER: OnceLock<(PathBuf, f64)> = OnceLock::new();
    TEACHER.get_or_init(|| {
        // Left for the system to clean: other tests of this process read it.
        let folder = std::env::temp_dir().join(format!("sordino-optimize-teacher-{}", std::process::id()));
        let OptimizeOptions { data, device, shard_bytes, threads, .. } = options(&folder);
        let run = RunOptions { data, device, resume: false, folder: folder.clone(), shard_bytes, threads };
        let outcome = train(Recipe::from_toml(BASE).unwrap(), &run, &mut Silent::default()).unwrap();
        (folder, percent(outcome.results.last().unwrap().accuracy))
    })
}

fn recipe(section: &str) -> Recipe {
    let (folder, _) = teacher();
    let text = format!(
        "{BASE}\n[teacher]\ncheckpoint = {:?}\n[optimize]\n{section}\n",
        folder.display().to_string()
    );
    Recipe::from_toml(&text).unwrap()
}

#[track_caller]
fn assert_keeps_accuracy(record: &ResultRecord) {
    let (_, full) = teacher();
    assert!(*full > 85.0, "the full network has {full}%");
    assert!(record.comparisons() <= RELUS / 4 && record.comparisons() > 0, "{}", record.counts());
    assert_eq!(record.compared.before, RELUS);
    assert!(record.float_accuracy > full - 5.0, "{}% after {full}%", record.float_accuracy);
}

#[test]
fn snl_hits_a_quarter_exactly_and_keeps_the_accuracy() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(
        "method = \"snl\"\nbudget = \"25%\"\nlearning_rate = 5e-3\nbatch = 50\n\
         penalty = { kind = \"paced\", first = 4e-3, raise = 1.5, hold_epochs = 2, epochs = 8 }",
    );
    recipe.training.schedule.learning_rate = 0.02;
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(folder.path()), &mut watch).unwrap();
    let record = &found.records[0];
    assert_eq!(record.comparisons(), RELUS / 4);
    assert_keeps_accuracy(record);
    // The search itself came down to the budget; at most 2% were moved by rank.
    let last = watch.searches.last().unwrap();
    assert!(last.counts.comparisons.abs_diff(RELUS / 4) <= RELUS / 4 / 50, "{}", last.counts);
    assert!(watch.searches.iter().all(|epoch| epoch.by_site.iter().sum::<u64>() == epoch.counts.comparisons));
    // The mask that the checkpoint holds is 0/1 and has the count.
    let checkpoint = Checkpoint::load(Path::new(&record.checkpoint), Part::Weights).unwrap();
    let spec = checkpoint.spec().unwrap();
    let mask = checkpoint.mask(&spec).unwrap().unwrap();
    assert_eq!(mask.relu_count(), RELUS / 4);
    assert!(spec.walk().sites().iter().any(|site| matches!(mask.site(site.index), SiteMask::Pixels(_))));
    // A second call finds everything done.
    let mut again = Silent::default();
    assert_eq!(optimize(&recipe, &options(folder.path()), &mut again).unwrap(), found);
    assert!(again.parts.is_empty());
}

#[test]
fn taylor_scores_come_down_a_curve_to_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(
        "method = \"snl\"\nbudget = \"25%\"\nlearning_rate = 2e-3\nbatch = 50\ntaylor_epochs = 4\ncheckpoint_every = 1",
    );
    recipe.training.schedule.learning_rate = 0.02;
    recipe.training.epochs = 3;
    let search = |folder: &Path, max_epochs: u32, watch: &mut Silent| {
        let mut recipe = recipe.clone();
        let Some(OptimizeSection::Snl(section)) = &mut recipe.optimize else { unreachable!() };
        section.max_epochs = max_epochs;
        optimize(&recipe, &options(folder), watch)
    };
    let mut watch = Silent::default();
    // An interrupted search goes on.
    assert!(search(folder.path(), 2, &mut watch).unwrap_err().to_string().contains("max_epochs"));
    let found = search(folder.path(), 9, &mut watch).unwrap();
    let counts: Vec<u64> = watch.searches.iter().map(|epoch| epoch.counts.comparisons).collect();
    assert_eq!(counts, [3439, 2432, 1720, 1216]);
    assert!(watch.searches.iter().all(|epoch| epoch.penalty.is_none()));
    assert_keeps_accuracy(&found.records[0]);
    assert_eq!(found.records[0].comparisons(), RELUS / 4);
    // Not what chance would leave of each layer: the last one has few and needs them.
    let last = watch.searches.last().unwrap();
    let sites = resnet10_sites();
    let part = |site: usize| last.by_site[site] as f64 / sites[site] as f64;
    assert!(part(sites.len() - 1) > 1.2 * 0.25 || part(0) < 0.8 * 0.25, "{:?}", last.by_site);
}

/// ReLUs of each site of the small network.
fn resnet10_sites() -> Vec<u64> {
    let spec = network::zoo::build("resnet10:m=4", 16, 10).unwrap();
    spec.walk().sites().iter().map(|site| site.shape.scalars()).collect()
}

#[test]
fn senet_shares_the_budget_among_layers_and_moves_its_mask() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(
        "method = \"senet\"\nbudget = \"25%\"\nlearning_rate = 0.02\nbatch = 50\nepochs = 3\ncheckpoint_every = 1",
    );
    recipe.training.schedule.learning_rate = 0.02;
    recipe.training.epochs = 3;
    recipe.training.loss.attention = 100.0;
    recipe.training.loss.distillation = Some(Distillation::soft(4.0, 0.8));
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(folder.path()), &mut watch).unwrap();
    assert_keeps_accuracy(&found.records[0]);
    let record = &found.records[0];
    assert_eq!((record.comparisons(), record.method.as_str()), (RELUS / 4, "senet"));
    assert_eq!(watch.searches.len(), 3);
    let by_site = &watch.searches[0].by_site;
    assert_eq!(by_site.iter().sum::<u64>(), RELUS / 4);
    assert!(by_site.iter().zip(resnet10_sites()).all(|(kept, all)| *kept <= all && *kept > 0));
    // What the checkpoint keeps is no longer what chance drew.
    let checkpoint = Checkpoint::load(Path::new(&record.checkpoint), Part::Weights).unwrap();
    let spec = checkpoint.spec().unwrap();
    let mask = checkpoint.mask(&spec).unwrap().unwrap();
    let first = recipes::method::senet::random_mask(&spec, by_site, recipe.seed);
    let counts = |mask: &network::mask::ActivationMask| -> Vec<u64> {
        spec.walk().sites().iter().map(|site| mask.relu_count_at(site.index)).collect()
    };
    assert_eq!((counts(&mask), counts(&first)), (by_site.clone(), by_site.clone()));
    assert_ne!(mask, first);
    // The search goes on from a checkpoint to the same mask: its last epoch is made again.
    std::fs::remove_dir_all(folder.path().join("settled")).unwrap();
    std::fs::remove_dir_all(folder.path().join("trained")).unwrap();
    std::fs::remove_file(folder.path().join(RECORDS)).unwrap();
    let mut again = Silent::default();
    assert_eq!(optimize(&recipe, &options(folder.path()), &mut again).unwrap(), found);
    assert_eq!(again.searches.len(), 1);
}

#[test]
fn a_search_begins_with_the_network_itself() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe("method = \"snl\"\nbudget = \"25%\"");
    recipe.network = recipes::recipe::NetworkSection::named("resnet10:m=8");
    let refused = |recipe: &Recipe| {
        optimize(recipe, &options(folder.path()), &mut Silent::default()).unwrap_err().to_string()
    };
    let error = refused(&recipe);
    assert!(error.contains("holds resnet10:m=4; give a run of resnet10:m=8 with --start"), "{error}");
    let Some(OptimizeSection::Snl(section)) = &mut recipe.optimize else { unreachable!() };
    section.start = Some(teacher().0.clone());
    assert!(refused(&recipe).ends_with("give a run of resnet10:m=8 instead"), "{}", refused(&recipe));
}

#[test]
fn an_interrupted_search_goes_on_to_the_same_mask() {
    let search = |folder: &Path, extra: &str| {
        let mut recipe = recipe(&format!(
            "method = \"snl\"\nbudget = \"60%\"\nlearning_rate = 2e-2\nbatch = 50\ncheckpoint_every = 1\n\
             penalty = {{ kind = \"paced\", first = 8e-3, raise = 2.0, hold_epochs = 1, epochs = 4 }}\n{extra}"
        ));
        recipe.training.epochs = 1;
        recipe.training.schedule.warm_up_epochs = 0.0;
        optimize(&recipe, &options(folder), &mut Silent::default())
    };
    let mask = |folder: &Path| std::fs::read(folder.join("settled/mask.sordino-mask")).unwrap();
    let whole = tempfile::tempdir().unwrap();
    search(whole.path(), "").unwrap();
    let cut = tempfile::tempdir().unwrap();
    let error = search(cut.path(), "max_epochs = 1").unwrap_err().to_string();
    assert!(error.contains("raise optimize.max_epochs"), "{error}");
    search(cut.path(), "").unwrap();
    assert_eq!(mask(cut.path()), mask(whole.path()));
    let lines =
        |folder: &Path| std::fs::read_to_string(folder.join("search/search.jsonl")).unwrap().lines().count();
    assert_eq!(lines(cut.path()), lines(whole.path()));
}

#[test]
fn deepreduce_keeps_the_accuracy_at_a_quarter_by_its_own_probes() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe("method = \"deepreduce\"\nbudget = \"25%\"");
    // Shorter probes order the stages by chance.
    recipe.training.epochs = 16;
    recipe.data.synthetic.as_mut().unwrap().training = 2000;
    recipe.data.held_out = Some(500);
    let found = optimize(&recipe, &options(folder.path()), &mut Silent::default()).unwrap();
    assert_keeps_accuracy(&found.records[0]);
    let least = found.criticality.iter().find(|finding| finding.criticality == 0.0).unwrap();
    assert_eq!(found.criticality.len(), 4);
    assert!(!found.records[0].title.contains(&format!("S{}", least.stage)), "{}", found.records[0].title);
}

#[test]
fn deepreduce_keeps_the_accuracy_at_a_quarter_in_a_given_order() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe("method = \"deepreduce\"\nbudget = \"25%\"\norder = \"3,2,4,1\"");
    let found = optimize(&recipe, &options(folder.path()), &mut Silent::default()).unwrap();
    assert_eq!(found.records[0].title, "S2^RT+S3^RT+S4^RT");
    assert_keeps_accuracy(&found.records[0]);
    assert!(found.criticality.is_empty());
}

#[test]
fn probes_find_the_criticality_of_every_stage_once() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe("method = \"deepreduce\"\nprobe_epochs = 1\nonly_criticality = true");
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(folder.path()), &mut watch).unwrap();
    assert_eq!(watch.epochs, 4);
    assert_eq!(
        found.criticality.iter().map(|finding| finding.relus).collect::<Vec<_>>(),
        [2048, 1024, 512, 256]
    );
    let least =
        found.criticality.iter().min_by(|one, other| one.accuracy.total_cmp(&other.accuracy)).unwrap();
    assert_eq!(least.criticality, 0.0);
    assert!(found.records.is_empty());
    // What an interrupted call has done is not done again.
    std::fs::remove_file(folder.path().join(RECORDS)).unwrap();
    std::fs::remove_file(folder.path().join("criticality.json")).unwrap();
    std::fs::remove_dir_all(folder.path().join("probe-S3")).unwrap();
    let mut watch = Silent::default();
    assert_eq!(optimize(&recipe, &options(folder.path()), &mut watch).unwrap(), found);
    assert_eq!(watch.epochs, 1);
}

#[test]
fn deepreshape_keeps_the_accuracy_at_a_quarter() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe("method = \"deepreshape\"\nbudget = \"25%\"\nkeep_network = true");
    let found = optimize(&recipe, &options(folder.path()), &mut Silent::default()).unwrap();
    assert_keeps_accuracy(&found.records[0]);
}

/// A signet of 64 + 5 * 16 comparisons for each sign of its second stage, and what a mask leaves of them.
#[test]
fn shared_signs_take_the_network_of_the_budget_and_mask_its_signs() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(
        "method = \"shared-signs\"\nbudget = 300\nvalues_per_sign = 4\nmask_epochs = 2\nmask_learning_rate = 0.02\n\
         mask = { budget = \"50%\", max_moved = 0.2, learning_rate = 2e-2, batch = 50, penalty = { kind = \"paced\", first = 8e-3, raise = 2.0, \
         hold_epochs = 1, epochs = 4 } }",
    );
    recipe.network = recipes::recipe::NetworkSection::named("signet:stream=8+16+32,depths=1+1+1");
    recipe.training.epochs = 2;
    recipe.data.synthetic.as_mut().unwrap().training = 600;
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(folder.path()), &mut watch).unwrap();
    let [whole, masked] = &found.records[..] else { panic!("{} records", found.records.len()) };
    assert_eq!(whole.network, "signet:signs=0+2+10,stream=8+16+32,depths=1+1+1");
    assert_eq!((whole.method.as_str(), masked.method.as_str()), ("shared-signs", "snl"));
    let counts = |comparisons| network::cost::Counts { comparisons, gated_values: 3 * comparisons };
    assert_eq!((whole.counts(), whole.compared.before), (counts(288), 288));
    // A masked sign takes its three followers with it.
    assert_eq!((masked.counts(), masked.compared.before), (counts(144), 288));
    assert!(masked.title.contains("144 comparisons and 432 gated values"), "{}", masked.title);
    assert!(watch.searches.iter().all(|epoch| epoch.counts.gated_values == 3 * epoch.counts.comparisons));
    let described = ResultRecord::of_checkpoint(
        &Checkpoint::load(Path::new(&masked.checkpoint), Part::Description).unwrap(),
        Path::new(&masked.checkpoint),
    );
    assert_eq!(described.unwrap().counts(), masked.counts());

    // What an interrupted call has done is not done again.
    std::fs::remove_file(folder.path().join(RECORDS)).unwrap();
    std::fs::remove_dir_all(folder.path().join("masked/trained")).unwrap();
    let mut again = Silent::default();
    assert_eq!(optimize(&recipe, &options(folder.path()), &mut again).unwrap(), found);
    assert_eq!((again.epochs, again.searches.len()), (2, 0));
}

#[test]
fn shared_signs_train_their_teacher_where_none_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(
        "method = \"shared-signs\"\nbudget = 150\nvalues_per_sign = 2\nteacher_network = \"resnet10:m=2\"",
    );
    recipe.network = recipes::recipe::NetworkSection::named("signet:stream=4+8+8,depths=1+1+1");
    recipe.teacher = None;
    recipe.training.epochs = 1;
    recipe.training.schedule.warm_up_epochs = 0.0;
    recipe.data.synthetic.as_mut().unwrap().training = 100;
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(folder.path()), &mut watch).unwrap();
    assert_eq!(
        watch.parts,
        [
            "teacher: resnet10:m=2",
            "signet:signs=0+1+5,values=2,stream=4+8+8,depths=1+1+1: 144 comparisons and 144 gated values"
        ]
    );
    assert_eq!(found.records[0].recipe.teacher.as_ref().unwrap().checkpoint, folder.path().join("teacher"));
    let Some(OptimizeSection::SharedSigns(section)) = &mut recipe.optimize else { unreachable!() };
    section.budget = "100".parse().unwrap();
    let error = optimize(&recipe, &options(&folder.path().join("none")), &mut watch).unwrap_err().to_string();
    assert!(error.contains("the nearest that can are 144 or 288"), "{error}");
}

#[test]
fn groups_are_chosen_by_the_signs_that_agree() {
    let folder = tempfile::tempdir().unwrap();
    let mut recipe = recipe(
        "method = \"shared-signs\"\nbudget = 288\nvalues_per_sign = 2\ngrouping = \"agreement\"\ngrouping_epochs = 2",
    );
    recipe.network = recipes::recipe::NetworkSection::named("signet:stream=8+16+32,depths=1+1+1");
    recipe.training.epochs = 2;
    recipe.data.synthetic.as_mut().unwrap().training = 400;
    let mut watch = Silent::default();
    let found = optimize(&recipe, &options(folder.path()), &mut watch).unwrap();
    let record = &found.records[0];
    assert!(record.network.ends_with("(grouped by agreement)"), "{}", record.network);
    assert_eq!(record.counts(), network::cost::Counts { comparisons: 288, gated_values: 288 });
    let spec = NetworkSpec::from_file(&folder.path().join("grouped.toml")).unwrap();
    for (signs, channels) in network::transform::shared_signs(&spec) {
        let groups = signs.grouping.groups(channels);
        assert!(groups.iter().all(|group| group.len() == 2));
        let neighbors = network::spec::Grouping::Contiguous { values_per_sign: 2 }.groups(channels);
        assert_ne!(groups, neighbors);
    }
    // What was chosen stays when an interrupted call goes on.
    std::fs::remove_file(folder.path().join(RECORDS)).unwrap();
    std::fs::remove_dir_all(folder.path().join("trained")).unwrap();
    let mut again = Silent::default();
    assert_eq!(optimize(&recipe, &options(folder.path()), &mut again).unwrap(), found);
    assert_eq!(again.epochs, 2);
}
