//! Rows become recipes: one of those in `recipes/`, with the row's network, data, teacher and budget.

use std::path::PathBuf;

use network::cost::Cost;
use network::shape::Shape;
use network::spec::NetworkSpec;
use recipes::data::DataKind;
use recipes::method::l1_pruning::L1PruningSection;
use recipes::method::sphynx::{CellsSource, LocationSource, SphynxSection};
use recipes::method::{DeepReduceSection, OptimizeSection, ReluBudget, SnlSection, teacher_name};
use recipes::method::{Granularity, PenaltySchedule};
use recipes::recipe::{Distillation, NetworkSection, Recipe, TeacherSection};

use super::entry::Teacher;
use super::price::{cost, price, training_minutes};
use super::{Entry, ReproduceError, Row, RowTraining, Way, measured};

/// What trains the teacher of a search whose own recipe only fine-tunes.
const PLAIN: &str = "deepreshape-hybrenet-cifar100";
/// Where teachers are kept, for all tables: those of one recipe have one folder.
const TEACHERS: &str = "runs";
/// What SNL begins with.
const SNL_BASELINE: &str = "snl-baseline-cifar100";

impl Entry {
    /// All trainings.
    ///
    /// # Errors
    /// When a row is no network or no recipe.
    pub fn runs(&self) -> Result<Vec<RowTraining<'_>>, ReproduceError> {
        let pairs = self.rows.iter().flat_map(|row| self.ways.iter().enumerate().map(move |way| (row, way)));
        pairs.map(|(row, (index, way))| self.run(row, index, *way)).collect()
    }

    fn run<'a>(&self, row: &'a Row, index: usize, way: Way) -> Result<RowTraining<'a>, ReproduceError> {
        let data = row.data.unwrap_or(self.data);
        let mut recipe = self.recipe(row, way)?;
        let spec = build(&recipe.network, data)?;
        let teacher = way.has_teacher().then(|| self.teacher(&recipe, data)).transpose()?;
        recipe.teacher = teacher.as_ref().map(|(folder, _)| TeacherSection::new(folder));
        let teacher_macs = match &teacher {
            Some((_, teacher)) => Some(Cost::of(&build(&teacher.network, data)?).macs),
            None => None,
        };
        let (networks, minutes) = price(&recipe, &spec, teacher_macs)?;
        let teacher_minutes = match (&teacher, teacher_macs) {
            (Some((_, teacher)), Some(macs)) => {
                training_minutes(teacher, macs, None, teacher.training.epochs)
            }
            _ => 0.0,
        };
        let cost = cost(&recipe, &spec)?;
        let ours = measured()
            .iter()
            .find(|ours| (&ours.entry, &ours.row, ours.way) == (&self.id, &row.row, way))
            .cloned();
        Ok(RowTraining {
            relus: row.budget.unwrap_or(cost.relus),
            macs: cost.macs,
            networks,
            minutes,
            teacher_minutes,
            printed_accuracy: row.accuracy.get(index).copied().filter(|accuracy| !accuracy.is_nan()),
            ours,
            row,
            way,
            recipe,
            teacher,
        })
    }

    /// The recipe of a row, without its teacher.
    fn recipe(&self, row: &Row, way: Way) -> Result<Recipe, ReproduceError> {
        let name = row.recipe.as_ref().unwrap_or(&self.recipe);
        let mut recipe = ours(name)?;
        recipe.title = format!("{}: {}, {}", self.id, row.row, way.title());
        recipe.data.set = row.data.unwrap_or(self.data);
        recipe.network = row.network.clone();
        self.set_length(&mut recipe, way);
        recipe.training.loss.distillation = distillation(way, recipe.training.loss.distillation);
        recipe.optimize = match way {
            Way::Pipeline => Some(OptimizeSection::DeepReduce(DeepReduceSection {
                order: row.order.clone(),
                single_blocks: true,
                ..DeepReduceSection::default()
            })),
            Way::Snl | Way::SnlChannels | Way::SnlPatient => Some(search(row, way, recipe.optimize.take())?),
            Way::L1Pruning => Some(pruning(row, recipe.optimize.take())?),
            Way::SphynxCells | Way::SphynxGrid => Some(sphynx(row, way, recipe.optimize.take())?),
            Way::None | Way::Kd | Way::Dkd => None,
        };
        recipe.teacher = None;
        Ok(recipe)
    }

    /// Epochs and schedule. Those for the warm-up of decoupled distillation belong to it alone.
    fn set_length(&self, recipe: &mut Recipe, way: Way) {
        let training = &mut recipe.training;
        if let (Some(Distillation::Dkd { warm_up_epochs, .. }), true) =
            (training.loss.distillation, way != Way::Dkd)
        {
            training.epochs -= warm_up_epochs as u32;
        }
        if let Some(kind) = self.schedule {
            training.schedule.kind = kind;
            training.schedule.milestones.clear();
        }
        training.epochs = self.epochs.unwrap_or(training.epochs);
        training.evaluate_every = training.epochs;
    }

    /// How the teacher of a recipe is trained, and where it is expected.
    fn teacher(&self, recipe: &Recipe, data: DataKind) -> Result<(PathBuf, Recipe), ReproduceError> {
        let mut teacher = match self.teacher {
            Teacher::Snl => ours(SNL_BASELINE)?,
            _ => {
                let plain =
                    Recipe { optimize: None, teacher: None, mask: None, start: None, ..recipe.clone() };
                match &recipe.optimize {
                    // What fine-tunes a network is too slow to train one.
                    Some(OptimizeSection::Snl(_) | OptimizeSection::L1Pruning(_)) => ours(PLAIN)?,
                    _ => plain,
                }
            }
        };
        if let Some(Distillation::Dkd { warm_up_epochs, .. }) = teacher.training.loss.distillation {
            teacher.training.epochs -= warm_up_epochs as u32;
        }
        if self.teacher == Teacher::Snl && data == DataKind::TinyImageNet {
            // SNL section 4: 100 epochs on Tiny ImageNet, decays at 50 and 75.
            teacher.training.epochs = 100;
            teacher.training.schedule.milestones = vec![50, 75];
        }
        teacher.training.evaluate_every = teacher.training.epochs;
        teacher.training.loss.distillation = None;
        teacher.teacher = None;
        teacher.data = recipe.data.clone();
        let mut network = match self.teacher {
            Teacher::ResNet18 => NetworkSection::named("resnet18"),
            Teacher::Same | Teacher::Snl => NetworkSection::named(&recipe.network.name),
            Teacher::Sphynx => NetworkSection::named(&format!("{},modules=relu", recipe.network.name)),
        };
        // A search begins with the weights of its own network, thinned where that is.
        if matches!(recipe.optimize, Some(OptimizeSection::Snl(_))) {
            network = recipe.network.clone();
        }
        teacher.network = network;
        teacher.title = format!("the teacher {} on {}", teacher.network.name, data.name());
        Ok((PathBuf::from(TEACHERS).join(teacher_name(&teacher)), teacher))
    }
}

fn ours(name: &str) -> Result<Recipe, ReproduceError> {
    let text = recipes::ours::text(name).ok_or_else(|| ReproduceError::NoRecipe { name: name.to_owned() })?;
    Ok(Recipe::from_toml(text)?)
}

/// The distillation of a way; the recipe's own where it is of that kind.
fn distillation(way: Way, own: Option<Distillation>) -> Option<Distillation> {
    match (way, own) {
        (Way::None | Way::L1Pruning | Way::SphynxCells | Way::SphynxGrid, _) => None,
        (Way::Dkd, _)
        | (Way::Snl | Way::SnlChannels | Way::SnlPatient, _)
        | (_, Some(Distillation::Kd { .. } | Distillation::LogitMse { .. })) => own,
        _ => Some(Distillation::soft(4.0, 0.9)),
    }
}

/// SNL's search for a row, by the recipe's own.
fn search(row: &Row, way: Way, own: Option<OptimizeSection>) -> Result<OptimizeSection, ReproduceError> {
    let budget = row.budget.ok_or_else(|| ReproduceError::NoBudget { row: row.row.clone() })?;
    let mut section = match own {
        Some(OptimizeSection::Snl(section)) => section,
        _ => SnlSection::new(ReluBudget::Count(budget)),
    };
    section.budget = ReluBudget::Count(budget);
    if way == Way::SnlChannels {
        section.granularity = Granularity::Channel;
    }
    if way == Way::SnlPatient {
        section.penalty = PenaltySchedule::default();
    }
    if let (Some(rate), PenaltySchedule::Patient { first, .. } | PenaltySchedule::Paced { first, .. }) =
        (row.search.first, &mut section.penalty)
    {
        *first = rate;
    }
    section.learning_rate = row.search.learning_rate.unwrap_or(section.learning_rate);
    Ok(OptimizeSection::Snl(section))
}

/// Pruning for a row, by the recipe's own.
fn pruning(row: &Row, own: Option<OptimizeSection>) -> Result<OptimizeSection, ReproduceError> {
    let budget = row.budget.ok_or_else(|| ReproduceError::NoBudget { row: row.row.clone() })?;
    let section = match own {
        Some(OptimizeSection::L1Pruning(section)) => section,
        _ => L1PruningSection::new(ReluBudget::Count(budget)),
    };
    let (budget, stream) = (ReluBudget::Count(budget), row.search.stream);
    Ok(OptimizeSection::L1Pruning(L1PruningSection { budget, stream, distill: false, ..section }))
}

/// Sphynx's search for a row, by the recipe's own.
fn sphynx(row: &Row, way: Way, own: Option<OptimizeSection>) -> Result<OptimizeSection, ReproduceError> {
    let budget = row.budget.ok_or_else(|| ReproduceError::NoBudget { row: row.row.clone() })?;
    let mut section = match own {
        Some(OptimizeSection::Sphynx(section)) => *section,
        _ => SphynxSection::new(ReluBudget::Count(budget)),
    };
    section.budget = ReluBudget::Count(budget);
    section.further.clear();
    section.cell_search.nodes = row.search.nodes.unwrap_or(section.cell_search.nodes);
    (section.cells, section.locations) = match way {
        Way::SphynxGrid => (CellsSource::Published, LocationSource::Search),
        _ => (CellsSource::Search, LocationSource::Published),
    };
    if way == Way::SphynxGrid {
        section.location_search.grid_epochs = Some(GRID_EPOCHS);
    }
    Ok(OptimizeSection::Sphynx(Box::new(section)))
}

/// Epochs for which a candidate of a grid is trained; the paper takes 600.
const GRID_EPOCHS: u32 = 100;

fn build(section: &NetworkSection, data: DataKind) -> Result<NetworkSpec, ReproduceError> {
    let (side, classes) = data.dimensions().unwrap_or((32, 100));
    Ok(section.build(Shape::image(side), classes)?)
}
