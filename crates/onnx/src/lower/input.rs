//! What the model takes: one image.

use network::shape::Shape;

use super::map::View;
use crate::ImportOptions;
use crate::error::{Expectation, OnnxError};
use crate::proto::{Dimension, Graph};

/// The image of a model.
pub(super) struct ImageInput<'a> {
    pub(super) name: &'a str,
    pub(super) shape: Shape,
    pub(super) view: View,
    /// As written in the file; shapes are computed with it. One where it is open.
    pub(super) batch: usize,
}

const MAX_BATCH: i64 = 1 << 16;

/// The one input that is no weight.
pub(super) fn image<'a>(graph: &Graph<'a>, options: &ImportOptions) -> Result<ImageInput<'a>, OnnxError> {
    let is_weight = |name: &str| graph.initializers.iter().any(|tensor| tensor.name == name);
    let free: Vec<_> = graph.inputs.iter().filter(|input| !is_weight(input.name)).collect();
    let [input] = free.as_slice() else {
        let names: Vec<&str> = free.iter().map(|input| input.name).collect();
        let came = format!("{} inputs ({})", free.len(), names.join(", "));
        return Err(OnnxError::Input { came, expected: Expectation::OneImage });
    };
    let refuse = |expected| OnnxError::Input { came: described(input.dims.as_deref()), expected };
    let Some([batch, first, second, third]) = input.dims.as_deref() else {
        return Err(refuse(Expectation::OneImage));
    };
    let batch = match batch {
        Dimension::Known(batch @ 1..=MAX_BATCH) => *batch as usize,
        _ => 1,
    };
    let view = match (first, third) {
        (Dimension::Known(1 | 3), _) => View::ChannelsFirst,
        (_, Dimension::Known(1 | 3)) => View::ChannelsLast,
        _ => View::ChannelsFirst,
    };
    let (channels, height, width) = match view {
        View::ChannelsLast => (third, first, second),
        _ => (first, second, third),
    };
    let side = |dimension: &Dimension<'_>| match (known(*dimension), options.side) {
        (Some(side), Some(asked)) if side != asked => Err(refuse(Expectation::FixedSide)),
        (Some(side), _) | (None, Some(side)) => Ok(side),
        (None, None) => Err(refuse(Expectation::Sides)),
    };
    let channels = known(*channels).ok_or_else(|| refuse(Expectation::Size))?;
    let shape = Shape::new(channels, side(height)?, side(width)?);
    if !shape.is_sane() {
        return Err(refuse(Expectation::Size));
    }
    Ok(ImageInput { name: input.name, shape, view, batch })
}

/// A dimension that the file fixes; some writers put 0 or -1 for open ones.
fn known(dimension: Dimension<'_>) -> Option<usize> {
    match dimension {
        Dimension::Known(side @ 1..) => usize::try_from(side).ok(),
        _ => None,
    }
}

fn described(dims: Option<&[Dimension<'_>]>) -> String {
    let Some(dims) = dims else { return "a tensor of unknown shape".to_owned() };
    let words: Vec<String> = dims
        .iter()
        .map(|dimension| match dimension {
            Dimension::Known(side) => side.to_string(),
            Dimension::Open("") => "?".to_owned(),
            Dimension::Open(name) => (*name).to_owned(),
        })
        .collect();
    format!("[{}]", words.join(", "))
}
