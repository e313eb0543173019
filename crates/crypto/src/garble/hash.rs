//! The key base of the gate hash and the one counter that keeps all its uses apart.
//!
//! H(i, x) = AES_{S xor i}(sigma(x)) xor sigma(x). S is drawn for one inference and sent with its tables. The
//! counter i runs over everything hashed in that inference: both halves of each AND, rows, truncations. A
//! value of it serves one half-gate or row of one chunk, so at most 64 labels of the same wire position.
//! Ranges are cut from the counter in the order of the plan, on both sides; threads work in disjoint ranges.

use super::error::GarbleError;
use super::kernel::{GROUP, Kernel, KeyBatch};
use super::label::{Offset, WireLabel};
use crate::cpu::CpuFeatures;
use crate::random::Generator;
use crate::secret::Secret;

/// The most labels that may share one key: the bound of 120 bits depends on it.
pub const MAX_LANES: usize = 64;

/// The key base S of one inference. Public once the tables are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKey(u128);

impl HashKey {
    /// Length of the message that carries it.
    pub const BYTES: usize = 16;

    /// A fresh key base; one per inference.
    pub fn random(generator: &mut Generator) -> Self {
        Self(generator.next_u128())
    }

    /// The message to the evaluator.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The garbler's message. Every string of 16 bytes is a key base.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    pub(super) fn base(self) -> u128 {
        self.0
    }
}

/// The counter of one inference: the only source of [`CounterRange`]s, each handed out once.
#[derive(Debug)]
pub struct HashCounter(CounterRange);

impl HashCounter {
    /// The counter of a new inference, whose [`HashKey`] no other counter may serve.
    #[allow(clippy::new_without_default)] // A default would invite a second counter for the same key.
    pub fn new() -> Self {
        Self(CounterRange { next: 0, end: u64::MAX })
    }

    /// The next `count` values.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, count: u64) -> Result<CounterRange, GarbleError> {
        self.0.take(count)
    }
}

/// Counter values that belong to whoever holds the range; it cannot be copied, only divided.
#[derive(Debug, PartialEq, Eq)]
pub struct CounterRange {
    next: u64,
    end: u64,
}

impl CounterRange {
    /// Splits the first `count` values off.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn take(&mut self, count: u64) -> Result<CounterRange, GarbleError> {
        if count > self.remaining() {
            return Err(GarbleError::CountersExhausted { asked: count, left: self.remaining() });
        }
        let taken = CounterRange { next: self.next, end: self.next + count };
        self.next = taken.end;
        Ok(taken)
    }

    /// How many values are left.
    pub fn remaining(&self) -> u64 {
        self.end - self.next
    }

    /// The next value; where it stands in the counter of its inference.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// A range read back from storage with the material it belongs to.
    pub(super) fn restored(next: u64, count: u64) -> Result<Self, GarbleError> {
        let exhausted = GarbleError::CountersExhausted { asked: count, left: u64::MAX - next };
        Ok(Self { next, end: next.checked_add(count).ok_or(exhausted)? })
    }
}

/// Runs AES on registers alone and returns the number of blocks: the roofline that benches set garbling
/// against.
#[doc(hidden)]
pub fn encrypt_at_full_speed(features: CpuFeatures, passes: usize) -> usize {
    let kernel = Kernel::for_cpu(features);
    let mut keys = KeyBatch::default();
    kernel.expand(0, 0, &mut keys);
    let (blocks, state) = kernel.encrypt_registers(&keys, passes);
    std::hint::black_box(state);
    blocks
}

/// The keys of a range, scheduled sixteen at a time.
pub(super) struct KeyStream {
    kernel: Kernel,
    base: u128,
    counters: CounterRange,
    batch: KeyBatch,
    used: usize,
}

impl KeyStream {
    pub(super) fn new(kernel: Kernel, key: HashKey, counters: CounterRange) -> Self {
        Self { kernel, base: key.base(), counters, batch: KeyBatch::default(), used: KeyBatch::KEYS }
    }

    /// A batch and the place in it of the first of `count` fresh consecutive keys, count at most 16.
    pub(super) fn take(&mut self, count: usize) -> (&KeyBatch, usize) {
        let first = self.counters.next;
        self.counters.take(count as u64).expect("the range was cut to the circuit's hash count");
        if self.used + count > KeyBatch::KEYS {
            self.kernel.expand(self.base, first, &mut self.batch);
            self.used = 0;
        }
        let place = self.used;
        self.used += count;
        (&self.batch, place)
    }
}

/// H of each label, at most 64 labels to a counter, and of each label xor `offset` if there is one.
pub(super) fn hash_labels(
    key: HashKey,
    counters: CounterRange,
    labels: &[WireLabel],
    offset: Option<&Offset>,
) -> [Secret<Vec<u128>>; 2] {
    let kernel = Kernel::for_cpu(CpuFeatures::available());
    let mut keys = KeyStream::new(kernel, key, counters);
    let room = |is_needed: bool| Secret::new(Vec::with_capacity(if is_needed { labels.len() } else { 0 }));
    let [mut hashes, mut others] = [room(true), room(offset.is_some())];
    for chunk in labels.chunks(MAX_LANES) {
        let (batch, place) = keys.take(1);
        let stride = chunk.len().next_multiple_of(GROUP);
        let [mut inputs, mut outputs] = [(); 2].map(|()| Secret::new([0; MAX_LANES]));
        let (inputs, outputs) = (inputs.expose_mut(), outputs.expose_mut());
        inputs.iter_mut().zip(chunk).for_each(|(input, label)| *input = label.0);
        kernel.hash(batch, place, &inputs[..stride], &mut outputs[..stride]);
        hashes.expose_mut().extend_from_slice(&outputs[..chunk.len()]);
        if let Some(offset) = offset {
            inputs.iter_mut().for_each(|input| *input ^= offset.expose());
            kernel.hash(batch, place, &inputs[..stride], &mut outputs[..stride]);
            others.expose_mut().extend_from_slice(&outputs[..chunk.len()]);
        }
    }
    [hashes, others]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_counter_never_overlap() {
        let mut counter = HashCounter::new();
        let mut first = counter.take(10).unwrap();
        let second = counter.take(5).unwrap();
        assert_eq!((first.position(), second.position(), second.remaining()), (0, 10, 5));
        let part = first.take(4).unwrap();
        assert_eq!((part.position(), part.remaining()), (0, 4));
        assert_eq!((first.position(), first.remaining()), (4, 6));
        assert_eq!(first.take(7), Err(GarbleError::CountersExhausted { asked: 7, left: 6 }));
    }

    #[test]
    fn a_stream_gives_each_counter_its_own_key() {
        let kernel = Kernel::for_cpu(CpuFeatures::available());
        let key = HashKey::from_bytes([9; 16]);
        let mut counter = HashCounter::new();
        counter.take(100).unwrap();
        let mut stream = KeyStream::new(kernel, key, counter.take(60).unwrap());
        let mut at = 100;
        for count in [2, 2, 1, 2, 2, 2, 2, 2, 2, 1, 1, 16, 2, 5] {
            let (batch, place) = stream.take(count);
            for step in 0..count {
                let mut single = KeyBatch::default();
                kernel.expand(key.base() ^ u128::from(at + step as u64), 0, &mut single);
                let (mut got, mut want) = ([0; 16], [0; 16]);
                kernel.hash(batch, place + step, &[5; 16], &mut got);
                kernel.hash(&single, 0, &[5; 16], &mut want);
                assert_eq!(got, want);
            }
            at += count as u64;
        }
    }

    #[test]
    fn a_key_base_survives_its_bytes() {
        let key = HashKey::random(&mut crate::random::Seed::from_bytes([1; 32]).generator());
        assert_eq!(HashKey::from_bytes(key.to_bytes()), key);
    }
}
