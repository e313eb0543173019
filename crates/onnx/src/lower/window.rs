//! Convolutions and poolings, and what only moves or cuts off pixels: padding and slices.

mod pool;
mod region;

use network::shape::{MAX_SIDE, Shape};
use network::spec::{Conv, Groups, Layer};
use network::walk::ValueId;
use network::weights::LayerWeights;

use super::map::{Map, View, uneven};
use super::{Lowering, Outcome, Value, constant_at, map_at, node_name, weights_at};
use crate::embed::Window;
use crate::error::NodeFault;
use crate::proto::{Attribute, Node};
use crate::tensor::{Tensor, integer};

impl<'a> Lowering<'a> {
    pub(super) fn conv(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let map = map_at(inputs, 0)?;
        let weights = weights_at(self, inputs, 1, "filter")?;
        let &[outputs, per_group, rows, columns] = weights.dims.as_slice() else {
            let expected = "outputs, inputs of a group, rows, columns".to_owned();
            return Err(NodeFault::Shape { what: "filter", came: weights.dims.clone(), expected });
        };
        self.expect_channels_first(map)?;
        let groups = usize::try_from(integer(node, "group", 1)).unwrap_or(0);
        let channels = self.shape(map).channels;
        if groups == 0 || per_group.checked_mul(groups) != Some(channels) || outputs == 0 {
            let expected = format!("{} inputs in each of {groups} groups", channels / groups.max(1));
            return Err(NodeFault::Shape { what: "filter", came: weights.dims.clone(), expected });
        }
        let own = window(node, self.shape(map), [rows, columns])?;
        let (input, window) = self.with_pending(map, own, node_name(node))?;
        let biases = constant_at(self, inputs, 2, "bias")?;
        let biases = biases.map_or_else(|| vec![0.0; outputs], |biases| biases.floats());
        let name = node_name(node);
        let value = self.place_conv(name, input, window, &weights, (groups, biases))?;
        Ok(Map::new(value, View::ChannelsFirst))
    }

    /// A convolution in the smallest square that does the same.
    fn place_conv(
        &mut self,
        name: &str,
        input: ValueId,
        window: Window,
        weights: &Tensor,
        (groups, biases): (usize, Vec<f32>),
    ) -> Outcome<ValueId> {
        let shape = self.builder.shape(input);
        let outputs = weights.dims[0];
        let mut filter = weights.floats();
        let (window, square) = match window.square(shape) {
            Some(square) => (window, square),
            None => {
                let spread = window.undilated();
                let square = spread.square(shape).ok_or_else(|| uneven(window, shape))?;
                self.spend(filter.len().saturating_mul(spread.filter[0] * spread.filter[1]))?;
                filter = undilate(&filter, window, spread);
                (spread, square)
            }
        };
        if window.filter != [square.filter; 2] {
            let maps = filter.len() / (window.filter[0] * window.filter[1]).max(1);
            self.spend(maps.saturating_mul(square.filter * square.filter))?;
        }
        let conv = Conv {
            out: outputs,
            filter: square.filter,
            stride: square.stride,
            padding: Some(square.padding),
            dilation: square.dilation,
            groups: Groups::Count(groups),
            bias: true,
        };
        let weights = LayerWeights::Linear { weights: square.fill(&filter, window.filter), biases };
        Ok(self.builder.weighted(name, &Layer::Conv(conv), weights, input)?)
    }

    /// A window that also does what is pending on its map, where one window can; or the map settled.
    fn with_pending(&mut self, map: Map, window: Window, name: &str) -> Outcome<(ValueId, Window)> {
        let Window { stride, before, after, .. } = map.pending;
        let is_padding = before.iter().chain(&after).all(|side| *side >= 0);
        let pads_nothing = window.before.iter().chain(&window.after).all(|side| *side == 0);
        if stride == [1; 2] && (is_padding || pads_nothing) {
            let sum = |one: [i64; 2], two: [i64; 2]| [one[0] + two[0], one[1] + two[1]];
            let joined =
                Window { before: sum(window.before, before), after: sum(window.after, after), ..window };
            return Ok((map.value, joined));
        }
        let is_pixel = window.filter == [1; 2] && pads_nothing;
        if is_pixel && window.stride == [1; 2] {
            return Ok((map.value, Window { filter: window.filter, dilation: [1; 2], ..map.pending }));
        }
        let settled = self.settled(map, name)?;
        Ok((settled.value, window))
    }

    pub(super) fn expect_channels_first(&self, map: Map) -> Outcome<()> {
        if map.view == View::ChannelsFirst {
            return Ok(());
        }
        let expected = "batch, channels, rows, columns".to_owned();
        Err(NodeFault::Shape { what: "input", came: self.dims(map), expected })
    }
}

/// Filters with zeros between their taps.
fn undilate(weights: &[f32], from: Window, to: Window) -> Vec<f32> {
    let (area, wide) = (from.filter[0] * from.filter[1], to.filter[0] * to.filter[1]);
    let mut spread = vec![0.0; weights.len() / area * wide];
    for (index, weight) in weights.iter().enumerate() {
        let (map, tap) = (index / area, index % area);
        let (row, column) =
            (tap / from.filter[1] * from.dilation[0], tap % from.filter[1] * from.dilation[1]);
        spread[map * wide + row * to.filter[1] + column] = *weight;
    }
    spread
}

/// The window of a convolution or pooling, from its attributes. All its numbers are small enough to be added.
fn window(node: &Node<'_>, input: Shape, filter: [usize; 2]) -> Outcome<Window> {
    if let Some(kernel) = list(node, "kernel_shape")?
        && node.operation == "Conv"
        && kernel != filter.map(|side| side as i64)
    {
        let expected = format!("the kernel_shape, {kernel:?}");
        return Err(NodeFault::Shape { what: "filter", came: filter.to_vec(), expected });
    }
    if filter.iter().any(|side| !(1..=MAX_SIDE).contains(side)) {
        let expected = format!("sides from 1 to {MAX_SIDE}");
        return Err(NodeFault::Shape { what: "window", came: filter.to_vec(), expected });
    }
    let stride = sides(node, "strides")?;
    let dilation = sides(node, "dilations")?;
    let mut window = Window { filter, stride, dilation, before: [0; 2], after: [0; 2] };
    let automatic = match node.attribute("auto_pad") {
        Some(Attribute::Text(text)) => *text,
        _ => b"NOTSET",
    };
    match automatic {
        b"NOTSET" | b"" => {
            if let Some(pads) = list(node, "pads")? {
                let &[top, left, bottom, right] = pads else { return Err(pads_fault(pads)) };
                if pads.iter().any(|side| !(0..=MAX_SIDE as i64).contains(side)) {
                    return Err(pads_fault(pads));
                }
                (window.before, window.after) = ([top, left], [bottom, right]);
            }
        }
        b"VALID" => {}
        b"SAME_UPPER" | b"SAME_LOWER" => {
            for (axis, length) in [(0, input.height), (1, input.width)] {
                let outputs = length.div_ceil(stride[axis]);
                let span = dilation[axis] * (filter[axis] - 1) + 1;
                let missing = ((outputs - 1) * stride[axis] + span).saturating_sub(length) as i64;
                let (less, more) = (missing / 2, missing - missing / 2);
                let upper = automatic == b"SAME_UPPER";
                window.before[axis] = if upper { less } else { more };
                window.after[axis] = if upper { more } else { less };
            }
        }
        other => {
            let came = String::from_utf8_lossy(other).into_owned();
            let expected = "NOTSET, VALID, SAME_UPPER or SAME_LOWER";
            return Err(NodeFault::Attribute { name: "auto_pad", came, expected });
        }
    }
    Ok(window)
}

fn pads_fault(pads: &[i64]) -> NodeFault {
    let expected = "four numbers from 0 to 4096: above, left, below, right";
    NodeFault::Attribute { name: "pads", came: format!("{pads:?}"), expected }
}

/// Two numbers for rows and columns, or ones.
fn sides(node: &Node<'_>, name: &'static str) -> Outcome<[usize; 2]> {
    let Some(values) = list(node, name)? else { return Ok([1; 2]) };
    let fault = || NodeFault::Attribute {
        name,
        came: format!("{values:?}"),
        expected: "two numbers from 1 to 4096, for rows and columns",
    };
    let side = |value: i64| usize::try_from(value).ok().filter(|side| (1..=MAX_SIDE).contains(side));
    match values {
        [rows, columns] => Ok([side(*rows).ok_or_else(fault)?, side(*columns).ok_or_else(fault)?]),
        _ => Err(fault()),
    }
}

fn list<'n>(node: &'n Node<'_>, name: &'static str) -> Outcome<Option<&'n [i64]>> {
    match node.attribute(name) {
        None => Ok(None),
        Some(Attribute::Integers(values)) => Ok(Some(values)),
        Some(_) => {
            Err(NodeFault::Attribute { name, came: "no list".to_owned(), expected: "a list of integers" })
        }
    }
}
