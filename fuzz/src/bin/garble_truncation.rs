//! The three messages of a truncation: wrong lengths and padding are refused, anything else comes back as it
//! was.
#![no_main]

use crypto::garble::truncate::{TruncationOffer, TruncationOpening, TruncationReply, TruncationShape};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [width, fraction_bits, output_bits, count, message @ ..] = data else { return };
    let count = usize::from(*count);
    let Ok(shape) = TruncationShape::new((*width).into(), (*fraction_bits).into(), (*output_bits).into())
    else {
        return;
    };
    if let Ok(offer) = TruncationOffer::from_bytes(&shape, count, message) {
        assert_eq!(offer.to_bytes(&shape), message);
    }
    if let Ok(opening) = TruncationOpening::from_bytes(&shape, count, message) {
        assert_eq!(opening.to_bytes(&shape), message);
    }
    if let Ok(reply) = TruncationReply::from_bytes(&shape, count, message) {
        assert_eq!(reply.to_bytes(&shape), message);
    }
});
