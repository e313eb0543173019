//! Builds a circuit gate by gate, then assigns its wires to slots of labels.

use super::{Circuit, Gate, Operation, Output, Projection, Selection, Term, Wire};

/// Collects gates; [`Builder::finish`] turns them into a [`Circuit`].
#[derive(Debug)]
pub struct Builder {
    server_widths: Vec<u32>,
    client_widths: Vec<u32>,
    /// The first wires of the server's and of the client's values.
    starts: [Vec<u32>; 2],
    /// Wires of all values; each gate's own follow.
    input_wires: usize,
    gates: Vec<Gate>,
}

impl Builder {
    /// A circuit without gates whose parties put in values of these widths.
    ///
    /// # Panics
    /// When a party puts in nothing or a width is not in 1..=64.
    pub fn new(server_widths: &[u32], client_widths: &[u32]) -> Self {
        for widths in [server_widths, client_widths] {
            assert!(!widths.is_empty(), "each party puts in a value");
            assert!(widths.iter().all(|width| (1..=64).contains(width)), "a value has 1 to 64 bits");
        }
        let mut wires = 0;
        let starts = [server_widths, client_widths].map(|widths| {
            let start = |width: &u32| {
                wires += width;
                wires - width
            };
            widths.iter().map(start).collect()
        });
        Self {
            starts,
            input_wires: wires as usize,
            server_widths: server_widths.to_vec(),
            client_widths: client_widths.to_vec(),
            gates: Vec::new(),
        }
    }

    /// The wires of the server's value, lowest bit first.
    ///
    /// # Panics
    /// When there is no such value.
    pub fn server_value(&self, place: usize) -> Vec<Wire> {
        let first = self.starts[0][place];
        (first..first + self.server_widths[place]).map(Wire).collect()
    }

    /// The wires of the client's value, lowest bit first.
    ///
    /// # Panics
    /// When there is no such value.
    pub fn client_value(&self, place: usize) -> Vec<Wire> {
        let first = self.starts[1][place];
        (first..first + self.client_widths[place]).map(Wire).collect()
    }

    /// Adds a gate over distinct wires.
    fn gate(&mut self, operation: Operation, inputs: [Wire; 3]) -> Wire {
        let read = &inputs[..operation.arity()];
        let out = Wire((self.input_wires + self.gates.len()) as u32);
        for (place, wire) in read.iter().enumerate() {
            assert!(wire.0 < out.0, "a gate reads wires that exist");
            assert!(!read[..place].contains(wire), "a gate reads distinct wires");
        }
        self.gates.push(Gate { operation, inputs: inputs.map(|wire| wire.0), out: out.0 });
        out
    }

    /// The XOR of two wires.
    pub fn xor(&mut self, left: Wire, right: Wire) -> Wire {
        self.gate(Operation::Xor, [left, right, left])
    }

    /// The XOR of three wires.
    pub fn parity(&mut self, first: Wire, second: Wire, third: Wire) -> Wire {
        self.gate(Operation::Parity, [first, second, third])
    }

    /// The complement of a wire.
    pub fn not(&mut self, input: Wire) -> Wire {
        self.gate(Operation::Not, [input; 3])
    }

    /// The AND of two wires.
    pub fn and(&mut self, left: Wire, right: Wire) -> Wire {
        self.gate(Operation::And, [left, right, left])
    }

    /// Whether at least two of the three wires are one.
    pub fn majority(&mut self, first: Wire, second: Wire, third: Wire) -> Wire {
        self.gate(Operation::Majority, [first, second, third])
    }

    /// The circuit with this output.
    ///
    /// # Panics
    /// When the output has not 1 to 64 bits.
    pub fn finish(self, output: Output) -> Circuit {
        assert!((1..=64).contains(&output.bits()), "a value has 1 to 64 bits");
        let slots = SlotAssignment::of(&self, &output);
        Circuit {
            server_widths: self.server_widths,
            client_widths: self.client_widths,
            and_count: self.gates.iter().filter(|gate| gate.operation.is_garbled()).count(),
            gates: self.gates,
            program: slots.program,
            slots: slots.count,
            slot_output: map_wires(&output, |wire| Wire(slots.of_wire[wire.index()])),
            output,
        }
    }
}

fn map_wires(output: &Output, place: impl Fn(Wire) -> Wire) -> Output {
    let terms = |terms: &[Term]| -> Vec<Term> {
        terms.iter().map(|term| Term { wire: place(term.wire), ..*term }).collect()
    };
    match output {
        Output::Share(projection) => Output::Share(Projection {
            output_bits: projection.output_bits,
            selected: projection.selected.as_ref().map(|selection| Selection {
                select: place(selection.select),
                terms: terms(&selection.terms),
            }),
            plain: terms(&projection.plain),
        }),
        Output::Colors(wires) => Output::Colors(wires.iter().map(|wire| place(*wire)).collect()),
        Output::Decoded(wires) => Output::Decoded(wires.iter().map(|wire| place(*wire)).collect()),
    }
}

fn output_wires(output: &Output) -> Vec<Wire> {
    match output {
        Output::Share(projection) => projection.wires().collect(),
        Output::Colors(wires) | Output::Decoded(wires) => wires.clone(),
    }
}

/// Where each wire's labels live. Inputs keep the slots of their number until they are read for the last
/// time.
struct SlotAssignment {
    program: Vec<Gate>,
    of_wire: Vec<u32>,
    count: usize,
}

impl SlotAssignment {
    fn of(builder: &Builder, output: &Output) -> Self {
        let inputs = builder.input_wires;
        let last_reads = last_reads(builder, output);
        let mut assignment =
            Self { program: Vec::new(), of_wire: (0..inputs as u32).collect(), count: inputs };
        let mut free = Vec::new();
        for (position, gate) in builder.gates.iter().enumerate() {
            let slots = gate.inputs.map(|wire| assignment.of_wire[wire as usize]);
            // The output's slot is taken before the inputs' are freed, so a gate never writes what it reads.
            let out = free.pop().unwrap_or(assignment.count as u32);
            assignment.count = assignment.count.max(out as usize + 1);
            assignment.of_wire.push(out);
            assignment.program.push(Gate { inputs: slots, out, ..*gate });
            for wire in &gate.inputs[..gate.operation.arity()] {
                if last_reads[*wire as usize] == Some(position) {
                    free.push(assignment.of_wire[*wire as usize]);
                }
            }
        }
        assignment
    }
}

/// The gate that reads each wire last; none for wires that the output reads or no one does.
fn last_reads(builder: &Builder, output: &Output) -> Vec<Option<usize>> {
    let mut last = vec![None; builder.input_wires + builder.gates.len()];
    for (position, gate) in builder.gates.iter().enumerate() {
        for wire in &gate.inputs[..gate.operation.arity()] {
            last[*wire as usize] = Some(position);
        }
    }
    for wire in output_wires(output) {
        last[wire.index()] = None;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_never_by_the_gate_that_reads_them() {
        let mut builder = Builder::new(&[1], &[1]);
        let (left, right) = (builder.server_value(0)[0], builder.client_value(0)[0]);
        let mut wire = builder.and(left, right);
        for _ in 0..100 {
            let inverted = builder.not(wire);
            wire = builder.and(inverted, right);
        }
        let circuit = builder.finish(Output::Colors(vec![wire]));
        assert!(circuit.slots() <= 5, "{} slots", circuit.slots());
        for gate in circuit.program() {
            assert!(!gate.inputs[..gate.operation.arity()].contains(&gate.out));
        }
    }

    #[test]
    #[should_panic(expected = "distinct wires")]
    fn a_gate_does_not_read_a_wire_twice() {
        let mut builder = Builder::new(&[1], &[1]);
        let wire = builder.server_value(0)[0];
        builder.and(wire, wire);
    }
}
