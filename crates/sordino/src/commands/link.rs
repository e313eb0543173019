//! The network between the parties, as `--link` names it.

use std::str::FromStr;
use std::time::Duration;

use inference::client::LinkSpeed;
use inference::plan::Depth;

/// The rate and delay of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    /// Bits per second in each direction; none is unlimited.
    pub(super) bits_per_second: Option<f64>,
    /// Time for there and back.
    pub(super) round_trip: Duration,
}

impl Link {
    /// What the loopback device does by itself.
    pub(super) const LOOPBACK: Self = Self { bits_per_second: None, round_trip: Duration::ZERO };
    /// A fast local network: 10 Gb/s, 0.2 ms.
    pub(super) const LAN: Self = Self { bits_per_second: Some(10e9), round_trip: Duration::from_micros(200) };
    /// A slow wide one: 100 Mb/s, 50 ms.
    pub(super) const WAN: Self = Self { bits_per_second: Some(100e6), round_trip: Duration::from_millis(50) };

    /// The word that names it, where there is one.
    pub(super) fn word(&self) -> Option<&'static str> {
        let named = [("loopback", Self::LOOPBACK), ("lan", Self::LAN), ("wan", Self::WAN)];
        named.into_iter().find(|(_, link)| link == self).map(|(word, _)| word)
    }

    /// The same as a client measures it.
    pub(super) fn speed(&self) -> LinkSpeed {
        let rate = self.bits_per_second.map_or(f64::INFINITY, |rate| rate / 8.0);
        LinkSpeed { round_trip: self.round_trip, down: rate, up: rate }
    }

    /// How deep the trees of transfers are best.
    pub(super) fn depth(&self) -> Depth {
        self.bits_per_second.map_or(Depth::Four, |rate| Depth::for_rate(rate as u64))
    }

    /// The least time for so many bytes and changes of direction: messages wait for each other, so that the two
    /// directions are never busy at once.
    pub(super) fn least_time(&self, bytes_up: u64, bytes_down: u64, rounds: u64) -> Duration {
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
        match text {
            "loopback" => return Ok(Self::LOOPBACK),
            "lan" => return Ok(Self::LAN),
            "wan" => return Ok(Self::WAN),
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
            let round_trip = Duration::from_secs_f64(delay / 1e3);
            Some(Self { bits_per_second: Some(rate), round_trip })
        });
        parsed.ok_or_else(|| format!("{text:?} is no link; write lan, wan, loopback, or such as 1gbps,20ms"))
    }
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
}
