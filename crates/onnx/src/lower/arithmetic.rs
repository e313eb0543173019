//! Sums of maps, and maps with constants: one number for each channel, which freezing folds into weights.

use network::spec::{Join, Layer};
use network::walk::ValueId;

use super::map::{Map, View};
use super::{Lowering, Outcome, Value, map_at, node_name, private, weights_at};
use crate::Normalization;
use crate::embed::Window;
use crate::error::NodeFault;
use crate::proto::Node;
use crate::tensor::Tensor;

impl<'a> Lowering<'a> {
    pub(super) fn arithmetic(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let name = node_name(node);
        let is_map = |place: usize| matches!(inputs.get(place), Some(Some(Value::Map(_))));
        match (node.operation, inputs.len()) {
            ("Neg", _) => {
                let map = map_at(inputs, 0)?;
                let map = self.settled(map, name)?;
                self.scaled(name, map, -1.0, 0.0)
            }
            ("Sum" | "Mean", count) if count != 2 || node.operation == "Mean" => {
                let maps = self.maps(name, inputs)?;
                let sum = self.sum(name, &maps)?;
                let share = if node.operation == "Mean" { 1.0 / maps.len() as f32 } else { 1.0 };
                self.scaled(&format!("{name}.share"), sum, share, 0.0)
            }
            (_, 2) if is_map(0) && is_map(1) => {
                let maps = self.maps(name, inputs)?;
                self.pair(node.operation, name, maps[0], maps[1])
            }
            (_, 2) => {
                let place = usize::from(is_map(1));
                let map = map_at(inputs, place)?;
                let map = self.settled(map, name)?;
                let constant = weights_at(self, inputs, 1 - place, "operand")?;
                self.with_constant(node.operation, name, map, &constant, place == 0)
            }
            (_, 1) => map_at(inputs, 0),
            (operation, _) => Err(private(operation)),
        }
    }

    /// All inputs, none of them pending.
    fn maps(&mut self, name: &str, inputs: &[Option<Value<'a>>]) -> Outcome<Vec<Map>> {
        (0..inputs.len())
            .map(|place| {
                let map = map_at(inputs, place)?;
                self.settled(map, name)
            })
            .collect()
    }

    fn sum(&mut self, name: &str, maps: &[Map]) -> Outcome<Map> {
        let first = maps.first().ok_or(NodeFault::Inputs { expected: 1, came: 0 })?;
        if maps.iter().any(|map| map.view != first.view) {
            let second = maps.iter().find(|map| map.view != first.view).unwrap_or(first);
            return Err(NodeFault::Sizes { first: self.shape(*first), second: self.shape(*second) });
        }
        self.joined(name, Join::Sum, maps)
    }

    /// Two maps.
    fn pair(&mut self, operation: &str, name: &str, left: Map, right: Map) -> Outcome<Map> {
        match operation {
            "Add" | "Sum" => self.sum(name, &[left, right]),
            "Sub" => {
                let negated = self.scaled(&format!("{name}.negated"), right, -1.0, 0.0)?;
                self.sum(name, &[left, negated])
            }
            // The larger of two is the second, plus what the first has more.
            "Max" => {
                self.share(right);
                let negated = self.scaled(&format!("{name}.negated"), right, -1.0, 0.0)?;
                let difference = self.sum(&format!("{name}.difference"), &[left, negated])?;
                let more = self.builder.layer(name, &Layer::Relu, difference.value)?;
                self.sum(&format!("{name}.sum"), &[Map::new(more, left.view), right])
            }
            operation => Err(private(operation)),
        }
    }

    /// A map with a constant, which stands behind it or before it.
    fn with_constant(
        &mut self,
        operation: &str,
        name: &str,
        map: Map,
        constant: &Tensor,
        is_behind: bool,
    ) -> Outcome<Map> {
        if let ("Max" | "Min", Some(bound)) = (operation, constant.single()) {
            let (low, high) = if operation == "Max" { (Some(bound), None) } else { (None, Some(bound)) };
            if !bound.is_finite() {
                return Err(NodeFault::Infinite { what: "bound" });
            }
            return self.clip(name, map, low, high);
        }
        let constant = self.channel_constant(map, constant)?;
        let (ones, zeros) = (vec![1.0; constant.len()], vec![0.0; constant.len()]);
        let negated = |values: Vec<f32>| values.into_iter().map(|value| -value).collect::<Vec<f32>>();
        let (scale, shift) = match (operation, is_behind) {
            ("Add" | "Sum", _) => (ones, constant),
            ("Sub", true) => (ones, negated(constant)),
            ("Sub", false) => (negated(ones), constant),
            ("Mul", _) => (constant, zeros),
            ("Div", true) => (constant.into_iter().map(f32::recip).collect(), zeros),
            (operation, _) => return Err(private(operation)),
        };
        self.affine(name, map, scale, shift)
    }

    /// Each channel times its scale, plus its shift. What is done to the image alone becomes part of its format.
    pub(super) fn affine(&mut self, name: &str, map: Map, scale: Vec<f32>, shift: Vec<f32>) -> Outcome<Map> {
        if scale.iter().chain(&shift).any(|value| !value.is_finite()) {
            return Err(NodeFault::Infinite { what: "constant" });
        }
        let changes = |scale: &f32, shift: &f32| (*scale, *shift) != (1.0, 0.0);
        if !scale.iter().zip(&shift).any(|(scale, shift)| changes(scale, shift)) {
            return Ok(map);
        }
        let is_image = map.value == ValueId::IMAGE && map.pending == Window::PIXEL && !self.is_image_shared;
        if is_image && scale.iter().all(|scale| *scale > 0.0) {
            self.normalize(&scale, &shift);
            return Ok(map);
        }
        self.spend(4 * scale.len())?;
        let value = self.builder.affine(name, scale, shift, map.value)?;
        Ok(Map::new(value, map.view))
    }

    /// Notes that a map is read more than once, although a single node reads it.
    pub(super) fn share(&mut self, map: Map) {
        self.is_image_shared |= map.value == ValueId::IMAGE;
    }

    fn normalize(&mut self, scale: &[f32], shift: &[f32]) {
        let before = self.normalization.take().unwrap_or_else(|| Normalization {
            scale: vec![1.0; scale.len()],
            shift: vec![0.0; scale.len()],
        });
        let shifted =
            before.shift.iter().zip(scale).zip(shift).map(|((before, scale), shift)| before * scale + shift);
        self.normalization = Some(Normalization {
            shift: shifted.collect(),
            scale: before.scale.iter().zip(scale).map(|(before, scale)| before * scale).collect(),
        });
    }

    /// A constant as one number for each channel of a map; refused where it differs from pixel to pixel, or makes the
    /// map larger.
    pub(super) fn channel_constant(&self, map: Map, constant: &Tensor) -> Outcome<Vec<f32>> {
        let dims = self.dims(map);
        let broadcast = || NodeFault::Broadcast { from: constant.dims.clone(), to: dims.clone() };
        let missing = dims.len().checked_sub(constant.dims.len()).ok_or_else(broadcast)?;
        let fits = constant.dims.iter().zip(&dims[missing..]).all(|(own, wanted)| *own == 1 || own == wanted);
        if !fits || constant.data.len() == 0 {
            return Err(broadcast());
        }
        let shape = self.shape(map);
        let (channels, pixels) = (shape.channels, shape.pixels() as usize);
        let axis: usize = if map.view == View::ChannelsLast { 3 } else { 1 };
        // Elements from one place of the channels' axis to the next, and places on it.
        let (step, length) = match axis.checked_sub(missing) {
            Some(place) => (constant.dims[place + 1..].iter().product::<usize>(), constant.dims[place]),
            None => (1, 1),
        };
        let channel = |index: usize| match (index / step % length, map.view) {
            (place, View::Flat) => place / pixels,
            (place, View::FlatPixels) => place % channels,
            (place, _) => place,
        };
        let values = constant.floats();
        let mut found: Vec<Option<f32>> = vec![None; if length == 1 { 1 } else { channels }];
        for (index, value) in values.iter().enumerate() {
            let seen = found[channel(index)].get_or_insert(*value);
            if seen.to_bits() != value.to_bits() {
                return Err(NodeFault::Form {
                    what: "a constant that differs from pixel to pixel".to_owned(),
                    instead: "constants for whole channels",
                });
            }
        }
        let found: Vec<f32> = found.into_iter().flatten().collect();
        match found.as_slice() {
            [single] => Ok(vec![*single; channels]),
            values if values.len() == channels => Ok(found),
            _ => Err(broadcast()),
        }
    }
}
