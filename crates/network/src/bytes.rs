//! Little-endian bytes, read in one place for every format: files, outlines, hellos, stored material.
//!
//! A reader takes from the front and refuses to take more than there is, so that no count from a file or a peer ever
//! reaches beyond the bytes that came.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a file of at most so many bytes. The length that a file claims is not trusted: a device claims none and never ends.
///
/// # Errors
/// When it cannot be read or is longer.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {limit} bytes, too many for its kind"),
        )),
        false => Ok(bytes),
    }
}

/// Bytes that are taken from the front.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a>(&'a [u8]);

/// Fewer bytes are left than were to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{expected} bytes were expected, {came} are left")]
pub struct Truncated {
    /// What was to be taken.
    pub expected: usize,
    /// What was left.
    pub came: usize,
}

impl<'a> ByteReader<'a> {
    /// Begins at the front.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What was not taken yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let truncated = Truncated { expected: count, came: self.0.len() };
        let (taken, rest) = self.0.split_at_checked(count).ok_or(truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next bytes, as many as the type says.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (taken, rest) =
            self.0.split_first_chunk().ok_or(Truncated { expected: N, came: self.0.len() })?;
        self.0 = rest;
        Ok(*taken)
    }

    /// The next byte.
    ///
    /// # Errors
    /// When none is left.
    pub fn byte(&mut self) -> Result<u8, Truncated> {
        Ok(self.array::<1>()?[0])
    }

    /// The next four bytes as a number.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn number(&mut self) -> Result<u32, Truncated> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next eight bytes as a number.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn long_number(&mut self) -> Result<u64, Truncated> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// So many numbers of four bytes.
    ///
    /// # Errors
    /// When fewer are left; nothing is allocated before that is known.
    pub fn numbers(&mut self, count: usize) -> Result<Vec<u32>, Truncated> {
        let bytes = self.take(count.saturating_mul(4))?;
        Ok(bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_the_end() {
        let bytes: Vec<u8> = (1..=15).collect();
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(reader.byte(), Ok(1));
        assert_eq!(reader.number(), Ok(0x0504_0302));
        assert_eq!(reader.long_number(), Ok(0x0d0c_0b0a_0908_0706));
        assert_eq!(reader.array::<3>(), Err(Truncated { expected: 3, came: 2 }));
        assert_eq!(reader.numbers(usize::MAX), Err(Truncated { expected: usize::MAX, came: 2 }));
        assert_eq!(reader.take(2), Ok(&[14, 15][..]));
        assert!(reader.rest().is_empty() && reader.byte().is_err());
    }
}
