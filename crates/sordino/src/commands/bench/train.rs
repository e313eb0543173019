//! `sordino bench train`: how long a training step takes.

use std::io::Write;

use clap::{Args, ValueEnum};
use network::zoo;
use serde::Serialize;
use training::assemble::Precision;
use training::learn::{BenchOptions, GraphUse, measure_step};
use training::tensor::{self, Device};

use crate::commands::{Answer, write_json};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A network of the zoo, such as resnet18 or hrn-2x5x3x:m=16.
    network: String,
    /// Images per step.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// cuda or cpu.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// How many steps are timed, in ten stretches of which the median counts.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Side of the images.
    #[arg(long, default_value_t = 32)]
    side: usize,
    /// Number of classes.
    #[arg(long, default_value_t = 100)]
    classes: usize,
    /// Numbers to compute in; bf16 on a GPU and f32 elsewhere, if not given.
    #[arg(long)]
    precision: Option<PrecisionName>,
    /// Gather, crop and flip a new batch in each step, or use one batch again and again.
    #[arg(long, default_value = "on")]
    data_pipeline: Switch,
    /// Launch each operation by itself instead of recording the step.
    #[arg(long)]
    eager: bool,
    /// Also compute the logits of this teacher in each step, and its loss.
    #[arg(long)]
    teacher: Option<String>,
    /// Processor threads; all, if not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PrecisionName {
    F32,
    Bf16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Serialize)]
struct Report {
    network: String,
    batch: usize,
    device: String,
    precision: &'static str,
    data_pipeline: bool,
    /// Whether the step was recorded; the reason is beside it if not.
    recorded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_recorded: Option<String>,
    ms_per_step: f64,
    images_per_s: f64,
    first_loss: f64,
    mean_loss: f64,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let report = measure(arguments)?;
    if arguments.json {
        return write_json(out, &report);
    }
    let Report { network, batch, device, precision, ms_per_step, images_per_s, .. } = &report;
    writeln!(
        out,
        "{network}, batch {batch}, {precision} on {device}: {ms_per_step:.3} ms per step, {images_per_s:.0} images/s"
    )?;
    if let Some(reason) = &report.not_recorded {
        writeln!(out, "each operation was launched by itself: {reason}")?;
    }
    Ok(Answer::Yes)
}

fn measure(arguments: &Arguments) -> anyhow::Result<Report> {
    if let Some(count) = arguments.threads {
        tensor::set_threads(count);
    }
    let device = Device::parse(&arguments.device)?;
    let build = |name: &str| zoo::build(name, arguments.side, arguments.classes);
    let precision = match (arguments.precision, device) {
        (Some(PrecisionName::F32), _) | (None, Device::Cpu) => (Precision::Float32, "f32"),
        (Some(PrecisionName::Bf16), _) | (None, Device::Cuda) => (Precision::BFloat16, "bf16"),
    };
    let options = BenchOptions {
        batch: arguments.batch,
        steps: arguments.steps,
        precision: precision.0,
        graph: if arguments.eager { GraphUse::Never } else { GraphUse::Auto },
        data_pipeline: arguments.data_pipeline == Switch::On,
        teacher: arguments.teacher.as_deref().map(build).transpose()?,
    };
    let time = measure_step(&build(&arguments.network)?, &options, device)?;
    Ok(Report {
        network: arguments.network.clone(),
        batch: arguments.batch,
        device: arguments.device.clone(),
        precision: precision.1,
        data_pipeline: options.data_pipeline,
        recorded: time.not_recorded.is_none(),
        not_recorded: time.not_recorded,
        ms_per_step: time.milliseconds,
        images_per_s: time.images_per_second,
        first_loss: time.losses.0,
        mean_loss: time.losses.1,
    })
}
