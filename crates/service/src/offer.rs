//! What new clients get: a certificate and models. Both are replaced as a whole; a session keeps what it began with.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use inference::connection::TlsAcceptor;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::server::ServedModel;
use inference::setup::messages::ModelName;

use super::limits::ClientMemoryTooSmall;
use super::queue::{Queue, Withheld};

/// A certificate, models by name, and the memory of their weights, for as long as somebody holds this.
pub(crate) struct Offer {
    pub(crate) acceptor: TlsAcceptor,
    models: BTreeMap<ModelName, Arc<ServedModel>>,
    weights: BTreeMap<ModelName, Arc<Withheld>>,
}

/// New models that there is no memory for.
#[derive(Debug, thiserror::Error)]
pub enum NoRoomToReload {
    /// They do not fit beside the old ones.
    #[error(
        "the new models take more memory than is left beside the old ones, which stay until their last session ends: {needed} \
         bytes, {left} are left of --max-memory; try again later, allow more, or restart"
    )]
    BesideTheOld {
        /// What they take.
        needed: u64,
        /// What there is.
        left: u64,
    },
    /// No client could have one answer.
    #[error(transparent)]
    Client(#[from] ClientMemoryTooSmall),
}

impl Offer {
    /// Takes the memory of the weights. What was offered before and still is takes none anew.
    pub(crate) fn new(
        models: BTreeMap<ModelName, Arc<ServedModel>>,
        acceptor: TlsAcceptor,
        before: Option<&Self>,
        memory: &Arc<Queue>,
    ) -> Result<Self, NoRoomToReload> {
        let mut weights = BTreeMap::new();
        for (name, model) in &models {
            let same = before.and_then(|before| before.weights_of(model));
            let reserved = match same {
                Some(reserved) => reserved,
                None => {
                    let needed = model.weight_bytes();
                    let refusal = || NoRoomToReload::BesideTheOld { needed, left: memory.spare() };
                    Arc::new(memory.withhold(needed).ok_or_else(refusal)?)
                }
            };
            weights.insert(name.clone(), reserved);
        }
        Ok(Self { acceptor, models, weights })
    }

    /// The memory of a model that is offered already, by whatever name.
    fn weights_of(&self, model: &Arc<ServedModel>) -> Option<Arc<Withheld>> {
        let (name, _) = self.models.iter().find(|(_, offered)| Arc::ptr_eq(offered, model))?;
        self.weights.get(name).cloned()
    }

    /// What a page has to know to connect, as JSON.
    pub(crate) fn page_settings(&self, answers_in_plain: bool) -> String {
        let models: Vec<_> = self.models.keys().map(ModelName::as_str).collect();
        let fingerprint = self.acceptor.fingerprint().to_string();
        let plain = answers_in_plain.then_some("plain");
        serde_json::json!({ "fingerprint": fingerprint, "models": models, "socket": "socket", "plain": plain })
            .to_string()
    }

    /// The model of this name; without a name, the only one.
    pub(crate) fn choose(&self, name: &ModelName) -> Result<(ModelName, Arc<ServedModel>), Refusal> {
        let models = &self.models;
        let found = match (models.get_key_value(name), models.len()) {
            (None, 1) if name.as_str().is_empty() => models.first_key_value(),
            (found, _) => found,
        };
        if let Some((name, model)) = found {
            return Ok((name.clone(), Arc::clone(model)));
        }
        let names: Vec<_> = models.keys().map(ModelName::as_str).collect();
        let names = names.join(", ");
        let text = if name.as_str().is_empty() {
            format!("there are several models here; choose with --model one of {names}")
        } else {
            format!("there is no model {name} here; choose with --model one of {names}")
        };
        Err(Refusal::new(RefusalCode::UnknownModel, text))
    }
}

/// What is offered now.
pub(crate) struct CurrentOffer(RwLock<Arc<Offer>>);

impl CurrentOffer {
    pub(crate) fn new(offer: Offer) -> Self {
        Self(RwLock::new(Arc::new(offer)))
    }

    /// For one session, which keeps it to its end.
    pub(crate) fn get(&self) -> Arc<Offer> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// For all who come from here on.
    pub(crate) fn replace(&self, offer: Offer) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(offer);
    }
}
