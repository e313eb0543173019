//! Constants: weights as `f32`, shapes and axes as `i64`.

mod fold;
mod index;

use half::{bf16, f16};

use crate::error::NodeFault;
use crate::external::ExternalFiles;
use crate::proto::TensorProto;

pub(crate) use fold::{AxisRange, axes, fold, integer, ranges, resolve};
pub(crate) use index::axis;

/// Numbers of one tensor: more than this are no network's.
const MAX_ELEMENTS: usize = 1 << 30;
/// Integers of one tensor.
const MAX_INTEGERS: usize = 1 << 24;
const MAX_RANK: usize = 16;

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub(crate) dims: Vec<usize>,
    pub(crate) data: Data,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

impl Data {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Integers(values) => values.len(),
        }
    }
}

impl Tensor {
    /// A list of integers.
    pub(crate) fn integers(values: Vec<i64>) -> Self {
        Self { dims: vec![values.len()], data: Data::Integers(values) }
    }

    /// One number.
    pub(crate) fn scalar(value: f32) -> Self {
        Self { dims: Vec::new(), data: Data::Floats(vec![value]) }
    }

    /// The numbers as floats.
    pub(crate) fn floats(&self) -> Vec<f32> {
        match &self.data {
            Data::Floats(values) => values.clone(),
            Data::Integers(values) => values.iter().map(|value| *value as f32).collect(),
        }
    }

    /// The numbers as integers; nothing where they are not.
    pub(crate) fn as_integers(&self) -> Option<&[i64]> {
        match &self.data {
            Data::Integers(values) => Some(values),
            Data::Floats(_) => None,
        }
    }

    /// The only number there is.
    pub(crate) fn single(&self) -> Option<f32> {
        match &self.data {
            Data::Floats(values) => <[f32; 1]>::try_from(values.as_slice()).ok().map(|[value]| value),
            Data::Integers(values) => match values.as_slice() {
                [value] => Some(*value as f32),
                _ => None,
            },
        }
    }

    /// Decodes a tensor as it is written in the file, or beside it.
    pub(crate) fn decode(proto: &TensorProto<'_>, files: &ExternalFiles) -> Result<Self, NodeFault> {
        let (dims, count) = shape(&proto.dims)?;
        let kind = Kind::of(proto.data_type)?;
        let external;
        let raw = match (proto.is_external, proto.raw) {
            (true, _) => {
                let expected = count * kind.bytes();
                external = files.read(&proto.external, expected)?;
                Some(external.as_slice())
            }
            (false, raw) => raw,
        };
        let data = match raw {
            Some(raw) => kind.decode(raw),
            None => kind.listed(&proto.floats, &proto.integers),
        };
        let came = data.len();
        if came != count || raw.is_some_and(|raw| raw.len() != count * kind.bytes()) {
            return Err(NodeFault::TensorLength { name: proto.name.to_owned(), expected: count, came });
        }
        if matches!(data, Data::Integers(_)) && count > MAX_INTEGERS {
            return Err(NodeFault::TensorSize { elements: count as u64 });
        }
        Ok(Self { dims, data })
    }
}

/// Dimensions that can be multiplied, and their product.
fn shape(dims: &[i64]) -> Result<(Vec<usize>, usize), NodeFault> {
    if dims.len() > MAX_RANK {
        return Err(NodeFault::Rank { rank: dims.len() });
    }
    let mut count = 1_u64;
    let mut sides = Vec::with_capacity(dims.len());
    for dim in dims {
        let side = u64::try_from(*dim).map_err(|_| NodeFault::Dimension { value: *dim })?;
        count = count.saturating_mul(side);
        sides.push(usize::try_from(side).map_err(|_| NodeFault::Dimension { value: *dim })?);
    }
    if count > MAX_ELEMENTS as u64 {
        return Err(NodeFault::TensorSize { elements: count });
    }
    Ok((sides, count as usize))
}

/// How the numbers of a tensor are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Float,
    Half,
    Brain,
    Double,
    /// Whole numbers of so many bytes.
    Signed(usize),
    Unsigned(usize),
}

impl Kind {
    fn of(data_type: i64) -> Result<Self, NodeFault> {
        match data_type {
            1 => Ok(Self::Float),
            2 | 9 => Ok(Self::Unsigned(1)),
            3 => Ok(Self::Signed(1)),
            4 => Ok(Self::Unsigned(2)),
            5 => Ok(Self::Signed(2)),
            6 => Ok(Self::Signed(4)),
            7 => Ok(Self::Signed(8)),
            10 => Ok(Self::Half),
            11 => Ok(Self::Double),
            12 => Ok(Self::Unsigned(4)),
            13 => Ok(Self::Unsigned(8)),
            16 => Ok(Self::Brain),
            data_type => Err(NodeFault::DataType { data_type }),
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Half | Self::Brain => 2,
            Self::Float => 4,
            Self::Double => 8,
            Self::Signed(bytes) | Self::Unsigned(bytes) => bytes,
        }
    }

    /// Numbers as they lie in memory, little-endian; what is left over at the end is no number.
    fn decode(self, raw: &[u8]) -> Data {
        match self {
            Self::Float => {
                Data::Floats(raw.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
            }
            Self::Half => Data::Floats(
                raw.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect(),
            ),
            Self::Brain => Data::Floats(
                raw.as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes).to_f32()).collect(),
            ),
            Self::Double => Data::Floats(
                raw.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect(),
            ),
            Self::Signed(size) => {
                Data::Integers(raw.chunks_exact(size).map(|bytes| whole(bytes, true)).collect())
            }
            Self::Unsigned(size) => {
                Data::Integers(raw.chunks_exact(size).map(|bytes| whole(bytes, false)).collect())
            }
        }
    }

    /// Numbers in the typed lists of the file; half-precision ones are the bits of integers there.
    fn listed(self, floats: &[f32], integers: &[i64]) -> Data {
        match self {
            Self::Float | Self::Double => Data::Floats(floats.to_vec()),
            Self::Half => {
                Data::Floats(integers.iter().map(|bits| f16::from_bits(*bits as u16).to_f32()).collect())
            }
            Self::Brain => {
                Data::Floats(integers.iter().map(|bits| bf16::from_bits(*bits as u16).to_f32()).collect())
            }
            Self::Signed(_) | Self::Unsigned(_) => Data::Integers(integers.to_vec()),
        }
    }
}

/// A whole number of up to eight bytes, little-endian.
fn whole(bytes: &[u8], is_signed: bool) -> i64 {
    let is_negative = is_signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
    let mut filled = [if is_negative { 0xff } else { 0 }; 8];
    filled[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proto(dims: &[i64], data_type: i64, raw: &'static [u8]) -> TensorProto<'static> {
        TensorProto { dims: dims.to_vec(), data_type, raw: Some(raw), ..TensorProto::default() }
    }

    fn decoded(proto: &TensorProto<'_>) -> Result<Tensor, NodeFault> {
        Tensor::decode(proto, &ExternalFiles::none())
    }

    #[test]
    fn numbers_of_all_kinds_are_read() {
        let half = decoded(&proto(&[2], 10, &[0x00, 0x3c, 0x00, 0xc0])).unwrap();
        assert_eq!(half.floats(), [1.0, -2.0]);
        let brain = decoded(&proto(&[1], 16, &[0x80, 0x3f])).unwrap();
        assert_eq!(brain.floats(), [1.0]);
        let bytes = decoded(&proto(&[2], 3, &[0xff, 0x01])).unwrap();
        assert_eq!(bytes.as_integers(), Some(&[-1, 1][..]));
        let words = decoded(&proto(&[1], 4, &[0xff, 0xff])).unwrap();
        assert_eq!(words.as_integers(), Some(&[65_535][..]));
        let listed = TensorProto {
            dims: vec![2],
            data_type: 10,
            integers: vec![0x3c00, 0xc000],
            ..TensorProto::default()
        };
        assert_eq!(decoded(&listed).unwrap().floats(), [1.0, -2.0]);
        let empty = decoded(&TensorProto { dims: vec![0], data_type: 7, ..TensorProto::default() }).unwrap();
        assert_eq!(empty.as_integers(), Some(&[][..]));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let refusal = |dims: &[i64], data_type| decoded(&proto(dims, data_type, &[0; 8])).unwrap_err();
        assert!(matches!(refusal(&[3], 1), NodeFault::TensorLength { expected: 3, came: 2, .. }));
        assert!(matches!(refusal(&[-1], 1), NodeFault::Dimension { value: -1 }));
        assert!(matches!(refusal(&[1 << 40, 1 << 40], 1), NodeFault::TensorSize { .. }));
        assert!(matches!(refusal(&[2], 8), NodeFault::DataType { data_type: 8 }));
        assert!(matches!(refusal(&[1; 17], 1), NodeFault::Rank { rank: 17 }));
        assert!(matches!(decoded(&proto(&[2], 1, &[0; 9])), Err(NodeFault::TensorLength { .. })));
    }
}
