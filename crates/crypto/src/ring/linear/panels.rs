//! Convolution as dot products: weights in panels of 16 output channels, digits spread over them.

use std::ops::Range;

use super::digits::DigitPlan;
use super::{Region, Weights};
use crate::cpu::CpuFeatures;
use crate::ring::geometry::ConvGeometry;
use crate::ring::kernel::dot::{
    DotKernel, LANES, Lanes, MAXIMUM_PANELS, MAXIMUM_SUMS, Segment, Tile, WordForm,
};
use crate::ring::kernel::{Vectorized, vectorized};
use crate::ring::width::RingWidth;
use crate::ring::word::Word;
use crate::secret::Wipe;

/// Pixels between two writes to the output: a multiple of every tile's pixels.
const BLOCK: usize = 48;

/// The share of lanes and word places that must hold weights, as one in so many, for panels to beat planes.
const LEAST_USE: usize = 4;

/// Whether groups have enough channels for dot products to pay off.
pub(super) fn are_worthwhile(geometry: &ConvGeometry, form: WordForm) -> bool {
    let (inputs, outputs) = (geometry.in_channels_per_group(), geometry.out_channels_per_group());
    let places = inputs.next_multiple_of(form.channels()) * outputs.next_multiple_of(LANES);
    inputs * outputs * LEAST_USE >= places
}

/// Weights as `[group][panel][filter row][filter column][step][16 lanes]`, zero where a panel has no channel.
pub(super) struct Panels {
    kernel: DotKernel,
    weights_fit_bytes: bool,
    panels_per_group: usize,
    steps: usize,
    rows: Vec<Lanes>,
}

impl Panels {
    pub(super) fn new(geometry: &ConvGeometry, weights: Weights<'_>, kernel: DotKernel) -> Self {
        let form = kernel.form();
        let (inputs, outputs) = (geometry.in_channels_per_group(), geometry.out_channels_per_group());
        let area = geometry.shape().filter.area();
        let steps_per_tap = inputs.div_ceil(form.channels());
        let panels_per_group = outputs.div_ceil(LANES);
        let steps = area * steps_per_tap;
        let mut rows = vec![Lanes::default(); geometry.shape().groups * panels_per_group * steps];
        for (index, row) in rows.iter_mut().enumerate() {
            let (panel, step) = (index / steps, index % steps);
            let (group, panel_in_group) = (panel / panels_per_group, panel % panels_per_group);
            let (tap, first_input) = (step / steps_per_tap, step % steps_per_tap * form.channels());
            for (lane, word) in row.0.iter_mut().enumerate() {
                let output = panel_in_group * LANES + lane;
                let weight = |channel: usize| {
                    let input = first_input + channel;
                    let is_real = output < outputs && input < inputs;
                    if is_real {
                        weights.get(((group * outputs + output) * inputs + input) * area + tap)
                    } else {
                        0
                    }
                };
                *word = match form {
                    WordForm::Bytes => {
                        u32::from_le_bytes(std::array::from_fn(|channel| weight(channel) as u8))
                    }
                    WordForm::Halves => {
                        u32::from(weight(0).cast_unsigned()) | u32::from(weight(1).cast_unsigned()) << 16
                    }
                };
            }
        }
        Self { kernel, weights_fit_bytes: weights.fit_bytes(), panels_per_group, steps, rows }
    }

    /// How values of a ring are cut to meet these weights.
    pub(super) fn plan(&self, width: RingWidth) -> DigitPlan {
        DigitPlan::new(self.kernel.form(), self.weights_fit_bytes, width)
    }

    pub(super) fn wipe(&mut self) {
        self.rows.wipe();
    }

    fn panel(&self, group: usize, panel: usize) -> &[Lanes] {
        &self.rows[(group * self.panels_per_group + panel) * self.steps..][..self.steps]
    }
}

/// One computation of a region.
pub(super) struct Pass<'a> {
    pub(super) geometry: &'a ConvGeometry,
    pub(super) panels: &'a Panels,
    pub(super) plan: &'a DigitPlan,
    pub(super) input: &'a [u32],
    pub(super) region: &'a Region,
}

/// Steps that may be summed in 32 bits.
struct Stretch {
    first_step: usize,
    segments: Vec<Segment>,
}

impl Pass<'_> {
    /// Writes `[image][channel of the region][row of the region][column]`.
    pub(super) fn run<W: Word>(&self, images: usize, features: CpuFeatures, mask: W, output: &mut [W]) {
        let outputs = self.geometry.out_channels_per_group();
        let stretches = self.stretches();
        let pixels = self.pixels(images);
        let mut shifted = pixels.clone();
        for group in 0..self.geometry.shape().groups {
            let first = group * outputs;
            let channels = self.region.channels.start.clamp(first, first + outputs) - first
                ..self.region.channels.end.clamp(first, first + outputs) - first;
            if channels.is_empty() {
                continue;
            }
            let group_offset = group * self.plan.steps_per_tap(self.geometry) * self.plan.digits();
            for (shifted, pixel) in shifted.iter_mut().zip(&pixels) {
                *shifted = pixel + group_offset;
            }
            let mut panel = channels.start / LANES;
            while panel < channels.end.div_ceil(LANES) {
                let last = (panel + self.panels.kernel.panels_per_tile()).min(channels.end.div_ceil(LANES));
                let columns = Columns { group, panels: panel..last, channels: channels.clone() };
                self.run_panels(&columns, &stretches, &shifted, features, mask, output);
                panel = last;
            }
        }
    }

    fn run_panels<W: Word>(
        &self,
        columns: &Columns,
        stretches: &[Stretch],
        pixels: &[usize],
        features: CpuFeatures,
        mask: W,
        output: &mut [W],
    ) {
        let mut block = [[[W::default(); LANES]; BLOCK]; MAXIMUM_PANELS];
        for (index, pixels) in pixels.chunks(BLOCK).enumerate() {
            for values in &mut block {
                values[..pixels.len()].fill([W::default(); LANES]);
            }
            for stretch in stretches {
                self.add_stretch(columns, stretch, pixels, features, &mut block);
            }
            let first_channel = columns.group * self.geometry.out_channels_per_group();
            for (panel, values) in columns.panels.clone().zip(&block) {
                let lanes = columns.lanes(panel);
                let channel = first_channel + panel * LANES + lanes.start - self.region.channels.start;
                let first_pixel = index * BLOCK;
                self.write(&values[..pixels.len()], lanes, channel, first_pixel, mask, output);
            }
        }
    }

    /// Adds one stretch's sums of up to a block of pixels.
    fn add_stretch<W: Word>(
        &self,
        columns: &Columns,
        stretch: &Stretch,
        pixels: &[usize],
        features: CpuFeatures,
        block: &mut [[[W; LANES]; BLOCK]; MAXIMUM_PANELS],
    ) {
        let kernel = self.panels.kernel;
        let digits = self.plan.digits();
        let mut panels: [&[Lanes]; MAXIMUM_PANELS] = [&[]; MAXIMUM_PANELS];
        for (slot, panel) in panels.iter_mut().zip(columns.panels.clone()) {
            *slot = &self.panels.panel(columns.group, panel)[stretch.first_step..];
        }
        let panels = &panels[..columns.panels.len()];
        let full = kernel.pixels_per_tile(digits);
        let mut sums = [Lanes::default(); MAXIMUM_SUMS];
        let mut done = 0;
        while done < pixels.len() {
            let count = if pixels.len() - done >= full { full } else { 1 };
            let pixels = &pixels[done..done + count];
            let tile = Tile { input: self.input, pixels, digits, segments: &stretch.segments, panels };
            let sums = &mut sums[..tile.sums()];
            kernel.run(&tile, sums);
            for (sums, block) in sums.chunks_exact(count * digits).zip(block.iter_mut()) {
                let values = &mut block[done..done + count];
                vectorized(features, JoinDigits { sums, digit_bits: self.plan.digit_bits(), values });
            }
            done += count;
        }
    }

    /// Turns pixel-major values into rows of the output.
    fn write<W: Word>(
        &self,
        values: &[[W; LANES]],
        lanes: Range<usize>,
        channel: usize,
        first_pixel: usize,
        mask: W,
        output: &mut [W],
    ) {
        let area = self.region.rows.len() * self.geometry.output().width;
        let mut done = 0;
        while done < values.len() {
            let (image, place) = ((first_pixel + done) / area, (first_pixel + done) % area);
            let run = (area - place).min(values.len() - done);
            let planes = output[(image * self.region.channels.len() + channel) * area..].chunks_mut(area);
            for (lane, plane) in lanes.clone().zip(planes) {
                for (target, value) in plane[place..place + run].iter_mut().zip(&values[done..]) {
                    *target = value[lane] & mask;
                }
            }
            done += run;
        }
    }

    /// Where each output pixel's neighborhood starts in the input.
    fn pixels(&self, images: usize) -> Vec<usize> {
        let (shape, padded) = (self.geometry.shape(), self.geometry.padded_input());
        let words = self.plan.words_per_pixel(self.geometry);
        let mut pixels = Vec::with_capacity(images * self.region.rows.len() * self.geometry.output().width);
        for image in 0..images {
            for row in self.region.rows.clone() {
                let start = (image * padded.height + row * shape.stride.height) * padded.width;
                let columns = 0..self.geometry.output().width;
                pixels.extend(columns.map(|column| (start + column * shape.stride.width) * words));
            }
        }
        pixels
    }

    /// The filter's taps as segments, cut where sums would leave 32 bits.
    fn stretches(&self) -> Vec<Stretch> {
        let mut stretches = Vec::new();
        let mut stretch = Stretch { first_step: 0, segments: Vec::new() };
        let mut steps = 0;
        for mut segment in self.segments() {
            while steps + segment.steps > self.plan.exact_steps() {
                let fitting = self.plan.exact_steps() - steps;
                stretch.segments.push(Segment { steps: fitting, ..segment });
                segment.offset += fitting * self.plan.digits();
                segment.steps -= fitting;
                let next = stretch.first_step + self.plan.exact_steps();
                stretches.push(std::mem::replace(
                    &mut stretch,
                    Stretch { first_step: next, segments: Vec::new() },
                ));
                steps = 0;
            }
            steps += segment.steps;
            stretch.segments.push(segment);
        }
        stretches.push(stretch);
        stretches
    }

    fn segments(&self) -> Vec<Segment> {
        let shape = self.geometry.shape();
        let steps = self.plan.steps_per_tap(self.geometry);
        let words = self.plan.words_per_pixel(self.geometry);
        let row = shape.dilation.height * self.geometry.padded_input().width * words;
        let column = shape.dilation.width * words;
        let mut segments = Vec::new();
        for filter_row in 0..shape.filter.height {
            if shape.groups == 1 && shape.dilation.width == 1 {
                // The taps of a filter row are neighbors in memory, so they make one long segment.
                segments.push(Segment { offset: filter_row * row, steps: shape.filter.width * steps });
            } else {
                let taps = 0..shape.filter.width;
                segments.extend(taps.map(|tap| Segment { offset: filter_row * row + tap * column, steps }));
            }
        }
        segments
    }
}

/// Which output channels of which group are being computed.
struct Columns {
    group: usize,
    panels: Range<usize>,
    /// Channels of the group that the region asks for.
    channels: Range<usize>,
}

impl Columns {
    /// The lanes of a panel that the region asks for.
    fn lanes(&self, panel: usize) -> Range<usize> {
        let first = panel * LANES;
        self.channels.start.clamp(first, first + LANES) - first
            ..self.channels.end.clamp(first, first + LANES) - first
    }
}

/// Adds digits' sums, each at its place, to the values.
struct JoinDigits<'a, W> {
    sums: &'a [Lanes],
    digit_bits: u32,
    values: &'a mut [[W; LANES]],
}

impl<W: Word> Vectorized for JoinDigits<'_, W> {
    #[inline(always)]
    fn run(self) {
        let digits = self.sums.len() / self.values.len();
        for (value, sums) in self.values.iter_mut().zip(self.sums.chunks_exact(digits)) {
            // From the highest digit down, so that the lanes are the only loop left to vectorize.
            let mut total = [W::default(); LANES];
            for sum in sums.iter().rev() {
                for (total, sum) in total.iter_mut().zip(sum.0) {
                    *total = total.shift_up(self.digit_bits).plus(W::wrap_signed(sum.cast_signed()));
                }
            }
            for (value, total) in value.iter_mut().zip(total) {
                *value = value.plus(total);
            }
        }
    }
}
