//! ReLU over additive shares, with its truncation: the circuits and what each party puts in.
//!
//! The server holds a, the client b, and a + b = x modulo 2^w with x in the signed range. The output is
//! max(0, x) / 2^f as an additive share of another ring. The truncation costs nothing: dropped bits have no
//! row.

use super::bits::low_bits;
use super::circuit::{Builder, Circuit, Output, Projection, Selection, Term, Wire};
use super::error::{GarbleError, check_shape};

/// How the quotient by 2^f is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Exactly, towards zero.
    Floor,
    /// Exactly, to the nearest, halves up.
    Nearest,
}

/// How the output becomes a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReluForm {
    /// Projection rows: fewer bytes; the default.
    Projection,
    /// Gates alone: the blind is an input of the client, who returns colors. The twin that the rows are
    /// tested against.
    AndOnly,
}

/// The parameters of a ReLU layer's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReluShape {
    width: u32,
    fraction_bits: u32,
    output_bits: u32,
    rounding: Rounding,
    form: ReluForm,
}

impl ReluShape {
    /// A ReLU on shares modulo 2^`width` that divides by 2^`fraction_bits` and shares its result modulo
    /// 2^`output_bits`.
    ///
    /// # Errors
    /// When a width is not in 1..=64 or truncation leaves no bit beside the sign.
    pub fn new(
        width: u32,
        fraction_bits: u32,
        output_bits: u32,
        rounding: Rounding,
        form: ReluForm,
    ) -> Result<Self, GarbleError> {
        check_shape("width", 2, 64, width.into())?;
        check_shape("fraction bits", 0, u64::from(width) - 2, fraction_bits.into())?;
        check_shape("output bits", 1, 64, output_bits.into())?;
        Ok(Self { width, fraction_bits, output_bits, rounding, form })
    }

    /// Bits of the input ring.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Bits that the quotient drops.
    pub fn fraction_bits(&self) -> u32 {
        self.fraction_bits
    }

    /// Bits of the output ring.
    pub fn output_bits(&self) -> u32 {
        self.output_bits
    }

    /// How the quotient is rounded.
    pub fn rounding(&self) -> Rounding {
        self.rounding
    }

    /// The circuit. The server puts in [`ReluShape::server_input`], the client [`ReluShape::client_input`]
    /// and, in the form of gates alone, its blind.
    pub fn circuit(&self) -> Circuit {
        let (width, lowest) = (self.width, self.fraction_bits as usize);
        let client_widths: &[u32] = match self.form {
            ReluForm::Projection => &[width],
            ReluForm::AndOnly => &[width, self.output_bits],
        };
        let mut builder = Builder::new(&[width], client_widths);
        let (server, client) = (builder.server_value(0), builder.client_value(0));
        let sum = builder.add(&server, &client);
        let sign = builder.sign(&sum);
        let is_positive = builder.not(sign);
        let kept = (sum.len() - 1 - lowest).min(self.output_bits as usize);
        let magnitude = &sum[lowest..][..kept];
        match self.form {
            ReluForm::Projection => {
                let output = selected_share(self.output_bits, is_positive, magnitude, Vec::new());
                builder.finish(output)
            }
            ReluForm::AndOnly => {
                let rectified = builder.keep_if(is_positive, magnitude);
                let blind = builder.client_value(1);
                let share = builder.subtract(&rectified, &blind);
                builder.finish(Output::Colors(share))
            }
        }
    }

    /// What the server puts in for its share: the rounding constant is added to it.
    pub fn server_input(&self, share: u64) -> u64 {
        let (mask, f) = (low_bits(self.width), self.fraction_bits);
        match self.rounding {
            Rounding::Floor => share & mask,
            Rounding::Nearest => share.wrapping_add(1_u64 << f >> 1) & mask,
        }
    }

    /// What the client puts in for its share.
    pub fn client_input(&self, share: u64) -> u64 {
        share & low_bits(self.width)
    }
}

/// The unsigned number on these wires, lowest bit first, counted where `select` is one, plus plain terms.
pub(super) fn selected_share(output_bits: u32, select: Wire, bits: &[Wire], plain: Vec<Term>) -> Output {
    let terms = bits.iter().enumerate().map(|(bit, wire)| Term { wire: *wire, weight: 1 << bit }).collect();
    Output::Share(Projection { output_bits, selected: Some(Selection { select, terms }), plain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garble::ideal;
    use crate::garble::testing::{random_values, run_both_parties};

    const ROUNDINGS: [Rounding; 2] = [Rounding::Floor, Rounding::Nearest];
    const FORMS: [ReluForm; 2] = [ReluForm::Projection, ReluForm::AndOnly];

    fn shape(width: u32, fraction_bits: u32, rounding: Rounding, form: ReluForm) -> ReluShape {
        ReluShape::new(width, fraction_bits, width, rounding, form).unwrap()
    }

    #[test]
    fn the_working_point_costs_what_the_design_says() {
        let cost = |rounding, form| {
            let circuit = shape(32, 12, rounding, form).circuit();
            (
                circuit.and_count(),
                circuit.row_count(),
                circuit.table_bytes(1),
                circuit.label_bytes(1) + circuit.reply_bytes(1),
            )
        };
        assert_eq!(cost(Rounding::Floor, ReluForm::Projection), (31, 19, 1148, 516));
        assert_eq!(cost(Rounding::Floor, ReluForm::AndOnly), (81, 0, 2592, 516));
    }

    /// Compares the circuit in the clear with the oracle.
    fn check_in_the_clear(shape: &ReluShape, pairs: &[(u64, u64)], blinds: &[u64]) {
        let circuit = shape.circuit();
        let server: Vec<u64> = pairs.iter().map(|(a, _)| shape.server_input(*a)).collect();
        let with_blind = shape.form == ReluForm::AndOnly;
        let client: Vec<u64> = pairs
            .iter()
            .zip(blinds)
            .flat_map(|((_, b), blind)| [Some(shape.client_input(*b)), with_blind.then_some(*blind)])
            .flatten()
            .collect();
        let got = circuit.run_in_the_clear(&server, &client);
        for (((a, b), blind), got) in pairs.iter().zip(blinds).zip(got) {
            let want = ideal::relu(shape, *a, *b);
            let blind = if with_blind { *blind } else { 0 };
            assert_eq!(got, want.wrapping_sub(blind) & low_bits(shape.output_bits), "{shape:?}: {a} + {b}");
        }
    }

    #[test]
    fn every_pair_of_shares_of_up_to_eight_bits_is_right_in_the_clear() {
        for width in 2..=8 {
            let pairs: Vec<(u64, u64)> =
                (0..1 << width).flat_map(|a| (0..1 << width).map(move |b| (a, b))).collect();
            let blinds = random_values(pairs.len(), width, width as u8);
            for fraction_bits in 0..=width - 2 {
                for rounding in ROUNDINGS {
                    for form in FORMS {
                        for output_bits in [1, width - 1, width, 11] {
                            let shape =
                                ReluShape::new(width, fraction_bits, output_bits, rounding, form).unwrap();
                            check_in_the_clear(&shape, &pairs, &blinds);
                        }
                    }
                }
            }
        }
    }

    /// Garbles, evaluates and compares with the oracle.
    fn check_garbled(shape: &ReluShape, pairs: &[(u64, u64)]) {
        let blinds = random_values(pairs.len(), shape.output_bits, 3);
        let server: Vec<u64> = pairs.iter().map(|(a, _)| shape.server_input(*a)).collect();
        let with_blind = shape.form == ReluForm::AndOnly;
        let inputs = pairs.iter().zip(&blinds);
        let client: Vec<u64> = inputs
            .flat_map(|((_, b), blind)| [Some(shape.client_input(*b)), with_blind.then_some(*blind)])
            .flatten()
            .collect();
        let evaluation_blinds = if with_blind { &[][..] } else { &blinds };
        let got = run_both_parties(shape.circuit(), pairs.len(), &server, &client, evaluation_blinds);
        for (((a, b), blind), share) in pairs.iter().zip(&blinds).zip(got) {
            let value = share.wrapping_add(*blind) & low_bits(shape.output_bits);
            assert_eq!(value, ideal::relu(shape, *a, *b), "{shape:?}: {a} + {b}");
        }
    }

    #[test]
    fn every_pair_of_shares_of_up_to_eight_bits_is_right_garbled() {
        for width in 2..=8 {
            let pairs: Vec<(u64, u64)> =
                (0..1 << width).flat_map(|a| (0..1 << width).map(move |b| (a, b))).collect();
            for fraction_bits in 0..=width - 2 {
                for rounding in ROUNDINGS {
                    for form in FORMS {
                        check_garbled(&shape(width, fraction_bits, rounding, form), &pairs);
                    }
                }
            }
        }
    }

    /// Pairs whose sum sits on a boundary, with random and extreme client shares.
    fn boundary_pairs(width: u32, fraction_bits: u32) -> Vec<(u64, u64)> {
        let mask = low_bits(width);
        let (top, unit) = (1_u64 << (width - 1), 1_u64 << fraction_bits);
        let edges = [
            0,
            1,
            unit - 1,
            unit,
            unit + 1,
            unit / 2,
            top - unit,
            top - 1,
            top,
            top + 1,
            mask,
            mask - unit,
            mask - 1,
        ];
        let mut shares = vec![0, 1, unit - 1, unit, top - 1, top, mask];
        shares.extend(random_values(20, width, 7));
        let pairs =
            edges.iter().flat_map(|sum| shares.iter().map(move |b| (sum.wrapping_sub(*b) & mask, *b)));
        pairs.collect()
    }

    #[test]
    fn a_million_random_pairs_and_the_boundaries_are_right_in_the_clear() {
        for width in [20, 24, 32, 41] {
            let count = 1_000_000;
            let (a, b) = (random_values(count, width, 1), random_values(count, width, 2));
            let mut pairs: Vec<(u64, u64)> = a.into_iter().zip(b).collect();
            pairs.extend(boundary_pairs(width, 12));
            let blinds = random_values(pairs.len(), width, 4);
            check_in_the_clear(&shape(width, 12, Rounding::Floor, ReluForm::Projection), &pairs, &blinds);
            check_in_the_clear(&shape(width, 12, Rounding::Nearest, ReluForm::AndOnly), &pairs, &blinds);
        }
    }

    #[test]
    fn random_pairs_and_the_boundaries_are_right_garbled() {
        for width in [20, 24, 32, 41] {
            let count = 10_000;
            let (a, b) = (random_values(count, width, 1), random_values(count, width, 2));
            let mut pairs: Vec<(u64, u64)> = a.into_iter().zip(b).collect();
            pairs.extend(boundary_pairs(width, 12));
            for rounding in ROUNDINGS {
                for form in FORMS {
                    check_garbled(&shape(width, 12, rounding, form), &pairs);
                }
            }
        }
    }

    #[test]
    fn a_million_garbled_pairs_of_32_bits_are_right() {
        let count = 1_000_000;
        let (a, b) = (random_values(count, 32, 5), random_values(count, 32, 6));
        let pairs: Vec<(u64, u64)> = a.into_iter().zip(b).collect();
        check_garbled(&shape(32, 12, Rounding::Floor, ReluForm::Projection), &pairs);
    }

    #[test]
    fn the_output_ring_may_be_narrower_or_wider() {
        let (a, b) = (random_values(500, 20, 8), random_values(500, 20, 9));
        let pairs: Vec<(u64, u64)> = a.into_iter().zip(b).collect();
        for output_bits in [1, 7, 8, 9, 17, 24, 33, 40, 48, 56, 63, 64] {
            for form in FORMS {
                let shape = ReluShape::new(20, 6, output_bits, Rounding::Floor, form).unwrap();
                check_garbled(&shape, &pairs);
            }
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let new = |width, f, out| ReluShape::new(width, f, out, Rounding::Floor, ReluForm::Projection);
        assert!(new(1, 0, 8).is_err() && new(65, 0, 8).is_err());
        assert!(new(8, 7, 8).is_err() && new(8, 6, 8).is_ok());
        assert!(new(8, 0, 0).is_err() && new(8, 0, 65).is_err());
    }
}
