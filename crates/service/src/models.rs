//! Model files become models that can be served, each with the commitment that it had before a restart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use inference::InferenceError;
use inference::plan::Terms;
use inference::server::{ServedModel, WeightMemory};
use inference::setup::messages::{HelloError, ModelName};
use network::digest::Digest;
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

/// Models that can be served, and which files they came from.
#[derive(Clone, Default)]
pub struct LoadedModels {
    served: BTreeMap<ModelName, Arc<ServedModel>>,
    digests: BTreeMap<ModelName, Digest>,
}

impl LoadedModels {
    /// As a service takes them.
    pub fn served(&self) -> BTreeMap<ModelName, Arc<ServedModel>> {
        self.served.clone()
    }

    /// Their names, for people.
    pub fn names(&self) -> String {
        self.served.keys().map(ModelName::as_str).collect::<Vec<_>>().join(", ")
    }

    /// What is served under this name, if it is the same model and answers the same way.
    fn unchanged(&self, name: &ModelName, digest: Digest, terms: Terms) -> Option<Arc<ServedModel>> {
        let served = self.served.get(name).filter(|served| served.plan().terms() == terms)?;
        (self.digests.get(name) == Some(&digest)).then(|| Arc::clone(served))
    }
}

impl Settings {
    /// Reads the models. The first ones have their transformed weights in memory, as far as that reaches.
    ///
    /// # Errors
    /// When one of them cannot be served.
    pub fn load_models(&self) -> Result<BTreeMap<ModelName, Arc<ServedModel>>, ModelError> {
        Ok(self.load_models_again(&LoadedModels::default())?.served)
    }

    /// Reads the models again. Those that did not change are the same as before and take no memory twice.
    ///
    /// # Errors
    /// When one of them cannot be served.
    pub fn load_models_again(&self, before: &LoadedModels) -> Result<LoadedModels, ModelError> {
        let state = self.state();
        let shared = self.shared_key().map(identity::load_or_make_shared_key).transpose()?;
        let mut room = self.weight_memory.map(|size| size.0);
        let mut models = LoadedModels::default();
        for (text, path) in &self.models {
            let unusable = |source| ModelError::File { path: path.clone(), source };
            let model = InferenceModel::load(path).map_err(unusable)?;
            let named = ModelName::new(text);
            let name = named.map_err(|source| ModelError::Name { name: text.clone(), source })?;
            let memory = room.map_or(WeightMemory::Everything, |room| WeightMemory::AtMost(room as usize));
            let served = match before.unchanged(&name, model.digest(), self.terms()) {
                Some(served) => served,
                None => {
                    let salt = match (&shared, &state) {
                        (Some(key), _) => Some(identity::shared_salt(key, text)),
                        (None, Some(folder)) => Some(identity::load_or_make_salt(folder, text)?),
                        (None, None) => None,
                    };
                    let served = match salt {
                        Some(salt) => ServedModel::with_salt(&model, self.terms(), memory, salt.expose()),
                        None => ServedModel::new(&model, self.terms(), memory),
                    };
                    let refusal = |source| ModelError::Unserved { path: path.clone(), source };
                    info!(model = %name, counts = %model.outline().counts(), "loaded");
                    Arc::new(served.map_err(refusal)?)
                }
            };
            room = room.map(|room| room.saturating_sub(served.weight_bytes()));
            models.digests.insert(name.clone(), model.digest());
            models.served.insert(name, served);
        }
        Ok(models)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::weights::FloatWeights;
    use network::zoo;

    /// A client that prepared at one server asks another for the same agreement.
    #[test]
    fn servers_that_share_a_key_make_the_same_commitments() {
        let folder = tempfile::tempdir().unwrap();
        let spec = zoo::build("resnet20:m=2,depths=1+1+1", 8, 10).unwrap();
        let images = [Image::random(spec.draft().input, 1)];
        let weights = FloatWeights::random(&spec, 1);
        let model = freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0;
        let path = folder.path().join("small.sordino");
        model.save(&path).unwrap();
        let commitment = |state: &str, key: Option<&str>| {
            let settings = Settings {
                state: Some(folder.path().join(state)),
                store_key: key.map(|key| folder.path().join(key)),
                models: [("small".to_owned(), path.clone())].into(),
                ..Settings::default()
            };
            let models = settings.load_models().unwrap();
            models.values().next().unwrap().agreement().commitment
        };
        assert_eq!(commitment("a", Some("key")), commitment("b", Some("key")));
        assert_ne!(commitment("a", Some("key")), commitment("a", Some("other")));
        assert_eq!(commitment("a", None), commitment("a", None));
        assert_ne!(commitment("a", None), commitment("b", None), "each has a salt of its own");
    }
}
