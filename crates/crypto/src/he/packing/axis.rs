//! One direction of a convolution: which phase and offset each tap reads, and how a tile stores what it needs.

use super::ConvolutionShape;

/// A filter tap along one axis: output i reads phase `phase` at place `i + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tap {
    pub(super) phase: usize,
    pub(super) offset: isize,
}

/// The taps and extents of one axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    input: usize,
    stride: usize,
    pub(super) outputs: usize,
    pub(super) taps: Vec<Tap>,
    /// The phases that some tap reads.
    pub(super) phases: Vec<usize>,
    first_offset: isize,
    last_offset: isize,
}

/// How one tile stores an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Storage {
    /// Outputs that the tile computes.
    pub(super) outputs: usize,
    /// Places stored per plane.
    pub(super) extent: usize,
    /// Zeros after them, shared with the next row or plane.
    pub(super) gap: usize,
    /// Reads before the first place.
    pub(super) before: usize,
    /// Reads after the last place.
    pub(super) after: usize,
    /// Subtracted from a tap's offset, because the tile stores the places before its first output too.
    pub(super) shift: isize,
    /// Tiles along this axis.
    pub(super) tiles: usize,
}

impl Axis {
    pub(super) fn new(shape: &ConvolutionShape, axis: usize) -> Self {
        let stride = shape.stride[axis];
        let taps: Vec<_> = (0..shape.filter_size[axis])
            .map(|tap| {
                let distance = (tap * shape.dilation[axis]) as isize - shape.padding[axis] as isize;
                let phase = distance.rem_euclid(stride as isize) as usize;
                Tap { phase, offset: distance.div_euclid(stride as isize) }
            })
            .collect();
        let phases = (0..stride).filter(|phase| taps.iter().any(|tap| tap.phase == *phase)).collect();
        let offsets = || taps.iter().map(|tap| tap.offset);
        Self {
            input: shape.input_size[axis],
            stride,
            outputs: shape.output_size()[axis],
            phases,
            first_offset: offsets().min().unwrap_or(0),
            last_offset: offsets().max().unwrap_or(0),
            taps,
        }
    }

    /// Places of the longest phase.
    fn plane(&self) -> usize {
        let first = self.phases.first().copied().unwrap_or(0);
        self.input.saturating_sub(first).div_ceil(self.stride).max(1)
    }

    /// One tile with shared zeros, or several that each store all they read.
    pub(super) fn storage(&self, tile_outputs: usize) -> Storage {
        let tiles = self.outputs.div_ceil(tile_outputs);
        if tiles > 1 {
            let extent = tile_outputs + (self.last_offset - self.first_offset) as usize;
            let shift = self.first_offset;
            return Storage { outputs: tile_outputs, extent, gap: 0, before: 0, after: 0, shift, tiles };
        }
        let extent = self.plane();
        let before = (-self.first_offset).max(0) as usize;
        let last_read = self.outputs as isize - 1 + self.last_offset;
        let after = (last_read - (extent as isize - 1)).max(0) as usize;
        Storage { outputs: self.outputs, extent, gap: before.max(after), before, after, shift: 0, tiles }
    }

    /// The input place that a tile stores at `place` of a phase, if it is not padding.
    pub(super) fn source(&self, storage: &Storage, tile: usize, phase: usize, place: usize) -> Option<usize> {
        let along_phase = (tile * storage.outputs + place) as isize + storage.shift;
        let source = along_phase * self.stride as isize + phase as isize;
        usize::try_from(source).ok().filter(|source| *source < self.input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(input: usize, filter: usize, stride: usize, padding: usize, dilation: usize) -> Axis {
        let shape = ConvolutionShape {
            input_size: [input; 2],
            stride: [stride; 2],
            padding: [padding; 2],
            dilation: [dilation; 2],
            ..ConvolutionShape::same(1, 1, input, filter)
        };
        Axis::new(&shape, 0)
    }

    #[test]
    fn a_three_tap_filter_shares_one_zero() {
        let storage = axis(32, 3, 1, 1, 1).storage(32);
        assert_eq!((storage.extent, storage.gap, storage.before, storage.after), (32, 1, 1, 1));
        assert_eq!(axis(32, 1, 1, 0, 1).storage(32).gap, 0);
        assert_eq!(axis(32, 3, 1, 0, 1).storage(30).gap, 0);
    }

    #[test]
    fn stride_two_reads_only_phases_with_taps() {
        assert_eq!(axis(32, 1, 2, 0, 1).phases, [0]);
        let three = axis(32, 3, 2, 1, 1);
        assert_eq!(three.phases, [0, 1]);
        assert_eq!((three.storage(16).extent, three.storage(16).gap), (16, 1));
    }

    #[test]
    fn every_read_of_every_tile_finds_its_source_or_zero() {
        for (input, filter, stride, padding, dilation) in [
            (7, 3, 1, 1, 1),
            (9, 5, 2, 2, 1),
            (8, 3, 3, 4, 2),
            (5, 1, 2, 3, 1),
            (11, 2, 4, 0, 3),
            (6, 6, 1, 5, 1),
        ] {
            let axis = axis(input, filter, stride, padding, dilation);
            for tile_outputs in 1..=axis.outputs {
                let storage = axis.storage(tile_outputs);
                for output in 0..axis.outputs {
                    let (tile, inside) = (output / tile_outputs, output % tile_outputs);
                    for (index, tap) in axis.taps.iter().enumerate() {
                        let wanted =
                            (output * stride + index * dilation).checked_sub(padding).filter(|y| *y < input);
                        let place = inside as isize + tap.offset - storage.shift;
                        let stored = usize::try_from(place).ok().filter(|place| *place < storage.extent);
                        let found = stored.and_then(|place| axis.source(&storage, tile, tap.phase, place));
                        assert_eq!(found, wanted);
                        let reach = -(storage.before as isize)..(storage.extent + storage.after) as isize;
                        assert!(reach.contains(&place) && storage.gap >= storage.before.max(storage.after));
                    }
                }
            }
        }
    }
}
