//! The process: accepts clients, gives each a thread, ends gracefully.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crypto::ot::most_session_bytes;
use inference::connection::TlsAcceptor;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::plan::{Plan, Reveal};
use inference::server::ServedModel;
use inference::setup::messages::ModelName;
use tracing::{info, warn};

use super::http;
use super::limits::{ClientMemoryTooSmall, ImageMemory, Limits};
use super::metrics::{self, Metrics, Now};
use super::offer::{CurrentOffer, NoRoomToReload, Offer};
use super::proxy::ProxyNetwork;
use super::queue::{Queue, Supply, Withheld};
use super::quotas::ProcessQuotas;
use super::session;
use super::stores::{ClientName, Store};

/// How long clients that have prepared something may still ask to use it while the service closes.
const LAST_MOMENT: Duration = Duration::from_secs(2);
/// Clients beyond the limit to whom somebody still says so; the others find the door shut.
const DOORMEN: usize = 8;
/// What one connection takes beside its transfers: keys, buffers of TLS, a stack. Measured: 0.7 MB with shallow transfers.
const SESSION_BYTES: u64 = 1 << 20;
/// Transfers of a session, one for each direction. Their clients choose how deep, and deep ones hold most.
const TRANSFERS: u64 = 2;

/// What a service is made of.
pub struct ServiceParts {
    /// By name.
    pub models: BTreeMap<ModelName, Arc<ServedModel>>,
    /// How connections are secured.
    pub acceptor: TlsAcceptor,
    /// What clients may take.
    pub limits: Limits,
    /// Where prepared inferences outlive their session, if they do.
    pub store: Option<Arc<dyn Store>>,
    /// Balancers that say whose connection they pass on; they must, and nobody else is asked.
    pub proxies: Vec<ProxyNetwork>,
}

/// The parts that stay as they are.
pub(super) struct FixedParts {
    pub(super) limits: Limits,
    pub(super) store: Option<Arc<dyn Store>>,
    pub(super) proxies: Vec<ProxyNetwork>,
}

/// A service that clients can connect to.
pub struct Service {
    pub(super) parts: FixedParts,
    pub(super) offer: CurrentOffer,
    pub(super) queue: Arc<Queue>,
    /// Of a service without a store.
    pub(super) quotas: ProcessQuotas,
    pub(super) metrics: Metrics,
    is_closing: AtomicBool,
    doormen: AtomicUsize,
    next_session: AtomicU64,
    guests: Mutex<HashMap<u64, Guest>>,
    left: Condvar,
    /// Bytes for process and connections, for as long as the service exists.
    standing: u64,
    /// What the largest running inference takes.
    largest: Mutex<Largest>,
}

/// Memory that running inferences may always have.
struct Largest {
    /// Bytes of the largest so far.
    each: u64,
    /// What an image took at most so far.
    image: ImageMemory,
    /// Bytes for all clients.
    for_clients: u64,
    /// What models that came later take more than the first ones.
    more: Vec<Withheld>,
}

/// A client that is connected.
struct Guest {
    socket: TcpStream,
    /// Whose limits it counts against; none while a balancer has not said it.
    client: Option<ClientName>,
    state: GuestState,
}

/// What a client is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuestState {
    /// Something is computed for it.
    Busy,
    /// It has prepared something and not used it: while the service closes it is given a moment to.
    Holding,
    /// Nothing is under way for it: it may be sent home at any moment.
    Idle,
}

/// A service whose limits contradict each other.
#[derive(Debug, thiserror::Error)]
pub enum TooLittleMemory {
    /// What must always be there is more than there is.
    #[error(
        "the models take {weights} bytes, {running} running inferences {each} bytes each and {clients} clients a megabyte \
         each, {needed} bytes in all, more than the {limit} bytes of --max-memory; allow more, hold fewer weights with \
         --weight-memory, or allow fewer with --max-running and --max-clients"
    )]
    InAll {
        /// Bytes of the models.
        weights: u64,
        /// Clients at once.
        clients: usize,
        /// Inferences at once.
        running: usize,
        /// Bytes of each of them.
        each: u64,
        /// Bytes of all that.
        needed: u64,
        /// Bytes there are.
        limit: u64,
    },
    /// No client could have one answer.
    #[error(transparent)]
    Client(#[from] ClientMemoryTooSmall),
}

impl Service {
    /// A service of these parts.
    ///
    /// # Errors
    /// When the models and the inferences that may run at once do not fit the memory.
    pub fn new(parts: ServiceParts) -> Result<Arc<Self>, TooLittleMemory> {
        let (limits, plans) = (&parts.limits, parts.models.values().map(|model| model.plan().as_ref()));
        let planned = plans.clone().map(|plan| plan.memory().server_weights).sum::<u64>();
        let weights = parts.models.values().map(|model| model.weight_bytes()).sum::<u64>();
        // What `--weight-memory` leaves out is not held.
        let spared = planned.saturating_sub(weights);
        let each = plans.clone().map(|plan| plan.server_memory(limits.threads)).max().unwrap_or(0);
        let image = image_memory(plans.clone(), limits, parts.store.is_some());
        let (running, limit, clients) = (limits.running.get(), limits.memory, limits.clients);
        let standing = standing_memory(plans.clone(), limits).saturating_sub(spared);
        let needed = Self::memory_for(plans, limits).saturating_sub(spared);
        if needed > limit {
            return Err(TooLittleMemory::InAll { weights, clients, running, each, needed, limit });
        }
        // The weights come and go with what is offered, so the line knows of them.
        let standing = standing - weights;
        let memory = limit - standing;
        let for_clients = memory - weights;
        let supply = Supply {
            places: running,
            client_places: limits.client_places(),
            memory,
            kept_memory: limit - needed + weights,
            client: limits.client_share(for_clients, image)?,
        };
        let queue = Queue::new(supply);
        let ServiceParts { models, acceptor, limits, store, proxies } = parts;
        let refusal = |_| TooLittleMemory::InAll { weights, clients, running, each, needed, limit };
        let offer = Offer::new(models, acceptor, None, &queue).map_err(refusal)?;
        Ok(Arc::new(Self {
            queue,
            quotas: ProcessQuotas::default(),
            metrics: Metrics::default(),
            is_closing: AtomicBool::new(false),
            doormen: AtomicUsize::new(0),
            next_session: AtomicU64::new(0),
            guests: Mutex::default(),
            left: Condvar::new(),
            parts: FixedParts { limits, store, proxies },
            offer: CurrentOffer::new(offer),
            standing,
            largest: Mutex::new(Largest { each, image, for_clients, more: Vec::new() }),
        }))
    }

    /// Gives clients that come from here on these models and this certificate. Sessions that are under way keep theirs to
    /// their end, and the memory of those weights is taken until then.
    ///
    /// # Errors
    /// When old and new weights do not fit the memory together, or one client may not have what an image takes; then nothing
    /// changes.
    pub fn reload(
        &self,
        models: BTreeMap<ModelName, Arc<ServedModel>>,
        acceptor: TlsAcceptor,
    ) -> Result<(), NoRoomToReload> {
        // Held to the end: of two calls at once one is the first.
        let mut largest = self.largest.lock().unwrap_or_else(PoisonError::into_inner);
        let limits = &self.parts.limits;
        let plans = models.values().map(|model| model.plan().as_ref());
        let each = plans.clone().map(|plan| plan.server_memory(limits.threads)).max().unwrap_or(0);
        // Sessions of before go on with their models.
        let image = largest.image.max(image_memory(plans, limits, self.parts.store.is_some()));
        let share = limits.client_share(largest.for_clients, image)?;
        let needed = each.saturating_sub(largest.each).saturating_mul(limits.running.get() as u64);
        let refusal = || NoRoomToReload::BesideTheOld { needed, left: self.queue.spare() };
        let more = self.queue.withhold(needed).ok_or_else(refusal)?;
        let offer = Offer::new(models, acceptor, Some(&self.offer.get()), &self.queue)?;
        self.offer.replace(offer);
        self.queue.set_share(share);
        largest.image = image;
        if needed > 0 {
            largest.each = each;
            largest.more.push(more);
        }
        Ok(())
    }

    /// What a service of these models holds at most while as many clients are connected and as many inferences run as may,
    /// and none is prepared.
    pub fn memory_for<'a>(plans: impl Iterator<Item = &'a Plan> + Clone, limits: &Limits) -> u64 {
        let each = plans.clone().map(|plan| plan.server_memory(limits.threads)).max().unwrap_or(0);
        let computing = each.saturating_mul(limits.running.get() as u64);
        standing_memory(plans, limits).saturating_add(computing)
    }

    /// Serves until [`Service::close`] is called elsewhere. Sessions may still be under way afterwards.
    pub fn run(self: &Arc<Self>, listener: &TcpListener) {
        while !self.is_closing() {
            let Some((socket, address)) = http::accept(listener) else { continue };
            if self.is_closing() {
                break;
            }
            self.admit(socket, address, self.is_proxy(address.ip()));
            self.metrics.connections.inc();
        }
    }

    /// Gives a client a thread, or turns it away. A connection that is passed on begins with whose it is.
    pub(super) fn admit(self: &Arc<Self>, socket: TcpStream, address: SocketAddr, is_passed_on: bool) {
        let number = self.next_session.fetch_add(1, Ordering::Relaxed);
        let Ok(copy) = socket.try_clone() else { return };
        let client = (!is_passed_on).then(|| ClientName::of_address(address.ip()));
        let mut guests = self.guests();
        let is_full = guests.len() >= self.parts.limits.clients;
        let room =
            if is_full { Err(too_many_clients()) } else { self.check_room(&guests, number, client.as_ref()) };
        if room.is_ok() {
            guests.insert(number, Guest { socket: copy, client, state: GuestState::Busy });
        }
        drop(guests);
        let service = Arc::clone(self);
        if let Err(refusal) = room {
            self.metrics.refusals.inc();
            warn!(client = %address.ip(), reason = %refusal, "turned away");
            if self.doormen.fetch_add(1, Ordering::AcqRel) >= DOORMEN {
                self.doormen.fetch_sub(1, Ordering::AcqRel);
                return;
            }
            let doorman = Doorman(Arc::clone(self));
            let turn_away = move || {
                let _doorman = doorman;
                session::turn_away(&service, socket, is_passed_on, &refusal);
            };
            self.start_thread("doorman", turn_away);
            return;
        }
        let visit = Visit { service, number };
        self.metrics.clients.inc();
        self.start_thread("session", move || session::run(&visit, socket, address.ip(), is_passed_on));
    }

    /// Whether a client may have this connection besides its others.
    fn check_room(
        &self,
        guests: &HashMap<u64, Guest>,
        number: u64,
        client: Option<&ClientName>,
    ) -> Result<(), Refusal> {
        let (Some(limit), Some(client)) = (self.parts.limits.per_client.connections, client) else {
            return Ok(());
        };
        let others =
            guests.iter().filter(|(other, guest)| **other != number && guest.client.as_ref() == Some(client));
        if others.count() < limit {
            return Ok(());
        }
        let text = format!(
            "one client may have {limit} connections here at a time, and this one has them; close one, or try again when \
             one has ended"
        );
        Err(Refusal::new(RefusalCode::Limit, text))
    }

    fn start_thread(&self, name: &str, work: impl FnOnce() + Send + 'static) {
        if let Err(error) = thread::Builder::new().name(name.to_owned()).spawn(work) {
            warn!(%error, "a client was dropped: no thread could be started");
        }
    }

    /// Stops accepting clients, sends home those that wait, and gives those for whom something is under way so long to
    /// finish. True where all of them did.
    pub fn close(&self, listening: SocketAddr, grace: Duration) -> bool {
        let are_gone = self.send_home(listening, grace);
        if let Some(store) = &self.parts.store {
            store.close();
        }
        are_gone
    }

    fn send_home(&self, listening: SocketAddr, grace: Duration) -> bool {
        self.is_closing.store(true, Ordering::Release);
        self.queue.close();
        // The listener waits for a client; this one tells it to look up. If it fails, no client could come either.
        let _ = TcpStream::connect_timeout(&reachable(listening), Duration::from_secs(1));
        let began = Instant::now();
        let (end, patience) = (began + grace, began + LAST_MOMENT.min(grace));
        let mut guests = self.guests();
        loop {
            let is_over = Instant::now() >= patience;
            let goes = |guest: &&Guest| match guest.state {
                GuestState::Busy => false,
                GuestState::Holding => is_over,
                GuestState::Idle => true,
            };
            for guest in guests.values().filter(goes) {
                // It waits for a request; now it reads the end of the stream, and says goodbye.
                let _ = guest.socket.shutdown(Shutdown::Read);
            }
            let left = end.saturating_duration_since(Instant::now());
            if guests.is_empty() || left.is_zero() {
                return guests.is_empty();
            }
            let left = if is_over { left } else { patience.saturating_duration_since(Instant::now()) };
            guests = self.left.wait_timeout(guests, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Shows health and metrics on another address, in a thread of its own.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn show_metrics(self: &Arc<Self>, listener: TcpListener) -> std::io::Result<()> {
        let service = Arc::clone(self);
        let show = move || metrics::serve(&listener, &service);
        thread::Builder::new().name("metrics".to_owned()).spawn(show).map(drop)
    }

    /// What the service did so far.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What it does at this moment.
    pub fn now(&self) -> Now {
        let (running, waiting) = self.queue.lengths();
        let memory = self.standing + self.queue.memory();
        Now { running, waiting, memory, is_open: !self.is_closing() }
    }

    /// Whether this is a balancer, which says whose connection it passes on.
    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        self.parts.proxies.iter().any(|proxy| proxy.contains(address))
    }

    /// How many clients may be connected at once.
    pub(super) fn most_clients(&self) -> usize {
        self.parts.limits.clients
    }

    /// What a page has to know to connect, as JSON: the fingerprint to expect, the models, where the WebSocket is, and whether
    /// this is a demo that also answers in plain.
    pub(super) fn page_settings(&self, answers_in_plain: bool) -> String {
        self.offer.get().page_settings(answers_in_plain)
    }

    /// Whether the service is about to end.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// The model of this name in what a session was offered.
    pub(super) fn choose(
        &self,
        offer: &Offer,
        name: &ModelName,
    ) -> Result<(ModelName, Arc<ServedModel>), Refusal> {
        if self.is_closing() { Err(shutting_down()) } else { offer.choose(name) }
    }

    /// What clients may learn from the model of this name, as it is offered now.
    pub(super) fn reveal_of(&self, name: &str) -> Result<Reveal, Refusal> {
        let unknown = |_| Refusal::new(RefusalCode::UnknownModel, format!("{name:?} cannot name a model"));
        let (_, model) = self.choose(&self.offer.get(), &ModelName::new(name).map_err(unknown)?)?;
        Ok(model.plan().reveal())
    }

    fn guests(&self) -> MutexGuard<'_, HashMap<u64, Guest>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is held whether or not anybody asks: process, weights, connections.
fn standing_memory<'a>(plans: impl Iterator<Item = &'a Plan>, limits: &Limits) -> u64 {
    let weights = plans.map(|plan| plan.memory().server_weights).sum::<u64>();
    let session = SESSION_BYTES + TRANSFERS * most_session_bytes() as u64;
    let sessions = session.saturating_mul(limits.clients as u64);
    limits.process.saturating_add(weights).saturating_add(sessions)
}

/// What one image takes of any of these models.
fn image_memory<'a>(plans: impl Iterator<Item = &'a Plan>, limits: &Limits, has_store: bool) -> ImageMemory {
    let of_plan = |plan: &Plan| {
        let turn = plan.server_offline_memory(limits.threads).max(plan.server_online_memory());
        let stored = if has_store { plan.server_stored_memory() } else { 0 };
        ImageMemory { turn, kept: plan.server_prepared_memory(), stored }
    };
    plans.map(of_plan).fold(ImageMemory::default(), ImageMemory::max)
}

/// What clients hear when all connections are taken.
fn too_many_clients() -> Refusal {
    Refusal::new(RefusalCode::Busy, "too many clients are connected; try again later")
}

/// What clients hear at the end.
pub(super) fn shutting_down() -> Refusal {
    Refusal::new(RefusalCode::ShuttingDown, "the server is shutting down; try again later")
}

/// Where a listener can be reached from its own machine.
fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

struct Doorman(Arc<Service>);

impl Drop for Doorman {
    fn drop(&mut self) {
        self.0.doormen.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A client's stay, from the door to the door, whatever happens in between.
pub(super) struct Visit {
    pub(super) service: Arc<Service>,
    pub(super) number: u64,
}

impl Visit {
    /// Counts this connection as that of a client, from here on.
    ///
    /// # Errors
    /// When the client has as many as it may.
    pub(super) fn identify(&self, client: &ClientName) -> Result<(), Refusal> {
        let mut guests = self.service.guests();
        self.service.check_room(&guests, self.number, Some(client))?;
        if let Some(guest) = guests.get_mut(&self.number) {
            guest.client = Some(client.clone());
        }
        Ok(())
    }

    /// Notes what this client is at.
    pub(super) fn set_state(&self, state: GuestState) {
        if let Some(guest) = self.service.guests().get_mut(&self.number) {
            guest.state = state;
        }
        if state != GuestState::Busy && self.service.is_closing() {
            self.service.left.notify_all();
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.service.guests().remove(&self.number);
        self.service.metrics.clients.dec();
        self.service.left.notify_all();
        if thread::panicking() {
            self.service.metrics.failures.inc();
        } else {
            info!(session = self.number, "left");
        }
    }
}
