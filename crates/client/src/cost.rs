//! What an image costs on the link to the server, before it is sent.

use std::time::Duration;

use inference::client::LinkSpeed;
use inference::plan::{Depth, PlannedWork};
use inference::transcript::Traffic;

use crate::Rates;

/// What one image costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What crosses the link before the image is needed.
    pub offline: Traffic,
    /// What crosses it after.
    pub online: Traffic,
    /// Memory at the client.
    pub memory: u64,
    /// What both parties compute.
    pub work: PlannedWork,
    /// How deep the trees of transfers are.
    pub depth: Depth,
    /// The link as it was measured.
    pub link: LinkSpeed,
}

impl Cost {
    /// Bytes of both phases and directions.
    pub fn bytes(&self) -> u64 {
        [self.offline, self.online].iter().map(|traffic| traffic.bytes_up + traffic.bytes_down).sum()
    }

    /// The least time the link needs before the image is needed; computing comes on top.
    pub fn least_offline_time(&self) -> Duration {
        self.least(&self.offline)
    }

    /// The least time the link needs after that; computing comes on top.
    pub fn least_online_time(&self) -> Duration {
        self.least(&self.online)
    }

    /// How long it will take before the image is needed, computing at these rates included.
    pub fn offline_time(&self, rates: &Rates) -> Duration {
        self.least_offline_time() + rates.offline(&self.work, self.depth, &self.offline)
    }

    /// How long it will take after that.
    pub fn online_time(&self, rates: &Rates) -> Duration {
        self.least_online_time() + rates.online(&self.work, self.depth, &self.online)
    }

    /// Both least times.
    pub fn least_time(&self) -> Duration {
        self.least_offline_time() + self.least_online_time()
    }

    /// The parties hardly ever send at once, so the directions add up.
    fn least(&self, traffic: &Traffic) -> Duration {
        let seconds = |bytes: u64, rate: f64| Duration::from_secs_f64(bytes as f64 / rate.max(1.0));
        seconds(traffic.bytes_up, self.link.up)
            + seconds(traffic.bytes_down, self.link.down)
            + self.link.round_trip.mul_f64(traffic.rounds as f64 / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PartyRates;

    #[test]
    fn a_cost_counts_bytes_of_each_direction_and_round_trips() {
        let link = LinkSpeed { round_trip: Duration::from_millis(20), down: 1e6, up: 1e5 };
        let cost = Cost {
            offline: Traffic { bytes_up: 100_000, bytes_down: 1_000_000, rounds: 4 },
            online: Traffic { bytes_up: 50_000, bytes_down: 500_000, rounds: 10 },
            memory: 0,
            work: PlannedWork { multiply_adds: 2_000_000, ..PlannedWork::default() },
            depth: Depth::Four,
            link,
        };
        assert_eq!(cost.bytes(), 1_650_000);
        assert_eq!(cost.least_offline_time(), Duration::from_millis(2040));
        assert_eq!(cost.least_online_time(), Duration::from_millis(1100));
        let mut rates = Rates { client: PartyRates::default(), server: PartyRates::default(), byte: 1e-6 };
        rates.server.online.multiply_adds = 1e-8;
        assert_eq!(cost.offline_time(&rates), Duration::from_millis(2040 + 1100));
        assert_eq!(cost.online_time(&rates), Duration::from_millis(1100 + 20 + 550));
    }
}
