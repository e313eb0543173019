//! A client that reads slowly, a silent and a rude one, among clients that behave.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "the long form prints what it measured")]

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use client::PrivateClient;
use inference::InferenceError;
use inference::plan::{Depth, ReluRounding, Reveal, Terms};
use inference::requests::Request;
use network::image::Image;
use network::inference_model::InferenceModel;
use sordino_service::{ClientLimits, Limits};

use support::{Running, classify_rightly, frozen, limits};

/// Passes what the client says on at once, and what the server says slowly from the moment that `flowing` bytes went by.
/// Counts them, and ends when told to.
fn slow_reader(server: SocketAddr, flowing: u64, is_over: &Arc<AtomicBool>) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, taken) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let (counter, is_over) = (Arc::clone(&taken), Arc::clone(is_over));
    thread::spawn(move || {
        let near = listener.accept().unwrap().0;
        let far = TcpStream::connect(server).unwrap();
        let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
        let (mut from, mut to, mut bytes) = (far, near, [0; 1000]);
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() || is_over.load(Ordering::SeqCst) {
                break;
            }
            let passed = counter.fetch_add(count as u64, Ordering::SeqCst);
            if passed > flowing {
                thread::sleep(Duration::from_millis(100));
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    (address, taken)
}

/// A client that reads slowly from the moment that tables flow, in a thread of its own.
struct SlowReader {
    taken: Arc<AtomicU64>,
    flowing: u64,
    thread: thread::JoinHandle<Option<InferenceError>>,
}

impl SlowReader {
    fn start(server: &Running, flowing: u64, is_over: &Arc<AtomicBool>) -> Self {
        let (address, taken) = slow_reader(server.address, flowing, is_over);
        let options = server.options();
        let thread = thread::spawn(move || {
            let mut client = PrivateClient::connect(&address.to_string(), options).unwrap();
            let session = client.session_mut();
            session.request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap();
            session.prepare().err()
        });
        Self { taken, flowing, thread }
    }

    fn is_slow(&self) -> bool {
        self.taken.load(Ordering::SeqCst) > self.flowing
    }
}

/// Garbled circuits have long messages.
const CIRCUITS: Terms = Terms { reveal: Reveal::Logits, relus: ReluRounding::Nearest };

/// More tables than sockets have room for.
fn large_model() -> InferenceModel {
    frozen("resnet20:m=8,depths=1+1+1", 32, 1)
}

/// Bytes to the client of one offline phase before its tables.
fn bytes_before_tables(server: &Running) -> u64 {
    let mut client = server.connect().unwrap();
    let plan = Arc::clone(client.session_mut().plan());
    client.finish().unwrap();
    assert!(plan.memory().client_tables > 20_000_000);
    plan.traffic(Depth::Four).offline.bytes_down - plan.memory().client_tables
}

#[test]
fn who_reads_slowly_while_tables_flow_has_no_place_and_is_sent_home() {
    let model = large_model();
    // Steady, so never silent; but far below the least rate, so the phase's time is over at some point.
    let least_rate = 10_000_000;
    let patience = Duration::from_secs(8);
    let limits =
        Limits { running: NonZeroUsize::MIN, silence: patience, idle: patience, least_rate, ..limits() };
    let server = Running::start_with(&[("tiny", &model)], limits, CIRCUITS, None);
    let mut silent = TcpStream::connect(server.address).unwrap();
    let mut rude = TcpStream::connect(server.address).unwrap();
    rude.write_all(&[0x5a; 4000]).unwrap();
    let flowing = bytes_before_tables(&server);
    let is_over = Arc::new(AtomicBool::new(false));
    let slow = SlowReader::start(&server, flowing, &is_over);
    server.wait_until(|_| slow.is_slow());
    server.wait_until(|service| service.now().running == 0);
    server.wait_until(|service| service.metrics().clients.get() == 0);
    assert_eq!(server.service.now().running, 0, "nobody is waited for without end");
    is_over.store(true, Ordering::SeqCst);
    assert!(slow.thread.join().unwrap().is_some(), "its tables never came to an end");
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    silent.read_to_end(&mut Vec::new()).expect("the silent one was sent home");
}

#[test]
fn more_slow_readers_than_places_and_idle_clients_hold_nobody_up() {
    let model = large_model();
    let two = NonZeroUsize::new(2).unwrap();
    let patience = Duration::from_secs(600);
    let limits = Limits { running: two, silence: patience, per_client: ClientLimits::NONE, ..limits() };
    let server = Running::start_with(&[("tiny", &model)], limits, CIRCUITS, None);
    let idle: Vec<_> = (0..20).map(|_| server.connect().unwrap()).collect();
    let flowing = bytes_before_tables(&server);
    let is_over = Arc::new(AtomicBool::new(false));
    let slow: Vec<_> = (0..4).map(|_| SlowReader::start(&server, flowing, &is_over)).collect();
    server.wait_until(|_| slow.iter().all(SlowReader::is_slow));
    for number in 0..3 {
        let mut client = server.connect().unwrap();
        classify_rightly(&mut client, &model, &Image::random(model.outline().input, number));
        client.finish().unwrap();
    }
    // All of them are still there: nobody had to be sent home for this.
    server.wait_until(|service| service.metrics().classified.get() == 3);
    assert_eq!(server.service.metrics().failures.get(), 0);
    server.wait_until(|service| service.metrics().clients.get() == (slow.len() + idle.len()) as i64);
    is_over.store(true, Ordering::SeqCst);
    slow.into_iter().for_each(|slow| drop(slow.thread.join()));
}

/// How long an honest client waits for one image, from door to door: the median of several.
fn honest_seconds(server: &Running, model: &InferenceModel) -> f64 {
    let mut times: Vec<_> = (0..9)
        .map(|number| {
            let start = Instant::now();
            let mut client = server.connect().unwrap();
            classify_rightly(&mut client, model, &Image::random(model.outline().input, number));
            client.finish().unwrap();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// `cargo test --release -p sordino-service --test slow_readers -- --ignored --nocapture`
#[test]
#[ignore = "a measurement of a minute or two: eight slow readers and a thousand idle connections beside an honest client"]
fn an_honest_client_among_slow_readers_and_idle_connections() {
    let model = large_model();
    let two = NonZeroUsize::new(2).unwrap();
    let patience = Duration::from_secs(600);
    let limits =
        Limits { clients: 1100, running: two, silence: patience, per_client: ClientLimits::NONE, ..limits() };
    let server = Running::start_with(&[("tiny", &model)], limits, CIRCUITS, None);
    let flowing = bytes_before_tables(&server);
    let alone = honest_seconds(&server, &model);
    let idle: Vec<_> = (0..1000).map(|_| server.connect().unwrap()).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let slow: Vec<_> = (0..8).map(|_| SlowReader::start(&server, flowing, &is_over)).collect();
    server.wait_until(|_| slow.iter().all(SlowReader::is_slow));
    let among = honest_seconds(&server, &model);
    let there = server.service.metrics().clients.get();
    println!(
        "alone {alone:.2} s, beside {} slow readers and {} idle connections {among:.2} s: {:.2} times as long; \
         {there} are still connected",
        slow.len(),
        idle.len(),
        among / alone
    );
    assert!(server.service.metrics().failures.get() == 0, "nobody had to be sent home");
    is_over.store(true, Ordering::SeqCst);
    slow.into_iter().for_each(|slow| drop(slow.thread.join()));
}
