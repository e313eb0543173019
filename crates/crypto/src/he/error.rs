//! What can go wrong in the linear layers' encryption, and whose fault it is.

/// A refusal of this module.
///
/// They speak of the outline, of lengths, and of words that were on the wire, never of noise or of what was
/// decrypted. [`HeError::WeightRange`] alone depends on weights; their owner meets it when a model is loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum HeError {
    /// No parameters within the security table keep the noise of this outline small enough.
    #[error(
        "no RLWE parameters keep the noise of {taps} taps small enough for {ring_bits}-bit shares; freeze the model with \
         narrower rings or fewer channels in a layer"
    )]
    CannotDecrypt {
        /// Bits of the ring of shares.
        ring_bits: u32,
        /// Largest number of weights that meet in one coefficient.
        taps: u64,
    },
    /// The ring is outside what the encoding supports.
    #[error("shares of {ring_bits} bits are not supported; between 8 and 64 are")]
    RingBits {
        /// Bits of the ring of shares that were asked for.
        ring_bits: u32,
    },
    /// A linear layer whose sizes do not fit together.
    #[error("the shape of a linear layer does not fit: {reason}")]
    Shape {
        /// What does not fit.
        reason: &'static str,
    },
    /// A layer that no tiling brings into the ciphertexts of these parameters.
    #[error("no tiling of this layer fits ciphertexts of {degree} coefficients")]
    LayerTooLarge {
        /// Coefficients of one ciphertext.
        degree: usize,
    },
    /// A layer that was not part of the outline from which the parameters were made.
    #[error("{taps} weights meet in one coefficient of this layer; the parameters were made for {allowed}")]
    TooManyTaps {
        /// Weights that meet in one coefficient of this layer.
        taps: u64,
        /// What the parameters were made for.
        allowed: u64,
    },
    /// A caller's slice has the wrong length.
    #[error("{what}: expected {expected} values, got {got}")]
    Count {
        /// Which slice.
        what: &'static str,
        /// Values that the shape implies.
        expected: usize,
        /// Values that were handed over.
        got: usize,
    },
    /// A weight does not fit the bound that the outline declares. Its value is left out on purpose.
    #[error("a weight exceeds the declared bound of {bound}")]
    WeightRange {
        /// Largest absolute value that was declared.
        bound: u32,
    },
    /// A message of the wrong length.
    #[error("peer sent {what} of {sent} bytes; the plan has {expected}")]
    Length {
        /// Which message.
        what: &'static str,
        /// Bytes that the plan has.
        expected: usize,
        /// Bytes that came.
        sent: usize,
    },
    /// A coefficient that is not a residue.
    #[error("peer sent {what} whose coefficient {index} is {sent}, which must be at most {largest}")]
    CoefficientRange {
        /// Which message.
        what: &'static str,
        /// Place of the coefficient within the message.
        index: usize,
        /// The largest value allowed there.
        largest: u128,
        /// What came.
        sent: u128,
    },
    /// Bits after the last coefficient of a section were not zero.
    #[error("peer sent {what} with bits set after its last coefficient")]
    Padding {
        /// Which message.
        what: &'static str,
    },
    /// A layer whose parameters have another ring than the key.
    #[error("the key belongs to another degree or other primes than the layer's parameters")]
    OtherRing,
}
