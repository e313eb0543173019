//! The file of a service: the flags of `sordino serve` under the same names, and the models by name.
//!
//! ```toml
//! listen = "0.0.0.0:7441"
//! metrics = "127.0.0.1:7442"
//! reveal = "class"
//! max-running = 4
//! max-memory = "16G"
//!
//! [models]
//! chest = "/srv/models/chest.sordino"
//! ```

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use super::limits::ByteSize;

/// The longest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// What a file may say; a flag on the command line wins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Where clients connect.
    pub listen: Option<String>,
    /// Where health and metrics are shown.
    pub metrics: Option<String>,
    /// The folder that survives restarts.
    pub state: Option<PathBuf>,
    /// The certificate chain.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Who vouches for clients.
    pub client_ca: Option<PathBuf>,
    /// What clients learn: `logits` or `class`.
    pub reveal: Option<String>,
    /// Clients connected at once.
    pub max_clients: Option<usize>,
    /// Clients computed for at once.
    pub max_running: Option<NonZeroUsize>,
    /// Memory for everything.
    pub max_memory: Option<ByteSize>,
    /// Memory for transformed weights.
    pub weight_memory: Option<ByteSize>,
    /// Prepared inferences that may wait on one connection.
    pub max_prepared: Option<u32>,
    /// Seconds of silence that end an exchange.
    pub timeout: Option<u64>,
    /// Seconds between requests.
    pub idle_timeout: Option<u64>,
    /// Bytes a second below which a client is given up.
    pub min_rate: Option<NonZeroU64>,
    /// Seconds to finish at the end.
    pub grace: Option<u64>,
    /// Threads for each running inference.
    pub threads: Option<NonZeroUsize>,
    /// Where prepared inferences are kept: a file, a `postgres://` address, or `none`.
    pub store: Option<String>,
    /// The key that seals them.
    pub store_key: Option<PathBuf>,
    /// What this machine remembers of them.
    pub store_witness: Option<PathBuf>,
    /// Seconds that a prepared inference may wait for its image.
    pub prepared_ttl: Option<u64>,
    /// Prepared inferences of one client.
    pub prepared_per_client: Option<u64>,
    /// Logs as JSON.
    pub log_json: Option<bool>,
    /// Model files by name.
    pub models: BTreeMap<String, PathBuf>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read or says something unknown; with line and reason.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let length =
            std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
        anyhow::ensure!(
            length <= MAX_BYTES,
            "{} has {length} bytes, too many for a configuration",
            path.display()
        );
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not usable", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_flags_say() {
        let text = "listen = '[::]:7441'\nreveal = 'class'\nmax-memory = '16G'\nmax-running = 4\n[models]\na = 'b.sordino'\n";
        let config: Config = toml::from_str(text).unwrap();
        assert_eq!(config.max_memory, Some(ByteSize(16 << 30)));
        assert_eq!(config.models["a"], Path::new("b.sordino"));
        for bad in ["lisen = 'x'", "max-running = 0", "min-rate = 0", "max-memory = 'much'", "models = 3"] {
            assert!(toml::from_str::<Config>(bad).is_err(), "{bad}");
        }
    }
}
