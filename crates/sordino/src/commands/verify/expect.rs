//! What the user's own framework says about the same images: logits as JSON or as a file of numpy.
//!
//! Private equals plain by [`inference::verify`]; that plain equals the network the user trained is shown here. Where the
//! network is at hand in floating point, an ONNX file or weights from elsewhere, its logits are compared too, and any
//! difference beyond rounding of floats is a fault of the import. Integers may differ as quantization does.

mod numpy;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use serde::Serialize;

use crate::commands::Answer;
use crate::report::{path_as_text, path_text};

/// More logits than anybody compares.
const MAX_FILE_BYTES: u64 = 1 << 28;
/// Of the largest logit: what sums of floats in another order differ by.
const FLOAT_TOLERANCE: f64 = 1e-3;
/// Of the images: more answers than these differ by a fault, and not by rounding.
const MAX_OTHER_CLASSES: f64 = 0.1;

/// Logits that somebody else computed, one list for each image.
pub(super) struct Expected {
    path: PathBuf,
    logits: Vec<Vec<f64>>,
}

impl Expected {
    /// Reads a file, for so many images and classes.
    pub(super) fn read(path: &Path, images: usize, classes: usize) -> anyhow::Result<Self> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
            .with_context(|| format!("cannot read {}", path.display()))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            bail!("{} has more than {MAX_FILE_BYTES} bytes, too many for logits", path.display());
        }
        let logits = if numpy::is_numpy(&bytes) {
            numpy::rows(&bytes)
        } else {
            serde_json::from_slice::<Vec<Vec<f64>>>(&bytes).context("expected a list of lists of numbers")
        };
        let logits = logits.with_context(|| format!("{} is not usable", path.display()))?;
        let fits = logits.len() == images && logits.iter().all(|row| row.len() == classes);
        if !fits {
            bail!(
                "{} has {} rows of {} logits; expected one row for each of {images} images, in the order of their file \
                 names, with {classes} logits",
                path.display(),
                logits.len(),
                logits.first().map_or(0, Vec::len)
            );
        }
        Ok(Self { path: path.to_owned(), logits })
    }

    /// Compares the model in the clear, and the network in floating point where it is at hand.
    pub(super) fn compare(
        &self,
        model: &InferenceModel,
        images: &[Image],
        floats: Option<&[Vec<f32>]>,
    ) -> anyhow::Result<ExpectReport> {
        let unit = f64::powi(2.0, i32::try_from(model.outline().logit_fraction())?);
        let mut report = ExpectReport {
            network: model.outline().name.clone(),
            file: self.path.clone(),
            images: images.len(),
            class_agreements: 0,
            logit_difference: 0.0,
            float_difference: floats.map(|_| 0.0),
        };
        for (number, (image, expected)) in images.iter().zip(&self.logits).enumerate() {
            let integers = reference::run(model, image)?;
            let plain: Vec<f64> = integers.iter().map(|logit| *logit as f64 / unit).collect();
            report.class_agreements += usize::from(largest(&plain) == largest(expected));
            let range = expected.iter().copied().fold(f64::MIN, f64::max)
                - expected.iter().copied().fold(f64::MAX, f64::min);
            let difference = difference(&plain, expected) / range.max(f64::MIN_POSITIVE);
            report.logit_difference = report.logit_difference.max(difference);
            if let (Some(floats), Some(found)) = (floats, &mut report.float_difference) {
                let size = expected.iter().fold(f64::MIN_POSITIVE, |size, logit| size.max(logit.abs()));
                let float: Vec<f64> = floats[number].iter().copied().map(f64::from).collect();
                *found = found.max(self::difference(&float, expected) / size);
            }
        }
        Ok(report)
    }
}

/// What was found; also what `--plain --json` prints.
#[derive(Serialize)]
pub(super) struct ExpectReport {
    network: String,
    #[serde(serialize_with = "path_as_text")]
    file: PathBuf,
    images: usize,
    /// Images whose class is the expected one.
    class_agreements: usize,
    /// The largest difference of a logit of the frozen integers, as a share of the range of that image's logits.
    logit_difference: f64,
    /// The largest difference of a logit in floating point, as a share of the largest logit of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    float_difference: Option<f64>,
}

impl ExpectReport {
    /// No where the network is another one: its floats differ, or too many classes do.
    pub(super) fn answer(&self) -> Answer {
        let others = (self.images - self.class_agreements) as f64;
        let is_same = self.float_difference.is_none_or(|difference| difference <= FLOAT_TOLERANCE);
        if is_same && others <= MAX_OTHER_CLASSES * self.images as f64 { Answer::Yes } else { Answer::No }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (file, images) = (path_text(&self.file), self.images);
        writeln!(out, "{} in the clear against {file}:", self.network)?;
        if let Some(difference) = self.float_difference {
            let verdict = if difference <= FLOAT_TOLERANCE { "the same network" } else { "ANOTHER NETWORK" };
            writeln!(
                out,
                "  in floating point, logits differ by at most {difference:.1e} of the largest: {verdict}"
            )?;
        }
        writeln!(
            out,
            "  frozen, {} of {images} have the expected class; logits differ by at most {:.1}% of their range",
            self.class_agreements,
            100.0 * self.logit_difference
        )?;
        if self.answer() == Answer::No {
            writeln!(
                out,
                "  check the order of the images, --mean and --deviation, and that the logits are those before softmax"
            )?;
        }
        Ok(())
    }
}

fn largest(logits: &[f64]) -> Option<usize> {
    (0..logits.len()).reduce(|best, class| if logits[class] > logits[best] { class } else { best })
}

fn difference(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).fold(0.0, |most, (left, right)| (left - right).abs().max(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(class_agreements: usize, float_difference: Option<f64>) -> ExpectReport {
        let (network, file) = ("n".to_owned(), PathBuf::from("f"));
        ExpectReport { network, file, images: 20, class_agreements, logit_difference: 0.01, float_difference }
    }

    #[test]
    fn another_network_is_a_negative_answer() {
        assert_eq!(report(20, Some(1e-5)).answer(), Answer::Yes);
        assert_eq!(report(20, Some(1e-2)).answer(), Answer::No);
        assert_eq!(report(18, None).answer(), Answer::Yes);
        assert_eq!(report(17, None).answer(), Answer::No);
        let mut text = Vec::new();
        report(3, Some(0.5)).write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("ANOTHER NETWORK") && text.contains("3 of 20 have the expected class"),
            "{text}"
        );
    }

    #[test]
    fn rows_are_read_from_json_and_must_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logits.json");
        std::fs::write(&path, "[[1, 2.5], [3, 4]]").unwrap();
        assert_eq!(Expected::read(&path, 2, 2).unwrap().logits, [[1.0, 2.5], [3.0, 4.0]]);
        let error = format!("{:#}", Expected::read(&path, 3, 2).err().unwrap());
        assert!(error.contains("2 rows of 2 logits; expected one row for each of 3 images"), "{error}");
        std::fs::write(&path, "{}").unwrap();
        let error = format!("{:#}", Expected::read(&path, 2, 2).err().unwrap());
        assert!(error.contains("a list of lists of numbers"), "{error}");
    }
}
