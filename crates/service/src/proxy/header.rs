//! The header itself, as bytes.
//!
//! ```text
//! signature [12] | version and command u8 | family u8 | length u16 | addresses | extensions      (numbers big-endian)
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What every header begins with.
pub(crate) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes before the addresses.
pub(crate) const HEAD_BYTES: usize = 16;
/// The most bytes behind them that are read: addresses and what balancers add to them.
const MAX_BODY_BYTES: usize = 2048;
/// Bytes of an extension before its value: its type and its length.
const EXTENSION_HEAD_BYTES: usize = 3;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxied {
    /// The balancer's own, to see whether somebody is there.
    Local,
    /// That of a client at this address.
    Client(IpAddr),
}

/// A header that is not one.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// It did not come.
    #[error("the balancer's header did not come; let it send version 2 of the PROXY protocol")]
    Connection(#[from] io::Error),
    /// Something else came.
    #[error(
        "the balancer sent something else than a header of version 2 of the PROXY protocol; let it send one (HAProxy: \
         send-proxy-v2), or take it off --proxy-protocol"
    )]
    Signature,
    /// A version or command that is not known.
    #[error("the balancer's header has version and command {came:#04x}, where 0x20 or 0x21 was expected")]
    Command {
        /// What came.
        came: u8,
    },
    /// Not TCP.
    #[error(
        "the balancer's header is about a connection of kind {came:#04x}; 0x11 and 0x21 (TCP) are understood"
    )]
    Family {
        /// What came.
        came: u8,
    },
    /// Too long.
    #[error("the balancer's header announces {came} bytes; at most {MAX_BODY_BYTES} are read")]
    TooLong {
        /// What came.
        came: usize,
    },
    /// Too short for what it is, or with extensions that do not fill it.
    #[error("the balancer's header is cut off or too long for what it says")]
    Malformed,
}

/// Reads a header that is these bytes and no others.
///
/// # Errors
/// When it is not one.
pub fn parse(bytes: &[u8]) -> Result<Proxied, ProxyError> {
    let (head, body) = bytes.split_first_chunk().ok_or(ProxyError::Malformed)?;
    if body_length(head)? != body.len() {
        return Err(ProxyError::Malformed);
    }
    parse_parts(head, body)
}

/// How much stands behind the head.
pub(crate) fn body_length(head: &[u8; HEAD_BYTES]) -> Result<usize, ProxyError> {
    if head[..SIGNATURE.len()] != SIGNATURE {
        return Err(ProxyError::Signature);
    }
    if !matches!(head[12], 0x20 | 0x21) {
        return Err(ProxyError::Command { came: head[12] });
    }
    let came = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if came > MAX_BODY_BYTES { Err(ProxyError::TooLong { came }) } else { Ok(came) }
}

pub(crate) fn parse_parts(head: &[u8; HEAD_BYTES], body: &[u8]) -> Result<Proxied, ProxyError> {
    if head[12] == 0x20 {
        // Whatever stands behind it says nothing about this connection.
        return Ok(Proxied::Local);
    }
    // Where from, where to, both ports; where from is what counts.
    let (client, extensions) = match head[13] {
        0x11 => {
            let (addresses, rest) = body.split_first_chunk::<12>().ok_or(ProxyError::Malformed)?;
            let [a, b, c, d, ..] = *addresses;
            (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), rest)
        }
        0x21 => {
            let (addresses, rest) = body.split_first_chunk::<36>().ok_or(ProxyError::Malformed)?;
            let client = addresses.first_chunk::<16>().ok_or(ProxyError::Malformed)?;
            (IpAddr::V6(Ipv6Addr::from(*client)), rest)
        }
        came => return Err(ProxyError::Family { came }),
    };
    skip_extensions(extensions)?;
    Ok(Proxied::Client(client.to_canonical()))
}

/// Nothing in them is needed; but they fill the header to its end.
fn skip_extensions(mut rest: &[u8]) -> Result<(), ProxyError> {
    while !rest.is_empty() {
        let ([_, high, low], behind) =
            rest.split_first_chunk::<EXTENSION_HEAD_BYTES>().ok_or(ProxyError::Malformed)?;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        rest = behind.get(length..).ok_or(ProxyError::Malformed)?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::proxy) fn header(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, body].concat()
    }

    pub(in crate::proxy) fn tcp4() -> Vec<u8> {
        [&[192, 0, 2, 7][..], &[198, 51, 100, 1], &[0x12, 0x34], &[0x1d, 0x11]].concat()
    }

    #[test]
    fn clients_and_the_balancers_own_connections_are_told_apart() {
        let client = |address: &str| Proxied::Client(address.parse().unwrap());
        assert_eq!(parse(&header(0x21, 0x11, &tcp4())).unwrap(), client("192.0.2.7"));
        let with_extensions = [&tcp4()[..], &[4, 0, 2, 9, 9], &[5, 0, 0]].concat();
        assert_eq!(parse(&header(0x21, 0x11, &with_extensions)).unwrap(), client("192.0.2.7"));
        let six: std::net::Ipv6Addr = "2001:db8::5".parse().unwrap();
        let addresses = [&six.octets()[..], &[0; 16], &[0; 4]].concat();
        assert_eq!(parse(&header(0x21, 0x21, &addresses)).unwrap(), client("2001:db8::5"));
        let mapped: std::net::Ipv6Addr = "::ffff:192.0.2.7".parse().unwrap();
        let addresses = [&mapped.octets()[..], &[0; 20]].concat();
        assert_eq!(parse(&header(0x21, 0x21, &addresses)).unwrap(), client("192.0.2.7"));
        for local in [header(0x20, 0, &[]), header(0x20, 0x11, &tcp4()), header(0x20, 0, &[1, 2])] {
            assert_eq!(parse(&local).unwrap(), Proxied::Local);
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let good = header(0x21, 0x11, &tcp4());
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_err(), "{length}");
        }
        assert!(parse(&[&good[..], &[0]].concat()).is_err());
        for byte in 0..SIGNATURE.len() {
            let mut bytes = good.clone();
            bytes[byte] ^= 1;
            assert!(matches!(parse(&bytes), Err(ProxyError::Signature)));
        }
        for command in [0x00, 0x11, 0x22, 0x2f, 0x31] {
            let error = parse(&header(command, 0x11, &tcp4())).unwrap_err();
            assert!(matches!(error, ProxyError::Command { came } if came == command));
        }
        for family in [0x00, 0x12, 0x22, 0x31, 0x10] {
            let error = parse(&header(0x21, family, &[0; 216])).unwrap_err();
            assert!(matches!(error, ProxyError::Family { came } if came == family));
        }
        for extension in [&[4][..], &[4, 0], &[4, 0, 1], &[4, 0, 2, 9], &[4, 0, 0, 4]] {
            let body = [&tcp4()[..], extension].concat();
            assert!(matches!(parse(&header(0x21, 0x11, &body)), Err(ProxyError::Malformed)), "{extension:?}");
        }
        let long = header(0x21, 0x11, &[0; MAX_BODY_BYTES + 1]);
        assert!(matches!(parse(&long), Err(ProxyError::TooLong { came: 2049 })));
        assert!(matches!(parse(b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2\r\n"), Err(ProxyError::Signature)));
    }
}
