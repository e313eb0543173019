//! Prepared ahead: both halves survive the end of every process, each is used once, whatever copies exist.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use client::prepared_file::PreparedFile;
use client::{ClientError, ConnectOptions, PrivateClient, ReadyClient};
use crypto::secret::Secret;
use inference::InferenceError;
use inference::client::Answer;
use inference::connection::Trust;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::requests::StoredId;
use inference::server::PreparedServer;
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference::bound::{self, ReluRounding};
use sordino_service::store::{PreparedStore, StoreOptions};
use sordino_service::{ClientLimits, Limits, Owner, Store, StoreFault};

use support::{Running, limits, tiny_model};

/// A server process, as far as anyone outside can tell: its own service and its own handle of the store.
fn serve(model: &InferenceModel, folder: &Path) -> Running {
    let store =
        PreparedStore::open(StoreOptions { per_client: 3, ..StoreOptions::in_folder(folder) }).unwrap();
    serve_with(model, Some(Arc::new(store)))
}

fn serve_with(model: &InferenceModel, store: Option<Arc<dyn Store>>) -> Running {
    Running::restart("tiny", model, limits(), store)
}

fn key() -> Secret<[u8; 32]> {
    Secret::new([4; 32])
}

fn prepare(client: &mut PrivateClient, path: &Path, count: u32) -> Result<(), ClientError> {
    let description = client.describe_file("server").unwrap();
    let plan = Arc::clone(client.session_mut().plan());
    let mut file = PreparedFile::create(path, key(), description, &plan, count).unwrap();
    (0..count).try_for_each(|_| client.prepare_into(&mut file))
}

/// As close as rounding allows.
fn assert_right(model: &InferenceModel, image: &Image, answer: &Answer) {
    let Answer::Logits(logits) = answer else { panic!("logits were asked for") };
    assert!(bound::allows(model, image, logits, ReluRounding::Stochastic).unwrap(), "{logits:?}");
}

fn refusal_of(error: ClientError) -> RefusalCode {
    match error {
        ClientError::Inference(InferenceError::Refused { refusal, .. }) => refusal.code,
        other => panic!("{other}"),
    }
}

#[test]
fn a_connection_may_ask_so_often_about_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let server = serve(&model, folder.path());
    let mut client = server.connect().unwrap();
    for _ in 0..256 {
        client.room().unwrap();
    }
    assert_eq!(refusal_of(client.room().unwrap_err()), RefusalCode::Limit);
    // Another connection begins anew.
    server.connect().unwrap().room().unwrap();
}

#[test]
fn what_was_prepared_survives_every_process_and_is_used_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let images: Vec<_> = (0..2).map(|number| Image::random(model.outline().input, number)).collect();
    let path = folder.path().join("file");
    let first = serve(&model, folder.path());
    prepare(&mut first.connect().unwrap(), &path, 3).unwrap();
    let too_many = prepare(&mut first.connect().unwrap(), &folder.path().join("more"), 1).unwrap_err();
    assert_eq!(refusal_of(too_many), RefusalCode::Limit);
    assert!(first.service.close(first.address, Duration::from_secs(10)));
    let copy = std::fs::read(&path).unwrap();

    // Another process, which shares the store and nothing else.
    let second = serve(&model, folder.path());
    let mut file = PreparedFile::open(&path, key()).unwrap();
    let answers = second.connect().unwrap().classify_from(&mut file, &images).unwrap();
    for (image, answer) in images.iter().zip(&answers) {
        assert_right(&model, image, answer);
    }
    let too_few = second.connect().unwrap().classify_from(&mut file, &images).unwrap_err();
    assert!(matches!(too_few, ClientError::TooFewPrepared { left: 1, images: 2 }), "{too_few}");
    drop(file);

    // The client's old file is put back: two of its three inferences are spent, and the server says so.
    std::fs::write(&path, copy).unwrap();
    let mut file = PreparedFile::open(&path, key()).unwrap();
    let outcomes: Vec<_> = (0..3)
        .map(|_| second.connect().unwrap().classify_from(&mut file, std::slice::from_ref(&images[0])))
        .collect();
    let (fresh, spent): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_right(&model, &images[0], &fresh[0].as_ref().unwrap()[0]);
    assert_eq!((fresh.len(), spent.len()), (1, 2));
    assert!(spent.into_iter().all(|outcome| refusal_of(outcome.unwrap_err()) == RefusalCode::Spent));
}

#[test]
fn a_file_of_another_model_is_refused_before_anything_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let first = serve(&tiny_model(1), folder.path());
    prepare(&mut first.connect().unwrap(), &path, 1).unwrap();
    assert!(first.service.close(first.address, Duration::from_secs(10)));
    let second = serve(&tiny_model(2), folder.path());
    let mut file = PreparedFile::open(&path, key()).unwrap();
    let image = Image::random(tiny_model(2).outline().input, 1);
    let refusal = second.connect().unwrap().classify_from(&mut file, std::slice::from_ref(&image));
    assert!(matches!(refusal, Err(ClientError::OtherModel { .. })));
    assert_eq!(file.remaining(0).unwrap(), 1);
}

#[test]
fn an_inference_that_the_server_does_not_take_stays_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let path = folder.path().join("file");
    let image = Image::random(model.outline().input, 1);
    let first = serve(&model, folder.path());
    prepare(&mut first.connect().unwrap(), &path, 2).unwrap();
    let mut file = PreparedFile::open(&path, key()).unwrap();
    // The server ends, and says so where it would have accepted.
    let mut client = first.connect().unwrap();
    assert!(first.service.close(first.address, Duration::from_secs(10)));
    assert!(client.classify_from(&mut file, std::slice::from_ref(&image)).is_err());
    assert_eq!(file.remaining(0).unwrap(), 2);
    // One that has the same model and salt, and no store.
    let without = serve_with(&model, None);
    let error = without.connect().unwrap().classify_from(&mut file, std::slice::from_ref(&image));
    assert_eq!(refusal_of(error.unwrap_err()), RefusalCode::NotStored);
    assert_eq!(file.remaining(0).unwrap(), 2);
    // Of a batch in which one is unknown, that one alone is destroyed, and none is spent.
    let copy = std::fs::read(&path).unwrap();
    let second = serve(&model, folder.path());
    second.connect().unwrap().classify_from(&mut file, std::slice::from_ref(&image)).unwrap();
    std::fs::write(&path, copy).unwrap();
    let images = [image.clone(), image.clone()];
    let error = second.connect().unwrap().classify_from(&mut file, &images).unwrap_err();
    assert_eq!((refusal_of(error), file.remaining(0).unwrap()), (RefusalCode::Spent, 1));
    let answers = second.connect().unwrap().classify_from(&mut file, std::slice::from_ref(&image)).unwrap();
    assert_right(&model, &image, &answers[0]);
    assert_eq!(file.remaining(0).unwrap(), 0);
}

/// How an inference is refused.
type Refuse = fn(StoredId) -> Refusal;

/// A store that refuses to give back, in its own way.
struct Refusing {
    store: PreparedStore,
    refuse: Refuse,
}

impl Store for Refusing {
    fn has_room(&self, owner: &Owner, count: u32) -> Result<(), StoreFault> {
        self.store.has_room(owner, count)
    }

    fn put(
        &self,
        owner: &Owner,
        hash: &[u8; 32],
        id: StoredId,
        prepared: PreparedServer,
    ) -> Result<u64, StoreFault> {
        Store::put(&self.store, owner, hash, id, prepared)
    }

    fn take(
        &self,
        _: &Owner,
        _: &Secret<[u8; 32]>,
        ids: &[StoredId],
    ) -> Result<Vec<PreparedServer>, StoreFault> {
        Err(StoreFault::Refused((self.refuse)(ids[0])))
    }
}

#[test]
fn a_refusal_destroys_what_it_is_about_and_nothing_else() {
    let model = tiny_model(1);
    let images = [1, 2].map(|seed| Image::random(model.outline().input, seed));
    let ways: [(Refuse, u32); 3] = [
        (|id| Refusal::about(RefusalCode::Spent, id, "is spent"), 1),
        // Ours is only mentioned.
        (|id| Refusal::about(RefusalCode::Spent, StoredId([0; 16]), format!("{id} is not the one")), 2),
        (|_| Refusal::new(RefusalCode::Spent, "none of them is known"), 0),
    ];
    for (refuse, left) in ways {
        let folder = tempfile::tempdir().unwrap();
        let store = PreparedStore::open(StoreOptions::in_folder(folder.path())).unwrap();
        let server = serve_with(&model, Some(Arc::new(Refusing { store, refuse })));
        let path = folder.path().join("file");
        prepare(&mut server.connect().unwrap(), &path, 2).unwrap();
        let mut file = PreparedFile::open(&path, key()).unwrap();
        let error = server.connect().unwrap().classify_from(&mut file, &images).unwrap_err();
        assert_eq!((refusal_of(error), file.remaining(0).unwrap()), (RefusalCode::Spent, left));
    }
}

#[test]
fn a_server_without_a_store_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start(&[("tiny", &tiny_model(1))], limits());
    let error = prepare(&mut running.connect().unwrap(), &folder.path().join("file"), 1).unwrap_err();
    assert_eq!(refusal_of(error), RefusalCode::NotStored);
}

fn ask_rightly(ready: &ReadyClient, model: &InferenceModel, seed: u64) {
    let image = Image::random(model.outline().input, seed);
    let answers = ready.classify_batch(vec![image.clone()]).unwrap();
    assert_right(model, &image, &answers[0]);
}

#[test]
fn a_ready_client_prepares_while_nobody_asks() {
    let model = tiny_model(3);
    let running = Running::start(&[("tiny", &model)], limits());
    let ready = ReadyClient::start(running.connect().unwrap(), 2).unwrap();
    let wait = || {
        let start = Instant::now();
        while ready.ready() < 2 {
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(5));
        }
    };
    for number in 0..2 {
        wait();
        ask_rightly(&ready, &model, number);
    }
    wait();
    ready.finish().unwrap();
}

/// The server ends a session that asks for too much. A client that asks again and again would lose all that is ready each time.
#[test]
fn a_ready_client_learns_how_much_it_may_have() {
    let model = tiny_model(3);
    let running = Running::start(&[("tiny", &model)], Limits { prepared: 2, ..limits() });
    let (address, fingerprint) = (running.address.to_string(), running.fingerprint);
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let connect = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        PrivateClient::connect(&address, ConnectOptions::new(Trust::Fingerprint(fingerprint)))
    };
    let ready = ReadyClient::reconnecting(connect, 5).unwrap();
    let wait = || running.wait_until(|_| connections.load(Ordering::SeqCst) == 2 && ready.ready() == 2);
    for number in 0..3 {
        wait();
        ask_rightly(&ready, &model, number);
    }
    wait();
    ready.finish().unwrap();
    assert_eq!(running.service.metrics().refusals.get(), 1);
}

/// A client that prepares ahead asks first; what the hour does not allow would end it midway.
#[test]
fn the_room_that_a_client_hears_of_knows_the_hour() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let store = PreparedStore::open(StoreOptions::in_folder(folder.path())).unwrap();
    let per_client = ClientLimits { preparations: Some(5), ..ClientLimits::default() };
    let running = Running::restart("tiny", &model, Limits { per_client, ..limits() }, Some(Arc::new(store)));
    assert_eq!(running.connect().unwrap().room().unwrap().count, 5);
    prepare(&mut running.connect().unwrap(), &folder.path().join("mine"), 3).unwrap();
    assert_eq!(running.connect().unwrap().room().unwrap().count, 2);
}

/// A way to the server that can be cut.
struct Relay {
    address: SocketAddr,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sockets);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                let ends = [(&client, &server), (&server, &client)];
                for (from, to) in ends.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()))
                {
                    thread::spawn(move || std::io::copy(&mut &from, &mut &to));
                }
                kept.lock().unwrap().push(client);
            }
        });
        Self { address, sockets }
    }

    /// Cuts every connection; says how many there were so far.
    fn cut(&self) -> usize {
        let sockets = self.sockets.lock().unwrap();
        sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        sockets.len()
    }
}

#[test]
fn a_ready_client_keeps_one_connection_and_replaces_it_when_it_breaks() {
    let model = tiny_model(3);
    let running = Running::start(&[("tiny", &model)], limits());
    let relay = Relay::start(running.address);
    let (address, fingerprint) = (relay.address.to_string(), running.fingerprint);
    let connect = move || {
        let options = ConnectOptions::new(Trust::Fingerprint(fingerprint));
        PrivateClient::connect(&address, options)
    };
    let ready = ReadyClient::reconnecting(connect, 2).unwrap();
    let image = Image::random(model.outline().input, 7);
    let wait = || running.wait_until(|_| ready.ready() == 2);
    for _ in 0..2 {
        wait();
        let answers = ready.classify_batch(vec![image.clone()]).unwrap();
        assert_right(&model, &image, &answers[0]);
    }
    wait();
    assert_eq!(relay.cut(), 1, "images and preparations share a connection");
    let lost = ready.classify_batch(vec![image.clone()]);
    assert!(matches!(lost, Err(ClientError::Inference(_))), "{lost:?}");
    let answers = ready.classify_batch(vec![image.clone()]).unwrap();
    assert_right(&model, &image, &answers[0]);
    wait();
    assert_eq!(relay.cut(), 2, "one connection took the other's place");
}

#[test]
fn a_client_hears_of_its_room_and_discards_what_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let server = serve(&model, folder.path());
    let [mine, others] = ["mine", "others"].map(|name| folder.path().join(name));
    let room = |client: &mut PrivateClient| {
        let room = client.room().unwrap();
        assert!(room.bytes > 0 && room.lifetime == 24 * 3600);
        (room.count, room.stored)
    };
    assert_eq!(room(&mut server.connect().unwrap()), (3, 0));
    prepare(&mut server.connect().unwrap(), &mine, 2).unwrap();
    prepare(&mut server.connect().unwrap(), &others, 1).unwrap();
    let mut client = server.connect().unwrap();
    assert_eq!(room(&mut client), (0, 3));
    let mut mine = PreparedFile::open(&mine, key()).unwrap();
    let others = PreparedFile::open(&others, key()).unwrap();
    let names =
        |file: &PreparedFile| file.entries().unwrap().iter().map(|entry| entry.id).collect::<Vec<_>>();
    let mut listed = client.list_stored(&mine).unwrap();
    let mut held = names(&mine);
    listed.sort();
    held.sort();
    assert_eq!(listed, held);

    // A token that nobody has reaches nothing; ours reaches ours.
    let session = client.session_mut();
    assert_eq!(session.discard_stored(Secret::new([9; 32])).unwrap(), 0);
    assert_eq!(session.list_stored(Secret::new([9; 32])).unwrap(), []);
    assert_eq!(client.discard_stored(&mine).unwrap(), 2);
    assert_eq!(client.discard_stored(&mine).unwrap(), 0);
    assert_eq!(client.list_stored(&others).unwrap(), names(&others));
    assert_eq!(room(&mut client), (2, 1));
    let image = Image::random(model.outline().input, 1);
    let error = client.classify_from(&mut mine, std::slice::from_ref(&image)).unwrap_err();
    assert_eq!(refusal_of(error), RefusalCode::Spent);
    others.remove().unwrap();
    assert!(!folder.path().join("others").exists());
}

/// Another model under the same name does not keep a client from being rid of what it prepared for the old one.
#[test]
fn what_was_prepared_for_a_replaced_model_can_be_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let first = serve(&tiny_model(1), folder.path());
    prepare(&mut first.connect().unwrap(), &path, 2).unwrap();
    assert!(first.service.close(first.address, Duration::from_secs(10)));
    let second = serve(&tiny_model(2), folder.path());
    let file = PreparedFile::open(&path, key()).unwrap();
    assert_eq!(second.connect().unwrap().discard_stored(&file).unwrap(), 2);
}
