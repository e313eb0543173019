//! Planes dealt out by stride, so that a filter tap is one fixed distance for all output positions.
//!
//! With stride s, row y of the padded image goes to phase y mod s, place y div s, and columns likewise. Output
//! position (i, j) then finds the tap that reaches (s i + a, s j + b) in phase (a mod s, b mod s) at row i + a div s,
//! column j + b div s: for all positions at the same distance, if positions are numbered by the phase's row length.

use std::ops::Range;

use super::Region;
use crate::cpu::CpuFeatures;
use crate::ring::geometry::{ConvGeometry, Extent};
use crate::ring::kernel::polyphase::{CHUNK, PlainSum, Tap, WeightedSum};
use crate::ring::kernel::vectorized;
use crate::ring::word::Word;
use crate::secret::Wipe;

/// The layout of a layer's dealt planes.
pub(in crate::ring) struct Planes<'a> {
    geometry: &'a ConvGeometry,
    /// Strides, cut down to the image where they exceed it: there is one output position then.
    stride: Extent,
    /// Rows and columns of one phase.
    phase: Extent,
}

impl<'a> Planes<'a> {
    pub(in crate::ring) fn new(geometry: &'a ConvGeometry) -> Self {
        let (padded, stride) = (geometry.padded_input(), geometry.shape().stride);
        let stride =
            Extent { height: stride.height.min(padded.height), width: stride.width.min(padded.width) };
        let phase = Extent {
            height: padded.height.div_ceil(stride.height),
            width: padded.width.div_ceil(stride.width),
        };
        Self { geometry, stride, phase }
    }

    /// Words of one channel: all its phases.
    fn channel_words(&self) -> usize {
        self.stride.area() * self.phase.area()
    }

    /// Where row and column of the padded image begin in a channel.
    fn place(&self, row: usize, column: usize) -> usize {
        let phase = row % self.stride.height * self.stride.width + column % self.stride.width;
        (phase * self.phase.height + row / self.stride.height) * self.phase.width + column / self.stride.width
    }

    /// Deals the channels of one or more images, with room for a last chunk to read past the end.
    pub(in crate::ring) fn deal<W: Word>(&self, values: &[W]) -> Vec<W> {
        let shape = self.geometry.shape();
        let channels = values.len() / shape.input.area();
        let mut dealt = vec![W::default(); channels * self.channel_words() + CHUNK];
        let planes =
            dealt.chunks_exact_mut(self.channel_words()).zip(values.chunks_exact(shape.input.area()));
        for (target, plane) in planes {
            for (row, values) in plane.chunks_exact(shape.input.width).enumerate() {
                for phase in 0..self.stride.width.min(values.len()) {
                    let place = self.place(row + shape.padding.height, phase + shape.padding.width);
                    deal_row(&values[phase..], self.stride.width, &mut target[place..]);
                }
            }
        }
        dealt
    }

    /// Distances of a channel's taps, row by row, for output rows from `first_row` on.
    fn tap_offsets(&self, first_row: usize) -> Vec<usize> {
        let shape = self.geometry.shape();
        let rows = (0..shape.filter.height).map(|row| row * shape.dilation.height);
        rows.flat_map(|row| (0..shape.filter.width).map(move |column| (row, column * shape.dilation.width)))
            .map(|(row, column)| self.place(row, column) + first_row * self.phase.width)
            .collect()
    }

    /// Writes `[image][channel of the region][row of the region][column]`.
    pub(super) fn convolve<W: Word>(
        &self,
        dealt: &[W],
        weights: &[i16],
        region: &Region,
        mask: W,
        features: CpuFeatures,
        output: &mut [W],
    ) {
        let (inputs, outputs) =
            (self.geometry.in_channels_per_group(), self.geometry.out_channels_per_group());
        let offsets = self.tap_offsets(region.rows.start);
        let mut taps = Vec::with_capacity(self.geometry.taps());
        self.each_output(region, output, |image, channel, sums| {
            let first = image * self.geometry.shape().in_channels + channel / outputs * inputs;
            let weights = &weights[channel * self.geometry.taps()..][..self.geometry.taps()];
            taps.clear();
            for (input, weights) in weights.chunks_exact(offsets.len()).enumerate() {
                let start = (first + input) * self.channel_words();
                let weighted = offsets.iter().zip(weights).map(|(offset, &weight)| Tap {
                    offset: start + offset,
                    weight: W::wrap_signed(i32::from(weight)),
                });
                taps.extend(weighted);
            }
            vectorized(features, WeightedSum { planes: dealt, taps: &taps, mask, sums });
        });
    }

    /// Writes the sums under each window; every channel is its own group.
    pub(in crate::ring) fn pool<W: Word>(
        &self,
        dealt: &[W],
        channels: Range<usize>,
        mask: W,
        features: CpuFeatures,
        output: &mut [W],
    ) {
        let region = Region { channels, rows: 0..self.geometry.output().height };
        let offsets = self.tap_offsets(0);
        let mut shifted = offsets.clone();
        self.each_output(&region, output, |image, channel, sums| {
            let start = (image * self.geometry.shape().in_channels + channel) * self.channel_words();
            for (shifted, offset) in shifted.iter_mut().zip(&offsets) {
                *shifted = start + offset;
            }
            vectorized(features, PlainSum { planes: dealt, offsets: &shifted, mask, sums });
        });
    }

    /// Has the sums of each output channel filled at the phase's row length, and copies the rows without the excess.
    fn each_output<W: Word>(
        &self,
        region: &Region,
        output: &mut [W],
        mut fill: impl FnMut(usize, usize, &mut [W]),
    ) {
        let (columns, rows) = (self.geometry.output().width, region.rows.len());
        if rows == 0 || region.channels.is_empty() {
            return;
        }
        let mut sums = vec![W::default(); (rows - 1) * self.phase.width + columns];
        for (index, target) in output.chunks_exact_mut(rows * columns).enumerate() {
            let (image, channel) = (index / region.channels.len(), index % region.channels.len());
            fill(image, region.channels.start + channel, &mut sums);
            for (target, row) in target.chunks_exact_mut(columns).zip(sums.chunks(self.phase.width)) {
                target.copy_from_slice(&row[..columns]);
            }
        }
        sums.wipe();
    }
}

/// Copies every `stride`-th value; the strides that networks have get loops of their own.
fn deal_row<W: Word>(values: &[W], stride: usize, target: &mut [W]) {
    match stride {
        1 => target[..values.len()].copy_from_slice(values),
        2 => {
            let (pairs, last) = values.as_chunks::<2>();
            let (target, rest) = target.split_at_mut(pairs.len());
            for (target, pair) in target.iter_mut().zip(pairs) {
                *target = pair[0];
            }
            if let (Some(target), Some(value)) = (rest.first_mut(), last.first()) {
                *target = *value;
            }
        }
        _ => {
            for (target, value) in target.iter_mut().zip(values.iter().step_by(stride)) {
                *target = *value;
            }
        }
    }
}
