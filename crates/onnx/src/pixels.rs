//! How pixels become numbers for an imported network: as the user says, and then as the network itself does first.

use network::image::{Normalization as Given, NormalizationError};
use network::inference_model::ImageFormat;

use crate::{Imported, Normalization};

/// A network that divides pixels by this or more takes them from 0 to 255.
const BYTE_SCALE: f32 = 1.0 / 50.0;

impl Imported {
    /// The format of its images. Where the network normalizes pixels itself, what nobody said is nothing.
    ///
    /// # Errors
    /// When what was said does not fit the image.
    pub fn image_format(&self, given: &Given) -> Result<ImageFormat, NormalizationError> {
        let channels = self.network.input().channels;
        let mut format = given.format(channels)?;
        let Some(own) = &self.normalization else { return Ok(format) };
        if given.mean.is_none() {
            format.mean = vec![0.0; channels];
        }
        if given.deviation.is_none() {
            format.deviation = vec![if own.takes_bytes() { 1.0 / 255.0 } else { 1.0 }; channels];
        }
        for (channel, (scale, shift)) in own.scale.iter().zip(&own.shift).enumerate() {
            format.mean[channel] -= shift * format.deviation[channel] / scale;
            format.deviation[channel] /= scale;
        }
        Ok(format)
    }

    /// What is taken for granted about pixels where nobody said.
    pub fn pixel_note(&self, given: &Given) -> Option<String> {
        if given.is_complete() {
            return None;
        }
        if let Some(own) = &self.normalization {
            let largest = if own.takes_bytes() { 255 } else { 1 };
            return Some(format!(
                "the network normalizes its pixels itself and is taken to expect them from 0 to {largest}"
            ));
        }
        let (missing, numbers) = match (&given.mean, &given.deviation) {
            (None, Some(_)) => ("mean", "0.5"),
            (Some(_), None) => ("deviation", "0.25"),
            _ => ("mean and deviation", "0.5 and 0.25"),
        };
        // As `ImageFormat::usual` has it.
        let usual = match self.network.input().channels {
            3 => format!("the usual {missing} of CIFAR-10"),
            channels => {
                let plural = if channels == 1 { "" } else { "s" };
                format!(
                    "{numbers} as {missing}, for want of usual ones for images of {channels} channel{plural}"
                )
            }
        };
        Some(format!(
            "pixels are normalized with {usual}; name the {missing} that your network was trained with"
        ))
    }
}

impl Normalization {
    fn takes_bytes(&self) -> bool {
        self.scale.iter().all(|scale| *scale <= BYTE_SCALE)
    }
}
