//! `sordino freeze NETWORK -o FILE.sordino`: a network and its weights become the integers that are served.
//! `sordino freeze MODEL.onnx -o FILE.sordino`: so does what another framework exported.
//! `sordino freeze RUN -o FILE.sordino`: so does a checkpoint of a run.
//! `sordino freeze OLD.sordino -o NEW.sordino`: a model gets other rings.

mod checkpoint;
mod frozen;

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use network::cost::Counts;
use network::freeze::FreezeReport;
use network::inference_model::InferenceModel;
use serde::Serialize;

use super::model::{Calibration, ModelArguments, Origin, is_model_file, normalization_text};
use super::output::{expect_apart, expect_new};
use super::{Answer, write_json};
use crate::report::{Table, counted, path_as_text, path_text, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// Where to write the model; the name ends in .sordino. One that exists is not touched without --force.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the output where it exists. A model is never written over itself.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    checkpoint: checkpoint::CheckpointArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    network: String,
    #[serde(serialize_with = "path_as_text")]
    file: PathBuf,
    bytes: u64,
    /// BLAKE3 of the model, which names it.
    digest: String,
    weights: Origin,
    calibration: Calibration,
    class_names: bool,
    /// What is subtracted from each channel of pixels from 0 to 1, and what divides it then.
    mean: Vec<f32>,
    deviation: Vec<f32>,
    #[serde(flatten)]
    counts: Counts,
    overflow_count: u64,
    /// For a checkpoint: what the network and the model do on test images.
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<checkpoint::Accuracy>,
    #[serde(flatten)]
    freezing: FreezeReport,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    if !is_model_file(&arguments.output) {
        let name = arguments.output.display();
        bail!("{name} would not be known for a model; give it a name that ends in .sordino");
    }
    if let Some(input) = arguments.model.file() {
        expect_apart(input, &arguments.output)?;
    }
    expect_new(&arguments.output, arguments.force)?;
    let report = match (arguments.model.file(), arguments.model.checkpoint()) {
        (Some(path), _) => frozen::freeze(arguments, path)?,
        (None, Some(path)) => checkpoint::freeze(arguments, path)?,
        (None, None) => {
            arguments.checkpoint.refuse()?;
            let (model, freezing) = arguments.model.freeze()?;
            model.save(&arguments.output)?;
            Report::new(arguments, &model, freezing)?
        }
    };
    if arguments.json {
        return write_json(out, &report);
    }
    report.write(out)?;
    Ok(Answer::Yes)
}

impl Report {
    fn new(arguments: &Arguments, model: &InferenceModel, freezing: FreezeReport) -> anyhow::Result<Self> {
        Ok(Self {
            network: model.outline().name.clone(),
            file: arguments.output.clone(),
            bytes: std::fs::metadata(&arguments.output)?.len(),
            digest: super::trial::digest(model),
            weights: arguments.model.origin(),
            calibration: arguments.model.calibration(),
            class_names: !model.outline().class_names.is_empty(),
            mean: model.outline().image.mean.clone(),
            deviation: model.outline().image.deviation.clone(),
            counts: model.outline().counts(),
            overflow_count: freezing.overflow_count(),
            accuracy: None,
            freezing,
        })
    }

    fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let freezing = &self.freezing;
        let megabytes = self.bytes as f64 / 1e6;
        writeln!(out, "{} frozen to {}, {megabytes:.3} MB", self.network, path_text(&self.file))?;
        writeln!(out, "digest {}", self.digest)?;
        writeln!(out, "{}", normalization_text(&self.mean, &self.deviation))?;
        if let Some(warning) = self.weights.warning() {
            writeln!(out, "note: {warning}")?;
        }
        writeln!(out)?;
        let has_trimmed = freezing.layers.iter().any(|layer| layer.trimmed_bits > 0);
        let columns = ["<linear layer", "input ring", "output ring", "bits trimmed"];
        let shown = if has_trimmed { 4 } else { 3 };
        let mut table = Table::new(&columns[..shown]);
        for layer in &freezing.layers {
            let bits = |bits: u32| format!("{bits} bits");
            let trimmed =
                if layer.trimmed_bits == 0 { String::new() } else { layer.trimmed_bits.to_string() };
            let mut cells =
                vec![layer.name.clone(), bits(layer.input_ring_bits), bits(layer.ring_bits), trimmed];
            cells.truncate(shown);
            table.row(cells);
        }
        table.write(out)?;
        writeln!(
            out,
            "\n{}, {} after merging; {} multiply-adds, {} after",
            counted(freezing.convolutions_before as u64, "convolution"),
            freezing.convolutions_after,
            short(freezing.multiply_adds_before),
            short(freezing.multiply_adds_after)
        )?;
        let Self { counts, .. } = self;
        let FreezeReport { round_trips, widest_ring_bits, .. } = freezing;
        let round_trips = counted(*round_trips as u64, "round trip");
        writeln!(out, "{counts} in {round_trips}, widest ring {widest_ring_bits} bits")?;
        self.write_rescales(out)?;
        self.write_calibration(out)?;
        self.accuracy.as_ref().map_or(Ok(()), |accuracy| accuracy.write(out))
    }

    fn write_rescales(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let FreezeReport { rescales, rescaling_round_trips, .. } = &self.freezing;
        if rescales.is_empty() {
            writeln!(out, "no rescaling besides those of activations")?;
            return Ok(());
        }
        let count = counted(rescales.len() as u64, "rescaling");
        let round_trips = counted(*rescaling_round_trips as u64, "round trip");
        writeln!(out, "{count} that no activation asked for, {round_trips} for nothing else:")?;
        for rescale in rescales {
            let price = if rescale.costs_round_trip {
                "a round trip of its own"
            } else {
                "rides on others' messages"
            };
            writeln!(out, "  {}: {}, {price}", rescale.name, counted(rescale.scalars, "value"))?;
        }
        Ok(())
    }

    fn write_calibration(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let FreezeReport { calibration_images: images, margin, least_room, .. } = &self.freezing;
        writeln!(
            out,
            "calibrated on {} with a margin of {margin}: every width holds at least {least_room:.2} times the \
             largest value",
            self.calibration.of(*images)
        )?;
        let images = counted(*images as u64, "calibration image");
        if self.overflow_count == 0 {
            writeln!(out, "no value of the {images} overflows")?;
            return Ok(());
        }
        let overflow = if self.overflow_count == 1 { "overflows" } else { "overflow" };
        writeln!(out, "{} of the {images} {overflow}:", counted(self.overflow_count, "value"))?;
        for overflow in &self.freezing.overflows {
            writeln!(out, "  {}: {}", overflow.name, counted(overflow.values, "value"))?;
        }
        Ok(())
    }
}
