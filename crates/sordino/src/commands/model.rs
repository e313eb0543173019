//! A frozen model: read from a file, or made from a network with given or random weights, or from an ONNX file.

mod imported;

use std::cell::OnceCell;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use network::cost::Cost;
use network::freeze::{FreezeOptions, FreezeReport, OutlineDetail, freeze};
use network::image::{Image, Normalization};
use network::inference_model::{ImageFormat, InferenceModel, WeightBits};
use network::mask::ActivationMask;
use network::reference::float;
use network::spec::NetworkSpec;
use network::transform::Reduction;
use network::walk::Network;
use network::weights::{FloatWeights, NamesMap, UnusedTensors};
use onnx::Imported;
use recipes::method::ReluBudget;
use serde::Serialize;

pub(super) use imported::{baseline_relus, is_onnx_file};

use super::budget::relu_budget;
use super::load::NetworkArguments;
use super::reduce::ReductionArguments;
use crate::image_files;
use crate::report::{counted, path_as_text, path_text};

/// Random images that fix the scales where no others are given.
const CALIBRATION_IMAGES: u64 = 8;
/// The seed of the first image to try a model on, beyond those of calibration.
const FIRST_TRIAL_SEED: u64 = 1000;

const DEFAULT_WEIGHT_BITS: u8 = 8;
/// The longest file of class names.
const MAX_CLASS_NAMES_BYTES: u64 = 1 << 22;

/// A model file, or a network to freeze.
#[derive(Debug, Args)]
pub(super) struct ModelArguments {
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    reduction: ReductionArguments,
    /// Keep so many ReLUs, such as 50000, 50K or 25%, drawn uniformly over all sites but the stem; the others become the identity.
    #[arg(long, value_name = "COUNT", conflicts_with = "mask", value_parser = relu_budget)]
    relus: Option<ReluBudget>,
    /// Keep the ReLUs that this mask file keeps.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// Weights from this safetensors file instead of random ones.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// What the file calls each layer: a TOML map, or `torchvision-resnet18`.
    #[arg(long, value_name = "MAP", requires = "weights")]
    names: Option<String>,
    /// Pass over tensors of the file that no layer uses, instead of refusing it.
    #[arg(long, requires = "weights")]
    ignore_unused: bool,
    /// Seed of random weights and masks.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// How much the outline, which the client sees, tells about weights and data.
    #[arg(long, value_enum, default_value_t = Outline::Fine)]
    outline: Outline,
    /// Bits of a weight: 8 or 12.
    #[arg(long, default_value_t = DEFAULT_WEIGHT_BITS, value_name = "BITS")]
    weight_bits: u8,
    /// Bits of an activation, 2 to 24. More of them cost a few per cent each and bring private logits closer to plain ones
    /// [default: 10].
    #[arg(long, value_name = "BITS")]
    activation_bits: Option<u32>,
    /// The widest ring, 24 to 62 bits. Narrow rings make linear layers cheap; long runs of them pay with round trips.
    #[arg(long, default_value_t = FreezeOptions::default().widest_ring_bits, value_name = "BITS")]
    max_ring_bits: u32,
    /// How many times larger than on the calibration images values may become; larger ones wrap. Each doubling widens rings by
    /// one bit.
    #[arg(long, default_value_t = FreezeOptions::default().margin, value_name = "FACTOR")]
    margin: f32,
    /// Fix the scales on the images of this folder (PNG, JPEG, WebP, GIF, BMP, TIFF) instead of random ones; trained weights want
    /// images of the kind they were trained on.
    #[arg(long, value_name = "DIR")]
    calibrate: Option<PathBuf>,
    /// What training subtracted from each channel, in the unit interval [default: CIFAR-10's].
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    mean: Option<Vec<f32>>,
    /// What training divided each channel by [default: CIFAR-10's].
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    deviation: Option<Vec<f32>>,
    /// Names of the classes, one per line, in the order of the logits; clients see them. Without --classes there are
    /// as many classes as names.
    #[arg(long, value_name = "FILE")]
    class_names: Option<PathBuf>,
    /// The network of the ONNX file, once it was read.
    #[arg(skip)]
    imported: OnceCell<Imported>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Outline {
    /// A scale per channel and the narrowest widths: the cheapest.
    Fine,
    /// One scale per layer, magnitudes known only to a factor of 16.
    Coarse,
}

impl ModelArguments {
    /// Reads the model, or freezes the network; what freezing did comes along.
    pub(super) fn load_or_freeze(&self) -> anyhow::Result<(InferenceModel, Option<FreezeReport>)> {
        match self.file() {
            Some(path) => Ok((self.load(path)?, None)),
            None => self.freeze().map(|(model, report)| (model, Some(report))),
        }
    }

    /// The model file that was named, if one was.
    pub(super) fn file(&self) -> Option<&Path> {
        let path = Path::new(self.network.name());
        is_model_file(path).then_some(path)
    }

    /// The folder that was named, if one was: a run, or a checkpoint of one.
    pub(super) fn checkpoint(&self) -> Option<&Path> {
        let path = Path::new(self.network.name());
        path.is_dir().then_some(path)
    }

    /// The folder of images that fix the scales, where one was named.
    pub(super) fn calibrate(&self) -> Option<&Path> {
        self.calibrate.as_deref()
    }

    /// Whether bits of activations were asked for.
    pub(super) fn says_activation_bits(&self) -> bool {
        self.activation_bits.is_some()
    }

    /// Whether anything was asked for that models and checkpoints have fixed.
    pub(super) fn changes_network(&self) -> bool {
        self.changes_trained() || self.calibrate.is_some()
    }

    /// Whether anything was asked for that cannot change when a model is frozen anew.
    pub(super) fn changes_frozen(&self) -> bool {
        self.changes_trained() || self.weight_bits != DEFAULT_WEIGHT_BITS
    }

    fn changes_trained(&self) -> bool {
        self.reduction.reduction() != Reduction::default()
            || self.network.changes_size()
            || self.relus.is_some()
            || self.mask.is_some()
            || self.weights.is_some()
            || self.mean.is_some()
            || self.deviation.is_some()
            || self.class_names.is_some()
    }

    /// Reads a model, which can no longer be changed.
    fn load(&self, path: &Path) -> anyhow::Result<InferenceModel> {
        if self.changes_network() || self.freeze_options()? != FreezeOptions::default() {
            bail!(
                "{} is frozen: its size, ReLUs and weights are fixed; name the network it came from instead",
                path.display()
            );
        }
        InferenceModel::load(path).with_context(|| format!("{} is not usable", path.display()))
    }

    /// The network as named.
    pub(super) fn baseline(&self) -> anyhow::Result<NetworkSpec> {
        match &self.class_names {
            None => self.network.load(),
            Some(path) => self.network.load_for(Some(read_class_names(path)?.len())),
        }
    }

    /// The network after its ReLUs were dropped.
    pub(super) fn reduced(&self, baseline: &NetworkSpec) -> anyhow::Result<NetworkSpec> {
        self.reduction.refuse_sites()?;
        Ok(self.reduction.reduction().apply(baseline)?)
    }

    /// Which ReLUs stay, where not all do.
    pub(super) fn mask(&self, network: &dyn Network) -> anyhow::Result<Option<ActivationMask>> {
        match (&self.mask, self.relus) {
            (Some(path), _) => Ok(Some(ActivationMask::from_file(path, network)?)),
            (None, Some(budget)) => {
                let count = match budget {
                    ReluBudget::Count(count) => count,
                    part => part.resolve(network.name(), Cost::of(network).counts())?,
                };
                Ok(Some(ActivationMask::random(network, count, self.seed)?))
            }
            (None, None) => Ok(None),
        }
    }

    /// Where the weights come from.
    pub(super) fn origin(&self) -> Origin {
        if let Some(path) = self.onnx() {
            return imported::origin(path, self.calibrate.is_some());
        }
        match (self.file(), &self.weights) {
            (Some(_), _) => Origin::Model,
            (None, Some(path)) => {
                Origin::File { path: path.clone(), is_calibrated: self.calibrate.is_some() }
            }
            (None, None) => Origin::Random { seed: self.seed },
        }
    }

    /// Freezes the network with given or random weights.
    pub(super) fn freeze(&self) -> anyhow::Result<(InferenceModel, FreezeReport)> {
        if let Some(path) = self.onnx() {
            return self.freeze_onnx(path);
        }
        let spec = self.reduced(&self.baseline()?)?;
        let weights = self.weights_for(&spec)?;
        let mask = self.mask(&spec)?;
        let images = self.calibration_images(&spec)?;
        let class_names = self.read_class_names()?;
        let image = self.normalization().format(spec.draft().input.channels)?;
        if self.weights.is_some() && !self.normalization().is_complete() {
            eprintln!(
                "note: {}; what was not given is CIFAR-10's where there are three channels: name what your network was \
                 trained with (--mean, --deviation)",
                normalization_text(&image.mean, &image.deviation)
            );
        }
        let options = FreezeOptions { class_names, image: Some(image), ..self.freeze_options()? };
        Ok(freeze(&spec, &weights, mask.as_ref(), &images, &options)?)
    }

    fn read_class_names(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.class_names.as_deref().map(read_class_names).transpose()?.unwrap_or_default())
    }

    /// The logits of the network in floating point; nothing for a model, which has integers alone.
    pub(super) fn float_logits(
        &self,
        format: &ImageFormat,
        images: &[Image],
    ) -> anyhow::Result<Option<Vec<Vec<f32>>>> {
        let run = |network: &dyn Network, weights: &FloatWeights, mask: Option<&ActivationMask>| {
            let logits = |image: &Image| {
                let trace = float::run(network, weights, mask, &format.normalize(image))?;
                Ok(trace.logits().to_vec())
            };
            images.iter().map(logits).collect::<anyhow::Result<Vec<_>>>().map(Some)
        };
        if self.file().is_some() {
            return Ok(None);
        }
        if let Some(path) = self.onnx() {
            let network = &self.import(path)?.network;
            return run(network, network.weights(), self.imported_mask(network)?.as_ref());
        }
        let spec = self.reduced(&self.baseline()?)?;
        run(&spec, &self.weights_for(&spec)?, self.mask(&spec)?.as_ref())
    }

    fn unused(&self) -> UnusedTensors {
        if self.ignore_unused { UnusedTensors::Ignore } else { UnusedTensors::Refuse }
    }

    fn weights_for(&self, spec: &NetworkSpec) -> anyhow::Result<FloatWeights> {
        match &self.weights {
            None => Ok(FloatWeights::random(spec, self.seed)),
            Some(path) => FloatWeights::from_safetensors_file(spec, &self.names_map()?, path, self.unused())
                .with_context(|| format!("{} is not usable", path.display())),
        }
    }

    /// Bits of weights and activations and detail of the outline, as asked for.
    pub(super) fn freeze_options(&self) -> anyhow::Result<FreezeOptions> {
        let weight_bits = match self.weight_bits {
            8 => WeightBits::Eight,
            12 => WeightBits::Twelve,
            bits => bail!("weights of {bits} bits are not supported; choose 8 or 12"),
        };
        let outline = match self.outline {
            Outline::Fine => OutlineDetail::Fine,
            Outline::Coarse => OutlineDetail::Coarse,
        };
        let usual = FreezeOptions::default();
        let activation_bits = self.activation_bits.unwrap_or(usual.activation_bits);
        Ok(FreezeOptions {
            weight_bits,
            activation_bits,
            outline,
            widest_ring_bits: self.max_ring_bits,
            margin: self.margin,
            ..usual
        })
    }

    /// What the scales are fixed on.
    pub(super) fn calibration(&self) -> Calibration {
        match &self.calibrate {
            Some(path) => Calibration::Folder { path: path.clone() },
            None => Calibration::Random,
        }
    }

    fn calibration_images(&self, spec: &NetworkSpec) -> anyhow::Result<Vec<Image>> {
        let input = spec.draft().input;
        match &self.calibrate {
            Some(folder) => Ok(image_files::load_images(folder, input, None)?),
            None => Ok((0..CALIBRATION_IMAGES).map(|number| Image::random(input, number)).collect()),
        }
    }

    fn normalization(&self) -> Normalization {
        Normalization { mean: self.mean.clone(), deviation: self.deviation.clone() }
    }

    fn names_map(&self) -> anyhow::Result<NamesMap> {
        match self.names.as_deref() {
            None => Ok(NamesMap::default()),
            Some("torchvision-resnet18") => Ok(NamesMap::torchvision_resnet18()),
            Some(path) => {
                NamesMap::from_file(Path::new(path)).with_context(|| format!("{path} is not usable"))
            }
        }
    }
}

/// Where a model's weights come from.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub(super) enum Origin {
    /// A model that was frozen before.
    Model,
    /// A safetensors file.
    File {
        #[serde(serialize_with = "path_as_text")]
        path: PathBuf,
        is_calibrated: bool,
    },
    /// An ONNX file.
    Onnx {
        #[serde(serialize_with = "path_as_text")]
        path: PathBuf,
        is_calibrated: bool,
    },
    /// A run of training.
    Checkpoint {
        #[serde(serialize_with = "path_as_text")]
        path: PathBuf,
        epoch: u32,
        digest: String,
    },
    /// Nowhere: good for measuring, but not for classifying.
    Random { seed: u64 },
}

impl Origin {
    /// What the user must know about these weights, if anything.
    pub(super) fn warning(&self) -> Option<String> {
        match self {
            Self::Random { seed } => Some(format!(
                "random weights (seed {seed}), good for benchmarks alone: the model knows no classes, and its \
                 scales are those of random weights; --weights FILE takes trained ones"
            )),
            Self::File { is_calibrated: false, .. } | Self::Onnx { is_calibrated: false, .. } => Some(
                "scales were calibrated on random images; trained weights want images of the kind they were \
                 trained on: --calibrate DIR takes them"
                    .to_owned(),
            ),
            Self::File { .. } | Self::Onnx { .. } | Self::Checkpoint { .. } | Self::Model => None,
        }
    }
}

/// What the scales of a model were fixed on.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub(super) enum Calibration {
    /// Random images, the same each time.
    Random,
    /// Image files.
    Folder {
        #[serde(serialize_with = "path_as_text")]
        path: PathBuf,
    },
    /// Images that the network learned from.
    Training { data: String },
}

impl Calibration {
    /// So many of these images.
    pub(super) fn of(&self, images: usize) -> String {
        let images = |kind| counted(images as u64, kind);
        match self {
            Self::Random => images("random image"),
            Self::Folder { path } => format!("{} of {}", images("image"), path_text(path)),
            Self::Training { data } => format!("{} of {data}", images("training image")),
        }
    }
}

/// One name per line; blank lines at the end are none. More than any list of classes has is not read.
fn read_class_names(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_CLASS_NAMES_BYTES + 1).read_to_string(&mut text))
        .with_context(|| {
            format!("cannot read {}; expected UTF-8 text, one class name per line", path.display())
        })?;
    if text.len() as u64 > MAX_CLASS_NAMES_BYTES {
        bail!("{} has more than {MAX_CLASS_NAMES_BYTES} bytes, too many for class names", path.display());
    }
    let names: Vec<String> = text.trim_end().lines().map(|line| line.trim().to_owned()).collect();
    if names.is_empty() {
        bail!("{} is empty; expected one class name per line", path.display());
    }
    if let Some(class) = names.iter().position(String::is_empty) {
        let line = class + 1;
        bail!(
            "line {line} of {} is blank; expected a name for class {class} there, or no such line",
            path.display()
        );
    }
    if let Some(class) = names.iter().position(|name| name.contains(char::is_control)) {
        let line = class + 1;
        bail!(
            "the name in line {line} of {} has control characters; expected text that a terminal shows as it is",
            path.display()
        );
    }
    Ok(names)
}

/// What becomes of pixels.
pub(super) fn normalization_text(mean: &[f32], deviation: &[f32]) -> String {
    let [mean, deviation] =
        [mean, deviation].map(|numbers| numbers.iter().map(f32::to_string).collect::<Vec<_>>().join(", "));
    format!("pixels from 0 to 1 are normalized with mean {mean} and deviation {deviation}")
}

/// Whether a name is that of a model file, which verbs tell from networks by `.sordino`.
pub(super) fn is_model_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "sordino")
}

/// The n-th random image to try a model on; none of them was used to calibrate.
pub(super) fn trial_image(model: &InferenceModel, number: u64) -> Image {
    Image::random(model.outline().input, FIRST_TRIAL_SEED + number)
}
