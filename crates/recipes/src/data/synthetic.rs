//! Shapes in colors, drawn from a seed: a set for tests and for a first try, with nothing to download.
//!
//! The class is the shape; color, place, size, background and noise say nothing about it. Only additions,
//! multiplications and comparisons are used, so that every machine draws the same pixels.

use serde::{Deserialize, Serialize};

use super::{DataKind, DataPair, Dataset, color_set};
use crate::random::Stream;

/// The shapes, in the order of their classes.
const SHAPES: [&str; 10] =
    ["disc", "ring", "square", "frame", "triangle", "plus", "cross", "rows", "columns", "checkers"];

/// How large the synthetic set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SyntheticSize {
    /// Rows and columns of an image, from 8.
    pub side: usize,
    /// Images to learn from.
    pub training: usize,
    /// Images to be tried on.
    pub test: usize,
    /// What everything is drawn from.
    pub seed: u64,
}

impl Default for SyntheticSize {
    fn default() -> Self {
        Self { side: 16, training: 4000, test: 1000, seed: 1 }
    }
}

/// Draws the set.
pub fn synthetic(size: &SyntheticSize) -> DataPair {
    let part = |purpose: &str, count: usize| {
        let classes = SHAPES.map(str::to_owned).to_vec();
        let mut set = color_set(DataKind::Synthetic, "synthetic shapes", size.side, classes);
        let mut stream = Stream::new(purpose, size.seed);
        for index in 0..count {
            draw(&mut set, (index % SHAPES.len()) as u16, &mut stream);
        }
        set
    };
    DataPair { training: part("synthetic training", size.training), test: part("synthetic test", size.test) }
}

fn draw(set: &mut Dataset, class: u16, stream: &mut Stream) {
    let side = set.shape.height;
    let (back, front) = colors(stream);
    let radius = side as f32 * stream.between(0.28, 0.42);
    let room = side as f32 / 2.0 - radius;
    let center = [0, 1].map(|_| side as f32 / 2.0 + stream.between(-room, room));
    let phase = stream.between(0.0, 1.0);
    let start = set.images.len();
    set.images.resize(start + 3 * side * side, 0);
    for row in 0..side {
        for column in 0..side {
            // From -1 to 1 within the shape's square.
            let x = (column as f32 + 0.5 - center[0]) / radius;
            let y = (row as f32 + 0.5 - center[1]) / radius;
            let color = if covers(class, x, y, phase) { front } else { back };
            for (channel, value) in color.into_iter().enumerate() {
                let noisy = value + stream.between(-0.08, 0.08);
                set.images[start + (channel * side + row) * side + column] =
                    (noisy.clamp(0.0, 1.0) * 255.0) as u8;
            }
        }
    }
    set.labels.push(class);
}

/// Two colors that can be told apart.
fn colors(stream: &mut Stream) -> ([f32; 3], [f32; 3]) {
    loop {
        let mut color = || [(); 3].map(|()| stream.unit());
        let (back, front) = (color(), color());
        let distance: f32 = back.iter().zip(&front).map(|(a, b)| (a - b).abs()).sum();
        if distance > 0.9 {
            return (back, front);
        }
    }
}

fn covers(class: u16, x: f32, y: f32, phase: f32) -> bool {
    let (across, down) = (x.abs(), y.abs());
    let (square, reach) = (across.max(down), x * x + y * y);
    let stripe = |place: f32| ((place + 2.0 + phase) * 1.5).fract() < 0.5;
    match class {
        0 => reach <= 1.0,
        1 => (0.36..=1.0).contains(&reach),
        2 => square <= 0.9,
        3 => (0.55..=0.95).contains(&square),
        4 => down <= 0.95 && across <= (y + 0.95) * 0.55,
        5 => square <= 1.0 && across.min(down) <= 0.28,
        6 => square <= 1.0 && (across - down).abs() <= 0.36,
        7 => square <= 1.0 && stripe(y),
        8 => square <= 1.0 && stripe(x),
        _ => square <= 1.0 && (stripe(x) != stripe(y)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_fixed_by_its_seed() {
        let size = SyntheticSize { side: 16, training: 50, test: 20, seed: 1 };
        let pair = synthetic(&size);
        assert_eq!(pair, synthetic(&size));
        assert_ne!(pair.training, synthetic(&SyntheticSize { seed: 2, ..size }).training);
        let digest = blake3::hash(&[pair.training.images, pair.test.images].concat());
        assert_eq!(&digest.to_hex()[..16], "42fa058e528225b4");
    }

    #[test]
    fn classes_are_balanced_and_no_two_shapes_are_alike() {
        let pair = synthetic(&SyntheticSize { training: 100, test: 10, ..SyntheticSize::default() });
        for class in 0..10 {
            assert_eq!(pair.training.labels.iter().filter(|label| **label == class).count(), 10);
        }
        let drawn = |class| {
            let grid = (0..256).map(|index| (index % 16, index / 16));
            grid.map(|(x, y)| covers(class, x as f32 / 7.5 - 1.0, y as f32 / 7.5 - 1.0, 0.1))
                .collect::<Vec<_>>()
        };
        for one in 0..10 {
            for other in 0..one {
                let different = drawn(one).iter().zip(drawn(other)).filter(|(a, b)| **a != *b).count();
                assert!(
                    different >= 20,
                    "{} and {}: {different}",
                    SHAPES[one as usize],
                    SHAPES[other as usize]
                );
            }
        }
    }
}
