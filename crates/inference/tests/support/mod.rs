//! Both parties in one process, over streams that can be listened to or tampered with.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod statistics;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::mask::{ActivationMask, Bits, SiteMask};
use network::weights::FloatWeights;
use network::zoo;
use sordino_inference::InferenceError;
use sordino_inference::client::{Answer, Client, ShareRecord};
use sordino_inference::connection::frame::{FrameKind, HEADER_BYTES, Header, MAGIC, PROTOCOL_VERSION};
use sordino_inference::connection::{Connection, MemoryStream, Role, memory_pair};
use sordino_inference::plan::{Reveal, Terms};
use sordino_inference::server::{ServedModel, Server, WeightMemory};

/// A residual network with ReLUs that were kept, dropped by pixel, and dropped altogether.
pub(crate) fn tiny_model() -> InferenceModel {
    let spec = zoo::build("resnet20:m=4,depths=1+1+1", 16, 10).unwrap();
    let masks = spec.walk().sites().iter().enumerate().map(|(index, site)| match index % 3 {
        // Multiples of eight: messages without padding are what a simulator can draw.
        0 => SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|place| place % 4 > 0))),
        1 => SiteMask::DropAll,
        _ => SiteMask::KeepAll,
    });
    let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
    let weights = FloatWeights::random(&spec, 1);
    let images: Vec<_> = (0..2).map(|number| Image::random(spec.draft().input, number)).collect();
    freeze(&spec, &weights, Some(&mask), &images, &FreezeOptions::default()).unwrap().0
}

/// Shared signs with slopes, some of which are not computed.
pub(crate) fn sign_sharing_model() -> InferenceModel {
    let spec = zoo::build("signet:signs=0+8+8,values=3,stream=8+8+8,depths=1+1+1", 16, 10).unwrap();
    let masks = spec.walk().sites().iter().enumerate().map(|(index, site)| match index {
        0 => SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|place| place % 4 > 0))),
        _ => SiteMask::KeepAll,
    });
    let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
    let weights = FloatWeights::random(&spec, 1);
    let images: Vec<_> = (0..2).map(|number| Image::random(spec.draft().input, number)).collect();
    freeze(&spec, &weights, Some(&mask), &images, &FreezeOptions::default()).unwrap().0
}

/// Where a stream goes wrong, counted in bytes that its owner reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The peer is gone from here on.
    Cut(usize),
    /// The byte at this place is another one.
    Flip(usize),
    /// So many bytes from this place on are all ones.
    Ones(usize, usize),
}

/// A stream that notes what its owner sends, and may garble what it reads.
pub(crate) struct Wire {
    inner: MemoryStream,
    sent: Arc<Mutex<Vec<u8>>>,
    fault: Option<Fault>,
    position: usize,
}

impl Wire {
    pub(crate) fn new(inner: MemoryStream, fault: Option<Fault>) -> (Self, Arc<Mutex<Vec<u8>>>) {
        let sent = Arc::new(Mutex::new(Vec::new()));
        (Self { inner, sent: Arc::clone(&sent), fault, position: 0 }, sent)
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = match self.fault {
            Some(Fault::Cut(place)) => buffer.len().min(place.saturating_sub(self.position)),
            _ => buffer.len(),
        };
        if room == 0 {
            return Ok(0);
        }
        let count = self.inner.read(&mut buffer[..room])?;
        for (place, byte) in (self.position..).zip(&mut buffer[..count]) {
            match self.fault {
                Some(Fault::Flip(wrong)) if wrong == place => *byte ^= 0x5a,
                Some(Fault::Ones(start, length)) if (start..start + length).contains(&place) => *byte = 0xff,
                _ => {}
            }
        }
        self.position += count;
        Ok(count)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent.lock().unwrap().extend_from_slice(bytes);
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A stream without any buffer between its ends: a write returns when the peer has read. The harshest case of full
/// socket buffers.
pub(crate) struct NarrowStream {
    outgoing: SyncSender<Vec<u8>>,
    incoming: Receiver<Vec<u8>>,
    pending: VecDeque<u8>,
}

/// Two ends of a connection that holds nothing.
pub(crate) fn narrow_pair() -> (NarrowStream, NarrowStream) {
    let (to_second, from_first) = sync_channel(0);
    let (to_first, from_second) = sync_channel(0);
    let end = |outgoing, incoming| NarrowStream { outgoing, incoming, pending: VecDeque::new() };
    (end(to_second, from_second), end(to_first, from_first))
}

impl Read for NarrowStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.pending.is_empty() {
            self.pending = self.incoming.recv().unwrap_or_default().into();
        }
        self.pending.read(buffer)
    }
}

impl Write for NarrowStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(4096)];
        self.outgoing.send(piece.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs something that must come to an end, and fails the test when it does not.
pub(crate) fn patiently<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = channel();
    let thread = thread::spawn(move || done.send(run()));
    match result.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("a party waits for what never comes"),
        Err(RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
    }
}

/// A hand-made party that frames what it says: tags are those of the last frame it heard.
pub(crate) struct Framed<W> {
    pub(crate) wire: W,
    role: Role,
    tags: ([u8; 8], [u8; 8]),
    sent: u32,
}

impl<W: Read + Write> Framed<W> {
    pub(crate) fn new(wire: W, role: Role) -> Self {
        Self { wire, role, tags: (MAGIC, [0; 8]), sent: 0 }
    }

    pub(crate) fn receive(&mut self, length: usize) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        self.wire.read_exact(&mut header).unwrap();
        assert_eq!(header[24..], (length as u64).to_le_bytes(), "the announced length is the planned one");
        self.tags = (header[..8].try_into().unwrap(), header[8..16].try_into().unwrap());
        let mut bytes = vec![0; length];
        self.wire.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn header(&mut self, kind: FrameKind, length: u64) -> Header {
        let ((session, inference), step) = (self.tags, self.sent);
        self.sent += 1;
        Header { session, inference, step, sender: self.role, kind, version: PROTOCOL_VERSION, length }
    }

    pub(crate) fn send(&mut self, kind: FrameKind, bytes: &[u8]) {
        let header = self.header(kind, bytes.len() as u64);
        self.wire.write_all(&header.to_bytes()).unwrap();
        self.wire.write_all(bytes).unwrap();
    }

    pub(crate) fn flush(&mut self) {
        self.wire.flush().unwrap();
    }
}

/// What came of a session.
pub(crate) struct Session {
    pub(crate) client: Result<Vec<(Answer, ShareRecord)>, InferenceError>,
    pub(crate) server: Result<(), InferenceError>,
    /// Everything the client sent.
    pub(crate) up: Vec<u8>,
    /// Everything the server sent.
    pub(crate) down: Vec<u8>,
}

/// Far more than any session of these tests needs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a session to its end, good or bad. A party that panics or never comes back fails the test.
pub(crate) fn run(
    served: &Arc<ServedModel>,
    reveal: Reveal,
    images: &[Image],
    client_fault: Option<Fault>,
    server_fault: Option<Fault>,
) -> Session {
    let (client_end, server_end) = memory_pair();
    let (client_wire, up) = Wire::new(client_end, client_fault);
    let (server_wire, down) = Wire::new(server_end, server_fault);
    let (served, images, count) = (Arc::clone(served), images.to_vec(), images.len());
    let (server_done, server_result) = channel();
    let (client_done, client_result) = channel();
    thread::spawn(move || server_done.send(serve(server_wire, served, count)));
    thread::spawn(move || client_done.send(ask(client_wire, reveal, &images)));
    let client = client_result.recv_timeout(PATIENCE).expect("the client neither panics nor hangs");
    let server = server_result.recv_timeout(PATIENCE).expect("the server neither panics nor hangs");
    let (up, down) = (up.lock().unwrap().clone(), down.lock().unwrap().clone());
    Session { client, server, up, down }
}

fn serve(wire: Wire, served: Arc<ServedModel>, count: usize) -> Result<(), InferenceError> {
    let mut server = Server::accept(Connection::new(wire, Role::Server), served, b"channel")?;
    for _ in 0..count {
        let prepared = server.prepare()?;
        server.classify(prepared)?;
    }
    Ok(())
}

fn ask(wire: Wire, reveal: Reveal, images: &[Image]) -> Result<Vec<(Answer, ShareRecord)>, InferenceError> {
    let mut client = Client::connect(Connection::new(wire, Role::Client), reveal, b"channel")?;
    let mut answers = Vec::new();
    for image in images {
        let mut prepared = client.prepare_recorded()?;
        let record = prepared.take_record().unwrap();
        answers.push((client.classify(prepared, image)?, record));
    }
    Ok(answers)
}

/// A model laid out for serving.
pub(crate) fn served(model: &InferenceModel) -> Arc<ServedModel> {
    served_with(model, Terms::default())
}

/// The same on other terms.
pub(crate) fn served_with(model: &InferenceModel, terms: Terms) -> Arc<ServedModel> {
    Arc::new(ServedModel::new(model, terms, WeightMemory::Everything).unwrap())
}
