//! What an image costs on the link to the server, before it is sent.
//!
//! ```text
//! online    round trips + bytes + computing          each waits for the other
//! offline   round trips + bytes or computing         one goes on during the other; the longer counts
//! ```

use std::time::Duration;

use inference::client::LinkSpeed;
use inference::plan::{Depth, Plan, PlannedWork};
use inference::transcript::Traffic;

use crate::Rates;

/// What one image costs, or several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What crosses the link before the image is needed, for the first image of a session.
    pub offline: Traffic,
    /// The same where the client has met the model in an earlier session.
    pub returning_offline: Traffic,
    /// The same for every further one.
    pub later_offline: Traffic,
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
    /// What one image of this plan costs on a link.
    pub fn planned(plan: &Plan, depth: Depth, link: LinkSpeed) -> Self {
        let traffic = plan.traffic(depth);
        Self {
            offline: traffic.offline,
            returning_offline: traffic.returning_offline,
            later_offline: traffic.later_offline,
            online: traffic.online,
            memory: plan.client_memory(),
            work: plan.work(),
            depth,
            link,
        }
    }

    /// What the first image of a session costs a client that has met the model before.
    pub fn returning(&self) -> Self {
        Self { offline: self.returning_offline, work: self.work.later(), ..*self }
    }

    /// What a further image of a session costs.
    pub fn later(&self) -> Self {
        Self { offline: self.later_offline, work: self.work.later(), ..*self }
    }

    /// What so many images cost in one session, each with round trips of its own; memory stays that of one.
    pub fn for_images(&self, images: u64) -> Self {
        let further = images.saturating_sub(1);
        let first = images.min(1);
        let sum = |first: u64, later: u64| first + further * later;
        let (offline, later, online) = (self.offline, self.later_offline, self.online);
        Self {
            offline: Traffic {
                bytes_up: sum(first * offline.bytes_up, later.bytes_up),
                bytes_down: sum(first * offline.bytes_down, later.bytes_down),
                rounds: sum(first * offline.rounds, later.rounds),
            },
            online: Traffic {
                bytes_up: online.bytes_up * images,
                bytes_down: online.bytes_down * images,
                rounds: online.rounds * images,
            },
            work: self.work.times(images),
            ..*self
        }
    }

    /// The same with the offline work paid for, as by a file of prepared inferences.
    pub fn prepared(&self) -> Self {
        let none = Traffic::default();
        Self { offline: none, returning_offline: none, later_offline: none, ..*self }
    }

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

    /// How long it will take before the image is needed, computing at these rates included; nothing where that is paid for.
    pub fn offline_time(&self, rates: &Rates) -> Duration {
        if self.offline.rounds == 0 {
            return Duration::ZERO;
        }
        let computing = rates.offline(&self.work, self.depth, &self.offline);
        self.trips(&self.offline) + self.transfer(&self.offline).max(computing)
    }

    /// How long it will take after that.
    pub fn online_time(&self, rates: &Rates) -> Duration {
        self.least_online_time() + rates.online(&self.work, self.depth, &self.online)
    }

    /// Both least times.
    pub fn least_time(&self) -> Duration {
        self.least_offline_time() + self.least_online_time()
    }

    fn least(&self, traffic: &Traffic) -> Duration {
        self.transfer(traffic) + self.trips(traffic)
    }

    /// The parties hardly ever send at once, so the directions add up.
    fn transfer(&self, traffic: &Traffic) -> Duration {
        let seconds = |bytes: u64, rate: f64| Duration::from_secs_f64(bytes as f64 / rate.max(1.0));
        seconds(traffic.bytes_up, self.link.up) + seconds(traffic.bytes_down, self.link.down)
    }

    fn trips(&self, traffic: &Traffic) -> Duration {
        self.link.round_trip.mul_f64(traffic.rounds as f64 / 2.0)
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
            returning_offline: Traffic { bytes_up: 100_000, bytes_down: 450_000, rounds: 4 },
            later_offline: Traffic { bytes_up: 100_000, bytes_down: 400_000, rounds: 4 },
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
        // A microsecond a byte is less than the link takes, three are more.
        assert_eq!(cost.offline_time(&rates), Duration::from_millis(2040));
        let slow = Rates { byte: 3e-6, ..rates };
        assert_eq!(cost.offline_time(&slow), Duration::from_millis(40 + 3300));
        assert_eq!(cost.later().offline_time(&slow), Duration::from_millis(40 + 1500));
        assert_eq!(cost.returning().offline_time(&slow), Duration::from_millis(40 + 1650));
        assert_eq!(cost.online_time(&rates), Duration::from_millis(1100 + 20 + 550));
        assert_eq!(cost.prepared().offline_time(&rates), Duration::ZERO);
        let three = cost.for_images(3);
        assert_eq!(three.bytes(), 1_100_000 + 2 * 500_000 + 3 * 550_000);
        assert_eq!(three.work.multiply_adds, 6_000_000);
        assert_eq!(cost.for_images(0).bytes() + cost.prepared().for_images(2).offline.bytes_up, 0);
    }
}
