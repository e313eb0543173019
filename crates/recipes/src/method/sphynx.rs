//! Sphynx: cells by search, a size for the budget, reduce cells by search; what all of it decides without tensors.
//!
//! ```text
//! section     what a recipe says: networks, cells, locations; `searches`: how both are searched (Tables 5 and 6)
//! scores      operation scores (theta) and the cells they stand for (appendix A)
//! locations   which pairs of cells may reduce, and the scores (beta) that choose among them (Algorithm 1)
//! log         what a search notes of an epoch
//! plan        from a budget to networks
//! ```
//!
//! Where the paper and its authors' code differ, a key of the recipe chooses; its default is the paper's.

mod locations;
mod log;
mod plan;
mod scores;
mod searches;
mod section;

pub use locations::{Drawn, LocationScores, MeanSlope, candidates};
pub use log::{CELL_LOG, CELLS_FILE, CellEpoch, GRID_FILE, GridRow, LOCATION_LOG, LocationEpoch};
pub use plan::{SphynxPlan, plan};
pub use scores::{CellScores, EDGES_PER_NODE, edge_count, edges};
pub use searches::{
    Candidates, CellSearch, Choose, LocationSearch, Post, Preprocess, Rank, Strategy, Unseen, UpdateOrder,
    WeightUpdates,
};
pub use section::{CellsSource, FurtherNetwork, LocationSource, SphynxSection};
