//! One change of shape or color per image, of random strength: TrivialAugment (Müller and Hutter, ICCV 2021, section 3).
//!
//! Its operations, except equalize and sharpness, with the ranges its authors took over from RandAugment. Every change has
//! the same twelve numbers, neutral where it does nothing, so that all images of a batch take the same few operations:
//! pixels are moved by an affine map of places, then colors are computed.

use recipes::random::Stream;

use crate::tensor::{Kind, Tensor};

/// The greatest shear, in pixels per pixel.
const SHEAR: f32 = 0.3;
/// The farthest shift, in pixels.
const SHIFT: f32 = 10.0;
/// The largest turn, in degrees.
const TURN: f32 = 30.0;
/// How far brightness, contrast and saturation go from 1.
const ENHANCEMENT: f32 = 0.9;
/// How many of 8 bits are taken from a color at most.
const LOST_BITS: f32 = 4.0;
/// Strengths are whole numbers up to this.
const STEPS: u32 = 30;
/// The largest value of a color.
const WHITE: f64 = 255.0;

/// What is done to one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// Where a pixel is read, by its place from the center: rows from (row, column, 1), then columns from the same.
    pub(crate) places: [f32; 6],
    /// What colors are multiplied with.
    pub(crate) brightness: f32,
    /// How much of a pixel's difference from its gray is kept.
    pub(crate) saturation: f32,
    /// How much of a pixel's difference from the image's mean gray is kept.
    pub(crate) contrast: f32,
    /// Whether each channel is stretched from black to white: 0 or 1.
    pub(crate) stretch: f32,
    /// The color from which on colors are inverted.
    pub(crate) inverted_from: f32,
    /// Colors become multiples of this.
    pub(crate) color_step: f32,
}

impl Change {
    /// How many numbers a change has.
    pub(crate) const NUMBERS: usize = 12;

    /// What changes nothing.
    pub(crate) const NONE: Self = Self {
        places: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        brightness: 1.0,
        saturation: 1.0,
        contrast: 1.0,
        stretch: 0.0,
        inverted_from: 256.0,
        color_step: 1.0,
    };

    /// A random change; `scale` multiplies the ranges.
    pub(crate) fn draw(scale: f32, stream: &mut Stream) -> Self {
        let operation = stream.below(12);
        let strength = scale * stream.below(STEPS + 1) as f32 / STEPS as f32;
        let signed = if stream.below(2) == 0 { strength } else { -strength };
        let enhanced = (1.0 + ENHANCEMENT * signed).max(0.0);
        let none = Self::NONE;
        match operation {
            0 => none,
            1 => Self { places: [1.0, SHEAR * signed, 0.0, 0.0, 1.0, 0.0], ..none },
            2 => Self { places: [1.0, 0.0, 0.0, SHEAR * signed, 1.0, 0.0], ..none },
            3 => Self { places: [1.0, 0.0, SHIFT * signed, 0.0, 1.0, 0.0], ..none },
            4 => Self { places: [1.0, 0.0, 0.0, 0.0, 1.0, SHIFT * signed], ..none },
            5 => {
                let (sine, cosine) = (TURN * signed).to_radians().sin_cos();
                Self { places: [cosine, -sine, 0.0, sine, cosine, 0.0], ..none }
            }
            6 => Self { brightness: enhanced, ..none },
            7 => Self { saturation: enhanced, ..none },
            8 => Self { contrast: enhanced, ..none },
            9 => Self { stretch: 1.0, ..none },
            10 => Self { inverted_from: 255.0 * (1.0 - strength.min(1.0)), ..none },
            _ => Self { color_step: (LOST_BITS * strength).round().min(7.0).exp2(), ..none },
        }
    }

    /// Its numbers, in the order in which a table holds them.
    pub(crate) fn numbers(&self) -> [f32; Self::NUMBERS] {
        let [a, b, c, d, e, f] = self.places;
        let Self { brightness, saturation, contrast, stretch, inverted_from, color_step, .. } = *self;
        [a, b, c, d, e, f, brightness, saturation, contrast, stretch, inverted_from, color_step]
    }
}

/// The changes of a batch, on the device: (12, batch).
pub(crate) struct Changes(pub(crate) Tensor);

impl Changes {
    /// Number `index` of every image, to compute with tensors of (batch, _, _).
    fn number(&self, index: i64) -> Tensor {
        self.0.get(index).view([-1, 1, 1])
    }

    /// Where each pixel is read: rows and columns, each (batch, rows, columns) of whole numbers, some outside the image.
    pub(crate) fn places(&self, rows: &Tensor, columns: &Tensor) -> (Tensor, Tensor) {
        let middle = |places: &Tensor| (places.numel() as f64 - 1.0) / 2.0;
        let (row_middle, column_middle) = (middle(rows), middle(columns));
        let down = rows.to_kind(Kind::Float).view([1, -1, 1]) - row_middle;
        let right = columns.to_kind(Kind::Float).view([1, 1, -1]) - column_middle;
        let place = |first: i64, middle: f64| {
            let place = self.number(first) * &down + self.number(first + 1) * &right + self.number(first + 2);
            (place + middle).round().to_kind(Kind::Int64)
        };
        (place(0, row_middle), place(3, column_middle))
    }

    /// Colors from 0 to 255, (batch, pixels, channels), changed; `gray` says how much of each channel makes a gray.
    pub(crate) fn recolor(&self, colors: &Tensor, gray: &Tensor) -> Tensor {
        // A blend with a share of exactly 1 or 0 leaves whole numbers whole.
        let blend = |kept: &Tensor, other: &Tensor, share: &Tensor| kept * share + other * (1.0 - share);
        let colors = colors * self.number(6);
        let grays = (&colors * gray).sum_dim_intlist([2].as_slice(), true, Kind::Float);
        let mean = grays.mean_dim([1].as_slice(), true, Kind::Float);
        let colors = blend(&colors, &grays, &self.number(7));
        let colors = blend(&colors, &mean, &self.number(8)).clamp(0.0, WHITE);
        let (darkest, brightest) = (colors.amin([1].as_slice(), true), colors.amax([1].as_slice(), true));
        let range = brightest - &darkest;
        // A channel of one color has nothing to stretch.
        let share = self.number(9) * range.gt(0.0).to_kind(Kind::Float);
        let stretched = (&colors - darkest) * WHITE / range.clamp_min(1e-3);
        let colors = blend(&stretched, &colors, &share);
        let colors = (WHITE - &colors).where_self(&colors.ge_tensor(&self.number(10)), &colors);
        let step = self.number(11);
        (colors / &step).floor() * step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Device, to_floats, to_integers};

    fn changes(changes: &[Change]) -> Changes {
        let numbers = changes.iter().flat_map(Change::numbers).collect::<Vec<_>>();
        let shape = [changes.len() as i64, Change::NUMBERS as i64];
        Changes(Device::Cpu.floats(&numbers, &shape).transpose(0, 1).contiguous())
    }

    /// The places that a 3 x 4 image is read from.
    fn places(change: Change) -> Vec<(i64, i64)> {
        let (rows, columns) = changes(&[change]).places(&Device::Cpu.count(3), &Device::Cpu.count(4));
        to_integers(&rows.expand([1, 3, 4], true)).into_iter().zip(to_integers(&columns)).collect()
    }

    fn grid(place: impl Fn(i64, i64) -> (i64, i64)) -> Vec<(i64, i64)> {
        (0..12).map(|index| place(index / 4, index % 4)).collect()
    }

    #[test]
    fn places_shift_shear_and_turn_around_the_center() {
        let moved = |numbers| places(Change { places: numbers, ..Change::NONE });
        assert_eq!(places(Change::NONE), grid(|row, column| (row, column)));
        assert_eq!(moved([1.0, 0.0, -2.0, 0.0, 1.0, 3.0]), grid(|row, column| (row - 2, column + 3)));
        assert_eq!(moved([1.0, 0.0, 0.0, 1.0, 1.0, 0.0]), grid(|row, column| (row, column + row - 1)));
        assert_eq!(moved([-1.0, 0.0, 0.0, 0.0, -1.0, 0.0]), grid(|row, column| (2 - row, 3 - column)));
    }

    /// Three pixels of three channels, changed by a slow, obvious formula.
    fn recolored(pixels: [[f32; 3]; 3], change: &Change) -> Vec<f32> {
        let gray = |pixel: &[f32; 3]| 0.25 * pixel[0] + 0.5 * pixel[1] + 0.25 * pixel[2];
        let mut pixels = pixels.map(|pixel| pixel.map(|color| color * change.brightness));
        let mean = pixels.iter().map(gray).sum::<f32>() / 3.0;
        for pixel in &mut pixels {
            let gray = gray(pixel);
            for color in pixel {
                *color = gray + change.saturation * (*color - gray);
                *color = (mean + change.contrast * (*color - mean)).clamp(0.0, 255.0);
            }
        }
        for channel in 0..3 {
            let colors = pixels.map(|pixel| pixel[channel]);
            let (low, high) =
                (colors.iter().copied().fold(255.0, f32::min), colors.iter().copied().fold(0.0, f32::max));
            for pixel in &mut pixels {
                let color = &mut pixel[channel];
                if change.stretch > 0.0 && high > low {
                    *color = (*color - low) / (high - low) * 255.0;
                }
                if *color >= change.inverted_from {
                    *color = 255.0 - *color;
                }
                *color = (*color / change.color_step).floor() * change.color_step;
            }
        }
        pixels.concat()
    }

    #[test]
    fn colors_change_as_the_formulas_say() {
        let pixels = [[10.0, 200.0, 7.0], [90.0, 40.0, 7.0], [250.0, 120.0, 7.0]];
        let none = Change::NONE;
        let all = [
            none,
            Change { brightness: 1.5, ..none },
            Change { saturation: 0.25, ..none },
            Change { saturation: 1.75, ..none },
            Change { contrast: 0.5, ..none },
            Change { contrast: 1.5, ..none },
            Change { stretch: 1.0, ..none },
            Change { inverted_from: 100.0, ..none },
            Change { color_step: 16.0, ..none },
        ];
        let colors = Device::Cpu.floats(&pixels.concat(), &[1, 3, 3]).expand([9, 3, 3], true);
        let gray = Device::Cpu.floats(&[0.25, 0.5, 0.25], &[3]);
        let found = to_floats(&changes(&all).recolor(&colors, &gray));
        for (change, found) in all.iter().zip(found.chunks(9)) {
            let expected = recolored(pixels, change);
            let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            // A rounding error before the floor may cost one.
            assert!(worst <= 1.01, "{change:?}: {found:?} {expected:?}");
        }
        assert_eq!(found[..9], pixels.concat());
    }

    #[test]
    fn every_change_comes_up_within_its_range() {
        let mut stream = Stream::new("changes", 3);
        let drawn: Vec<Change> = (0..4000).map(|_| Change::draw(1.0, &mut stream)).collect();
        let differing = |number: usize| {
            let neutral = Change::NONE.numbers()[number];
            let values =
                drawn.iter().map(|change| change.numbers()[number]).filter(|value| *value != neutral);
            let values: Vec<f32> = values.collect();
            let low = values.iter().copied().fold(f32::INFINITY, f32::min);
            (values.len(), low, values.iter().copied().fold(f32::NEG_INFINITY, f32::max))
        };
        for (number, low, high) in
            [(2, -10.0, 10.0), (5, -10.0, 10.0), (6, 0.1, 1.9), (7, 0.1, 1.9), (10, 0.0, 255.0)]
        {
            let (count, least, most) = differing(number);
            assert!((250..420).contains(&count), "{number}: {count} of 4000");
            assert!((least - low).abs() < 1e-3 && (most - high).abs() < 1e-3, "{number}: {least} to {most}");
        }
        assert_eq!(differing(11).1..=differing(11).2, 2.0..=16.0);
    }
}
