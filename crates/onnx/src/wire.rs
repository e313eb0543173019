//! The wire format of protobuf: a message is a list of numbered fields.
//!
//! Each field begins with a varint, `number * 8 + kind`. Kinds 0, 1, 2 and 5 are a varint, eight bytes, a length and so many
//! bytes, and four bytes; nothing else occurs in ONNX. Nothing is copied and nothing recursed into: whoever wants the fields
//! of a nested message makes a [`Message`] of its bytes.

/// The fields of one message, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    rest: &'a [u8],
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Field<'a> {
    Number(u64),
    Eight([u8; 8]),
    Bytes(&'a [u8]),
    Four([u8; 4]),
}

impl<'a> Message<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for (index, byte) in self.rest.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return Err(WireError::Varint);
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
            if index == 9 {
                return Err(WireError::Varint);
            }
        }
        Err(WireError::Cut)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| WireError::Cut)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Cut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Cut)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn field(&mut self) -> Result<(u64, Field<'a>), WireError> {
        let key = self.varint()?;
        let (number, kind) = (key >> 3, key & 7);
        if number == 0 {
            return Err(WireError::Number);
        }
        let field = match kind {
            0 => Field::Number(self.varint()?),
            1 => Field::Eight(self.array()?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Four(self.array()?),
            kind => return Err(WireError::Kind { kind }),
        };
        Ok((number, field))
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = Result<(u64, Field<'a>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Field<'a> {
    pub(crate) fn bytes(self, what: &'static str) -> Result<&'a [u8], WireError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(WireError::Type { what }),
        }
    }

    pub(crate) fn text(self, what: &'static str) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes(what)?).map_err(|_| WireError::Text { what })
    }

    /// Negative numbers are written as 64-bit two's complement.
    pub(crate) fn integer(self, what: &'static str) -> Result<i64, WireError> {
        match self {
            Self::Number(number) => Ok(number.cast_signed()),
            _ => Err(WireError::Type { what }),
        }
    }

    pub(crate) fn float(self, what: &'static str) -> Result<f32, WireError> {
        match self {
            Self::Four(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(WireError::Type { what }),
        }
    }

    /// Adds the integers of a repeated field, which come one by one or packed; more than the limit are refused.
    pub(crate) fn integers(
        self,
        what: &'static str,
        limit: usize,
        into: &mut Vec<i64>,
    ) -> Result<(), WireError> {
        match self {
            Self::Number(number) => into.push(number.cast_signed()),
            Self::Bytes(bytes) => {
                let mut message = Message::new(bytes);
                while !message.rest.is_empty() {
                    if into.len() > limit {
                        return Err(WireError::Many { what, limit });
                    }
                    into.push(message.varint()?.cast_signed());
                }
            }
            _ => return Err(WireError::Type { what }),
        }
        if into.len() > limit { Err(WireError::Many { what, limit }) } else { Ok(()) }
    }

    /// Adds the numbers of a repeated field of four bytes each, packed or not.
    pub(crate) fn floats(self, what: &'static str, into: &mut Vec<f32>) -> Result<(), WireError> {
        match self {
            Self::Four(bytes) => into.push(f32::from_le_bytes(bytes)),
            Self::Bytes(bytes) => {
                let (chunks, []) = bytes.as_chunks::<4>() else { return Err(WireError::Type { what }) };
                into.extend(chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)));
            }
            _ => return Err(WireError::Type { what }),
        }
        Ok(())
    }

    /// The same of eight bytes each.
    pub(crate) fn doubles(self, what: &'static str, into: &mut Vec<f32>) -> Result<(), WireError> {
        match self {
            Self::Eight(bytes) => into.push(f64::from_le_bytes(bytes) as f32),
            Self::Bytes(bytes) => {
                let (chunks, []) = bytes.as_chunks::<8>() else { return Err(WireError::Type { what }) };
                into.extend(chunks.iter().map(|chunk| f64::from_le_bytes(*chunk) as f32));
            }
            _ => return Err(WireError::Type { what }),
        }
        Ok(())
    }
}

/// Bytes that are no protobuf, or other protobuf than ONNX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end inside a field.
    #[error("the file ends inside a field; it was cut, or is no ONNX file")]
    Cut,
    /// A number of more than 64 bits.
    #[error("a number has more than 64 bits; this is no ONNX file")]
    Varint,
    /// Field 0.
    #[error("a field has the number 0; this is no ONNX file")]
    Number,
    /// A kind of field that ONNX does not have.
    #[error("a field is of kind {kind}; this is no ONNX file")]
    Kind {
        /// Which.
        kind: u64,
    },
    /// A field of another kind than ONNX says.
    #[error("{what} has another type than ONNX gives it; this is no ONNX file")]
    Type {
        /// Which field.
        what: &'static str,
    },
    /// Text that is no UTF-8.
    #[error("{what} is no UTF-8 text")]
    Text {
        /// Which field.
        what: &'static str,
    },
    /// More of something than any network has.
    #[error("there are more than {limit} {what}")]
    Many {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// No graph.
    #[error("there is no graph in it; expected an ONNX model")]
    NoGraph,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>, WireError> {
        Message::new(bytes).collect()
    }

    #[test]
    fn every_kind_of_field_is_read() {
        let bytes =
            [&[0x08, 0x96, 0x01, 0x12, 2, b'a', b'b', 0x1d][..], &[0, 0, 0x80, 0x3f, 0x21], &[7; 8]].concat();
        let read = fields(&bytes).unwrap();
        assert_eq!(read[0], (1, Field::Number(150)));
        assert_eq!(read[1].1.text("name"), Ok("ab"));
        assert_eq!(read[2].1.float("x"), Ok(1.0));
        assert_eq!(read[3], (4, Field::Eight([7; 8])));
    }

    #[test]
    fn negative_numbers_take_ten_bytes() {
        let bytes = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(fields(&bytes).unwrap()[0].1.integer("x"), Ok(-1));
        let beyond = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(fields(&beyond), Err(WireError::Varint));
        assert_eq!(
            fields(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(WireError::Varint)
        );
    }

    #[test]
    fn damage_is_refused() {
        assert_eq!(fields(&[0x08]), Err(WireError::Cut));
        assert_eq!(fields(&[0x12, 5, 1]), Err(WireError::Cut));
        assert_eq!(fields(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(WireError::Cut));
        assert_eq!(fields(&[0x00, 1]), Err(WireError::Number));
        assert_eq!(fields(&[0x0b]), Err(WireError::Kind { kind: 3 }));
        assert_eq!(Field::Number(1).bytes("name"), Err(WireError::Type { what: "name" }));
        assert_eq!(Field::Bytes(&[0xff]).text("name"), Err(WireError::Text { what: "name" }));
        assert_eq!(
            Field::Bytes(&[1; 7]).floats("weights", &mut Vec::new()),
            Err(WireError::Type { what: "weights" })
        );
    }

    #[test]
    fn lists_come_packed_or_one_by_one_and_have_limits() {
        let mut list = Vec::new();
        Field::Bytes(&[1, 2, 0x80, 1]).integers("axes", 4, &mut list).unwrap();
        Field::Number(9).integers("axes", 4, &mut list).unwrap();
        assert_eq!(list, [1, 2, 128, 9]);
        let many = Err(WireError::Many { what: "axes", limit: 4 });
        assert_eq!(Field::Number(9).integers("axes", 4, &mut list), many);
        assert_eq!(Field::Bytes(&[1; 1000]).integers("axes", 4, &mut Vec::new()), many);
    }
}
