//! The network under search: a row of cells in which every edge is a weighted sum of all operations (equation A.3).
//!
//! ```text
//! images ─> stem ─> cell 0 ─> cell 1 ─> ... ─> mean of each channel ─> classifier
//!                     ▲ weights of operations: softmax of scores, shared by all normal and by all reduce cells
//! ```
//!
//! It is computed in few large pieces, since a GPU waits longer for a kernel than it works on one of this size. All
//! edges that leave a node go through one convolution, whose channels are divided behind it. The last batch norms of all
//! operations of a node are one, since each channel is normalized by itself. An operation's weight is its scale there,
//! which learns none of its own. Operations without a convolution are one product of matrices. One-hot weights give
//! exactly the network that the zoo builds (see the tests).

use network::shape::Shape;
use network::zoo::genotype::CellKind;
use recipes::method::sphynx::{CellScores, CellSearch, Post, Preprocess, Strategy, edges};
use recipes::recipe::{Initialization, Precision};

use super::cell::{CellPlace, EdgeFilters, SearchCell};
use super::maps::Order;
use super::weights::{Layout, OperationWeights, edges_by_source};
use crate::assemble::{
    AssembleError, Declared, Fan, Mode, Norm, NumberKinds, Parameters, Role, Setting, Start, Statistics,
    linear, norm,
};
use crate::tensor::{Device, Kind, Tensor, guarded, to_floats};

/// How far first scores lie from 0 (the authors' code).
const FIRST_DEVIATION: f64 = 1e-3;

/// On what and how a network under search is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Computation {
    pub(crate) device: Device,
    pub(crate) precision: Precision,
    pub(crate) filters: EdgeFilters,
    /// Of maps in memory.
    pub(super) order: Order,
}

impl Computation {
    /// What fits a device.
    pub(crate) fn on(device: Device, search: &CellSearch) -> Self {
        match device {
            Device::Cpu => {
                let (precision, order) = (Precision::F32, Order::Planes);
                Self { device, precision, filters: EdgeFilters::Grouped, order }
            }
            _ => {
                // PC-DARTS shuffles channels, which are planes then.
                let is_partial = search.strategy == Strategy::PcDarts;
                let order = if is_partial { Order::Planes } else { Order::Innermost };
                // Second order looks how slopes differ a tiny step away, which sixteen bits round off.
                let is_second = search.strategy == Strategy::DartsSecond;
                let precision = if is_second { Precision::F32 } else { search.precision };
                Self { device, precision, filters: EdgeFilters::Dense, order }
            }
        }
    }
}

/// A network under search, with weights and scores.
pub(crate) struct SearchNetwork {
    weights: Parameters,
    scores: Parameters,
    statistics: Statistics,
    stem: (usize, Norm),
    cells: Vec<SearchCell>,
    classifier: (usize, usize),
    nodes: usize,
    layout: Layout,
    setting: Setting,
}

impl SearchNetwork {
    /// A network with fresh weights and scores.
    ///
    /// # Errors
    /// When the device has no room for it.
    pub(crate) fn new(
        search: &CellSearch,
        image: Shape,
        classes: usize,
        seed: u64,
        computation: Computation,
    ) -> Result<Self, AssembleError> {
        let Computation { device, precision, order, .. } = computation;
        let setting = Setting { device, precision, innermost_channels: order == Order::Innermost };
        // Scores are few and move little: sixteen bits would not tell their steps.
        let is_short = precision == Precision::Bf16;
        let exact = Setting { precision: if is_short { Precision::F32 } else { precision }, ..setting };
        let places = places(search, computation);
        let channels = places.last().map_or(0, |place| place.channels);
        let stem_channels = 3 * search.channels;
        let mut declared = Declarations::default();
        declared.conv("stem.conv", [stem_channels, image.channels, 3], false);
        declared.declared.extend(norm("stem.norm", stem_channels));
        declared.norm("stem", stem_channels);
        places.iter().for_each(|place| place.declare(&mut declared));
        let fan = Fan { inputs: channels, outputs: classes, is_convolution: false };
        declared.declared.extend(linear("head.fc", &[classes, channels], true, fan, Initialization::Uniform));
        let Declarations { declared, norms } = declared;
        let build = || {
            let weights = Parameters::new(declared, seed, setting);
            let statistics = Statistics::new(&norms, setting);
            let lookup = Lookup { weights: &weights, statistics: &statistics };
            let find = |name: &str| weights.find(name).expect("it was declared above");
            Self {
                stem: (find("stem.conv.weight"), lookup.norm("stem")),
                cells: places.into_iter().map(|place| SearchCell::new(place, &lookup, device)).collect(),
                classifier: (find("head.fc.weight"), find("head.fc.bias")),
                scores: Parameters::new(declare_scores(search), seed, exact),
                nodes: search.nodes,
                layout: Layout::new(
                    search.nodes,
                    search.strategy == Strategy::PcDarts,
                    [precision.master_kind(), precision.compute_kind()],
                    device,
                ),
                weights,
                statistics,
                setting,
            }
        };
        Ok(guarded(build)?)
    }

    /// Runs a batch of normalized images; one row of logits each.
    pub(crate) fn forward(&self, images: &Tensor, mode: Mode<'_>) -> Tensor {
        let operations = OperationWeights::new(&self.scores, &self.layout);
        let conv = |input: &Tensor, weight: usize| {
            input.conv2d(self.weights.leaf(weight), None::<&Tensor>, [1, 1], [1, 1], [1, 1], 1)
        };
        // They come with channels innermost.
        let images = images.to_kind(self.setting.precision.compute_kind());
        let images = if self.setting.innermost_channels { images } else { images.contiguous() };
        let stem = self.stem.1.apply(&conv(&images, self.stem.0), &self.weights, mode);
        let (mut older, mut newer) = (stem.shallow_clone(), stem);
        for cell in &self.cells {
            let output = cell.forward([&older, &newer], &self.weights, &operations, mode);
            older = newer;
            newer = output;
        }
        let pooled = newer.mean_dim([2_i64, 3].as_slice(), false, None);
        let (weight, bias) = (self.weights.leaf(self.classifier.0), self.weights.leaf(self.classifier.1));
        pooled.linear(weight, Some(bias)).to_kind(self.setting.precision.master_kind())
    }

    /// The scores as plain numbers, in the order of [`edges`].
    pub(crate) fn cell_scores(&self) -> CellScores {
        let by_source = edges_by_source(self.nodes);
        let order: Vec<usize> = edges(self.nodes)
            .iter()
            .map(|edge| by_source.iter().position(|other| other == edge).expect("both list all edges"))
            .collect();
        let row = |name: &str| -> Vec<f64> {
            let index = self.scores.find(name);
            let numbers = index.map(|index| to_floats(self.scores.leaf(index))).unwrap_or_default();
            numbers.into_iter().map(f64::from).collect()
        };
        let table = |kind: CellKind| -> Vec<[f64; 7]> {
            let numbers = row(&format!("{}.operations", kind.word()));
            order.iter().map(|edge| std::array::from_fn(|score| numbers[7 * edge + score])).collect()
        };
        let edge_scores = |kind: CellKind| -> Vec<f64> {
            let numbers = row(&format!("{}.edges", kind.word()));
            order.iter().filter_map(|edge| numbers.get(*edge).copied()).collect()
        };
        CellScores {
            normal: table(CellKind::Normal),
            reduce: table(CellKind::Reduce),
            normal_edges: edge_scores(CellKind::Normal),
            reduce_edges: edge_scores(CellKind::Reduce),
        }
    }

    pub(crate) fn weights(&self) -> &Parameters {
        &self.weights
    }

    pub(crate) fn scores(&self) -> &Parameters {
        &self.scores
    }

    /// Both, to be changed.
    pub(crate) fn both_mut(&mut self) -> (&mut Parameters, &mut Parameters) {
        (&mut self.weights, &mut self.scores)
    }

    pub(crate) fn statistics(&self) -> &Tensor {
        &self.statistics.row
    }

    pub(crate) fn setting(&self) -> Setting {
        self.setting
    }

    /// Everything that a checkpoint must hold, by name.
    pub(crate) fn named_numbers(&self) -> Vec<(String, Tensor)> {
        let weights = self.weights.named().map(|(name, value)| (name.to_owned(), value));
        let scores = self.scores.named().map(|(name, value)| (format!("scores.{name}"), value));
        let statistics = self
            .statistics
            .names
            .iter()
            .map(|(name, start, length)| (name.clone(), self.statistics.row.narrow(0, *start, *length)));
        weights.chain(scores).chain(statistics).collect()
    }
}

/// Where each cell stands; reductions at one and two thirds.
fn places(search: &CellSearch, Computation { filters, order, .. }: Computation) -> Vec<CellPlace> {
    let growth = if search.post == Post::Paper { 4 } else { 2 };
    let reduces = [search.depth / 3, 2 * search.depth / 3];
    let mut places = Vec::with_capacity(search.depth);
    let (mut channels, mut previous_reduced) = (search.channels, false);
    let stem = 3 * search.channels;
    let mut inputs = [stem, stem];
    for index in 0..search.depth {
        let kind = if reduces.contains(&index) { CellKind::Reduce } else { CellKind::Normal };
        if kind == CellKind::Reduce {
            channels *= growth;
        }
        places.push(CellPlace {
            index,
            kind,
            channels,
            inputs,
            previous_reduced,
            nodes: search.nodes,
            is_partial: search.strategy == Strategy::PcDarts,
            post: search.post,
            preprocesses: search.preprocess == Preprocess::Linear,
            filters,
            order,
        });
        inputs = [inputs[1], channels];
        previous_reduced = kind == CellKind::Reduce;
    }
    places
}

fn declare_scores(search: &CellSearch) -> Vec<Declared> {
    let count = edges(search.nodes).len() as i64;
    let declare = |name: String, shape: Vec<i64>| Declared {
        name,
        role: Role::Weight,
        shape,
        values: Start::Normal { deviation: FIRST_DEVIATION },
    };
    let mut declared: Vec<Declared> =
        CellKind::BOTH.map(|kind| declare(format!("{}.operations", kind.word()), vec![count, 7])).into();
    if search.strategy == Strategy::PcDarts {
        declared.extend(CellKind::BOTH.map(|kind| declare(format!("{}.edges", kind.word()), vec![count])));
    }
    declared
}

/// What a network needs memory for, before it has any.
#[derive(Default)]
pub(super) struct Declarations {
    declared: Vec<Declared>,
    norms: Vec<(String, usize)>,
}

impl Declarations {
    /// A convolution: outputs, inputs of one output, side of the filter.
    pub(super) fn conv(&mut self, name: &str, [outputs, inputs, filter]: [usize; 3], has_bias: bool) {
        let fan = Fan {
            inputs: inputs * filter * filter,
            outputs: outputs * filter * filter,
            is_convolution: true,
        };
        let shape = [outputs, inputs, filter, filter];
        self.declared.extend(linear(name, &shape, has_bias, fan, Initialization::Uniform));
    }

    /// The statistics of a batch norm that learns neither scale nor shift.
    pub(super) fn norm(&mut self, name: &str, channels: usize) {
        // Not the convolution's own name: its constants are no shift of the norm.
        self.norms.push((format!("{name}.norm"), channels));
    }
}

/// Finds what was declared.
pub(super) struct Lookup<'a> {
    weights: &'a Parameters,
    statistics: &'a Statistics,
}

impl Lookup<'_> {
    pub(super) fn weight(&self, name: &str) -> Option<usize> {
        self.weights.find(&format!("{name}.weight"))
    }

    /// Of weights as they are computed with.
    pub(super) fn kind(&self) -> Kind {
        self.weights.leaf(0).kind()
    }

    pub(super) fn bias(&self, name: &str) -> Option<usize> {
        self.weights.find(&format!("{name}.bias"))
    }

    pub(super) fn norm(&self, name: &str) -> Norm {
        self.statistics.norm(&format!("{name}.norm"), self.weights)
    }
}
