//! The header by which a balancer says whose connection it passes on: version 2 of the PROXY protocol.
//!
//! It is read from listed balancers alone, who must send it; it comes before TLS and is not protected by it. Whoever could
//! send one could choose the address that limits are counted for.

mod header;

use std::fmt;
use std::io::{self, Read};
use std::net::{IpAddr, TcpStream};
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::Deserialize;

use header::{HEAD_BYTES, body_length, parse_parts};
pub use header::{Proxied, ProxyError, parse};

/// Reads the header of a connection that has just been accepted, and nothing behind it.
///
/// # Errors
/// When it does not come in time or is not one.
pub(crate) fn read(socket: &TcpStream, patience: Duration) -> Result<Proxied, ProxyError> {
    let end = Instant::now() + patience;
    let mut head = [0; HEAD_BYTES];
    read_until(socket, &mut head, end)?;
    let length = body_length(&head)?;
    let mut body = vec![0; length];
    read_until(socket, &mut body, end)?;
    socket.set_read_timeout(None)?;
    parse_parts(&head, &body)
}

fn read_until(mut socket: &TcpStream, mut buffer: &mut [u8], end: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => buffer = &mut buffer[count..],
        }
    }
    Ok(())
}

/// Addresses of balancers: one, or a network written with its bits, such as 10.0.0.0/8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ProxyNetwork {
    address: IpAddr,
    bits: u32,
}

impl ProxyNetwork {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (network, width) = numbered(self.address);
        let (other, other_width) = numbered(address.to_canonical());
        let differing = network ^ other;
        width == other_width && differing.checked_shr(width - self.bits).unwrap_or(0) == 0
    }
}

/// An address as a number, and its bits.
fn numbered(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl FromStr for ProxyNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(text, bits)| (text, Some(bits)));
        let address = address.parse::<IpAddr>().ok();
        let network = address.and_then(|address| {
            let (number, width) = numbered(address);
            let bits = bits.map_or(Some(width), |bits| bits.parse().ok().filter(|bits| *bits <= width))?;
            let inside = number.checked_shl(128 - width + bits).unwrap_or(0);
            (inside == 0).then_some(Self { address, bits })
        });
        network.ok_or_else(|| {
            format!("{text:?} is no address or network of a balancer; write such as 10.0.0.7 or 10.0.0.0/24")
        })
    }
}

impl TryFrom<String> for ProxyNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for ProxyNetwork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::header::SIGNATURE;
    use super::header::tests::{header, tcp4};
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn not_a_byte_behind_the_header_is_read_and_a_slow_one_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut balancer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut socket = listener.accept().unwrap().0;
        balancer.write_all(&header(0x21, 0x11, &tcp4())).unwrap();
        balancer.write_all(b"hello").unwrap();
        assert!(matches!(read(&socket, Duration::from_secs(30)), Ok(Proxied::Client(_))));
        let mut rest = [0; 5];
        socket.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"hello");
        balancer.write_all(&SIGNATURE).unwrap();
        let error = read(&socket, Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, ProxyError::Connection(_)), "{error}");
    }

    #[test]
    fn networks_are_read_strictly_and_hold_their_addresses() {
        let holds = |network: &str, address: &str| {
            network.parse::<ProxyNetwork>().unwrap().contains(address.parse().unwrap())
        };
        assert!(holds("10.0.0.7", "10.0.0.7") && !holds("10.0.0.7", "10.0.0.8"));
        assert!(holds("10.0.0.7", "::ffff:10.0.0.7"));
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("0.0.0.0/0", "1.2.3.4") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("fd00::/8", "fd12::1") && !holds("fd00::/8", "fe80::1") && holds("::/0", "::1"));
        for bad in ["", "balancer", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "::1/129", "10.0.0.0/-1"] {
            assert!(bad.parse::<ProxyNetwork>().is_err(), "{bad}");
        }
        assert_eq!("10.0.0.0/8".parse::<ProxyNetwork>().unwrap().to_string(), "10.0.0.0/8");
    }
}
