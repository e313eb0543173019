//! The memory that garbling and evaluating a chunk works in, kept from chunk to chunk and wiped at the end.

use std::ops::Range;

use zeroize::Zeroize;

use super::circuit::{Circuit, Gate, Operation, Wire};
use super::kernel::{AndInputs, GROUP, Kernel};
use crate::cpu::CpuFeatures;
use crate::secret::Wipe;

/// Labels of all live wires of a chunk, and scratch. One per thread; it grows to the largest circuit it has
/// met.
pub struct Workspace {
    pub(super) kernel: Kernel,
    pub(super) labels: Labels,
    pub(super) scratch: Scratch,
}

/// Labels by slot, then lane. Lanes are padded to whole groups; what stands in the padding is never sent.
#[derive(Default, Zeroize)]
pub(super) struct Labels {
    slots: Vec<u128>,
    stride: usize,
    /// What NOT adds to a label: the offset in every lane for the garbler, nothing for the evaluator.
    complement: Vec<u128>,
}

/// Buffers of one wire's lanes.
#[derive(Default, Zeroize)]
pub(super) struct Scratch {
    pub(super) table: Vec<u8>,
    pub(super) rows: Vec<u128>,
    pub(super) sums: Vec<u128>,
    pub(super) select_sums: Vec<u128>,
    pub(super) keep: Vec<u128>,
    pub(super) negate: Vec<u128>,
}

impl Workspace {
    /// An empty workspace for this processor.
    pub fn new(features: CpuFeatures) -> Self {
        Self { kernel: Kernel::for_cpu(features), labels: Labels::default(), scratch: Scratch::default() }
    }

    pub(super) fn prepare(&mut self, circuit: &Circuit, lanes: usize, complement: u128) {
        let stride = lanes.next_multiple_of(GROUP);
        self.labels.stride = stride;
        grow(&mut self.labels.slots, circuit.slots() * stride);
        self.labels.complement.clear();
        self.labels.complement.resize(stride, complement);
        let scratch = &mut self.scratch;
        scratch.table.resize(32 * stride, 0);
        for buffer in [
            &mut scratch.rows,
            &mut scratch.sums,
            &mut scratch.select_sums,
            &mut scratch.keep,
            &mut scratch.negate,
        ] {
            buffer.resize(stride, 0);
        }
    }
}

/// Makes room without leaving a copy of old labels in memory that was given back.
fn grow(labels: &mut Vec<u128>, length: usize) {
    if labels.len() < length {
        labels.wipe();
        *labels = vec![0; length];
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Workspace").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        self.labels.zeroize();
        self.scratch.zeroize();
    }
}

impl Labels {
    fn range(&self, slot: u32) -> Range<usize> {
        let first = slot as usize * self.stride;
        first..first + self.stride
    }

    /// The labels of one slot, padding included.
    pub(super) fn of(&self, slot: usize) -> &[u128] {
        &self.slots[self.range(slot as u32)]
    }

    pub(super) fn of_mut(&mut self, slot: usize) -> &mut [u128] {
        let range = self.range(slot as u32);
        &mut self.slots[range]
    }

    /// The labels of the first `count` slots.
    pub(super) fn first_slots(&mut self, count: usize) -> &mut [u128] {
        &mut self.slots[..count * self.stride]
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Per lane, the colors of these slots as a number, lowest bit first.
    pub(super) fn colors(&self, wires: &[Wire], lanes: usize) -> Vec<u64> {
        let mut colors = vec![0; lanes];
        for (bit, wire) in wires.iter().enumerate() {
            for (color, label) in colors.iter_mut().zip(self.of(wire.index())) {
                *color |= (*label as u64 & 1) << bit;
            }
        }
        colors
    }

    /// Runs a gate that has no table.
    pub(super) fn run_free_gate(&mut self, kernel: Kernel, gate: &Gate) {
        let [first, second, third] = gate.inputs.map(|slot| self.range(slot));
        let out = self.range(gate.out);
        match gate.operation {
            Operation::Not => {
                let [first, out] = self.slots.get_disjoint_mut([first, out]).expect(DISTINCT);
                kernel.xor(first, &self.complement, None, out);
            }
            Operation::Xor => {
                let [first, second, out] = self.slots.get_disjoint_mut([first, second, out]).expect(DISTINCT);
                kernel.xor(first, second, None, out);
            }
            Operation::Parity => {
                let ranges = [first, second, third, out];
                let [first, second, third, out] = self.slots.get_disjoint_mut(ranges).expect(DISTINCT);
                kernel.xor(first, second, Some(third), out);
            }
            Operation::And | Operation::Majority => unreachable!("the caller garbles these"),
        }
    }

    /// Hands the labels of a garbled gate to `run`.
    pub(super) fn with_and(&mut self, gate: &Gate, run: impl FnOnce(&AndInputs<'_>, &mut [u128])) {
        let [first, second, third] = gate.inputs.map(|slot| self.range(slot));
        let out = self.range(gate.out);
        if gate.operation == Operation::Majority {
            let ranges = [first, second, third, out];
            let [left, right, shared, out] = self.slots.get_disjoint_mut(ranges).expect(DISTINCT);
            run(&AndInputs { left, right, shared: Some(shared) }, out);
        } else {
            let [left, right, out] = self.slots.get_disjoint_mut([first, second, out]).expect(DISTINCT);
            run(&AndInputs { left, right, shared: None }, out);
        }
    }
}

const DISTINCT: &str = "the builder gives a gate distinct slots within the circuit's";
