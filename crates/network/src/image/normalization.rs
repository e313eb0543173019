//! What a user says about the pixels that a network was trained on.

use crate::inference_model::ImageFormat;

/// Means and deviations of pixels from 0 to 1 are smaller.
const LARGEST: f32 = 2.0;

/// What training did to pixels from 0 to 1, as far as somebody said it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Normalization {
    /// Was subtracted from each channel.
    pub mean: Option<Vec<f32>>,
    /// Divided each channel.
    pub deviation: Option<Vec<f32>>,
}

impl Normalization {
    /// Whether nothing was left open.
    pub fn is_complete(&self) -> bool {
        self.mean.is_some() && self.deviation.is_some()
    }

    /// The format of images with so many channels; what nobody said is what is usual.
    ///
    /// # Errors
    /// When there is another number of numbers, or they are none that pixels from 0 to 1 have.
    pub fn format(&self, channels: usize) -> Result<ImageFormat, NormalizationError> {
        let mut format = ImageFormat::usual(channels);
        for (what, given, place) in
            [("mean", &self.mean, &mut format.mean), ("deviation", &self.deviation, &mut format.deviation)]
        {
            let Some(given) = given else { continue };
            if given.iter().any(|number| number.abs() > LARGEST) {
                return Err(NormalizationError::Bytes { what, came: given.clone() });
            }
            let is_usable = |number: &f32| number.is_finite() && (what == "mean" || *number > 0.0);
            if given.len() != channels || !given.iter().all(is_usable) {
                return Err(NormalizationError::Unusable { what, came: given.clone(), channels });
            }
            place.clone_from(given);
        }
        Ok(format)
    }
}

/// Numbers that cannot be a mean or a deviation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NormalizationError {
    /// As if pixels went to 255.
    #[error(
        "the {what} {came:?} looks like that of pixels from 0 to 255; pixels go from 0 to 1 here, so divide each number \
         by 255"
    )]
    Bytes {
        /// Mean or deviation.
        what: &'static str,
        /// What came.
        came: Vec<f32>,
    },
    /// Too few, too many, or not numbers to subtract or divide by.
    #[error(
        "the {what} {came:?} cannot be used; expected one number for each of {channels} channels, deviations above zero"
    )]
    Unusable {
        /// Mean or deviation.
        what: &'static str,
        /// What came.
        came: Vec<f32>,
        /// How many channels the image has.
        channels: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(mean: &[f32], deviation: &[f32]) -> Normalization {
        let some = |numbers: &[f32]| (!numbers.is_empty()).then(|| numbers.to_vec());
        Normalization { mean: some(mean), deviation: some(deviation) }
    }

    #[test]
    fn what_nobody_says_is_what_is_usual() {
        assert_eq!(Normalization::default().format(3).unwrap(), ImageFormat::usual(3));
        let format = given(&[0.1, 0.2, 0.3], &[]).format(3).unwrap();
        assert_eq!((format.mean, format.deviation), (vec![0.1, 0.2, 0.3], ImageFormat::usual(3).deviation));
        assert!(given(&[0.5], &[0.5]).is_complete() && !given(&[0.5], &[]).is_complete());
    }

    #[test]
    fn numbers_of_other_pixels_are_refused() {
        let text = |given: Normalization| given.format(3).unwrap_err().to_string();
        assert!(text(given(&[123.0, 116.0, 103.0], &[])).contains("mean [123.0, 116.0, 103.0] looks like"));
        assert!(text(given(&[], &[58.0, 57.0, 57.0])).contains("deviation [58.0, 57.0, 57.0] looks like"));
        assert!(text(given(&[0.5], &[])).contains("expected one number for each of 3 channels"));
        assert!(text(given(&[], &[1.0, 0.0, 1.0])).contains("deviations above zero"));
        assert!(text(given(&[0.5, f32::NAN, 0.5], &[])).contains("cannot be used"));
    }
}
