//! What one client may take, and that it hears what it may not: connections, memory, quotas, time to speak, and whose
//! connection a balancer passes on.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use client::{ClientError, PrivateClient};
use inference::InferenceError;
use inference::connection::refusal::RefusalCode;
use inference::connection::{Identity, TlsAcceptor};
use inference::plan::Reveal;
use inference::requests::{MAX_PROBE_BYTES, Request};
use inference::server::{ServedModel, WeightMemory};
use inference::setup::messages::ModelName;
use network::image::Image;
use sordino_service::limits::ClientMemory;
use sordino_service::store::{PreparedStore, StoreOptions};
use sordino_service::{ClientLimits, Limits, Service, ServiceParts};

use support::{Running, classify_rightly, limits, tiny_model};

/// The sentence of a limit, with all of these words in it.
fn assert_limit(error: &InferenceError, words: &[&str]) {
    let InferenceError::Refused { refusal, .. } = error else { panic!("{error}") };
    let text = refusal.to_string();
    assert_eq!(refusal.code, RefusalCode::Limit, "{text}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

fn inner(error: ClientError) -> InferenceError {
    match error {
        ClientError::Inference(error) => error,
        other => panic!("{other}"),
    }
}

fn with(per_client: ClientLimits) -> Limits {
    Limits { per_client, ..limits() }
}

#[test]
fn one_client_has_so_many_connections_and_another_finds_room() {
    let model = tiny_model(1);
    let per_client = ClientLimits { connections: Some(2), ..ClientLimits::default() };
    let server = Running::start(&[("tiny", &model)], with(per_client));
    let first = server.connect().unwrap();
    let second = server.connect().unwrap();
    let error = server.connect().err().unwrap();
    assert_limit(&inner(error), &["2 connections", "try again"]);
    first.finish().unwrap();
    server.wait_until(|service| service.metrics().clients.get() == 1);
    server.connect().unwrap().finish().unwrap();
    drop(second);
}

#[test]
fn hourly_quotas_hold_across_connections_and_restarts_and_say_when_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let image = Image::random(model.outline().input, 1);
    let per_client = ClientLimits { preparations: Some(4), answers: Some(2), ..ClientLimits::default() };
    let serve = || {
        let store = PreparedStore::open(StoreOptions::in_folder(folder.path())).unwrap();
        Running::restart("tiny", &model, with(per_client), Some(Arc::new(store)))
    };
    let first = serve();
    let mut client = first.connect().unwrap();
    classify_rightly(&mut client, &model, &image);
    client.prepare(2).unwrap();
    let error = client.prepare(2).unwrap_err();
    assert_limit(&inner(error), &["4 inferences prepared in an hour", "2 more are possible in", "seconds"]);
    assert!(first.service.close(first.address, Duration::from_secs(10)));

    let second = serve();
    let error = second.connect().unwrap().prepare(2).unwrap_err();
    assert_limit(&inner(error), &["4 inferences prepared in an hour"]);
    let mut client = second.connect().unwrap();
    classify_rightly(&mut client, &model, &image);
    assert_eq!(second.service.metrics().prepared.get(), 1, "what was refused was not counted");
    let mut client = second.connect().unwrap();
    let error =
        client.session_mut().request(&Request::Prepare { count: 5, store: None }, |_| {}).unwrap_err();
    assert_limit(&error, &["4 inferences prepared in an hour", "fewer than 5"]);
}

#[test]
fn sessions_are_counted_before_anything_is_computed_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let per_client = ClientLimits { sessions: Some(2), ..ClientLimits::default() };
    let serve = || {
        let store = PreparedStore::open(StoreOptions::in_folder(folder.path())).unwrap();
        Running::restart("tiny", &model, with(per_client), Some(Arc::new(store)))
    };
    let first = serve();
    let mut options = first.options();
    options.wishes.model = ModelName::new("another").unwrap();
    assert!(
        PrivateClient::connect(&first.address.to_string(), options).is_err(),
        "a model that is not there"
    );
    first.connect().unwrap().finish().unwrap();
    first.connect().unwrap().finish().unwrap();
    assert!(first.service.close(first.address, Duration::from_secs(10)));

    let second = serve();
    let error = second.connect().err().unwrap();
    assert_limit(&inner(error), &["2 sessions begun in an hour", "1 more are possible in", "seconds"]);
    assert_eq!(second.service.metrics().sessions.get(), 0);
}

#[test]
fn answers_are_counted_before_anything_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let per_client = ClientLimits { answers: Some(1), ..ClientLimits::default() };
    let store = Arc::new(PreparedStore::open(StoreOptions::in_folder(folder.path())).unwrap());
    let server =
        Running::start_with(&[("tiny", &model)], with(per_client), Reveal::Logits, Some(store.clone()));
    let mut client = server.connect().unwrap();
    let session = client.session_mut();
    let hash = *blake3::hash(&[7; 32]).as_bytes();
    let ids = session.request(&Request::Prepare { count: 2, store: Some(hash) }, |_| {}).unwrap();
    let mut prepared = vec![session.prepare().unwrap(), session.prepare().unwrap()];
    session.await_stored().unwrap();
    let ask = |ids: &[_]| Request::ClassifyStored {
        token: crypto::secret::Secret::new([7; 32]),
        ids: ids.to_vec(),
    };
    session.request(&ask(&ids[..1]), |_| {}).unwrap();
    session.classify(prepared.remove(0), &Image::random(model.outline().input, 1)).unwrap();
    let error = session.request(&ask(&ids[1..]), |_| {}).unwrap_err();
    assert_limit(&error, &["1 images answered in an hour", "seconds"]);
    assert_eq!(store.usage(None).unwrap().count, 1, "it waits for a later hour");
}

#[test]
fn a_batch_takes_memory_for_each_of_its_images() {
    let folder = tempfile::tempdir().unwrap();
    let model = tiny_model(1);
    let plan = inference::plan::Plan::new(Arc::new(model.outline().clone()), Reveal::Logits).unwrap();
    let online = plan.server_online_memory() + plan.server_prepared_memory() + plan.server_stored_memory();
    let one = plan.server_memory(limits().threads) + plan.server_stored_memory();
    let most = one.max(2 * online);
    let per_client = ClientLimits { memory: ClientMemory::AtMost(most), ..ClientLimits::default() };
    let store = Arc::new(PreparedStore::open(StoreOptions::in_folder(folder.path())).unwrap());
    let server =
        Running::start_with(&[("tiny", &model)], with(per_client), Reveal::Logits, Some(store.clone()));
    let too_many = most / online + 1;
    let mut client = server.connect().unwrap();
    let hash = *blake3::hash(&[7; 32]).as_bytes();
    let session = client.session_mut();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.extend(session.request(&Request::Prepare { count: 1, store: Some(hash) }, |_| {}).unwrap());
        session.prepare().unwrap();
        session.await_stored().unwrap();
    }
    let ids = ids.iter().copied().cycle().take(too_many as usize).collect();
    let token = crypto::secret::Secret::new([7; 32]);
    let error = session.request(&Request::ClassifyStored { token, ids }, |_| {}).unwrap_err();
    assert_limit(&error, &[&format!("{too_many} images at once"), &format!("at most {}", too_many - 1)]);
    assert_eq!(store.usage(None).unwrap().count, 3, "nothing was taken");
    server.wait_until(|service| service.now().running == 0);
}

#[test]
fn memory_is_taken_for_all_images_of_a_request_and_given_back() {
    let model = tiny_model(1);
    let server = Running::start(&[("tiny", &model)], limits());
    let standing = server.service.now().memory;
    let mut client = server.connect().unwrap();
    let session = client.session_mut();
    session.request(&Request::Prepare { count: 3, store: None }, |_| {}).unwrap();
    let plan = Arc::clone(session.plan());
    let (one, kept) = (plan.server_offline_memory(limits().threads), plan.server_prepared_memory());
    server.wait_until(|service| service.now().memory == standing + one + 3 * kept);
    for _ in 0..3 {
        session.prepare().unwrap();
    }
    server.wait_until(|service| service.now().memory == standing + 3 * kept);
    client.finish().unwrap();
    server.wait_until(|service| service.now().memory == standing);
}

/// A client that prepares one after the other, as [`client::ReadyClient`] does, is told when it has enough. It used to wait for memory
/// that only itself could give back.
#[test]
fn a_client_that_keeps_all_it_may_can_still_use_it() {
    let model = tiny_model(1);
    let plan = inference::plan::Plan::new(Arc::new(model.outline().clone()), Reveal::Logits).unwrap();
    let kept = plan.server_prepared_memory();
    let turn = plan.server_offline_memory(limits().threads).max(plan.server_online_memory());
    // Three are kept; a fourth would fit in beside them, but no turn.
    let most = turn + 3 * kept + kept / 2;
    let per_client = ClientLimits { memory: ClientMemory::AtMost(most), ..ClientLimits::default() };
    let server = Running::start(&[("tiny", &model)], with(per_client));
    let mut client = server.connect().unwrap();
    (0..3).for_each(|_| client.prepare(1).unwrap());
    let mut second = server.connect().unwrap();
    assert_limit(
        &inner(second.prepare(1).unwrap_err()),
        &["memory here for what is prepared", "use what is"],
    );
    for number in 0..3 {
        client.classify(&Image::random(model.outline().input, number)).unwrap();
    }
    assert_eq!(client.prepared(), 0);
    client.prepare(3).unwrap();
    let error = inner(client.prepare(1).unwrap_err());
    assert_limit(&error, &["memory here for what is prepared"]);
}

#[test]
fn a_share_that_is_too_small_for_one_image_is_refused_before_anybody_comes() {
    let model = tiny_model(1);
    let plan = inference::plan::Plan::new(Arc::new(model.outline().clone()), Reveal::Logits).unwrap();
    let turn = plan.server_offline_memory(limits().threads).max(plan.server_online_memory());
    let served = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let with_share = |bytes| {
        let per_client = ClientLimits { memory: ClientMemory::AtMost(bytes), ..ClientLimits::default() };
        Service::new(ServiceParts {
            models: BTreeMap::from([(ModelName::new("tiny").unwrap(), Arc::clone(&served))]),
            acceptor: TlsAcceptor::new(Identity::generate().unwrap().into_key(), None).unwrap(),
            limits: with(per_client),
            store: None,
            proxies: Vec::new(),
        })
        .err()
    };
    let whole = turn + plan.server_prepared_memory();
    let error = with_share(whole - 1).unwrap().to_string();
    assert!(error.contains("--client-memory allows"), "{error}");
    assert!(with_share(whole).is_none());
}

/// Passes what the server says on at once, and what the client says byte by byte from the moment that it is told to.
fn trickle(server: SocketAddr, is_slow: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, is_slow) = (listener.local_addr().unwrap(), Arc::clone(is_slow));
    thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(server).unwrap();
        let (mut from, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
        let (mut from, mut to, mut bytes) = (near, far, [0; 4096]);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            for byte in bytes[..count].chunks(if is_slow.load(Ordering::SeqCst) { 1 } else { 4096 }) {
                if to.write_all(byte).is_err() {
                    return;
                }
                if is_slow.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(100));
                }
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    address
}

#[test]
fn who_has_begun_to_ask_must_come_to_an_end() {
    let model = tiny_model(1);
    // Long enough to be idle, and never silent: only the clock that the first byte starts can end this.
    let limits = Limits { idle: Duration::from_secs(3600), least_rate: 10_000_000, ..limits() };
    let server = Running::start(&[("tiny", &model)], limits);
    let is_slow = Arc::new(AtomicBool::new(false));
    let address = trickle(server.address, &is_slow);
    let mut slow = PrivateClient::connect(&address.to_string(), server.options()).unwrap();
    slow.cost().unwrap();
    is_slow.store(true, Ordering::SeqCst);
    let asking = thread::spawn(move || slow.cost().err());
    server.wait_until(|service| service.metrics().clients.get() == 0);
    assert!(asking.join().unwrap().is_some(), "its probe never came to an end");
}

#[test]
fn a_connection_has_so_many_probes() {
    let model = tiny_model(1);
    let server = Running::start(&[("tiny", &model)], limits());
    let mut client = server.connect().unwrap();
    let error = (0..12).find_map(|_| client.session_mut().measure_link().err()).unwrap();
    assert_limit(&error, &["64 messages", "connect again"]);
    const { assert!(MAX_PROBE_BYTES <= 1 << 20) };
}

/// A server behind balancers at these addresses.
fn behind(proxies: &[&str], per_client: ClientLimits) -> Running {
    let identity = Identity::generate().unwrap();
    let fingerprint = identity.fingerprint();
    let acceptor = TlsAcceptor::new(identity.into_key(), None).unwrap();
    let served = ServedModel::new(&tiny_model(1), Reveal::Logits, WeightMemory::Everything).unwrap();
    let models = BTreeMap::from([(ModelName::new("tiny").unwrap(), Arc::new(served))]);
    let proxies = proxies.iter().map(|proxy| proxy.parse().unwrap()).collect();
    Running::run_parts(
        ServiceParts { models, acceptor, limits: with(per_client), store: None, proxies },
        fingerprint,
    )
}

/// A balancer that says these bytes first, for every connection.
fn balancer(server: SocketAddr, header: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let mut far = TcpStream::connect(server).unwrap();
            far.write_all(&header).unwrap();
            let pairs = [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)];
            for (mut from, mut to) in pairs {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

fn header(client: [u8; 4]) -> Vec<u8> {
    let addresses = [&client[..], &[198, 51, 100, 1], &[0x12, 0x34], &[0x1d, 0x11]].concat();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x21, 0x11, 0, 12], &addresses].concat()
}

#[test]
fn limits_are_those_of_the_client_behind_a_balancer() {
    let server = behind(&["127.0.0.0/8"], ClientLimits { connections: Some(1), ..ClientLimits::default() });
    let through = |address: SocketAddr| PrivateClient::connect(&address.to_string(), server.options());
    let one = balancer(server.address, header([192, 0, 2, 1]));
    let other = balancer(server.address, header([192, 0, 2, 2]));
    let mut first = through(one).unwrap();
    let second = through(other).unwrap();
    assert_limit(&inner(through(one).err().unwrap()), &["1 connections"]);
    classify_rightly(&mut first, &tiny_model(1), &Image::random(tiny_model(1).outline().input, 1));
    drop((first, second));
    server.wait_until(|service| service.metrics().clients.get() == 0);
    // A balancer's own look is no failure; no header, or another, is one.
    let before = server.service.metrics().failures.get();
    let local = [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[0x20, 0, 0, 0]].concat();
    drop(TcpStream::connect(server.address).unwrap().write_all(&local));
    server.wait_until(|service| service.metrics().connections.get() == 4);
    server.wait_until(|service| service.metrics().clients.get() == 0);
    assert_eq!(server.service.metrics().failures.get(), before);
    assert!(server.connect().is_err(), "no header");
    server.wait_until(|service| service.metrics().failures.get() == before + 1);
    assert!(
        through(balancer(server.address, header([192, 0, 2, 3])[..20].to_vec())).is_err(),
        "half a header"
    );
}

#[test]
fn nobody_else_says_whose_connection_it_is() {
    let server = behind(&["192.0.2.9"], ClientLimits::default());
    server.connect().unwrap().finish().unwrap();
    let forged = balancer(server.address, header([192, 0, 2, 1]));
    assert!(PrivateClient::connect(&forged.to_string(), server.options()).is_err());
}
