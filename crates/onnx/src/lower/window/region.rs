//! What only moves, adds or cuts off pixels and channels: padding, slices, splits, concatenations.

use network::spec::{Conv, Groups, Join, Layer};
use network::walk::ValueId;
use network::weights::LayerWeights;

use super::super::map::{Map, View};
use super::super::{Lowering, Outcome, Value, constant_at, map_at, node_name, weights_at};
use crate::embed::Window;
use crate::error::NodeFault;
use crate::proto::{Attribute, Node};
use crate::tensor::{AxisRange, axis, integer, ranges};
use network::shape::MAX_SIDE;

/// Where the axes of a picture stand in a view.
struct PictureAxes {
    channels: usize,
    rows: usize,
    columns: usize,
}

impl View {
    fn picture_axes(self) -> Option<PictureAxes> {
        match self {
            Self::ChannelsFirst => Some(PictureAxes { channels: 1, rows: 2, columns: 3 }),
            Self::ChannelsLast => Some(PictureAxes { channels: 3, rows: 1, columns: 2 }),
            _ => None,
        }
    }
}

impl<'a> Lowering<'a> {
    pub(in super::super) fn pad(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let name = node_name(node);
        let map = map_at(inputs, 0)?;
        let rank = self.dims(map).len();
        let pads = weights_at(self, inputs, 1, "pads")?;
        let pads = pads.as_integers().ok_or(NodeFault::Whole { what: "pads" })?;
        let axes: Vec<usize> = match constant_at(self, inputs, 3, "axes")? {
            None => (0..rank).collect(),
            Some(axes) => {
                let axes = axes.as_integers().ok_or(NodeFault::Whole { what: "axes" })?;
                axes.iter().map(|place| axis(*place, rank)).collect::<Outcome<_>>()?
            }
        };
        let limit = MAX_SIDE as i64;
        if pads.len() != 2 * axes.len() || pads.iter().any(|side| !(-limit..=limit).contains(side)) {
            let (came, expected) = (format!("{pads:?}"), "a number for each end of each axis, up to 4096");
            return Err(NodeFault::Attribute { name: "pads", came, expected });
        }
        let mut ends = vec![(0, 0); rank];
        for (index, place) in axes.iter().enumerate() {
            ends[*place] = (pads[index], pads[axes.len() + index]);
        }
        if ends.iter().all(|end| *end == (0, 0)) {
            return Ok(map);
        }
        let value = constant_at(self, inputs, 2, "value")?;
        let is_zero = value.is_none_or(|value| value.data.len() == 0 || value.single() == Some(0.0));
        let is_constant = match node.attribute("mode") {
            Some(Attribute::Text(mode)) => *mode == b"constant" || mode.is_empty(),
            _ => true,
        };
        let form = |what: &str| NodeFault::Form { what: what.to_owned(), instead: "padding with zeros" };
        if !is_constant || !is_zero {
            return Err(form("padding with anything but zeros"));
        }
        let Some(axes) = map.view.picture_axes() else { return Err(form("padding of a flat tensor")) };
        if ends[0] != (0, 0) {
            return Err(form("padding of the batch"));
        }
        let map = self.pad_channels(name, map, ends[axes.channels])?;
        self.pad_pixels(name, map, ends[axes.rows], ends[axes.columns])
    }

    /// More channels, all zero, before and after.
    fn pad_channels(&mut self, name: &str, map: Map, (before, after): (i64, i64)) -> Outcome<Map> {
        if (before, after) == (0, 0) {
            return Ok(map);
        }
        let form = || NodeFault::Form {
            what: "padding that takes channels away".to_owned(),
            instead: "a slice, or padding with zeros",
        };
        let (before, after) =
            (usize::try_from(before).map_err(|_| form())?, usize::try_from(after).map_err(|_| form())?);
        // Pixels that were skipped are skipped by the same layer.
        let Window { stride: [rows, columns], before: top, after: bottom, .. } = map.pending;
        let only_skips = rows == columns
            && top == [0; 2]
            && bottom.iter().all(|side| (-(rows as i64) + 1..=0).contains(side));
        let map = if only_skips { map } else { self.settled(map, name)? };
        let channels = self.builder.shape(map.value).channels;
        let out = before + channels + after;
        self.spend(out.saturating_mul(channels))?;
        let mut weights = vec![0.0; out * channels];
        (0..channels).for_each(|channel| weights[(before + channel) * channels + channel] = 1.0);
        let stride = map.pending.stride[0];
        let conv = Conv { stride, padding: Some(0), groups: Groups::DENSE, bias: true, ..Conv::new(out, 1) };
        let weights = LayerWeights::Linear { weights, biases: vec![0.0; out] };
        let value =
            self.builder.weighted(&format!("{name}.channels"), &Layer::Conv(conv), weights, map.value)?;
        self.inherit_sign(map.value, value);
        Ok(Map::new(value, map.view))
    }

    /// Rows and columns of zeros, to be added by whoever reads the map.
    fn pad_pixels(&mut self, name: &str, map: Map, rows: (i64, i64), columns: (i64, i64)) -> Outcome<Map> {
        if (rows, columns) == ((0, 0), (0, 0)) {
            return Ok(map);
        }
        let pending = Window { before: [rows.0, columns.0], after: [rows.1, columns.1], ..Window::PIXEL };
        self.pending(name, map, pending)
    }

    /// The map with something more to be done by its readers, if pixels are left.
    fn pending(&mut self, name: &str, map: Map, more: Window) -> Outcome<Map> {
        let joined = map.pending.then(more, self.builder.shape(map.value));
        let (map, pending) = match joined {
            Some(pending) => (map, pending),
            None => (self.settled(map, name)?, more),
        };
        match pending.output(self.builder.shape(map.value)) {
            Some([1..=MAX_SIDE, 1..=MAX_SIDE]) => Ok(Map { pending, ..map }),
            _ => {
                let (came, expected) = (self.dims(map), "more pixels than are cut off".to_owned());
                Err(NodeFault::Shape { what: "input", came, expected })
            }
        }
    }

    pub(in super::super) fn slice(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let name = node_name(node);
        let map = map_at(inputs, 0)?;
        let constants = self.constants(inputs)?;
        let borrowed: Vec<_> = constants.iter().map(Option::as_deref).collect();
        let dims = self.dims(map);
        let mut map = map;
        let mut pending = Window::PIXEL;
        for range in ranges(&borrowed, &dims)? {
            let AxisRange { axis, start, count, step } = range;
            let step = usize::try_from(step).map_err(|_| NodeFault::Step { step })?;
            if start == 0 && count == dims[axis] {
                continue;
            }
            let form = |what: &str| NodeFault::Form {
                what: what.to_owned(),
                instead: "slices of channels, rows or columns",
            };
            let axes = map.view.picture_axes().or_else(|| {
                let is_vector = self.shape(map).pixels() == 1 && map.view != View::Rows;
                is_vector.then_some(PictureAxes { channels: 1, rows: usize::MAX, columns: usize::MAX })
            });
            let axes = axes.ok_or_else(|| form("a slice of a flat tensor"))?;
            if count == 0 || axis == 0 {
                return Err(form("a slice that is empty or cuts the batch"));
            }
            if axis == axes.channels {
                map = self.take_channels(name, map, (0..count).map(|index| (start + index * step, 1)))?;
                continue;
            }
            let place = usize::from(axis == axes.columns);
            let end = start + (count - 1) * step + 1;
            pending.before[place] = -(start as i64);
            pending.after[place] = end as i64 - dims[axis] as i64;
            pending.stride[place] = step;
        }
        if pending == Window::PIXEL {
            return Ok(map);
        }
        self.pending(name, map, pending)
    }

    /// Runs of channels (first and number), side by side; neighbors are taken together.
    pub(in super::super) fn take_channels(
        &mut self,
        name: &str,
        map: Map,
        runs: impl Iterator<Item = (usize, usize)>,
    ) -> Outcome<Map> {
        let map = self.settled(map, name)?;
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (start, count) in runs {
            match joined.last_mut() {
                Some((first, length)) if *first + *length == start => *length += count,
                _ => joined.push((start, count)),
            }
        }
        let mut parts = Vec::new();
        for (start, count) in joined {
            parts.push(self.builder.slice(name, start, count, map.value)?);
        }
        let value = self.builder.join(&format!("{name}.join"), Join::Concat, parts)?;
        self.inherit_sign(map.value, value);
        Ok(Map::new(value, map.view))
    }

    pub(in super::super) fn split(
        &mut self,
        node: &Node<'a>,
        inputs: &[Option<Value<'a>>],
    ) -> Outcome<Vec<Map>> {
        let name = node_name(node);
        let map = map_at(inputs, 0)?;
        let map = self.settled(map, name)?;
        let dims = self.dims(map);
        let along = axis(integer(node, "axis", 0), dims.len())?;
        let is_channels = match map.view {
            View::ChannelsLast => along == 3,
            View::ChannelsFirst | View::Rows => along == 1,
            View::Flat | View::FlatPixels => along == 1 && self.shape(map).pixels() == 1,
        };
        if !is_channels {
            let what = format!("a split of {dims:?} along axis {along}");
            return Err(NodeFault::Form { what, instead: "splits of channels" });
        }
        let sizes = self.split_sizes(node, inputs, dims[along])?;
        let mut start = 0;
        let mut maps = Vec::new();
        for size in sizes {
            maps.push(self.take_channels(name, map, std::iter::once((start, size)))?);
            start += size;
        }
        Ok(maps)
    }

    fn split_sizes(
        &self,
        node: &Node<'a>,
        inputs: &[Option<Value<'a>>],
        channels: usize,
    ) -> Outcome<Vec<usize>> {
        let given = constant_at(self, inputs, 1, "split")?;
        let given = match (&given, node.attribute("split")) {
            (Some(tensor), _) => Some(tensor.as_integers().ok_or(NodeFault::Whole { what: "sizes" })?),
            (None, Some(Attribute::Integers(sizes))) => Some(sizes.as_slice()),
            _ => None,
        };
        let sizes: Vec<usize> = match given {
            Some(sizes) => sizes.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect(),
            None => {
                let parts =
                    usize::try_from(integer(node, "num_outputs", node.outputs.len() as i64)).unwrap_or(0);
                let size = channels.div_ceil(parts.max(1));
                (0..parts.min(channels)).map(|part| size.min(channels.saturating_sub(part * size))).collect()
            }
        };
        let total = sizes.iter().fold(0_usize, |total, size| total.saturating_add(*size));
        if total != channels || sizes.contains(&0) {
            let (came, expected) = (format!("{sizes:?}"), "sizes that make up all channels");
            return Err(NodeFault::Attribute { name: "split", came, expected });
        }
        Ok(sizes)
    }

    pub(in super::super) fn concat(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let name = node_name(node);
        let mut maps = Vec::new();
        for place in 0..inputs.len() {
            let map = map_at(inputs, place)?;
            maps.push(self.settled(map, name)?);
        }
        let first = maps[0];
        let along = axis(integer(node, "axis", 0), self.dims(first).len())?;
        let is_channels = match first.view {
            View::ChannelsLast => along == 3,
            View::ChannelsFirst | View::Rows | View::Flat => along == 1,
            View::FlatPixels => along == 1 && self.shape(first).pixels() == 1,
        };
        let same_view = maps.iter().all(|map| map.view == first.view);
        if !is_channels || !same_view {
            let what = format!("a concatenation of {:?} along axis {along}", self.dims(first));
            return Err(NodeFault::Form { what, instead: "concatenations of channels" });
        }
        self.joined(name, Join::Concat, &maps)
    }

    /// Maps with nothing pending, as a sum or side by side.
    pub(in super::super) fn joined(&mut self, name: &str, join: Join, maps: &[Map]) -> Outcome<Map> {
        let (first, others) = maps.split_first().ok_or(NodeFault::Inputs { expected: 1, came: 0 })?;
        let shape = self.shape(*first);
        for other in others {
            let second = self.shape(*other);
            let compared = if join == Join::Sum { second } else { second.with_channels(shape.channels) };
            if compared != shape {
                return Err(NodeFault::Sizes { first: shape, second });
            }
        }
        let values: Vec<ValueId> = maps.iter().map(|map| map.value).collect();
        let is_nonnegative = values.iter().all(|value| self.is_nonnegative(*value));
        let value = self.builder.join(name, join, values)?;
        if is_nonnegative {
            self.mark_nonnegative(value);
        }
        Ok(Map::new(value, first.view))
    }
}
