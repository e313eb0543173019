//! From a budget to networks: channels and cells, reduce cells, and what a search has to find out.

use network::cost::Cost;
use network::design::sphynx_choice;
use network::shape::Shape;
use network::zoo::genotype::Genotype;
use network::zoo::{self, SPHYNX_PUBLISHED};

use super::{CellsSource, LocationSource, SphynxSection, candidates};
use crate::method::{OptimizeError, PlannedNetwork, ReluBudget};
use crate::recipe::Recipe;

/// Networks that a search of locations may hold at once: the pairs of 20 cells, twice as many as in the paper's searches.
const MOST_CANDIDATES: usize = 190;
/// The most cells whose locations are searched where the budget chooses their number; of others so many as the zoo builds.
const MOST_SEARCHED_CELLS: u64 = 20;

/// One network that a recipe asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct SphynxPlan {
    /// The family with the options that a search leaves alone.
    base: String,
    /// Initial channels.
    pub channels: usize,
    /// Cells.
    pub depth: usize,
    /// ReLUs of the result.
    pub relus: u64,
    /// Where its cells come from.
    pub cells: CellsSource,
    /// Where its reduce cells stand.
    pub locations: LocationSource,
    /// Images of this side.
    side: usize,
    classes: usize,
}

/// The networks that a recipe asks for, its own first.
///
/// # Errors
/// When no network meets a budget, cells of a file cannot be used, or the paper has no locations for a depth.
pub fn plan(
    recipe: &Recipe,
    section: &SphynxSection,
    shape: Shape,
    classes: usize,
) -> Result<Vec<SphynxPlan>, OptimizeError> {
    let base = recipe.network.name.clone();
    if base.split(':').next() != Some("sphynx") {
        return Err(OptimizeError::NoSphynx { name: base });
    }
    check_base(&base)?;
    let named = recipe.network.build(shape, classes);
    let noun = named.map_or("ReLUs", |spec| Cost::of(&spec).counts().noun());
    let own = (section.budget, section.cells.clone(), section.locations);
    let further = section.further.iter().map(|network| {
        let cells = network.cells.clone().unwrap_or_else(|| section.cells.clone());
        (network.budget, cells, network.locations.unwrap_or(section.locations))
    });
    let mut plans = Vec::new();
    for (index, (budget, cells, locations)) in std::iter::once(own).chain(further).enumerate() {
        let sizes = if index == 0 { section.channels.zip(section.depth) } else { None };
        let most_cells = if locations == LocationSource::Search { MOST_SEARCHED_CELLS } else { u64::MAX };
        let (channels, depth, relus) = size(budget, (shape.height, most_cells), sizes, noun)?;
        let plan = SphynxPlan {
            base: base.clone(),
            channels,
            depth,
            relus,
            cells,
            locations,
            side: shape.height,
            classes,
        };
        let found = plan.candidates(section).len();
        if locations == LocationSource::Search && found > MOST_CANDIDATES {
            return Err(OptimizeError::ManySphynxLocations {
                depth,
                candidates: found,
                most: MOST_CANDIDATES,
            });
        }
        // Whatever is already known is tried now, not after a search.
        let cells = plan.known_cells()?.unwrap_or_else(Genotype::sphynx);
        let reduce = plan.known_locations()?.unwrap_or([0, 1]);
        zoo::build(&plan.name(&cells, reduce), shape.height, classes)?;
        plans.push(plan);
    }
    Ok(plans)
}

/// Refuses options that a plan adds to the name itself.
fn check_base(name: &str) -> Result<(), OptimizeError> {
    let options = name.split_once(':').map_or("", |(_, options)| options);
    for option in options.split(',') {
        let decided_by = match option.split('=').next() {
            Some("c" | "d") => "the budget",
            Some("reduce") => "--locations (locations of [optimize])",
            Some("cells") => "--cells (cells of [optimize])",
            _ => continue,
        };
        let (name, option) = (name.to_owned(), option.to_owned());
        return Err(OptimizeError::SphynxOption { name, option, decided_by });
    }
    Ok(())
}

fn size(
    budget: ReluBudget,
    (side, most_cells): (usize, u64),
    given: Option<(u64, u64)>,
    noun: &'static str,
) -> Result<(usize, usize, u64), OptimizeError> {
    let ReluBudget::Count(budget) = budget else { return Err(OptimizeError::SphynxPart) };
    if let Some((channels, depth)) = given {
        let relus = channels.saturating_mul(depth).saturating_mul(side as u64 * side as u64);
        return match relus <= budget && depth >= 3 && channels >= 1 {
            true => Ok((channels as usize, depth as usize, relus)),
            false => Err(OptimizeError::SphynxSize { channels, depth, relus, budget, noun }),
        };
    }
    let choice = sphynx_choice(budget, side, most_cells)?;
    let least = 3 * side as u64 * side as u64;
    let choice = choice.ok_or(OptimizeError::NoSphynxSize { budget, side, least, noun })?;
    Ok((choice.channels as usize, choice.depth as usize, choice.relus))
}

impl SphynxPlan {
    /// The cells, where no search has to find them.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn known_cells(&self) -> Result<Option<Genotype>, OptimizeError> {
        let given = |text: &String| match self.cells.file() {
            Some(path) => Genotype::from_file(&path),
            None => Genotype::from_word(text),
        };
        Ok(match &self.cells {
            CellsSource::Published => Some(Genotype::sphynx()),
            CellsSource::Search => None,
            CellsSource::Given(text) => Some(given(text).map_err(zoo::ZooError::from)?),
        })
    }

    /// The reduce cells, where no search has to find them.
    ///
    /// # Errors
    /// When the paper has none for this depth.
    pub fn known_locations(&self) -> Result<Option<[usize; 2]>, OptimizeError> {
        match self.locations {
            LocationSource::Search => Ok(None),
            LocationSource::Thirds => Ok(Some([self.depth / 3, 2 * self.depth / 3])),
            LocationSource::Published => {
                let known = SPHYNX_PUBLISHED.iter().find(|row| row.1 == self.depth).map(|row| row.2);
                known.map(Some).ok_or(OptimizeError::NoSphynxLocations { depth: self.depth })
            }
        }
    }

    /// The name of the network with these cells.
    pub fn name(&self, cells: &Genotype, reduce: [usize; 2]) -> String {
        let mut options = format!("c={},d={},reduce={}+{}", self.channels, self.depth, reduce[0], reduce[1]);
        if *cells != Genotype::sphynx() {
            options.push_str(&format!(",cells={}", cells.to_word()));
        }
        match self.base.split_once(':') {
            None => format!("{}:{options}", self.base),
            Some((family, own)) => format!("{family}:{options},{own}"),
        }
    }

    /// The network of these cells as a thing to train.
    ///
    /// # Errors
    /// When it does not fit the images.
    pub fn network(&self, cells: &Genotype, reduce: [usize; 2]) -> Result<PlannedNetwork, OptimizeError> {
        let name = self.name(cells, reduce);
        let spec = zoo::build(&name, self.side, self.classes)?;
        Ok(PlannedNetwork {
            title: self.title(cells, reduce),
            network: name,
            reduction: network::transform::Reduction::default(),
            cost: Cost::of(&spec),
        })
    }

    fn title(&self, cells: &Genotype, reduce: [usize; 2]) -> String {
        let origin = match &self.cells {
            CellsSource::Published => "published cells",
            CellsSource::Search => "searched cells",
            CellsSource::Given(_) if *cells == Genotype::sphynx() => "published cells",
            CellsSource::Given(_) => "given cells",
        };
        format!("Sphynx c={} d={} reduce={}+{}, {origin}", self.channels, self.depth, reduce[0], reduce[1])
    }

    /// The candidates that a search of its locations has.
    pub fn candidates(&self, section: &SphynxSection) -> Vec<[usize; 2]> {
        candidates(self.depth, section.location_search.candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(section: &str, name: &str) -> Result<Vec<SphynxPlan>, String> {
        let text = format!(
            "[data]\nset = \"cifar100\"\n[network]\nname = {name:?}\n[training]\nepochs = 3\nbatch = 8\n\
             [optimize]\nmethod = \"sphynx\"\n{section}\n"
        );
        let recipe = Recipe::from_toml(&text).map_err(|error| error.to_string())?;
        let Some(crate::method::OptimizeSection::Sphynx(section)) = &recipe.optimize else { unreachable!() };
        plan(&recipe, section, Shape::image(32), 100).map_err(|error| network::text::with_causes(&error))
    }

    #[test]
    fn a_budget_becomes_channels_cells_and_names() {
        let found = plans(
            "budget = \"25.6K\"\nfurther = [{ budget = 51200, cells = \"published\", locations = \"published\" }]",
            "sphynx:conv=separable",
        )
        .unwrap();
        assert_eq!((found[0].channels, found[0].depth, found[0].relus), (5, 5, 25_600));
        assert_eq!((found[0].known_cells().unwrap(), found[0].known_locations().unwrap()), (None, None));
        assert_eq!(found[1].known_locations().unwrap(), Some([0, 5]));
        let name = found[1].name(&Genotype::sphynx(), [0, 5]);
        assert_eq!(name, "sphynx:c=5,d=10,reduce=0+5,conv=separable");
        assert_eq!(found[1].network(&Genotype::sphynx(), [0, 5]).unwrap().cost.relus, 51_200);
        let own = found[0].name(&Genotype::pc_darts(), [1, 2]);
        assert!(own.contains("cells=skip@0+conv3@1.") || own.contains("cells=conv3@1+skip@0."), "{own}");
    }

    #[test]
    fn what_no_network_meets_is_refused() {
        let text = plans("budget = 2000", "sphynx").unwrap_err();
        assert!(text.contains("2000") && text.contains("3072"), "{text}");
        let text = plans("budget = \"25%\"", "sphynx").unwrap_err();
        assert!(text.contains("a count"), "{text}");
        let text = plans("budget = 25600", "resnet18").unwrap_err();
        assert!(text.contains("resnet18") && text.contains("sphynx"), "{text}");
        for (option, decided_by) in [
            ("c=5", "the budget"),
            ("d=5", "the budget"),
            ("reduce=0+1", "--locations"),
            ("cells=darts", "--cells"),
        ] {
            let text = plans("budget = 25600", &format!("sphynx:conv=separable,{option}")).unwrap_err();
            assert!(text.contains(&format!("says {option}")) && text.contains(decided_by), "{text}");
        }
        let text = plans("budget = 25600\nchannels = 6\ndepth = 5", "sphynx").unwrap_err();
        assert!(text.contains("30720") && text.contains("25600"), "{text}");
        let text = plans("budget = 36000\nchannels = 5\ndepth = 7\nlocations = \"published\"", "sphynx")
            .unwrap_err();
        assert!(text.contains("7 cells") && text.contains("thirds"), "{text}");
        let text = plans("budget = 30000000\nchannels = 5\ndepth = 21", "sphynx").unwrap_err();
        assert!(text.contains("at most 190") && text.contains("thirds"), "{text}");
        let text = plans("budget = 25600\ncells = \"/nowhere/cells.toml\"", "sphynx").unwrap_err();
        assert!(text.contains("/nowhere/cells.toml"), "{text}");
    }
}
