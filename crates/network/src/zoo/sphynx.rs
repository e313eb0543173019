//! Sphynx networks (section 4): cells whose only ReLU stands at their end.
//!
//! A cell preprocesses its two inputs by 1x1 convolutions, adds and concatenates along the published wiring, and
//! ends with a 1x1 convolution and the ReLU, on a quarter of the concatenated channels. Channels grow fourfold at
//! each reduce cell, so that every cell has the same number of ReLUs (ReLU balancing). A "vanilla" convolution is
//! two stacked ones; batch norms of the three 1x1 convolutions have no learned scale.
//!
//! With `values=K` a cell ends with shared signs ([`SharedSigns`]) instead: it has K times the channels and the same number of
//! comparisons. That is not in the paper.

use std::path::Path;

use super::cells::{CellPlace, CellRow, joined, wire};
use super::genotype::{self, CellOperation, Genotype};
use super::name::Name;
use super::{Parts, StemForm, ZooError};
use crate::spec::{
    Cell, Conv, FactorizedReduce, Grouping, Layer, MAX_VALUES_PER_SIGN, Pool, SharedSigns, Stem,
};

/// The published networks: channels, cells, positions of the reduce cells (Sphynx Table 16). It lacks (12, 10) and
/// (15, 10), which are the 491.5K and 614.4K of Tables 2 and 4; their reduce cells are those of all depths of 10.
pub const PUBLISHED: &[(usize, usize, [usize; 2])] = &[
    (5, 5, [0, 1]),
    (5, 6, [0, 1]),
    (5, 8, [1, 3]),
    (5, 10, [0, 5]),
    (7, 10, [0, 5]),
    (10, 10, [0, 5]),
    (12, 10, [0, 5]),
    (15, 10, [0, 5]),
    (15, 15, [2, 6]),
    (20, 10, [0, 5]),
];

pub(super) fn build(name: &mut Name) -> Result<Parts, ZooError> {
    let channels = name.count("c", 5)?;
    let depth = name.count("d", 10)?;
    let reduce = name.counts("reduce")?;
    let growth = name.choice("balance", &[("relu", 4), ("flop", 2)])?;
    let is_separable = name.choice("conv", &[("vanilla", false), ("separable", true)])?;
    let genotype = cells(name)?;
    let is_activated = name.choice("modules", &[("linear", false), ("relu", true)])?;
    let preprocesses = name.choice("preprocess", &[("linear", true), ("none", false)])?;
    let form = StemForm::option(name)?;
    let values = name.count("values", 1)?;
    if values > MAX_VALUES_PER_SIGN {
        return Err(name.bad(
            "values",
            values,
            format_args!("from 1 to {MAX_VALUES_PER_SIGN} values a sign"),
        ));
    }
    let reduce = reduce.unwrap_or_else(|| default_reduce(channels, depth, form));
    let channels = channels.saturating_mul(values);
    let row = CellRow::new(name, channels, depth, growth, reduce)?;
    let plan = CellPlan { genotype, is_separable, is_activated, preprocesses, end: end(values) };
    let mut parts = Parts::pooled(Vec::new(), Vec::new());
    parts.stem = stem(form, channels);
    parts.stages = row.stages(form == StemForm::ImageNet, |place| plan.cell(place));
    Ok(parts)
}

/// Published cells, those of a file, or those that the name itself spells.
fn cells(name: &mut Name) -> Result<Genotype, ZooError> {
    let Some(value) = name.word("cells") else { return Ok(Genotype::sphynx()) };
    let path = Path::new(&value);
    Ok(match value.as_str() {
        "sphynx" => Genotype::sphynx(),
        "darts" => Genotype::darts(),
        "pc-darts" => Genotype::pc_darts(),
        spelled if spelled.contains('@') => Genotype::from_word(spelled)?,
        _ if path.extension().is_some_and(|extension| extension == "toml") => Genotype::from_file(path)?,
        _ => return Err(name.bad("cells", &value, "sphynx, darts, pc-darts or a file that ends in .toml")),
    })
}

/// The published positions where there are any, one and two thirds elsewhere.
fn default_reduce(channels: usize, depth: usize, form: StemForm) -> Vec<usize> {
    if form == StemForm::ImageNet && depth == 10 {
        return vec![1, 5];
    }
    let exact = PUBLISHED.iter().find(|row| row.0 == channels && row.1 == depth);
    let same_depth = PUBLISHED.iter().find(|row| row.1 == depth);
    exact.or(same_depth).map_or_else(|| genotype::thirds(depth), |row| row.2.to_vec())
}

fn stem(form: StemForm, channels: usize) -> Stem {
    match form {
        StemForm::Cifar => Stem {
            layers: vec![Layer::Conv(Conv::new(3 * channels, 3)), Layer::BatchNorm],
            second: Vec::new(),
        },
        // Appendix H: three strided convolutions; the first cell reads the last two.
        StemForm::ImageNet => Stem {
            layers: vec![
                Layer::Conv(Conv::new((channels / 2).max(1), 3).stride(2)),
                Layer::BatchNorm,
                Layer::Relu,
                Layer::Conv(Conv::new(channels, 3).stride(2)),
                Layer::BatchNorm,
            ],
            second: vec![Layer::Relu, Layer::Conv(Conv::new(channels, 3).stride(2)), Layer::BatchNorm],
        },
    }
}

/// The activation at the end of a cell.
fn end(values_per_sign: usize) -> Layer {
    match values_per_sign {
        1 => Layer::Relu,
        _ => Layer::SharedSigns(SharedSigns {
            grouping: Grouping::Contiguous { values_per_sign },
            slopes: true,
        }),
    }
}

struct CellPlan {
    genotype: Genotype,
    is_separable: bool,
    /// Whether every convolution on an edge stands behind a ReLU, as in the teacher of appendix G.
    is_activated: bool,
    /// Whether inputs are preprocessed also where their channels fit as they are (section 4.1, item 3 names none).
    preprocesses: bool,
    /// What stands at the end of a cell.
    end: Layer,
}

impl CellPlan {
    fn cell(&self, place: CellPlace) -> Cell {
        let CellPlace { channels, reduces, previous_reduced, inputs } = place;
        let fits = |input: Option<usize>| !self.preprocesses && input == Some(channels);
        let one_by_one = || vec![Layer::Conv(Conv::new(channels, 1)), Layer::PlainBatchNorm];
        let older = if previous_reduced {
            vec![Layer::FactorizedReduce(FactorizedReduce { out: channels }), Layer::PlainBatchNorm]
        } else if fits(inputs[0]) {
            Vec::new()
        } else {
            one_by_one()
        };
        let newer = if fits(inputs[1]) { Vec::new() } else { one_by_one() };
        let mut post = one_by_one();
        post.push(self.end.clone());
        Cell {
            older,
            newer,
            nodes: wire(place.wiring(&self.genotype), reduces, |operation, stride| {
                self.edge(operation, channels, stride)
            }),
            concat: joined(&self.genotype),
            post,
        }
    }

    fn edge(&self, operation: CellOperation, channels: usize, stride: usize) -> Vec<Layer> {
        let conv = |filter, stride| Conv::new(channels, filter).stride(stride);
        let pair = |filter| [self.module(conv(filter, stride)), self.module(conv(filter, 1))].concat();
        let dilated = |filter| self.module(conv(filter, stride).dilation(2));
        match operation {
            CellOperation::Skip if stride == 1 => Vec::new(),
            CellOperation::Skip => {
                vec![Layer::FactorizedReduce(FactorizedReduce { out: channels }), Layer::BatchNorm]
            }
            CellOperation::Conv3 => pair(3),
            CellOperation::Conv5 => pair(5),
            CellOperation::Dilated3 => dilated(3),
            CellOperation::Dilated5 => dilated(5),
            CellOperation::Average | CellOperation::Max => {
                vec![Layer::AveragePool(Pool::new(3, stride).padding(1)), Layer::BatchNorm]
            }
        }
    }

    /// A convolution with its batch norm, and its ReLU where it has one.
    fn module(&self, conv: Conv) -> Vec<Layer> {
        let mut layers = if self.is_activated { vec![Layer::Relu] } else { Vec::new() };
        let channels = conv.out;
        if self.is_separable {
            layers.extend([Layer::Conv(conv.depthwise()), Layer::Conv(Conv::new(channels, 1))]);
        } else {
            layers.push(Layer::Conv(conv));
        }
        layers.push(Layer::BatchNorm);
        layers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo::build;

    #[test]
    fn cells_come_from_names_words_and_files() {
        let spelled = format!("sphynx:c=5,d=5,cells={}", Genotype::sphynx().to_word());
        let cost = |name: &str| Cost::of(&build(name, 32, 100).unwrap());
        assert_eq!(cost(&spelled), cost("sphynx:c=5,d=5"));
        let path = std::env::temp_dir().join(format!("sordino-cells-{}.toml", std::process::id()));
        std::fs::write(&path, Genotype::sphynx().to_toml()).unwrap();
        assert_eq!(cost(&format!("sphynx:c=5,d=5,cells={}", path.display())), cost("sphynx:c=5,d=5"));
        std::fs::write(&path, Genotype::sphynx().to_toml().replacen("from = 2", "from = 5", 1)).unwrap();
        let error = build(&format!("sphynx:cells={}", path.display()), 32, 100).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(crate::text::with_causes(&error).contains("node 3 reads node 5"), "{error}");
        assert!(crate::zoo::names_file("mine.toml") && !crate::zoo::names_file("sphynx:cells=mine.toml"));
        let error = build("sphynx:cells=mine", 32, 100).unwrap_err().to_string();
        assert!(error.contains("ends in .toml"), "{error}");
    }

    #[test]
    fn cells_of_two_nodes_have_the_same_relus() {
        let word = "skip@0+conv3@1.conv3@2+skip@0/conv3@0+conv3@1.skip@2+conv5@1";
        let cost = Cost::of(&build(&format!("sphynx:c=5,d=5,cells={word}"), 32, 100).unwrap());
        assert_eq!(cost.relus, 25_600);
        assert!(cost.parameters < Cost::of(&build("sphynx:c=5,d=5", 32, 100).unwrap()).parameters);
    }

    #[test]
    fn shared_signs_widen_cells_and_keep_the_comparisons() {
        let cost = |name: &str| Cost::of(&build(name, 32, 100).unwrap());
        let (one, four) = (cost("sphynx:c=5,d=5"), cost("sphynx:c=5,d=5,values=4"));
        assert_eq!(cost("sphynx:c=5,d=5,values=1"), one);
        assert_eq!((four.relus, four.gated_values), (25_600, 3 * 25_600));
        assert_eq!(four.macs, cost("sphynx:c=20,d=5,reduce=0+1").macs);
        let many = format!("sphynx:values={}", MAX_VALUES_PER_SIGN + 1);
        let error = build(&many, 32, 100).unwrap_err().to_string();
        assert!(error.contains("values a sign"), "{error}");
    }

    #[test]
    fn a_teacher_has_a_relu_before_every_convolution_of_an_edge() {
        // Normal cells: 1 + 1 + 2 + 2 convolutions; a reduce cell: 2 + 2 + 2 + 1 + 2, the first of the four pairs on
        // inputs at four times the pixels, with a quarter of the channels of the cell that they feed times four.
        let plain = Cost::of(&build("sphynx:c=5,d=3,reduce=1", 32, 100).unwrap());
        let taught = Cost::of(&build("sphynx:c=5,d=3,reduce=1,modules=relu", 32, 100).unwrap());
        let map = 32 * 32 * 5;
        let (normal, strided, inner) = (6 * map, 4 * 4 * map, 5 * map);
        assert_eq!(taught.relus - plain.relus, 2 * normal + strided + inner);
        assert_eq!(taught.parameters, plain.parameters);
    }

    #[test]
    fn preprocessing_can_be_left_out_where_channels_fit() {
        let steps = |name: &str| build(name, 32, 100).unwrap().walk().steps().len();
        // Of five cells with reductions at 0 and 1 the last three fit, except the older input of the cell behind a
        // reduction: 3 newer and 2 older, two steps each.
        assert_eq!(steps("sphynx:c=5,d=5") - steps("sphynx:c=5,d=5,preprocess=none"), 2 * 5);
    }
}
