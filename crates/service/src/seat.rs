//! One session's place: its threads share it, and give it up while none of them computes.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use inference::connection::TimeLimits;
use inference::turns::Turns;

use crate::queue::{Place, Queue};
use crate::stores::ClientName;

/// One session's place.
#[derive(Debug)]
pub(crate) struct Seat {
    queue: Arc<Queue>,
    client: ClientName,
    /// Those of the session's stream: time in the line is ours, not the client's.
    limits: Arc<TimeLimits>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    place: Option<Place>,
    /// Threads that compute.
    computing: usize,
    /// One of the threads waits for a place, for all of them.
    is_in_line: bool,
}

impl Seat {
    /// Without a place.
    pub(crate) fn new(queue: Arc<Queue>, client: ClientName, limits: Arc<TimeLimits>) -> Arc<Self> {
        Arc::new(Self { queue, client, limits, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Takes a place, in which the calling thread computes until the session's limits leave their turns.
    pub(crate) fn take(self: &Arc<Self>, place: Place) {
        let mut state = self.lock();
        state.place = Some(place);
        state.computing += 1;
        drop(state);
        self.limits.take_turns(Arc::<Self>::clone(self));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns for Seat {
    fn begin(&self) {
        let mut state = self.lock();
        while state.place.is_none() {
            if state.is_in_line {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_in_line = true;
            drop(state);
            let start = Instant::now();
            let place = self.queue.go_on(&self.client);
            self.limits.extend(start.elapsed());
            state = self.lock();
            state.is_in_line = false;
            state.place = Some(place);
            self.changed.notify_all();
        }
        state.computing += 1;
    }

    fn end(&self) {
        let mut state = self.lock();
        state.computing -= 1;
        let place = if state.computing == 0 { state.place.take() } else { None };
        drop(state);
        drop(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{ClientShare, Supply, Turn};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn threads_share_a_place_and_the_last_one_gives_it_up() {
        let client = ClientShare { memory: 9, kept: 9 };
        let supply = Supply { places: 1, client_places: 1, memory: 9, kept_memory: 0, client };
        let (queue, client) = (Queue::new(supply), ClientName("a".to_owned()));
        let limits = TimeLimits::new(Duration::from_secs(1));
        let seat = Seat::new(Arc::clone(&queue), client.clone(), Arc::clone(&limits));
        let Turn::Now(place, _) = queue.line_up(&client, 0).wait(Duration::ZERO) else {
            panic!("it is free")
        };
        seat.take(place);
        seat.begin();
        limits.leave_turns();
        assert_eq!(queue.lengths(), (1, 0), "the other thread computes on");
        seat.end();
        assert_eq!(queue.lengths(), (0, 0));
        // Two threads that go on wait for one place, while another session has it.
        let Turn::Now(other, _) = queue.line_up(&client, 0).wait(Duration::ZERO) else {
            panic!("it is free")
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| seat.begin())).collect();
            while queue.lengths() != (1, 1) {
                thread::yield_now();
            }
            drop(other);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!((seat.lock().computing, queue.lengths()), (2, (1, 0)));
        seat.end();
        seat.end();
        assert_eq!(queue.lengths(), (0, 0));
    }
}
