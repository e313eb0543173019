//! BLAKE3 digests as values and as hexadecimal digits.

use std::fmt;
use std::str::FromStr;

/// The BLAKE3 digest of something public. Two are compared in the open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// How many bytes it has.
    pub const BYTES: usize = 32;

    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, HexError> {
        from_hex(text).map(Self)
    }
}

/// Text that is no number of bytes in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{came:?} is not made of {digits} hexadecimal digits")]
pub struct HexError {
    /// How many are needed.
    pub digits: usize,
    /// What came.
    pub came: String,
}

/// Bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

/// Hexadecimal digits of either case as bytes.
///
/// # Errors
/// When there are more or fewer digits, or other characters.
pub fn from_hex<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
    let mut bytes = [0; N];
    match base16ct::mixed::decode(text, &mut bytes) {
        Ok(decoded) if decoded.len() == N => Ok(bytes),
        _ => Err(HexError { digits: 2 * N, came: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_read_back_and_anything_else_is_refused() {
        let digest = Digest::of(b"outline");
        let text = digest.to_string();
        assert_eq!(text.len(), 64);
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(text.to_uppercase().parse(), Ok(digest));
        for other in ["", &text[..63], &text[..62], &format!("{text}00"), &text.replace(&text[..1], "g"), "é"]
        {
            let error = other.parse::<Digest>().unwrap_err();
            assert!(error.to_string().contains("64 hexadecimal digits"), "{error}");
        }
    }
}
