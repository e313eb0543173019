//! Frames of WebSockets (RFC 6455, section 5.2): payloads of any length pass in pieces, so no count of a peer's reserves
//! memory.

use std::io::{self, Read, Write};

/// What passes at once.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// The longest payload of a frame that is about the connection itself.
const MAX_CONTROL_BYTES: u64 = 125;

/// What a browser said, as far as it is not payload.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// The payload of a frame went where it should.
    Passed,
    /// It wants to hear this again.
    Ping(Vec<u8>),
    /// It will say no more.
    Close,
}

/// Reads one frame of a browser; payload of binary frames goes to `payload`.
///
/// # Errors
/// When the stream ends, the frame is malformed, or the payload is not taken.
pub(super) fn read(browser: &mut impl Read, payload: &mut impl Write, buffer: &mut [u8]) -> io::Result<Word> {
    let [first, second] = bytes(browser)?;
    let (opcode, has_reserved, is_masked) = (first & 0x0f, first & 0x70 != 0, second & 0x80 != 0);
    if has_reserved || !is_masked {
        return Err(malformed());
    }
    let length = match second & 0x7f {
        126 => u64::from(u16::from_be_bytes(bytes(browser)?)),
        127 => u64::from_be_bytes(bytes(browser)?),
        short => u64::from(short),
    };
    let mask = bytes(browser)?;
    match opcode {
        // Continued or whole: a stream of bytes has no messages.
        0 | 2 => pass(browser, payload, buffer, length, mask).map(|()| Word::Passed),
        8 | 9 if length <= MAX_CONTROL_BYTES => {
            let mut said = Vec::new();
            pass(browser, &mut said, buffer, length, mask)?;
            Ok(if opcode == 9 { Word::Ping(said) } else { Word::Close })
        }
        10 if length <= MAX_CONTROL_BYTES => {
            pass(browser, &mut io::sink(), buffer, length, mask).map(|()| Word::Passed)
        }
        _ => Err(malformed()),
    }
}

fn pass(
    browser: &mut impl Read,
    payload: &mut impl Write,
    buffer: &mut [u8],
    length: u64,
    mask: [u8; 4],
) -> io::Result<()> {
    let mut left = length;
    while left > 0 {
        // Pieces are as long as the buffer, whose length four divides: the mask begins anew with each.
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let piece = &mut buffer[..most];
        browser.read_exact(piece)?;
        piece.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        payload.write_all(piece)?;
        left -= most as u64;
    }
    Ok(())
}

fn bytes<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a malformed WebSocket frame")
}

/// The head of a server's frame with so many bytes of payload.
pub(super) fn binary_head(length: usize) -> Vec<u8> {
    head(2, length)
}

/// The whole frame that answers a ping.
pub(super) fn pong(payload: &[u8]) -> Vec<u8> {
    let mut frame = head(10, payload.len());
    frame.extend_from_slice(payload);
    frame
}

/// The whole frame that says goodbye.
pub(super) fn close() -> Vec<u8> {
    let mut frame = head(8, 2);
    frame.extend_from_slice(&1000_u16.to_be_bytes());
    frame
}

fn head(opcode: u8, length: usize) -> Vec<u8> {
    let mut head = vec![0x80 | opcode];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => head.push(short),
        (_, Ok(middle)) => {
            head.push(126);
            head.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            head.push(127);
            head.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = head(first & 0x0f, payload.len());
        frame[0] = first;
        frame[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    fn heard(frames: &[u8]) -> (io::Result<Word>, Vec<u8>) {
        let (mut payload, mut buffer) = (Vec::new(), vec![0; 64]);
        let word = read(&mut &*frames, &mut payload, &mut buffer);
        (word, payload)
    }

    #[test]
    fn payloads_of_every_length_arrive_unmasked() {
        for length in [0, 1, 63, 64, 65, 125, 126, 127, 65_535, 65_536, 100_000] {
            let sent: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            let (word, payload) = heard(&masked(0x82, &sent));
            assert_eq!(word.unwrap(), Word::Passed);
            assert!(payload == sent, "{length}");
        }
    }

    /// RFC 6455, section 5.7.
    #[test]
    fn published_frames_are_read_and_written() {
        let ping = [0x89, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        assert_eq!(heard(&ping).0.unwrap(), Word::Ping(b"Hello".to_vec()));
        assert_eq!(pong(b"Hello"), [0x8a, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
        assert_eq!(binary_head(256), [0x82, 0x7e, 0x01, 0x00]);
        assert_eq!(binary_head(65_536), [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(heard(&masked(0x88, &close()[2..])).0.unwrap(), Word::Close);
    }

    #[test]
    fn text_reserved_bits_unmasked_and_cut_frames_are_refused() {
        let refused = |frame: &[u8]| assert!(heard(frame).0.is_err(), "{frame:?}");
        refused(&masked(0x81, b"text"));
        refused(&masked(0xc2, b"compressed"));
        refused(&masked(0x83, b"unknown"));
        refused(&masked(0x89, &[0; 126]));
        refused(&[0x82, 0x01, 0x00]);
        let whole = masked(0x82, &[7; 200]);
        (0..whole.len()).for_each(|length| refused(&whole[..length]));
    }
}
