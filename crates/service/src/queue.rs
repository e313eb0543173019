//! Who computes now and who waits. Clients take turns: one with many requests keeps no other waiting.
//!
//! A place is the right to compute. It is given up while the peer is waited for (see [`crate::seat`]), so that there are
//! more inferences under way than places; what they hold is memory, which comes from here, too.
//!
//! ```text
//! turns      in a ring of the clients that wait; of one client, what is under way comes before what has not begun
//! places     so many in all, and so many for one client
//! memory     so much in all, and so much for one client; what is prepared and waits for its image may not take what the
//!            running inferences need
//! ```

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::stores::ClientName;

/// What there is to give away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supply {
    pub(crate) places: usize,
    /// Of them, for one client.
    pub(crate) client_places: usize,
    pub(crate) memory: u64,
    /// Of it, for what is prepared and waits for its image.
    pub(crate) kept_memory: u64,
    /// Of it, for one client, to begin with.
    pub(crate) client: ClientShare,
}

/// The memory that one client may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientShare {
    pub(crate) memory: u64,
    /// Of it, for what is prepared and waits for its image. The rest is enough to prepare or answer one image, or the client would wait
    /// for memory that only itself can give back.
    pub(crate) kept: u64,
}

/// A line in front of a few places and some memory.
#[derive(Debug)]
pub(crate) struct Queue {
    supply: Supply,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: usize,
    memory: u64,
    kept_memory: u64,
    /// What the service itself has: no client gets it.
    withheld: u64,
    share: ClientShare,
    /// All who have or want something.
    clients: HashMap<ClientName, Account>,
    /// Those that want a place, the next one first.
    ring: VecDeque<ClientName>,
    is_closed: bool,
}

/// What one client has and wants.
#[derive(Debug, Default)]
struct Account {
    running: usize,
    memory: u64,
    /// Of it, for what is prepared and waits for its image.
    kept_memory: u64,
    /// Under way.
    going_on: VecDeque<Arc<Waiter>>,
    /// Not begun.
    beginning: VecDeque<Arc<Waiter>>,
}

impl Account {
    fn next(&self) -> Option<&Arc<Waiter>> {
        self.going_on.front().or_else(|| self.beginning.front())
    }

    fn take_next(&mut self) -> Option<Arc<Waiter>> {
        self.going_on.pop_front().or_else(|| self.beginning.pop_front())
    }

    fn waits(&self) -> bool {
        !(self.going_on.is_empty() && self.beginning.is_empty())
    }
}

/// One who waits for a place, and for memory with it.
#[derive(Debug)]
struct Waiter {
    bytes: u64,
    called: Condvar,
    has_turn: AtomicBool,
}

/// What came of waiting for a while.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It is our turn until the place is dropped; the memory may be kept longer.
    Now(Place, Reservation),
    /// So many come first.
    Later(u32),
    /// Nobody begins any more.
    Closed,
}

/// Why memory is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// One client may not have so much.
    OfClient {
        /// How much it may have.
        limit: u64,
    },
    /// There is no more.
    OfServer,
    /// What runs has it, and will give it back.
    Passing,
}

impl Queue {
    /// A line in front of this.
    pub(crate) fn new(supply: Supply) -> Arc<Self> {
        let state = State { share: supply.client, ..State::default() };
        Arc::new(Self { supply, state: Mutex::new(state) })
    }

    /// Gives each client another share from here on. What is given stays given.
    pub(crate) fn set_share(&self, share: ClientShare) {
        let mut state = self.lock();
        state.share = share;
        self.call(&mut state);
    }

    /// Stands in line for a place and so much memory, behind what this client wanted before.
    pub(crate) fn line_up(self: &Arc<Self>, client: &ClientName, bytes: u64) -> Ticket {
        self.enter(client, bytes, false)
    }

    /// Stands in line for a place for something short, before what this client has not begun. A closed line lets it pass.
    pub(crate) fn step_in(self: &Arc<Self>, client: &ClientName) -> Ticket {
        self.enter(client, 0, true)
    }

    /// Waits for a place to go on with what is under way. A closed line lets it pass, too.
    pub(crate) fn go_on(self: &Arc<Self>, client: &ClientName) -> Place {
        let mut ticket = self.step_in(client);
        loop {
            if let Turn::Now(place, _) = ticket.wait(Duration::from_secs(3600)) {
                return place;
            }
        }
    }

    fn enter(self: &Arc<Self>, client: &ClientName, bytes: u64, goes_on: bool) -> Ticket {
        let waiter = Arc::new(Waiter { bytes, called: Condvar::new(), has_turn: AtomicBool::new(false) });
        let mut state = self.lock();
        let account = state.clients.entry(client.clone()).or_default();
        let is_first = !account.waits();
        let line = if goes_on { &mut account.going_on } else { &mut account.beginning };
        line.push_back(Arc::clone(&waiter));
        state.waiting += 1;
        if is_first {
            state.ring.push_back(client.clone());
        }
        self.call(&mut state);
        drop(state);
        Ticket { queue: Arc::clone(self), client: client.clone(), waiter, goes_on, is_over: false }
    }

    /// Calls all who can have what they want.
    fn call(&self, state: &mut State) {
        let supply = &self.supply;
        let mut is_memory_due = false;
        let mut index = 0;
        while state.running < supply.places && index < state.ring.len() {
            let account = state.clients.get_mut(&state.ring[index]).expect("who waits has an account");
            let bytes = account.next().map_or(0, |waiter| waiter.bytes);
            let is_ours = account.running < supply.client_places
                && (bytes == 0 || account.memory.saturating_add(bytes) <= state.share.memory);
            let is_there = bytes == 0
                || !is_memory_due
                    && state.memory.saturating_add(state.withheld).saturating_add(bytes) <= supply.memory;
            if !(is_ours && is_there) {
                // Nobody who came later takes what will be free soon. More than that may never be free: others go by.
                is_memory_due |= is_ours && bytes <= supply.memory.saturating_sub(supply.kept_memory);
                index += 1;
                continue;
            }
            if let Some(waiter) = account.take_next() {
                account.running += 1;
                account.memory += bytes;
                state.running += 1;
                state.waiting -= 1;
                state.memory += bytes;
                waiter.has_turn.store(true, Ordering::Release);
                waiter.called.notify_one();
            }
            let waits = account.waits();
            if let Some(client) = state.ring.remove(index).filter(|_| waits) {
                state.ring.push_back(client);
            }
        }
    }

    /// Takes memory for something that will wait for its image, at once or not at all.
    pub(crate) fn keep(self: &Arc<Self>, client: &ClientName, bytes: u64) -> Result<Reservation, Shortage> {
        let mut state = self.lock();
        self.check_keeping(&state, client, bytes)?;
        state.memory += bytes;
        state.kept_memory += bytes;
        let account = state.clients.entry(client.clone()).or_default();
        account.memory += bytes;
        account.kept_memory += bytes;
        Ok(Reservation { queue: Arc::clone(self), client: client.clone(), bytes, is_kept: true })
    }

    /// Whether so much could be kept at this moment.
    pub(crate) fn could_keep(&self, client: &ClientName, bytes: u64) -> Result<(), Shortage> {
        self.check_keeping(&self.lock(), client, bytes)
    }

    fn check_keeping(&self, state: &State, client: &ClientName, bytes: u64) -> Result<(), Shortage> {
        let account = state.clients.get(client);
        let (own, own_kept) = account.map_or((0, 0), |account| (account.memory, account.kept_memory));
        let ClientShare { memory, kept } = state.share;
        if own_kept.saturating_add(bytes) > kept {
            return Err(Shortage::OfClient { limit: kept });
        }
        let more = bytes.saturating_add(state.withheld);
        if state.kept_memory.saturating_add(more) > self.supply.kept_memory {
            return Err(Shortage::OfServer);
        }
        let is_there =
            state.memory.saturating_add(more) <= self.supply.memory && own.saturating_add(bytes) <= memory;
        if is_there { Ok(()) } else { Err(Shortage::Passing) }
    }

    /// The most that one request of a client can have, while what it keeps waits for its images.
    pub(crate) fn most_memory(&self, client: &ClientName) -> u64 {
        let state = self.lock();
        let own_kept = state.clients.get(client).map_or(0, |account| account.kept_memory);
        let share = state.share.memory.saturating_sub(own_kept);
        share.min(self.supply.memory.saturating_sub(state.withheld))
    }

    /// Takes memory for the service itself, if running inferences can do without it and nothing that waits for its image
    /// has it.
    pub(crate) fn withhold(self: &Arc<Self>, bytes: u64) -> Option<Withheld> {
        let mut state = self.lock();
        let sum = state.withheld.checked_add(bytes)?;
        let is_there = sum.saturating_add(state.kept_memory) <= self.supply.kept_memory
            && sum.saturating_add(state.memory) <= self.supply.memory;
        if bytes > 0 && !is_there {
            return None;
        }
        state.withheld = sum;
        Some(Withheld { queue: Arc::clone(self), bytes })
    }

    /// How much could be withheld now.
    pub(crate) fn spare(&self) -> u64 {
        let state = self.lock();
        let [kept, all] = [
            self.supply.kept_memory.saturating_sub(state.kept_memory),
            self.supply.memory.saturating_sub(state.memory),
        ];
        kept.min(all).saturating_sub(state.withheld)
    }

    /// Sends everybody away who has not begun.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let beginners = state.clients.values().flat_map(|account| &account.beginning);
        beginners.for_each(|waiter| waiter.called.notify_one());
    }

    /// How many have a place, and how many wait.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.waiting)
    }

    /// How much memory is given away or withheld.
    pub(crate) fn memory(&self) -> u64 {
        let state = self.lock();
        state.memory + state.withheld
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back, calls the next, and forgets a client that has and wants nothing.
    fn give_back(&self, client: &ClientName, places: usize, bytes: u64, kept: u64) {
        let mut state = self.lock();
        state.running -= places;
        state.memory -= bytes;
        state.kept_memory -= kept;
        if let Some(account) = state.clients.get_mut(client) {
            account.running -= places;
            account.memory -= bytes;
            account.kept_memory -= kept;
            if account.running == 0 && account.memory == 0 && !account.waits() {
                state.clients.remove(client);
            }
        }
        self.call(&mut state);
    }
}

/// A place in the line, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    client: ClientName,
    waiter: Arc<Waiter>,
    goes_on: bool,
    is_over: bool,
}

impl Ticket {
    /// Waits for the turn, at most so long. A ticket is good for one.
    pub(crate) fn wait(&mut self, patience: Duration) -> Turn {
        let end = Instant::now() + patience;
        let mut state = self.queue.lock();
        loop {
            if self.is_over {
                return Turn::Closed;
            }
            if self.waiter.has_turn.load(Ordering::Acquire) {
                self.is_over = true;
                return Turn::Now(self.place(), self.memory());
            }
            if state.is_closed && !self.goes_on {
                return Turn::Closed;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Turn::Later(self.ahead(&state));
            }
            let waited = self.waiter.called.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn place(&self) -> Place {
        Place { queue: Arc::clone(&self.queue), client: self.client.clone() }
    }

    fn memory(&self) -> Reservation {
        let (queue, client) = (Arc::clone(&self.queue), self.client.clone());
        Reservation { queue, client, bytes: self.waiter.bytes, is_kept: false }
    }

    /// How many come first, if nobody comes or goes: as many of each other client as of this one, and who has the place.
    fn ahead(&self, state: &State) -> u32 {
        let line = |client| {
            let account: &Account = &state.clients[client];
            account.going_on.iter().chain(&account.beginning)
        };
        let own = line(&self.client).position(|waiter| Arc::ptr_eq(waiter, &self.waiter)).unwrap_or(0);
        let mut is_before = true;
        let mut ahead = own + 1;
        for client in &state.ring {
            if *client == self.client {
                is_before = false;
            } else {
                ahead += line(client).count().min(own + usize::from(is_before));
            }
        }
        u32::try_from(ahead).unwrap_or(u32::MAX)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.queue.lock();
        if self.waiter.has_turn.load(Ordering::Acquire) {
            drop(state);
            drop((self.place(), self.memory()));
            return;
        }
        state.waiting -= 1;
        if let Some(account) = state.clients.get_mut(&self.client) {
            for line in [&mut account.going_on, &mut account.beginning] {
                line.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
            }
            if !account.waits() {
                state.ring.retain(|client| *client != self.client);
            }
        }
        drop(state);
        self.queue.give_back(&self.client, 0, 0, 0);
    }
}

/// The right to compute, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    client: ClientName,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.give_back(&self.client, 1, 0, 0);
    }
}

/// Bytes that are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    queue: Arc<Queue>,
    client: ClientName,
    bytes: u64,
    is_kept: bool,
}

impl Reservation {
    /// A part of it, to be given back by itself.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { queue: Arc::clone(&self.queue), client: self.client.clone(), bytes, is_kept: self.is_kept }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let kept = if self.is_kept { self.bytes } else { 0 };
        self.queue.give_back(&self.client, 0, self.bytes, kept);
    }
}

/// Bytes of the service itself, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Withheld {
    queue: Arc<Queue>,
    bytes: u64,
}

impl Drop for Withheld {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.withheld -= self.bytes;
        self.queue.call(&mut state);
    }
}
