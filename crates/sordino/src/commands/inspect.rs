//! `sordino inspect NETWORK`: what a network costs, before or after ReLUs are dropped.

mod report;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use network::cost::Cost;
use network::mask::ActivationMask;
use network::spec::NetworkSpec;
use network::transform::{Reduction, Reuse, ReuseLayout, ReuseScope, StemRule, ThinChoice};
use network::walk::StageIndex;

use super::load::NetworkArguments;
use super::{Answer, write_json};
use report::Report;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    network: NetworkArguments,
    /// Drop every ReLU of these stages (DeepReDuce), such as 1,4.
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    cull: Vec<usize>,
    /// Drop every other ReLU layer of these stages (DeepReDuce), such as 2,3.
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    thin: Vec<usize>,
    /// Which ReLU of a block goes when its stage is thinned.
    #[arg(long, value_enum, default_value_t = Thinning::AfterSum)]
    thin_drops: Thinning,
    /// Keep only the first block of these stages (`*` in DeepReDuce).
    #[arg(long, value_delimiter = ',', value_name = "STAGES")]
    single_block: Vec<usize>,
    /// Multiply the channels of stem and stages (alpha).
    #[arg(long, value_name = "FACTOR")]
    width: Option<f64>,
    /// Multiply the resolution of all feature maps (rho); 0.5 gives the first convolution stride 2.
    #[arg(long, value_name = "FACTOR")]
    resolution: Option<f64>,
    /// Apply ReLUs to one N-th of the channels (ReLU-reuse, DeepReShape).
    #[arg(long, value_name = "N")]
    reuse: Option<usize>,
    /// How ReLU-reuse divides the channels.
    #[arg(long, value_enum, default_value_t = Layout::Three)]
    reuse_groups: Layout,
    /// Which ReLU layers ReLU-reuse replaces.
    #[arg(long, value_enum, default_value_t = Scope::Block)]
    reuse_scope: Scope,
    /// Drop the ReLUs of the stem.
    #[arg(long, conflicts_with = "keep_stem")]
    drop_stem: bool,
    /// Keep the ReLUs of the stem also where stages are culled or thinned.
    #[arg(long)]
    keep_stem: bool,
    /// Count only the ReLUs that this mask file keeps.
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,
    /// How finely to list.
    #[arg(long, value_enum, default_value_t = Detail::Stage)]
    by: Detail,
    /// Write the resulting network as TOML that can be edited and inspected again.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Thinning {
    /// The one after the addition, as in the papers' models.
    AfterSum,
    /// The one between the convolutions.
    Inner,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Layout {
    /// Three groups whatever N is: the proposed form.
    Three,
    /// N groups, each on its own.
    Equal,
    /// N groups, each fed by the one before.
    EqualShortcut,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// The ReLU between the two convolutions of each block.
    Block,
    /// Every ReLU layer of stem and stages.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Detail {
    /// Stem, stages, head.
    Stage,
    /// Every block.
    Block,
    /// Every operation.
    Layer,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let baseline = arguments.network.load()?;
    let spec = arguments.reduction().apply(&baseline)?;
    if let Some(path) = &arguments.export {
        std::fs::write(path, spec.to_toml()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mask = arguments.mask.as_deref().map(|path| load_mask(path, &spec)).transpose()?;
    let report = Report::new(&spec, mask.as_ref(), arguments.by);
    if arguments.json {
        return write_json(out, &report);
    }
    report.write(out, Cost::of(&baseline).relus)?;
    Ok(Answer::Yes)
}

impl Arguments {
    fn reduction(&self) -> Reduction {
        let stages = |numbers: &[usize]| numbers.iter().copied().map(StageIndex).collect();
        Reduction {
            width: self.width,
            resolution: self.resolution,
            single_block: stages(&self.single_block),
            cull: stages(&self.cull),
            thin: stages(&self.thin),
            thin_choice: match self.thin_drops {
                Thinning::AfterSum => ThinChoice::AfterSum,
                Thinning::Inner => ThinChoice::Inner,
            },
            stem: match (self.drop_stem, self.keep_stem) {
                (true, _) => StemRule::Drop,
                (false, true) => StemRule::Keep,
                (false, false) => StemRule::DropWithStages,
            },
            reuse: self.reuse.map(|factor| self.reuse_with(factor)),
        }
    }

    fn reuse_with(&self, factor: usize) -> Reuse {
        let layout = match self.reuse_groups {
            Layout::Three => ReuseLayout::ThreeGroups,
            Layout::Equal => ReuseLayout::EqualGroups { shortcut: false },
            Layout::EqualShortcut => ReuseLayout::EqualGroups { shortcut: true },
        };
        let scope = match self.reuse_scope {
            Scope::Block => ReuseScope::OnePerBlock,
            Scope::All => ReuseScope::AllLayers,
        };
        Reuse { factor, layout, scope }
    }
}

/// Reads no more than a mask of this network can have: a device never ends.
fn load_mask(path: &Path, spec: &NetworkSpec) -> anyhow::Result<ActivationMask> {
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
