//! The service under ordinary, many, silent, rude and slow clients, and at its end.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use client::{ClientError, PrivateClient};
use crypto::secret::Secret;
use inference::InferenceError;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::connection::{Identity, TlsAcceptor};
use inference::plan::Reveal;
use inference::requests::{Request, StoredId};
use inference::server::{PreparedServer, ServedModel, WeightMemory};
use inference::setup::messages::ModelName;
use inference::transcript::Phase;
use network::image::Image;
use sordino_service::{Limits, Owner, Service, ServiceParts, Store, StoreFault};

use support::{Running, classify_rightly, limits, tiny_model};

fn code(error: &ClientError) -> Option<RefusalCode> {
    match error {
        ClientError::Inference(InferenceError::Refused { refusal, .. }) => Some(refusal.code),
        _ => None,
    }
}

#[test]
fn several_clients_at_once_get_their_own_exact_answers() {
    let model = tiny_model(1);
    let running = NonZeroUsize::new(2).unwrap();
    let server = Running::start(&[("tiny", &model)], Limits { running, ..limits() });
    thread::scope(|scope| {
        for number in 0..8 {
            let (server, model) = (&server, &model);
            scope.spawn(move || {
                let mut client = server.connect().unwrap();
                for image in 0..2 {
                    classify_rightly(
                        &mut client,
                        model,
                        &Image::random(model.outline().input, 10 * number + image),
                    );
                }
                client.finish().unwrap();
            });
        }
    });
    server.wait_until(|service| service.metrics().clients.get() == 0);
    let metrics = server.service.metrics();
    assert_eq!(metrics.classified.get(), 16);
    assert_eq!(metrics.failures.get(), 0);
    assert_eq!(server.service.now().running, 0);
}

#[test]
fn the_client_api_prepares_ahead_and_classifies_in_batches() {
    let model = tiny_model(1);
    let server = Running::start_with(&[("tiny", &model)], limits(), Reveal::Class, None);
    let mut client = server.connect().unwrap();
    assert_eq!((client.model(), client.reveal()), ("tiny", Reveal::Class));
    let cost = client.cost().unwrap();
    assert!(
        cost.offline.bytes_down > cost.online.bytes_down
            && cost.memory > 0
            && cost.least_time() > Duration::ZERO
    );
    client.prepare(2).unwrap();
    assert_eq!(client.prepared(), 2);
    let images: Vec<_> = (0..3).map(|number| Image::random(model.outline().input, number)).collect();
    server.wait_until(|service| service.metrics().prepared.get() == 2);
    assert_eq!(client.classify_batch(&images).unwrap().len(), 3);
    server.wait_until(|service| service.metrics().classified.get() == 3);
    assert_eq!(server.service.metrics().prepared.get(), 3, "one was missing");
    assert!(client.classify_batch(&[]).unwrap().is_empty());
    client.finish().unwrap();
}

#[test]
fn models_are_chosen_by_name_and_unknown_names_hear_the_known_ones() {
    let (first, second) = (tiny_model(1), tiny_model(2));
    let server = Running::start(&[("chest", &first), ("skin", &second)], limits());
    let with_name = |name: &str| {
        let mut options = server.options();
        options.wishes.model = ModelName::new(name).unwrap();
        PrivateClient::connect(&server.address.to_string(), options)
    };
    for (name, model) in [("chest", &first), ("skin", &second)] {
        let mut client = with_name(name).unwrap();
        classify_rightly(&mut client, model, &Image::random(model.outline().input, 3));
    }
    for name in ["", "brain"] {
        let error = with_name(name).err().unwrap();
        assert_eq!(code(&error), Some(RefusalCode::UnknownModel));
        assert!(error.to_string().contains("--model one of chest, skin"), "{error}");
    }
}

/// Passes bytes on, one at a time and slowly.
fn trickle(server: &Running) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, target) = (listener.local_addr().unwrap(), server.address);
    thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(target).unwrap();
        for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
            thread::spawn(move || {
                let mut byte = [0];
                while from.read(&mut byte).is_ok_and(|count| count > 0) && to.write_all(&byte).is_ok() {
                    thread::sleep(Duration::from_millis(50));
                }
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn silent_rude_and_slow_clients_are_sent_home_and_others_are_unharmed() {
    let model = tiny_model(1);
    // Long enough for the handshakes of those who behave, on however busy a machine.
    let short = Limits { silence: Duration::from_secs(6), idle: Duration::from_secs(8), ..limits() };
    let server = Running::start(&[("tiny", &model)], Limits { running: NonZeroUsize::MIN, ..short });
    let _silent = TcpStream::connect(server.address).unwrap();
    let mut rude = TcpStream::connect(server.address).unwrap();
    rude.write_all(&[0x5a; 4000]).unwrap();
    let slow = trickle(&server);
    let options = server.options();
    let slow = thread::spawn(move || PrivateClient::connect(&slow.to_string(), options).err());
    // Connects and never asks for anything.
    let _idle = server.connect().unwrap();
    // Gets the only place and then falls silent.
    let mut stuck = server.connect().unwrap();
    stuck.session_mut().request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap();

    let mut client = server.connect().unwrap();
    classify_rightly(&mut client, &model, &Image::random(model.outline().input, 1));
    client.finish().unwrap();
    assert!(slow.join().unwrap().is_some(), "a handshake byte by byte takes too long");
    server.wait_until(|service| service.metrics().clients.get() == 0);
    assert_eq!((server.service.now().running, server.service.now().waiting), (0, 0));
    let error = stuck.session_mut().prepare().unwrap_err();
    assert!(error.to_string().contains("you took too long"), "{error}");
    let mut after = server.connect().unwrap();
    classify_rightly(&mut after, &model, &Image::random(model.outline().input, 2));
}

#[test]
fn clients_beyond_the_limits_hear_which_limit_it_was() {
    let model = tiny_model(1);
    let server = Running::start(&[("tiny", &model)], Limits { clients: 1, prepared: 2, ..limits() });
    let mut client = server.connect().unwrap();
    let error = server.connect().err().unwrap();
    assert_eq!(code(&error), Some(RefusalCode::Busy));
    assert!(error.to_string().contains("too many clients"), "{error}");
    client.prepare(2).unwrap();
    let error = client.prepare(1).err().unwrap();
    assert_eq!(code(&error), Some(RefusalCode::Limit));
    server.wait_until(|service| service.metrics().clients.get() == 0);

    let mut client = server.connect().unwrap();
    let error = client.session_mut().request(&Request::Classify { count: 1 }, |_| {}).unwrap_err();
    assert!(matches!(&error, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::Order));
    server.wait_until(|service| service.metrics().clients.get() == 0);

    let mut client = server.connect().unwrap();
    let keep = Request::Prepare { count: 1, store: Some([1; 32]) };
    let error = client.session_mut().request(&keep, |_| {}).unwrap_err();
    assert!(
        matches!(&error, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::NotStored)
    );
}

#[test]
fn a_service_without_memory_for_its_models_does_not_start_and_none_is_given_beyond_the_limit() {
    let model = tiny_model(1);
    let served = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let memory = Service::memory_for(std::iter::once(served.plan().as_ref()), &limits());
    let parts = |memory| ServiceParts {
        models: BTreeMap::from([(ModelName::new("tiny").unwrap(), Arc::clone(&served))]),
        acceptor: TlsAcceptor::new(Identity::generate().unwrap().into_key(), None).unwrap(),
        limits: Limits { memory, ..limits() },
        store: None,
        proxies: Vec::new(),
    };
    let error = Service::new(parts(memory - 1)).err().unwrap();
    assert!(error.to_string().contains("--max-memory"), "{error}");
    assert!(Service::new(parts(memory)).is_ok());
    // Weights that are not held are not counted.
    let sparing = ServedModel::new(&model, Reveal::Logits, WeightMemory::AtMost(0)).unwrap();
    let spared = served.weight_bytes() - sparing.weight_bytes();
    assert!(spared > 0 && served.weight_bytes() == served.plan().memory().server_weights);
    let models = BTreeMap::from([(ModelName::new("tiny").unwrap(), Arc::new(sparing))]);
    assert!(Service::new(ServiceParts { models: models.clone(), ..parts(memory - spared) }).is_ok());
    assert!(Service::new(ServiceParts { models, ..parts(memory - spared - 1) }).is_err());
    let server = Running::start(&[("tiny", &model)], Limits { memory, ..limits() });
    let standing = server.service.now().memory;
    let error = server.connect().unwrap().prepare(1).err().unwrap();
    assert_eq!(code(&error), Some(RefusalCode::Limit), "{error}");
    assert!(error.to_string().contains("no memory left"), "{error}");
    assert_eq!(server.service.now().memory, standing);
}

#[test]
fn the_end_lets_running_inferences_finish_and_sends_the_others_home() {
    let model = tiny_model(1);
    let server = Running::start(&[("tiny", &model)], limits());
    let mut idle = server.connect().unwrap();
    let mut busy = server.connect().unwrap();
    busy.session_mut().request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap();
    let closing = thread::spawn({
        let (service, address) = (Arc::clone(&server.service), server.address);
        move || service.close(address, Duration::from_secs(60))
    });
    server.wait_until(|service| !service.now().is_open);
    // What is being prepared may still be used; nothing new is begun.
    let image = Image::random(model.outline().input, 1);
    let prepared = busy.session_mut().prepare().unwrap();
    busy.session_mut().request(&Request::Classify { count: 1 }, |_| {}).unwrap();
    busy.session_mut().classify(prepared, &image).unwrap();
    let is_farewell = |error: &InferenceError| matches!(error, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::ShuttingDown);
    let error = busy.session_mut().request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap_err();
    assert!(is_farewell(&error) || matches!(error, InferenceError::Connection(_)), "{error}");
    let error = idle.session_mut().request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap_err();
    assert!(is_farewell(&error) || matches!(error, InferenceError::Connection(_)), "{error}");
    drop((idle, busy));
    assert!(closing.join().unwrap(), "everybody is gone");
    assert!(server.connect().is_err());
}

/// A long session is seen while it lasts.
#[test]
fn bytes_are_counted_while_they_cross() {
    let model = tiny_model(1);
    let server = Running::start(&[("tiny", &model)], limits());
    let metrics = server.service.metrics();
    let mut client = server.connect().unwrap();
    let mut seen = 0;
    for number in 0..2 {
        classify_rightly(&mut client, &model, &Image::random(model.outline().input, number));
        server.wait_until(|service| service.metrics().classified.get() == number + 1);
        let transcript = client.session_mut().connection().transcript();
        let phases = [Phase::SetUp, Phase::Offline, Phase::Online, Phase::Service]
            .map(|phase| transcript.phase(phase));
        let (up, down) = phases
            .iter()
            .fold((0, 0), |(up, down), traffic| (up + traffic.bytes_up, down + traffic.bytes_down));
        assert_eq!((metrics.bytes_received.get(), metrics.bytes_sent.get()), (up, down));
        assert!(up > seen);
        seen = up;
    }
    assert_eq!(metrics.clients.get(), 1);
}

/// Sessions keep the model they began with, and its memory is taken until the last of them ends.
#[test]
fn new_clients_get_new_models_and_old_weights_go_with_their_last_session() {
    let [old, new] = [tiny_model(1), tiny_model(2)];
    let serve = |model| Arc::new(ServedModel::new(model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let named =
        |served: &Arc<ServedModel>| BTreeMap::from([(ModelName::new("tiny").unwrap(), Arc::clone(served))]);
    let identity = Identity::generate().unwrap();
    let pem = identity.to_pem();
    let acceptor = || {
        let own = Identity::from_pem(pem.expose().as_bytes()).unwrap();
        TlsAcceptor::new(own.into_key(), None).unwrap()
    };
    let fingerprint = identity.fingerprint();
    let start = |limits| {
        Running::start_secured(&[("tiny", &old)], limits, Reveal::Logits, None, acceptor(), fingerprint)
    };
    let server = start(limits());
    let standing = server.service.now().memory;
    let image = Image::random(old.outline().input, 1);
    let mut early = server.connect().unwrap();
    let served = serve(&new);
    server.service.reload(named(&served), acceptor()).unwrap();
    let before = serve(&old);
    let weights = |served: &ServedModel| served.plan().memory().server_weights;
    let each = |served: &ServedModel| served.plan().server_memory(limits().threads);
    // Running inferences take as much as those of the largest model so far.
    let running = limits().running.get() as u64 * each(&served).saturating_sub(each(&before));
    let both = standing + running + weights(&served);
    assert_eq!(server.service.now().memory, both, "both are held");
    // The same once more takes nothing more.
    server.service.reload(named(&served), acceptor()).unwrap();
    assert_eq!(server.service.now().memory, both);
    classify_rightly(&mut early, &old, &image);
    classify_rightly(&mut server.connect().unwrap(), &new, &image);
    drop(early);
    server.wait_until(|service| service.metrics().clients.get() == 0);
    server.wait_until(|service| service.now().memory == both - weights(&before));

    // Where there is no room for both, nothing changes.
    let needed = Service::memory_for(std::iter::once(before.plan().as_ref()), &limits());
    let server = start(Limits { memory: needed, ..limits() });
    let error = server.service.reload(named(&serve(&new)), acceptor()).unwrap_err();
    assert!(error.to_string().contains("--max-memory"), "{error}");
    assert_eq!(server.service.now().memory, standing);
}

#[test]
fn health_and_metrics_are_shown_on_their_own_address() {
    let model = tiny_model(1);
    let server = Running::start(&[("tiny", &model)], limits());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server.service.show_metrics(listener).unwrap();
    let get = |path: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    };
    assert!(get("/healthz").ends_with("\r\n\r\nok\n"));
    let mut client = server.connect().unwrap();
    classify_rightly(&mut client, &model, &Image::random(model.outline().input, 1));
    server.wait_until(|service| service.metrics().classified.get() == 1);
    let text = get("/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(
        text.contains("\nsordino_classified_total 1\n") && text.contains("\nsordino_clients 1\n"),
        "{text}"
    );
    drop(TcpStream::connect(address).unwrap());
    assert!(get("/else").starts_with("HTTP/1.1 404"));
}

#[test]
fn who_reads_metrics_slowly_keeps_nobody_from_asking_for_health() {
    let model = tiny_model(1);
    let server = Running::start(&[("tiny", &model)], limits());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server.service.show_metrics(listener).unwrap();
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    let mut socket = TcpStream::connect(address).unwrap();
    // Less than a silent one is given.
    socket.set_read_timeout(Some(Duration::from_millis(1500))).unwrap();
    socket.write_all(b"GET /healthz HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n\r\nok\n"), "{text}");
    drop(silent);
}

/// Keeps in memory, each with the hash of its token.
#[derive(Default)]
struct MemoryStore(Mutex<HashMap<StoredId, ([u8; 32], PreparedServer)>>);

impl Store for MemoryStore {
    fn has_room(&self, _owner: &Owner, count: u32) -> Result<(), StoreFault> {
        if count <= 3 {
            Ok(())
        } else {
            Err(StoreFault::Refused(Refusal::new(RefusalCode::Limit, "three at most")))
        }
    }

    fn put(
        &self,
        _: &Owner,
        hash: &[u8; 32],
        id: StoredId,
        prepared: PreparedServer,
    ) -> Result<u64, StoreFault> {
        self.0.lock().unwrap().insert(id, (*hash, prepared));
        Ok(u64::MAX)
    }

    fn take(
        &self,
        _: &Owner,
        token: &Secret<[u8; 32]>,
        ids: &[StoredId],
    ) -> Result<Vec<PreparedServer>, StoreFault> {
        let mut kept = self.0.lock().unwrap();
        let hash = *blake3::hash(token.expose()).as_bytes();
        let is_ours = |id| kept.get(id).is_some_and(|(found, _)| *found == hash);
        if !ids.iter().all(is_ours) {
            return Err(StoreFault::Refused(Refusal::new(RefusalCode::Spent, "unknown or spent")));
        }
        Ok(ids.iter().filter_map(|id| kept.remove(id)).map(|(_, prepared)| prepared).collect())
    }
}

#[test]
fn kept_inferences_are_taken_once_and_only_with_their_token() {
    let model = tiny_model(1);
    let store = Arc::new(MemoryStore::default());
    let kept = Arc::clone(&store);
    let server = Running::start_with(&[("tiny", &model)], limits(), Reveal::Logits, Some(store));
    let mut client = server.connect().unwrap();
    let session = client.session_mut();
    let token = [7; 32];
    let keep = Some(*blake3::hash(&token).as_bytes());
    let ids = session.request(&Request::Prepare { count: 2, store: keep }, |_| {}).unwrap();
    let mut prepared = vec![session.prepare().unwrap(), session.prepare().unwrap()];
    session.await_stored().unwrap();
    assert_eq!((ids.len(), kept.0.lock().unwrap().len()), (2, 2));
    assert_ne!(ids[0], ids[1]);
    let image = Image::random(model.outline().input, 1);
    let take = |token: [u8; 32], id| Request::ClassifyStored { token: Secret::new(token), ids: vec![id] };
    session.request(&take(token, ids[1]), |_| {}).unwrap();
    session.classify(prepared.remove(1), &image).unwrap();
    // Spent, and with a wrong token: each ends a session.
    let error = session.request(&take(token, ids[1]), |_| {}).unwrap_err();
    assert!(matches!(&error, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::Spent));
    let mut other = server.connect().unwrap();
    let error = other.session_mut().request(&take([8; 32], ids[0]), |_| {}).unwrap_err();
    assert!(matches!(&error, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::Spent));
    assert_eq!(kept.0.lock().unwrap().len(), 1);
}
