//! How long computing takes: units of work, counted from the plan, times what a unit takes on some processor.
//!
//! ```text
//! online    client + server + bytes     each waits for the other
//! offline   the slower of the two, half of the other, and bytes     they work side by side, and wait now and then
//! ```
//!
//! [`Cost`](crate::Cost) adds the link. `sordino doctor --measure` finds the rates of a machine; both parties are
//! taken to be like it, with one thread each. The book's page "Predicted time" says how far off this was.

use std::time::Duration;

use inference::plan::{Depth, PlannedWork};
use inference::transcript::Traffic;
use serde::{Deserialize, Serialize};

/// Of the party that is done first offline, the share that the other one waits for.
const SEEN_OF_FASTER: f64 = 0.5;

/// Seconds that a unit of each kind of work takes on one processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The client's work.
    pub client: PartyRates,
    /// The server's.
    pub server: PartyRates,
    /// For each byte that crosses, both parties together: packing, copying, TLS.
    pub byte: f64,
}

/// What the units of [`PlannedWork`] take one party, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartyRates {
    /// Before the image is known.
    pub offline: PhaseRates,
    /// After.
    pub online: PhaseRates,
}

/// The same in one phase; zero is what the party does not do in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseRates {
    /// A coefficient of a ciphertext.
    pub ciphertexts: f64,
    /// A coefficient of a product of weights and a ciphertext.
    pub products: f64,
    /// A transfer from trees of depth 4.
    pub transfers_of_four: f64,
    /// A transfer from trees of depth 8.
    pub transfers_of_eight: f64,
    /// A transfer's part of a gate.
    pub gates: f64,
    /// A byte of garbled tables.
    pub tables: f64,
    /// A position truncated without ReLU.
    pub truncated: f64,
    /// A multiply-add of a linear layer.
    pub multiply_adds: f64,
}

impl PhaseRates {
    /// What a party computes in the phase, in seconds.
    fn seconds(&self, work: &PlannedWork, depth: Depth) -> f64 {
        let transfer = match depth {
            Depth::Four => self.transfers_of_four,
            Depth::Eight => self.transfers_of_eight,
        };
        [
            (self.ciphertexts, work.ciphertexts),
            (self.products, work.products),
            (transfer, work.transfers),
            (self.gates, work.gates),
            (self.tables, work.tables),
            (self.truncated, work.truncated),
            (self.multiply_adds, work.multiply_adds),
        ]
        .iter()
        .map(|(rate, units)| rate * *units as f64)
        .sum()
    }
}

impl Rates {
    /// How long both parties compute before the image is known, as somebody without a link would see it.
    pub fn offline(&self, work: &PlannedWork, depth: Depth, traffic: &Traffic) -> Duration {
        let [client, server] = [&self.client, &self.server].map(|party| party.offline.seconds(work, depth));
        let seen = client.max(server) + SEEN_OF_FASTER * client.min(server);
        Duration::from_secs_f64(seen + self.bytes(traffic))
    }

    /// The same after it is known.
    pub fn online(&self, work: &PlannedWork, depth: Depth, traffic: &Traffic) -> Duration {
        let parties = [&self.client, &self.server].map(|party| party.online.seconds(work, depth));
        Duration::from_secs_f64(parties.iter().sum::<f64>() + self.bytes(traffic))
    }

    fn bytes(&self, traffic: &Traffic) -> f64 {
        self.byte * (traffic.bytes_up + traffic.bytes_down) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: PlannedWork = PlannedWork {
        ciphertexts: 1_000,
        products: 10_000,
        transfers: 500,
        gates: 400,
        tables: 0,
        truncated: 20,
        multiply_adds: 1_000_000,
    };
    const TRAFFIC: Traffic = Traffic { bytes_up: 1_000, bytes_down: 2_000, rounds: 4 };

    fn rates() -> Rates {
        let client = PartyRates {
            offline: PhaseRates {
                ciphertexts: 2e-6,
                transfers_of_four: 1e-6,
                transfers_of_eight: 4e-6,
                ..PhaseRates::default()
            },
            online: PhaseRates { gates: 1e-5, truncated: 1e-4, ..PhaseRates::default() },
        };
        let server = PartyRates {
            offline: PhaseRates { products: 1e-6, ..PhaseRates::default() },
            online: PhaseRates { multiply_adds: 1e-9, ..PhaseRates::default() },
        };
        Rates { client, server, byte: 1e-7 }
    }

    fn milliseconds(time: Duration) -> f64 {
        (time.as_secs_f64() * 1e6).round() / 1e3
    }

    #[test]
    fn online_the_parties_wait_for_each_other() {
        // 400 gates at 10 us, 20 positions at 100 us; a million multiply-adds at 1 ns; 3,000 bytes at 0.1 us.
        assert_eq!(milliseconds(rates().online(&WORK, Depth::Four, &TRAFFIC)), 4.0 + 2.0 + 1.0 + 0.3);
    }

    #[test]
    fn offline_half_of_the_faster_party_is_seen() {
        // The client has 1,000 coefficients at 2 us and 500 transfers at 1 or 4 us; the server 10,000 products at 1 us.
        assert_eq!(milliseconds(rates().offline(&WORK, Depth::Four, &TRAFFIC)), 10.0 + 2.5 / 2.0 + 0.3);
        assert_eq!(milliseconds(rates().offline(&WORK, Depth::Eight, &TRAFFIC)), 10.0 + 4.0 / 2.0 + 0.3);
    }
}
