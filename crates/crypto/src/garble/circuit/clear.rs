//! A circuit in the clear: the oracle that garbling is tested against.

use super::{Circuit, Operation, Output, Projection, Term};
use crate::garble::bits::{for_each_wire, low_bits, transpose};

impl Circuit {
    /// What comes out of each lane: the shared or decoded value, before any blind that is no input.
    ///
    /// Values come lane after lane, one per entry of the party's widths. For tests: the values are not
    /// treated as secrets.
    ///
    /// # Panics
    /// When the two parties' values are not for the same number of lanes.
    pub fn run_in_the_clear(&self, server: &[u64], client: &[u64]) -> Vec<u64> {
        let (server_values, client_values) = (self.server_widths.len(), self.client_widths.len());
        assert_eq!(server.len() * client_values, client.len() * server_values, "values for the same lanes");
        let server = server.chunks(64 * server_values);
        let client = client.chunks(64 * client_values);
        server.zip(client).flat_map(|(server, client)| self.run_chunk(server, client)).collect()
    }

    /// Up to 64 lanes, one in each bit of a word.
    fn run_chunk(&self, server: &[u64], client: &[u64]) -> Vec<u64> {
        let mut wires = Vec::with_capacity(self.server_wires() + self.client_wires() + self.gates.len());
        for_each_wire(server, &self.server_widths, |_, word| wires.push(word));
        for_each_wire(client, &self.client_widths, |_, word| wires.push(word));
        for gate in &self.gates {
            let [first, second, third] = gate.inputs.map(|wire| wires[wire as usize]);
            wires.push(match gate.operation {
                Operation::Xor => first ^ second,
                Operation::Parity => first ^ second ^ third,
                Operation::Not => !first,
                Operation::And => first & second,
                Operation::Majority => first & second | third & (first | second),
            });
        }
        let lanes = server.len() / self.server_widths.len();
        match &self.output {
            Output::Share(projection) => {
                (0..lanes).map(|lane| share_of_lane(projection, &wires, lane)).collect()
            }
            Output::Colors(out) | Output::Decoded(out) => {
                let mut matrix = [0; 64];
                for (row, wire) in matrix.iter_mut().zip(out) {
                    *row = wires[wire.index()];
                }
                transpose(&mut matrix);
                matrix[..lanes].to_vec()
            }
        }
    }
}

fn share_of_lane(projection: &Projection, wires: &[u64], lane: usize) -> u64 {
    let bit = |wire: super::Wire| wires[wire.index()] >> lane & 1;
    let sum = |terms: &[Term]| {
        terms.iter().fold(0_u64, |sum, term| sum.wrapping_add(term.weight.wrapping_mul(bit(term.wire))))
    };
    let selected = projection.selected.as_ref();
    let selected = selected.map_or(0, |selection| bit(selection.select).wrapping_mul(sum(&selection.terms)));
    selected.wrapping_add(sum(&projection.plain)) & low_bits(projection.output_bits)
}

#[cfg(test)]
mod tests {
    use super::super::{Builder, Selection};
    use super::*;

    #[test]
    fn every_gate_holds_for_all_inputs() {
        let mut builder = Builder::new(&[2], &[1]);
        let (server, third) = (builder.server_value(0), builder.client_value(0)[0]);
        let (first, second) = (server[0], server[1]);
        let out = vec![
            builder.xor(first, second),
            builder.and(first, second),
            builder.not(first),
            builder.parity(first, second, third),
            builder.majority(first, second, third),
        ];
        let circuit = builder.finish(Output::Decoded(out));
        for bits in 0..8_u64 {
            let (first, second, third) = (bits & 1, bits >> 1 & 1, bits >> 2);
            let majority = u64::from(first + second + third >= 2);
            let want = first ^ second
                | (first & second) << 1
                | (1 ^ first) << 2
                | (first ^ second ^ third) << 3
                | majority << 4;
            assert_eq!(circuit.run_in_the_clear(&[bits & 3], &[third]), [want]);
        }
    }

    #[test]
    fn a_projection_adds_selected_and_plain_terms() {
        let builder = Builder::new(&[2], &[2]);
        let (server, client) = (builder.server_value(0), builder.client_value(0));
        let projection = Projection {
            output_bits: 8,
            selected: Some(Selection {
                select: client[0],
                terms: vec![Term { wire: server[0], weight: 3 }, Term { wire: server[1], weight: 5 }],
            }),
            plain: vec![Term { wire: client[1], weight: 1_u64.wrapping_neg() }],
        };
        let circuit = builder.finish(Output::Share(projection));
        assert_eq!(circuit.run_in_the_clear(&[3, 3, 1, 0], &[1, 2, 3, 2]), [8, 255, 2, 255]);
        assert_eq!((circuit.hash_count(), circuit.row_count(), circuit.table_bytes(2)), (4, 3, 2 * 6));
    }
}
