//! The size of a feature map, and the limits that keep every count far from overflow.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The most channels a feature map may have.
pub const MAX_CHANNELS: usize = 1 << 16;
/// The largest height or width of a feature map.
pub const MAX_SIDE: usize = 1 << 12;

/// The size of one feature map; a vector is a map of one pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Channels ("width" in the papers).
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Shape {
    /// A map of the given size.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self { channels, height, width }
    }

    /// A square color image.
    pub const fn image(side: usize) -> Self {
        Self::new(3, side, side)
    }

    /// A vector.
    pub const fn vector(length: usize) -> Self {
        Self::new(length, 1, 1)
    }

    /// How many scalars the map holds.
    pub const fn scalars(self) -> u64 {
        self.channels as u64 * self.pixels()
    }

    /// How many pixels one channel holds.
    pub const fn pixels(self) -> u64 {
        self.height as u64 * self.width as u64
    }

    /// The same map with another number of channels.
    #[must_use]
    pub const fn with_channels(self, channels: usize) -> Self {
        Self { channels, ..self }
    }

    /// Whether every dimension is at least 1 and within the limits.
    pub const fn is_sane(self) -> bool {
        self.channels >= 1
            && self.channels <= MAX_CHANNELS
            && self.height >= 1
            && self.height <= MAX_SIDE
            && self.width >= 1
            && self.width <= MAX_SIDE
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}x{}", self.channels, self.height, self.width)
    }
}
