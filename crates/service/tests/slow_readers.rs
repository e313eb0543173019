//! A client that reads slowly, a silent and a rude one, among clients that behave.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use client::PrivateClient;
use inference::requests::Request;
use network::image::Image;
use sordino_service::Limits;

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

#[test]
fn who_reads_slowly_while_tables_flow_holds_nobody_up_and_is_sent_home() {
    // More tables than sockets have room for.
    let model = frozen("resnet20:m=8,depths=1+1+1", 32, 1);
    // Steady, so never silent; but far below the least rate, so the phase's time is over at some point.
    let least_rate = 10_000_000;
    let patience = Duration::from_secs(8);
    let two = NonZeroUsize::new(2).unwrap();
    let limits = Limits { running: two, silence: patience, idle: patience, least_rate, ..limits() };
    let server = Running::start(&[("tiny", &model)], limits);
    let mut silent = TcpStream::connect(server.address).unwrap();
    let mut rude = TcpStream::connect(server.address).unwrap();
    rude.write_all(&[0x5a; 4000]).unwrap();
    let plan = Arc::clone(server.connect().unwrap().session_mut().plan());
    let flowing = plan.traffic().offline.bytes_down - plan.memory().client_tables;
    assert!(plan.memory().client_tables > 20_000_000);
    let is_over = Arc::new(AtomicBool::new(false));
    let (address, taken) = slow_reader(server.address, flowing, &is_over);
    let options = server.options();
    let slow = thread::spawn(move || {
        let mut client = PrivateClient::connect(&address.to_string(), options).unwrap();
        let session = client.session_mut();
        session.request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap();
        session.prepare().err()
    });
    while taken.load(Ordering::SeqCst) <= flowing {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(server.service.now().running, 1, "the slow one has a place");
    for number in 0..3 {
        let mut client = server.connect().unwrap();
        classify_rightly(&mut client, &model, &Image::random(model.outline().input, number));
        client.finish().unwrap();
    }
    // It still has its place when the others are done.
    server.wait_until(|service| service.now().running <= 1);
    assert_eq!(server.service.now().running, 1);
    server.wait_until(|service| service.metrics().clients.get() == 0);
    assert_eq!(server.service.now().running, 0, "nobody is waited for without end");
    is_over.store(true, Ordering::SeqCst);
    assert!(slow.join().unwrap().is_some(), "its tables never came to an end");
    silent.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    silent.read_to_end(&mut Vec::new()).expect("the silent one was sent home");
}
