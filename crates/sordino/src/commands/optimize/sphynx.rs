//! What is Sphynx's own: flags that change its section, a first try, and what a plan says.

use std::io::Write;

use network::cost::Counts;
use network::zoo::genotype::Genotype;
use recipes::method::ReluBudget;
use recipes::method::sphynx::{
    CellSearch, LocationSearch, SphynxPlan, SphynxSection, Strategy, WeightUpdates,
};
use recipes::recipe::{DataSection, Recipe, TrainOn};

use super::SphynxArguments;
use crate::report::{Table, grouped, short};

/// The rate of a first try's last training.
pub(super) const TRIAL_RATE: f64 = 0.05;
/// Epochs of that training.
pub(super) const TRIAL_EPOCHS: u32 = 6;
/// Epochs of each search, and images of a step.
const SEARCH_EPOCHS: u32 = 3;
const TRIAL_BATCH: usize = 50;
/// Scores move faster where there are few steps.
const TRIAL_SCORE_RATE: f64 = 0.02;

/// Searches for a first try: small and short.
pub(super) fn shorten(section: &mut SphynxSection) {
    section.further.clear();
    let weights = WeightUpdates { learning_rate: TRIAL_RATE, ..WeightUpdates::default() };
    section.cell_search = CellSearch {
        channels: 2,
        depth: 3,
        epochs: SEARCH_EPOCHS,
        batch: Some(TRIAL_BATCH),
        weights: Some(weights),
        score_rate: Some(TRIAL_SCORE_RATE),
        checkpoint_every: 1,
        ..section.cell_search.clone()
    };
    section.location_search = LocationSearch {
        epochs: SEARCH_EPOCHS,
        batch: TRIAL_BATCH,
        weights,
        score_rate: TRIAL_SCORE_RATE,
        temperature: 10.0,
        checkpoint_every: 1,
        ..section.location_search.clone()
    };
}

/// What the flags say.
pub(super) fn set(section: &mut SphynxSection, arguments: &SphynxArguments, budget: Option<ReluBudget>) {
    if let Some(budget) = budget.filter(|budget| *budget != section.budget) {
        // Sizes that the recipe gives are for its own budget.
        (section.budget, section.channels, section.depth) = (budget, None, None);
    }
    if let Some(cells) = &arguments.cells {
        section.cells = cells.clone();
    }
    section.locations = arguments.locations.unwrap_or(section.locations);
    let cells = &mut section.cell_search;
    if let Some(strategy) = arguments.strategy {
        cells.strategy = strategy;
    }
    cells.nodes = arguments.nodes.unwrap_or(cells.nodes);
    cells.epochs = arguments.cell_epochs.unwrap_or(cells.epochs);
    let locations = &mut section.location_search;
    locations.epochs = arguments.location_epochs.unwrap_or(locations.epochs);
    locations.grid_epochs = arguments.grid_epochs.or(locations.grid_epochs);
    section.only_search |= arguments.only_search;
    if arguments.alone {
        section.further.clear();
    }
}

/// The parts of an optimization with so many training images: what each does, its networks, steps and multiply-adds.
pub(super) fn write_plans(
    recipe: &Recipe,
    plans: &[SphynxPlan],
    images: usize,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let Some(recipes::method::OptimizeSection::Sphynx(section)) = &recipe.optimize else { return Ok(()) };
    let parts = parts(recipe, section, plans, images)?;
    let shares_signs = parts.iter().filter_map(|part| part.counts).any(Counts::shares_signs);
    let mut columns = vec!["<part", "networks", if shares_signs { "comparisons" } else { "ReLUs" }];
    columns.extend(shares_signs.then_some("gated values"));
    columns.extend(["epochs", "steps", "multiply-adds"]);
    let mut table = Table::new(&columns);
    for Part { name, networks, counts, epochs, steps, multiply_adds } in parts {
        let count = |of: fn(Counts) -> u64| counts.map_or_else(String::new, |counts| grouped(of(counts)));
        let mut cells = vec![name, networks.to_string(), count(|counts| counts.comparisons)];
        cells.extend(shares_signs.then(|| count(|counts| counts.gated_values)));
        cells.extend([epochs.to_string(), grouped(steps), multiply_adds]);
        table.row(cells);
    }
    table.write(out)?;
    Ok(())
}

/// One part of an optimization.
struct Part {
    name: String,
    networks: usize,
    /// Of a network that is trained.
    counts: Option<Counts>,
    epochs: u32,
    steps: u64,
    /// Of one image, where it is known.
    multiply_adds: String,
}

impl Part {
    /// One that says neither what its networks compare nor what they multiply.
    fn new(name: String, networks: usize, epochs: u32, steps: u64) -> Self {
        Self { name, networks, counts: None, epochs, steps, multiply_adds: String::new() }
    }
}

fn parts(
    recipe: &Recipe,
    section: &SphynxSection,
    plans: &[SphynxPlan],
    images: usize,
) -> anyhow::Result<Vec<Part>> {
    let mut parts = Vec::new();
    let alone = DataSection { train_on: TrainOn::Split, ..recipe.data.clone() };
    let images_alone = images - alone.held_out_of(images);
    let images = images - recipe.data.held_out_of(images);
    let steps = |epochs: u32, images: usize, batch: usize| u64::from(epochs) * (images / batch.max(1)) as u64;
    if section.searches_cells() {
        let search = &section.cell_search;
        let word = match search.strategy {
            Strategy::Darts => "darts",
            Strategy::DartsSecond => "darts of second order",
            Strategy::PcDarts => "pc-darts",
        };
        let name = format!("search of cells, {word}, {} nodes", search.nodes);
        parts.push(Part::new(name, 1, search.epochs, steps(search.epochs, images / 2, search.batch())));
    }
    let trains_teacher = recipe.training.loss.distillation.is_some() && recipe.teacher.is_none();
    let (epochs, batch) = (recipe.training.epochs, recipe.training.batch);
    for (index, plan) in plans.iter().enumerate() {
        let cells = plan.known_cells()?.unwrap_or_else(Genotype::sphynx);
        let known = plan.known_locations()?;
        // Cells and places that a search will find cost about what the published ones do.
        let network = plan.network(&cells, known.unwrap_or([0, 1]))?;
        let counts = Some(network.cost.counts());
        if known.is_none() {
            let (search, candidates) = (&section.location_search, plan.candidates(section).len());
            let name = format!("search of locations for {} cells", plan.depth);
            let searching = steps(search.epochs, images / 2, search.batch);
            parts.push(Part::new(name, candidates, search.epochs, searching));
            if let Some(epochs) = search.grid_epochs {
                let steps = steps(epochs, images_alone, batch) * candidates as u64;
                let name = "every candidate alone".to_owned();
                parts.push(Part { counts, ..Part::new(name, candidates, epochs, steps) });
            }
        }
        if section.only_search {
            continue;
        }
        let sign = if known.is_none() || plan.known_cells()?.is_none() { "about " } else { "" };
        let multiply_adds = format!("{sign}{}", short(network.cost.macs));
        let training = |name: String, counts: Option<Counts>| Part {
            counts,
            multiply_adds: multiply_adds.clone(),
            ..Part::new(name, 1, epochs, steps(epochs, images, batch))
        };
        if trains_teacher && index == 0 {
            parts.push(training("the teacher: a ReLU before every convolution".to_owned(), None));
        }
        parts.push(training(format!("training c={} d={}", plan.channels, plan.depth), counts));
    }
    Ok(parts)
}
