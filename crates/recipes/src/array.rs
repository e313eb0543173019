//! Numbers with a shape, as checkpoints hold them: no tensor library needed to read or write one.

/// What the bytes of an [`Array`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArrayKind {
    /// 32-bit floats.
    F32,
    /// 64-bit signed integers.
    I64,
    /// Bytes.
    U8,
}

impl ArrayKind {
    /// Bytes of one number.
    pub const fn width(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::I64 => 8,
            Self::U8 => 1,
        }
    }
}

/// Numbers with a shape, little-endian, the last dimension running fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// The dimensions; none for a single number.
    pub shape: Vec<usize>,
    /// What the bytes are.
    pub kind: ArrayKind,
    /// As many as shape and kind ask for.
    pub bytes: Vec<u8>,
}

impl Array {
    /// An array whose bytes fit its shape; nothing otherwise.
    pub fn new(shape: Vec<usize>, kind: ArrayKind, bytes: Vec<u8>) -> Option<Self> {
        let expected = shape.iter().try_fold(kind.width(), |size, side| size.checked_mul(*side))?;
        (expected == bytes.len()).then_some(Self { shape, kind, bytes })
    }

    /// Floats with a shape.
    ///
    /// # Panics
    /// If there are more or fewer than the shape asks for.
    pub fn from_floats(shape: &[usize], values: &[f32]) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len(), "the shape fits the numbers");
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { shape: shape.to_vec(), kind: ArrayKind::F32, bytes }
    }

    /// One integer.
    pub fn from_integer(value: i64) -> Self {
        Self { shape: Vec::new(), kind: ArrayKind::I64, bytes: value.to_le_bytes().to_vec() }
    }

    /// The floats; nothing where there are none.
    pub fn floats(&self) -> Option<Vec<f32>> {
        let float = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        (self.kind == ArrayKind::F32).then(|| self.bytes.chunks_exact(4).map(float).collect())
    }

    /// The integer; nothing where there is none, or more than one.
    pub fn integer(&self) -> Option<i64> {
        let bytes = self.bytes.as_slice().try_into().ok()?;
        (self.kind == ArrayKind::I64).then_some(i64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_do_not_fit_the_shape_are_refused() {
        assert!(Array::new(vec![2, 3], ArrayKind::F32, vec![0; 24]).is_some());
        assert!(Array::new(vec![2, 3], ArrayKind::F32, vec![0; 23]).is_none());
        assert!(Array::new(vec![usize::MAX, 3], ArrayKind::I64, vec![0; 24]).is_none());
    }

    #[test]
    fn numbers_come_back_as_they_went_in() {
        let array = Array::from_floats(&[2], &[1.5, -0.0]);
        assert_eq!(array.floats().unwrap(), [1.5, -0.0]);
        assert_eq!(array.integer(), None);
        assert_eq!(Array::from_integer(-7).integer(), Some(-7));
        assert_eq!(Array::from_integer(-7).floats(), None);
    }
}
