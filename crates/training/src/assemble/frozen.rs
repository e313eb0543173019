//! A frozen model on a device, in floats: a teacher of which nothing but its file is left.
//!
//! Every integer stands for a number: itself over two to the power of its fraction bits. Linear layers, sums and gates
//! are computed on those numbers, so shifts vanish; nothing is rounded or wrapped as in the integers.

use network::inference_model::{
    Gate, InferenceModel, LinearGeometry, LinearWeights, ModelOperation, ModelOutline, ModelStep,
};
use network::mask::SiteMask;
use network::shape::Shape;
use network::spec::Pool;
use network::walk::ValueId;
use recipes::recipe::Precision;

use super::forward::convolve;
use super::{AssembleError, NumberKinds};
use crate::tensor::{Device, Kind, Tensor, guarded};

/// A frozen model that looks at batches.
pub(crate) struct FrozenNetwork {
    outline: ModelOutline,
    steps: Vec<Computed>,
    /// The step that reads a value last; it goes afterwards.
    last_reader: Vec<usize>,
    /// From the normalization of the images to that of the model: scale and shift of each channel.
    recolor: (Tensor, Tensor),
    precision: Precision,
    device: Device,
}

/// What a step computes with; nothing where its operation says all.
enum Computed {
    Plain,
    Linear {
        weight: Tensor,
        bias: Tensor,
    },
    /// What a sum is multiplied by, for each pixel.
    Scaled(Tensor),
    /// Where values pass whatever their sign.
    Open(Option<Tensor>),
    Gate {
        leaders: Tensor,
        sign_of_channel: Tensor,
        open: Option<Tensor>,
        slopes: Option<Tensor>,
    },
}

impl FrozenNetwork {
    /// Places a model on a device, for images of a normalization.
    ///
    /// # Errors
    /// When the device has no room.
    pub(crate) fn new(
        model: &InferenceModel,
        (mean, deviation): (&[f32], &[f32]),
        precision: Precision,
        device: Device,
    ) -> Result<Self, AssembleError> {
        let outline = model.outline();
        let mut last_reader = vec![usize::MAX; outline.value_count()];
        for (index, step) in outline.steps.iter().enumerate() {
            step.inputs.iter().for_each(|input| last_reader[input.0] = index);
        }
        let place = Place { outline, kind: precision.compute_kind(), device };
        let assemble = || {
            let mut layers = model.layers().iter();
            let steps = outline.steps.iter().map(|step| place.step(step, &mut layers)).collect();
            Self {
                outline: outline.clone(),
                steps,
                last_reader,
                recolor: place.recolor(mean, deviation),
                precision,
                device,
            }
        };
        Ok(guarded(assemble)?)
    }

    pub(crate) fn outline(&self) -> &ModelOutline {
        &self.outline
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// One row of logits for each image (images, channels, rows, columns), at full precision.
    pub(crate) fn logits(&self, images: &Tensor) -> Tensor {
        let (scale, shift) = &self.recolor;
        let images = shift.addcmul(&images.to_kind(Kind::Float), scale);
        let mut values: Vec<Option<Tensor>> = (0..self.outline.value_count()).map(|_| None).collect();
        values[0] = Some(images.to_kind(self.precision.compute_kind()));
        for (index, (step, computed)) in self.outline.steps.iter().zip(&self.steps).enumerate() {
            let inputs: Vec<&Tensor> = step
                .inputs
                .iter()
                .map(|input| values[input.0].as_ref().expect("a value is kept until its last reader"))
                .collect();
            let output = apply(step, computed, &inputs);
            values[index + 1] = Some(output);
            for input in &step.inputs {
                if self.last_reader[input.0] == index {
                    values[input.0] = None;
                }
            }
        }
        let logits = values.pop().flatten().expect("the last step made the logits");
        logits.flatten(1, -1).to_kind(self.precision.master_kind())
    }
}

fn apply(step: &ModelStep, computed: &Computed, inputs: &[&Tensor]) -> Tensor {
    let input = inputs[0];
    match (&step.operation, computed) {
        (ModelOperation::Linear { geometry, .. }, Computed::Linear { weight, bias }) => {
            connect(geometry, input, weight, bias)
        }
        (ModelOperation::Add { .. }, _) => {
            inputs[1..].iter().fold(input.shallow_clone(), |sum, term| sum + *term)
        }
        (ModelOperation::Concat { .. }, _) => Tensor::cat(inputs, 1),
        (ModelOperation::Slice { start, channels }, _) => input.narrow(1, *start as i64, *channels as i64),
        (ModelOperation::DropFirstRowAndColumn, _) => {
            let Shape { height, width, .. } = step.shape;
            input.narrow(2, 1, height as i64).narrow(3, 1, width as i64)
        }
        (ModelOperation::SumPool(pool), Computed::Scaled(factor)) => {
            let sides = [pool.window as i64; 2];
            let sums = padded(input, pool, 0.0).avg_pool2d(
                sides,
                [pool.stride as i64; 2],
                [0, 0],
                false,
                true,
                1_i64,
            );
            sums * factor
        }
        (ModelOperation::GlobalSum, Computed::Scaled(factor)) => {
            input.sum_dim_intlist([2_i64, 3].as_slice(), true, None) * factor
        }
        (ModelOperation::ScalePixels { .. }, Computed::Scaled(factor)) => input * factor,
        (ModelOperation::Maximum { pool, .. }, _) => {
            let sides = [pool.window as i64; 2];
            padded(input, pool, f64::NEG_INFINITY).max_pool2d(
                sides,
                [pool.stride as i64; 2],
                [0, 0],
                [1, 1],
                false,
            )
        }
        (ModelOperation::Activate { .. }, Computed::Plain) => input.shallow_clone(),
        (ModelOperation::Activate { ceiling, .. }, Computed::Open(open)) => {
            let ceiling = ceiling.map(|ceiling| ceiling as f64 * power(-i64::from(step.fraction)));
            let positive = ceiling.map_or_else(|| input.relu(), |ceiling| input.clamp(0.0, ceiling));
            open.as_ref().map_or_else(|| positive.shallow_clone(), |open| input.where_self(open, &positive))
        }
        (ModelOperation::Gate(_), Computed::Gate { leaders, sign_of_channel, open, slopes }) => {
            let signs = input.index_select(1, leaders).ge(0.0);
            let signs = open.as_ref().map_or_else(|| signs.shallow_clone(), |open| signs.logical_or(open));
            let factor = signs.index_select(1, sign_of_channel).to_kind(input.kind());
            input * slopes.as_ref().map_or_else(|| factor.shallow_clone(), |slopes| &factor + slopes)
        }
        _ => unreachable!("every step was placed by its operation"),
    }
}

fn connect(geometry: &LinearGeometry, input: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    match geometry {
        LinearGeometry::Conv(conv) => convolve(input, conv, weight, Some(bias)),
        LinearGeometry::FullyConnected { outputs, .. } => {
            input.flatten(1, -1).linear(weight, Some(bias)).view([-1, *outputs as i64, 1, 1])
        }
    }
}

/// A map with something around it. The library's own padding of windows ends at half of them.
fn padded(input: &Tensor, pool: &Pool, value: f64) -> Tensor {
    match pool.padding as i64 {
        0 => input.shallow_clone(),
        padding => input.pad([padding; 4], "constant", value),
    }
}

/// Where and how numbers are placed.
struct Place<'a> {
    outline: &'a ModelOutline,
    kind: Kind,
    device: Device,
}

impl Place<'_> {
    fn step<'l>(&self, step: &ModelStep, layers: &mut impl Iterator<Item = &'l LinearWeights>) -> Computed {
        // What an integer of the input is worth in units of the output.
        let added = |value: ValueId| i64::from(self.outline.fraction(value)) - i64::from(step.fraction);
        match &step.operation {
            ModelOperation::Linear { geometry, channel_shifts } => {
                let layer = layers.next().expect("a model has weights for each linear step");
                let scales: Vec<f64> = channel_shifts
                    .iter()
                    .map(|shift| power(added(step.inputs[0]) + i64::from(*shift)))
                    .collect();
                self.linear(geometry, layer, &scales, step.fraction)
            }
            ModelOperation::SumPool(_) | ModelOperation::GlobalSum => {
                Computed::Scaled(self.numbers(&[power(added(step.inputs[0])) as f32], &[1]))
            }
            ModelOperation::ScalePixels { factors } => {
                let unit = power(added(step.inputs[0]));
                let factors: Vec<f32> =
                    factors.iter().map(|factor| (f64::from(*factor) * unit) as f32).collect();
                let Shape { height, width, .. } = step.shape;
                Computed::Scaled(self.numbers(&factors, &[1, 1, height as i64, width as i64]))
            }
            // A rescaling that no ReLU asked for.
            ModelOperation::Activate { mask: SiteMask::DropAll, .. } => Computed::Plain,
            ModelOperation::Activate { mask, .. } => Computed::Open(self.open(mask, step.shape)),
            ModelOperation::Gate(gate) => self.gate(gate, step.shape),
            _ => Computed::Plain,
        }
    }

    fn linear(
        &self,
        geometry: &LinearGeometry,
        layer: &LinearWeights,
        scales: &[f64],
        fraction: u32,
    ) -> Computed {
        let rows = layer.weights.chunks_exact(geometry.taps()).zip(scales);
        let weights: Vec<f32> = rows
            .flat_map(|(row, scale)| row.iter().map(move |weight| (f64::from(*weight) * scale) as f32))
            .collect();
        let unit = power(-i64::from(fraction));
        let biases: Vec<f32> = layer.biases.iter().map(|bias| (*bias as f64 * unit) as f32).collect();
        let outputs = geometry.outputs() as i64;
        let weight = match geometry {
            LinearGeometry::Conv(conv) => {
                let (inputs, side) = ((conv.inputs / conv.groups) as i64, conv.filter as i64);
                let planes = self.numbers(&weights, &[outputs, inputs, side, side]);
                // Channels innermost, as in the images that come.
                planes.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2])
            }
            LinearGeometry::FullyConnected { inputs, .. } => {
                self.numbers(&weights, &[outputs, *inputs as i64])
            }
        };
        Computed::Linear { weight, bias: self.numbers(&biases, &[outputs]) }
    }

    fn gate(&self, gate: &Gate, shape: Shape) -> Computed {
        let mut sign_of_channel = vec![0; shape.channels];
        for (sign, group) in gate.groups.iter().enumerate() {
            group.iter().for_each(|channel| sign_of_channel[*channel] = sign as i64);
        }
        let leaders: Vec<i64> = gate.groups.iter().map(|group| group[0] as i64).collect();
        let unit = power(-i64::from(gate.slope_bits)) as f32;
        let slopes: Vec<f32> = gate.slopes.iter().map(|slope| f32::from(*slope) * unit).collect();
        Computed::Gate {
            leaders: self.device.integers(&leaders, &[leaders.len() as i64]),
            sign_of_channel: self.device.integers(&sign_of_channel, &[shape.channels as i64]),
            open: self.open(&gate.mask, gate.comparisons(shape)),
            slopes: (!slopes.is_empty()).then(|| self.numbers(&slopes, &[1, shape.channels as i64, 1, 1])),
        }
    }

    /// Where a mask lets values pass, as truth values over (1, channels, rows, columns); nothing where it never does.
    fn open(&self, mask: &SiteMask, shape: Shape) -> Option<Tensor> {
        let Shape { channels, height, width } = shape;
        let dropped = super::activation::dropped(mask, shape);
        let sides = [1, channels as i64, height as i64, width as i64];
        (*mask != SiteMask::KeepAll).then(|| self.device.bytes(&dropped, &sides).to_kind(Kind::Bool))
    }

    fn recolor(&self, mean: &[f32], deviation: &[f32]) -> (Tensor, Tensor) {
        let format = &self.outline.image;
        let channels = mean.len() as i64;
        let scale: Vec<f32> =
            deviation.iter().zip(&format.deviation).map(|(theirs, ours)| theirs / ours).collect();
        let shift = mean.iter().zip(&format.mean).zip(&format.deviation);
        let shift: Vec<f32> = shift.map(|((theirs, ours), deviation)| (theirs - ours) / deviation).collect();
        let row = |values: &[f32]| self.device.floats(values, &[1, channels, 1, 1]);
        (row(&scale), row(&shift))
    }

    fn numbers(&self, values: &[f32], shape: &[i64]) -> Tensor {
        self.device.floats(values, shape).to_kind(self.kind)
    }
}

fn power(exponent: i64) -> f64 {
    2_f64.powi(exponent as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::Pixels;
    use crate::tensor::{no_grad, to_floats};
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::mask::{ActivationMask, Bits};
    use network::spec::NetworkSpec;
    use network::weights::FloatWeights;
    use network::{reference, zoo};

    const SIDE: usize = 32;
    const IMAGES: usize = 3;

    fn images(shape: Shape) -> Vec<Image> {
        (0..IMAGES as u64).map(|seed| Image::random(shape, seed)).collect()
    }

    /// Every third ReLU of every site goes.
    fn masked(spec: &NetworkSpec) -> ActivationMask {
        let site = |scalars: u64| SiteMask::Pixels(Bits::collect((0..scalars).map(|index| index % 3 != 0)));
        let sites = spec.walk().sites().iter().map(|it| site(it.shape.scalars()));
        ActivationMask::new(spec, sites.collect()).unwrap()
    }

    fn frozen(name: &str, has_mask: bool) -> InferenceModel {
        let spec = zoo::build(name, SIDE, 7).unwrap();
        let mask = has_mask.then(|| masked(&spec));
        let images = images(Shape::image(SIDE));
        freeze(&spec, &FloatWeights::random(&spec, 3), mask.as_ref(), &images, &options()).unwrap().0
    }

    fn options() -> FreezeOptions {
        FreezeOptions { activation_bits: 16, logit_bits: 24, ..FreezeOptions::default() }
    }

    /// What the model says of the images when the data set has a normalization of its own.
    fn logits(model: &InferenceModel, precision: Precision) -> Vec<f32> {
        let (mean, deviation) = ([0.1, 0.5, 0.3], [0.2, 0.3, 0.5]);
        let shape = model.outline().input;
        let bytes: Vec<u8> = images(shape).iter().flat_map(|image| image.pixels().to_vec()).collect();
        let pixels = Pixels::new(&bytes, shape, &mean, &deviation, Device::Cpu);
        let network = FrozenNetwork::new(model, (&mean, &deviation), precision, Device::Cpu).unwrap();
        to_floats(&no_grad(|| network.logits(&pixels.range(0, IMAGES as i64))))
    }

    fn expected(model: &InferenceModel) -> Vec<f32> {
        let unit = power(-model.outline().logit_fraction());
        let run = |image: &Image| reference::run(model, image).unwrap();
        images(model.outline().input).iter().flat_map(run).map(|logit| (logit as f64 * unit) as f32).collect()
    }

    /// The largest difference, over the range of what was expected.
    fn distance(came: &[f32], expected: &[f32]) -> f32 {
        assert_eq!(came.len(), expected.len());
        let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(f32::MIN, f32::max);
        let range =
            largest(&mut expected.iter().copied()) + largest(&mut expected.iter().map(|value| -value));
        largest(&mut came.iter().zip(expected).map(|(came, expected)| (came - expected).abs())) / range
    }

    #[test]
    fn a_frozen_model_in_floats_says_what_its_integers_say() {
        let networks = [
            ("resnet10:m=4", true),
            ("hrn-2x5x3x:m=2", false),
            ("wrn-16x1", false),
            ("vgg11", false),
            ("mobilenetv2", true),
            ("sphynx:c=2,d=3", false),
        ];
        for (name, has_mask) in networks {
            let model = frozen(name, has_mask);
            let distance = distance(&logits(&model, Precision::F32), &expected(&model));
            // The integers round the image, too.
            assert!(distance < 0.02, "{name}: {distance}");
        }
    }

    #[test]
    fn what_came_from_onnx_says_what_its_integers_say() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/onnx_model");
        let mut tried = 0;
        for entry in std::fs::read_dir(seeds).unwrap() {
            let path = entry.unwrap().path();
            let network = onnx::import_file(&path, &onnx::ImportOptions::default()).unwrap().network;
            let images = images(network.input());
            let model = freeze(&network, network.weights(), None, &images, &options()).unwrap().0;
            let distance = distance(&logits(&model, Precision::F32), &expected(&model));
            assert!(distance < 0.02, "{}: {distance}", path.display());
            tried += 1;
        }
        assert!(tried >= 10, "{tried}");
    }

    #[test]
    fn gates_pass_by_their_leaders_masks_and_slopes() {
        for (name, has_mask) in [
            ("signet:signs=0+2+3,values=4,stream=4+6+8,depths=1+1+1", true),
            ("signet:signs=2+4,values=2,stream=4+6,depths=1+1", false),
        ] {
            let model = frozen(name, has_mask);
            let has_gates =
                model.outline().steps.iter().any(|it| matches!(it.operation, ModelOperation::Gate(_)));
            assert!(has_gates, "{name}");
            // A leader that is almost zero may fall on the other side, so the mean is compared.
            let (came, expected) = (logits(&model, Precision::F32), expected(&model));
            let differences = came.iter().zip(&expected).map(|(came, expected)| (came - expected).abs());
            let sizes: f32 = expected.iter().map(|value| value.abs()).sum();
            let share = differences.sum::<f32>() / sizes;
            assert!(share < 0.02, "{name}: {share}");
        }
    }

    #[test]
    fn in_short_numbers_it_is_near() {
        let model = frozen("resnet10:m=4", false);
        let distance = distance(&logits(&model, Precision::Bf16), &expected(&model));
        assert!(distance < 0.05, "{distance}");
    }
}
