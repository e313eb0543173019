//! Poolings: windows, whole maps, and means written as reductions.

use network::shape::Shape;
use network::spec::{Layer, Pool};

use super::super::map::{Map, View, uneven};
use super::super::{Lowering, Outcome, Value, constant_at, map_at, node_name, private};
use super::{list, window};
use crate::embed::Window;
use crate::error::NodeFault;
use crate::proto::Node;
use crate::tensor::{axes, axis, integer};

impl<'a> Lowering<'a> {
    pub(in super::super) fn pool(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let name = node_name(node);
        let map = map_at(inputs, 0)?;
        let map = self.settled(map, name)?;
        match node.operation {
            "ReduceMean" | "ReduceMax" => {
                let constant = constant_at(self, inputs, 1, "axes")?;
                self.reduce(node, map, &axes(node, constant.as_deref())?)
            }
            "GlobalAveragePool" => self.whole(name, map, true),
            "GlobalMaxPool" => self.whole(name, map, false),
            _ => {
                self.expect_channels_first(map)?;
                let shape = self.shape(map);
                let Some(&[rows, columns]) = list(node, "kernel_shape")? else {
                    let (came, expected) = ("absent".to_owned(), "two sides of a window");
                    return Err(NodeFault::Attribute { name: "kernel_shape", came, expected });
                };
                let side = |side: i64| usize::try_from(side).unwrap_or(0);
                let window = window(node, shape, [side(rows), side(columns)])?;
                let window =
                    if integer(node, "ceil_mode", 0) == 0 { window } else { rounded_up(window, shape) };
                match node.operation {
                    "MaxPool" => self.max_pool(name, map, window),
                    _ => self.average_pool(name, map, window, integer(node, "count_include_pad", 0) == 1),
                }
            }
        }
    }

    /// The mean or the maximum of each channel.
    fn whole(&mut self, name: &str, map: Map, is_mean: bool) -> Outcome<Map> {
        let shape = self.shape(map);
        let layer = match is_mean {
            _ if shape.pixels() == 1 => return Ok(map),
            true => Layer::GlobalAveragePool,
            false if shape.height == shape.width => Layer::MaxPool(Pool::new(shape.height, shape.height)),
            false => return Err(uneven(covering(shape), shape)),
        };
        let value = self.builder.layer(name, &layer, map.value)?;
        self.inherit_sign(map.value, value);
        Ok(Map::new(value, map.view))
    }

    fn reduce(&mut self, node: &Node<'_>, map: Map, axes: &[i64]) -> Outcome<Map> {
        let rank = self.dims(map).len();
        let mut reduced: Vec<usize> = axes.iter().map(|place| axis(*place, rank)).collect::<Outcome<_>>()?;
        reduced.sort_unstable();
        let pixels: &[usize] = match map.view {
            View::ChannelsFirst => &[2, 3],
            View::ChannelsLast => &[1, 2],
            View::Rows => &[2],
            View::Flat | View::FlatPixels => &[],
        };
        if reduced != pixels {
            return Err(match node.operation {
                "ReduceMean" => NodeFault::Form {
                    what: format!("a mean over axes {axes:?} of {:?}", self.dims(map)),
                    instead: "the mean over rows and columns, as global average pooling",
                },
                operation => private(operation),
            });
        }
        let mean = self.whole(node_name(node), map, node.operation == "ReduceMean")?;
        let keeps = integer(node, "keepdims", 1) != 0;
        Ok(Map { view: if keeps { mean.view } else { View::Flat }, ..mean })
    }

    fn max_pool(&mut self, name: &str, map: Map, window: Window) -> Outcome<Map> {
        let shape = self.shape(map);
        if let Some(pool) = square_pool(window, shape) {
            let value = self.builder.layer(name, &Layer::MaxPool(pool), map.value)?;
            self.inherit_sign(map.value, value);
            return Ok(Map::new(value, View::ChannelsFirst));
        }
        // Zeros never win where all values are above them, so that a border of zeros is no border.
        if !self.is_nonnegative(map.value) {
            return Err(uneven(window, shape));
        }
        let border = Window { before: window.before, after: window.after, ..Window::PIXEL };
        let bordered = self.settled(Map { pending: border, ..map }, name)?;
        let inner = Window { before: [0; 2], after: [0; 2], ..window };
        let pool = square_pool(inner, self.shape(bordered)).ok_or_else(|| uneven(window, shape))?;
        let value = self.builder.layer(name, &Layer::MaxPool(pool), bordered.value)?;
        self.mark_nonnegative(value);
        Ok(Map::new(value, View::ChannelsFirst))
    }

    fn average_pool(&mut self, name: &str, map: Map, window: Window, count_padding: bool) -> Outcome<Map> {
        let shape = self.shape(map);
        if window == (Window { stride: window.stride, ..covering(shape) }) {
            return self.whole(name, map, true);
        }
        let is_padded = window.before != [0; 2] || window.after != [0; 2];
        let value = if let Some(pool) = square_pool(window, shape) {
            let pool = Pool { count_padding, ..pool };
            self.builder.layer(name, &Layer::AveragePool(pool), map.value)?
        } else if count_padding || !is_padded {
            let area = window.filter[0] * window.filter[1];
            self.spend(area.saturating_mul(shape.channels))?;
            let weights = vec![1.0 / area as f32; area * shape.channels];
            self.depthwise(name, map.value, window, &weights)?
        } else {
            return Err(uneven(window, shape));
        };
        self.inherit_sign(map.value, value);
        Ok(Map::new(value, View::ChannelsFirst))
    }
}

/// The window that covers a whole map.
fn covering(shape: Shape) -> Window {
    Window { filter: [shape.height, shape.width], ..Window::PIXEL }
}

/// The window as pooling layers know it: square, with one stride and the same padding on all sides.
fn square_pool(window: Window, input: Shape) -> Option<Pool> {
    let Window { filter, dilation, before, after, .. } = window;
    let padding = usize::try_from(before[0]).ok()?;
    let output = window.output(input)?;
    let is_square = filter[0] == filter[1] && before == after && before[0] == before[1];
    let is_dense = dilation == [1; 2] || filter == [1; 2];
    if !is_square || !is_dense || padding > filter[0] / 2 {
        return None;
    }
    let stride = match (output, window.stride) {
        (_, [rows, columns]) if rows == columns => rows,
        ([1, _], [_, columns]) => columns,
        ([_, 1], [rows, _]) => rows,
        _ => return None,
    };
    Some(Pool::new(filter[0], stride).padding(padding))
}

/// The window with as much padding below and right as gives the outputs that rounding up counts: one more where pixels are
/// left over, if its window begins inside the map or the padding before it.
fn rounded_up(window: Window, input: Shape) -> Window {
    let mut window = window;
    let Some(output) = window.output(input) else { return window };
    for (axis, length) in [(0, input.height), (1, input.width)] {
        let (stride, before) = (window.stride[axis] as i64, window.before[axis]);
        let span = (window.dilation[axis] * (window.filter[axis] - 1) + 1) as i64;
        let room = length as i64 + before + window.after[axis] - span;
        let begins = output[axis] as i64 * stride;
        if room % stride != 0 && begins < length as i64 + before {
            window.after[axis] += stride - room % stride;
        }
    }
    window
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(filter: usize, stride: usize, padding: i64) -> Window {
        Window {
            filter: [filter; 2],
            stride: [stride; 2],
            before: [padding; 2],
            after: [padding; 2],
            ..Window::PIXEL
        }
    }

    #[test]
    fn rounding_up_adds_an_output_where_pixels_are_left() {
        let even = Shape::new(1, 8, 8);
        assert_eq!(rounded_up(window(3, 2, 0), even).output(even), Some([4, 4]));
        let odd = Shape::new(1, 9, 9);
        assert_eq!(rounded_up(window(3, 2, 0), odd), window(3, 2, 0));
        // The extra window would begin in the padding behind the map.
        let tiny = Shape::new(1, 5, 5);
        assert_eq!(rounded_up(window(2, 4, 1), tiny).output(tiny), Some([2, 2]));
    }

    #[test]
    fn poolings_are_square_or_nothing() {
        let input = Shape::new(1, 8, 8);
        assert_eq!(square_pool(window(3, 2, 1), input), Some(Pool::new(3, 2).padding(1)));
        assert_eq!(square_pool(Window { filter: [2, 1], ..window(2, 2, 0) }, input), None);
        assert_eq!(square_pool(Window { after: [1; 2], ..window(2, 2, 0) }, input), None);
        assert_eq!(square_pool(Window { dilation: [2; 2], ..window(2, 2, 0) }, input), None);
        let single = Window { stride: [8, 5], ..window(8, 1, 0) };
        assert_eq!(square_pool(single, input), Some(Pool::new(8, 8)).map(|pool| Pool { stride: 5, ..pool }));
    }
}
