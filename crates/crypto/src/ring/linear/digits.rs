//! How the values of a ring are cut into digits, and where the digits go.

use crate::cpu::CpuFeatures;
use crate::ring::geometry::ConvGeometry;
use crate::ring::kernel::cut::CutRow;
use crate::ring::kernel::dot::WordForm;
use crate::ring::width::RingWidth;
use crate::ring::word::Word;

/// How the values of a ring are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DigitPlan {
    form: WordForm,
    digit_bits: u32,
    digits: usize,
    exact_steps: usize,
}

impl DigitPlan {
    pub(super) fn new(form: WordForm, weights_fit_bytes: bool, width: RingWidth) -> Self {
        // In a wide ring, sums of digits must be exact before they are put together. Products of two halves would
        // fill 31 bits at once, so 16-bit weights meet 8-bit digits there.
        let digit_bits = match form {
            WordForm::Bytes => 8,
            WordForm::Halves if width.is_narrow() || weights_fit_bytes => 16,
            WordForm::Halves => 8,
        };
        // Largest sums: 16384 * 4 * 255 * 128 < 2^31 for bytes; 128 * 2 * 2^(15 + 7) = 2^30 for halves.
        let exact_steps = match form {
            _ if width.is_narrow() => usize::MAX,
            WordForm::Bytes => 1 << 14,
            WordForm::Halves => 1 << 7,
        };
        let digits = width.bits().div_ceil(digit_bits) as usize;
        Self { form, digit_bits, digits, exact_steps }
    }

    /// Bits of a digit.
    pub(super) fn digit_bits(&self) -> u32 {
        self.digit_bits
    }

    /// Digits of a value.
    pub(super) fn digits(&self) -> usize {
        self.digits
    }

    /// Steps after which a sum of products might leave 32 bits, where that matters.
    pub(super) fn exact_steps(&self) -> usize {
        self.exact_steps
    }

    /// Steps for one filter tap: the channels of a group, in words.
    pub(super) fn steps_per_tap(&self, geometry: &ConvGeometry) -> usize {
        geometry.in_channels_per_group().div_ceil(self.form.channels())
    }

    /// Words of one pixel: all groups, steps and digits.
    pub(super) fn words_per_pixel(&self, geometry: &ConvGeometry) -> usize {
        geometry.shape().groups * self.steps_per_tap(geometry) * self.digits
    }
}

/// Cuts whole images: `[image][padded row][padded column][group][step][digit]`, the border zero.
pub(super) fn cut<W: Word>(
    geometry: &ConvGeometry,
    plan: &DigitPlan,
    values: &[W],
    features: CpuFeatures,
) -> Vec<u32> {
    let shape = geometry.shape();
    let padded = geometry.padded_input();
    let pixel = plan.words_per_pixel(geometry);
    let images = values.len() / geometry.input_len();
    let mut words = vec![0; images * padded.area() * pixel];
    let (area, row_length) = (shape.input.area(), shape.input.width);
    let (in_group, channels) = (geometry.in_channels_per_group(), plan.form.channels());
    let zeros = vec![W::default(); row_length];
    let steps_per_tap = plan.steps_per_tap(geometry);
    let cut = words.chunks_exact_mut(padded.area() * pixel).zip(values.chunks_exact(geometry.input_len()));
    for (image, values) in cut {
        for row in 0..shape.input.height {
            let first = (row + shape.padding.height) * padded.width + shape.padding.width;
            for step in 0..shape.groups * steps_per_tap {
                let (group, first_input) = (step / steps_per_tap, step % steps_per_tap * channels);
                let rows: [&[W]; 4] = std::array::from_fn(|channel| {
                    let input = first_input + channel;
                    let is_real = channel < channels && input < in_group;
                    let start = (group * in_group + input) * area + row * row_length;
                    if is_real { &values[start..start + row_length] } else { &zeros }
                });
                let target = &mut image[first * pixel + step * plan.digits..];
                let (form, digit_bits, digits) = (plan.form, plan.digit_bits, plan.digits);
                CutRow { form, digit_bits, digits, rows, target, pixel }.cut(features);
            }
        }
    }
    words
}
