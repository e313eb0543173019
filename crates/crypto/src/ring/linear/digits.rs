//! Values cut into digits, and the digits of neighboring channels put into one word.
//!
//! Bytes are plain: x = sum of d_i 2^(8i) with 0 <= d_i < 256. Halves are balanced, because the processor multiplies
//! signed halves only: with B = 2^15 (1 + 2^16 + 2^32 + 2^48), the 16-bit pieces of (x + B) xor B, read as signed
//! integers, are digits of x modulo 2^64. Balanced 8-bit digits come from the same formula with 2^7 and 2^8.

use crate::cpu::CpuFeatures;
use crate::ring::geometry::ConvGeometry;
use crate::ring::kernel::dot::WordForm;
use crate::ring::kernel::{Vectorized, vectorized};
use crate::ring::width::RingWidth;
use crate::ring::word::Word;

/// Added before a value is cut into balanced 16-bit digits, and removed digit by digit.
const HALF_BALANCE: u64 = 0x8000_8000_8000_8000;

/// The same for balanced 8-bit digits.
const BYTE_BALANCE: u64 = 0x8080_8080_8080_8080;

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

    /// The words that hold the digits.
    pub(super) fn form(&self) -> WordForm {
        self.form
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
    let zeros = vec![W::default(); area];
    for (image, values) in
        words.chunks_exact_mut(padded.area() * pixel).zip(values.chunks_exact(geometry.input_len()))
    {
        for step in 0..shape.groups * plan.steps_per_tap(geometry) {
            let (group, step_in_group) =
                (step / plan.steps_per_tap(geometry), step % plan.steps_per_tap(geometry));
            let planes: [&[W]; 4] = std::array::from_fn(|channel| {
                let in_this_group = step_in_group * channels + channel;
                let is_real = channel < channels && in_this_group < in_group;
                if is_real { &values[(group * in_group + in_this_group) * area..][..area] } else { &zeros }
            });
            for row in 0..shape.input.height {
                let first = (row + shape.padding.height) * padded.width + shape.padding.width;
                let target = &mut image[first * pixel + step * plan.digits..];
                let rows = planes.map(|plane| &plane[row * row_length..][..row_length]);
                vectorized(features, CutRow { plan: *plan, rows, target, pixel });
            }
        }
    }
    words
}

/// Cuts one row of up to four channels; the digits of neighboring values go `pixel` words apart.
struct CutRow<'a, W> {
    plan: DigitPlan,
    rows: [&'a [W]; 4],
    target: &'a mut [u32],
    pixel: usize,
}

impl<W: Word> Vectorized for CutRow<'_, W> {
    #[inline(always)]
    fn run(self) {
        match (self.plan.form, self.plan.digit_bits) {
            (WordForm::Bytes, _) => self.each(|values, bits| {
                let byte = |value: W| value.widen() >> bits & 0xff;
                byte(values[0]) | byte(values[1]) << 8 | byte(values[2]) << 16 | byte(values[3]) << 24
            }),
            (WordForm::Halves, 16) => self.each(|values, bits| {
                let half =
                    |value: W| (value.widen().wrapping_add(HALF_BALANCE) ^ HALF_BALANCE) >> bits & 0xffff;
                half(values[0]) | half(values[1]) << 16
            }),
            (WordForm::Halves, _) => self.each(|values, bits| {
                let half = |value: W| {
                    let digit = (value.widen().wrapping_add(BYTE_BALANCE) ^ BYTE_BALANCE) >> bits;
                    u64::from(i16::from(digit as i8).cast_unsigned())
                };
                half(values[0]) | half(values[1]) << 16
            }),
        }
    }
}

impl<W: Word> CutRow<'_, W> {
    #[inline(always)]
    fn each(self, word: impl Fn([W; 4], u32) -> u64) {
        let [first, second, third, fourth] = self.rows;
        let length = first.len();
        let (second, third, fourth) = (&second[..length], &third[..length], &fourth[..length]);
        for (column, target) in self.target.chunks_mut(self.pixel).take(length).enumerate() {
            let values = [first[column], second[column], third[column], fourth[column]];
            for (digit, target) in target[..self.plan.digits].iter_mut().enumerate() {
                *target = word(values, digit as u32 * self.plan.digit_bits) as u32;
            }
        }
    }
}
