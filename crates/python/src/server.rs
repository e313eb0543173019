//! The service, for notebooks and tests: one process, no store, no limits for single clients.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use inference::connection::{Identity, TlsAcceptor};
use inference::plan::Reveal;
use inference::server::{ServedModel, WeightMemory};
use inference::setup::messages::ModelName;
use network::inference_model::InferenceModel;
use network::text::with_causes;
use pyo3::prelude::*;
use service::identity::load_or_make;
use service::{ClientLimits, Limits, Service, ServiceParts};

use crate::error::{SessionError, of_session};
use crate::model::Model;
use crate::waiting::without_interpreter;

/// A service that runs until it is stopped.
#[pyclass(frozen, module = "sordino._native")]
pub(crate) struct Server {
    service: Arc<Service>,
    address: SocketAddr,
    fingerprint: String,
    listening: Mutex<Option<JoinHandle<()>>>,
}

/// What a server is started with.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Options {
    listen: String,
    reveal: String,
    threads: NonZeroUsize,
    state: Option<PathBuf>,
}

#[pymethods]
impl Server {
    /// Listens, and answers clients from here on.
    #[staticmethod]
    fn start(py: Python<'_>, models: BTreeMap<String, Py<Model>>, options: Options) -> PyResult<Self> {
        let models = models.into_iter().map(|(name, model)| (name, Arc::clone(&model.get().model))).collect();
        without_interpreter(py, move |_| Self::run(&models, &options))?.map_err(SessionError::new_err)
    }

    /// Host and port.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// What clients know it by.
    #[getter]
    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Images that were answered.
    #[getter]
    fn classified(&self) -> u64 {
        self.service.metrics().classified.get()
    }

    /// Gives running inferences so many seconds to finish; true where all did.
    fn stop(&self, py: Python<'_>, grace: f64) -> PyResult<bool> {
        let grace = Duration::try_from_secs_f64(grace).map_err(of_session)?;
        let (service, address) = (Arc::clone(&self.service), self.address);
        let listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner).take();
        without_interpreter(py, move |_| {
            let Some(listening) = listening else { return true };
            let is_clean = service.close(address, grace);
            is_clean && listening.join().is_ok()
        })
    }
}

impl Server {
    fn run(models: &BTreeMap<String, Arc<InferenceModel>>, options: &Options) -> Result<Self, String> {
        let reveal = match options.reveal.as_str() {
            "logits" => Reveal::Logits,
            "class" => Reveal::Class,
            other => return Err(format!("a server reveals \"logits\" or \"class\", {other:?} came")),
        };
        let cannot_listen = |error| {
            format!("cannot listen on {}: {error}; is another process there already?", options.listen)
        };
        let listener = TcpListener::bind(&options.listen).map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let mut served = BTreeMap::new();
        for (name, model) in models {
            let model_name = ModelName::new(name)
                .map_err(|error| format!("{name:?} cannot name a model: {}", with_causes(&error)))?;
            let model = ServedModel::new(model, reveal, WeightMemory::Everything)
                .map_err(|error| format!("{name} cannot be served: {}", with_causes(&error)))?;
            served.insert(model_name, Arc::new(model));
        }
        let identity = match &options.state {
            Some(folder) => load_or_make(folder).map_err(|error| with_causes(&error))?,
            None => Identity::generate().map_err(|error| with_causes(&error))?,
        };
        let fingerprint = identity.fingerprint().to_string();
        let service = Service::new(ServiceParts {
            models: served,
            acceptor: TlsAcceptor::new(identity.into_key(), None).map_err(|error| with_causes(&error))?,
            limits: Limits { threads: options.threads, per_client: ClientLimits::NONE, ..Limits::default() },
            store: None,
            proxies: Vec::new(),
        })
        .map_err(|error| with_causes(&error))?;
        let running = Arc::clone(&service);
        let listen = move || running.run(&listener);
        let listening = thread::Builder::new().name("sordino-serve".to_owned()).spawn(listen);
        let listening = Mutex::new(Some(listening.map_err(|error| error.to_string())?));
        Ok(Self { service, address, fingerprint, listening })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let listening = self.listening.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if listening.is_some() {
            // Nobody can stop it any more; who is in the middle of something is cut off.
            self.service.close(self.address, Duration::ZERO);
        }
    }
}
