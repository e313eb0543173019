//! Signets: residual networks in which one sign stamps several values, with a wide stream around them.
//!
//! A block of a thinned HybReNet compares only between its convolutions. The residual stream compares nothing, so its
//! width costs no comparison; here it has channels of its own. Inside, each sign decides for a group of channels
//! ([`SharedSigns`]), and every channel has a slope. A shortcut halves the map by averages, which lose nothing.
//!
//! ```text
//! stream i ─┬─ 3x3 ─ norm ─ signs x values ─ 3x3 ─ norm ─┬─ stream o
//!           └─ average 2x2 ─ 1x1 ─ norm ────────────────┘
//! ```
//!
//! A culled first stage is a run of linear layers, and such a run is one linear layer. A stem with a wider filter and a stride
//! (`stem-filter=5,stem-stride=2`, three stages) takes its place for fewer bytes and a round trip less.

use super::name::Name;
use super::{Parts, ZooError};
use crate::spec::{Block, Branches, Conv, Grouping, Join, Layer, Pool, Residual, SharedSigns};

/// What the options say.
struct Signet {
    /// Comparisons of a block at each pixel, by stage; none in a culled one.
    signs: Vec<usize>,
    values_per_sign: usize,
    streams: Vec<usize>,
    depths: Vec<usize>,
    /// Stages that compare on their sums too.
    full: Vec<usize>,
    slopes: bool,
    shortcut: Shortcut,
    branches: bool,
    stem_relu: bool,
    stem_filter: usize,
    stem_stride: usize,
}

/// How a shortcut halves the map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shortcut {
    Average,
    Strided,
}

pub(super) fn build(name: &mut Name) -> Result<Parts, ZooError> {
    let signet = Signet::from_options(name)?;
    let mut stages = Vec::with_capacity(signet.signs.len());
    let mut input = signet.streams[0];
    for (stage, depth) in signet.depths.iter().enumerate() {
        let mut blocks = Vec::with_capacity(*depth);
        for number in 0..*depth {
            let stride = if stage > 0 && number == 0 { 2 } else { 1 };
            blocks.push(signet.block(stage, input, stride));
            input = signet.streams[stage];
        }
        stages.push(blocks);
    }
    let stem = Conv::new(signet.streams[0], signet.stem_filter).stride(signet.stem_stride);
    let mut stem = vec![Layer::Conv(stem), Layer::BatchNorm];
    stem.extend(signet.stem_relu.then(|| signet.activation(1)));
    Ok(Parts::pooled(stem, stages))
}

impl Signet {
    fn from_options(name: &mut Name) -> Result<Self, ZooError> {
        let signs = name.channels("signs", &[0, 16, 80, 240])?;
        let values_per_sign = name.number("values", 4)?;
        if values_per_sign == 0 {
            return Err(name.bad("values", 0, "at least 1: the leader's own"));
        }
        let streams = name.channels("stream", &[16, 64, 256, 512])?;
        let depths = name.counts("depths")?.unwrap_or_else(|| vec![2; signs.len()]);
        for (option, list) in [("stream", &streams), ("depths", &depths)] {
            if list.len() != signs.len() || list.contains(&0) {
                let expected = format!("{} numbers of at least 1, one per stage of signs", signs.len());
                return Err(name.bad(option, format!("{list:?}"), expected));
            }
        }
        let full = name.counts("full")?.unwrap_or_default();
        let compares = |stage: usize| stage > 0 && signs.get(stage - 1).is_some_and(|signs| *signs > 0);
        if let Some(stage) = full.iter().find(|stage| !compares(**stage)) {
            return Err(name.bad("full", stage, "stages that have signs, counted from 1"));
        }
        Ok(Self {
            slopes: name.choice("slopes", &[("yes", true), ("no", false)])?,
            shortcut: name
                .choice("shortcut", &[("average", Shortcut::Average), ("strided", Shortcut::Strided)])?,
            branches: name.choice("branches", &[("no", false), ("yes", true)])?,
            stem_relu: name.choice("stem-relu", &[("no", false), ("yes", true)])?,
            stem_filter: name.choice("stem-filter", &[("3", 3), ("5", 5), ("7", 7)])?,
            stem_stride: name.choice("stem-stride", &[("1", 1), ("2", 2), ("4", 4)])?,
            signs,
            values_per_sign,
            streams,
            depths,
            full,
        })
    }

    fn block(&self, stage: usize, input: usize, stride: usize) -> Block {
        let output = self.streams[stage];
        let (inner, activation) = match self.signs[stage] {
            // Without comparisons there is no reason for another width inside.
            0 => (output, None),
            signs => {
                (signs.saturating_mul(self.values_per_sign), Some(self.activation(self.values_per_sign)))
            }
        };
        let mut body = self.convolve(input, inner, stride);
        body.extend(activation);
        body.extend(self.convolve(inner, output, 1));
        let after_sum = match self.full.contains(&(stage + 1)) {
            true => vec![self.activation(1)],
            false => Vec::new(),
        };
        Block::Residual(Residual {
            before: Vec::new(),
            body,
            shortcut: self.shortcut(input, output, stride),
            after_sum,
        })
    }

    fn activation(&self, values_per_sign: usize) -> Layer {
        if values_per_sign == 1 && !self.slopes {
            return Layer::Relu;
        }
        let grouping = Grouping::Contiguous { values_per_sign };
        Layer::SharedSigns(SharedSigns { grouping, slopes: self.slopes })
    }

    /// A 3x3 convolution with its norm; with branches, beside a 1x1 convolution and, where the map stays, the map itself.
    /// All of them are linear, so freezing makes one convolution of their sum.
    fn convolve(&self, input: usize, output: usize, stride: usize) -> Vec<Layer> {
        let normed = |filter| vec![Layer::Conv(Conv::new(output, filter).stride(stride)), Layer::BatchNorm];
        if !self.branches {
            return normed(3);
        }
        let mut branches = vec![normed(3), normed(1)];
        branches.extend((input == output && stride == 1).then(|| vec![Layer::BatchNorm]));
        vec![Layer::Branches(Branches { join: Join::Sum, branches })]
    }

    fn shortcut(&self, input: usize, output: usize, stride: usize) -> Vec<Layer> {
        let pool = || Layer::AveragePool(Pool::new(stride, stride));
        match (stride, self.shortcut) {
            (1, _) if input == output => Vec::new(),
            (2, Shortcut::Average) => vec![pool(), Layer::Conv(Conv::new(output, 1)), Layer::BatchNorm],
            _ => vec![Layer::Conv(Conv::new(output, 1).stride(stride)), Layer::BatchNorm],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cost::Cost;
    use crate::zoo;

    fn cost(name: &str) -> Cost {
        Cost::of(&zoo::build(name, 32, 100).unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    /// Networks we measured: comparisons, gated values, multiply-adds.
    const MEASURED: &[(&str, u64, u64, u64)] = &[
        ("signet:values=1,stream=8+16+80+240,slopes=no,shortcut=strided", 26_112, 0, 44_535_232),
        ("signet:values=1,slopes=no,shortcut=strided", 26_112, 0, 121_276_416),
        ("signet:values=1", 26_112, 0, 121_276_416),
        ("signet:values=1,stream=16+128+384+768", 26_112, 0, 184_970_240),
        ("signet:values=1,branches=yes", 26_112, 0, 134_318_080),
        ("signet:signs=0+8+40+120,values=1,stream=16+128+384+768", 13_056, 0, 101_657_600),
        ("signet:signs=0+8+40+120", 13_056, 39_168, 229_214_208),
        ("signet:values=2", 26_112, 26_112, 229_214_208),
        ("signet", 26_112, 78_336, 445_089_792),
        ("signet:stream=8+16+80+240", 26_112, 78_336, 169_061_824),
        ("signet:signs=0+4+20+60,values=8", 6_528, 45_696, 229_214_208),
        ("signet:signs=0+2+10+30,values=16", 3_264, 48_960, 229_214_208),
    ];

    #[test]
    fn the_measured_networks_have_their_counts_to_the_unit() {
        for (name, comparisons, gated_values, macs) in MEASURED {
            let cost = cost(name);
            assert_eq!(
                (cost.relus, cost.gated_values, cost.macs),
                (*comparisons, *gated_values, *macs),
                "{name}"
            );
        }
    }

    /// Without a stream of its own a signet is the thinned HybReNet of the same channels.
    #[test]
    fn a_narrow_signet_without_slopes_is_a_thinned_hybrenet() {
        use crate::transform::Reduction;
        use crate::walk::StageIndex;
        let full = zoo::build("hrn-2x5x3x:m=8", 32, 100).unwrap();
        let stages = |stages: &[usize]| stages.iter().map(|stage| StageIndex(*stage)).collect();
        let reduction = Reduction { cull: stages(&[1]), thin: stages(&[2, 3, 4]), ..Reduction::default() };
        let hybrenet = reduction.apply(&full).unwrap();
        let signet = zoo::build(MEASURED[0].0, 32, 100).unwrap();
        assert_eq!(signet.draft().stages, hybrenet.draft().stages);
        assert_eq!(signet.draft().stem, hybrenet.draft().stem);
    }

    #[test]
    fn a_strided_stem_takes_the_place_of_a_culled_stage() {
        let whole = cost("signet:signs=0+8+40+120");
        let lean = cost("signet:signs=8+40+120,stream=64+256+512,stem-filter=5,stem-stride=2");
        assert_eq!((lean.relus, lean.gated_values), (whole.relus, whole.gated_values));
        assert!(lean.macs < whole.macs);
        let larger = "signet:signs=8+40+120,stream=64+256+512,stem-filter=7,stem-stride=4";
        let larger = Cost::of(&zoo::build(larger, 64, 100).unwrap());
        assert_eq!(
            (larger.relus, larger.gated_values),
            (lean.relus, lean.gated_values),
            "four times the pixels"
        );
    }

    #[test]
    fn a_full_stage_compares_on_its_sums_too() {
        let thinned = cost("signet");
        let full = cost("signet:full=3+4");
        assert_eq!(full.relus - thinned.relus, 2 * (256 * 64 + 512 * 16));
        assert_eq!(full.gated_values, thinned.gated_values);
        assert_eq!(cost("signet:stem-relu=yes").relus - thinned.relus, 16 * 1024);
    }

    #[test]
    fn options_that_do_not_fit_say_what_would() {
        for (name, expected) in [
            ("signet:values=0", "at least 1"),
            ("signet:stream=8+8", "4 numbers of at least 1, one per stage of signs"),
            ("signet:stream=8+0+8+8", "at least 1"),
            ("signet:depths=1+1+1", "4 numbers"),
            ("signet:full=1", "stages that have signs"),
            ("signet:full=5", "stages that have signs"),
            ("signet:signs=x", "numbers up to 65536 joined by +"),
            ("signet:slopes=maybe", "yes or no"),
            ("signet:stem-filter=4", "3 or 5 or 7"),
            ("signet:stem-stride=3", "1 or 2 or 4"),
        ] {
            let error = zoo::build(name, 32, 100).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
        assert!(zoo::build("signet:signs=60000+60000,values=60000,stream=1+1", 32, 100).is_err());
    }
}
