//! Model files become models that can be served, each with the commitment that it had before a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use inference::InferenceError;
use inference::server::{ServedModel, WeightMemory};
use inference::setup::hello::{HelloError, ModelName};
use network::inference_model::{InferenceModel, ModelFileError};
use tracing::info;

use crate::identity::{self, IdentityError};
use crate::settings::Settings;

/// A model that cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Not a model file.
    #[error("{} is not usable", path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: ModelFileError,
    },
    /// A model that the protocol cannot run.
    #[error("{} cannot be served", path.display())]
    Unserved {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: InferenceError,
    },
    /// A name that the protocol cannot carry.
    #[error("{name:?} cannot name a model")]
    Name {
        /// What came.
        name: String,
        /// Why not.
        source: HelloError,
    },
    /// The salt of its commitment.
    #[error(transparent)]
    Salt(#[from] IdentityError),
}

impl Settings {
    /// Reads the models. The first ones have their transformed weights in memory, as far as that reaches.
    ///
    /// # Errors
    /// When one of them cannot be served.
    pub fn load_models(&self) -> Result<BTreeMap<ModelName, Arc<ServedModel>>, ModelError> {
        let state = self.state();
        let mut room = self.weight_memory.map(|size| size.0);
        let mut models = BTreeMap::new();
        for (name, path) in &self.models {
            let unusable = |source| ModelError::File { path: path.clone(), source };
            let model = InferenceModel::load(path).map_err(unusable)?;
            let memory = room.map_or(WeightMemory::Everything, |room| WeightMemory::AtMost(room as usize));
            let served = match &state {
                Some(folder) => {
                    let salt = identity::load_or_make_salt(folder, name)?;
                    ServedModel::with_salt(&model, self.reveal(), memory, salt.expose())
                }
                None => ServedModel::new(&model, self.reveal(), memory),
            };
            let served = served.map_err(|source| ModelError::Unserved { path: path.clone(), source })?;
            room = room.map(|room| room.saturating_sub(served.plan().memory().server_weights));
            let named = ModelName::new(name);
            let name = named.map_err(|source| ModelError::Name { name: name.clone(), source })?;
            info!(model = %name, relus = model.outline().relu_count(), "loaded");
            models.insert(name, Arc::new(served));
        }
        Ok(models)
    }
}
