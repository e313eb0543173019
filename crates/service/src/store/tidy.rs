//! A store that is kept tidy as long as it is used.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use network::text::with_causes;
use sealed::secret_file::failing;
use tracing::{info, warn};

use super::{PreparedStore, StoreError, StoreOptions};

/// How often expired rows go, and how often this machine takes note of what others spent.
const SWEEP: Duration = Duration::from_secs(60);

impl PreparedStore {
    /// Opens the store, or makes it; a thread lets its rows expire. Of an old copy that was put back nothing is left.
    ///
    /// # Errors
    /// As [`PreparedStore::open`], or when no thread can be started.
    pub fn open_tidy(options: &StoreOptions) -> Result<Arc<Self>, StoreError> {
        // They need not be in one folder, nor need anything else of this server be there.
        for folder in [&options.key_file, &options.witness_file].into_iter().filter_map(|file| file.parent())
        {
            std::fs::create_dir_all(folder).map_err(failing("make", folder))?;
        }
        let store = match Self::open(options.clone()) {
            Err(StoreError::Restored { dropped }) => {
                warn!(
                    dropped,
                    "an old copy of the store, or a machine that was never here; what waited is dropped"
                );
                Self::open(options.clone())
            }
            result => result,
        };
        let store = Arc::new(store?);
        let weak = Arc::downgrade(&store);
        let sweep = move || {
            loop {
                thread::sleep(SWEEP);
                let Some(store) = weak.upgrade() else { return };
                match store.expire() {
                    Ok(0) => {}
                    Ok(expired) => info!(expired, "prepared inferences expired"),
                    Err(error) => warn!(reason = %with_causes(&error), "the store of prepared inferences"),
                }
            }
        };
        thread::Builder::new().name("sordino-store".to_owned()).spawn(sweep).map_err(StoreError::Thread)?;
        Ok(store)
    }
}
