//! Frames of a WebSocket: refused, or payload that does not depend on the pieces in which it passed, and is no longer than
//! what came.
#![no_main]

#[path = "../../../crates/service/src/web/frames.rs"]
#[allow(dead_code, reason = "the frames that browsers send are of interest, not those for them")]
mod frames;

use std::io;

use frames::Word;
use libfuzzer_sys::fuzz_target;

fn heard(mut bytes: &[u8], piece: usize) -> (Vec<Word>, Vec<u8>, io::ErrorKind) {
    let (mut words, mut payload, mut buffer) = (Vec::new(), Vec::new(), vec![0; piece]);
    loop {
        match frames::read(&mut bytes, &mut payload, &mut buffer) {
            Ok(word) => words.push(word),
            Err(error) => return (words, payload, error.kind()),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (words, payload, end) = heard(bytes, 4);
    assert!(payload.len() + 6 * words.len() <= bytes.len());
    let (same_words, same_payload, same_end) = heard(bytes, frames::PIECE_BYTES);
    assert_eq!((&words, end), (&same_words, same_end));
    // A frame that was cut has passed its whole pieces on.
    assert!(payload.starts_with(&same_payload));
});
