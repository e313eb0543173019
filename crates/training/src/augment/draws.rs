//! The random numbers of an epoch, drawn on the host as a pure function of seed and epoch.

use std::ops::Range;

use network::shape::Shape;
use recipes::random::Stream;

use recipes::recipe::Augmentation;

use super::{Change, Changes, StepDraws};
use crate::tensor::{Device, Kind};

/// Random numbers of an image: shift down, shift right, mirrored, row and column of what is cut out.
pub(crate) const PER_IMAGE: usize = 5;
/// Random numbers of a batch for CutMix: first row, end row, first column, end column.
pub(crate) const PER_BATCH: usize = 4;

/// The random numbers of one epoch, step by step.
#[derive(Debug)]
pub(crate) struct Draws {
    /// (steps, batch): which images.
    pub(crate) order: Vec<i64>,
    /// (steps, 5, batch).
    pub(crate) images: Vec<i64>,
    /// (steps, 4).
    pub(crate) boxes: Vec<i64>,
    /// (steps): how much of an image is its own.
    pub(crate) shares: Vec<f32>,
    /// (steps, 12, batch): the numbers of each image's change; nothing where none is changed.
    pub(crate) changes: Vec<f32>,
}

impl Draws {
    /// The numbers of one epoch; the images beyond the last whole batch of its order are left out.
    pub(crate) fn new(
        augmentation: &Augmentation,
        shape: Shape,
        (images, batch): (usize, usize),
        (seed, epoch): (u64, u64),
    ) -> Self {
        let steps = images / batch;
        let mut stream = Stream::new(&format!("augmentation of epoch {epoch}"), seed);
        let mut draws = Self {
            order: order((images, batch), (seed, epoch)),
            images: vec![0; steps * PER_IMAGE * batch],
            boxes: Vec::new(),
            shares: Vec::new(),
            changes: Vec::new(),
        };
        let limits = limits(augmentation, shape);
        for (index, value) in draws.images.iter_mut().enumerate() {
            *value = i64::from(stream.below(limits[index / batch % PER_IMAGE]));
        }
        for _ in 0..steps {
            draws.draw_mixture(augmentation, shape, &mut stream);
        }
        if augmentation.trivial > 0.0 {
            // Of a stream of its own, so that everything else is drawn as it is without changes.
            let mut stream = Stream::new(&format!("changes of epoch {epoch}"), seed);
            draws.changes = vec![0.0; steps * Change::NUMBERS * batch];
            for step in draws.changes.chunks_exact_mut(Change::NUMBERS * batch) {
                for image in 0..batch {
                    let change = Change::draw(augmentation.trivial as f32, &mut stream);
                    for (index, number) in change.numbers().into_iter().enumerate() {
                        step[index * batch + image] = number;
                    }
                }
            }
        }
        draws
    }

    /// The numbers of an epoch that learns from a view: its own order, and of each image what the view says.
    pub(crate) fn of_view(view: &View, size: (usize, usize), (seed, epoch): (u64, u64)) -> Self {
        let order = order(size, (seed, epoch));
        let arrange =
            |step: &[i64]| view.arrange(&step.iter().map(|image| *image as usize).collect::<Vec<_>>());
        let (images, changes): (Vec<_>, Vec<_>) = order.chunks_exact(size.1).map(arrange).unzip();
        let steps = images.len();
        Self {
            images: images.concat(),
            changes: changes.concat(),
            boxes: vec![0; steps * PER_BATCH],
            shares: vec![1.0; steps],
            order,
        }
    }

    fn draw_mixture(&mut self, augmentation: &Augmentation, shape: Shape, stream: &mut Stream) {
        let (mut share, mut corners) = (1.0, [0; PER_BATCH]);
        // Rounded to 32 bits as ever: a run that goes on must draw what it would have drawn.
        let rounded = |concentration: f64| f64::from(concentration as f32);
        if augmentation.mixup > 0.0 {
            share = beta(stream, rounded(augmentation.mixup)) as f32;
        }
        if augmentation.cutmix > 0.0 {
            let side = (1.0 - beta(stream, rounded(augmentation.cutmix))).sqrt();
            let rows = span(stream, shape.height, side);
            let columns = span(stream, shape.width, side);
            corners = [rows.0, rows.1, columns.0, columns.1];
            let area = (rows.1 - rows.0) * (columns.1 - columns.0);
            share = 1.0 - area as f32 / shape.pixels() as f32;
        }
        self.shares.push(share);
        self.boxes.extend(corners);
    }
}

/// The images of an epoch in random order, in whole batches.
fn order((images, batch): (usize, usize), (seed, epoch): (u64, u64)) -> Vec<i64> {
    let mut order: Vec<i64> = (0..images as i64).collect();
    Stream::new(&format!("order of epoch {epoch}"), seed).shuffle(&mut order);
    order.truncate(images / batch * batch);
    order
}

/// The numbers of an image are below these.
fn limits(augmentation: &Augmentation, shape: Shape) -> [u32; PER_IMAGE] {
    let shifts = 2 * augmentation.crop_padding + 1;
    let flips = if augmentation.flip { 2 } else { 1 };
    [shifts, shifts, flips, shape.height, shape.width].map(|limit| limit as u32)
}

/// The random numbers of every image of one view, whatever the order in which it is learned.
pub(crate) struct View {
    images: Vec<[i64; PER_IMAGE]>,
    /// Nothing where no image is changed.
    changes: Vec<[f32; Change::NUMBERS]>,
}

impl View {
    pub(crate) fn new(
        augmentation: &Augmentation,
        shape: Shape,
        images: usize,
        (seed, view): (u64, u64),
    ) -> Self {
        let mut stream = Stream::new(&format!("augmentation of view {view}"), seed);
        let limits = limits(augmentation, shape);
        let images: Vec<_> =
            (0..images).map(|_| limits.map(|limit| i64::from(stream.below(limit)))).collect();
        let mut stream = Stream::new(&format!("changes of view {view}"), seed);
        let mut change = || Change::draw(augmentation.trivial as f32, &mut stream).numbers();
        let changes = match augmentation.trivial > 0.0 {
            true => images.iter().map(|_| change()).collect(),
            false => Vec::new(),
        };
        Self { images, changes }
    }

    /// What a step reads that takes these images in their order.
    pub(crate) fn step(&self, images: Range<usize>, device: Device) -> StepDraws {
        let order: Vec<usize> = images.collect();
        let (numbers, changes) = self.arrange(&order);
        let count = order.len() as i64;
        let order: Vec<i64> = order.into_iter().map(|image| image as i64).collect();
        StepDraws {
            order: device.integers(&order, &[count]),
            images: device.integers(&numbers, &[PER_IMAGE as i64, count]),
            boxes: device.zeros(&[PER_BATCH as i64], Kind::Int64),
            share: device.floats(&[1.0], &[1]),
            changes: (!changes.is_empty())
                .then(|| Changes(device.floats(&changes, &[Change::NUMBERS as i64, count]))),
        }
    }

    /// The numbers of some images, one kind of number after the other.
    fn arrange(&self, images: &[usize]) -> (Vec<i64>, Vec<f32>) {
        let numbers =
            (0..PER_IMAGE).flat_map(|kind| images.iter().map(move |image| self.images[*image][kind]));
        let kinds = if self.changes.is_empty() { 0 } else { Change::NUMBERS };
        let changes = (0..kinds).flat_map(|kind| images.iter().map(move |image| self.changes[*image][kind]));
        (numbers.collect(), changes.collect())
    }
}

/// A random span of a fraction of a side, cut at the border.
fn span(stream: &mut Stream, side: usize, fraction: f64) -> (i64, i64) {
    let half = (side as f64 * fraction / 2.0) as i64;
    let center = i64::from(stream.below(side as u32));
    ((center - half).max(0), (center + half).min(side as i64))
}

/// A number of the symmetric Beta distribution, from two of the Gamma distribution.
fn beta(stream: &mut Stream, parameter: f64) -> f64 {
    let (first, second) = (gamma(stream, parameter), gamma(stream, parameter));
    if first + second > 0.0 { first / (first + second) } else { 0.5 }
}

/// A number of the Gamma distribution (Marsaglia and Tsang 2000; below 1 by their power rule).
fn gamma(stream: &mut Stream, shape: f64) -> f64 {
    let mut unit = || 1.0 - f64::from(stream.unit());
    if shape < 1.0 {
        let power = unit().powf(shape.recip());
        return gamma(stream, shape + 1.0) * power;
    }
    let d = shape - 1.0 / 3.0;
    let c = (9.0 * d).sqrt().recip();
    loop {
        let x = (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_drawn_again_the_same() {
        let augmentation =
            Augmentation { crop_padding: 4, flip: true, cutout: 8, cutmix: 1.0, ..Augmentation::default() };
        let draw = |seed, epoch| Draws::new(&augmentation, Shape::image(32), (100, 8), (seed, epoch));
        let draws = draw(1, 2);
        assert_eq!(format!("{draws:?}"), format!("{:?}", draw(1, 2)));
        assert_ne!(draws.order, draw(1, 3).order);
        assert_ne!(draws.images, draw(2, 2).images);
        assert_eq!((draws.order.len(), draws.images.len(), draws.boxes.len()), (96, 480, 48));
        let mut seen = draws.order.clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 96);
        for (corners, share) in draws.boxes.chunks(4).zip(&draws.shares) {
            let area = (corners[1] - corners[0]) * (corners[3] - corners[2]);
            assert!((share - (1.0 - area as f32 / 1024.0)).abs() < 1e-6);
        }
    }

    #[test]
    fn changes_leave_the_other_numbers_alone() {
        let plain = Augmentation { crop_padding: 4, flip: true, cutout: 8, ..Augmentation::default() };
        let changed = Augmentation { trivial: 1.0, ..plain };
        let draw = |augmentation| Draws::new(augmentation, Shape::image(32), (100, 8), (1, 2));
        let (plain, changed) = (draw(&plain), draw(&changed));
        assert_eq!((&plain.order, &plain.images), (&changed.order, &changed.images));
        assert_eq!((plain.changes.len(), changed.changes.len()), (0, 12 * Change::NUMBERS * 8));
    }

    #[test]
    fn an_image_of_a_view_has_the_same_numbers_in_every_epoch() {
        let augmentation =
            Augmentation { crop_padding: 4, flip: true, cutout: 8, trivial: 1.0, ..Augmentation::default() };
        let view = |number| View::new(&augmentation, Shape::image(32), 100, (1, number));
        let numbers = |view: &View, epoch| {
            let draws = Draws::of_view(view, (100, 8), (1, epoch));
            assert_eq!((draws.boxes.len(), draws.shares.as_slice()), (48, [1.0; 12].as_slice()));
            let mut of_images = vec![None; 100];
            for (place, image) in draws.order.iter().enumerate() {
                let (step, place) = (place / 8, place % 8);
                let kinds = |kinds: usize| (0..kinds).map(move |kind| (step * kinds + kind) * 8 + place);
                let shifts: Vec<i64> = kinds(PER_IMAGE).map(|index| draws.images[index]).collect();
                let changes: Vec<f32> = kinds(Change::NUMBERS).map(|index| draws.changes[index]).collect();
                of_images[*image as usize] = Some((shifts, changes));
            }
            (draws.order, of_images)
        };
        let (first, again) = (view(0), view(0));
        let ((order, one), (other_order, two)) = (numbers(&first, 0), numbers(&again, 5));
        assert_ne!(order, other_order);
        let both = one.iter().zip(&two).filter(|(one, two)| one.is_some() && two.is_some());
        assert!(both.clone().count() > 90);
        assert!(both.clone().all(|(one, two)| one == two));
        let (_, other) = numbers(&view(1), 0);
        let differ = one.iter().zip(&other).filter(|(one, other)| one != other);
        assert!(differ.count() > 90);
        // And a teacher that looks at some of them in their own order sees the same.
        let step = first.step(20..30, Device::Cpu);
        assert_eq!(crate::tensor::to_integers(&step.order), (20..30).collect::<Vec<i64>>());
        let seen = crate::tensor::to_integers(&step.images);
        for (place, image) in (20..30).enumerate() {
            if let Some((shifts, _)) = &one[image] {
                assert_eq!((0..PER_IMAGE).map(|kind| seen[kind * 10 + place]).collect::<Vec<_>>(), *shifts);
            }
        }
    }

    #[test]
    fn shares_follow_their_distribution() {
        for parameter in [0.2_f64, 1.0, 4.0] {
            let mut stream = Stream::new("beta", 5);
            let draws: Vec<f64> = (0..20_000).map(|_| beta(&mut stream, parameter)).collect();
            let mean = draws.iter().sum::<f64>() / 2e4;
            let variance = draws.iter().map(|value| (value - 0.5).powi(2)).sum::<f64>() / 2e4;
            // The variance of a symmetric Beta distribution is 1 / (8 a + 4).
            assert!((mean - 0.5).abs() < 0.01, "{mean}");
            assert!((variance - (8.0 * parameter + 4.0).recip()).abs() < 0.005, "{parameter}: {variance}");
        }
    }
}
