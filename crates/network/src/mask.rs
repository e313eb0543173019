//! Which ReLUs are kept, scalar by scalar.
//!
//! SNL (section 3) learns for every pixel of every ReLU layer whether its ReLU may become the identity; its
//! channel-wise form (section 4) decides for whole channels. An [`ActivationMask`] holds that choice for all sites
//! of one network and fits only networks with the same sites.

mod file;
mod random;

use crate::shape::Shape;
use crate::walk::{Network, ReluSite, SiteIndex};

pub use file::{MaskFileError, MaskReadError};
pub use random::TooManyRelus;

/// The choice for one ReLU layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiteMask {
    /// Every ReLU stays.
    KeepAll,
    /// Every ReLU becomes the identity.
    DropAll,
    /// Whole channels stay or go.
    Channels(Bits),
    /// Every scalar decides for itself, in channel, row, column order.
    Pixels(Bits),
}

impl SiteMask {
    /// How many ReLUs stay at a site of this shape.
    pub fn relu_count(&self, shape: Shape) -> u64 {
        match self {
            Self::KeepAll => shape.scalars(),
            Self::DropAll => 0,
            Self::Channels(bits) => bits.ones() * shape.pixels(),
            Self::Pixels(bits) => bits.ones(),
        }
    }

    /// Whether the ReLU of one scalar stays.
    ///
    /// # Panics
    /// If the scalar lies outside the shape the mask was made for.
    pub fn keeps(&self, shape: Shape, channel: usize, row: usize, column: usize) -> bool {
        match self {
            Self::KeepAll => true,
            Self::DropAll => false,
            Self::Channels(bits) => bits.get(channel),
            Self::Pixels(bits) => bits.get((channel * shape.height + row) * shape.width + column),
        }
    }

    /// How many ReLUs of one channel stay.
    pub(crate) fn kept_pixels(&self, shape: Shape, channel: usize) -> u64 {
        match self {
            Self::KeepAll => shape.pixels(),
            Self::DropAll => 0,
            Self::Channels(bits) => u64::from(bits.get(channel)) * shape.pixels(),
            Self::Pixels(bits) => {
                let start = channel * shape.pixels() as usize;
                (start..start + shape.pixels() as usize).filter(|place| bits.get(*place)).count() as u64
            }
        }
    }

    /// How many bits a mask of this kind has at a site of this shape.
    pub(crate) fn bit_length(&self, shape: Shape) -> Option<usize> {
        match self {
            Self::KeepAll | Self::DropAll => None,
            Self::Channels(_) => Some(shape.channels),
            Self::Pixels(_) => usize::try_from(shape.scalars()).ok(),
        }
    }
}

/// The choice for every ReLU layer of one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivationMask {
    sites: Vec<(Shape, SiteMask)>,
}

impl ActivationMask {
    /// Keeps every ReLU of the network.
    pub fn keep_all(network: &dyn Network) -> Self {
        Self { sites: network.walk().sites().iter().map(|site| (site.shape, SiteMask::KeepAll)).collect() }
    }

    /// One choice per site, in the order of the walk.
    ///
    /// # Errors
    /// When there are more or fewer choices than sites, or one has the wrong number of bits.
    pub fn new(network: &dyn Network, masks: Vec<SiteMask>) -> Result<Self, MaskMismatch> {
        let sites = network.walk().sites();
        if masks.len() != sites.len() {
            return Err(MaskMismatch::Sites { expected: sites.len(), came: masks.len() });
        }
        for (site, mask) in sites.iter().zip(&masks) {
            check_bits(site, mask)?;
        }
        Ok(Self { sites: sites.iter().map(|site| site.shape).zip(masks).collect() })
    }

    /// The choice for one site.
    ///
    /// # Panics
    /// If the site belongs to another network.
    pub fn site(&self, site: SiteIndex) -> &SiteMask {
        &self.sites[site.0].1
    }

    /// How many ReLUs stay at one site.
    ///
    /// # Panics
    /// If the site belongs to another network.
    pub fn relu_count_at(&self, site: SiteIndex) -> u64 {
        let (shape, mask) = &self.sites[site.0];
        mask.relu_count(*shape)
    }

    /// How many ReLUs stay in all.
    pub fn relu_count(&self) -> u64 {
        self.sites.iter().map(|(shape, mask)| mask.relu_count(*shape)).sum()
    }

    /// Whether the mask was made for a network with the same sites.
    pub fn fits(&self, network: &dyn Network) -> bool {
        let sites = network.walk().sites();
        sites.len() == self.sites.len()
            && sites.iter().zip(&self.sites).all(|(site, (shape, _))| site.shape == *shape)
    }
}

fn check_bits(site: &ReluSite, mask: &SiteMask) -> Result<(), MaskMismatch> {
    let came = match mask {
        SiteMask::KeepAll | SiteMask::DropAll => return Ok(()),
        SiteMask::Channels(bits) | SiteMask::Pixels(bits) => bits.len(),
    };
    match mask.bit_length(site.shape) {
        Some(expected) if expected == came => Ok(()),
        expected => {
            Err(MaskMismatch::Bits { site: site.name.clone(), expected: expected.unwrap_or(0), came })
        }
    }
}

/// A mask that does not fit the network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskMismatch {
    /// Another number of ReLU layers.
    #[error("the mask has {came} sites, the network {expected} ReLU layers")]
    Sites {
        /// What the network has.
        expected: usize,
        /// What the mask has.
        came: usize,
    },
    /// Another number of bits.
    #[error("the mask has {came} bits for {site}, which needs {expected}")]
    Bits {
        /// The site.
        site: String,
        /// What it needs.
        expected: usize,
        /// What came.
        came: usize,
    },
}

/// A packed list of bits, lowest bit of the first byte first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    /// Collects bits.
    pub fn collect(bits: impl IntoIterator<Item = bool>) -> Self {
        let mut bytes = Vec::new();
        let mut len = 0;
        for bit in bits {
            if len % 8 == 0 {
                bytes.push(0);
            }
            *bytes.last_mut().expect("a byte was pushed for this bit") |= u8::from(bit) << (len % 8);
            len += 1;
        }
        Self { bytes, len }
    }

    /// Bits from bytes as [`Self::bytes`] gives them; the unused bits of the last byte must be zero.
    pub(crate) fn from_bytes(bytes: &[u8], len: usize) -> Option<Self> {
        let clean = len.is_multiple_of(8) || bytes.last().is_some_and(|last| last >> (len % 8) == 0);
        (bytes.len() == len.div_ceil(8) && clean).then(|| Self { bytes: bytes.to_vec(), len })
    }

    /// How many bits there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many are set.
    pub fn ones(&self) -> u64 {
        self.bytes.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// One bit.
    ///
    /// # Panics
    /// If the index is out of range.
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        self.bytes[index / 8] >> (index % 8) & 1 == 1
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len).map(|index| self.get(index))
    }

    /// The packed form.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::NetworkSpec;
    use crate::zoo;
    use proptest::prelude::*;

    pub(super) fn random_mask(spec: &NetworkSpec, bits: &[bool]) -> ActivationMask {
        let mut source = bits.iter().copied().cycle();
        let masks = spec.walk().sites().iter().enumerate().map(|(index, site)| match index % 4 {
            0 => SiteMask::KeepAll,
            1 => SiteMask::DropAll,
            2 => SiteMask::Channels(Bits::collect(source.by_ref().take(site.shape.channels))),
            _ => SiteMask::Pixels(Bits::collect(source.by_ref().take(site.shape.scalars() as usize))),
        });
        ActivationMask::new(spec, masks.collect()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_count_is_the_number_of_kept_scalars(bits in prop::collection::vec(any::<bool>(), 1..97)) {
            let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
            let mask = random_mask(&spec, &bits);
            let mut kept = 0;
            for site in spec.walk().sites() {
                for channel in 0..site.shape.channels {
                    for row in 0..site.shape.height {
                        for column in 0..site.shape.width {
                            kept += u64::from(mask.site(site.index).keeps(site.shape, channel, row, column));
                        }
                    }
                }
            }
            prop_assert_eq!(mask.relu_count(), kept);
        }
    }

    #[test]
    fn a_mask_of_another_size_is_refused() {
        let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
        assert_eq!(
            ActivationMask::new(&spec, vec![SiteMask::KeepAll]),
            Err(MaskMismatch::Sites { expected: 9, came: 1 })
        );
        let mut masks = vec![SiteMask::KeepAll; 9];
        masks[2] = SiteMask::Channels(Bits::collect([true; 4]));
        let error = ActivationMask::new(&spec, masks).unwrap_err();
        assert_eq!(error.to_string(), "the mask has 4 bits for stage1.block1.sum.relu1, which needs 3");
    }

    #[test]
    fn keeping_all_costs_what_the_network_costs() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        assert_eq!(ActivationMask::keep_all(&spec).relu_count(), 557_056);
        assert!(ActivationMask::keep_all(&spec).fits(&spec));
        assert!(!ActivationMask::keep_all(&spec).fits(&zoo::build("resnet18", 64, 100).unwrap()));
    }
}
