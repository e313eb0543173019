//! One whole session with one inference: what each party put in, then every frame in the order of the plan.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::thread;

use crypto::ot::Depth;
use network::digest::to_hex;
use network::image::Image;
use network::inference_model::InferenceModel;

use super::{Object, list, relus_word};
use crate::client::{Answer, Client, Wishes};
use crate::connection::frame::HEADER_BYTES;
use crate::connection::{Connection, MemoryStream, Role, memory_pair};
use crate::conversation::Words;
use crate::plan::{Plan, Terms};
use crate::requests::{Reply, Request};
use crate::roots::scripted;
use crate::server::{ServedModel, Server, WeightMemory};
use crate::setup::messages::ModelName;
use crate::{offline, online};

const CHANNEL_BINDING: &[u8] = b"the channel's binding";
const MODEL_NAME: &str = "tiny";

/// A stream that notes what its owner sends.
struct Wire {
    inner: MemoryStream,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Wire {
    fn new(inner: MemoryStream) -> (Self, Arc<Mutex<Vec<u8>>>) {
        let sent = Arc::default();
        (Self { inner, sent: Arc::clone(&sent) }, sent)
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer)
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

/// What the parties draw, in order.
struct Seeds {
    client: [(&'static str, [u8; 32]); 5],
    server: [(&'static str, [u8; 32]); 3],
    salt: [u8; 32],
}

impl Seeds {
    fn new(first: u8) -> Self {
        let seed = |number: u8| std::array::from_fn(|place| first + number + (place as u8 & 7) * 0x11 % 0x7f);
        Self {
            client: [
                ("nonce", seed(1)),
                ("key root", seed(2)),
                ("transfer seed", seed(3)),
                ("reverse transfer root", seed(4)),
                ("inference root", seed(5)),
            ],
            server: [("nonce", seed(6)), ("transfer root", seed(7)), ("inference root", seed(8))],
            salt: seed(9),
        }
    }
}

/// Both parties' work: the client's answer, and what crossed in each direction.
fn run(
    model: &InferenceModel,
    (terms, depth): (Terms, Depth),
    seeds: &Seeds,
    image: &Image,
) -> (Arc<Plan>, Answer, [Vec<u8>; 2]) {
    let served = ServedModel::with_salt(model, terms, WeightMemory::Everything, &seeds.salt).unwrap();
    let served = Arc::new(served);
    let plan = Arc::clone(served.plan());
    let (client_end, server_end) = memory_pair();
    let ((client_wire, up), (server_wire, down)) = (Wire::new(client_end), Wire::new(server_end));
    let drawn = seeds.server.map(|(_, seed)| seed);
    let server = thread::spawn(move || {
        scripted::install(drawn);
        let choose = |name: &ModelName| Ok((name.clone(), served));
        let connection = Connection::new(server_wire, Role::Server);
        let mut server = Server::accept_with(connection, choose, CHANNEL_BINDING).unwrap();
        assert!(matches!(server.next_request().unwrap(), Request::Prepare { count: 1, store: None }));
        server.reply(&Reply::Accepted { ids: Vec::new() }).unwrap();
        let prepared = server.prepare().unwrap();
        assert!(matches!(server.next_request().unwrap(), Request::Classify { count: 1 }));
        server.reply(&Reply::Accepted { ids: Vec::new() }).unwrap();
        server.classify(prepared).unwrap();
        assert!(matches!(server.next_request().unwrap(), Request::Bye));
        assert_eq!(scripted::left(), 0, "the server drew as many seeds as are published");
    });
    let drawn = seeds.client.map(|(_, seed)| seed);
    let image = image.clone();
    let client = thread::spawn(move || {
        scripted::install(drawn);
        let model = ModelName::new(MODEL_NAME).unwrap();
        let (reveal, relus, depth) = (Some(terms.reveal), Some(terms.relus), Some(depth));
        let wishes = Wishes { model, reveal, relus, depth, ..Wishes::default() };
        let connection = Connection::new(client_wire, Role::Client);
        let mut client = Client::connect_with(connection, &wishes, CHANNEL_BINDING).unwrap();
        client.request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap();
        let prepared = client.prepare().unwrap();
        client.request(&Request::Classify { count: 1 }, |_| {}).unwrap();
        let answer = client.classify(prepared, &image).unwrap();
        client.finish().unwrap();
        assert_eq!(scripted::left(), 0, "the client drew as many seeds as are published");
        answer
    });
    let answer = client.join().unwrap();
    server.join().unwrap();
    let sent = [up, down].map(|sent| sent.lock().unwrap().clone());
    (plan, answer, sent)
}

/// The name of every message and whether the client sends it.
fn names(plan: &Plan, depth: Depth) -> Vec<(String, bool)> {
    let mut names: Vec<(String, bool)> = Vec::new();
    let mut say = |name: &str, is_upward| names.push((name.to_owned(), is_upward));
    say("client hello", true);
    say("server hello", false);
    say("agreement", true);
    for number in 0..plan.parameters().len() {
        say(&format!("public key {number}"), true);
    }
    say("base point", true);
    say("base points", false);
    let reverses = plan.reverse_count() > 0;
    if reverses {
        say("reverse base point", false);
    }
    say("tree sums", true);
    if reverses {
        say("reverse base points", true);
    }
    say("prepare", true);
    say("accepted", false);
    let step = |job| plan.job(job).step.0;
    for message in offline::messages::list(plan, depth, true) {
        use offline::messages::{ClientWords, ServerWords};
        match message.words {
            Words::Up(ClientWords::Request(job)) => say(&format!("request of step {}", step(job)), true),
            Words::Up(ClientWords::Corrections) => say("corrections", true),
            Words::Up(ClientWords::ReverseKey) => say("reverse hash key", true),
            Words::Up(ClientWords::Advance(part)) => say(&format!("advance of part {}", part.0), true),
            Words::Down(ServerWords::ReverseSums) => say("reverse tree sums", false),
            Words::Down(ServerWords::ReverseCorrections) => say("reverse corrections", false),
            Words::Down(ServerWords::Answer(job)) => say(&format!("answer of step {}", step(job)), false),
            Words::Down(ServerWords::HashKey) => say("hash key", false),
            Words::Down(ServerWords::Offer(part)) => say(&format!("offer of part {}", part.0), false),
        }
    }
    say("classify", true);
    say("accepted", false);
    for message in online::messages::list(plan) {
        use online::messages::{ClientWords, ServerWords};
        match message.words {
            Words::Up(ClientWords::Image) => say("image", true),
            Words::Up(ClientWords::Reply(part)) => say(&format!("reply of part {}", part.0), true),
            Words::Down(ServerWords::Opening(part)) => say(&format!("opening of part {}", part.0), false),
            Words::Down(ServerWords::Logits) => say("logits", false),
        }
    }
    say("bye", true);
    names
}

/// The next frame's header and body.
fn cut<'a>(bytes: &mut &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let (header, rest) = bytes.split_at(HEADER_BYTES);
    let length = u64::from_le_bytes(header[24..].try_into().unwrap()) as usize;
    let (body, rest) = rest.split_at(length);
    *bytes = rest;
    (header, body)
}

pub(super) fn text(model: &InferenceModel, terms: Terms, depth: Depth, first_seed: u8) -> String {
    let seeds = Seeds::new(first_seed);
    let outline = model.outline();
    let image = Image::random(outline.input, 8);
    let (plan, answer, [up, down]) = run(model, (terms, depth), &seeds, &image);
    let (mut up, mut down) = (&up[..], &down[..]);
    let frames = names(&plan, depth).into_iter().map(|(name, is_upward)| {
        let (header, body) = cut(if is_upward { &mut up } else { &mut down });
        let from = if is_upward { "client" } else { "server" };
        Object::new().text("name", &name).text("from", from).hex("header", header).hex("body", body).finish()
    });
    let frames = list(frames);
    assert!(up.is_empty() && down.is_empty(), "every byte that crossed has a name");
    let (mode, answer) = match answer {
        Answer::Logits(logits) => ("logits", logits),
        Answer::Class(class) => ("class", vec![class as i64]),
    };
    let hex = |object: Object, (name, seed): &(&str, [u8; 32])| object.hex(name, seed);
    let client = seeds.client.iter().fold(Object::new(), hex).numbers("image", image.pixels());
    let server = seeds.server.iter().fold(Object::new(), hex).hex("salt", &seeds.salt);
    let layers = model.layers().iter().map(|layer| {
        Object::new().numbers("weights", &layer.weights).numbers("biases", &layer.biases).finish()
    });
    let server = server.text("outline", &to_hex(&outline.to_bytes())).raw("layers", &list(layers));
    Object::new()
        .text("mode", mode)
        .text("relus", relus_word(terms.relus))
        .raw("depth", &depth.to_string())
        .text("model", MODEL_NAME)
        .hex("channel binding", CHANNEL_BINDING)
        .raw("client", &client.finish())
        .raw("server", &server.finish())
        .numbers("answer", answer)
        .raw("frames", &frames)
        .finish()
        + "\n"
}
