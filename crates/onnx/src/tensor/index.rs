//! Reordering of constants: transposes, slices, gathers, concatenations, broadcasts.

use super::{Data, Tensor};
use crate::error::NodeFault;

/// Elements that reordering a constant may make.
const MAX_MADE: usize = 1 << 22;

impl Data {
    /// The elements at these places.
    pub(super) fn pick(&self, places: impl Iterator<Item = usize>) -> Self {
        match self {
            Self::Floats(values) => Self::Floats(places.map(|place| values[place]).collect()),
            Self::Integers(values) => Self::Integers(places.map(|place| values[place]).collect()),
        }
    }
}

/// How many elements a shape has, if they can be made.
pub(super) fn count(dims: &[usize]) -> Result<usize, NodeFault> {
    let product = dims.iter().fold(1_u64, |product, dim| product.saturating_mul(*dim as u64));
    if product > MAX_MADE as u64 {
        return Err(NodeFault::TensorSize { elements: product });
    }
    Ok(product as usize)
}

/// An axis counted from either end.
pub(crate) fn axis(axis: i64, rank: usize) -> Result<usize, NodeFault> {
    let counted = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let counted = counted.and_then(|axis| usize::try_from(axis).ok()).filter(|axis| *axis < rank);
    counted.ok_or(NodeFault::Axis { axis, rank })
}

fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    strides
}

/// The places that a walk over `dims` meets, where a step along an axis moves by that axis's stride.
fn places(dims: &[usize], strides: &[usize], start: usize) -> Vec<usize> {
    let mut places = vec![start];
    for (dim, stride) in dims.iter().zip(strides) {
        places = places.iter().flat_map(|place| (0..*dim).map(move |index| place + index * stride)).collect();
    }
    places
}

impl Tensor {
    pub(super) fn transposed(&self, order: &[i64]) -> Result<Self, NodeFault> {
        let rank = self.dims.len();
        let order: Vec<usize> = order.iter().map(|place| axis(*place, rank)).collect::<Result<_, _>>()?;
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted != (0..rank).collect::<Vec<_>>() {
            return Err(NodeFault::Permutation);
        }
        let own = strides(&self.dims);
        let dims: Vec<usize> = order.iter().map(|place| self.dims[*place]).collect();
        let moves: Vec<usize> = order.iter().map(|place| own[*place]).collect();
        let data = self.data.pick(places(&dims, &moves, 0).into_iter());
        Ok(Self { dims, data })
    }

    /// The tensor with these places of one axis.
    pub(super) fn taken(&self, along: usize, indices: &[usize]) -> Result<Self, NodeFault> {
        let mut dims = self.dims.clone();
        dims[along] = indices.len();
        count(&dims)?;
        let (before, after) = (count(&self.dims[..along])?, count(&self.dims[along + 1..])?);
        let length = self.dims[along];
        let places = (0..before).flat_map(|outer| {
            indices
                .iter()
                .flat_map(move |index| (0..after).map(move |inner| (outer * length + index) * after + inner))
        });
        Ok(Self { data: self.data.pick(places), dims })
    }

    /// The tensor as if its axes of length one were as long as those of another shape.
    pub(super) fn broadcast(&self, dims: &[usize]) -> Result<Self, NodeFault> {
        let fault = || NodeFault::Broadcast { from: self.dims.clone(), to: dims.to_vec() };
        let missing = dims.len().checked_sub(self.dims.len()).ok_or_else(fault)?;
        count(dims)?;
        let mut moves = vec![0; missing];
        for ((own, stride), wanted) in self.dims.iter().zip(strides(&self.dims)).zip(&dims[missing..]) {
            match (*own, *wanted) {
                (own, wanted) if own == wanted => moves.push(stride),
                (1, _) => moves.push(0),
                _ => return Err(fault()),
            }
        }
        let data = self.data.pick(places(dims, &moves, 0).into_iter());
        Ok(Self { dims: dims.to_vec(), data })
    }

    pub(super) fn concatenated(parts: &[&Self], along: i64) -> Result<Self, NodeFault> {
        let Some(first) = parts.first() else { return Err(NodeFault::Inputs { expected: 1, came: 0 }) };
        let along = axis(along, first.dims.len())?;
        let mut dims = first.dims.clone();
        dims[along] = 0;
        for part in parts {
            let fits = part.dims.len() == dims.len()
                && (0..dims.len()).all(|axis| axis == along || part.dims[axis] == dims[axis]);
            if !fits {
                return Err(NodeFault::Broadcast { from: part.dims.clone(), to: first.dims.clone() });
            }
            dims[along] += part.dims[along];
        }
        let outer = count(&dims[..along])?;
        count(&dims)?;
        let runs: Vec<usize> =
            parts.iter().map(|part| part.data.len().checked_div(outer).unwrap_or(0)).collect();
        let all_integers = parts.iter().all(|part| matches!(part.data, Data::Integers(_)));
        let places = |index: usize, part: usize| index * runs[part]..(index + 1) * runs[part];
        let data = if all_integers {
            let integers: Vec<&[i64]> = parts.iter().filter_map(|part| part.as_integers()).collect();
            let piece = |(index, part): (usize, usize)| integers[part][places(index, part)].to_vec();
            Data::Integers(
                (0..outer)
                    .flat_map(|index| (0..parts.len()).map(move |part| (index, part)))
                    .flat_map(piece)
                    .collect(),
            )
        } else {
            let floats: Vec<Vec<f32>> = parts.iter().map(|part| part.floats()).collect();
            let piece = |(index, part): (usize, usize)| floats[part][places(index, part)].to_vec();
            Data::Floats(
                (0..outer)
                    .flat_map(|index| (0..parts.len()).map(move |part| (index, part)))
                    .flat_map(piece)
                    .collect(),
            )
        };
        Ok(Self { dims, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(dims: &[usize]) -> Tensor {
        let count: usize = dims.iter().product();
        Tensor { dims: dims.to_vec(), data: Data::Integers((0..count as i64).collect()) }
    }

    #[test]
    fn axes_trade_places() {
        let turned = counting(&[2, 3]).transposed(&[1, 0]).unwrap();
        assert_eq!(turned.dims, [3, 2]);
        assert_eq!(turned.as_integers().unwrap(), [0, 3, 1, 4, 2, 5]);
        assert!(counting(&[2, 3]).transposed(&[1, 1]).is_err());
        assert!(counting(&[2, 3]).transposed(&[0, 2]).is_err());
    }

    #[test]
    fn parts_are_taken_joined_and_repeated() {
        let tensor = counting(&[2, 3]);
        assert_eq!(tensor.taken(1, &[2, 0]).unwrap().as_integers().unwrap(), [2, 0, 5, 3]);
        let joined = Tensor::concatenated(&[&tensor, &tensor.taken(1, &[1]).unwrap()], -1).unwrap();
        assert_eq!(joined.dims, [2, 4]);
        assert_eq!(joined.as_integers().unwrap(), [0, 1, 2, 1, 3, 4, 5, 4]);
        let repeated = counting(&[3, 1]).broadcast(&[2, 3, 2]).unwrap();
        assert_eq!(repeated.as_integers().unwrap(), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert!(counting(&[3]).broadcast(&[2]).is_err());
        assert!(counting(&[1]).broadcast(&[1 << 40]).is_err());
        assert!(Tensor::concatenated(&[&tensor, &counting(&[3, 3])], 1).is_err());
    }
}
