//! What left for the server inside the channel, kept for a page that shows it: the server's view of a picture, as it really
//! was sent.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use inference::connection::frame::{FrameKind, HEADER_BYTES, Header};

/// A stream whose outgoing bytes somebody may listen to.
pub struct Overheard<S> {
    stream: S,
    ear: Ear,
}

impl<S> Overheard<S> {
    /// Around a stream; the ear hears what is written from when it listens.
    pub fn new(stream: S) -> (Self, Ear) {
        let ear = Ear::default();
        (Self { stream, ear: ear.clone() }, ear)
    }
}

impl<S: Read> Read for Overheard<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl<S: Write> Write for Overheard<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.stream.write(bytes)?;
        self.ear.hear(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Keeps the first bytes after it began to listen.
#[derive(Clone, Default)]
pub struct Ear(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    bytes: Vec<u8>,
    most: usize,
}

impl Ear {
    /// Forgets what it heard, and keeps so many bytes from here on.
    pub fn listen(&self, most: usize) {
        *self.lock() = Heard { bytes: Vec::new(), most };
    }

    /// The body of the first whole frame with values since then: the picture as the server gets it. Listens no more.
    pub fn values(&self) -> Option<Vec<u8>> {
        let heard = std::mem::take(&mut *self.lock());
        let mut rest = heard.bytes.as_slice();
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let (kind, length) = Header::kind_and_length(header);
            let (body, next) = after.split_at_checked(usize::try_from(length).ok()?)?;
            if kind == FrameKind::Values as u8 {
                return Some(body.to_vec());
            }
            rest = next;
        }
        None
    }

    fn hear(&self, bytes: &[u8]) {
        let mut heard = self.lock();
        let room = heard.most - heard.bytes.len();
        heard.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inference::connection::Role;
    use inference::connection::frame::{MAGIC, PROTOCOL_VERSION};

    fn frame(kind: FrameKind, body: &[u8]) -> Vec<u8> {
        let header = Header {
            session: MAGIC,
            inference: [0; 8],
            step: 0,
            sender: Role::Client,
            kind,
            version: PROTOCOL_VERSION,
            length: body.len() as u64,
        };
        [&header.to_bytes(), body].concat()
    }

    #[test]
    fn the_first_values_after_listening_are_kept_and_nothing_else() {
        let (mut stream, ear) = Overheard::new(Vec::new());
        stream.write_all(&frame(FrameKind::Values, b"before")).unwrap();
        assert_eq!(ear.values(), None);
        ear.listen(200);
        stream.write_all(&frame(FrameKind::Service, b"request")).unwrap();
        stream.write_all(&frame(FrameKind::Values, b"picture")).unwrap();
        stream.write_all(&[7; 500]).unwrap();
        assert_eq!(ear.values().as_deref(), Some(&b"picture"[..]));
        assert_eq!(ear.values(), None, "it listens no more");
    }

    #[test]
    fn a_frame_that_was_not_heard_to_its_end_is_none() {
        let (mut stream, ear) = Overheard::new(Vec::new());
        ear.listen(HEADER_BYTES + 3);
        stream.write_all(&frame(FrameKind::Values, b"picture")).unwrap();
        assert_eq!(ear.values(), None);
    }
}
