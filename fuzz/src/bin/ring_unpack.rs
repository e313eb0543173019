//! Packed ring values from the peer: whatever is accepted has exactly one packed form, the one that came.
#![no_main]

use crypto::ring::{RingVector, RingWidth};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((header, bytes)) = data.split_first_chunk::<3>() else { return };
    let Ok(width) = RingWidth::new(u32::from(header[0] % 66)) else { return };
    let fitting = bytes.len() * 8 / width.bits() as usize;
    let claimed = usize::from(u16::from_le_bytes([header[1], header[2]]));
    // A count that fits the bytes, one from the input, and one that no memory could hold.
    for count in [fitting, claimed, usize::MAX - claimed] {
        if let Ok(values) = RingVector::from_bytes(width, count, bytes) {
            assert_eq!(values.len(), count);
            assert!(values.iter().all(|value| value <= width.mask()));
            assert_eq!(values.to_bytes(), bytes);
        }
    }
});
