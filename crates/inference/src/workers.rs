//! The threads of one party. Work is cut where the tools allow it: by ciphertext, by block of answers, by chunk of
//! circuits, by channels of a convolution. One thread takes no pool at all.
//!
//! A server that computes on what is still arriving does so beside the thread that waits for the connection
//! (`offline::server::answering`). Only one thread ever holds the connection, and it receives all of one leg before it
//! sends the next; so two parties never both wait for the other to read, however small the sockets' buffers.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use crypto::cpu::CpuFeatures;
use crypto::garble::Workspace;
use rayon::prelude::*;

use crate::InferenceError;

/// Chunks of circuits that one thread gets at a time.
const CHUNKS_PER_THREAD: usize = 8;

/// A party's threads and what they need to garble.
pub(crate) struct Workers {
    pool: Option<rayon::ThreadPool>,
    spaces: Mutex<Vec<Workspace>>,
}

impl Workers {
    /// The calling thread alone.
    pub(crate) fn alone() -> Self {
        Self { pool: None, spaces: Mutex::new(Vec::new()) }
    }

    /// So many threads.
    pub(crate) fn new(threads: NonZeroUsize) -> Result<Self, InferenceError> {
        if threads.get() == 1 {
            return Ok(Self::alone());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build()?;
        Ok(Self { pool: Some(pool), spaces: Mutex::new(Vec::new()) })
    }

    /// How many chunks of circuits are worth handing out at once.
    pub(crate) fn chunks_at_once(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads() * CHUNKS_PER_THREAD)
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Runs over all items, results in their order.
    pub(crate) fn map<T: Send, R: Send, E: Send>(
        &self,
        items: Vec<T>,
        run: impl Fn(T) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        match &self.pool {
            None => items.into_iter().map(run).collect(),
            Some(pool) => pool.install(|| items.into_par_iter().map(&run).collect()),
        }
    }

    /// Lends a workspace that no other thread has.
    pub(crate) fn with_workspace<R>(&self, run: impl FnOnce(&mut Workspace) -> R) -> R {
        let taken = self.spaces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut space = taken.unwrap_or_else(|| Workspace::new(CpuFeatures::available()));
        let result = run(&mut space);
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner).push(space);
        result
    }
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
