//! Who computes now and who waits: first come, first served.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A line in front of a few places.
#[derive(Debug)]
pub(crate) struct Queue {
    places: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    next: u64,
    waiting: VecDeque<u64>,
    is_closed: bool,
}

/// What came of waiting for a while.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It is our turn until the place is dropped.
    Now(Place),
    /// So many come first.
    Later(u32),
    /// Nobody gets a place any more.
    Closed,
}

impl Queue {
    /// A line in front of so many places.
    pub(crate) fn new(places: NonZeroUsize) -> Arc<Self> {
        Arc::new(Self { places: places.get(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Stands in line, at its end.
    pub(crate) fn line_up(self: &Arc<Self>) -> Ticket {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        Ticket { queue: Arc::clone(self), number, is_used: false }
    }

    /// Sends everybody away who waits; those who have a place keep it.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// How many have a place, and how many wait.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running, state.waiting.len())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the line, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    number: u64,
    is_used: bool,
}

impl Ticket {
    /// Waits for the turn, at most so long.
    pub(crate) fn wait(&mut self, patience: Duration) -> Turn {
        let end = Instant::now() + patience;
        let mut state = self.queue.lock();
        loop {
            if state.is_closed {
                return Turn::Closed;
            }
            let place = state.waiting.iter().position(|number| *number == self.number);
            if place == Some(0) && state.running < self.queue.places {
                state.waiting.pop_front();
                state.running += 1;
                self.is_used = true;
                self.queue.changed.notify_all();
                return Turn::Now(Place { queue: Arc::clone(&self.queue) });
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Turn::Later(place.unwrap_or(0) as u32 + 1);
            }
            state = self.queue.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_used {
            self.queue.lock().waiting.retain(|number| *number != self.number);
            self.queue.changed.notify_all();
        }
    }
}

/// The right to compute, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.lock().running -= 1;
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_who_came_is_the_first_who_is_served() {
        let queue = Queue::new(NonZeroUsize::MIN);
        let mut tickets: Vec<_> = (0..3).map(|_| queue.line_up()).collect();
        assert!(matches!(tickets[2].wait(Duration::ZERO), Turn::Later(3)));
        let Turn::Now(place) = tickets[0].wait(Duration::ZERO) else { panic!("nobody is in front") };
        assert!(matches!(tickets[1].wait(Duration::ZERO), Turn::Later(1)));
        assert_eq!(queue.lengths(), (1, 2));
        drop(place);
        assert!(matches!(tickets[2].wait(Duration::ZERO), Turn::Later(2)), "the second comes first");
        tickets.remove(1);
        assert!(matches!(tickets[1].wait(Duration::ZERO), Turn::Now(_)), "the second went away");
        assert_eq!(queue.lengths(), (0, 0));
    }

    #[test]
    fn never_more_run_than_there_are_places() {
        let queue = Queue::new(NonZeroUsize::new(2).unwrap());
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let mut ticket = queue.line_up();
                    let Turn::Now(_place) = ticket.wait(Duration::from_secs(60)) else {
                        panic!("a turn comes")
                    };
                    assert!(queue.lengths().0 <= 2);
                });
            }
        });
        assert_eq!(queue.lengths(), (0, 0));
    }

    #[test]
    fn a_closed_line_sends_everybody_away() {
        let queue = Queue::new(NonZeroUsize::MIN);
        let Turn::Now(_kept) = queue.line_up().wait(Duration::ZERO) else { panic!("nobody is in front") };
        let mut waiting = queue.line_up();
        queue.close();
        assert!(matches!(waiting.wait(Duration::from_secs(60)), Turn::Closed));
    }
}
