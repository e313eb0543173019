//! Reshapes and transposes: other views of the same value.

use super::map::{Map, View};
use super::{Lowering, Outcome, Value, map_at, node_name, weights_at};
use crate::error::NodeFault;
use crate::proto::{Attribute, Node};
use crate::tensor::{Tensor, axes, axis, integer, resolve};

impl<'a> Lowering<'a> {
    pub(super) fn reshape(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let map = map_at(inputs, 0)?;
        if node.operation == "Transpose" {
            return self.transpose(node, map);
        }
        let map = self.settled(map, node_name(node))?;
        let dims = self.dims(map);
        let target = match node.operation {
            "Flatten" => {
                let at = usize::try_from(integer(node, "axis", 1).rem_euclid(dims.len() as i64)).unwrap_or(0);
                let (before, after) = dims.split_at(at);
                vec![before.iter().product(), after.iter().product()]
            }
            "Reshape" => {
                let target = weights_at(self, inputs, 1, "shape")?;
                resolve(target.as_integers().ok_or(NodeFault::Whole { what: "the shape" })?, &dims)?
            }
            operation => {
                let constants = self.constants(inputs)?;
                let given = axes(node, constants.get(1).and_then(Option::as_deref))?;
                if operation == "Squeeze" { squeezed(&dims, &given)? } else { unsqueezed(&dims, &given)? }
            }
        };
        self.viewed(map, &dims, &target)
    }

    /// The view in which a value has these dimensions.
    fn viewed(&self, map: Map, from: &[usize], target: &[usize]) -> Outcome<Map> {
        let is_vector = self.shape(map).pixels() == 1;
        let by_channel = matches!(map.view, View::ChannelsFirst | View::Rows | View::Flat) || is_vector;
        let candidates: &[View] = match by_channel {
            true => &[View::ChannelsFirst, View::Rows, View::Flat],
            false => &[View::ChannelsLast, View::FlatPixels],
        };
        let fits = |view: &&View| self.dims(Map { view: **view, ..map }) == target;
        match (map.view, candidates.iter().find(fits)) {
            _ if from == target => Ok(map),
            (_, Some(view)) => Ok(Map { view: *view, ..map }),
            (View::ChannelsLast, None) if is_vector && target == from => Ok(map),
            _ => Err(NodeFault::Form {
                what: format!("a reshape of {from:?} to {target:?}"),
                instead: "flattening of whole maps; group normalization and shuffled channels are exported like \
                          this: train with batch normalization, and without shuffles",
            }),
        }
    }

    fn transpose(&mut self, node: &Node<'a>, map: Map) -> Outcome<Map> {
        let dims = self.dims(map);
        let order: Vec<i64> = match node.attribute("perm") {
            Some(Attribute::Integers(order)) => order.clone(),
            _ => (0..dims.len() as i64).rev().collect(),
        };
        let is_same = order.iter().enumerate().all(|(place, axis)| *axis == place as i64);
        let view = match (map.view, order.as_slice()) {
            _ if is_same && order.len() == dims.len() => map.view,
            (View::ChannelsFirst, [0, 2, 3, 1]) => View::ChannelsLast,
            (View::ChannelsLast, [0, 3, 1, 2]) => View::ChannelsFirst,
            _ => {
                return Err(NodeFault::Form {
                    what: format!("an exchange of axes {order:?} of {dims:?}"),
                    instead: "axes in the order batch, channels, rows, columns",
                });
            }
        };
        Ok(Map { view, ..map })
    }

    /// The dimensions of a map, as a constant.
    pub(super) fn measure(&self, node: &Node<'_>, map: Map) -> Outcome<Tensor> {
        let dims: Vec<i64> = self.dims(map).iter().map(|dim| *dim as i64).collect();
        if node.operation == "Size" {
            let tensor = Tensor::integers(vec![dims.iter().product()]);
            return Ok(Tensor { dims: Vec::new(), ..tensor });
        }
        let rank = dims.len() as i64;
        let place = |name: &str, usual: i64| {
            let place = integer(node, name, usual);
            (if place < 0 { place.saturating_add(rank) } else { place }).clamp(0, rank) as usize
        };
        let (start, end) = (place("start", 0), place("end", rank));
        Ok(Tensor::integers(dims.get(start..end).unwrap_or_default().to_vec()))
    }
}

fn squeezed(dims: &[usize], given: &[i64]) -> Outcome<Vec<usize>> {
    let given: Vec<usize> = given.iter().map(|place| axis(*place, dims.len())).collect::<Outcome<_>>()?;
    let goes =
        |place: usize, dim: usize| dim == 1 && (given.contains(&place) || (given.is_empty() && place > 0));
    Ok(dims.iter().enumerate().filter(|(place, dim)| !goes(*place, **dim)).map(|(_, dim)| *dim).collect())
}

fn unsqueezed(dims: &[usize], given: &[i64]) -> Outcome<Vec<usize>> {
    let rank = dims.len() + given.len();
    let mut places: Vec<usize> = given.iter().map(|place| axis(*place, rank)).collect::<Outcome<_>>()?;
    places.sort_unstable();
    let mut dims = dims.to_vec();
    for place in places {
        dims.insert(place.min(dims.len()), 1);
    }
    Ok(dims)
}
