//! Tiny networks. Together they hold every operation and every kind of nonlinear step.

use network::inference_model::{
    Gate, ImageFormat, InferenceModel, LinearGeometry, LinearWeights, ModelOperation, ModelOutline,
    ModelStep, WeightBits,
};
use network::mask::{Bits, SiteMask};
use network::shape::Shape;
use network::spec::Pool;
use network::walk::{ConvGeometry, Part, Place, StageIndex, ValueId};

/// Steps one after the other: name, operation, inputs, shape, fraction and ring bits.
type Row = (&'static str, ModelOperation, Vec<usize>, Shape, u32, u32);

fn outline(name: &str, input: Shape, image_ring_bits: u32, logit_drop: u32, rows: Vec<Row>) -> ModelOutline {
    let count = rows.len();
    let step = |(index, (name, operation, inputs, shape, fraction, ring_bits)): (usize, Row)| {
        let part = match index {
            0 => Part::Stem,
            last if last + 1 == count => Part::Head,
            _ => Part::Stage(StageIndex(1)),
        };
        let place = Place { part, block: matches!(part, Part::Stage(_)).then_some(2) };
        let inputs = inputs.into_iter().map(ValueId).collect();
        ModelStep { name: name.to_owned(), place, operation, inputs, shape, fraction, ring_bits }
    };
    let classes = rows.last().unwrap().3.channels;
    ModelOutline {
        name: name.to_owned(),
        input,
        image: ImageFormat {
            fraction: 6,
            mean: vec![0.4914; input.channels],
            deviation: vec![0.2470; input.channels],
        },
        classes,
        class_names: (0..classes).map(|class| format!("class {class}")).collect(),
        weight_bits: WeightBits::Eight,
        logit_drop,
        steps: rows.into_iter().enumerate().map(step).collect(),
        image_ring_bits,
    }
}

/// The same small weights on every machine.
fn with_weights(outline: ModelOutline) -> InferenceModel {
    let layer = |(index, (_, geometry)): (usize, (_, LinearGeometry))| {
        let count = geometry.taps() * geometry.outputs();
        let weight = |place: usize| ((place * 37 + index * 11 + place / 5 * 3) % 61) as i16 - 30;
        let bias = |channel: usize| (channel as i64 * 613 + index as i64 * 101) % 1500 - 700;
        LinearWeights {
            weights: (0..count).map(weight).collect(),
            biases: (0..geometry.outputs()).map(bias).collect(),
        }
    };
    let layers = outline.linear_steps().enumerate().map(layer).collect();
    InferenceModel::new(outline, layers).unwrap()
}

fn conv(inputs: usize, outputs: usize, filter: usize, stride: usize, groups: usize) -> LinearGeometry {
    LinearGeometry::Conv(ConvGeometry {
        inputs,
        outputs,
        filter,
        stride,
        padding: 1,
        dilation: 1,
        groups,
        bias: true,
    })
}

fn fully_connected(inputs: usize, outputs: usize) -> LinearGeometry {
    LinearGeometry::FullyConnected { inputs, outputs }
}

/// Convolutions with stride and groups, ReLUs kept and dropped, maxima at a border, and all that is local.
pub(super) fn every_operation() -> InferenceModel {
    let linear =
        |geometry, shifts: &[u8]| ModelOperation::Linear { geometry, channel_shifts: shifts.to_vec() };
    let pixels = SiteMask::Pixels(Bits::collect((0..32).map(|place| place % 3 > 0)));
    let channels = SiteMask::Channels(Bits::collect((0..6).map(|channel| channel % 2 == 0)));
    let border = Pool { window: 2, stride: 2, padding: 1, count_padding: false };
    let inner = Pool { window: 2, stride: 1, padding: 0, count_padding: false };
    let shape = Shape::new;
    let activate = |width, shift, mask| ModelOperation::Activate { width, shift, ceiling: None, mask };
    let rows = vec![
        ("conv", linear(conv(1, 2, 3, 1, 1), &[0, 1]), vec![0], shape(2, 4, 4), 12, 20),
        ("relu", activate(18, 6, pixels), vec![1], shape(2, 4, 4), 6, 22),
        ("maximum", ModelOperation::Maximum { pool: border, width: 14 }, vec![2], shape(2, 3, 3), 6, 22),
        ("crop", ModelOperation::DropFirstRowAndColumn, vec![3], shape(2, 2, 2), 6, 22),
        ("slice", ModelOperation::Slice { start: 1, channels: 1 }, vec![4], shape(1, 2, 2), 6, 22),
        ("concat", ModelOperation::Concat { shifts: vec![0, 0] }, vec![4, 5], shape(3, 2, 2), 6, 22),
        ("grouped", linear(conv(3, 6, 2, 2, 3), &[0; 6]), vec![6], shape(6, 2, 2), 12, 22),
        ("mixed", activate(20, 7, channels), vec![7], shape(6, 2, 2), 5, 21),
        ("scaled", ModelOperation::ScalePixels { factors: vec![1, 2, 3, 1] }, vec![8], shape(6, 2, 2), 6, 21),
        ("total", ModelOperation::GlobalSum, vec![9], shape(6, 1, 1), 6, 21),
        ("pooled", ModelOperation::SumPool(inner), vec![8], shape(6, 1, 1), 5, 21),
        ("sum", ModelOperation::Add { shifts: vec![0, 1] }, vec![10, 11], shape(6, 1, 1), 6, 21),
        ("logits", linear(fully_connected(6, 3), &[0, 0, 2]), vec![12], shape(3, 1, 1), 12, 21),
    ];
    with_weights(outline("every operation", shape(1, 4, 4), 20, 4, rows))
}

/// Two layers without anything between them; ReLUs with a ceiling and without. Its rings ask for three keys, and for answers
/// that keep one prime of one, one of two, and both.
pub(super) fn two_flights() -> InferenceModel {
    let linear = |inputs, outputs| ModelOperation::Linear {
        geometry: fully_connected(inputs, outputs),
        channel_shifts: vec![0; outputs],
    };
    let clipped =
        ModelOperation::Activate { width: 30, shift: 12, ceiling: Some(100), mask: SiteMask::KeepAll };
    let relu = ModelOperation::Activate { width: 17, shift: 6, ceiling: None, mask: SiteMask::KeepAll };
    let vector = Shape::vector;
    let rows = vec![
        ("first", linear(4, 5), vec![0], vector(5), 12, 60),
        ("second", linear(5, 4), vec![1], vector(4), 18, 44),
        ("clipped", clipped, vec![2], vector(4), 6, 18),
        ("third", linear(4, 3), vec![3], vector(3), 12, 18),
        ("relu", relu, vec![4], vector(3), 6, 18),
        ("logits", linear(3, 5), vec![5], vector(5), 12, 18),
    ];
    let outline = outline("two flights", Shape::new(1, 2, 2), 60, 0, rows);
    with_weights(ModelOutline { weight_bits: WeightBits::Twelve, ..outline })
}

/// More ReLUs in a step than are worked on together, and more transfers than a block has.
pub(super) fn two_chunks() -> InferenceModel {
    let linear = |geometry, outputs| ModelOperation::Linear { geometry, channel_shifts: vec![0; outputs] };
    let relu = ModelOperation::Activate { width: 17, shift: 11, ceiling: None, mask: SiteMask::KeepAll };
    let shape = Shape::new;
    let rows = vec![
        ("conv", linear(conv(1, 9, 3, 1, 1), 9), vec![0], shape(9, 8, 8), 12, 18),
        ("relu", relu, vec![1], shape(9, 8, 8), 1, 18),
        ("total", ModelOperation::GlobalSum, vec![2], shape(9, 1, 1), 1, 18),
        ("logits", linear(fully_connected(9, 2), 2), vec![3], shape(2, 1, 1), 7, 18),
    ];
    with_weights(outline("two chunks", shape(1, 8, 8), 18, 3, rows))
}

/// Signs that several values share: groups of two sizes with slopes and signs that are not computed, then groups of one size
/// without slopes.
pub(super) fn shared_signs() -> InferenceModel {
    let linear = |geometry, outputs| ModelOperation::Linear { geometry, channel_shifts: vec![0; outputs] };
    let shape = Shape::new;
    let sloping = Gate {
        width: 18,
        shift: 6,
        groups: vec![vec![5, 0, 1], vec![2], vec![4, 3], vec![6]],
        slope_bits: 4,
        slopes: vec![3, 0, -5, 16, 1, -1, 40],
        mask: SiteMask::Pixels(Bits::collect((0..64).map(|place| place % 5 > 0))),
    };
    let groups = vec![vec![1, 0], vec![2, 3]];
    let plain =
        Gate { width: 28, shift: 14, groups, slope_bits: 0, slopes: Vec::new(), mask: SiteMask::KeepAll };
    let rows = vec![
        ("conv", linear(conv(1, 7, 3, 1, 1), 7), vec![0], shape(7, 4, 4), 12, 20),
        ("sloping", ModelOperation::Gate(sloping), vec![1], shape(7, 4, 4), 10, 30),
        ("second", linear(conv(7, 4, 3, 1, 1), 4), vec![2], shape(4, 4, 4), 16, 30),
        ("plain", ModelOperation::Gate(plain), vec![3], shape(4, 4, 4), 2, 24),
        ("total", ModelOperation::GlobalSum, vec![4], shape(4, 1, 1), 2, 24),
        ("logits", linear(fully_connected(4, 3), 3), vec![5], shape(3, 1, 1), 8, 24),
    ];
    with_weights(outline("shared signs", shape(1, 4, 4), 20, 3, rows))
}
