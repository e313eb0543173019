//! The same function computed by a trusted third party, on integers.

use super::GateShape;
use crate::garble::bits::low_bits;
use crate::garble::ideal::signed;

/// Whether the compared value counts as not negative, given both shares of it.
pub fn sign(shape: &GateShape, server: u64, client: u64) -> bool {
    let bits = shape.compared_bits();
    let sum = shape.server_input(server).wrapping_add(shape.client_input(client));
    signed(sum & low_bits(bits), bits) >= 0
}

/// A value by a sign: its quotient rounded by the client's share, times the sign and the slope. `number` counts the values of
/// the sign; a slope has [`GateShape::slope_bits`] fraction bits, and so has what comes out.
pub fn gate(shape: &GateShape, number: usize, sign: bool, slope: i64, server: u64, client: u64) -> u64 {
    let (f, ring) = (shape.fraction_bits, shape.width + u32::from(shape.is_lifted(number)));
    let upper = |share: u64| (share & low_bits(ring)) >> f;
    let sum = upper(server.wrapping_add(low_bits(f))).wrapping_add(upper(client));
    let quotient = signed(sum & low_bits(ring - f), ring - f);
    let factor = i64::from(sign) * (1 << shape.slope_bits.unwrap_or(0)) + slope;
    quotient.wrapping_mul(factor) as u64 & low_bits(shape.output_bits)
}
