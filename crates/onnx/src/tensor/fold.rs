//! Operations on constants alone: computed when the file is read.
//!
//! Exporters write the arithmetic of shapes as nodes, such as "the batch's size, then -1", and leave weights to be turned or
//! scaled. All of that happens here; the network never sees it.

use super::index::{axis, count};
use super::{Data, Tensor};
use crate::error::NodeFault;
use crate::proto::{Attribute, Node};

/// The constant that a node makes of constants.
pub(crate) fn fold(node: &Node<'_>, inputs: &[Option<&Tensor>]) -> Result<Tensor, NodeFault> {
    let input = |index: usize| {
        let came = inputs.len();
        inputs.get(index).copied().flatten().ok_or(NodeFault::Inputs { expected: index + 1, came })
    };
    match node.operation {
        "Identity" | "Dropout" => Ok(input(0)?.clone()),
        "Cast" => cast(node, input(0)?),
        "Add" => pair(input(0)?, input(1)?, |a, b| a + b, i64::checked_add),
        "Sub" => pair(input(0)?, input(1)?, |a, b| a - b, i64::checked_sub),
        "Mul" => pair(input(0)?, input(1)?, |a, b| a * b, i64::checked_mul),
        "Div" => pair(input(0)?, input(1)?, |a, b| a / b, i64::checked_div),
        "Pow" => pair(input(0)?, input(1)?, f32::powf, |a, b| a.checked_pow(u32::try_from(b).ok()?)),
        "Sqrt" => Ok(each(input(0)?, f32::sqrt)),
        "Neg" => Ok(each(input(0)?, |value| -value)),
        "Reciprocal" => Ok(each(input(0)?, f32::recip)),
        "Exp" => Ok(each(input(0)?, f32::exp)),
        "Shape" => Ok(Tensor::integers(input(0)?.dims.iter().map(|dim| *dim as i64).collect())),
        "Size" => Ok(Tensor { dims: Vec::new(), data: Data::Integers(vec![input(0)?.data.len() as i64]) }),
        "Gather" => gather(node, input(0)?, input(1)?),
        "Concat" => {
            let parts: Vec<&Tensor> = (0..inputs.len()).map(input).collect::<Result<_, _>>()?;
            Tensor::concatenated(&parts, integer(node, "axis", 0))
        }
        "Unsqueeze" => unsqueeze(input(0)?, &axes(node, inputs.get(1).copied().flatten())?),
        "Squeeze" => squeeze(input(0)?, &axes(node, inputs.get(1).copied().flatten())?),
        "Reshape" | "Flatten" => reshape(node, inputs),
        "Transpose" => {
            let tensor = input(0)?;
            let reversed: Vec<i64> = (0..tensor.dims.len() as i64).rev().collect();
            match node.attribute("perm") {
                Some(Attribute::Integers(order)) => tensor.transposed(order),
                _ => tensor.transposed(&reversed),
            }
        }
        "Slice" => slice(inputs),
        "Expand" => expand(input(0)?, input(1)?),
        "ConstantOfShape" => constant_of_shape(node, input(0)?),
        _ => Err(NodeFault::Constant),
    }
}

/// An integer attribute, or what it is when absent.
pub(crate) fn integer(node: &Node<'_>, name: &str, usual: i64) -> i64 {
    match node.attribute(name) {
        Some(Attribute::Integer(value)) => *value,
        _ => usual,
    }
}

/// Axes as an input (since opset 13 or 18) or as an attribute; none where neither is there.
pub(crate) fn axes(node: &Node<'_>, input: Option<&Tensor>) -> Result<Vec<i64>, NodeFault> {
    match (input, node.attribute("axes")) {
        (Some(tensor), _) => Ok(tensor.as_integers().ok_or(NodeFault::Whole { what: "axes" })?.to_vec()),
        (None, Some(Attribute::Integers(axes))) => Ok(axes.clone()),
        _ => Ok(Vec::new()),
    }
}

fn cast(node: &Node<'_>, tensor: &Tensor) -> Result<Tensor, NodeFault> {
    let data = match integer(node, "to", 0) {
        1 | 10 | 11 | 16 => Data::Floats(tensor.floats()),
        2..=7 | 12 | 13 => match &tensor.data {
            Data::Floats(values) => Data::Integers(values.iter().map(|value| *value as i64).collect()),
            integers => integers.clone(),
        },
        9 => Data::Integers(tensor.floats().iter().map(|value| i64::from(*value != 0.0)).collect()),
        data_type => return Err(NodeFault::DataType { data_type }),
    };
    Ok(Tensor { dims: tensor.dims.clone(), data })
}

fn each(tensor: &Tensor, change: impl Fn(f32) -> f32) -> Tensor {
    let changed = tensor.floats().into_iter().map(change);
    let data = match tensor.data {
        Data::Floats(_) => Data::Floats(changed.collect()),
        Data::Integers(_) => Data::Integers(changed.map(|value| value as i64).collect()),
    };
    Tensor { dims: tensor.dims.clone(), data }
}

fn pair(
    left: &Tensor,
    right: &Tensor,
    floats: impl Fn(f32, f32) -> f32,
    integers: impl Fn(i64, i64) -> Option<i64>,
) -> Result<Tensor, NodeFault> {
    let rank = left.dims.len().max(right.dims.len());
    let side =
        |dims: &[usize], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |place| dims[place]);
    let dims: Vec<usize> = (0..rank)
        .map(|axis| match (side(&left.dims, axis), side(&right.dims, axis)) {
            (1, other) => other,
            (own, _) => own,
        })
        .collect();
    let (left, right) = (left.broadcast(&dims)?, right.broadcast(&dims)?);
    let data = match (&left.data, &right.data) {
        (Data::Integers(left), Data::Integers(right)) => {
            let made: Option<Vec<i64>> = left.iter().zip(right).map(|(a, b)| integers(*a, *b)).collect();
            Data::Integers(made.ok_or(NodeFault::Overflow)?)
        }
        _ => Data::Floats(left.floats().into_iter().zip(right.floats()).map(|(a, b)| floats(a, b)).collect()),
    };
    Ok(Tensor { dims, data })
}

fn gather(node: &Node<'_>, tensor: &Tensor, indices: &Tensor) -> Result<Tensor, NodeFault> {
    let along = axis(integer(node, "axis", 0), tensor.dims.len())?;
    let list = indices.as_integers().ok_or(NodeFault::Whole { what: "indices" })?;
    let places: Vec<usize> =
        list.iter().map(|index| axis(*index, tensor.dims[along])).collect::<Result<_, _>>()?;
    let mut taken = tensor.taken(along, &places)?;
    taken.dims.splice(along..=along, indices.dims.iter().copied());
    Ok(taken)
}

fn unsqueeze(tensor: &Tensor, axes: &[i64]) -> Result<Tensor, NodeFault> {
    let rank = tensor.dims.len() + axes.len();
    let mut places: Vec<usize> = axes.iter().map(|place| axis(*place, rank)).collect::<Result<_, _>>()?;
    places.sort_unstable();
    let mut dims = tensor.dims.clone();
    for place in places {
        dims.insert(place.min(dims.len()), 1);
    }
    Ok(Tensor { dims, data: tensor.data.clone() })
}

fn squeeze(tensor: &Tensor, axes: &[i64]) -> Result<Tensor, NodeFault> {
    let rank = tensor.dims.len();
    let places: Vec<usize> = axes.iter().map(|place| axis(*place, rank)).collect::<Result<_, _>>()?;
    let goes = |place: usize, dim: usize| dim == 1 && (places.is_empty() || places.contains(&place));
    let dims =
        tensor.dims.iter().enumerate().filter(|(place, dim)| !goes(*place, **dim)).map(|(_, dim)| *dim);
    Ok(Tensor { dims: dims.collect(), data: tensor.data.clone() })
}

fn reshape(node: &Node<'_>, inputs: &[Option<&Tensor>]) -> Result<Tensor, NodeFault> {
    let Some(Some(tensor)) = inputs.first() else { return Err(NodeFault::Inputs { expected: 1, came: 0 }) };
    let target = match inputs.get(1).copied().flatten() {
        Some(shape) => shape.as_integers().ok_or(NodeFault::Whole { what: "a shape" })?.to_vec(),
        None => {
            let at = integer(node, "axis", 1).rem_euclid(tensor.dims.len() as i64 + 1) as usize;
            vec![count(&tensor.dims[..at])? as i64, -1]
        }
    };
    let dims = resolve(&target, &tensor.dims)?;
    Ok(Tensor { dims, data: tensor.data.clone() })
}

/// The shape that a target with 0 ("as before") and -1 ("what is left") means.
pub(crate) fn resolve(target: &[i64], from: &[usize]) -> Result<Vec<usize>, NodeFault> {
    let fault = || NodeFault::Reshape { from: from.to_vec(), to: target.to_vec() };
    let elements: u64 = from.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim as u64));
    let mut dims = Vec::with_capacity(target.len());
    let mut open = None;
    for (place, side) in target.iter().enumerate() {
        dims.push(match side {
            0 => *from.get(place).ok_or_else(fault)?,
            -1 if open.is_none() => {
                open = Some(place);
                1
            }
            side => usize::try_from(*side).map_err(|_| fault())?,
        });
    }
    let known = dims.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim as u64));
    if let Some(place) = open {
        if known == 0 || !elements.is_multiple_of(known) {
            return Err(fault());
        }
        dims[place] = usize::try_from(elements / known).map_err(|_| fault())?;
    } else if known != elements {
        return Err(fault());
    }
    Ok(dims)
}

/// One axis of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AxisRange {
    pub(crate) axis: usize,
    pub(crate) start: usize,
    pub(crate) count: usize,
    /// Below zero where it goes backwards.
    pub(crate) step: i64,
}

impl AxisRange {
    /// Places count from the end where they are negative, and are moved to where there are any.
    fn new(axis: usize, (start, end, step): (i64, i64, i64), length: i64) -> Result<Self, NodeFault> {
        if step == 0 || step == i64::MIN {
            return Err(NodeFault::Step { step });
        }
        let counted = |place: i64| if place < 0 { place.saturating_add(length) } else { place };
        let (start, distance) = match step {
            1.. => {
                let start = counted(start).clamp(0, length);
                (start, counted(end).clamp(0, length) - start)
            }
            _ => {
                let start = counted(start).clamp(0, length.max(1) - 1);
                (start, start - counted(end).clamp(-1, length.max(1) - 1))
            }
        };
        let count = if length == 0 { 0 } else { (distance.max(0) as u64).div_ceil(step.unsigned_abs()) };
        Ok(Self { axis, start: start as usize, count: count as usize, step })
    }

    /// The places that it takes.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let (start, step) = (self.start as i64, self.step);
        (0..self.count as i64).map(move |index| (start + index * step) as usize)
    }
}

/// What a slice takes of each axis that it names.
pub(crate) fn ranges(inputs: &[Option<&Tensor>], dims: &[usize]) -> Result<Vec<AxisRange>, NodeFault> {
    let list = |index: usize| match inputs.get(index).copied().flatten() {
        None => Ok(None),
        Some(tensor) => {
            tensor.as_integers().map(Some).ok_or(NodeFault::Whole { what: "the places of a slice" })
        }
    };
    let came = inputs.len();
    let (Some(starts), Some(ends)) = (list(1)?, list(2)?) else {
        return Err(NodeFault::Inputs { expected: 3, came });
    };
    let usual: Vec<i64> = (0..starts.len() as i64).collect();
    let ones = vec![1; starts.len()];
    let (axes, steps) = (list(3)?.unwrap_or(&usual), list(4)?.unwrap_or(&ones));
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(NodeFault::Inputs { expected: starts.len(), came: ends.len() });
    }
    let mut ranges = Vec::new();
    for (((start, end), place), step) in starts.iter().zip(ends).zip(axes).zip(steps) {
        let axis = axis(*place, dims.len())?;
        ranges.push(AxisRange::new(axis, (*start, *end, *step), dims[axis] as i64)?);
    }
    Ok(ranges)
}

fn slice(inputs: &[Option<&Tensor>]) -> Result<Tensor, NodeFault> {
    let Some(Some(tensor)) = inputs.first() else { return Err(NodeFault::Inputs { expected: 1, came: 0 }) };
    let mut sliced = (*tensor).clone();
    for range in ranges(inputs, &tensor.dims)? {
        let places: Vec<usize> = range.places().collect();
        sliced = sliced.taken(range.axis, &places)?;
    }
    Ok(sliced)
}

fn expand(tensor: &Tensor, shape: &Tensor) -> Result<Tensor, NodeFault> {
    let shape = shape.as_integers().ok_or(NodeFault::Whole { what: "a shape" })?;
    let rank = tensor.dims.len().max(shape.len());
    let mut dims = vec![1; rank];
    for (place, dim) in (0..rank).rev().zip(tensor.dims.iter().rev()) {
        dims[place] = *dim;
    }
    for (place, side) in (0..rank).rev().zip(shape.iter().rev()) {
        let side = usize::try_from(*side).map_err(|_| NodeFault::Dimension { value: *side })?;
        dims[place] = if dims[place] == 1 { side } else { dims[place] };
    }
    tensor.broadcast(&dims)
}

fn constant_of_shape(node: &Node<'_>, shape: &Tensor) -> Result<Tensor, NodeFault> {
    let sides = shape.as_integers().ok_or(NodeFault::Whole { what: "a shape" })?;
    let dims: Vec<usize> = sides
        .iter()
        .map(|side| usize::try_from(*side).map_err(|_| NodeFault::Dimension { value: *side }))
        .collect::<Result<_, _>>()?;
    let value = match node.attribute("value") {
        Some(Attribute::Tensor(proto)) => Tensor::decode(proto, &crate::external::ExternalFiles::none())?,
        _ => Tensor::scalar(0.0),
    };
    if value.data.len() != 1 {
        return Err(NodeFault::Inputs { expected: 1, came: value.data.len() });
    }
    Tensor { dims: vec![1; dims.len()], data: value.data }.broadcast(&dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_reshapes_are_resolved() {
        assert_eq!(resolve(&[0, -1], &[2, 3, 4]).unwrap(), [2, 12]);
        assert_eq!(resolve(&[-1], &[2, 3]).unwrap(), [6]);
        assert!(resolve(&[4, -1], &[2, 3]).is_err());
        assert!(resolve(&[-1, -1], &[2, 3]).is_err());
        assert!(resolve(&[5], &[2, 3]).is_err());
        assert!(resolve(&[0, 0, 0], &[2, 3]).is_err());
        assert!(resolve(&[i64::MAX, i64::MAX], &[2, 3]).is_err());
        assert!(resolve(&[0, -1], &[0, 3]).is_err());
    }

    #[test]
    fn ranges_are_clamped_to_the_axis() {
        let list = |values: &[i64]| Tensor::integers(values.to_vec());
        let (starts, ends, axes, steps) =
            (list(&[1, -3]), list(&[i64::MAX, -1]), list(&[1, 0]), list(&[2, 1]));
        let inputs = [None, Some(&starts), Some(&ends), Some(&axes), Some(&steps)];
        let found = ranges(&inputs, &[5, 6]).unwrap();
        assert_eq!(found[0], AxisRange { axis: 1, start: 1, count: 3, step: 2 });
        assert_eq!(found[1], AxisRange { axis: 0, start: 2, count: 2, step: 1 });
        let backwards = list(&[-1, -1]);
        let inputs = [None, Some(&starts), Some(&ends), Some(&axes), Some(&backwards)];
        let found = ranges(&inputs, &[5, 6]).unwrap();
        assert_eq!(found[0].count, 0);
        let backwards = AxisRange::new(0, (-1, i64::MIN, -1), 4).unwrap();
        assert_eq!(backwards.places().collect::<Vec<_>>(), [3, 2, 1, 0]);
        assert_eq!(AxisRange::new(0, (5, 0, -2), 6).unwrap().places().collect::<Vec<_>>(), [5, 3, 1]);
        assert_eq!(AxisRange::new(0, (5, 0, -2), 0).unwrap().count, 0);
        assert!(matches!(AxisRange::new(0, (0, 1, 0), 4), Err(NodeFault::Step { step: 0 })));
    }
}
