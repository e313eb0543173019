//! Z_2^l: the values both parties compute on, their shares, their bytes, and the server's online layers.
//!
//! DELPHI (Mishra et al., USENIX Security 2020, section 3) with a power of two in place of its prime: integers wrap
//! as the processor's do, and a linear layer on the server is plain integer arithmetic. At each layer boundary the
//! server holds x - r and the client knows r:
//!
//! ```text
//! client                                                server
//!   r, and offline W r - s                                W, and offline s
//!                         x - r, l bits each
//!   RingVector::to_bytes ------------------------------>  RingVector::from_bytes
//!                                                         PackedWeights::convolve: W (x - r)
//!                                                         RingVector::add: W (x - r) + s
//!   share of W x: W r - s                                 share of W x: W (x - r) + s
//! ```
//!
//! Storage is 32-bit words for l up to 32 and 64-bit words above; values are always reduced. Kernels follow the
//! processor at run time, and none of them branches on a value or a weight. No threads are started here: a layer is
//! split by [`Region`], over output channels or rows.

pub mod geometry;
pub(crate) mod kernel;
mod linear;
mod pool;
pub mod reference;
mod share;
mod vector;
mod width;
mod word;

pub use self::linear::{CHANNEL_BLOCK, PackedInput, PackedWeights, Region, Weights};
pub use self::pool::SumPool;
pub use self::share::{Blind, Share, combine, share, unblind};
pub use self::vector::{RingVector, UnpackError};
pub use self::width::{RingWidth, WidthOutOfRange};

/// Operands that do not fit together: a fault of the calling code, since plans fix all of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Two vectors live in different rings.
    #[error("a vector of {expected} met one of {found}")]
    WidthMismatch {
        /// The ring of the first.
        expected: RingWidth,
        /// The ring of the second.
        found: RingWidth,
    },
    /// Two vectors have different lengths.
    #[error("a vector of {expected} values met one of {found}")]
    LengthMismatch {
        /// The values of the first.
        expected: usize,
        /// The values of the second.
        found: usize,
    },
    /// A shift by at least the ring's width.
    #[error("a shift by {shift} bits was asked for in a ring of {width}")]
    Shift {
        /// The bits asked for.
        shift: u32,
        /// The ring.
        width: RingWidth,
    },
    /// A reduction to a wider ring, which is none.
    #[error("values of {from} cannot be reduced to {to}")]
    Widening {
        /// The ring of the values.
        from: RingWidth,
        /// The ring asked for.
        to: RingWidth,
    },
    /// Too few or too many weights.
    #[error("the layer has {expected} weights, {found} were given")]
    WeightCount {
        /// What the geometry says.
        expected: usize,
        /// What came.
        found: usize,
    },
    /// Values that do not make up images.
    #[error("images have {image} values each, {found} were given")]
    NotWholeImages {
        /// Values of one image.
        image: usize,
        /// What came.
        found: usize,
    },
    /// Values that do not make up groups of one length.
    #[error("{found} values are not {groups} groups of one length")]
    NotWholeGroups {
        /// How many groups were asked for.
        groups: usize,
        /// What came.
        found: usize,
    },
    /// A region that reaches outside the output.
    #[error("the region {region:?} reaches outside {channels} channels of {rows} rows")]
    Region {
        /// What was asked for.
        region: Region,
        /// Channels of the output.
        channels: usize,
        /// Rows of the output.
        rows: usize,
    },
    /// An input packed for a layer of another shape, or for other kernels.
    #[error("the input was packed for another layer")]
    ForeignInput,
}

#[cfg(test)]
mod tests {
    use super::geometry::ConvGeometry;
    use super::*;
    use crate::random::Seed;

    /// The picture above, with the client's offline share computed in the clear.
    #[test]
    fn a_linear_layer_on_blinded_values_yields_shares_of_its_output() {
        let mut generator = Seed::from_bytes([11; 32]).generator();
        let geometry = ConvGeometry::square(5, 7, 6, 3, 2).unwrap();
        let weights: Vec<i8> = (0..geometry.weight_len()).map(|_| generator.next_u64() as i8).collect();
        let layer = PackedWeights::new(geometry, Weights::Bytes(&weights)).unwrap();
        for bits in [20, 32, 41] {
            let width = RingWidth::new(bits).unwrap();
            let image: Vec<i64> =
                (0..geometry.input_len()).map(|_| i64::from(generator.next_u64() as i8)).collect();
            let values = RingVector::from_signed(width, &image);

            let blind = Blind::random(width, values.len(), &mut generator);
            let mask = Share::random(width, geometry.output_len(), &mut generator);
            let mut client_share = Share::new(layer.convolve(blind.expose()).unwrap());
            client_share.subtract(&mask).unwrap();

            let (blinded, _) = blind.blind(&values).unwrap();
            let received = RingVector::from_bytes(width, values.len(), &blinded.to_bytes()).unwrap();
            let mut server_share = Share::new(layer.convolve(&received).unwrap());
            server_share.add(&mask).unwrap();

            let wide: Vec<i16> = weights.iter().map(|&weight| i16::from(weight)).collect();
            let expected = reference::convolve(&geometry, &wide, &values);
            assert_eq!(combine(&client_share, &server_share).unwrap(), expected);
        }
    }
}
