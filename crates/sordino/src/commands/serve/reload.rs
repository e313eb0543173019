//! Certificates and models: read at the start, and again whenever SIGHUP asks for it.
//!
//! All of it is read before any of it counts. Where something cannot be used the old stays, and the log says why.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

use inference::connection::{CertifiedKey, Fingerprint, Standing, TlsAcceptor};
use service::models::LoadedModels;
use service::{Service, Settings};
use tracing::{info, warn};

use super::Arguments;

/// A certificate that ends sooner is warned of.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// What was read from files.
pub(super) struct Loaded {
    pub(super) models: LoadedModels,
    pub(super) acceptor: TlsAcceptor,
    pub(super) fingerprint: Fingerprint,
}

impl Loaded {
    /// Reads everything; models that did not change are taken from before.
    pub(super) fn read(settings: &Settings, before: &LoadedModels) -> anyhow::Result<Self> {
        let certificate = settings.certificate()?;
        warn_of_dates(&certificate);
        warn_of_authority(&certificate);
        let fingerprint = certificate.fingerprint();
        let acceptor = settings.acceptor(certificate)?;
        Ok(Self { models: settings.load_models_again(before)?, acceptor, fingerprint })
    }
}

/// Clients that pin the fingerprint do not look at dates; those that trust an authority do, and go away.
fn warn_of_dates(certificate: &CertifiedKey) {
    let days = |time: Duration| time.as_secs() / (24 * 3600);
    match certificate.validity().map(|validity| validity.at(SystemTime::now())) {
        Some(Standing::Expired(since)) => warn!(
            days = days(since),
            "the certificate has expired: clients that trust its authority refuse it; renew it"
        ),
        Some(Standing::NotYet(left)) => warn!(
            days = days(left),
            "the certificate is not valid yet: clients that trust its authority refuse it; wait, or set the clock"
        ),
        Some(Standing::Valid(left)) if left < SOON => {
            warn!(days = days(left), "the certificate expires soon; renew it");
        }
        Some(Standing::Valid(_)) => {}
        None => warn!("the dates of the certificate cannot be read"),
    }
}

/// Clients that pin the fingerprint take any certificate; those that trust an authority want one that it signed.
fn warn_of_authority(certificate: &CertifiedKey) {
    if certificate.is_authority() {
        warn!(
            "the certificate is an authority's own (CA:TRUE): clients refuse it with --ca and take it with --fingerprint; have \
             the authority sign one for this server"
        );
    }
}

/// A thread that reads everything again when it is asked to, so that signals are heard meanwhile.
pub(super) struct Reloader(SyncSender<()>);

impl Reloader {
    pub(super) fn start(
        arguments: &Arguments,
        settings: Settings,
        models: LoadedModels,
        service: &Arc<Service>,
    ) -> std::io::Result<Self> {
        // One may wait while another is under way; a third would find the same files.
        let (ask, asked) = sync_channel(1);
        let mut state =
            State { arguments: arguments.clone(), settings, models, service: Arc::clone(service) };
        let work = move || asked.iter().for_each(|()| state.reload());
        thread::Builder::new().name("reload".to_owned()).spawn(work)?;
        Ok(Self(ask))
    }

    /// Asks for it and goes on.
    pub(super) fn ask(&self) {
        if let Err(TrySendError::Disconnected(())) = self.0.try_send(()) {
            warn!("nothing is read again: the thread that does so has ended; restart the server");
        }
    }
}

struct State {
    arguments: Arguments,
    settings: Settings,
    models: LoadedModels,
    service: Arc<Service>,
}

impl State {
    fn reload(&mut self) {
        match self.try_reload() {
            Ok((fingerprint, names)) => {
                info!(%fingerprint, models = names, "reloaded; sessions under way keep what they had");
            }
            Err(error) => {
                let reason = format!("{error:#}");
                warn!(reason, "not reloaded: certificate and models stay as they were");
            }
        }
    }

    fn try_reload(&mut self) -> anyhow::Result<(Fingerprint, String)> {
        let settings = self.arguments.settings()?;
        let loaded = Loaded::read(&settings, &self.models)?;
        self.service.reload(loaded.models.served(), loaded.acceptor)?;
        if fixed(&settings) != fixed(&self.settings) {
            warn!(
                "other settings than certificates, client-ca, models, reveal and relu changed; they count after a restart"
            );
        }
        (self.settings, self.models) = (settings, loaded.models);
        Ok((loaded.fingerprint, self.models.names()))
    }
}

/// The settings that count from the start to the end of a process.
fn fixed(settings: &Settings) -> Settings {
    Settings {
        cert: None,
        key: None,
        client_ca: None,
        reveal: None,
        relu: None,
        models: Default::default(),
        ..settings.clone()
    }
}
