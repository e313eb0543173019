//! The papers' tables and figures that train, each as recipes: what the paper prints, what we measured, what it would cost.
//!
//! ```text
//! deepreduce.toml  snl.toml  deepreshape.toml  sphynx.toml   what is printed where, and the network that it is printed for
//! rivals.toml                                   what is printed for methods beside the four papers'
//! measured.toml                                 what we measured, with command, recipe, seed and date
//! entry      a table or figure, row by row
//! resolve    rows become recipes, by way of those in `recipes/`
//! price      what a recipe costs: networks to train, multiply-adds, minutes
//! predict    minutes of one training, from multiply-adds, epochs and measured step times
//! ```
//!
//! Nothing here needs tensors: the list is made and checked by any build.

mod entry;
mod predict;
mod price;
mod resolve;
mod rivals;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use recipes::data::DataKind;

pub use price::predicted_minutes;

pub use entry::{Entry, Printed, ReproduceError, Row, RowTraining, SearchChanges, Teacher, Way};
pub use rivals::Instead;

/// One paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its method's name.
    pub paper: String,
    /// Where it can be read.
    pub link: String,
    /// What its latencies contain.
    pub latency: String,
    /// Its tables and figures that train.
    #[serde(rename = "entry")]
    pub entries: Vec<Entry>,
}

/// What we measured of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Of which table or figure.
    pub entry: String,
    /// Which row.
    pub row: String,
    /// Trained in which way.
    pub way: Way,
    /// Its ReLUs, where they are not those of the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relus: Option<u64>,
    /// In percent, on the test images, last epoch.
    pub accuracy: f64,
    /// The same of the frozen model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer_accuracy: Option<f64>,
    /// What was another than the row asks for and the recipe's name does not say, such as loss, epochs or teacher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// With which recipe.
    pub recipe: String,
    /// By which command.
    pub command: String,
    /// Drawn from what.
    pub seed: u64,
    /// When.
    pub date: String,
    /// On what.
    pub machine: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredFile {
    measured: Vec<Measured>,
}

/// A point that a paper prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PublishedPoint {
    /// Of which paper or method.
    pub paper: String,
    /// In which table.
    pub place: String,
    /// Which row.
    pub row: String,
    /// Trained how, where it can be trained here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
    /// What takes the place of a dropped ReLU.
    pub instead: Instead,
    /// ReLUs, as printed.
    pub printed_relus: String,
    /// The same as a number.
    pub relus: u64,
    /// In percent, as printed.
    pub accuracy: f64,
    /// Seconds, as printed.
    pub latency: Option<f64>,
    /// Of that, homomorphic encryption and garbled circuits, where they are printed apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub he_gc: Option<[f64; 2]>,
}

impl PublishedPoint {
    /// How it was trained, or what it pays beside its ReLUs.
    pub(crate) fn training(&self) -> &'static str {
        match (self.way, self.instead) {
            (Some(way), _) => way.title(),
            (None, Instead::Identity) => "the authors'",
            (None, Instead::Nothing) => "the authors'; channels go with their ReLUs",
            (None, Instead::Polynomial) => "the authors'; polynomials for dropped ReLUs, not counted",
        }
    }
}

/// The papers.
pub fn papers() -> &'static [Paper] {
    static PAPERS: OnceLock<Vec<Paper>> = OnceLock::new();
    PAPERS.get_or_init(|| {
        let texts = [
            include_str!("reproduce/deepreduce.toml"),
            include_str!("reproduce/snl.toml"),
            include_str!("reproduce/deepreshape.toml"),
            include_str!("reproduce/sphynx.toml"),
        ];
        texts.map(|text| toml::from_str(text).expect("the tables that come with the product are good")).into()
    })
}

/// What we measured.
pub fn measured() -> &'static [Measured] {
    static MEASURED: OnceLock<Vec<Measured>> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let file: MeasuredFile =
            toml::from_str(include_str!("reproduce/measured.toml")).expect("our figures are good TOML");
        file.measured
    })
}

/// All tables and figures, with their papers.
pub fn entries() -> impl Iterator<Item = (&'static Paper, &'static Entry)> {
    papers().iter().flat_map(|paper| paper.entries.iter().map(move |entry| (paper, entry)))
}

/// A table or figure by its name.
///
/// # Errors
/// When there is none, with the nearest.
pub fn find(id: &str) -> Result<(&'static Paper, &'static Entry), ReproduceError> {
    entries().find(|(_, entry)| entry.id == id).ok_or_else(|| {
        let nearest = entries()
            .max_by(|a, b| strsim::jaro_winkler(&a.1.id, id).total_cmp(&strsim::jaro_winkler(&b.1.id, id)));
        ReproduceError::Unknown {
            id: id.to_owned(),
            nearest: nearest.map_or_else(String::new, |(_, entry)| entry.id.clone()),
        }
    })
}

/// Tables whose rows are fronts: networks made for few ReLUs, each with its count. Where tables of a paper print the same
/// network with the same accuracy, the first named here has the point.
const FRONTS: [&str; 17] = [
    "deepreduce-table-4",
    "deepreduce-table-5",
    "deepreduce-table-2",
    "deepreduce-table-7",
    "deepreduce-table-8-cifar10",
    "snl-table-2",
    "snl-table-3",
    "snl-table-4",
    "snl-table-5",
    "snl-table-6",
    "deepreshape-table-4",
    "deepreshape-table-5",
    "deepreshape-table-11",
    "deepreshape-table-12",
    "sphynx-table-3",
    "sphynx-table-4",
    "sphynx-table-15",
];

/// The points of the papers' fronts on a data set, of a row with several trainings the best; then those of other methods.
pub fn published(data: DataKind) -> Vec<PublishedPoint> {
    let mut points: Vec<PublishedPoint> = Vec::new();
    let mut known = Vec::new();
    for (paper, entry) in FRONTS.iter().filter_map(|id| find(id).ok()) {
        let rows = entry.rows.iter().filter(|row| !row.baseline);
        for row in rows.filter(|row| row.data.unwrap_or(entry.data) == data) {
            let best = entry.ways.iter().zip(&row.accuracy).max_by(|a, b| a.1.total_cmp(b.1));
            let (Some(printed), Some((way, accuracy))) = (&row.relus, best) else { continue };
            let same = (&paper.paper, &row.network, row.budget, accuracy);
            if known.contains(&same) {
                continue;
            }
            known.push(same);
            points.push(PublishedPoint {
                paper: paper.paper.clone(),
                place: entry.place.clone(),
                row: row.row.clone(),
                way: Some(*way),
                instead: Instead::Identity,
                printed_relus: printed.text().to_owned(),
                relus: printed.value(),
                accuracy: *accuracy,
                latency: row.latency,
                he_gc: row.he_gc,
            });
        }
    }
    points.extend(rivals(data));
    points
}

/// The points of methods beside the four papers' on a data set.
pub fn rivals(data: DataKind) -> impl Iterator<Item = PublishedPoint> {
    rivals::points(data)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    use recipes::recipe::Recipe;

    use super::*;
    use crate::Compared;

    #[test]
    fn every_row_resolves_and_has_the_relus_that_the_paper_prints() {
        let mut count = 0;
        for (_, entry) in entries() {
            for run in entry.runs().unwrap_or_else(|error| panic!("{}: {error}", entry.id)) {
                let what = format!("{}: {} ({:?})", entry.id, run.row.row, run.way);
                assert!(run.minutes > 0.0 && run.minutes.is_finite(), "{what}: {} minutes", run.minutes);
                // What is written down can be read again and is the same.
                assert_eq!(Recipe::from_toml(&run.recipe.to_toml()).unwrap(), run.recipe, "{what}");
                use recipes::method::OptimizeSection::{L1Pruning, Snl};
                if let (Some(Snl(_) | L1Pruning(_)), Some((_, teacher))) =
                    (&run.recipe.optimize, &run.teacher)
                {
                    // It begins with the teacher's weights.
                    assert_eq!(teacher.network.name, run.recipe.network.name, "{what}");
                }
                if let (Some(Snl(_)), Some((_, teacher))) = (&run.recipe.optimize, &run.teacher) {
                    // Which was trained as it is, thinned where it is thinned.
                    assert_eq!(teacher.network, run.recipe.network, "{what}");
                }
                let Some(printed) = &run.row.relus else { continue };
                match run.row.slip {
                    None => assert!(printed.fits(run.relus), "{what}: {} for {}", run.relus, printed.text()),
                    Some(ours) => {
                        assert_eq!(run.relus, ours, "{what}");
                        assert!(!printed.fits(ours), "{what}: {} is no slip", printed.text());
                    }
                }
                count += 1;
            }
        }
        assert!(count > 400, "{count} printed counts");
    }

    #[test]
    fn a_folder_of_a_teacher_belongs_to_one_recipe() {
        let mut folders: BTreeMap<PathBuf, Recipe> = BTreeMap::new();
        for (_, entry) in entries() {
            for run in entry.runs().unwrap() {
                let Some((folder, teacher)) = run.teacher else { continue };
                assert_eq!(run.recipe.teacher.unwrap().checkpoint, folder, "{}", entry.id);
                let known = folders.entry(folder).or_insert_with(|| teacher.clone());
                assert_eq!(*known, teacher, "{}: {}", entry.id, run.row.row);
            }
        }
        // ResNet-18 learns CIFAR-100 once for DeepReDuce and once, by another schedule, for DeepReShape.
        let taught_by = |id: &str| find(id).unwrap().1.runs().unwrap().remove(0).teacher.unwrap();
        let (deepreduce, deepreshape) = (taught_by("deepreduce-table-4"), taught_by("deepreshape-table-5"));
        assert_eq!(deepreduce.1.network, deepreshape.1.network);
        assert_ne!(deepreduce.1.training, deepreshape.1.training);
        assert_ne!(deepreduce.0, deepreshape.0);
    }

    #[test]
    fn all_that_was_asked_for_is_there() {
        let has = |id: &str| find(id).unwrap_or_else(|error| panic!("{error}"));
        for table in [1, 2, 3, 4, 5, 7, 9] {
            has(&format!("deepreduce-table-{table}"));
        }
        for figure in [5, 6] {
            has(&format!("deepreduce-figure-{figure}"));
            has(&format!("deepreshape-figure-{figure}"));
        }
        for name in ["figure-10", "figure-3-deepreduce", "figure-3-snl", "figure-20-snl", "figure-20-tiny"] {
            has(&format!("deepreshape-{name}"));
        }
        for name in ["table-2", "table-3", "table-5", "table-6", "figure-3-pruning", "figure-4", "figure-5"] {
            has(&format!("snl-{name}"));
        }
        for table in [2, 3, 4, 5, 8, 9, 10, 11, 12, 14, 16] {
            has(&format!("deepreshape-table-{table}"));
        }
        for table in [2, 3, 4, 9, 10, 12, 13, 14, 15, 16] {
            has(&format!("sphynx-table-{table}"));
        }
        for figure in [4, 5, 8] {
            has(&format!("sphynx-figure-{figure}"));
        }
        let text = find("snl-tabel-2").unwrap_err().to_string();
        assert!(text.contains("snl-table-2") && text.contains("--list"), "{text}");
    }

    #[test]
    fn deepreshape_trains_deepreduces_networks_by_its_own_appendix() {
        let pipelines = entries()
            .filter(|(paper, entry)| paper.paper == "DeepReShape" && entry.ways.contains(&Way::Pipeline));
        let mut count = 0;
        for run in pipelines.flat_map(|(_, entry)| entry.runs().unwrap()) {
            let (_, teacher) = run.teacher.unwrap();
            for training in [&run.recipe.training, &teacher.training] {
                assert_eq!(
                    (training.epochs, training.schedule.kind),
                    (200, recipes::recipe::ScheduleKind::Cosine)
                );
            }
            count += 1;
        }
        assert!(count > 10, "{count}");
    }

    #[test]
    fn names_are_unique_and_accuracies_belong_to_ways() {
        let mut ids = BTreeSet::new();
        for (_, entry) in entries() {
            assert!(ids.insert(&entry.id), "{} twice", entry.id);
            let mut rows = BTreeSet::new();
            for row in &entry.rows {
                assert!(rows.insert((&row.row, row.data.is_some())), "{}: {} twice", entry.id, row.row);
                assert!(row.accuracy.len() <= entry.ways.len(), "{}: {}", entry.id, row.row);
            }
        }
    }

    #[test]
    fn what_we_measured_has_a_record_made_by_its_recipe() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let percent = |value: f64| (100.0 * value).round();
        for ours in measured() {
            let recipe = Recipe::from_file(&root.join(&ours.recipe)).unwrap();
            let name = Path::new(&ours.recipe).strip_prefix("recipes").unwrap().with_extension("");
            // Recipes in a folder have their records in a folder, too.
            let beside = if name.components().count() > 1 { "records" } else { "results" };
            let found = crate::collect(&root.join(beside).join(&name)).unwrap();
            let [run] = &found[..] else { panic!("{name:?}: {} records", found.len()) };
            let record = &run.record;
            assert_eq!(percent(record.float_accuracy), percent(ours.accuracy), "{name:?}");
            assert_eq!(record.measured_on, "test", "{name:?}");
            if let Some(integers) = ours.integer_accuracy {
                assert_eq!(record.integer_accuracy.map(percent), Some(percent(integers)), "{name:?}");
            }
            assert_eq!((record.seed, &record.recipe.training), (recipe.seed, &recipe.training), "{name:?}");
            assert_eq!(record.recipe.teacher, recipe.teacher, "{name:?}");
            let expected = Compared::new(record.counts(), record.compared.before, record.float_accuracy);
            let difference = record.compared.accuracy_per_thousand - expected.accuracy_per_thousand;
            assert!(difference.abs() < 1e-3, "{name:?}");
            let detail =
                crate::pareto::Detail::of_recipe(&record.recipe, run.mask.as_deref()).unwrap().unwrap();
            assert_eq!(detail.relus(), record.comparisons(), "{name:?}");
            assert_eq!(detail.masks.is_empty(), record.method != "snl", "{name:?}");
        }
    }

    /// Loss, epochs, cutout and teacher that are not the row's.
    fn must_be_named(measured: &Measured, recipe: &Recipe, run: &RowTraining<'_>) {
        let differs = measured.differs.as_deref().unwrap_or("");
        let (ours, rows) = (&recipe.training, &run.recipe.training);
        let kind = |recipe: &Recipe| recipe.training.loss.distillation.as_ref().map(std::mem::discriminant);
        assert!(
            kind(recipe) == kind(&run.recipe) || !differs.is_empty(),
            "{} has another loss",
            measured.recipe
        );
        let cutout = |recipe: &Recipe| recipe.training.augmentation.cutout > 0;
        let named = [
            (ours.epochs != rows.epochs, format!("{} epochs", ours.epochs)),
            (cutout(recipe) && !cutout(&run.recipe), "cutout".to_owned()),
            (
                teacher_of(recipe) != run.teacher.as_ref().map(|(_, it)| network_of(it)),
                "taught by".to_owned(),
            ),
        ];
        for (is_other, name) in named {
            assert_eq!(is_other, differs.contains(&name), "{}: {name} in {differs:?}", measured.row);
        }
    }

    /// What a recipe trains: its network, or what a method makes of it.
    fn network_of(recipe: &Recipe) -> String {
        format!("{:?}{:?}", recipe.network, recipe.optimize)
    }

    /// The network of a teacher that one of our recipes names: a run has the name of its own recipe, and so has a frozen model.
    fn teacher_of(recipe: &Recipe) -> Option<String> {
        let path = &recipe.teacher.as_ref()?.checkpoint;
        let name = path.iter().skip(1).filter(|part| *part != "trained").collect::<PathBuf>();
        let file = Path::new("../../recipes").join(name).with_extension("toml");
        Some(network_of(&Recipe::from_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()))
    }

    #[test]
    fn what_we_measured_belongs_to_a_row() {
        for measured in measured() {
            let (_, entry) = find(&measured.entry).unwrap();
            let runs = entry.runs().unwrap();
            let run = runs.iter().find(|run| run.row.row == measured.row && run.way == measured.way);
            let run = run.unwrap_or_else(|| panic!("{}: no {}", measured.entry, measured.row));
            assert_eq!(run.ours.as_ref(), Some(measured));
            let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&measured.recipe);
            let recipe = Recipe::from_file(&file).unwrap();
            assert_eq!(recipe.seed, measured.seed, "{}", measured.recipe);
            assert!(measured.command.contains(&measured.recipe), "{}", measured.command);
            must_be_named(measured, &recipe, run);
            // It was measured on the same network.
            if recipe.optimize.is_none() {
                let spec = recipe.network.build(network::shape::Shape::image(32), 100).unwrap();
                assert_eq!(network::cost::Cost::of(&spec).relus, run.relus, "{}", measured.recipe);
            }
        }
    }

    #[test]
    fn parts_of_a_latency_make_it() {
        let mut count = 0;
        for data in [DataKind::Cifar100, DataKind::TinyImageNet] {
            for point in published(data) {
                let (Some([he, gc]), Some(latency)) = (point.he_gc, point.latency) else { continue };
                assert!((he + gc - latency).abs() <= 1.0, "{}: {he} + {gc} s for {latency} s", point.row);
                count += 1;
            }
        }
        assert_eq!(count, 4 + 5 + 12 + 10);
    }

    #[test]
    fn the_papers_points_are_those_of_their_tables() {
        let points = published(DataKind::Cifar100);
        let point = |paper: &str, relus: &str| {
            points.iter().find(|point| point.paper == paper && point.printed_relus == relus).unwrap()
        };
        assert_eq!(
            (point("DeepReShape", "52.2K").accuracy, point("DeepReShape", "52.2K").way),
            (77.14, Some(Way::Dkd))
        );
        assert_eq!((point("SNL", "49.9K").accuracy, point("SNL", "49.9K").latency), (73.75, Some(1.066)));
        assert_eq!(point("DeepReDuce", "28.67K").relus, 28_670);
        // Three points of DeepReDuce's own front stand in Tables 2 and 7 alone. What those share with Table 4 is there once, and
        // the small ResNets that Table 7 compares with are no points of DeepReDuce's.
        let deepreduce = points.iter().filter(|point| point.paper == "DeepReDuce");
        let mut front = crate::ParetoFront::default();
        deepreduce.clone().for_each(|point| {
            front.insert(point.relus, point.accuracy, point.printed_relus.as_str());
        });
        let on_front: Vec<_> = front.points().iter().map(|(_, _, relus)| *relus).collect();
        assert!(["49K", "98K", "147.6K"].iter().all(|relus| on_front.contains(relus)), "{on_front:?}");
        assert_eq!(deepreduce.clone().filter(|point| point.accuracy == 76.22).count(), 1);
        assert!(deepreduce.clone().all(|point| !point.row.starts_with("ResNet")));
        assert_eq!(deepreduce.count(), 10 + 6 + 4);
        assert_eq!(
            (point("Sphynx", "51.2K").accuracy, point("Sphynx", "230.0K").latency),
            (69.57, Some(5.120))
        );
        assert!(published(DataKind::Synthetic).is_empty());
        let senet: Vec<_> = points.iter().filter(|point| point.paper == "SENet").collect();
        assert!(senet.len() == 8 && senet.iter().all(|point| point.way.is_none() && point.instead.is_free()));
        assert!(!point("AutoReP", "12.9K").instead.is_free());
        // A rival is none of the papers whose rows can be trained here.
        let own = |name: &str| papers().iter().any(|paper| paper.paper == name);
        assert!(points.iter().all(|point| own(&point.paper) == point.way.is_some()));
    }
}
