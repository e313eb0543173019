//! One client: handshake, requests, refusals.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crypto::random::Seed;
use inference::InferenceError;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::connection::{Connection, Role, TimeLimits, TlsStream};
use inference::requests::{Reply, Request, StoredId};
use inference::server::{PreparedServer, Server};
use network::text::with_causes;
use tracing::{debug, error, info, warn};

use super::limits::Reservation;
use super::queue::{Place, Turn};
use super::server::{Service, Visit, shutting_down};
use super::stores::{ClientName, Owner, StoreFault};

/// How often a client that waits hears that it does; less than any client's patience.
const WAITING_NOTICE: Duration = Duration::from_secs(2);
/// How long the doorman spends on one client.
const DOORMAN_PATIENCE: Duration = Duration::from_secs(3);

/// Tells a client that there is no room for it.
pub(super) fn turn_away(service: &Service, socket: TcpStream) {
    let limits = TimeLimits::new(DOORMAN_PATIENCE);
    limits.allow(Some(DOORMAN_PATIENCE));
    let Ok((stream, binding)) = service.offer.get().acceptor.accept(socket, limits) else { return };
    let text = "too many clients are connected; try again later";
    let refuse = |_: &_| Err(Refusal::new(RefusalCode::Busy, text));
    // It always comes to nothing; the client has heard why.
    drop(Server::accept_with(Connection::new(stream, Role::Server), refuse, &binding));
}

/// Serves one client to the end.
pub(super) fn run(visit: &Visit, socket: TcpStream, address: SocketAddr) {
    let service = &visit.service;
    let limits = TimeLimits::new(service.parts.limits.silence);
    limits.allow(Some(service.parts.limits.silence));
    // To the end of the session, whatever is offered to others by then.
    let offer = service.offer.get();
    let (stream, binding) = match offer.acceptor.accept(socket, Arc::clone(&limits)) {
        Ok(secured) => secured,
        Err(error) => {
            service.metrics.failures.inc();
            // No error holds a secret, nor do its causes: they name fields, counts and kinds.
            let reason = with_causes(&error);
            warn!(session = visit.number, client = %address.ip(), reason, "no TLS handshake");
            return;
        }
    };
    let client = ClientName(stream.peer().map_or_else(|| address.ip().to_string(), |peer| peer.to_string()));
    let mut connection = Connection::new(stream, Role::Server);
    connection.meter(service.metrics.byte_meter());
    let server = match Server::accept_with(connection, |name| service.choose(&offer, name), &binding) {
        Ok(server) => server,
        Err(error) => {
            service.metrics.refusals.inc();
            warn!(session = visit.number, client = %client, reason = with_causes(&error), "no session");
            return;
        }
    };
    service.metrics.sessions.inc();
    info!(session = visit.number, client = %client, model = %server.name(), "session");
    let owner = Owner { model: server.name().clone(), served: Arc::clone(server.model()), client };
    let mut session = Session { visit, server, limits, owner, prepared: VecDeque::new() };
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

impl From<InferenceError> for End {
    fn from(error: InferenceError) -> Self {
        Self::Failed(error)
    }
}

struct Session<'a> {
    visit: &'a Visit,
    server: Server<TlsStream>,
    limits: Arc<TimeLimits>,
    owner: Owner,
    /// Prepared in this session and not yet used, with the memory they take.
    prepared: VecDeque<(PreparedServer, Reservation)>,
}

impl Session<'_> {
    fn serve(&mut self) -> Result<(), End> {
        let limits = &self.visit.service.parts.limits;
        self.server.use_threads(limits.threads)?;
        loop {
            self.limits.allow(None);
            self.limits.tolerate(limits.idle);
            self.visit.set_idle(true);
            let is_closing = self.visit.service.is_closing();
            let request = if is_closing {
                Err(End::Refused(shutting_down()))
            } else {
                Ok(self.server.next_request()?)
            };
            self.visit.set_idle(false);
            self.limits.tolerate(limits.silence);
            self.limits.allow(Some(limits.silence));
            match request? {
                Request::Prepare { count, store: None } => self.prepare(count)?,
                Request::Prepare { count, store: Some(token_hash) } => {
                    self.prepare_stored(count, &token_hash)?
                }
                Request::Classify { count } => self.classify(count as usize)?,
                Request::ClassifyStored { token, ids } => {
                    let place = self.wait_for_place()?;
                    let batch = self.store()?.take(&self.owner, &token, &ids).map_err(store_fault)?;
                    self.classify_batch(batch, &place)?;
                }
                Request::Room => {
                    self.answer_about_store(|store, owner| Ok(Reply::Room(store.room(owner)?)))?
                }
                Request::List { token } => {
                    self.answer_about_store(|store, _| Ok(Reply::Listed { ids: store.list(&token)? }))?;
                }
                Request::Discard { token } => {
                    self.answer_about_store(|store, _| {
                        Ok(Reply::Discarded { count: store.discard(&token)? })
                    })?;
                }
                Request::Probe { .. } => unreachable!("the server answers probes itself"),
                Request::Bye => return Ok(()),
            }
        }
    }

    fn prepare(&mut self, count: u32) -> Result<(), End> {
        let service = &self.visit.service;
        let most = service.parts.limits.prepared;
        if self.prepared.len() as u64 + u64::from(count) > u64::from(most) {
            let text = format!(
                "a client may have {most} inferences wait for their images on one connection; use some first"
            );
            return Err(End::Refused(Refusal::new(RefusalCode::Limit, text)));
        }
        let each = self.server.model().plan().server_prepared_memory();
        let reserved: Option<Vec<_>> = (0..count).map(|_| service.memory.reserve(each)).collect();
        let reserved = reserved.ok_or_else(|| {
            let text = "the server has no memory left for so many; ask for fewer, or try again later";
            End::Refused(Refusal::new(RefusalCode::Limit, text))
        })?;
        let place = self.wait_for_place()?;
        self.server.reply(&Reply::Accepted { ids: Vec::new() })?;
        for reservation in reserved {
            let prepared = self.prepare_one(&place)?;
            self.prepared.push_back((prepared, reservation));
        }
        Ok(())
    }

    fn prepare_stored(&mut self, count: u32, token_hash: &[u8; 32]) -> Result<(), End> {
        let store = self.store()?;
        store.has_room(&self.owner, count).map_err(store_fault)?;
        let place = self.wait_for_place()?;
        let ids = (0..count).map(|_| fresh_id()).collect::<Result<Vec<_>, _>>()?;
        self.server.reply(&Reply::Accepted { ids: ids.clone() })?;
        let mut expires = u64::MAX;
        for id in ids {
            let prepared = self.prepare_one(&place)?;
            expires = expires.min(store.put(&self.owner, token_hash, id, prepared).map_err(store_fault)?);
        }
        Ok(self.server.reply(&Reply::Stored { expires })?)
    }

    fn prepare_one(&mut self, _place: &Place) -> Result<PreparedServer, End> {
        let service = &self.visit.service;
        let traffic = self.server.model().plan().traffic().offline;
        self.limits.allow(Some(service.parts.limits.time_for(traffic.bytes_up + traffic.bytes_down)));
        let start = Instant::now();
        let prepared = self.server.prepare()?;
        service.metrics.note_prepared(&self.owner.model, start.elapsed());
        Ok(prepared)
    }

    fn classify(&mut self, count: usize) -> Result<(), End> {
        if count > self.prepared.len() {
            let text = format!(
                "the client asked about {count} images, and {} inferences are prepared for it; prepare more first",
                self.prepared.len()
            );
            return Err(End::Refused(Refusal::new(RefusalCode::Order, text)));
        }
        let place = self.wait_for_place()?;
        // Taken out before the client hears "accepted": whatever happens now, they are spent.
        let (batch, _reserved): (Vec<_>, Vec<_>) = self.prepared.drain(..count).unzip();
        self.classify_batch(batch, &place)
    }

    fn classify_batch(&mut self, batch: Vec<PreparedServer>, _place: &Place) -> Result<(), End> {
        let service = &self.visit.service;
        let (count, traffic) = (batch.len() as u64, self.server.model().plan().traffic().online);
        let bytes = count.saturating_mul(traffic.bytes_up + traffic.bytes_down);
        self.limits.allow(Some(service.parts.limits.time_for(bytes)));
        self.server.reply(&Reply::Accepted { ids: Vec::new() })?;
        let start = Instant::now();
        self.server.classify_batch(batch)?;
        service.metrics.note_classified(&self.owner.model, count, start.elapsed());
        info!(session = self.visit.number, model = %self.owner.model, images = count, "classified");
        Ok(())
    }

    /// Waits in line; the client hears of it every few seconds.
    fn wait_for_place(&mut self) -> Result<Place, End> {
        let mut ticket = self.visit.service.queue.line_up();
        loop {
            let turn = ticket.wait(WAITING_NOTICE);
            // Time in the line is ours, not the client's.
            self.limits.allow(Some(self.visit.service.parts.limits.silence));
            match turn {
                Turn::Now(place) => return Ok(place),
                Turn::Closed => return Err(End::Refused(shutting_down())),
                Turn::Later(ahead) => self.server.reply(&Reply::Waiting { ahead })?,
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

/// What a store's word means for the session.
fn store_fault(fault: StoreFault) -> End {
    match fault {
        StoreFault::Refused(refusal) => End::Refused(refusal),
        StoreFault::Failed(cause) => {
            error!(reason = %cause, "the store of prepared inferences failed");
            End::Refused(Refusal::new(RefusalCode::Internal, "the server's store failed; try again later"))
        }
    }
}

fn fresh_id() -> Result<StoredId, InferenceError> {
    let mut id = [0; 16];
    id.copy_from_slice(&Seed::from_system()?.expose()[..16]);
    Ok(StoredId(id))
}
