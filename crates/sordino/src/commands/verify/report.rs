//! What `verify` found over all images.

use std::io::Write;
use std::path::{Path, PathBuf};

use inference::verify::{Comparison, LinearErrors};
use network::inference_model::InferenceModel;
use network::reference::bound;
use serde::Serialize;

use super::expect::ExpectReport;
use crate::commands::Answer;
use crate::commands::model::Origin;
use crate::report::{counted, path_text, percent};

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report {
    network: String,
    weights: Origin,
    images: u64,
    /// Where they come from, if they are not random.
    folder: Option<String>,
    /// Whether every private answer equals the reference with the protocol's rounding, bit for bit.
    matches_reference: bool,
    /// The images where it does not.
    mismatches: Vec<Mismatch>,
    /// Images whose class is the same with plain rounding.
    class_agreements: u64,
    /// Against plain rounding, in units of the last place.
    max_logit_difference: u64,
    /// The smallest distance between the largest and the smallest logit of an image.
    logit_range: u64,
    /// The statistical bound on that difference, the largest of all images.
    logit_difference_bound: f64,
    /// Images whose largest difference exceeds their own bound.
    beyond_bound: u64,
    /// Values of linear layers, over all images.
    linear_values: u64,
    /// Of them, those that the encryption left off.
    linear_values_off: u64,
    /// The deviation of all these errors, in units that are kept later.
    linear_deviation: f64,
    /// The largest, in the same units.
    linear_error: f64,
    first_differences: Vec<FirstDifference>,
    /// Against the user's own framework, where its logits were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected: Option<ExpectReport>,
}

/// A private answer that is not the expected one.
#[derive(Serialize)]
struct Mismatch {
    image: u64,
    /// The first logit that differs.
    logit: usize,
    expected: Option<i64>,
    came: Option<i64>,
}

/// A layer at which plain rounding and the protocol's part.
#[derive(Serialize)]
struct FirstDifference {
    layer: String,
    images: u64,
    /// On the first of these images, the scalar and its two values.
    scalar: usize,
    plain: i64,
    private: i64,
}

impl Report {
    pub(super) fn new(
        model: &InferenceModel,
        weights: Origin,
        folder: Option<PathBuf>,
        comparisons: &[Comparison],
    ) -> Self {
        let compared = (comparisons.len() * model.outline().classes) as u64;
        let bound = |comparison: &Comparison| bound::largest_difference(comparison.deviation, compared);
        let is_beyond = |comparison: &&Comparison| comparison.logit_difference() as f64 > bound(comparison);
        let mut errors = LinearErrors::default();
        comparisons.iter().for_each(|comparison| errors.join(&comparison.linear_errors));
        let numbered = (0..).zip(comparisons);
        let mismatches: Vec<_> =
            numbered.filter_map(|(image, comparison)| Mismatch::of(image, comparison)).collect();
        Self {
            network: model.outline().name.clone(),
            weights,
            images: comparisons.len() as u64,
            folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
            matches_reference: mismatches.is_empty(),
            mismatches,
            class_agreements: comparisons.iter().filter(|comparison| comparison.class_agrees()).count()
                as u64,
            max_logit_difference: comparisons.iter().map(Comparison::logit_difference).max().unwrap_or(0),
            logit_range: comparisons.iter().map(Comparison::logit_range).min().unwrap_or(0),
            logit_difference_bound: comparisons.iter().map(bound).fold(0.0, f64::max),
            beyond_bound: comparisons.iter().filter(is_beyond).count() as u64,
            linear_values: errors.values,
            linear_values_off: errors.off,
            linear_deviation: errors.deviation(),
            linear_error: errors.largest,
            first_differences: first_differences(comparisons),
            expected: None,
        }
    }

    /// No, unless every answer is the expected one.
    pub(super) fn answer(&self) -> Answer {
        let is_expected = self.expected.as_ref().is_none_or(|expected| expected.answer() == Answer::Yes);
        if self.matches_reference && is_expected { Answer::Yes } else { Answer::No }
    }

    /// The answer first; what only a second look asks for where it is wished for.
    pub(super) fn write(&self, out: &mut dyn Write, is_verbose: bool) -> anyhow::Result<()> {
        let images = self.images;
        let verdict = if self.answer() == Answer::Yes { "yes" } else { "NO" };
        let equal = images - self.mismatches.len() as u64;
        writeln!(
            out,
            "verified: {verdict}, {equal} of {images} equal the reference with the protocol's rounding, bit for bit"
        )?;
        let compared = match &self.folder {
            Some(folder) => format!("{} of {}", counted(images, "image"), path_text(Path::new(folder))),
            None => counted(images, "random image"),
        };
        writeln!(out, "{}, private against plain on {compared}", self.network)?;
        if let Some(warning) = self.weights.warning() {
            writeln!(out, "note: {warning}")?;
        }
        if let Some(expected) = &self.expected {
            expected.write(out)?;
        }
        for Mismatch { image, logit, expected, came } in &self.mismatches {
            let written = |logit: &Option<i64>| logit.map_or("none".to_owned(), |logit| logit.to_string());
            let (expected, came) = (written(expected), written(came));
            writeln!(out, "  image {image} DIFFERS: logit {logit} should be {expected} and is {came}")?;
        }
        let agreements = self.class_agreements;
        writeln!(out, "{agreements} of {images} have the class of plain rounding")?;
        let (difference, range) = (self.max_logit_difference, self.logit_range);
        let share = percent(difference, range);
        writeln!(
            out,
            "logits are off plain rounding by at most {difference} of a range of {range} ({share})"
        )?;
        if is_verbose || self.beyond_bound > 0 {
            self.write_bound(out)?;
        }
        if is_verbose { self.write_roundings(out) } else { Ok(()) }
    }

    /// Where and by how much values differ from plain ones, as they should.
    fn write_roundings(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (values, off) = (self.linear_values, self.linear_values_off);
        let share = percent(off, values);
        writeln!(
            out,
            "the encryption left {off} of {values} values of linear layers off ({share}), by {:.3} of the unit that is kept later in \
             the deviation and {:.2} at most",
            self.linear_deviation, self.linear_error
        )?;
        if self.first_differences.is_empty() {
            writeln!(
                out,
                "no layer differs from plain rounding; the logits' own depends on the client's shares"
            )?;
            return Ok(());
        }
        writeln!(out, "plain rounding and the protocol's first part at:")?;
        for FirstDifference { layer, images, scalar, plain, private } in &self.first_differences {
            let images = counted(*images, "image");
            writeln!(out, "  {layer} on {images}, as at its value {scalar}: {plain} and {private}")?;
        }
        Ok(())
    }

    fn write_bound(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let bound = self.logit_difference_bound;
        let share = 100.0 * bound / self.logit_range.max(1) as f64;
        let verdict = match self.beyond_bound {
            0 => "kept by all images".to_owned(),
            images => {
                format!(
                    "BROKEN by {}: values overflow, or rounding errs more than it should",
                    counted(images, "image")
                )
            }
        };
        writeln!(out, "the statistical bound on that is {bound:.1} ({share:.1}%), {verdict}")?;
        Ok(())
    }
}

/// The layers where images first differ, in the order they were found.
fn first_differences(comparisons: &[Comparison]) -> Vec<FirstDifference> {
    let mut found: Vec<FirstDifference> = Vec::new();
    for difference in comparisons.iter().filter_map(|comparison| comparison.first_difference.as_ref()) {
        let layer = difference.step.as_deref().unwrap_or("the image");
        match found.iter_mut().find(|known| known.layer == layer) {
            Some(known) => known.images += 1,
            None => found.push(FirstDifference {
                layer: layer.to_owned(),
                images: 1,
                scalar: difference.scalar,
                plain: difference.first,
                private: difference.second,
            }),
        }
    }
    found
}

impl Mismatch {
    fn of(image: u64, comparison: &Comparison) -> Option<Self> {
        let (private, expected) = (&comparison.private, &comparison.expected);
        if private == expected {
            return None;
        }
        let logit = private.iter().zip(expected).take_while(|(came, expected)| came == expected).count();
        let [expected, came] = [expected, private].map(|logits| logits.get(logit).copied());
        Some(Self { image, logit, expected, came })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::weights::FloatWeights;
    use network::zoo;

    fn report(comparisons: &[Comparison]) -> Report {
        let spec = zoo::build("resnet10:m=2", 8, 10).unwrap();
        let images = [Image::random(spec.draft().input, 1)];
        let weights = FloatWeights::random(&spec, 1);
        let (model, _) = freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap();
        Report::new(&model, Origin::Model, None, comparisons)
    }

    fn comparison(private: [i64; 3], expected: [i64; 3], plain: [i64; 3]) -> Comparison {
        let [private, expected, plain] = [private, expected, plain].map(|logits| logits.to_vec());
        Comparison {
            private,
            expected,
            plain,
            deviation: 0.0,
            linear_errors: LinearErrors { values: 1000, off: 25, largest: 0.31, squares: 0.9 },
            first_difference: None,
        }
    }

    #[test]
    fn one_wrong_logit_is_a_negative_answer_that_names_it() {
        let good = comparison([1, 5, 3], [1, 5, 3], [1, 5, 4]);
        let bad = comparison([1, 5, 3], [1, 5, 9], [1, 5, 9]);
        assert_eq!(report(std::slice::from_ref(&good)).answer(), Answer::Yes);
        let report = report(&[good, bad]);
        assert_eq!(report.answer(), Answer::No);
        let mut text = Vec::new();
        report.write(&mut text, true).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("verified: NO, 1 of 2 equal the reference"), "{text}");
        assert!(text.contains("image 1 DIFFERS: logit 2 should be 9 and is 3"), "{text}");
        assert!(text.contains("1 of 2 have the class of plain rounding"), "{text}");
        assert!(text.contains("off plain rounding by at most 6 of a range of 4"), "{text}");
        assert!(
            text.contains("left 50 of 2000 values of linear layers off (2.5%), by 0.030 of the unit"),
            "{text}"
        );
        assert!(text.contains("bound on that is 2.0 (50.0%), BROKEN by 1 image:"), "{text}");
    }
}
