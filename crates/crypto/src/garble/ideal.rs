//! The same functions computed by a trusted third party in memory, on integers, without circuits.
//!
//! The tests of `garble` use them as oracles. They branch on their inputs.

use super::argmax::ArgmaxShape;
use super::bits::low_bits;
use super::clip::ClipShape;
use super::maximum::MaximumShape;
use super::relu::{ReluShape, Rounding};
use super::truncate::TruncationShape;

/// The signed integer in the low `width` bits.
pub fn signed(value: u64, width: u32) -> i64 {
    (value << (64 - width)) as i64 >> (64 - width)
}

/// The rectified and truncated sum of two shares, modulo the output ring. The server's share of it is this
/// less the client's blind.
pub fn relu(shape: &ReluShape, server: u64, client: u64) -> u64 {
    let quotient = quotient(shape, server, client);
    quotient.max(0) as u64 & low_bits(shape.output_bits())
}

/// The quotient by 2^f of the sum, rounded as the shape says, in the range of what is left of the width.
fn quotient(shape: &ReluShape, server: u64, client: u64) -> i64 {
    let (width, f) = (shape.width(), shape.fraction_bits());
    let constant = match shape.rounding() {
        Rounding::Floor => 0,
        Rounding::Nearest => 1_u64 << f >> 1,
    };
    signed(server.wrapping_add(client).wrapping_add(constant), width) >> f
}

/// The ReLU of the sum, at most the threshold.
pub fn clip(shape: &ClipShape, server: u64, client: u64) -> u64 {
    let quotient = quotient(shape.relu(), server, client);
    (quotient.max(0) as u64).min(shape.threshold()) & low_bits(shape.relu().output_bits())
}

/// The greatest of the sums, modulo the output ring.
pub fn maximum(shape: &MaximumShape, server: &[u64], client: &[u64]) -> u64 {
    let sums = server.iter().zip(client).map(|(a, b)| signed(a.wrapping_add(*b), shape.width()));
    sums.max().unwrap_or(0) as u64 & low_bits(shape.output_bits())
}

/// The place of the greatest sum; the lowest of several.
pub fn argmax(shape: &ArgmaxShape, server: &[u64], client: &[u64]) -> u64 {
    let mut best = (0, i64::MIN);
    for (place, (a, b)) in (0..).zip(server.iter().zip(client)) {
        let value = signed(a.wrapping_add(*b), shape.width());
        if value > best.1 || place == 0 {
            best = (place, value);
        }
    }
    best.0
}

/// The sum divided by 2^f by stochastic rounding, modulo the output ring: floor(x'/2^f) - [b0 > x' mod 2^f]
/// with x' = x + 2^f - 1. The server's share of it is this less the client's blind.
pub fn truncate(shape: &TruncationShape, server: u64, client: u64) -> u64 {
    let f = shape.fraction_bits();
    let sum = signed(server.wrapping_add(client), shape.width()).wrapping_add((1_i64 << f) - 1);
    let borrowed = client & low_bits(f) > sum as u64 & low_bits(f);
    ((sum >> f) as u64).wrapping_sub(borrowed.into()) & low_bits(shape.output_bits())
}
