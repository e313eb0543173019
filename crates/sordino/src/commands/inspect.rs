//! `sordino inspect NETWORK|MODEL`: what a network costs, before or after ReLUs are dropped, and in private.

mod private;
mod report;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use network::cost::Cost;
use service::settings::ReluMode;

use super::link::Link;
use super::model::{ModelArguments, Origin, baseline_relus};
use super::{Answer, write_json};
use private::PrivateReport;
use report::Report;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// How finely to list.
    #[arg(long, value_enum, default_value_t = Detail::Stage)]
    by: Detail,
    /// Write the resulting network as TOML that can be edited and inspected again.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Also plan private inference: bytes, rounds, time on a link, memory. Nothing is run.
    #[arg(long)]
    private: bool,
    /// The link between the parties: lan, wan, or such as 1gbps,20ms [default: both lan and wan].
    #[arg(long, requires = "private")]
    link: Option<Link>,
    /// How ReLUs are computed.
    #[arg(long, value_enum, default_value = "fast", requires = "private")]
    relu: ReluMode,
    /// Print JSON.
    #[arg(long)]
    json: bool,
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
    let (mut report, baseline_relus) = match (arguments.model.file(), arguments.model.onnx()) {
        (Some(_), _) => arguments.report_of_model()?,
        (None, Some(path)) => arguments.report_of_onnx(path)?,
        (None, None) => arguments.report_of_network()?,
    };
    if arguments.private {
        let (model, freezing) = arguments.model.load_or_freeze()?;
        let origin = arguments.model.origin();
        report.private =
            Some(PrivateReport::new(&model, freezing.as_ref(), origin, arguments.link, arguments.relu)?);
    }
    if arguments.json {
        return write_json(out, &report);
    }
    report.write(out, baseline_relus)?;
    Ok(Answer::Yes)
}

impl Arguments {
    /// The report, and how many ReLUs the network has as named.
    fn report_of_network(&self) -> anyhow::Result<(Report, u64)> {
        if !self.private && matches!(self.model.origin(), Origin::File { .. }) {
            bail!("weights change no counts; --weights goes with --private");
        }
        let baseline = self.model.baseline()?;
        let spec = self.model.reduced(&baseline)?;
        if let Some(path) = &self.export {
            std::fs::write(path, spec.to_toml())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let mask = self.model.mask(&spec)?;
        Ok((Report::of_network(&spec, mask.as_ref(), self.by), Cost::of(&baseline).relus))
    }

    fn report_of_onnx(&self, path: &Path) -> anyhow::Result<(Report, u64)> {
        if self.export.is_some() {
            bail!("an imported network has no blocks to write as TOML; its ONNX file is its description");
        }
        let network = &self.model.import(path)?.network;
        let mask = self.model.imported_mask(network)?;
        Ok((Report::of_network(network, mask.as_ref(), self.by), baseline_relus(network)))
    }

    fn report_of_model(&self) -> anyhow::Result<(Report, u64)> {
        if self.export.is_some() {
            bail!("a model cannot be turned back into a network; --export takes the network it came from");
        }
        let (model, _) = self.model.load_or_freeze()?;
        Ok((Report::of_model(&model, self.by), model.outline().relu_count()))
    }
}
