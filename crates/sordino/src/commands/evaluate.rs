//! `sordino evaluate RUN`: how a trained network does on images that it did not learn from.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::Answer;
use super::train::DeviceChoice;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The folder of a run, or of one of its checkpoints.
    checkpoint: PathBuf,
    /// The folder of the images [default: the one that the run's recipe names].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// What to compute on [default: cuda where there is one].
    #[arg(long, value_enum)]
    device: Option<DeviceChoice>,
    /// CPU threads [default: all cores].
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[cfg(not(feature = "training"))]
pub(super) fn run(_: &Arguments, _: &mut dyn Write) -> anyhow::Result<Answer> {
    super::train::missing()
}

#[cfg(feature = "training")]
pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let device = super::train::device(arguments.device)?;
    let outcome =
        training::run::evaluate(&arguments.checkpoint, arguments.data.as_deref(), device, arguments.threads)?;
    if arguments.json {
        return super::write_json(out, &outcome);
    }
    writeln!(out, "{} after epoch {}, {} ReLUs", outcome.network, outcome.epoch, outcome.relus)?;
    for tried in &outcome.results {
        writeln!(
            out,
            "{:.2}% of {} {} images, cross-entropy {:.4}",
            100.0 * tried.accuracy,
            tried.images,
            tried.on,
            tried.loss
        )?;
    }
    Ok(Answer::Yes)
}
