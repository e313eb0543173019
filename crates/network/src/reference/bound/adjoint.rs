//! Linear steps backwards: from gains by a step's output to gains by one of its inputs.

use crate::inference_model::{LinearGeometry, LinearWeights, ModelOperation, ModelStep};
use crate::shape::Shape;
use crate::spec::Pool;
use crate::walk::ConvGeometry;

/// Output pixels that are handled together.
const PIXELS_AT_ONCE: usize = 256;

/// The gains by input `number` of a step. `shape` gives the sizes of the inputs, `plain` is the first input's value,
/// which says which maxima win. Gains of an `Activate` have been through its slopes already.
pub(super) fn apply(
    step: &ModelStep,
    layer: Option<&LinearWeights>,
    number: usize,
    shape: &dyn Fn(usize) -> Shape,
    gain: &[f32],
    plain: &[i64],
) -> Vec<f32> {
    let size = shape(number);
    let scaled = |gain: &[f32], shift: u8| {
        let factor = 2.0_f32.powi(i32::from(shift));
        gain.iter().map(|gain| gain * factor).collect::<Vec<_>>()
    };
    match &step.operation {
        ModelOperation::Linear { geometry, channel_shifts } => {
            let layer = layer.expect("a linear step comes with its weights");
            let mut shifted = gain.to_vec();
            let maps = shifted.chunks_exact_mut(step.shape.pixels() as usize);
            for (map, shift) in maps.zip(channel_shifts) {
                map.iter_mut().for_each(|gain| *gain *= 2.0_f32.powi(i32::from(*shift)));
            }
            linear(geometry, &layer.weights, &shifted, size, step.shape)
        }
        ModelOperation::Add { shifts } => scaled(gain, shifts[number]),
        ModelOperation::Concat { shifts } => {
            let before: u64 = (0..number).map(|earlier| shape(earlier).scalars()).sum();
            scaled(&gain[before as usize..][..size.scalars() as usize], shifts[number])
        }
        ModelOperation::Slice { start, .. } => {
            let mut result = vec![0.0; size.scalars() as usize];
            result[start * size.pixels() as usize..][..gain.len()].copy_from_slice(gain);
            result
        }
        ModelOperation::DropFirstRowAndColumn => restore_first_row_and_column(gain, size),
        ModelOperation::SumPool(pool) => scatter(pool, gain, size, step.shape, |window, gain, add| {
            window.for_each(|place| add(place, gain))
        }),
        ModelOperation::GlobalSum => {
            gain.iter().flat_map(|gain| std::iter::repeat_n(*gain, size.pixels() as usize)).collect()
        }
        ModelOperation::ScalePixels { factors } => {
            gain.iter().zip(factors.iter().cycle()).map(|(gain, factor)| gain * *factor as f32).collect()
        }
        ModelOperation::Maximum { pool, .. } => scatter(pool, gain, size, step.shape, |window, gain, add| {
            if let Some(place) = window.max_by_key(|place| plain[*place]) {
                add(place, gain);
            }
        }),
        ModelOperation::Activate { .. } => gain.to_vec(),
        ModelOperation::Gate(_) => unreachable!("models with gates are tried out"),
    }
}

fn linear(geometry: &LinearGeometry, weights: &[i16], gain: &[f32], size: Shape, output: Shape) -> Vec<f32> {
    match geometry {
        LinearGeometry::Conv(conv) => convolve(conv, weights, gain, size, output),
        LinearGeometry::FullyConnected { inputs, .. } => {
            let mut result = vec![0.0; *inputs];
            for (row, gain) in weights.chunks_exact(*inputs).zip(gain).filter(|(_, gain)| **gain != 0.0) {
                result.iter_mut().zip(row).for_each(|(sum, weight)| *sum += f32::from(*weight) * gain);
            }
            result
        }
    }
}

/// The transpose of a convolution: for some pixels at once what each tap gets, then back to where the taps were.
fn convolve(conv: &ConvGeometry, weights: &[i16], gain: &[f32], size: Shape, output: Shape) -> Vec<f32> {
    let (pixels, taps, outputs) = (output.pixels() as usize, conv.taps(), conv.outputs / conv.groups);
    let mut result = vec![0.0; size.scalars() as usize];
    for group in 0..conv.groups {
        for start in (0..pixels).step_by(PIXELS_AT_ONCE) {
            let end = pixels.min(start + PIXELS_AT_ONCE);
            let mut columns = vec![0.0; taps * (end - start)];
            for channel in group * outputs..(group + 1) * outputs {
                let gains = &gain[channel * pixels + start..channel * pixels + end];
                let row = &weights[channel * taps..(channel + 1) * taps];
                for (column, weight) in columns.chunks_exact_mut(end - start).zip(row) {
                    let weight = f32::from(*weight);
                    column.iter_mut().zip(gains).for_each(|(sum, gain)| *sum += weight * gain);
                }
            }
            for (tap, column) in columns.chunks_exact(end - start).enumerate() {
                let channel = group * (conv.inputs / conv.groups) + tap / (conv.filter * conv.filter);
                let (down, across) = (tap / conv.filter % conv.filter, tap % conv.filter);
                for (pixel, gain) in (start..end).zip(column) {
                    let at = |position: usize, offset: usize| {
                        (position * conv.stride + offset * conv.dilation).wrapping_sub(conv.padding)
                    };
                    let (row, column) = (at(pixel / output.width, down), at(pixel % output.width, across));
                    if row < size.height && column < size.width {
                        result[(channel * size.height + row) * size.width + column] += gain;
                    }
                }
            }
        }
    }
    result
}

/// Hands the gain of each window to places of the input.
fn scatter(
    pool: &Pool,
    gain: &[f32],
    size: Shape,
    output: Shape,
    share: impl Fn(&mut dyn Iterator<Item = usize>, f32, &mut dyn FnMut(usize, f32)),
) -> Vec<f32> {
    let mut result = vec![0.0; size.scalars() as usize];
    let covered = |position: usize, length: usize| {
        let start = position * pool.stride;
        start.saturating_sub(pool.padding)..(start + pool.window).saturating_sub(pool.padding).min(length)
    };
    for (place, gain) in gain.iter().enumerate() {
        let (channel, pixel) = (place / output.pixels() as usize, place % output.pixels() as usize);
        let rows = covered(pixel / output.width, size.height);
        let columns = covered(pixel % output.width, size.width);
        let mut window = rows.flat_map(|row| {
            columns.clone().map(move |column| (channel * size.height + row) * size.width + column)
        });
        share(&mut window, *gain, &mut |place, gain| result[place] += gain);
    }
    result
}

fn restore_first_row_and_column(gain: &[f32], size: Shape) -> Vec<f32> {
    let mut result = vec![0.0; size.scalars() as usize];
    let maps = result.chunks_exact_mut(size.pixels() as usize);
    let rows = maps.flat_map(|map| map.chunks_exact_mut(size.width).skip(1));
    for (row, gain) in rows.zip(gain.chunks_exact(size.width - 1)) {
        row[1..].copy_from_slice(gain);
    }
    result
}
