//! A link with a rate and a delay, in user space: a relay between the two parties' sockets.
//!
//! Each direction is one pair of threads: one reads and stamps, the other waits until the stamp plus half the round
//! trip and writes. The rate is kept by a running clock of when the link is free again, as a real queue would.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::commands::link::Link;

/// Starts a relay to a server; the address to connect to instead comes back. It ends with the connection.
pub(super) fn relay(link: Link, server: SocketAddr) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else { return };
        let Ok(server) = TcpStream::connect(server) else { return };
        for socket in [&client, &server] {
            let _ = socket.set_nodelay(true);
        }
        if let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) {
            forward(link, from_client, server);
            forward(link, from_server, client);
        }
    });
    Ok(address)
}

fn forward(link: Link, mut from: TcpStream, to: TcpStream) {
    // A few hundred chunks in flight are more than any link here holds.
    let (sender, receiver) = sync_channel(512);
    thread::spawn(move || {
        let mut free = Instant::now();
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let occupied = link.bits_per_second.map_or(0.0, |rate| count as f64 * 8.0 / rate);
            free = free.max(Instant::now()) + Duration::from_secs_f64(occupied);
            if sender.send((free + link.round_trip / 2, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || deliver(&receiver, to));
}

fn deliver(receiver: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (due, bytes) in receiver {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_delays_both_ways() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link { bits_per_second: None, round_trip: Duration::from_millis(40) };
        let address = relay(link, listener.local_addr().unwrap()).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let start = Instant::now();
        client.write_all(b"there").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut bytes = [0; 5];
        server.read_exact(&mut bytes).unwrap();
        server.write_all(&bytes).unwrap();
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"there");
        assert!(start.elapsed() >= Duration::from_millis(40));
    }
}
