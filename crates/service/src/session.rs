//! One client: handshake, requests, refusals.

use std::collections::VecDeque;
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crypto::random::Seed;
use crypto::secret::Secret;
use inference::InferenceError;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::connection::{Connection, Role, TimeLimits, TlsStream};
use inference::plan::Depth;
use inference::requests::{MAX_REQUEST_BYTES, Reply, Request, StoredId};
use inference::server::{PreparedServer, Server};
use network::text::with_causes;
use tracing::{debug, info, warn};

use super::entrance::store_fault;
use super::limits::ByteSize;
use super::proxy::{self, Proxied};
use super::queue::{Reservation, Shortage, Turn};
use super::quotas::Quota;
use super::seat::Seat;
use super::server::{GuestState, Service, Visit, shutting_down};
use super::stores::{ClientName, Owner, StoreFault};

/// How often a client that waits hears that it does; less than any client's patience.
const WAITING_NOTICE: Duration = Duration::from_secs(2);
/// How long a client waits before it looks for memory again.
const KEEPING_PAUSE: Duration = Duration::from_millis(20);
/// How long the doorman spends on one client.
const DOORMAN_PATIENCE: Duration = Duration::from_secs(3);
/// Probes that are answered on one connection; a client that measures the link sends six.
const MAX_PROBES: u32 = 64;
/// How often one connection may ask about what is stored, and have it discarded. Each takes the store from everybody else.
const MAX_QUESTIONS: u32 = 256;

/// Tells a client that there is no room for it.
pub(super) fn turn_away(service: &Service, socket: TcpStream, is_passed_on: bool, refusal: &Refusal) {
    if is_passed_on && proxy::read(&socket, DOORMAN_PATIENCE).is_err() {
        return;
    }
    let limits = TimeLimits::new(DOORMAN_PATIENCE);
    limits.allow(Some(DOORMAN_PATIENCE));
    if let Ok((stream, binding)) = service.offer.get().acceptor.accept(socket, limits) {
        decline(stream, &binding, refusal);
    }
}

/// Says why there is no session. It always comes to nothing; the client has heard why.
fn decline(stream: TlsStream, binding: &[u8], refusal: &Refusal) {
    let refuse = |_: &_| Err(refusal.clone());
    drop(Server::accept_with(Connection::new(stream, Role::Server), refuse, binding));
}

/// Serves one client to the end.
pub(super) fn run(visit: &Visit, socket: TcpStream, address: IpAddr, is_passed_on: bool) {
    let service = &visit.service;
    let patience = service.parts.limits.silence;
    let passed_on = if is_passed_on { proxy::read(&socket, patience) } else { Ok(Proxied::Client(address)) };
    let (address, is_check) = match passed_on {
        Ok(Proxied::Client(address)) => (address, false),
        Ok(Proxied::Local) => (address, true),
        Err(error) => {
            service.metrics.failures.inc();
            let reason = with_causes(&error);
            return warn!(session = visit.number, balancer = %address, reason, "no header of a balancer");
        }
    };
    let of_address = ClientName::of_address(address);
    if let Err(refusal) = visit.identify(&of_address) {
        service.metrics.refusals.inc();
        info!(session = visit.number, client = %of_address, reason = %refusal, "refused");
        return turn_away(service, socket, false, &refusal);
    }
    let limits = TimeLimits::new(patience);
    limits.allow(Some(patience));
    // To the end of the session, whatever is offered to others by then.
    let offer = service.offer.get();
    let (stream, binding) = match offer.acceptor.accept(socket, Arc::clone(&limits)) {
        Ok(secured) => secured,
        // A balancer that looks whether somebody is there says no more than that.
        Err(_) if is_check => return debug!(session = visit.number, "a balancer's check"),
        Err(error) => {
            service.metrics.failures.inc();
            // No error holds a secret, nor do its causes: they name fields, counts and kinds.
            let reason = with_causes(&error);
            return warn!(session = visit.number, client = %address, reason, "no TLS handshake");
        }
    };
    let client = stream.peer().map_or(of_address, |peer| ClientName(peer.to_string()));
    if let Err(refusal) = visit.identify(&client) {
        service.metrics.refusals.inc();
        info!(session = visit.number, client = %client, reason = %refusal, "refused");
        return decline(stream, &binding, &refusal);
    }
    let mut connection = Connection::new(stream, Role::Server);
    connection.meter(service.metrics.byte_meter());
    let seat = Seat::new(Arc::clone(&service.queue), client.clone(), Arc::clone(&limits));
    let mut turn = None;
    let choose = |name: &_| {
        let chosen = service.choose(&offer, name)?;
        service.draw(&client, Quota::Sessions, 1)?;
        let (place, memory) = service.wait_for_place(&client)?;
        seat.take(place);
        // Time in the line is ours, not the client's.
        let set_up = chosen.1.plan().traffic(Depth::Eight).set_up;
        let time = service.parts.limits.time_for(set_up.bytes_up + set_up.bytes_down);
        limits.allow(Some(patience.max(time)));
        turn = Some(InTurn { limits: Arc::clone(&limits), _memory: memory });
        Ok(chosen)
    };
    let accepted = Server::accept_with(connection, choose, &binding);
    drop(turn);
    let mut server = match accepted {
        Ok(server) => server,
        Err(error) => {
            service.metrics.refusals.inc();
            warn!(session = visit.number, client = %client, reason = with_causes(&error), "no session");
            return;
        }
    };
    service.metrics.sessions.inc();
    info!(session = visit.number, client = %client, model = %server.name(), "session");
    server.take_turns(Arc::<Seat>::clone(&seat));
    let owner = Owner { model: server.name().clone(), served: Arc::clone(server.model()), client };
    let prepared = VecDeque::new();
    let mut session = Session { visit, server, limits, seat, owner, prepared, probes: 0, questions: 0 };
    let result = session.serve();
    session.end(result);
}

/// Why a session goes no further.
enum End {
    /// The client is told and that is all.
    Refused(Refusal),
    /// Something broke.
    Failed(InferenceError),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<InferenceError> for End {
    fn from(error: InferenceError) -> Self {
        Self::Failed(error)
    }
}

struct Session<'a> {
    visit: &'a Visit,
    server: Server<TlsStream>,
    limits: Arc<TimeLimits>,
    seat: Arc<Seat>,
    owner: Owner,
    /// Prepared in this session and not yet used, with the memory they take.
    prepared: VecDeque<(PreparedServer, Reservation)>,
    /// How many were answered.
    probes: u32,
    /// Likewise of questions about the store.
    questions: u32,
}

/// The time in which something is computed for a client: a place whenever the client is not waited for, and memory.
struct InTurn {
    limits: Arc<TimeLimits>,
    _memory: Reservation,
}

impl Drop for InTurn {
    fn drop(&mut self) {
        self.limits.leave_turns();
    }
}

impl Session<'_> {
    fn serve(&mut self) -> Result<(), End> {
        self.server.use_threads(self.visit.service.parts.limits.threads)?;
        // Probes do not make a connection look busy.
        let mut idle_since = Instant::now();
        loop {
            let request = self.next_request(idle_since)?;
            match request {
                Request::Prepare { count, store: None } => self.prepare(count)?,
                Request::Prepare { count, store: Some(token_hash) } => {
                    self.prepare_stored(count, &token_hash)?
                }
                Request::Classify { count } => self.classify(count)?,
                Request::ClassifyStored { token, ids } => self.classify_stored(&token, &ids)?,
                Request::Probe { down, .. } => {
                    self.probe(down)?;
                    continue;
                }
                Request::Room => {
                    let service = Arc::clone(&self.visit.service);
                    self.answer_about_store(|store, owner| {
                        let mut room = store.room(owner)?;
                        // What the hour allows is no room, but no more can be prepared.
                        if let Some(left) = service.left(&owner.client, Quota::Preparations)? {
                            room.count = room.count.min(left.into());
                        }
                        Ok(Reply::Room(room))
                    })?;
                }
                Request::List { token } => {
                    self.answer_about_store(|store, _| Ok(Reply::Listed { ids: store.list(&token)? }))?;
                }
                Request::Discard { token } => {
                    self.answer_about_store(|store, _| {
                        Ok(Reply::Discarded { count: store.discard(&token)? })
                    })?;
                }
                Request::Bye => return Ok(()),
            }
            idle_since = Instant::now();
        }
    }

    /// Waits for what the client wants: as long as it may be idle; but once it has begun to speak, it is to come to an end.
    fn next_request(&mut self, idle_since: Instant) -> Result<Request, End> {
        let limits = &self.visit.service.parts.limits;
        self.limits.allow_from_next_byte(limits.time_for(MAX_REQUEST_BYTES));
        self.limits.tolerate(limits.idle.saturating_sub(idle_since.elapsed()));
        // Who has prepared something may still use it while the service closes: that work is done.
        let may_finish = !self.prepared.is_empty();
        self.visit.set_state(if may_finish { GuestState::Holding } else { GuestState::Idle });
        let is_closing = || self.visit.service.is_closing();
        let request = match is_closing() && !may_finish {
            true => Err(End::Refused(shutting_down())),
            false => self.server.next_request().map_err(End::from),
        };
        let request = match request {
            Ok(request) if is_closing() && !matches!(request, Request::Classify { .. } | Request::Bye) => {
                Err(End::Refused(shutting_down()))
            }
            request => request,
        };
        self.visit.set_state(GuestState::Busy);
        let limits = &self.visit.service.parts.limits;
        self.limits.tolerate(limits.silence);
        self.limits.allow(Some(limits.silence));
        request
    }

    fn probe(&mut self, down: u32) -> Result<(), End> {
        self.probes += 1;
        if self.probes > MAX_PROBES {
            let text =
                format!("the link may be measured by {MAX_PROBES} messages on one connection; connect again");
            return Err(End::Refused(Refusal::new(RefusalCode::Limit, text)));
        }
        self.limits.allow(Some(self.visit.service.parts.limits.time_for(down.into())));
        Ok(self.server.reply(&Reply::Probed { bytes: down })?)
    }

    fn prepare(&mut self, count: u32) -> Result<(), End> {
        let service = &self.visit.service;
        let (most, threads) = (service.parts.limits.prepared, service.parts.limits.threads);
        if self.prepared.len() as u64 + u64::from(count) > u64::from(most) {
            let text = format!(
                "a client may have {most} inferences wait for their images on one connection; use some first"
            );
            return Err(End::Refused(Refusal::new(RefusalCode::Limit, text)));
        }
        let plan = Arc::clone(self.server.model().plan());
        let each = plan.server_prepared_memory();
        let queue = Arc::clone(&service.queue);
        let all = each.saturating_mul(count.into());
        match queue.could_keep(&self.owner.client, all) {
            Ok(()) | Err(Shortage::Passing) => {}
            Err(shortage) => return Err(no_memory(shortage)),
        }
        self.draw(Quota::Preparations, count)?;
        // For all of them before the first: none is prepared in vain.
        let mut memory = self.wait_to_keep(all)?;
        let _turn = self.wait_for_turn(plan.server_offline_memory(threads), 1)?;
        self.server.reply(&Reply::Accepted { ids: Vec::new() })?;
        for _ in 0..count {
            let prepared = self.prepare_one()?;
            self.prepared.push_back((prepared, memory.split(each)));
        }
        Ok(())
    }

    fn prepare_stored(&mut self, count: u32, token_hash: &[u8; 32]) -> Result<(), End> {
        let store = self.store()?;
        store.has_room(&self.owner, count).map_err(store_fault)?;
        self.draw(Quota::Preparations, count)?;
        let plan = Arc::clone(self.server.model().plan());
        let threads = self.visit.service.parts.limits.threads;
        let one =
            plan.server_offline_memory(threads) + plan.server_prepared_memory() + plan.server_stored_memory();
        let _turn = self.wait_for_turn(one, 1)?;
        let ids = (0..count).map(|_| fresh_id()).collect::<Result<Vec<_>, _>>()?;
        self.server.reply(&Reply::Accepted { ids: ids.clone() })?;
        let mut expires = u64::MAX;
        for id in ids {
            let prepared = self.prepare_one()?;
            expires = expires.min(store.put(&self.owner, token_hash, id, prepared).map_err(store_fault)?);
        }
        Ok(self.server.reply(&Reply::Stored { expires })?)
    }

    fn prepare_one(&mut self) -> Result<PreparedServer, End> {
        let service = &self.visit.service;
        let traffic = self.server.model().plan().traffic(self.server.depth()).offline;
        self.limits.allow(Some(service.parts.limits.time_for(traffic.bytes_up + traffic.bytes_down)));
        let start = Instant::now();
        let prepared = self.server.prepare()?;
        service.metrics.note_prepared(&self.owner.model, start.elapsed());
        Ok(prepared)
    }

    fn classify(&mut self, count: u32) -> Result<(), End> {
        if count as usize > self.prepared.len() {
            let text = format!(
                "the client asked about {count} images, and {} inferences are prepared for it; prepare more first",
                self.prepared.len()
            );
            return Err(End::Refused(Refusal::new(RefusalCode::Order, text)));
        }
        let each = self.server.model().plan().server_online_memory();
        self.expect_memory(each, count)?;
        self.draw(Quota::Answers, count)?;
        let _turn = self.wait_for_turn(each, count)?;
        // Taken out before the client hears "accepted": whatever happens now, they are spent.
        let (batch, _reserved): (Vec<_>, Vec<_>) = self.prepared.drain(..count as usize).unzip();
        self.classify_batch(batch)
    }

    fn classify_stored(&mut self, token: &Secret<[u8; 32]>, ids: &[StoredId]) -> Result<(), End> {
        let store = self.store()?;
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let plan = self.server.model().plan();
        let each = plan.server_online_memory() + plan.server_prepared_memory() + plan.server_stored_memory();
        self.expect_memory(each, count)?;
        self.draw(Quota::Answers, count)?;
        let _turn = self.wait_for_turn(each, count)?;
        let batch = store.take(&self.owner, token, ids).map_err(store_fault)?;
        self.classify_batch(batch)
    }

    fn classify_batch(&mut self, batch: Vec<PreparedServer>) -> Result<(), End> {
        let service = &self.visit.service;
        let (count, traffic) =
            (batch.len() as u64, self.server.model().plan().traffic(self.server.depth()).online);
        let bytes = count.saturating_mul(traffic.bytes_up + traffic.bytes_down);
        self.limits.allow(Some(service.parts.limits.time_for(bytes)));
        self.server.reply(&Reply::Accepted { ids: Vec::new() })?;
        let start = Instant::now();
        self.server.classify_batch(batch)?;
        service.metrics.note_classified(&self.owner.model, count, start.elapsed());
        info!(session = self.visit.number, model = %self.owner.model, images = count, "classified");
        Ok(())
    }

    /// Refuses a batch that cannot have the memory it takes, beside what the client keeps.
    fn expect_memory(&self, each: u64, count: u32) -> Result<(), End> {
        let most = self.visit.service.queue.most_memory(&self.owner.client);
        if each.saturating_mul(count.into()) <= most {
            return Ok(());
        }
        let (fits, most) = (most / each.max(1), ByteSize(most));
        let text = format!(
            "{count} images at once take more than the {most} of memory that this client may have here beside what is \
             prepared for it; ask about at most {fits} at a time"
        );
        Err(End::Refused(Refusal::new(RefusalCode::Limit, text)))
    }

    /// Draws from what the client may have in an hour.
    fn draw(&self, quota: Quota, count: u32) -> Result<(), End> {
        Ok(self.visit.service.draw(&self.owner.client, quota, count)?)
    }

    /// Waits in line for a place and so much memory; the client hears of it every few seconds.
    fn wait_for_turn(&mut self, each: u64, count: u32) -> Result<InTurn, End> {
        self.expect_memory(each, count)?;
        let bytes = each.saturating_mul(count.into());
        let mut ticket = self.visit.service.queue.line_up(&self.owner.client, bytes);
        loop {
            let turn = ticket.wait(WAITING_NOTICE);
            // Time in the line is ours, not the client's.
            self.limits.allow(Some(self.visit.service.parts.limits.silence));
            match turn {
                Turn::Now(place, memory) => {
                    self.seat.take(place);
                    return Ok(InTurn { limits: Arc::clone(&self.limits), _memory: memory });
                }
                Turn::Closed => return Err(End::Refused(shutting_down())),
                Turn::Later(ahead) => {
                    // Another connection of this client may have kept what this one waits for.
                    self.expect_memory(each, count)?;
                    self.server.reply(&Reply::Waiting { ahead })?;
                }
            }
        }
    }

    /// Memory for something that will wait for its image. What runs may have it for the moment.
    fn wait_to_keep(&mut self, bytes: u64) -> Result<Reservation, End> {
        let queue = Arc::clone(&self.visit.service.queue);
        let mut told = Instant::now();
        loop {
            match queue.keep(&self.owner.client, bytes) {
                Err(Shortage::Passing) if self.visit.service.is_closing() => {
                    return Err(End::Refused(shutting_down()));
                }
                Err(Shortage::Passing) => std::thread::sleep(KEEPING_PAUSE),
                kept => return kept.map_err(no_memory),
            }
            self.limits.allow(Some(self.visit.service.parts.limits.silence));
            if told.elapsed() >= WAITING_NOTICE {
                told = Instant::now();
                self.server.reply(&Reply::Waiting { ahead: queue.lengths().1 as u32 })?;
            }
        }
    }

    fn store(&self) -> Result<Arc<dyn super::stores::Store>, End> {
        self.visit.service.parts.store.clone().ok_or_else(|| {
            let text = "this server keeps no prepared inferences; classify without --prepared";
            End::Refused(Refusal::new(RefusalCode::NotStored, text))
        })
    }

    fn answer_about_store(
        &mut self,
        ask: impl FnOnce(&dyn super::stores::Store, &Owner) -> Result<Reply, StoreFault>,
    ) -> Result<(), End> {
        self.questions += 1;
        if self.questions > MAX_QUESTIONS {
            let text =
                format!("one connection may ask {MAX_QUESTIONS} times about what is stored; connect again");
            return Err(End::Refused(Refusal::new(RefusalCode::Limit, text)));
        }
        let reply = ask(&*self.store()?, &self.owner).map_err(store_fault)?;
        if let Reply::Discarded { count } = reply {
            info!(session = self.visit.number, client = %self.owner.client, count, "discarded");
        }
        Ok(self.server.reply(&reply)?)
    }

    /// Says the last word, counts and logs.
    fn end(mut self, result: Result<(), End>) {
        let service = &self.visit.service;
        let (session, client) = (self.visit.number, self.owner.client.clone());
        self.limits.allow(Some(DOORMAN_PATIENCE));
        match result {
            Ok(()) => debug!(session, "goodbye"),
            Err(End::Refused(refusal)) => {
                service.metrics.refusals.inc();
                info!(session, client = %client, reason = %refusal, "refused");
                self.server.refuse(&refusal);
            }
            Err(End::Failed(InferenceError::Connection(_))) if service.is_closing() => {
                self.server.refuse(&shutting_down());
            }
            Err(End::Failed(failure)) => {
                service.metrics.failures.inc();
                warn!(session, client = %client, reason = with_causes(&failure), "the session broke");
                if let Some(refusal) = failure.for_peer() {
                    self.server.refuse(&refusal);
                }
            }
        }
    }
}

/// Why memory is not given, for the client.
fn no_memory(shortage: Shortage) -> End {
    let text = match shortage {
        Shortage::OfClient { limit } => format!(
            "one client may have {} of memory here for what is prepared, and so many more would pass that; use what is \
             prepared, or ask for fewer",
            ByteSize(limit)
        ),
        Shortage::OfServer | Shortage::Passing => {
            "the server has no memory left for so many; ask for fewer, or try again later".to_owned()
        }
    };
    End::Refused(Refusal::new(RefusalCode::Limit, text))
}

fn fresh_id() -> Result<StoredId, InferenceError> {
    let mut id = [0; 16];
    id.copy_from_slice(&Seed::from_system()?.expose()[..16]);
    Ok(StoredId(id))
}
