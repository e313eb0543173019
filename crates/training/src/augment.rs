//! Batches made on the device: gathered, cropped, flipped, cut and mixed by moving indices, not pixels.
//!
//! All images lie on the device as rows of pixels, one row of channels each. A batch is a map of row numbers: a crop
//! shifts them, a flip reverses them, what lies outside points to a black row, what is cut out to a row of the mean
//! color, and CutMix takes the numbers of a neighbor. One gather then reads the pixels, with channels innermost; what
//! changes colors (`change`) follows.
//!
//! What is random is drawn on the host for a whole epoch, as a pure function of seed and epoch (`Draws`); a step
//! reads its row of those tables. So a recorded step draws nothing, and a resumed run draws the same.

mod change;
mod draws;

use network::shape::Shape;
use recipes::recipe::Augmentation;

use crate::tensor::{Device, Kind, Tensor};

pub(crate) use change::{Change, Changes};
pub(crate) use draws::{Draws, PER_BATCH, PER_IMAGE, View};

/// How much red, green and blue make a gray (ITU-R BT.601).
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// Images on a device.
#[derive(Debug)]
pub(crate) struct Pixels {
    /// One row of channels per pixel of all images, then a black one and one of the mean color.
    rows: Tensor,
    scale: Tensor,
    shift: Tensor,
    /// The numbers of rows and of columns of an image.
    places: (Tensor, Tensor),
    /// How much of each channel makes a gray.
    gray: Tensor,
    shape: Shape,
    count: i64,
    device: Device,
}

/// What one step reads of the tables, on the device.
pub(crate) struct StepDraws {
    /// (batch).
    pub(crate) order: Tensor,
    /// (5, batch).
    pub(crate) images: Tensor,
    /// (4).
    pub(crate) boxes: Tensor,
    /// (1).
    pub(crate) share: Tensor,
    /// Where images are changed.
    pub(crate) changes: Option<Changes>,
}

impl Pixels {
    /// Moves images (one after the other: channels, rows, columns) to a device.
    pub(crate) fn new(images: &[u8], shape: Shape, mean: &[f32], deviation: &[f32], device: Device) -> Self {
        let (channels, pixels) = (shape.channels, shape.pixels() as usize);
        let count = images.len() / (channels * pixels);
        let mut rows = Vec::with_capacity((count * pixels + 2) * channels);
        for image in images.chunks_exact(channels * pixels) {
            rows.extend(
                (0..channels * pixels).map(|index| image[index % channels * pixels + index / channels]),
            );
        }
        rows.extend(std::iter::repeat_n(0, channels));
        rows.extend(mean.iter().map(|mean| (mean * 255.0).round().clamp(0.0, 255.0) as u8));
        let scale: Vec<f32> = deviation.iter().map(|deviation| (255.0 * deviation).recip()).collect();
        let shift: Vec<f32> = mean.iter().zip(deviation).map(|(mean, deviation)| -mean / deviation).collect();
        let row = channels as i64;
        let gray = match channels {
            3 => LUMA.to_vec(),
            _ => vec![(channels as f32).recip(); channels],
        };
        Self {
            rows: device.bytes(&rows, &[(count * pixels + 2) as i64, row]),
            scale: device.floats(&scale, &[row]),
            shift: device.floats(&shift, &[row]),
            places: (device.count(shape.height as i64), device.count(shape.width as i64)),
            gray: device.floats(&gray, &[row]),
            shape,
            count: count as i64,
            device,
        }
    }

    pub(crate) fn count(&self) -> i64 {
        self.count
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn device(&self) -> Device {
        self.device
    }

    /// Some images in order, as they are.
    pub(crate) fn range(&self, start: i64, count: i64) -> Tensor {
        let pixels = self.shape.pixels() as i64;
        self.normalize(&self.rows.narrow(0, start * pixels, count * pixels))
    }

    /// A batch, changed as the draws say.
    pub(crate) fn batch(&self, augmentation: &Augmentation, draws: &StepDraws) -> Tensor {
        let map = self.row_numbers(augmentation, draws);
        let mut colors = self.rows.index_select(0, &map.reshape([-1]));
        if let Some(changes) = &draws.changes {
            let pixels = self.shape.pixels() as i64;
            let images = colors.to_kind(Kind::Float).view([-1, pixels, self.shape.channels as i64]);
            colors = changes.recolor(&images, &self.gray);
        }
        let images = self.normalize(&colors);
        if augmentation.mixup > 0.0 {
            // The batch is in random order, so its reverse pairs each image with a random other one.
            return images.flip([0]).lerp_tensor(&images, &draws.share);
        }
        images
    }

    /// Which pixel row each pixel of a batch is read from: (batch, rows, columns).
    fn row_numbers(&self, augmentation: &Augmentation, draws: &StepDraws) -> Tensor {
        let (height, width) = (self.shape.height as i64, self.shape.width as i64);
        let draw = |index: i64| draws.images.get(index).view([-1, 1, 1]);
        let outside = |place: &Tensor, side: i64| place.lt(0).logical_or(&place.ge(side));
        let outside =
            |down: &Tensor, right: &Tensor| outside(down, height).logical_or(&outside(right, width));
        let (rows, columns) = &self.places;
        let (mut down, mut right) = (rows.view([1, -1, 1]), columns.view([1, 1, -1]));
        let mut black = None;
        if let Some(changes) = &draws.changes {
            (down, right) = changes.places(rows, columns);
            black = Some(outside(&down, &right));
        }
        if augmentation.flip {
            // Where it is mirrored, column x becomes width - 1 - x.
            let mirrored = draw(2);
            right = right * (1 - &mirrored * 2) + mirrored * (width - 1);
        }
        let padding = augmentation.crop_padding as i64;
        if padding > 0 {
            down = down + draw(0) - padding;
            right = right + draw(1) - padding;
            let cropped = outside(&down, &right);
            black = Some(black.map_or_else(|| cropped.shallow_clone(), |black| black.logical_or(&cropped)));
        }
        let first = draws.order.view([-1, 1, 1]) * (height * width);
        let mut map = first + &down * width + &right;
        if let Some(black) = black {
            map = map.masked_fill(&black, self.count * height * width);
        }
        if augmentation.cutout > 0 {
            let hidden = self.cut_out(augmentation.cutout as i64, &draw(3), &draw(4));
            map = map.masked_fill(&hidden, self.count * height * width + 1);
        }
        if augmentation.cutmix > 0.0 {
            map = map.flip([0]).where_self(&self.inside(&draws.boxes), &map);
        }
        map
    }

    /// Which pixels lie in a square around a center of their own for each image.
    fn cut_out(&self, side: i64, row: &Tensor, column: &Tensor) -> Tensor {
        let near = |place: &Tensor, center: &Tensor| {
            let offset = place - center + side / 2;
            offset.ge(0).logical_and(&offset.lt(side))
        };
        let (rows, columns) = &self.places;
        near(&rows.view([1, -1, 1]), row).logical_and(&near(&columns.view([1, 1, -1]), column))
    }

    /// Which pixels lie in a rectangle.
    fn inside(&self, corners: &Tensor) -> Tensor {
        let within = |place: &Tensor, index: i64| {
            place.ge_tensor(&corners.get(index)).logical_and(&place.lt_tensor(&corners.get(index + 1)))
        };
        let (rows, columns) = &self.places;
        within(rows, 0).unsqueeze(1).logical_and(&within(columns, 2).unsqueeze(0))
    }

    /// Rows of pixels as normalized images, channels innermost.
    fn normalize(&self, rows: &Tensor) -> Tensor {
        let Shape { channels, height, width } = self.shape;
        let numbers = self.shift.addcmul(&rows.to_kind(Kind::Float), &self.scale);
        numbers.view([-1, height as i64, width as i64, channels as i64]).permute([0, 3, 1, 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::to_floats;

    const SHAPE: Shape = Shape::new(2, 3, 4);

    /// Two images whose pixels are all different; normalization gives the bytes back.
    fn pixels() -> (Vec<u8>, Pixels) {
        let images: Vec<u8> = (1..=48).collect();
        let pixels = Pixels::new(&images, SHAPE, &[0.0, 0.0], &[1.0 / 255.0, 1.0 / 255.0], Device::Cpu);
        (images, pixels)
    }

    fn step(order: &[i64], images: &[i64], boxes: &[i64], share: f32) -> StepDraws {
        StepDraws {
            order: Device::Cpu.integers(order, &[order.len() as i64]),
            images: Device::Cpu.integers(images, &[5, order.len() as i64]),
            boxes: Device::Cpu.integers(boxes, &[4]),
            share: Device::Cpu.floats(&[share], &[1]),
            changes: None,
        }
    }

    fn pixel(images: &[u8], image: usize, channel: usize, row: i64, column: i64) -> f32 {
        if !(0..3).contains(&row) || !(0..4).contains(&column) {
            return 0.0;
        }
        f32::from(images[((image * 2 + channel) * 3 + row as usize) * 4 + column as usize])
    }

    /// Compares a batch with what a slow, obvious formula gives for every pixel.
    fn assert_batch(batch: &Tensor, expected: impl Fn(usize, usize, i64, i64) -> f32) {
        assert_eq!(batch.size(), [2, 2, 3, 4]);
        for (index, value) in to_floats(batch).iter().enumerate() {
            let (image, channel, row, column) = (index / 24, index / 12 % 2, index / 4 % 3, index % 4);
            let expected = expected(image, channel, row as i64, column as i64);
            assert!((value - expected).abs() < 1e-4, "{image} {channel} {row} {column}: {value} {expected}");
        }
    }

    #[test]
    fn images_come_back_as_they_are() {
        let (images, pixels) = pixels();
        assert_batch(&pixels.range(0, 2), |image, channel, row, column| {
            pixel(&images, image, channel, row, column)
        });
        let draws = step(&[1, 0], &[0; 10], &[0; 4], 1.0);
        assert_batch(&pixels.batch(&Augmentation::default(), &draws), |image, channel, row, column| {
            pixel(&images, 1 - image, channel, row, column)
        });
    }

    #[test]
    fn crops_shift_flips_mirror_and_cutout_cuts() {
        let (images, pixels) = pixels();
        let augmentation = Augmentation { crop_padding: 1, flip: true, cutout: 2, ..Augmentation::default() };
        // The first image moves by (0 - 1, 2 - 1) and is mirrored; the second by (2 - 1, 0 - 1).
        let draws = step(&[0, 1], &[0, 2, 2, 0, 1, 0, 0, 2, 1, 3], &[0; 4], 1.0);
        assert_batch(&pixels.batch(&augmentation, &draws), |image, channel, row, column| {
            let (cut_row, cut_column) = [(0, 1), (2, 3)][image];
            let is_cut =
                (cut_row - 1..=cut_row).contains(&row) && (cut_column - 1..=cut_column).contains(&column);
            match image {
                // Mean and black are both 0 here.
                _ if is_cut => 0.0,
                0 => pixel(&images, 0, channel, row - 1, 3 - column + 1),
                _ => pixel(&images, 1, channel, row + 1, column - 1),
            }
        });
    }

    #[test]
    fn changes_act_on_what_was_cropped_and_mirrored() {
        let (images, pixels) = pixels();
        let augmentation =
            Augmentation { crop_padding: 1, flip: true, trivial: 1.0, ..Augmentation::default() };
        let none = Change::NONE;
        let shifted = Change { places: [1.0, 0.0, 1.0, 0.0, 1.0, -1.0], ..none };
        let inverted = Change { inverted_from: 30.0, ..none };
        let numbers = [shifted.numbers(), inverted.numbers()].concat();
        let numbers = Device::Cpu.floats(&numbers, &[2, Change::NUMBERS as i64]).transpose(0, 1).contiguous();
        // Both are cropped by (0 - 1, 2 - 1); the first is mirrored too.
        let mut draws = step(&[0, 1], &[0, 0, 2, 2, 1, 0, 0, 0, 0, 0], &[0; 4], 1.0);
        draws.changes = Some(Changes(numbers));
        let cropped = |image: usize, channel, row, column: i64| {
            let column = if image == 0 { 3 - column } else { column };
            pixel(&images, image, channel, row - 1, column + 1)
        };
        assert_batch(&pixels.batch(&augmentation, &draws), |image, channel, row, column| match image {
            // The cropped image has black around it when it is shifted, whatever the padding held there.
            0 if row + 1 > 2 || column < 1 => 0.0,
            0 => cropped(0, channel, row + 1, column - 1),
            _ => match cropped(1, channel, row, column) {
                color if color >= 30.0 => 255.0 - color,
                color => color,
            },
        });
    }

    #[test]
    fn what_is_cut_out_has_the_mean_color() {
        let pixels = Pixels::new(&[200; 12], Shape::new(1, 3, 4), &[100.0 / 255.0], &[0.5], Device::Cpu);
        let augmentation = Augmentation { cutout: 9, ..Augmentation::default() };
        let batch = pixels.batch(&augmentation, &step(&[0], &[0; 5], &[0; 4], 1.0));
        assert!(to_floats(&batch).iter().all(|value| value.abs() < 1e-6));
    }

    #[test]
    fn mixtures_take_the_neighbor() {
        let (images, pixels) = pixels();
        let mixup = Augmentation { mixup: 1.0, ..Augmentation::default() };
        let draws = step(&[0, 1], &[0; 10], &[1, 3, 0, 2], 0.75);
        assert_batch(&pixels.batch(&mixup, &draws), |image, channel, row, column| {
            let other = pixel(&images, 1 - image, channel, row, column);
            0.75 * pixel(&images, image, channel, row, column) + 0.25 * other
        });
        let cutmix = Augmentation { cutmix: 1.0, ..Augmentation::default() };
        assert_batch(&pixels.batch(&cutmix, &draws), |image, channel, row, column| {
            let is_inside = (1..3).contains(&row) && (0..2).contains(&column);
            pixel(&images, if is_inside { 1 - image } else { image }, channel, row, column)
        });
    }
}
