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

/// A value by a sign: its quotient rounded by the client's share, or zero. `number` counts the values of the sign.
pub fn gate(shape: &GateShape, number: usize, sign: bool, server: u64, client: u64) -> u64 {
    let (f, ring) = (shape.fraction_bits, shape.width + u32::from(number > 0));
    let upper = |share: u64| (share & low_bits(ring)) >> f;
    let sum = upper(server.wrapping_add(low_bits(f))).wrapping_add(upper(client));
    let quotient = signed(sum & low_bits(ring - f), ring - f);
    if sign { quotient as u64 & low_bits(shape.output_bits) } else { 0 }
}
