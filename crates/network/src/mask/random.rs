//! Masks drawn by chance, for measuring what a number of ReLUs costs.

use super::{ActivationMask, Bits, SiteMask};
use crate::cost::Cost;
use crate::walk::{Network, Part};

/// More ReLUs than there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} {noun} were asked for; {network} has {available} outside its stem")]
pub struct TooManyRelus {
    /// How many.
    pub asked: u64,
    /// What those are called.
    pub noun: &'static str,
    /// Of which network.
    pub network: String,
    /// How many it has.
    pub available: u64,
}

impl ActivationMask {
    /// Keeps exactly `count` ReLUs, every choice of them over all sites but the stem being equally likely.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn random(network: &dyn Network, count: u64, seed: u64) -> Result<Self, TooManyRelus> {
        let sites = network.walk().sites();
        let outside = sites.iter().filter(|site| site.place.part != Part::Stem);
        let available = outside.map(|site| site.shape.scalars()).sum();
        if count > available {
            let noun = Cost::of(network).counts().noun();
            return Err(TooManyRelus { asked: count, noun, network: network.name().to_owned(), available });
        }
        let (mut left, mut wanted) = (available, count);
        let mut uniform = split_mix(seed);
        let masks = sites.iter().map(|site| {
            if site.place.part == Part::Stem {
                return SiteMask::DropAll;
            }
            SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|_| {
                let stays = uniform() % left < wanted;
                left -= 1;
                wanted -= u64::from(stays);
                stays
            })))
        });
        Ok(Self::new(network, masks.collect()).expect("a choice for each scalar of each site"))
    }
}

/// SplitMix64: a mask for a benchmark is no secret.
fn split_mix(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn as_many_stay_as_were_asked_for_and_none_in_the_stem() {
        let spec = zoo::build("resnet20:m=2", 8, 10).unwrap();
        let mask = ActivationMask::random(&spec, 100, 1).unwrap();
        assert_eq!(mask.relu_count(), 100);
        assert_eq!(mask, ActivationMask::random(&spec, 100, 1).unwrap());
        assert_ne!(mask, ActivationMask::random(&spec, 100, 2).unwrap());
        for (index, site) in spec.walk().sites().iter().enumerate() {
            let is_stem = site.place.part == Part::Stem;
            assert!(!is_stem || mask.relu_count_at(crate::walk::SiteIndex(index)) == 0);
        }
        let refused = ActivationMask::random(&spec, u64::MAX, 1).unwrap_err();
        assert_eq!(
            ActivationMask::random(&spec, refused.available, 1).unwrap().relu_count(),
            refused.available
        );
        assert!(ActivationMask::random(&spec, refused.available + 1, 1).is_err());
    }
}
