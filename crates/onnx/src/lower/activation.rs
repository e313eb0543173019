//! Activations, all made of ReLUs that may be clipped at 6 and of scalings, which freezing folds into neighbors.
//!
//! | operation | becomes |
//! | --- | --- |
//! | `clip(x, a, b)` | `a + (b - a) / 6 relu6(6 (x - a) / (b - a))` |
//! | `max(x, a)` | `a + relu(x - a)` |
//! | `min(x, b)` | `b - relu(b - x)` |
//! | leaky ReLU of slope `s`, `|x|` with `s = -1` | `(1 - s) relu(x) + s x` |

use network::spec::{Join, Layer};
use network::walk::ValueId;

use super::map::Map;
use super::{Lowering, Outcome, Value, constant_at, map_at, node_name, weights_at};
use crate::error::NodeFault;
use crate::proto::{Attribute, Node};

/// What clipped ReLUs clip at.
const CEILING: f32 = 6.0;

impl<'a> Lowering<'a> {
    pub(super) fn activation(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let name = node_name(node);
        let map = map_at(inputs, 0)?;
        let map = self.settled(map, name)?;
        match node.operation {
            "Relu" => self.relu(name, map, &Layer::Relu),
            "Clip" => {
                let bound = |lowering: &Self, place, what| match constant_at(lowering, inputs, place, what)? {
                    None => Ok(None),
                    Some(tensor) => match tensor.single() {
                        Some(bound) if !bound.is_nan() => {
                            Ok(Some(bound).filter(|bound| bound.abs() < f32::MAX))
                        }
                        _ => Err(NodeFault::Infinite { what }),
                    },
                };
                let (low, high) = (bound(self, 1, "lower bound")?, bound(self, 2, "upper bound")?);
                self.clip(name, map, low, high)
            }
            "HardSigmoid" => {
                let (slope, offset) = (float(node, "alpha", 0.2)?, float(node, "beta", 0.5)?);
                let scaled = self.scaled(&format!("{name}.line"), map, slope, offset)?;
                self.clip(name, scaled, Some(0.0), Some(1.0))
            }
            "LeakyRelu" => {
                let slope = float(node, "alpha", 0.01)?;
                let channels = self.shape(map).channels;
                self.leaky(name, map, vec![slope; channels])
            }
            "PRelu" => {
                let slopes = weights_at(self, inputs, 1, "slope")?;
                let slopes = self.channel_constant(map, &slopes)?;
                self.leaky(name, map, slopes)
            }
            _ => {
                let channels = self.shape(map).channels;
                self.leaky(name, map, vec![-1.0; channels])
            }
        }
    }

    fn relu(&mut self, name: &str, map: Map, layer: &Layer) -> Outcome<Map> {
        let value = self.builder.layer(name, layer, map.value)?;
        self.mark_nonnegative(value);
        Ok(Map::new(value, map.view))
    }

    /// Between two bounds, either of which may be absent.
    pub(super) fn clip(&mut self, name: &str, map: Map, low: Option<f32>, high: Option<f32>) -> Outcome<Map> {
        let (into, out) = (format!("{name}.into"), format!("{name}.out"));
        match (low, high) {
            (None, None) => Ok(map),
            (Some(low), None) => {
                let moved = self.scaled(&into, map, 1.0, -low)?;
                let kept = self.relu(name, moved, &Layer::Relu)?;
                self.scaled(&out, kept, 1.0, low)
            }
            (None, Some(high)) => {
                let turned = self.scaled(&into, map, -1.0, high)?;
                let kept = self.relu(name, turned, &Layer::Relu)?;
                self.scaled(&out, kept, -1.0, high)
            }
            (Some(low), Some(high)) => {
                let unit = (high - low) / CEILING;
                if unit.is_nan() || unit <= 0.0 || !unit.is_normal() || !unit.recip().is_normal() {
                    let (came, expected) = (format!("{low} to {high}"), "a lower bound below the upper one");
                    return Err(NodeFault::Attribute { name: "range", came, expected });
                }
                let moved = self.scaled(&into, map, unit.recip(), -low / unit)?;
                let kept = self.relu(name, moved, &Layer::Relu6)?;
                self.scaled(&out, kept, unit, low)
            }
        }
    }

    /// Another slope below zero, for each channel its own.
    fn leaky(&mut self, name: &str, map: Map, slopes: Vec<f32>) -> Outcome<Map> {
        if slopes.iter().any(|slope| !slope.is_finite()) {
            return Err(NodeFault::Infinite { what: "slope" });
        }
        if slopes.iter().all(|slope| *slope == 1.0) {
            return Ok(map);
        }
        self.share(map);
        let kept = self.relu(name, map, &Layer::Relu)?;
        if slopes.iter().all(|slope| *slope == 0.0) {
            return Ok(kept);
        }
        let zeros = vec![0.0; slopes.len()];
        let others = slopes.iter().map(|slope| 1.0 - slope).collect();
        let kept = self.affine(&format!("{name}.above"), kept, others, zeros.clone())?;
        let passed = self.affine(&format!("{name}.slope"), map, slopes, zeros)?;
        self.joined(&format!("{name}.sum"), Join::Sum, &[kept, passed])
    }

    /// Every value times a scale, plus a shift.
    pub(super) fn scaled(&mut self, name: &str, map: Map, scale: f32, shift: f32) -> Outcome<Map> {
        if (scale, shift) == (1.0, 0.0) {
            return Ok(map);
        }
        let channels = self.shape(map).channels;
        self.affine(name, map, vec![scale; channels], vec![shift; channels])
    }

    /// Whether a value is never below zero, as long as no ReLU is dropped.
    pub(super) fn is_nonnegative(&self, value: ValueId) -> bool {
        self.is_nonnegative.get(value.0).copied().unwrap_or(false)
    }

    pub(super) fn mark_nonnegative(&mut self, value: ValueId) {
        if self.is_nonnegative.len() <= value.0 {
            self.is_nonnegative.resize(value.0 + 1, false);
        }
        self.is_nonnegative[value.0] = true;
    }

    /// What is made of values without negative weights is as they are.
    pub(super) fn inherit_sign(&mut self, from: ValueId, to: ValueId) {
        if self.is_nonnegative(from) {
            self.mark_nonnegative(to);
        }
    }
}

/// A float attribute, or what it is when absent.
pub(super) fn float(node: &Node<'_>, name: &'static str, usual: f32) -> Outcome<f32> {
    match node.attribute(name) {
        None => Ok(usual),
        Some(Attribute::Float(value)) if value.is_finite() => Ok(*value),
        Some(_) => {
            Err(NodeFault::Attribute { name, came: "another value".to_owned(), expected: "a finite number" })
        }
    }
}
