//! A frozen model: read from a file, or made from a network with given or random weights.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use network::freeze::{FreezeOptions, FreezeReport, OutlineDetail, freeze};
use network::image::Image;
use network::inference_model::{InferenceModel, WeightBits};
use network::mask::{ActivationMask, Bits, SiteMask};
use network::spec::NetworkSpec;
use network::walk::Part;
use network::weights::{FloatWeights, NamesMap};

use super::load::NetworkArguments;
use super::reduce::ReductionArguments;

/// Images that fix the scales of a model with random weights.
const CALIBRATION_IMAGES: u64 = 8;

/// A model file, or a network to freeze.
#[derive(Debug, Args)]
pub(super) struct ModelArguments {
    #[command(flatten)]
    network: NetworkArguments,
    #[command(flatten)]
    reduction: ReductionArguments,
    /// Keep so many ReLUs, drawn uniformly over all sites but the stem; the others become the identity.
    #[arg(long, value_name = "COUNT", conflicts_with = "mask")]
    relus: Option<u64>,
    /// Keep the ReLUs that this mask file keeps.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// Weights from this safetensors file instead of random ones.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// What the file calls each layer: a TOML map, or `torchvision-resnet18`.
    #[arg(long, value_name = "MAP", requires = "weights")]
    names: Option<String>,
    /// Seed of random weights and masks.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// How much the outline, which the client sees, tells about weights and data.
    #[arg(long, value_enum, default_value_t = Outline::Fine)]
    outline: Outline,
    /// Bits of a weight: 8 or 12.
    #[arg(long, default_value_t = 8, value_name = "BITS")]
    weight_bits: u8,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Outline {
    /// A scale per channel and the narrowest widths: the cheapest.
    Fine,
    /// One scale per layer, magnitudes known only to a factor of 16.
    Coarse,
}

impl ModelArguments {
    /// Reads the model, or freezes the network.
    pub(super) fn load_or_freeze(&self) -> anyhow::Result<InferenceModel> {
        match self.file() {
            Some(path) => {
                InferenceModel::load(path).with_context(|| format!("{} is not usable", path.display()))
            }
            None => Ok(self.freeze()?.0),
        }
    }

    /// The model file that was named, if one was.
    fn file(&self) -> Option<&Path> {
        let path = Path::new(self.network.name());
        (path.extension().is_some_and(|extension| extension == "sordino")).then_some(path)
    }

    /// The network after its ReLUs were dropped.
    pub(super) fn spec(&self) -> anyhow::Result<NetworkSpec> {
        Ok(self.reduction.reduction().apply(&self.network.load()?)?)
    }

    /// Freezes the network with given or random weights.
    pub(super) fn freeze(&self) -> anyhow::Result<(InferenceModel, FreezeReport)> {
        let spec = self.spec()?;
        let weights = match &self.weights {
            None => FloatWeights::random(&spec, self.seed),
            Some(path) => FloatWeights::from_safetensors_file(&spec, &self.names_map()?, path)
                .with_context(|| format!("{} is not usable", path.display()))?,
        };
        let mask = match (&self.mask, self.relus) {
            (Some(path), _) => Some(load_mask(path, &spec)?),
            (None, Some(count)) => Some(random_mask(&spec, count, self.seed)?),
            (None, None) => None,
        };
        let weight_bits = match self.weight_bits {
            8 => WeightBits::Eight,
            12 => WeightBits::Twelve,
            bits => bail!("weights of {bits} bits are not supported; choose 8 or 12"),
        };
        let images: Vec<_> =
            (0..CALIBRATION_IMAGES).map(|number| Image::random(spec.draft().input, number)).collect();
        let outline = match self.outline {
            Outline::Fine => OutlineDetail::Fine,
            Outline::Coarse => OutlineDetail::Coarse,
        };
        let options = FreezeOptions { weight_bits, outline, ..FreezeOptions::default() };
        Ok(freeze(&spec, &weights, mask.as_ref(), &images, &options)?)
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

/// Reads no more than a mask of this network can have: a device never ends.
pub(super) fn load_mask(path: &Path, spec: &NetworkSpec) -> anyhow::Result<ActivationMask> {
    let limit = ActivationMask::max_file_bytes(spec);
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > limit {
        bail!("{} has more than {limit} bytes, too many for a mask of {}", path.display(), spec.name());
    }
    ActivationMask::from_bytes(&bytes, spec).with_context(|| format!("{} is not usable", path.display()))
}

/// Keeps exactly `count` ReLUs, every choice of them over all sites but the stem being equally likely.
fn random_mask(spec: &NetworkSpec, count: u64, seed: u64) -> anyhow::Result<ActivationMask> {
    let sites = spec.walk().sites();
    let mut left: u64 =
        sites.iter().filter(|site| site.place.part != Part::Stem).map(|site| site.shape.scalars()).sum();
    if count > left {
        bail!("{count} ReLUs were asked for; {} has {left} outside its stem", spec.name());
    }
    let mut wanted = count;
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut uniform = move || {
        // SplitMix64: a mask for a benchmark is no secret.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    };
    let masks = sites.iter().map(|site| {
        if site.place.part == Part::Stem {
            return SiteMask::DropAll;
        }
        SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|_| {
            let keeps = uniform() % left < wanted;
            left -= 1;
            wanted -= u64::from(keeps);
            keeps
        })))
    });
    Ok(ActivationMask::new(spec, masks.collect())?)
}
