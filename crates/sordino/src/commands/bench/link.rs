//! A link with a rate and a delay, in user space: a relay between the two parties' sockets.
//!
//! Each direction is one pair of threads: one reads and stamps, the other waits until the stamp plus half the round
//! trip and writes. The rate is kept by a running clock of when the link is free again, as a real queue would.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// The rate and delay of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Link {
    /// Bits per second in each direction; none is unlimited.
    pub(crate) bits_per_second: Option<f64>,
    /// Time for there and back.
    pub(crate) round_trip: Duration,
}

impl Link {
    /// What the loopback device does by itself.
    pub(crate) const LOOPBACK: Self = Self { bits_per_second: None, round_trip: Duration::ZERO };

    /// The least time for so many bytes, the larger direction counted, and so many changes of direction.
    pub(crate) fn least_time(&self, bytes_up: u64, bytes_down: u64, rounds: u64) -> Duration {
        let transfer = self.bits_per_second.map_or(0.0, |rate| (bytes_up + bytes_down) as f64 * 8.0 / rate);
        Duration::from_secs_f64(transfer) + self.round_trip.mul_f64(rounds as f64 / 2.0)
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bits_per_second {
            None if self.round_trip.is_zero() => formatter.write_str("loopback"),
            None => write!(formatter, "{} ms round trip", self.round_trip.as_secs_f64() * 1e3),
            Some(rate) => {
                write!(
                    formatter,
                    "{} Mb/s, {} ms round trip",
                    rate / 1e6,
                    self.round_trip.as_secs_f64() * 1e3
                )
            }
        }
    }
}

/// `loopback`, `lan` (10 Gb/s, 0.2 ms), `wan` (100 Mb/s, 50 ms), or such as `1gbps,20ms`.
impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let link = |rate, milliseconds| Self {
            bits_per_second: Some(rate),
            round_trip: Duration::from_secs_f64(milliseconds / 1e3),
        };
        match text {
            "loopback" => return Ok(Self::LOOPBACK),
            "lan" => return Ok(link(10e9, 0.2)),
            "wan" => return Ok(link(100e6, 50.0)),
            _ => {}
        }
        let parsed = text.split_once(',').and_then(|(rate, delay)| {
            let (number, unit) = rate
                .strip_suffix("gbps")
                .map(|number| (number, 1e9))
                .or_else(|| rate.strip_suffix("mbps").map(|number| (number, 1e6)))?;
            let rate = number.parse::<f64>().ok().filter(|rate| *rate > 0.0)? * unit;
            let delay =
                delay.strip_suffix("ms")?.parse::<f64>().ok().filter(|delay| (0.0..1e5).contains(delay))?;
            Some(link(rate, delay))
        });
        parsed.ok_or_else(|| format!("{text:?} is no link; write lan, wan, loopback, or such as 1gbps,20ms"))
    }
}

/// Starts a relay to a server; the address to connect to instead comes back. It ends with the connection.
pub(crate) fn relay(link: Link, server: SocketAddr) -> std::io::Result<SocketAddr> {
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
    fn links_are_read_by_name_or_numbers() {
        assert_eq!("lan".parse::<Link>().unwrap().bits_per_second, Some(10e9));
        let link: Link = "1gbps,20ms".parse().unwrap();
        assert_eq!((link.bits_per_second, link.round_trip), (Some(1e9), Duration::from_millis(20)));
        assert_eq!(link.least_time(1_000_000, 0, 2), Duration::from_millis(28));
        for bad in ["", "fast", "1gbps", "0gbps,1ms", "nangbps,1ms", "1gbps,-1ms", "1tbps,1ms"] {
            assert!(bad.parse::<Link>().is_err(), "{bad}");
        }
    }

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
