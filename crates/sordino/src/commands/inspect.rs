//! `sordino inspect NETWORK`: what a network costs, before or after ReLUs are dropped.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use network::cost::Cost;
use network::mask::ActivationMask;
use network::spec::NetworkSpec;
use network::transform::{
    Reuse, ReuseLayout, ReuseScope, ThinChoice, cull_stage, drop_stem_relus, keep_first_block, reuse_relus,
    scale_channels, scale_resolution, thin_stage,
};
use network::walk::{Part, Place, StageIndex};
use network::zoo;
use serde::Serialize;

use super::{Answer, write_json};
use crate::report::{Table, bar, grouped, percent, short};

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

/// A network by name or file.
#[derive(Debug, Args)]
pub(super) struct NetworkArguments {
    /// A name from `sordino zoo` with options, such as resnet18:m=32, or a TOML file.
    pub(super) network: String,
    /// Side of the input image [default: 32, or what the file says].
    #[arg(long, value_name = "PIXELS")]
    pub(super) input: Option<usize>,
    /// Number of classes [default: 100, or what the file says].
    #[arg(long, value_name = "COUNT")]
    pub(super) classes: Option<usize>,
}

impl NetworkArguments {
    pub(super) fn load(&self) -> anyhow::Result<NetworkSpec> {
        let path = Path::new(&self.network);
        let is_file = path.extension().is_some_and(|extension| extension == "toml") || path.is_file();
        if !is_file {
            return Ok(zoo::build(&self.network, self.input.unwrap_or(32), self.classes.unwrap_or(100))?);
        }
        let spec =
            NetworkSpec::from_file(path).with_context(|| format!("{} is not usable", path.display()))?;
        if self.input.is_none() && self.classes.is_none() {
            return Ok(spec);
        }
        let mut draft = spec.into_draft();
        if let Some(side) = self.input {
            (draft.input.height, draft.input.width) = (side, side);
        }
        draft.classes = self.classes.unwrap_or(draft.classes);
        NetworkSpec::new(draft).with_context(|| format!("{} does not fit other sizes", path.display()))
    }
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
    let spec = arguments.transform(&baseline)?;
    if let Some(path) = &arguments.export {
        std::fs::write(path, spec.to_toml()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mask = arguments.mask.as_deref().map(|path| load_mask(path, &spec)).transpose()?;
    let report = Report::new(&spec, mask.as_ref(), arguments.by);
    if arguments.json {
        return write_json(out, &report);
    }
    report.write(out, &spec, Cost::of(&baseline).relus)?;
    Ok(Answer::Yes)
}

impl Arguments {
    /// Widths and maps first, then ReLUs, so that reuse divides the channels the network will have.
    fn transform(&self, baseline: &NetworkSpec) -> anyhow::Result<NetworkSpec> {
        let mut spec = baseline.clone();
        if let Some(factor) = self.width {
            spec = scale_channels(&spec, factor)?;
        }
        if let Some(factor) = self.resolution {
            spec = scale_resolution(&spec, factor)?;
        }
        for &stage in &self.single_block {
            spec = keep_first_block(&spec, StageIndex(stage))?;
        }
        for &stage in &self.cull {
            if self.thin.contains(&stage) {
                bail!("stage {stage} cannot be both culled and thinned: culling leaves no ReLU to thin");
            }
            spec = cull_stage(&spec, StageIndex(stage))?;
        }
        let choice = match self.thin_drops {
            Thinning::AfterSum => ThinChoice::AfterSum,
            Thinning::Inner => ThinChoice::Inner,
        };
        for &stage in &self.thin {
            spec = thin_stage(&spec, StageIndex(stage), choice)?;
        }
        let drops_relus = !self.cull.is_empty() || !self.thin.is_empty();
        if self.drop_stem || (drops_relus && !self.keep_stem) {
            spec = drop_stem_relus(&spec)?;
        }
        if let Some(factor) = self.reuse {
            let layout = match self.reuse_groups {
                Layout::Three => ReuseLayout::ThreeGroups,
                Layout::Equal => ReuseLayout::EqualGroups { shortcut: false },
                Layout::EqualShortcut => ReuseLayout::EqualGroups { shortcut: true },
            };
            let scope = match self.reuse_scope {
                Scope::Block => ReuseScope::OnePerBlock,
                Scope::All => ReuseScope::AllLayers,
            };
            spec = reuse_relus(&spec, Reuse { factor, layout, scope })?;
        }
        Ok(spec)
    }
}

fn load_mask(path: &Path, spec: &NetworkSpec) -> anyhow::Result<ActivationMask> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    ActivationMask::from_bytes(&bytes, spec).with_context(|| format!("{} is not usable", path.display()))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    network: String,
    input: [usize; 3],
    classes: usize,
    #[serde(flatten)]
    total: Cost,
    stages: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<Line>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<Line>,
}

/// One stage, block or layer.
#[derive(Serialize)]
struct Line {
    stage: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    output: [usize; 3],
    #[serde(flatten)]
    cost: Cost,
}

impl Report {
    fn new(spec: &NetworkSpec, mask: Option<&ActivationMask>, detail: Detail) -> Self {
        let layers = layer_lines(spec, mask);
        let input = spec.draft().input;
        Self {
            network: spec.name().to_owned(),
            input: [input.channels, input.height, input.width],
            classes: spec.draft().classes,
            total: layers.iter().map(|(_, line)| line.cost).sum(),
            stages: merged(&layers, |place| place.part, false),
            blocks: if detail == Detail::Block { merged(&layers, |place| place, true) } else { Vec::new() },
            layers: match detail {
                Detail::Layer => layers.into_iter().map(|(_, line)| line).collect(),
                _ => Vec::new(),
            },
        }
    }

    fn write(&self, out: &mut dyn Write, spec: &NetworkSpec, baseline_relus: u64) -> anyhow::Result<()> {
        let shape = spec.draft().input;
        writeln!(out, "{}, {} to {} classes", spec.name(), shape, self.classes)?;
        writeln!(out)?;
        let lines = [&self.blocks, &self.layers].into_iter().find(|lines| !lines.is_empty());
        let lines = lines.unwrap_or(&self.stages);
        let largest = lines.iter().map(|line| line.cost.relus).max().unwrap_or(0);
        let mut table = Table::new(&[
            "<stage",
            "<output",
            "ReLUs",
            "share",
            "multiply-adds",
            "parameters",
            "<ReLUs per stage",
        ]);
        if !self.layers.is_empty() {
            table =
                Table::new(&["<layer", "<output", "ReLUs", "share", "multiply-adds", "parameters", "<ReLUs"]);
        }
        for line in lines {
            table.row(vec![
                line.title(),
                format!("{}x{}x{}", line.output[0], line.output[1], line.output[2]),
                grouped(line.cost.relus),
                percent(line.cost.relus, self.total.relus),
                short(line.cost.macs),
                grouped(line.cost.parameters),
                bar(line.cost.relus, largest, 32),
            ]);
        }
        table.rule();
        table.row(vec![
            "total".to_owned(),
            String::new(),
            grouped(self.total.relus),
            percent(self.total.relus, self.total.relus),
            short(self.total.macs),
            grouped(self.total.parameters),
            String::new(),
        ]);
        table.write(out)?;
        if self.total.maxpools > 0 {
            writeln!(out, "\n{} max-pool outputs, counted apart", grouped(self.total.maxpools))?;
        }
        if self.total.relus != baseline_relus {
            let share = percent(self.total.relus, baseline_relus);
            writeln!(out, "\n{share} of the {} ReLUs of the network as named", grouped(baseline_relus))?;
        }
        Ok(())
    }
}

impl Line {
    fn title(&self) -> String {
        match (&self.name, self.block) {
            (Some(name), _) => name.clone(),
            (None, Some(block)) => format!("{}.{block}", self.stage),
            (None, None) => self.stage.clone(),
        }
    }
}

fn layer_lines(spec: &NetworkSpec, mask: Option<&ActivationMask>) -> Vec<(Place, Line)> {
    let walk = spec.walk();
    let line = |step: &network::walk::Step| {
        let mut cost = Cost::of_step(walk, step);
        if let (Some(mask), network::walk::Operation::Relu { site, .. }) = (mask, &step.operation) {
            cost.relus = mask.relu_count_at(*site);
        }
        let output = walk.shape(step.output);
        let line = Line {
            stage: step.place.part.to_string(),
            block: step.place.block,
            name: Some(step.name.clone()),
            output: [output.channels, output.height, output.width],
            cost,
        };
        (step.place, line)
    };
    walk.steps().iter().map(line).collect()
}

/// Adds up neighbors with the same key.
fn merged<K: PartialEq>(layers: &[(Place, Line)], key: impl Fn(Place) -> K, with_block: bool) -> Vec<Line> {
    let mut lines: Vec<(K, Line)> = Vec::new();
    for (place, layer) in layers {
        let key = key(*place);
        match lines.last_mut() {
            Some((last, line)) if *last == key => {
                line.cost += layer.cost;
                line.output = layer.output;
            }
            _ => {
                let block = if with_block { place.block } else { None };
                let stage = match place.part {
                    Part::Stage(stage) => stage.0.to_string(),
                    other => other.to_string(),
                };
                lines.push((key, Line { stage, block, name: None, output: layer.output, cost: layer.cost }));
            }
        }
    }
    lines.into_iter().map(|(_, line)| line).collect()
}
