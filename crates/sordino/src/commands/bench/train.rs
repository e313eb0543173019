//! `sordino bench train`: how long a training step takes.

use std::io::Write;

use clap::{Args, ValueEnum};
use recipes::recipe::Precision;
use serde::Serialize;

use crate::commands::{Answer, trainer, write_json};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// A network of the zoo, such as resnet18 or hrn-2x5x3x:m=16.
    pub(in crate::commands) network: String,
    /// Images per step.
    #[arg(long, default_value_t = 128)]
    pub(in crate::commands) batch: usize,
    /// cuda or cpu.
    #[arg(long, default_value = "cpu")]
    pub(in crate::commands) device: String,
    /// How many steps are timed, in ten stretches of which the median counts.
    #[arg(long, default_value_t = 200)]
    pub(in crate::commands) steps: usize,
    /// Side of the images.
    #[arg(long, default_value_t = 32)]
    pub(in crate::commands) side: usize,
    /// Number of classes.
    #[arg(long, default_value_t = 100)]
    pub(in crate::commands) classes: usize,
    /// Numbers to compute in; bf16 where the device has instructions for it and f32 elsewhere, if not given.
    #[arg(long, value_enum)]
    pub(in crate::commands) precision: Option<Precision>,
    /// Gather, crop and flip a new batch in each step, or use one batch again and again.
    #[arg(long, default_value = "on")]
    pub(in crate::commands) data_pipeline: Switch,
    /// Launch each operation by itself instead of recording the step.
    #[arg(long)]
    pub(in crate::commands) eager: bool,
    /// Also compute the logits of this teacher in each step, and its loss.
    #[arg(long)]
    pub(in crate::commands) teacher: Option<String>,
    /// Processor threads; all, if not given.
    #[arg(long)]
    pub(in crate::commands) threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::commands) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::commands) enum Switch {
    On,
    Off,
}

#[derive(Serialize)]
pub(in crate::commands) struct StepReport {
    pub(in crate::commands) network: String,
    pub(in crate::commands) batch: usize,
    pub(in crate::commands) device: String,
    pub(in crate::commands) precision: String,
    pub(in crate::commands) data_pipeline: bool,
    /// Whether the step was recorded; the reason is beside it if not.
    pub(in crate::commands) recorded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands) not_recorded: Option<String>,
    pub(in crate::commands) ms_per_step: f64,
    pub(in crate::commands) images_per_s: f64,
    pub(in crate::commands) first_loss: f64,
    pub(in crate::commands) mean_loss: f64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let report = trainer::measure_step(arguments)?;
    if arguments.json {
        return write_json(out, &report);
    }
    let StepReport { network, batch, device, precision, ms_per_step, images_per_s, .. } = &report;
    writeln!(
        out,
        "{network}, batch {batch}, {precision} on {device}: {ms_per_step:.3} ms per step, {images_per_s:.0} images/s"
    )?;
    if let Some(reason) = &report.not_recorded {
        writeln!(out, "each operation was launched by itself: {reason}")?;
    }
    Ok(Answer::Yes)
}
