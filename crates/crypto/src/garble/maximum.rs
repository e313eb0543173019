//! The maximum of k shared values, as in max pooling.

use super::circuit::{Builder, Circuit, Output, Projection, Term, Wire};
use super::error::{GarbleError, check_shape};

/// The parameters of a pooling layer's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaximumShape {
    values: u32,
    width: u32,
    output_bits: u32,
}

impl MaximumShape {
    /// The maximum of `values` signed sums modulo 2^`width`, shared modulo 2^`output_bits`.
    ///
    /// # Errors
    /// When there is no value, or a width is not in 2..=64 or 1..=64.
    pub fn new(values: u32, width: u32, output_bits: u32) -> Result<Self, GarbleError> {
        check_shape("values", 1, 1 << 16, values.into())?;
        check_shape("width", 2, 64, width.into())?;
        check_shape("output bits", 1, 64, output_bits.into())?;
        Ok(Self { values, width, output_bits })
    }

    /// Bits of the input ring.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Bits of the output ring.
    pub fn output_bits(&self) -> u32 {
        self.output_bits
    }

    /// The circuit. Both parties put in their shares of the window's values, reduced modulo 2^width.
    pub fn circuit(&self) -> Circuit {
        let widths = vec![self.width; self.values as usize];
        let mut builder = Builder::new(&widths, &widths);
        let mut greatest = builder.shared_value(0);
        for place in 1..widths.len() {
            let value = builder.shared_value(place);
            let is_less = builder.is_less(&greatest, &value);
            greatest = builder.choose_word(is_less, &value, &greatest);
        }
        builder.finish(signed_share(self.output_bits, &greatest))
    }
}

impl Builder {
    /// The sum of the two parties' values at one place.
    pub(super) fn shared_value(&mut self, place: usize) -> Vec<Wire> {
        let (server, client) = (self.server_value(place), self.client_value(place));
        self.add(&server, &client)
    }
}

/// The signed number on these wires: the top bit counts negatively, whatever the ring of the output.
fn signed_share(output_bits: u32, bits: &[Wire]) -> Output {
    let top = bits.len() - 1;
    let terms = bits.iter().enumerate().take(output_bits as usize).map(|(bit, wire)| {
        let weight = 1_u64 << bit;
        Term { wire: *wire, weight: if bit == top { weight.wrapping_neg() } else { weight } }
    });
    Output::Share(Projection { output_bits, selected: None, plain: terms.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garble::bits::low_bits;
    use crate::garble::ideal;
    use crate::garble::testing::{random_values, run_both_parties};

    fn check(shape: &MaximumShape, server: &[u64], client: &[u64]) {
        let (values, bits) = (shape.values as usize, shape.output_bits);
        let instances = server.len() / values;
        let blinds = random_values(instances, bits, 5);
        let clear = shape.circuit().run_in_the_clear(server, client);
        let shares = run_both_parties(shape.circuit(), instances, server, client, &blinds);
        let windows = server.chunks(values).zip(client.chunks(values));
        for (((server, client), clear), (share, blind)) in windows.zip(clear).zip(shares.iter().zip(&blinds))
        {
            let want = ideal::maximum(shape, server, client);
            assert_eq!(clear, want, "{shape:?} in the clear: {server:?} + {client:?}");
            assert_eq!(share.wrapping_add(*blind) & low_bits(bits), want, "{shape:?} garbled");
        }
    }

    #[test]
    fn windows_of_every_size_have_the_maximum_of_their_values() {
        for values in [1, 2, 3, 4, 9] {
            for (width, output_bits) in [(8, 8), (8, 16), (32, 32), (20, 9), (41, 41)] {
                let shape = MaximumShape::new(values, width, output_bits).unwrap();
                let count = 150 * values as usize;
                check(&shape, &random_values(count, width, 1), &random_values(count, width, 2));
            }
        }
    }

    #[test]
    fn two_values_of_three_bits_are_right_for_all_inputs() {
        let mut server = Vec::new();
        let mut client = Vec::new();
        for bits in 0..1 << 12_u64 {
            server.extend([bits & 7, bits >> 3 & 7]);
            client.extend([bits >> 6 & 7, bits >> 9 & 7]);
        }
        check(&MaximumShape::new(2, 3, 4).unwrap(), &server, &client);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert!(MaximumShape::new(0, 8, 8).is_err());
        assert!(MaximumShape::new(2, 1, 8).is_err());
        assert!(MaximumShape::new(2, 8, 65).is_err());
    }
}
