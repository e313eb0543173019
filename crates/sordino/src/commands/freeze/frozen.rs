//! A frozen model is frozen anew: the same weights, with other rings, widths or activations.

use std::path::Path;

use anyhow::{Context, bail};
use network::freeze::refreeze;
use network::inference_model::InferenceModel;
use recipes::trial::calibration_images;

use super::{Arguments, Report};
use crate::commands::model::Calibration;
use crate::commands::trial::images_for;
use crate::image_files;

/// Reads a model, freezes it on training images or those of a folder, and writes it.
pub(super) fn freeze(arguments: &Arguments, path: &Path) -> anyhow::Result<Report> {
    arguments.checkpoint.refuse_for_model()?;
    if arguments.model.changes_frozen() {
        bail!(
            "{} is frozen: its size, ReLUs, weights and classes are fixed; only --activation-bits, --max-ring-bits, \
             --margin and --outline can be chosen",
            path.display()
        );
    }
    if !arguments.model.says_activation_bits() {
        bail!(
            "a model does not say how many bits its activations were given; name them with --activation-bits"
        );
    }
    let model = InferenceModel::load(path).with_context(|| format!("{} is not usable", path.display()))?;
    let (images, calibration) = match (arguments.checkpoint.data(), arguments.model.calibrate()) {
        (Some(folder), None) => {
            let data = images_for(&model, folder)?.training;
            let count = arguments.checkpoint.calibration_images();
            (calibration_images(&data, count), Calibration::Training { data: data.name })
        }
        (None, Some(folder)) => {
            let images = image_files::load_images(folder, model.outline().input, None)?;
            (images, arguments.model.calibration())
        }
        _ => bail!("a model does not know its images; name either --data DIR or --calibrate DIR"),
    };
    let (model, freezing) = refreeze(&model, &images, &arguments.model.freeze_options()?)?;
    model.save(&arguments.output)?;
    Ok(Report { calibration, ..Report::new(arguments, &model, freezing)? })
}
