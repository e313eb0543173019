//! Sections of values, each packed at a width of its own: the messages and the stored form of truncations and gates.

use super::bits::{append_packed, packed_length, unpack};
use super::error::{GarbleError, Message, check_length};
use crate::secret::Secret;

/// Values and the bits that each of them takes.
pub(super) type Section<'a> = (&'a [u64], u32);

/// Bytes of sections of so many values of so many bits, every section from a whole byte on.
pub(super) fn sections_length(sections: impl IntoIterator<Item = (usize, u32)>) -> usize {
    sections.into_iter().map(|(count, width)| packed_length(count, width)).sum()
}

/// Appends sections to a message; one of width zero is left out.
pub(super) fn append_sections<'a>(bytes: &mut Vec<u8>, sections: impl IntoIterator<Item = Section<'a>>) {
    for (values, width) in sections {
        append_packed(bytes, values, width);
    }
}

/// Sections to store.
pub(super) fn pack_sections<'a>(
    sections: impl IntoIterator<Item = Section<'a>, IntoIter: Clone>,
) -> Secret<Vec<u8>> {
    let sections = sections.into_iter();
    let length = sections_length(sections.clone().map(|(values, width)| (values.len(), width)));
    // Its room is made once, so that no unwiped copy stays behind.
    let mut bytes = Secret::new(Vec::with_capacity(length));
    append_sections(bytes.expose_mut(), sections);
    bytes
}

/// Reads back sections of so many values of so many bits each.
pub(super) fn unpack_sections(
    message: Message,
    bytes: &[u8],
    sections: impl IntoIterator<Item = (usize, u32), IntoIter: Clone>,
) -> Result<Vec<Secret<Vec<u64>>>, GarbleError> {
    let sections = sections.into_iter();
    check_length(message, sections_length(sections.clone()), bytes.len())?;
    let mut rest = bytes;
    let mut read = |(count, width)| {
        let (own, others) = rest.split_at(packed_length(count, width));
        rest = others;
        let values = if width > 0 { unpack(message, own, count, width)? } else { Vec::new() };
        Ok(Secret::new(values))
    };
    sections.map(&mut read).collect()
}
