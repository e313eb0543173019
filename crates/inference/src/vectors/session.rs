//! One whole session: what each party put in, then every frame in the order of the plan.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex};
use std::thread;

use crypto::ot::Depth;
use network::digest::to_hex;
use network::image::Image;
use network::inference_model::InferenceModel;

use super::{Object, list, numbers, relus_word, reveal_word};
use crate::client::{Answer, Client, HalvesCache, MemoryHalves, Wishes};
use crate::connection::frame::HEADER_BYTES;
use crate::connection::{Connection, MemoryStream, Role, memory_pair};
use crate::conversation::Words;
use crate::offline::messages::Once;
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
    client: Vec<(String, [u8; 32])>,
    server: Vec<(String, [u8; 32])>,
    salt: [u8; 32],
}

impl Seeds {
    fn new(first: u8, inferences: usize) -> Self {
        let mut number = first;
        let mut seed = || {
            number += 1;
            std::array::from_fn(|place| number + (place as u8 & 7) * 0x11 % 0x7f)
        };
        let mut party = |names: &[&str]| {
            let of_inference = (1..=inferences).map(|inference| format!("root of inference {inference}"));
            let names = names.iter().map(|name| (*name).to_owned()).chain(of_inference);
            names.map(|name| (name, seed())).collect()
        };
        Self {
            client: party(&["nonce", "transfer seed", "reverse transfer root"]),
            server: party(&["nonce", "transfer root"]),
            salt: seed(),
        }
    }
}

/// Both parties' work: the client's answers, and what crossed in each direction.
fn run(case: &Case, seeds: &Seeds, image: &Image) -> (Arc<Plan>, Vec<Answer>, [Vec<u8>; 2]) {
    let served =
        ServedModel::with_salt(&case.model, case.terms, WeightMemory::Everything, &seeds.salt).unwrap();
    let served = Arc::new(served);
    let halves: Arc<dyn HalvesCache> = Arc::new(MemoryHalves::default());
    if case.has_halves {
        // With other seeds: second halves are the same in all sessions.
        let earlier = Case { inferences: 1, ..case.clone() };
        let _ = meet(&earlier, &Seeds::new(case.first_seed ^ 0x40, 1), image, &served, &halves);
    }
    let (answers, sent) = meet(case, seeds, image, &served, &halves);
    (Arc::clone(served.plan()), answers, sent)
}

/// One session.
fn meet(
    case: &Case,
    seeds: &Seeds,
    image: &Image,
    served: &Arc<ServedModel>,
    halves: &Arc<dyn HalvesCache>,
) -> (Vec<Answer>, [Vec<u8>; 2]) {
    let &Case { terms, depth, inferences, .. } = case;
    let (client_end, server_end) = memory_pair();
    let ((client_wire, up), (server_wire, down)) = (Wire::new(client_end), Wire::new(server_end));
    let [for_client, for_server] =
        [&seeds.client, &seeds.server].map(|seeds| seeds.iter().map(|(_, seed)| *seed).collect::<Vec<_>>());
    let served = Arc::clone(served);
    let server = thread::spawn(move || {
        scripted::install(for_server);
        serve(server_wire, served, inferences);
        assert_eq!(scripted::left(), 0, "the server drew as many seeds as are published");
    });
    let (image, halves) = (image.clone(), Some(Arc::clone(halves)));
    let client = thread::spawn(move || {
        scripted::install(for_client);
        let model = ModelName::new(MODEL_NAME).unwrap();
        let (reveal, relus, depth) = (Some(terms.reveal), Some(terms.relus), Some(depth));
        let wishes = Wishes { model, reveal, relus, depth, halves, ..Wishes::default() };
        let answers = ask(client_wire, &wishes, inferences, &image);
        assert_eq!(scripted::left(), 0, "the client drew as many seeds as are published");
        answers
    });
    let answers = client.join().unwrap();
    server.join().unwrap();
    (answers, [up, down].map(|sent| sent.lock().unwrap().clone()))
}

fn serve(wire: Wire, served: Arc<ServedModel>, inferences: usize) {
    let choose = |name: &ModelName| Ok((name.clone(), served));
    let connection = Connection::new(wire, Role::Server);
    let mut server = Server::accept_with(connection, choose, CHANNEL_BINDING).unwrap();
    assert!(matches!(server.next_request().unwrap(), Request::Prepare { store: None, .. }));
    server.reply(&Reply::Accepted { ids: Vec::new() }).unwrap();
    let prepared: Vec<_> = (0..inferences).map(|_| server.prepare().unwrap()).collect();
    for prepared in prepared {
        assert!(matches!(server.next_request().unwrap(), Request::Classify { count: 1 }));
        server.reply(&Reply::Accepted { ids: Vec::new() }).unwrap();
        server.classify(prepared).unwrap();
    }
    assert!(matches!(server.next_request().unwrap(), Request::Bye));
}

fn ask(wire: Wire, wishes: &Wishes, inferences: usize, image: &Image) -> Vec<Answer> {
    let connection = Connection::new(wire, Role::Client);
    let mut client = Client::connect_with(connection, wishes, CHANNEL_BINDING).unwrap();
    client.request(&Request::Prepare { count: inferences as u32, store: None }, |_| {}).unwrap();
    let prepared: Vec<_> = (0..inferences).map(|_| client.prepare().unwrap()).collect();
    let classify = |prepared| {
        client.request(&Request::Classify { count: 1 }, |_| {}).unwrap();
        client.classify(prepared, image).unwrap()
    };
    let answers = prepared.into_iter().map(classify).collect();
    client.finish().unwrap();
    answers
}

/// The name of every message and whether the client sends it.
fn names(plan: &Plan, &Case { depth, inferences, has_halves, .. }: &Case) -> Vec<(String, bool)> {
    let mut names = vec![("client hello", true), ("server hello", false), ("agreement", true)];
    names.extend([("base point", true), ("base points", false)]);
    let reverses = plan.reverse_count() > 0;
    names.extend(reverses.then_some(("reverse base point", false)));
    names.push(("tree sums", true));
    names.extend(reverses.then_some(("reverse base points", true)));
    names.extend([("prepare", true), ("accepted", false)]);
    let mut names: Vec<_> = names.into_iter().map(|(name, is_upward)| (name.to_owned(), is_upward)).collect();
    for inference in 1..=inferences {
        let once = if inference == 1 { Once::first(has_halves) } else { Once::default() };
        names.extend(offline_names(plan, depth, once));
    }
    for _ in 0..inferences {
        names.extend([("classify".to_owned(), true), ("accepted".to_owned(), false)]);
        names.extend(online_names(plan));
    }
    names.push(("bye".to_owned(), true));
    names
}

fn offline_names(plan: &Plan, depth: Depth, once: Once) -> impl Iterator<Item = (String, bool)> {
    use offline::messages::{ClientWords, ServerWords};
    let step = |job| plan.job(job).step.0;
    offline::messages::list(plan, depth, once).into_iter().map(move |message| {
        let name = match message.words {
            Words::Up(ClientWords::PublicKey(ring)) => format!("public key {ring}"),
            Words::Up(ClientWords::Request(job)) => format!("request of step {}", step(job)),
            Words::Up(ClientWords::Corrections) => "corrections".to_owned(),
            Words::Up(ClientWords::ReverseKey) => "reverse hash key".to_owned(),
            Words::Up(ClientWords::Advance(part)) => format!("advance of part {}", part.0),
            Words::Down(ServerWords::ReverseSums) => "reverse tree sums".to_owned(),
            Words::Down(ServerWords::ReverseCorrections) => "reverse corrections".to_owned(),
            Words::Down(ServerWords::Answer(job)) => format!("answer of step {}", step(job)),
            Words::Down(ServerWords::HashKey) => "hash key".to_owned(),
            Words::Down(ServerWords::Offer(part)) => format!("offer of part {}", part.0),
        };
        (name, matches!(message.words, Words::Up(_)))
    })
}

fn online_names(plan: &Plan) -> impl Iterator<Item = (String, bool)> {
    use online::messages::{ClientWords, ServerWords};
    online::messages::list(plan).into_iter().map(|message| {
        let name = match message.words {
            Words::Up(ClientWords::Image) => "image".to_owned(),
            Words::Up(ClientWords::Reply(part)) => format!("reply of part {}", part.0),
            Words::Down(ServerWords::Opening(part)) => format!("opening of part {}", part.0),
            Words::Down(ServerWords::Logits) => "logits".to_owned(),
        };
        (name, matches!(message.words, Words::Up(_)))
    })
}

/// The next frame's header and body.
fn cut<'a>(bytes: &mut &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let (header, rest) = bytes.split_at(HEADER_BYTES);
    let length = u64::from_le_bytes(header[24..].try_into().unwrap()) as usize;
    let (body, rest) = rest.split_at(length);
    *bytes = rest;
    (header, body)
}

/// One session: what is served, on which terms, and how often.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) model: InferenceModel,
    pub(super) terms: Terms,
    pub(super) depth: Depth,
    /// All of them are prepared, then all are finished, each with the same image.
    pub(super) inferences: usize,
    /// Whether the client has the second halves of the answers from an earlier session.
    pub(super) has_halves: bool,
    /// What all seeds follow from.
    pub(super) first_seed: u8,
}

pub(super) fn text(case: &Case) -> String {
    let seeds = Seeds::new(case.first_seed, case.inferences);
    let outline = case.model.outline();
    let image = Image::random(outline.input, 8);
    let (plan, answers, [up, down]) = run(case, &seeds, &image);
    let (mut up, mut down) = (&up[..], &down[..]);
    let frames = names(&plan, case).into_iter().map(|(name, is_upward)| {
        let (header, body) = cut(if is_upward { &mut up } else { &mut down });
        let from = if is_upward { "client" } else { "server" };
        Object::new().text("name", &name).text("from", from).hex("header", header).hex("body", body).finish()
    });
    let frames = list(frames);
    assert!(up.is_empty() && down.is_empty(), "every byte that crossed has a name");
    let answers = answers.into_iter().map(|answer| match answer {
        Answer::Logits(logits) => numbers(logits),
        Answer::Class(class) => numbers([class]),
    });
    let hex = |object: Object, (name, seed): &(String, [u8; 32])| object.hex(name, seed);
    let client = seeds.client.iter().fold(Object::new(), hex).numbers("image", image.pixels());
    let server = seeds.server.iter().fold(Object::new(), hex).hex("salt", &seeds.salt);
    let layers = case.model.layers().iter().map(|layer| {
        Object::new().numbers("weights", &layer.weights).numbers("biases", &layer.biases).finish()
    });
    let server = server.text("outline", &to_hex(&outline.to_bytes())).raw("layers", &list(layers));
    Object::new()
        .text("mode", reveal_word(case.terms.reveal))
        .text("relus", relus_word(case.terms.relus))
        .raw("depth", &case.depth.to_string())
        .raw("inferences", &case.inferences.to_string())
        .raw("has second halves", &case.has_halves.to_string())
        .text("model", MODEL_NAME)
        .hex("channel binding", CHANNEL_BINDING)
        .raw("client", &client.finish())
        .raw("server", &server.finish())
        .raw("answers", &list(answers))
        .raw("frames", &frames)
        .finish()
        + "\n"
}
