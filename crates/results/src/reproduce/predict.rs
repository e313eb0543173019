//! Minutes on a GPU, predicted.
//!
//! A training step of 128 images was measured on one H200 in bf16 (`sordino bench train`): 2.86 ms for ResNet-18 (555.5
//! million multiply-adds for an image) and 2.13 ms for HybReNet 2x5x3x m=16 (178.5 million). A line through both:
//!
//! ```text
//! step = 1.78 ms + batch / 128 * 1.94 ms * (student's multiply-adds + 1/3 of the teacher's) / 10^9
//! minutes = epochs * (training images / batch) * step
//! ```
//!
//! A step costs about three forward passes; the teacher makes one of them. What is left out: loading data, trying test
//! images, checkpoints, going on after an interruption. Our runs (`docs/src/results/accuracy.md`) took 0.9 to 2.3 times
//! the prediction.

/// What every step takes, in milliseconds.
const FIXED_STEP_MS: f64 = 1.78;
/// What a thousand million multiply-adds add for each of 128 images.
const MS_PER_GIGAMAC: f64 = 1.94;
/// What the teacher's forward pass costs of a step of its own.
const TEACHER_SHARE: f64 = 1.0 / 3.0;

/// Minutes for so many epochs over so many images.
pub(super) fn minutes(macs: u64, teacher_macs: Option<u64>, epochs: u32, images: u64, batch: usize) -> f64 {
    let work = macs as f64 + TEACHER_SHARE * teacher_macs.unwrap_or(0) as f64;
    let step = FIXED_STEP_MS + batch as f64 / 128.0 * MS_PER_GIGAMAC * work / 1e9;
    let steps = f64::from(epochs) * (images / batch.max(1) as u64) as f64;
    steps * step / 60_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_goes_through_the_measured_steps() {
        // 60,000 steps of one millisecond are a minute.
        let step_ms = |macs| minutes(macs, None, 60_000, 128, 128);
        assert!((step_ms(555_468_800) - 2.86).abs() < 0.01, "{}", step_ms(555_468_800));
        assert!((step_ms(178_500_000) - 2.13).abs() < 0.01, "{}", step_ms(178_500_000));
    }

    #[test]
    fn runs_take_about_what_they_took() {
        // Measured: HybReNet 52K with ResNet-18 as its teacher, 220 epochs, 4.5 minutes; ResNet-18, 200 epochs, 4.1 minutes.
        let taught = minutes(178_500_000, Some(555_468_800), 220, 50_000, 128);
        assert!((taught / 4.5 - 1.0).abs() < 0.25, "{taught}");
        let teacher = minutes(555_468_800, None, 200, 50_000, 128);
        assert!((teacher / 4.1 - 1.0).abs() < 0.25, "{teacher}");
    }
}
