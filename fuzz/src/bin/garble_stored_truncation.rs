//! Truncations read back from storage, of either party: wrong lengths and padding are refused without a panic.
#![no_main]

use crypto::garble::truncate::{OfferedTruncation, PreparedTruncation, TruncationShape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [count, stored @ ..] = data else { return };
    let count = usize::from(*count);
    let shape = TruncationShape::new(9, 3, 9).expect("a valid shape");
    if let Ok(offered) = OfferedTruncation::from_bytes(&shape, count, stored) {
        assert_eq!(offered.into_bytes().expose(), stored);
    }
    if let Ok(prepared) = PreparedTruncation::from_bytes(&shape, count, stored) {
        assert_eq!(prepared.into_bytes().expose(), stored);
    }
});
