//! What a unit of work takes on this machine: the file that `sordino doctor --measure` writes, or a named processor's.

use std::path::PathBuf;

use anyhow::Context;
use client::{PartyRates, PhaseRates, Rates};
use serde::{Deserialize, Serialize};
use service::identity::default_state_folder;

/// The file's name in the user's state folder.
const FILE: &str = "rates.json";

/// Rates, and whose they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownRates {
    /// The processor they were measured on.
    pub(super) processor: String,
    /// Seconds of a unit.
    pub(super) rates: Rates,
}

impl KnownRates {
    /// Those of this machine, where they were measured, else the built-in ones. A file that cannot be read counts as none.
    pub(super) fn load() -> Self {
        let read = |path: PathBuf| serde_json::from_slice::<Self>(&std::fs::read(path).ok()?).ok();
        Self::path().and_then(read).filter(Self::is_usable).unwrap_or_else(Self::built_in)
    }

    /// Keeps them for later; says where.
    pub(super) fn save(&self) -> anyhow::Result<PathBuf> {
        let path = Self::path().context("there is no state folder to keep rates in; set HOME")?;
        let write = || {
            std::fs::create_dir_all(path.parent()?).ok()?;
            std::fs::write(&path, serde_json::to_vec_pretty(self).ok()?).ok()
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn path() -> Option<PathBuf> {
        Some(default_state_folder()?.join(FILE))
    }

    /// Whether times follow from them.
    fn is_usable(&self) -> bool {
        let Rates { client, server, byte } = &self.rates;
        let phases = [client.offline, client.online, server.offline, server.online];
        let all = phases.iter().flat_map(|phase| {
            let PhaseRates { ciphertexts, products, transfers_of_four, transfers_of_eight, .. } = phase;
            let PhaseRates { gates, tables, truncated, multiply_adds, .. } = phase;
            [
                ciphertexts,
                products,
                transfers_of_four,
                transfers_of_eight,
                gates,
                tables,
                truncated,
                multiply_adds,
            ]
        });
        // A second a unit would be a hundred years an image.
        all.chain([byte]).all(|rate| (0.0..1.0).contains(rate))
    }

    /// Measured by `sordino doctor --measure` on the processor that they name.
    pub(super) fn built_in() -> Self {
        let client = PartyRates {
            offline: PhaseRates {
                ciphertexts: 1.7e-8,
                transfers_of_four: 1.3e-8,
                transfers_of_eight: 6.1e-8,
                multiply_adds: 1.9e-12,
                ..PhaseRates::default()
            },
            online: PhaseRates { gates: 4.3e-9, tables: 2.7e-10, truncated: 6.5e-9, ..PhaseRates::default() },
        };
        let server = PartyRates {
            offline: PhaseRates {
                ciphertexts: 4.6e-9,
                products: 2.0e-9,
                transfers_of_four: 1.8e-8,
                transfers_of_eight: 4.6e-8,
                gates: 1.9e-8,
                tables: 2.6e-10,
                truncated: 2.1e-8,
                ..PhaseRates::default()
            },
            online: PhaseRates {
                gates: 6.1e-9,
                tables: 5.8e-11,
                truncated: 6.9e-9,
                multiply_adds: 3.2e-11,
                ..PhaseRates::default()
            },
        };
        let processor = "a server's Xeon with AVX-512 and IFMA (built in)".to_owned();
        Self { processor, rates: Rates { client, server, byte: 3.3e-9 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_kept_to_the_bit_and_damaged_ones_are_no_rates() {
        let built_in = KnownRates::built_in();
        assert!(built_in.is_usable());
        let text = serde_json::to_string(&built_in).unwrap();
        assert_eq!(serde_json::from_str::<KnownRates>(&text).unwrap(), built_in);
        for bad in [-1e-9, 1.0, f64::NAN] {
            let mut damaged = built_in.clone();
            damaged.rates.server.online.gates = bad;
            assert!(!damaged.is_usable(), "{bad}");
        }
    }
}
