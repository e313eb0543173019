//! The threads of one party. Work is cut where the tools allow it: by ciphertext, by block of answers, by chunk of
//! circuits, by channels or rows of a convolution. One thread takes no pool at all.
//!
//! Who asks for work does it, and others help where there is enough: a layer of a network may take less time than a thread
//! that sleeps takes to wake up, and online every layer waits for the one before. Who asked waits until each helper has woken
//! up, also where nothing is left to do: with more threads than idle cores, that costs more than the help gives. So does a helper
//! that is still busy for another thread of this party: it comes when that one has no items left.
//!
//! A server that computes on what is still arriving does so beside the thread that waits for the connection
//! (`offline::server::answering`). Only one thread ever holds the connection, and it receives all of one leg before it
//! sends the next; so two parties never both wait for the other to read, however small the sockets' buffers.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crypto::cpu::CpuFeatures;
use crypto::garble::Workspace;

use crate::InferenceError;
use crate::clock::Instant;

/// Chunks of circuits that one thread gets at a time.
const CHUNKS_PER_THREAD: usize = 8;

/// Work that one thread does sooner than others wake up to help.
const ALONE: Duration = Duration::from_micros(60);

/// A party's threads and what they need to garble.
pub(crate) struct Workers {
    /// The others, beside the thread that calls.
    pool: Option<rayon::ThreadPool>,
    spaces: Mutex<Vec<Workspace>>,
}

impl Workers {
    /// The calling thread alone.
    pub(crate) fn alone() -> Self {
        Self { pool: None, spaces: Mutex::new(Vec::new()) }
    }

    /// So many threads, the calling one among them.
    pub(crate) fn new(threads: NonZeroUsize) -> Result<Self, InferenceError> {
        if threads.get() == 1 {
            return Ok(Self::alone());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get() - 1).build()?;
        Ok(Self { pool: Some(pool), spaces: Mutex::new(Vec::new()) })
    }

    /// How many chunks of circuits are worth handing out at once.
    pub(crate) fn chunks_at_once(&self) -> usize {
        self.pool.as_ref().map_or(1, |_| self.threads() * CHUNKS_PER_THREAD)
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| 1 + pool.current_num_threads())
    }

    /// Runs over many small items, results in their order. The first is done alone, and tells whether the others need help.
    pub(crate) fn map<T: Send, R: Send, E: Send>(
        &self,
        items: Vec<T>,
        run: impl Fn(T) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        self.map_beyond(ALONE, items, run)
    }

    /// The same; others help where one thread would take longer than this.
    fn map_beyond<T: Send, R: Send, E: Send>(
        &self,
        alone: Duration,
        items: Vec<T>,
        run: impl Fn(T) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        let mut items = items.into_iter();
        if self.pool.is_none() || items.len() < 3 {
            return items.map(run).collect();
        }
        let start = Instant::now();
        let mut results: Vec<R> = items.next().map(&run).transpose()?.into_iter().collect();
        let others = match takes(start.elapsed(), items.len()) >= alone {
            true => self.divide(items.collect(), run),
            false => items.map(run).collect(),
        };
        results.extend(others?);
        Ok(results)
    }

    /// Runs over pieces of long work, all threads from the start; results in their order.
    pub(crate) fn divide<T: Send, R: Send, E: Send>(
        &self,
        items: Vec<T>,
        run: impl Fn(T) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        match &self.pool {
            Some(pool) if items.len() > 1 => share(pool, items, &run),
            _ => items.into_iter().map(run).collect(),
        }
    }

    /// Lends a workspace that no other thread has.
    pub(crate) fn with_workspace<R>(&self, run: impl FnOnce(&mut Workspace) -> R) -> R {
        let taken = locked(&self.spaces).pop();
        let mut space = taken.unwrap_or_else(|| Workspace::new(CpuFeatures::available()));
        let result = run(&mut space);
        locked(&self.spaces).push(space);
        result
    }
}

/// How long so many items take one thread, by the time that one took.
fn takes(one: Duration, count: usize) -> Duration {
    one.saturating_mul(count.try_into().unwrap_or(u32::MAX))
}

/// The calling thread and helpers take items in turn until none is left, or one failed or panicked.
fn share<T: Send, R: Send, E: Send>(
    pool: &rayon::ThreadPool,
    items: Vec<T>,
    run: &(impl Fn(T) -> Result<R, E> + Sync),
) -> Result<Vec<R>, E> {
    let helpers = pool.current_num_threads().min(items.len() - 1);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let waiting = Mutex::new(items.into_iter().enumerate());
    let work = || {
        let _line = EmptiedByPanic(&waiting);
        loop {
            let Some((place, item)) = locked(&waiting).next() else { return };
            let result = run(item);
            if result.is_err() {
                empty(&waiting);
            }
            locked(&done).push((place, result));
        }
    };
    pool.in_place_scope(|scope| {
        (0..helpers).for_each(|_| scope.spawn(|_| work()));
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Where a thread panics, the others find nothing more to do.
struct EmptiedByPanic<'a, I: Iterator>(&'a Mutex<I>);

impl<I: Iterator> Drop for EmptiedByPanic<'_, I> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            empty(self.0);
        }
    }
}

fn empty(line: &Mutex<impl Iterator>) {
    locked(line).by_ref().for_each(drop);
}

/// What a mutex guards, also after a thread panicked: the panic goes on where the threads meet.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cuts a buffer, made to fit, into neighboring pieces of these lengths: one for each thread to write to.
pub(crate) fn pieces(buffer: &mut Vec<u8>, lengths: impl Iterator<Item = usize> + Clone) -> Vec<&mut [u8]> {
    buffer.resize(lengths.clone().sum(), 0);
    let mut rest = buffer.as_mut_slice();
    let cut = |length| {
        let (piece, others) = std::mem::take(&mut rest).split_at_mut(length);
        rest = others;
        piece
    };
    lengths.map(cut).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn all() -> [Workers; 3] {
        [1, 2, 5].map(|threads| Workers::new(NonZeroUsize::new(threads).unwrap()).unwrap())
    }

    fn pause(milliseconds: u64) {
        std::thread::sleep(Duration::from_millis(milliseconds));
    }

    #[test]
    fn results_stand_in_the_order_of_their_items() {
        for (workers, threads) in all().iter().zip([1, 2, 5]) {
            assert_eq!(workers.threads(), threads);
            for count in [0, 1, 2, 3, 50] {
                let items = || (0..count).collect();
                let expected: Vec<u32> = (0..count).map(|item| item * item).collect();
                for milliseconds in [0, 1] {
                    let run = |item: u32| {
                        pause(milliseconds);
                        Ok::<_, ()>(item * item)
                    };
                    assert_eq!(workers.map(items(), run).unwrap(), expected);
                    assert_eq!(workers.divide(items(), run).unwrap(), expected);
                }
            }
        }
    }

    #[test]
    fn all_threads_take_part_from_the_start() {
        for workers in all() {
            // Nobody goes on before each has an item.
            let meeting = Barrier::new(workers.threads());
            let run = |_| {
                meeting.wait();
                Ok::<_, ()>(std::thread::current().id())
            };
            let who: HashSet<_> =
                workers.divide((0..workers.threads()).collect(), run).unwrap().into_iter().collect();
            assert_eq!(who.len(), workers.threads());
            assert!(who.contains(&std::thread::current().id()));
        }
    }

    #[test]
    fn little_work_wakes_nobody() {
        assert_eq!(takes(Duration::ZERO, usize::MAX), Duration::ZERO);
        assert_eq!(takes(Duration::from_micros(1), 70), Duration::from_micros(70));
        assert_eq!(takes(Duration::MAX, usize::MAX), Duration::MAX);
        let own = std::thread::current().id();
        for workers in all() {
            let run = |()| {
                pause(1);
                Ok::<_, ()>(std::thread::current().id())
            };
            assert_eq!(workers.map(vec![(); 2], run).unwrap(), [own; 2]);
            assert_eq!(workers.map_beyond(Duration::MAX, vec![(); 50], run).unwrap(), [own; 50]);
        }
    }

    #[test]
    fn enough_work_wakes_everybody_behind_the_first_item() {
        for workers in all() {
            // Nobody goes on before each has an item; the first is done alone.
            let meeting = Barrier::new(workers.threads());
            let run = |item: usize| {
                if item > 0 {
                    meeting.wait();
                }
                Ok::<_, ()>(std::thread::current().id())
            };
            let items = (0..=2 * workers.threads()).collect();
            let who: HashSet<_> =
                workers.map_beyond(Duration::ZERO, items, run).unwrap().into_iter().collect();
            assert_eq!(who.len(), workers.threads());
        }
    }

    #[test]
    fn a_failure_ends_the_work() {
        for workers in all() {
            let begun = AtomicU32::new(0);
            let run = |item: u32| {
                begun.fetch_add(1, Ordering::Relaxed);
                if item == 3 {
                    return Err(item);
                }
                pause(1);
                Ok(())
            };
            assert_eq!(workers.map((0..2000).collect(), run), Err(3));
            assert!(begun.into_inner() < 2000);
        }
    }

    #[test]
    fn a_panic_reaches_who_asked() {
        for workers in all() {
            let begun = AtomicU32::new(0);
            let run = |item: u32| -> Result<(), ()> {
                begun.fetch_add(1, Ordering::Relaxed);
                pause(1);
                assert!(item != 7, "seven");
                Ok(())
            };
            let map = AssertUnwindSafe(|| workers.map((0..2000).collect(), run));
            assert!(catch_unwind(map).is_err());
            assert!(begun.into_inner() < 2000, "and ends the work");
            // And they work as before.
            assert_eq!(workers.map(vec![1, 2, 3], Ok::<u32, ()>), Ok(vec![1, 2, 3]));
        }
    }
}
