//! The store of prepared inferences: flags, and the thread that lets them expire.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tracing::{info, warn};

use service::config::Config;
use service::store::{PreparedStore, StoreError, StoreLocation, StoreOptions};

/// How often expired rows go, and how often this machine takes note of what others spent.
const SWEEP: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(super) struct StoreArguments {
    /// Where prepared inferences are kept: a file, a postgres:// address, or none [default: a file in the state folder].
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
    /// The key that seals them, made on first start; servers that share a store share it [default: in the state folder].
    #[arg(long, value_name = "FILE")]
    store_key: Option<PathBuf>,
    /// What this machine remembers of the store; keep it out of the store's backups [default: in the state folder].
    #[arg(long, value_name = "FILE")]
    store_witness: Option<PathBuf>,
    /// Seconds that a prepared inference may wait for its image [default: 86400].
    #[arg(long, value_name = "SECONDS")]
    prepared_ttl: Option<u64>,
    /// Prepared inferences that one client may have waiting in the store [default: 100].
    #[arg(long, value_name = "COUNT")]
    prepared_per_client: Option<u64>,
}

impl StoreArguments {
    /// A flag wins, then the file, then the default. None where nothing is to be kept.
    pub(super) fn options(
        &self,
        file: &Config,
        state: Option<&PathBuf>,
    ) -> anyhow::Result<Option<StoreOptions>> {
        let place = self.store.clone().or(file.store.clone());
        if place.as_deref() == Some("none") || (place.is_none() && state.is_none()) {
            return Ok(None);
        }
        let missing = "there is no folder to keep a key in; name one with --state";
        let mut options = match state {
            Some(folder) => StoreOptions::in_folder(folder),
            None => StoreOptions::in_folder(place.as_ref().map(std::path::Path::new).context(missing)?),
        };
        if let Some(place) = place {
            let is_shared = place.starts_with("postgres://") || place.starts_with("postgresql://");
            options.location =
                if is_shared { StoreLocation::Postgres(place) } else { StoreLocation::File(place.into()) };
        }
        let own = |flag: &Option<PathBuf>, file: &Option<PathBuf>| flag.clone().or(file.clone());
        options.key_file = own(&self.store_key, &file.store_key)
            .or(state.map(|_| options.key_file.clone()))
            .context(missing)?;
        options.witness_file = own(&self.store_witness, &file.store_witness)
            .or(state.map(|_| options.witness_file.clone()))
            .context(missing)?;
        if let Some(seconds) = self.prepared_ttl.or(file.prepared_ttl) {
            options.lifetime = Duration::from_secs(seconds.max(1));
        }
        options.per_client =
            self.prepared_per_client.or(file.prepared_per_client).unwrap_or(options.per_client);
        Ok(Some(options))
    }
}

/// Opens the store and keeps it tidy as long as it is used.
pub(super) fn open(options: &StoreOptions) -> anyhow::Result<Arc<PreparedStore>> {
    if let Some(folder) = options.key_file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let store = match PreparedStore::open(options.clone()) {
        Err(StoreError::Restored { dropped }) => {
            warn!(dropped, "an old copy of the store was put back; what was prepared in it is dropped");
            PreparedStore::open(options.clone())
        }
        result => result,
    };
    let store = Arc::new(store.context("prepared inferences cannot be kept; --store none does without")?);
    let weak = Arc::downgrade(&store);
    thread::Builder::new().name("sordino-store".to_owned()).spawn(move || {
        loop {
            thread::sleep(SWEEP);
            let Some(store) = weak.upgrade() else { return };
            match store.expire() {
                Ok(0) => {}
                Ok(expired) => info!(expired, "prepared inferences expired"),
                Err(error) => warn!(reason = %error, "the store of prepared inferences"),
            }
        }
    })?;
    Ok(store)
}
