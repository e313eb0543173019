//! A search of Sphynx as one HTML page: the cells as drawings, scores over epochs, places of reduce cells.

use std::path::{Path, PathBuf};

use askama::Template;
use network::zoo::genotype::{CellKind, CellOperation, Genotype};
use recipes::file::{FileError, read_text};
use recipes::method::read_epochs;
use recipes::method::sphynx::{
    CELL_LOG, CELLS_FILE, CellEpoch, GRID_FILE, GridRow, LOCATION_LOG, LocationEpoch, edges,
};

use super::chart::{COLORS, Chart, Curve};
use super::wiring;

/// The longest file of a grid.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What a search left in its folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchReport {
    /// What to call it.
    pub name: String,
    /// The epochs of the search of cells.
    pub cells: Vec<CellEpoch>,
    /// What it found; the last epoch's where it goes on.
    pub genotype: Option<Genotype>,
    /// The searches of locations, one for each network that asked for one.
    pub locations: Vec<LocationReport>,
}

/// One search of locations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocationReport {
    /// Which network of the recipe it was for, the first being 1.
    pub network: usize,
    /// Its epochs.
    pub epochs: Vec<LocationEpoch>,
    /// Every candidate trained for itself.
    pub grid: Vec<GridRow>,
}

impl SearchReport {
    /// Reads a folder of `sordino optimize sphynx`; nothing where it is none, or nothing was searched yet.
    ///
    /// # Errors
    /// When a file of it cannot be read.
    pub fn read(folder: &Path, name: &str) -> Result<Option<Self>, FileError> {
        let cells = folder.join("cells");
        let cell_log = cells.join(CELL_LOG);
        let mut found = location_folders(folder)?;
        found.retain(|(_, folder)| folder.join(LOCATION_LOG).is_file());
        if !cell_log.is_file() && found.is_empty() {
            return Ok(None);
        }
        let mut report = Self { name: name.to_owned(), ..Self::default() };
        if cell_log.is_file() {
            report.cells = read_epochs(&cell_log)?;
            let chosen = Genotype::from_file(&cells.join(CELLS_FILE)).ok();
            report.genotype = chosen.or_else(|| report.cells.last()?.genotype());
        }
        for (network, folder) in found {
            let epochs = read_epochs(&folder.join(LOCATION_LOG))?;
            let grid = match folder.join(GRID_FILE) {
                file if file.is_file() => {
                    serde_json::from_str(&read_text(&file, MAX_FILE_BYTES)?).unwrap_or_default()
                }
                _ => Vec::new(),
            };
            report.locations.push(LocationReport { network, epochs, grid });
        }
        Ok(Some(report))
    }

    /// The page.
    pub fn page(&self) -> String {
        let drawings = self.genotype.iter().flat_map(|genotype| {
            CellKind::BOTH.map(|kind| (kind.word(), wiring::svg(genotype.wiring(kind))))
        });
        let page = Page {
            title: format!("{}: the search", self.name),
            epochs: self.cells.last().map_or(0, |epoch| epoch.epoch),
            planned: self.cells.last().map_or(0, |epoch| epoch.epochs),
            seconds: self.cells.iter().map(|epoch| epoch.seconds).sum::<f64>().round(),
            word: self.genotype.as_ref().map(Genotype::to_word).unwrap_or_default(),
            drawings: drawings.collect(),
            charts: self.charts(),
            tables: CellKind::BOTH.into_iter().filter_map(|kind| self.table(kind)).collect(),
            operations: self.columns(),
            places: self.locations.iter().filter_map(LocationReport::table).collect(),
        };
        page.render().expect("the template writes into memory alone")
    }

    fn charts(&self) -> Vec<Drawn> {
        let cell = |name: &str, value: &dyn Fn(&CellEpoch) -> f64| Curve {
            name: name.to_owned(),
            points: self.cells.iter().map(|epoch| (f64::from(epoch.epoch), value(epoch))).collect(),
        };
        let mut charts = Vec::new();
        if !self.cells.is_empty() {
            for kind in CellKind::BOTH {
                let share = |operation: usize| {
                    cell(&operations()[operation], &|epoch| 100.0 * mean_share(epoch, kind, operation))
                };
                charts.push(Drawn::new(
                    format!(
                        "Weights of operations (theta) in the {} cell, mean of all edges, %",
                        kind.word()
                    ),
                    (0..operations().len()).map(share).collect(),
                ));
            }
            charts.push(Drawn::new(
                "Accuracy of the network under search, %".to_owned(),
                vec![
                    cell("first half, while learning", &|epoch| 100.0 * epoch.training_accuracy),
                    cell("second half", &|epoch| 100.0 * epoch.accuracy),
                ],
            ));
            charts.push(Drawn::new(
                "Loss".to_owned(),
                vec![
                    cell("weights", &|epoch| epoch.loss),
                    cell("scores", &|epoch| epoch.score_loss.unwrap_or(f64::NAN)),
                ],
            ));
        }
        charts.extend(self.locations.iter().filter_map(LocationReport::chart));
        charts
    }

    /// What a row of a table of edges has: its operations, and how the edge itself weighs where that is learned.
    fn columns(&self) -> Vec<String> {
        let has_edges = self.cells.last().is_some_and(|epoch| !epoch.scores.normal_edges.is_empty());
        operations().into_iter().chain(has_edges.then(|| "the edge itself".to_owned())).collect()
    }

    /// The last weights of all edges.
    fn table(&self, kind: CellKind) -> Option<(&'static str, Vec<EdgeRow>)> {
        let last = self.cells.last()?;
        let count = match kind {
            CellKind::Normal => last.scores.normal.len(),
            CellKind::Reduce => last.scores.reduce.len(),
        };
        let nodes = (1..=Genotype::MAX_NODES).find(|nodes| edges(*nodes).len() == count)?;
        let kept = |target: usize, source: usize| {
            let wiring = self.genotype.as_ref().and_then(|genotype| genotype.wiring(kind).get(target - 2));
            wiring.is_some_and(|edges| edges.iter().any(|edge| edge.from == source))
        };
        let row = |(index, (target, source)): (usize, (usize, usize))| {
            // The edges to a node stand together, in the order of their sources.
            let first = index - source;
            let own = last.scores.edge_weights(kind, first..first + target).map(|weights| weights[source]);
            let shares = last.scores.weights(kind, index).into_iter().chain(own);
            EdgeRow {
                name: format!("{source} to {target}"),
                is_kept: kept(target, source),
                shares: shares.map(|share| format!("{:.1}", 100.0 * share)).collect(),
            }
        };
        Some((kind.word(), edges(nodes).into_iter().enumerate().map(row).collect()))
    }
}

impl LocationReport {
    fn chart(&self) -> Option<Drawn> {
        let last = self.epochs.last()?;
        let chance = |candidate: usize| {
            let points = self.epochs.iter().filter_map(|epoch| {
                Some((f64::from(epoch.epoch), 100.0 * epoch.distribution.get(candidate)?))
            });
            Curve { name: pair(last.candidates[candidate]), points: points.collect() }
        };
        let title = format!("Chances of {} (beta), %", self.subject());
        Some(Drawn::new(title, (0..last.candidates.len()).map(chance).collect()))
    }

    fn subject(&self) -> String {
        let count = self.epochs.last().map_or(0, |epoch| epoch.candidates.len());
        format!("places of reduce cells, network {}, {count} pairs", self.network)
    }

    /// Candidates with their chances, and what each came to alone.
    fn table(&self) -> Option<(String, Vec<PlaceRow>)> {
        let last = self.epochs.last()?;
        let mut rows: Vec<_> = last.candidates.iter().zip(&last.distribution).collect();
        rows.sort_by(|one, other| other.1.total_cmp(one.1));
        let row = |(candidate, chance): (&[usize; 2], &f64)| {
            let grid = self.grid.iter().find(|row| row.reduce == *candidate);
            PlaceRow {
                pair: pair(*candidate),
                chance: format!("{:.1}%", 100.0 * chance),
                alone: grid
                    .map_or_else(String::new, |row| format!("{:.2}% {}", row.accuracy, row.measured_on)),
            }
        };
        Some((self.subject(), rows.into_iter().map(row).collect()))
    }
}

/// The folders of searches of locations, in the order of their networks: `locations`, `locations-2` and so on.
fn location_folders(folder: &Path) -> Result<Vec<(usize, PathBuf)>, FileError> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let refused = FileError::on("read", folder);
    let number = |name: &str| match name.strip_prefix("locations")? {
        "" => Some(1),
        rest => rest.strip_prefix('-')?.parse::<usize>().ok(),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refused)? {
        let entry = entry.map_err(refused)?;
        if let Some(number) = entry.file_name().to_str().and_then(number) {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn pair(reduce: [usize; 2]) -> String {
    format!("{}+{}", reduce[0], reduce[1])
}

/// The names of a row of scores.
fn operations() -> Vec<String> {
    let words = CellOperation::SEARCHED.map(|operation| operation.word().to_owned());
    std::iter::once("none".to_owned()).chain(words).collect()
}

fn mean_share(epoch: &CellEpoch, kind: CellKind, operation: usize) -> f64 {
    let count = match kind {
        CellKind::Normal => epoch.scores.normal.len(),
        CellKind::Reduce => epoch.scores.reduce.len(),
    };
    (0..count).map(|edge| epoch.scores.weights(kind, edge)[operation]).sum::<f64>() / count.max(1) as f64
}

#[derive(Template)]
#[template(path = "search.html")]
struct Page {
    title: String,
    epochs: u32,
    planned: u32,
    seconds: f64,
    word: String,
    /// Which cell, and its drawing.
    drawings: Vec<(&'static str, String)>,
    charts: Vec<Drawn>,
    tables: Vec<(&'static str, Vec<EdgeRow>)>,
    operations: Vec<String>,
    /// What each search chose from.
    places: Vec<(String, Vec<PlaceRow>)>,
}

/// A chart with its legend.
struct Drawn {
    title: String,
    svg: String,
    /// Color and name.
    legend: Vec<(usize, String)>,
}

impl Drawn {
    fn new(title: String, curves: Vec<Curve>) -> Self {
        let legend = curves.iter().enumerate().map(|(index, curve)| (index % COLORS, curve.name.clone()));
        Self { title, legend: legend.collect(), svg: Chart { curves }.svg() }
    }
}

struct EdgeRow {
    name: String,
    is_kept: bool,
    /// In percent.
    shares: Vec<String>,
}

struct PlaceRow {
    pair: String,
    chance: String,
    alone: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use recipes::method::sphynx::CellScores;

    fn report() -> SearchReport {
        let scores = |tilt: f64| CellScores {
            normal: vec![[0.0, 0.0, tilt, 0.0, 0.0, 0.0, 0.0]; 14],
            reduce: vec![[0.0, 0.0, 0.0, tilt, 0.0, 0.0, 0.0]; 14],
            normal_edges: Vec::new(),
            reduce_edges: Vec::new(),
        };
        let cell = |number: u32| CellEpoch {
            epoch: number,
            epochs: 3,
            loss: 2.0,
            training_accuracy: 0.3,
            score_loss: Some(2.2),
            accuracy: 0.25,
            scores: scores(f64::from(number)),
            cells: Genotype::sphynx().to_word(),
            seconds: 1.5,
            unrecorded: None,
        };
        let location = |number: u32| LocationEpoch {
            epoch: number,
            epochs: 2,
            temperature: 1.0,
            loss: 2.0,
            score_loss: 2.1,
            candidates: vec![[0, 1], [0, 2], [1, 2]],
            distribution: vec![0.2, 0.5, 0.3],
            drawn: vec![1, 2, 3],
            seconds: 1.0,
        };
        let grid =
            GridRow { reduce: [0, 2], accuracy: 61.25, measured_on: "held-out".into(), chance: Some(0.5) };
        SearchReport {
            name: "<mine>".into(),
            cells: vec![cell(1), cell(2)],
            genotype: Some(Genotype::sphynx()),
            locations: vec![LocationReport {
                network: 1,
                epochs: vec![location(1), location(2)],
                grid: vec![grid],
            }],
        }
    }

    #[test]
    fn the_page_shows_cells_scores_and_places_and_loads_nothing() {
        let page = report().page();
        for word in ["dilated5", "2 of 3", "theta", "beta", "61.25% held-out", "0+2", "50.0%", "&lt;mine&gt;"]
        {
            assert!(page.contains(word), "{word}");
        }
        for forbidden in ["http://", "https://", "src=\"", "url(", "@import", "href", "<script"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        // Two drawings with eight edges each, five charts: 7 + 7 + 2 + 2 + 3 curves.
        assert_eq!(page.matches("class=edge").count(), 16);
        assert_eq!(page.matches("<polyline").count(), 21);
        assert_eq!(page.matches("class=\"kept\"").count(), 16);
    }

    #[test]
    fn edges_with_weights_of_their_own_show_them() {
        let mut report = report();
        assert!(!report.page().contains("the edge itself"));
        for epoch in &mut report.cells {
            // Of the first node's two edges one weighs three times as much as the other.
            let mut edges = vec![0.0; 14];
            edges[0] = 3_f64.ln();
            (epoch.scores.normal_edges, epoch.scores.reduce_edges) = (edges, vec![0.0; 14]);
        }
        let page = report.page();
        assert_eq!(page.matches("the edge itself").count(), 2);
        for share in ["<td>75.0</td></tr>", "<td>25.0</td></tr>", "<td>33.3</td></tr>"] {
            assert!(page.contains(share), "{share}");
        }
    }

    #[test]
    fn searches_of_locations_of_further_networks_are_shown() {
        let scratch = tempfile::tempdir().unwrap();
        let report = report();
        let folders =
            [("locations-10", 2), ("locations-2", 3), ("locations", 3), ("locations-x", 3), ("other", 3)];
        for (name, pairs) in folders {
            let folder = scratch.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            let mut epoch = report.locations[0].epochs[0].clone();
            epoch.candidates.truncate(pairs);
            epoch.distribution.truncate(pairs);
            let line = serde_json::to_string(&epoch).unwrap();
            std::fs::write(folder.join(LOCATION_LOG), format!("{line}\n")).unwrap();
        }
        let read = SearchReport::read(scratch.path(), "x").unwrap().unwrap();
        let counts: Vec<_> = read.locations.iter().map(|search| search.epochs[0].candidates.len()).collect();
        assert_eq!(counts, [3, 3, 2], "in the order of their networks");
        let page = read.page();
        for search in ["network 1, 3 pairs", "network 2, 3 pairs", "network 10, 2 pairs"] {
            assert!(page.contains(&format!("Chances of places of reduce cells, {search}")), "{search}");
        }
    }

    #[test]
    fn a_folder_without_a_search_has_no_page() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(SearchReport::read(scratch.path(), "x").unwrap(), None);
        let folder = scratch.path().join("cells");
        std::fs::create_dir(&folder).unwrap();
        let line = serde_json::to_string(&report().cells[0]).unwrap();
        std::fs::write(folder.join(CELL_LOG), format!("{line}\n{{\"epoch\"")).unwrap();
        let read = SearchReport::read(scratch.path(), "x").unwrap().unwrap();
        assert_eq!((read.cells.len(), read.genotype), (1, Some(Genotype::sphynx())));
        assert!(read.locations.is_empty());
    }
}
