//! Many recipes as one resumable job whose result is a Pareto front.
//!
//! ```toml
//! title = "SNL on ResNet-18"
//! recipes = ["snl-resnet18-50k.toml"]
//! budgets = [50000, 25000, "5%"]
//! seeds = [1, 2]
//!
//! [changes.data]
//! train_on = "split"
//!
//! [variants.as-it-is]
//! [variants.more-decay.training.optimizer]
//! weight_decay = 1e-3
//! ```
//!
//! Every recipe is run for every variant, budget and seed; what is left out leaves what the recipe says. Changes are
//! laid over all recipes, a variant over that; both hold only the lines they change. A plain recipe with an `[optimize]` section is a sweep of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{OptimizeSection, ReluBudget};
use crate::file::{FileError, read_text};
use crate::recipe::{Recipe, RecipeError};

/// The longest file of a sweep.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// More runs than this are a typing mistake.
const MAX_RUNS: usize = 10_000;

/// Many recipes as one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// What it is for.
    #[serde(default)]
    pub title: String,
    /// Recipes with an `[optimize]` section, beside the sweep's file.
    pub recipes: Vec<PathBuf>,
    /// What each is run for.
    #[serde(default)]
    pub budgets: Vec<ReluBudget>,
    /// What each is drawn from.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// What is changed in all recipes: tables that are laid over theirs.
    #[serde(default)]
    pub changes: toml::Table,
    /// What each is changed to after that, by name.
    #[serde(default)]
    pub variants: BTreeMap<String, toml::Table>,
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepRun {
    /// The folder's name, different for every run.
    pub name: String,
    /// What to run.
    pub recipe: Recipe,
}

impl Sweep {
    /// The runs of a sweep's file, or of a recipe as a sweep of one.
    ///
    /// # Errors
    /// When a file cannot be read or used, a recipe has no method, or there are no runs or too many.
    pub fn runs_of_file(path: &Path) -> Result<Vec<SweepRun>, SweepError> {
        let text = read_text(path, MAX_FILE_BYTES)
            .map_err(|error| error.advise("; expected a sweep or a recipe"))?;
        let is_sweep = toml::from_str::<toml::Table>(&text).is_ok_and(|table| table.contains_key("recipes"));
        let sweep = if is_sweep {
            let syntax =
                |error: toml::de::Error| SweepError::Syntax { path: path.into(), message: error.to_string() };
            toml::from_str(&text).map_err(syntax)?
        } else {
            let recipes = vec![path.file_name().map_or_else(|| path.into(), PathBuf::from)];
            Self {
                title: String::new(),
                recipes,
                budgets: Vec::new(),
                seeds: Vec::new(),
                changes: toml::Table::new(),
                variants: BTreeMap::new(),
            }
        };
        sweep.runs(path.parent().unwrap_or(Path::new("")))
    }

    /// The runs, with recipes beside `folder`.
    fn runs(&self, folder: &Path) -> Result<Vec<SweepRun>, SweepError> {
        let count = self.recipes.len()
            * self.variants.len().max(1)
            * self.budgets.len().max(1)
            * self.seeds.len().max(1);
        if !(1..=MAX_RUNS).contains(&count) {
            return Err(SweepError::Count { count });
        }
        let mut runs: Vec<SweepRun> = Vec::with_capacity(count);
        for file in &self.recipes {
            let path = folder.join(file);
            let recipe = Recipe::from_file(&path)?;
            if recipe.optimize.is_none() {
                return Err(SweepError::NoMethod { path });
            }
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            for (name, recipe) in self.variants_of(&stem, recipe)? {
                for budget in optional(&self.budgets) {
                    for seed in optional(&self.seeds) {
                        runs.push(run(&name, &recipe, budget, seed));
                    }
                }
            }
        }
        let mut names: Vec<_> = runs.iter().map(|run| run.name.clone()).collect();
        names.sort();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(SweepError::Twice { name: pair[0].clone() }),
            None => Ok(runs),
        }
    }

    /// The variants of a recipe with the names of their runs.
    fn variants_of(&self, stem: &str, recipe: Recipe) -> Result<Vec<(String, Recipe)>, SweepError> {
        if self.variants.is_empty() && self.changes.is_empty() {
            return Ok(vec![(stem.to_owned(), recipe)]);
        }
        let plain: toml::Table = recipe.to_toml().parse().expect("a recipe is written as TOML");
        let vary = |name: &str, changes: &toml::Table| {
            let mut table = plain.clone();
            lay_over(&mut table, &self.changes);
            lay_over(&mut table, changes);
            // Read as a recipe's file would be, so that the same rules hold.
            Recipe::from_toml(&table.to_string())
                .map_err(|error| SweepError::Variant { name: name.to_owned(), message: error.to_string() })
        };
        if self.variants.is_empty() {
            return Ok(vec![(stem.to_owned(), vary("changes", &toml::Table::new())?)]);
        }
        let vary_named =
            |(name, changes): (&String, &toml::Table)| Ok((format!("{stem}-{name}"), vary(name, changes)?));
        self.variants.iter().map(vary_named).collect()
    }
}

/// Lays one table over another: tables are merged, everything else is replaced, and so is a table of another kind.
fn lay_over(below: &mut toml::Table, above: &toml::Table) {
    let is_same_kind = |below: &toml::Table, above: &toml::Table| match (below.get("kind"), above.get("kind"))
    {
        (Some(below), Some(above)) => below == above,
        _ => true,
    };
    for (key, value) in above {
        match (below.get_mut(key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) if is_same_kind(below, above) => {
                lay_over(below, above);
            }
            _ => {
                below.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Every element, or once nothing.
fn optional<T: Copy>(list: &[T]) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.iter().copied().map(Some).collect() }
}

fn run(stem: &str, recipe: &Recipe, budget: Option<ReluBudget>, seed: Option<u64>) -> SweepRun {
    let (mut recipe, mut name) = (recipe.clone(), stem.to_owned());
    if let Some(budget) = budget {
        match &mut recipe.optimize {
            Some(OptimizeSection::Snl(section)) => section.budget = budget,
            Some(OptimizeSection::DeepReduce(section)) => section.budget = Some(budget),
            Some(OptimizeSection::DeepReshape(section)) => section.budget = budget,
            Some(OptimizeSection::Sphynx(section)) => section.budget = budget,
            None => {}
        }
        name.push_str(&format!("-{}", budget.to_string().replace('%', "-percent")));
    }
    if let Some(seed) = seed {
        recipe.seed = seed;
        name.push_str(&format!("-seed{seed}"));
    }
    SweepRun { name, recipe }
}

/// A sweep that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no sweep.
    #[error("{} is no usable sweep: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A recipe of it.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A recipe for plain training.
    #[error("{} has no [optimize] section; add one with method and budget", path.display())]
    NoMethod {
        /// The recipe.
        path: PathBuf,
    },
    /// A variant that is no recipe.
    #[error("variant {name} of the sweep is no usable recipe: {message}")]
    Variant {
        /// Its name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// None, or too many.
    #[error("the sweep has {count} runs; expected 1 to {MAX_RUNS}")]
    Count {
        /// How many.
        count: usize,
    },
    /// Two runs would share a folder.
    #[error("the sweep has {name} twice; remove one of them")]
    Twice {
        /// Its name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "[data]\nset = \"cifar100\"\n[network]\nname = \"resnet18\"\n[training]\nepochs = 3\nbatch = 8\n\
                          [optimize]\nmethod = \"snl\"\nbudget = 5000\n";

    #[test]
    fn every_recipe_is_run_for_every_budget_and_seed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.toml"), RECIPE).unwrap();
        let file = folder.path().join("sweep.toml");
        std::fs::write(&file, "recipes = [\"a.toml\"]\nbudgets = [5000, \"5%\"]\nseeds = [1, 2]\n").unwrap();
        let runs = Sweep::runs_of_file(&file).unwrap();
        let names: Vec<_> = runs.iter().map(|run| run.name.as_str()).collect();
        assert_eq!(names, ["a-5000-seed1", "a-5000-seed2", "a-5-percent-seed1", "a-5-percent-seed2"]);
        assert_eq!(runs[3].recipe.seed, 2);
        assert_eq!(
            runs[3].recipe.optimize.as_ref().unwrap().budget(),
            Some(ReluBudget::FractionOfBaseline(0.05))
        );
        let alone = Sweep::runs_of_file(&folder.path().join("a.toml")).unwrap();
        assert_eq!(alone.len(), 1);
    }

    #[test]
    fn a_variant_changes_the_lines_it_names_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.toml"), RECIPE).unwrap();
        let file = folder.path().join("sweep.toml");
        let text = "recipes = [\"a.toml\"]\n[changes.training]\nepochs = 5\n[variants.as-it-is]\n[variants.small.training]\nbatch = 4\n";
        std::fs::write(&file, text).unwrap();
        let runs = Sweep::runs_of_file(&file).unwrap();
        let found: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.recipe.training.batch)).collect();
        assert_eq!(found, [("a-as-it-is", 8), ("a-small", 4)]);
        let mut expected = Recipe::from_toml(RECIPE).unwrap();
        expected.training.epochs = 5;
        assert_eq!(runs[0].recipe, expected);
        expected.training.batch = 4;
        assert_eq!(runs[1].recipe, expected);
    }

    #[test]
    fn a_table_of_another_kind_replaces_the_old_one_whole() {
        let mut below: toml::Table = "a = { kind = \"sgd\", momentum = 0.9 }\nb = 1".parse().unwrap();
        lay_over(&mut below, &"a = { momentum = 0.5 }".parse().unwrap());
        assert_eq!(below, "a = { kind = \"sgd\", momentum = 0.5 }\nb = 1".parse().unwrap());
        lay_over(&mut below, &"a = { kind = \"adam\" }".parse().unwrap());
        assert_eq!(below, "a = { kind = \"adam\" }\nb = 1".parse().unwrap());
    }

    #[test]
    fn sweeps_that_make_no_sense_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let plain = RECIPE.split("[optimize]").next().unwrap();
        std::fs::write(folder.path().join("a.toml"), RECIPE).unwrap();
        std::fs::write(folder.path().join("plain.toml"), plain).unwrap();
        let file = folder.path().join("sweep.toml");
        let refusal = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Sweep::runs_of_file(&file).unwrap_err().to_string()
        };
        assert!(refusal("recipes = []").contains("0 runs"));
        assert!(refusal("recipes = [\"a.toml\", \"a.toml\"]").contains("twice"));
        assert!(refusal("recipes = [\"plain.toml\"]").contains("[optimize]"));
        let misspelt = refusal("recipes = [\"a.toml\"]\n[variants.one.training]\nbatches = 4");
        assert!(misspelt.contains("variant one") && misspelt.contains("batches"), "{misspelt}");
        assert!(refusal("recipes = [\"a.toml\"]\nbudget = [5]").contains("budget"));
    }
}
