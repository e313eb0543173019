//! ReLU clipped at a public threshold, as in ReLU6.
//!
//! Beside the ReLU it costs a comparison with a constant, one AND and one row: the output is the magnitude
//! where it is positive and below the threshold, plus the threshold where it is positive and not.

use super::circuit::{Builder, Circuit, Term};
use super::error::{GarbleError, check_shape};
use super::relu::{ReluForm, ReluShape, Rounding, selected_share};

/// The parameters of a clipped ReLU layer's circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipShape {
    relu: ReluShape,
    threshold: u64,
}

impl ClipShape {
    /// min(`threshold`, max(0, x) / 2^`fraction_bits`): the threshold is in units of the output.
    ///
    /// # Errors
    /// When a width is not in 1..=64, truncation leaves no bit beside the sign, or the threshold is zero or
    /// does not fit the output ring.
    pub fn new(
        width: u32,
        fraction_bits: u32,
        output_bits: u32,
        rounding: Rounding,
        threshold: u64,
    ) -> Result<Self, GarbleError> {
        let relu = ReluShape::new(width, fraction_bits, output_bits, rounding, ReluForm::Projection)?;
        check_shape("threshold", 1, super::bits::low_bits(output_bits), threshold)?;
        Ok(Self { relu, threshold })
    }

    /// The ReLU that is clipped; it says what each party puts in.
    pub fn relu(&self) -> &ReluShape {
        &self.relu
    }

    /// The greatest value that comes out.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// The circuit. The parties put in [`ReluShape::server_input`] and [`ReluShape::client_input`].
    pub fn circuit(&self) -> Circuit {
        let (width, lowest) = (self.relu.width(), self.relu.fraction_bits() as usize);
        let mut builder = Builder::new(&[width], &[width]);
        let sum = builder.shared_value(0);
        let sign = builder.sign(&sum);
        let is_positive = builder.not(sign);
        let magnitude = &sum[lowest..sum.len() - 1];
        // What equals the threshold may count as beyond it: its trailing zeros then cost no gate. Where
        // nothing reaches the threshold it is an ordinary ReLU; what is below needs no more bits than the
        // greatest such value.
        let greatest_within = self.threshold - 1;
        let needed_bits = (64 - greatest_within.leading_zeros()) as usize;
        let (is_within, plain) = match builder.exceeds(magnitude, greatest_within) {
            None => (is_positive, Vec::new()),
            Some(exceeds) => {
                let is_clipped = builder.and(is_positive, exceeds);
                let is_within = builder.xor(is_positive, is_clipped);
                (is_within, vec![Term { wire: is_clipped, weight: self.threshold }])
            }
        };
        let kept = magnitude.len().min(needed_bits);
        builder.finish(selected_share(self.relu.output_bits(), is_within, &magnitude[..kept], plain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garble::bits::low_bits;
    use crate::garble::ideal;
    use crate::garble::testing::{random_values, run_both_parties};

    fn check(shape: &ClipShape, pairs: &[(u64, u64)]) {
        let relu = shape.relu();
        let server: Vec<u64> = pairs.iter().map(|(a, _)| relu.server_input(*a)).collect();
        let client: Vec<u64> = pairs.iter().map(|(_, b)| relu.client_input(*b)).collect();
        let blinds = random_values(pairs.len(), relu.output_bits(), 5);
        let clear = shape.circuit().run_in_the_clear(&server, &client);
        let shares = run_both_parties(shape.circuit(), pairs.len(), &server, &client, &blinds);
        for (((a, b), clear), (share, blind)) in pairs.iter().zip(clear).zip(shares.iter().zip(&blinds)) {
            let want = ideal::clip(shape, *a, *b);
            assert_eq!(clear, want, "{shape:?} in the clear: {a} + {b}");
            assert_eq!(share.wrapping_add(*blind) & low_bits(relu.output_bits()), want, "{shape:?} garbled");
        }
    }

    #[test]
    fn every_threshold_clips_all_pairs_of_six_bits() {
        let pairs: Vec<(u64, u64)> = (0..64).flat_map(|a| (0..64).map(move |b| (a, b))).collect();
        for rounding in [Rounding::Floor, Rounding::Nearest] {
            for threshold in [1, 2, 5, 6, 7, 8, 15, 16, 31, 100] {
                check(&ClipShape::new(6, 1, 8, rounding, threshold).unwrap(), &pairs);
            }
        }
    }

    #[test]
    fn relu6_at_the_working_point_is_right() {
        let threshold = 6 << 12;
        let shape = ClipShape::new(32, 12, 32, Rounding::Floor, threshold).unwrap();
        let a = random_values(5000, 32, 1);
        let b = random_values(5000, 28, 2);
        // Small sums, so that both sides of the threshold are met.
        let pairs: Vec<(u64, u64)> =
            a.iter().zip(b).map(|(a, x)| (*a, x.wrapping_sub(*a) & low_bits(32))).collect();
        check(&shape, &pairs);
        let circuit = shape.circuit();
        assert_eq!((circuit.and_count(), circuit.row_count()), (37, 16));
    }

    #[test]
    fn impossible_thresholds_are_refused() {
        assert!(ClipShape::new(16, 4, 8, Rounding::Floor, 0).is_err());
        assert!(ClipShape::new(16, 4, 8, Rounding::Floor, 256).is_err());
        assert!(ClipShape::new(16, 4, 8, Rounding::Floor, 255).is_ok());
    }
}
