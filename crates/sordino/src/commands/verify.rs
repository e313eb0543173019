//! `sordino verify MODEL|NETWORK`: private inference against inference in the clear.
//!
//! Both parties run in this process ([`inference::verify`]). With `--expect`, inference in the clear is held against what
//! the user's own framework says.

mod expect;
mod report;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use inference::plan::Plan;
use inference::verify::compare;
use network::image::Image;
use network::inference_model::InferenceModel;
use service::settings::ReluMode;

use super::model::{ModelArguments, trial_image};
use super::progress::OfflineProgress;
use super::{Answer, write_json};
use crate::image_files;
use expect::{ExpectReport, Expected};
use report::Report;

/// Compared where nobody says how many.
const RANDOM_IMAGES: u64 = 100;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// How many images to compare on [default: 100 random ones, or all of --images].
    #[arg(short = 'n', long = "count", value_name = "COUNT", value_parser = super::at_least_one)]
    count: Option<u64>,
    /// Compare on the images of this folder (PNG, JPEG, WebP, GIF, BMP, TIFF) instead of random ones.
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Compare with these logits of your own framework: a JSON list of lists or a numpy file, one row for each image of
    /// --images in the order of their names.
    #[arg(long, value_name = "FILE", requires = "images")]
    expect: Option<PathBuf>,
    /// Only compare with --expect; run nothing in private.
    #[arg(long, requires = "expect")]
    plain: bool,
    /// How ReLUs are computed.
    #[arg(long, value_enum, default_value = "fast")]
    relu: ReluMode,
    /// Also say where and by how much rounding in private differs from plain rounding, as it should.
    #[arg(long)]
    verbose: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let (model, _) = arguments.model.load_or_freeze()?;
    let images = arguments.images(&model)?;
    let expected = arguments.compare_with_expected(&model, &images)?;
    if let (Some(expected), true) = (&expected, arguments.plain) {
        if arguments.json {
            write_json(out, expected)?;
        } else {
            expected.write(out)?;
        }
        return Ok(expected.answer());
    }
    let mut progress = None;
    let watch = |plan: &Plan| progress.insert(OfflineProgress::start(plan, images.len())).watcher();
    let compared = compare(&model, &images, arguments.relu.into(), watch);
    progress.iter().for_each(OfflineProgress::finish);
    let comparisons = compared?;
    let mut report = Report::new(&model, arguments.model.origin(), arguments.images.clone(), &comparisons);
    report.expected = expected;
    if arguments.json {
        write_json(out, &report)?;
    } else {
        report.write(out, arguments.verbose)?;
    }
    Ok(report.answer())
}

impl Arguments {
    /// What the user's framework says, beside the model and the network in floating point.
    fn compare_with_expected(
        &self,
        model: &InferenceModel,
        images: &[Image],
    ) -> anyhow::Result<Option<ExpectReport>> {
        let Some(path) = &self.expect else { return Ok(None) };
        let expected = Expected::read(path, images.len(), model.outline().classes)?;
        let floats = self.model.float_logits(&model.outline().image, images)?;
        expected.compare(model, images, floats.as_deref()).map(Some)
    }

    /// All that are compared, so that an unusable file is found before anything runs.
    fn images(&self, model: &InferenceModel) -> anyhow::Result<Vec<Image>> {
        let Some(folder) = &self.images else {
            return Ok((0..self.count.unwrap_or(RANDOM_IMAGES))
                .map(|number| trial_image(model, number))
                .collect());
        };
        let count = self.count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Ok(image_files::load_images(folder, model.outline().input, count)?)
    }
}
