//! What stands before everything that is computed for a client: its hourly quotas, and a place.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use inference::connection::refusal::{Refusal, RefusalCode};
use network::text::with_causes;
use tracing::error;

use crate::queue::{Place, Reservation, Turn};
use crate::quotas::{Drawn, Quota};
use crate::server::{Service, shutting_down};
use crate::stores::{ClientName, StoreFault};

/// How often who waits for a place looks whether the service is about to end.
const LOOK_UP: Duration = Duration::from_secs(1);

impl Service {
    /// Draws from what a client may have in an hour.
    ///
    /// # Errors
    /// When it has had that, or the store fails.
    pub(crate) fn draw(&self, client: &ClientName, quota: Quota, count: u32) -> Result<(), Refusal> {
        let Some(per_hour) = self.parts.limits.per_client.hourly(quota) else { return Ok(()) };
        let of_store = match &self.parts.store {
            Some(store) => store.draw(client, quota, count, per_hour).map_err(store_fault)?,
            None => None,
        };
        let drawn =
            of_store.unwrap_or_else(|| self.quotas.draw(client, quota, count, per_hour, microseconds_now()));
        let what = match quota {
            Quota::Preparations => "inferences prepared",
            Quota::Answers => "images answered",
            Quota::Sessions => "sessions begun",
        };
        let text = match drawn {
            Drawn::Given => return Ok(()),
            Drawn::After(time) => {
                let seconds = time.as_secs() + 1;
                format!(
                    "one client may have {per_hour} {what} in an hour here; {count} more are possible in {seconds} \
                     seconds: try again then"
                )
            }
            Drawn::Never => {
                format!(
                    "one client may have {per_hour} {what} in an hour here; ask for fewer than {count} at a time"
                )
            }
        };
        Err(Refusal::new(RefusalCode::Limit, text))
    }

    /// How many a client could draw at this moment, where that is limited.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) fn left(&self, client: &ClientName, quota: Quota) -> Result<Option<u32>, StoreFault> {
        let Some(per_hour) = self.parts.limits.per_client.hourly(quota) else { return Ok(None) };
        let of_store = match &self.parts.store {
            Some(store) => store.left(client, quota, per_hour)?,
            None => None,
        };
        Ok(of_store.or_else(|| Some(self.quotas.left(client, quota, per_hour, microseconds_now()))))
    }

    /// Waits for a place for something short, before what the client has not begun. Nobody can be told meanwhile, so it
    /// waits no longer than a client may be silent.
    ///
    /// # Errors
    /// When none is free in that time, or the service ends.
    pub(crate) fn wait_for_place(&self, client: &ClientName) -> Result<(Place, Reservation), Refusal> {
        let patience = self.parts.limits.silence;
        let end = Instant::now() + patience;
        let mut ticket = self.queue.step_in(client);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match ticket.wait(left.min(LOOK_UP)) {
                Turn::Now(place, memory) => return Ok((place, memory)),
                Turn::Later(ahead) if left.is_zero() => {
                    let seconds = patience.as_secs();
                    let text = format!(
                        "the server is busy: no place was free for {seconds} seconds, and {ahead} clients come first; try \
                         again later"
                    );
                    return Err(Refusal::new(RefusalCode::Busy, text));
                }
                Turn::Later(_) if !self.is_closing() => {}
                Turn::Later(_) | Turn::Closed => return Err(shutting_down()),
            }
        }
    }
}

/// What a store's word means for the client.
pub(crate) fn store_fault(fault: StoreFault) -> Refusal {
    match fault {
        StoreFault::Refused(refusal) => refusal,
        StoreFault::Failed(cause) => {
            error!(reason = %with_causes(&*cause), "the store of prepared inferences failed");
            Refusal::new(RefusalCode::Internal, "the server's store failed; try again later")
        }
    }
}

fn microseconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::net::TcpListener;
    use std::num::NonZeroUsize;
    use std::sync::Arc;
    use std::thread;

    use client::{ClientError, ConnectOptions, PrivateClient};
    use inference::InferenceError;
    use inference::connection::{Identity, TlsAcceptor, Trust};
    use inference::plan::Reveal;
    use inference::server::{ServedModel, WeightMemory};
    use inference::setup::messages::ModelName;
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::weights::FloatWeights;
    use network::zoo;

    use crate::{ClientLimits, Limits, ServiceParts};

    /// A service with one place, and how clients reach it.
    pub(crate) fn one_place(
        silence: Duration,
        per_client: ClientLimits,
    ) -> (Arc<Service>, impl Fn() -> Result<PrivateClient, ClientError>) {
        let spec = zoo::build("resnet20:m=2,depths=1+1+1", 8, 10).unwrap();
        let (weights, images) = (FloatWeights::random(&spec, 1), [Image::random(spec.draft().input, 1)]);
        let model = freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0;
        let served = ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap();
        let identity = Identity::generate().unwrap();
        let fingerprint = identity.fingerprint();
        let parts = ServiceParts {
            models: BTreeMap::from([(ModelName::new("tiny").unwrap(), Arc::new(served))]),
            acceptor: TlsAcceptor::new(identity.into_key(), None).unwrap(),
            limits: Limits { running: NonZeroUsize::MIN, silence, per_client, ..Limits::default() },
            store: None,
            proxies: Vec::new(),
        };
        let service = Service::new(parts).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn({
            let service = Arc::clone(&service);
            move || service.run(&listener)
        });
        let connect =
            move || PrivateClient::connect(&address, ConnectOptions::new(Trust::Fingerprint(fingerprint)));
        (service, connect)
    }

    fn other() -> ClientName {
        ClientName("another client".to_owned())
    }

    #[test]
    fn a_set_up_waits_for_a_place_and_gives_it_back() {
        let (service, connect) = one_place(Duration::from_secs(60), ClientLimits::default());
        let place = service.wait_for_place(&other()).unwrap();
        thread::scope(|scope| {
            let connecting = scope.spawn(&connect);
            while service.queue.lengths() != (1, 1) {
                assert!(!connecting.is_finished(), "it was set up without a place");
                thread::yield_now();
            }
            assert_eq!(service.metrics.sessions.get(), 0);
            drop(place);
            let client = connecting.join().unwrap().unwrap();
            // Connected and idle: others find the place free.
            drop(service.wait_for_place(&other()).unwrap());
            client.finish().unwrap();
        });
    }

    #[test]
    fn who_finds_no_place_for_its_set_up_hears_that_the_server_is_busy() {
        let (service, connect) = one_place(Duration::from_secs(2), ClientLimits::default());
        let _place = service.wait_for_place(&other()).unwrap();
        let Err(ClientError::Inference(InferenceError::Refused { refusal, .. })) = connect() else {
            panic!("a refusal was expected")
        };
        assert_eq!(refusal.code, RefusalCode::Busy, "{refusal}");
        assert!(refusal.to_string().contains("try again later"), "{refusal}");
        assert_eq!((service.metrics.sessions.get(), service.queue.lengths()), (0, (1, 0)));
    }
}
