//! A small service within the test's process.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use client::{ClientError, ConnectOptions, PrivateClient};
use inference::client::Answer;
use inference::connection::{Fingerprint, Identity, TlsAcceptor, Trust};
use inference::plan::{Reveal, Terms};
use inference::requests::Request;
use inference::server::{ServedModel, WeightMemory};
use inference::setup::messages::ModelName;
use inference::verify::is_close;
use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::weights::FloatWeights;
use network::zoo;
use sordino_service::{Limits, Service, ServiceParts, Store};

/// A few hundred ReLUs.
pub(crate) fn tiny_model(seed: u64) -> InferenceModel {
    frozen("resnet20:m=2,depths=1+1+1", 8, seed)
}

/// A network of the zoo with random weights.
pub(crate) fn frozen(name: &str, resolution: usize, seed: u64) -> InferenceModel {
    let spec = zoo::build(name, resolution, 10).unwrap();
    let weights = FloatWeights::random(&spec, seed);
    let images: Vec<_> = (0..2).map(|number| Image::random(spec.draft().input, number)).collect();
    freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0
}

/// Short enough for tests, long enough for a busy machine.
pub(crate) fn limits() -> Limits {
    Limits { silence: Duration::from_secs(5), ..Limits::default() }
}

pub(crate) struct Running {
    pub(crate) service: Arc<Service>,
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Fingerprint,
}

impl Running {
    /// Serves models by name with an identity of its own.
    pub(crate) fn start(models: &[(&str, &InferenceModel)], limits: Limits) -> Self {
        Self::start_with(models, limits, Reveal::Logits, None)
    }

    pub(crate) fn start_with(
        models: &[(&str, &InferenceModel)],
        limits: Limits,
        terms: impl Into<Terms>,
        store: Option<Arc<dyn Store>>,
    ) -> Self {
        let identity = Identity::generate().unwrap();
        let fingerprint = identity.fingerprint();
        let acceptor = TlsAcceptor::new(identity.into_key(), None).unwrap();
        Self::start_secured(models, limits, terms, store, acceptor, fingerprint)
    }

    pub(crate) fn start_secured(
        models: &[(&str, &InferenceModel)],
        limits: Limits,
        terms: impl Into<Terms>,
        store: Option<Arc<dyn Store>>,
        acceptor: TlsAcceptor,
        fingerprint: Fingerprint,
    ) -> Self {
        let terms = terms.into();
        let serve = |model| Arc::new(ServedModel::new(model, terms, WeightMemory::Everything).unwrap());
        let named = models.iter().map(|(name, model)| (ModelName::new(name).unwrap(), serve(*model)));
        Self::run_parts(
            ServiceParts { models: named.collect(), acceptor, limits, store, proxies: Vec::new() },
            fingerprint,
        )
    }

    /// Serves one model as a server does that was started before: its commitments are those of the same salt.
    pub(crate) fn restart(
        name: &str,
        model: &InferenceModel,
        limits: Limits,
        store: Option<Arc<dyn Store>>,
    ) -> Self {
        let identity = Identity::generate().unwrap();
        let fingerprint = identity.fingerprint();
        let acceptor = TlsAcceptor::new(identity.into_key(), None).unwrap();
        let served = ServedModel::with_salt(model, Reveal::Logits, WeightMemory::Everything, &[7; 32]);
        let models = BTreeMap::from([(ModelName::new(name).unwrap(), Arc::new(served.unwrap()))]);
        Self::run_parts(ServiceParts { models, acceptor, limits, store, proxies: Vec::new() }, fingerprint)
    }

    pub(crate) fn run_parts(parts: ServiceParts, fingerprint: Fingerprint) -> Self {
        let service = Service::new(parts).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn({
            let service = Arc::clone(&service);
            move || service.run(&listener)
        });
        Self { service, address, fingerprint }
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions::new(Trust::Fingerprint(self.fingerprint))
    }

    pub(crate) fn connect(&self) -> Result<PrivateClient, ClientError> {
        PrivateClient::connect(&self.address.to_string(), self.options())
    }

    /// Waits until something holds; fails where it never does.
    pub(crate) fn wait_until(&self, holds: impl Fn(&Service) -> bool) {
        let start = Instant::now();
        while !holds(&self.service) {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", self.service.metrics());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Classifies an image and holds the answer against the reference: as close as rounding allows.
pub(crate) fn classify_rightly(client: &mut PrivateClient, model: &InferenceModel, image: &Image) {
    let session = client.session_mut();
    session.request(&Request::Prepare { count: 1, store: None }, |_| {}).unwrap();
    let mut prepared = session.prepare_recorded().unwrap();
    let coins = prepared.take_record().unwrap();
    session.request(&Request::Classify { count: 1 }, |_| {}).unwrap();
    let Answer::Logits(logits) = session.classify(prepared, image).unwrap() else { panic!("no logits came") };
    assert!(is_close(model, image, &coins, &logits).unwrap());
}
