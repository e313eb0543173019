//! What targets of the message flow share: a tiny model, both parties, and a stream whose bytes the input alters.
//!
//! Nonces and keys are fresh in every session, so a recorded transcript would be refused early. Instead an honest peer
//! answers, and the input lists what becomes of its bytes on the way: six bytes an edit, place (four), kind, value.

use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};
use std::thread;

use inference::InferenceError;
use inference::client::Client;
use inference::connection::{Connection, MemoryStream, Role, memory_pair};
use inference::plan::{Depth, Reveal};
use inference::server::{ServedModel, Server, WeightMemory};
use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::mask::{ActivationMask, Bits, SiteMask};
use network::weights::FloatWeights;
use network::zoo;

/// Edits beyond this many hide one another.
const MAX_EDITS: usize = 8;
const EDIT_BYTES: usize = 6;

/// A small residual network with ReLUs kept and dropped.
fn served() -> &'static Arc<ServedModel> {
    static SERVED: OnceLock<Arc<ServedModel>> = OnceLock::new();
    SERVED.get_or_init(|| {
        let spec = zoo::build("resnet20:m=1,depths=1+1+1", 8, 2).expect("a network of the zoo");
        let masks = spec.walk().sites().iter().map(|site| {
            SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|place| place % 2 > 0)))
        });
        let mask = ActivationMask::new(&spec, masks.collect()).expect("a mask of this network");
        let images = [Image::random(spec.draft().input, 0)];
        let weights = FloatWeights::random(&spec, 1);
        let (model, _) = freeze(&spec, &weights, Some(&mask), &images, &FreezeOptions::default())
            .expect("a network that freezes");
        let served = ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything);
        Arc::new(served.expect("a model with a plan"))
    })
}

/// What happens to the bytes that its owner reads.
#[derive(Clone, Copy)]
enum Edit {
    /// One byte has these bits turned.
    Flip { place: usize, bits: u8 },
    /// A run of bytes is replaced by one value.
    Fill { place: usize, length: usize, value: u8 },
    /// The peer is gone from here on.
    Cut { place: usize },
}

fn edits(data: &[u8], stream_bytes: usize) -> Vec<Edit> {
    let read = |record: &[u8]| {
        let place = u32::from_le_bytes([record[0], record[1], record[2], record[3]]) as usize % stream_bytes;
        let (kind, value) = (record[4], record[5]);
        match kind {
            0..=127 => Edit::Flip { place, bits: value },
            128..=247 => Edit::Fill { place, length: 1 << ((kind - 128) / 8), value },
            _ => Edit::Cut { place },
        }
    };
    data.chunks_exact(EDIT_BYTES).take(MAX_EDITS).map(read).collect()
}

/// A stream that alters what is read from it.
struct Altered {
    inner: MemoryStream,
    edits: Vec<Edit>,
    position: usize,
}

impl Read for Altered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_cut = |edit: &Edit| matches!(edit, Edit::Cut { place } if *place <= self.position);
        if self.edits.iter().any(is_cut) {
            return Ok(0);
        }
        let count = self.inner.read(buffer)?;
        for (at, byte) in (self.position..).zip(&mut buffer[..count]) {
            for edit in &self.edits {
                match *edit {
                    Edit::Flip { place, bits } if place == at => *byte ^= bits,
                    Edit::Fill { place, length, value } if (place..place + length).contains(&at) => {
                        *byte = value;
                    }
                    _ => {}
                }
            }
        }
        self.position += count;
        Ok(count)
    }
}

impl Write for Altered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn serve(stream: Altered) -> Result<(), InferenceError> {
    let connection = Connection::new(stream, Role::Server);
    let mut server = Server::accept(connection, Arc::clone(served()), b"channel")?;
    let prepared = server.prepare()?;
    server.classify(prepared)
}

fn ask(stream: Altered) -> Result<(), InferenceError> {
    let connection = Connection::new(stream, Role::Client);
    let mut client = Client::connect(connection, Reveal::Logits, b"channel")?;
    let prepared = client.prepare()?;
    let image = Image::random(served().plan().outline().input, 1);
    client.classify(prepared, &image).map(drop)
}

/// One session in which what one party reads is altered. Errors are fine; panics, waits without end and large
/// allocations are findings. Without edits both parties must succeed.
pub fn run_session(data: &[u8], alters_client: bool) {
    let upward = !alters_client;
    let messages = served().plan().messages(Depth::Four);
    let stream_bytes =
        messages.iter().filter(|message| message.is_upward == upward).map(|message| message.bytes);
    let edits = edits(data, stream_bytes.sum());
    let is_honest = edits.is_empty();
    let (client_edits, server_edits) = if alters_client { (edits, Vec::new()) } else { (Vec::new(), edits) };
    let (client_end, server_end) = memory_pair();
    let altered = |inner, edits| Altered { inner, edits, position: 0 };
    let (client_stream, server_stream) =
        (altered(client_end, client_edits), altered(server_end, server_edits));
    let server = thread::spawn(move || serve(server_stream));
    let client = ask(client_stream);
    let server = server.join().expect("the server does not panic");
    assert!(!is_honest || (client.is_ok() && server.is_ok()), "{client:?} {server:?}");
}
