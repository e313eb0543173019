//! Activations in which one comparison decides for several values.
//!
//! The channels of a group share the sign of their leader, the first one named:
//! `out_j = [x_leader >= 0] x_j + a_j x_j`. A group of one without slope is a ReLU. In private a further value of a group costs
//! bytes, where a comparison costs a circuit.

use serde::{Deserialize, Serialize};

use super::SpecFault;

/// Slopes are public numbers of a frozen model: multiples of one over this.
pub const SLOPE_UNITS: f32 = 16.0;

/// The largest slope, and the negative of the smallest.
pub const MAX_SLOPE: f32 = 127.0 / SLOPE_UNITS;

/// The most channels that share a sign: as many values as the protocol multiplies by one bit.
pub const MAX_VALUES_PER_SIGN: usize = 64;

/// The slope that is nearest to a learned number; ties go to the even multiple. What is no number stays none.
pub fn public_slope(learned: f32) -> f32 {
    (learned * SLOPE_UNITS).round_ties_even().clamp(-127.0, 127.0) / SLOPE_UNITS
}

/// An activation with shared signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct SharedSigns {
    /// Which channels share a sign.
    pub grouping: Grouping,
    /// Whether each channel learns a slope `a` that lets `a x` through whatever the sign.
    pub slopes: bool,
}

/// How channels are grouped: `values_per_sign = 4`, or `groups = [[0, 3], [1, 2]]` in TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Neighbors share a sign, so many at a time.
    Contiguous {
        /// Channels of one group, its leader included.
        values_per_sign: usize,
    },
    /// The channels of each group, counted from 0, the leader first.
    Listed(Vec<Vec<usize>>),
}

impl Grouping {
    /// The channels of each group, the leader first.
    pub fn groups(&self, channels: usize) -> Vec<Vec<usize>> {
        match self {
            Self::Contiguous { values_per_sign } => {
                let starts = (0..channels).step_by(*values_per_sign);
                starts.map(|start| (start..start + values_per_sign).collect()).collect()
            }
            Self::Listed(groups) => groups.clone(),
        }
    }

    /// For each channel the number of its group.
    pub fn sign_of_channel(&self, channels: usize) -> Vec<usize> {
        let mut signs = vec![0; channels];
        for (sign, group) in self.groups(channels).iter().enumerate() {
            group.iter().for_each(|channel| signs[*channel] = sign);
        }
        signs
    }

    /// How many groups there are.
    pub fn signs(&self, channels: usize) -> usize {
        match self {
            Self::Contiguous { values_per_sign } => channels / values_per_sign,
            Self::Listed(groups) => groups.len(),
        }
    }
}

/// Whether groups are small enough and every channel stands in one of them.
pub(crate) fn check_groups(groups: &[Vec<usize>], channels: usize) -> Result<(), SpecFault> {
    let last = channels - 1;
    let mut counts = vec![0; channels];
    for group in groups {
        check_group_size(group.len())?;
        for &channel in group {
            *counts.get_mut(channel).ok_or(SpecFault::NoSuchChannel { channel, last })? += 1;
        }
    }
    match counts.iter().position(|count| *count != 1) {
        None => Ok(()),
        Some(channel) => Err(SpecFault::ChannelGroups { channel, groups: counts[channel], last }),
    }
}

/// Whether so many channels may share a sign.
pub(crate) fn check_group_size(came: usize) -> Result<(), SpecFault> {
    match came {
        0 => Err(SpecFault::Empty { what: "a group of shared signs" }),
        1..=MAX_VALUES_PER_SIGN => Ok(()),
        _ => Err(SpecFault::SignGroupSize { came }),
    }
}

/// One comparison that decides for several channels: neighbors by number, or groups by name.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// So many neighbors share a sign; the first of them leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    values_per_sign: Option<usize>,
    /// The channels of each group, counted from 0, the leader first; instead of `values_per_sign`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    groups: Option<Vec<Vec<usize>>>,
    /// Whether each channel learns a slope `a` that lets `a x` through whatever the sign.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    slopes: bool,
}

impl TryFrom<Written> for SharedSigns {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        let grouping = match (written.values_per_sign, written.groups) {
            (Some(values_per_sign), None) => Grouping::Contiguous { values_per_sign },
            (None, Some(groups)) => Grouping::Listed(groups),
            _ => return Err("shared signs need either `values_per_sign` or `groups`, and not both"),
        };
        Ok(Self { grouping, slopes: written.slopes })
    }
}

impl From<SharedSigns> for Written {
    fn from(signs: SharedSigns) -> Self {
        let (values_per_sign, groups) = match signs.grouping {
            Grouping::Contiguous { values_per_sign } => (Some(values_per_sign), None),
            Grouping::Listed(groups) => (None, Some(groups)),
        };
        Self { values_per_sign, groups, slopes: signs.slopes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::NetworkSpec;

    /// A network whose stem shares signs among six channels in the given way.
    fn network(signs: &str) -> Result<NetworkSpec, String> {
        let text = format!(
            "name = \"signs\"\nclasses = 2\ninput = {{ channels = 3, height = 4, width = 4 }}\n\
             head = [\"classifier\"]\n[stem]\n\
             layers = [{{ conv = {{ out = 6, filter = 3 }} }}, {{ shared_signs = {{ {signs} }} }}]\n"
        );
        NetworkSpec::from_toml(&text).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            cause.unwrap_or_else(|| error.to_string())
        })
    }

    #[test]
    fn both_forms_are_written_as_they_are_read() {
        for form in
            ["values_per_sign = 3", "values_per_sign = 1, slopes = true", "groups = [[5, 0], [1, 2, 3, 4]]"]
        {
            let spec = network(form).unwrap();
            assert_eq!(NetworkSpec::from_toml(&spec.to_toml()).unwrap(), spec, "{form}");
        }
        let spec = network("values_per_sign = 3").unwrap();
        assert!(spec.to_toml().contains("values_per_sign = 3") && !spec.to_toml().contains("slopes"));
    }

    #[test]
    fn a_site_has_a_place_for_each_comparison() {
        let spec = network("groups = [[5, 0], [1, 2, 3, 4]]").unwrap();
        let [site] = spec.walk().sites() else { panic!("one site") };
        assert_eq!((site.name.as_str(), site.shape.channels), ("stem.signs1", 2));
        assert_eq!(spec.walk().shape(spec.walk().steps()[site.step].output).channels, 6);
    }

    #[test]
    fn groups_that_do_not_fit_are_refused_with_the_place_and_the_reason() {
        for (form, expected) in [
            ("values_per_sign = 0", "stem, layer 2 (shared_signs): the number of values per sign is 0"),
            ("values_per_sign = 4", "6 channels cannot be divided into groups of 4"),
            ("groups = [[0, 1, 2], [3, 4]]", "channel 5 stands in 0 groups; every channel of 0 to 5"),
            ("groups = [[0, 1, 2], [2, 3, 4, 5]]", "channel 2 stands in 2 groups"),
            ("groups = [[0, 1, 2], [3, 4, 5, 6]]", "a group names channel 6; the input has channels 0 to 5"),
            ("groups = [[0, 1, 2, 3, 4, 5], []]", "a group of shared signs is empty"),
            ("values_per_sign = 65", "a group has 65 channels; at most 64 share a sign"),
            ("slopes = true", "either `values_per_sign` or `groups`"),
            ("values_per_sign = 2, groups = [[0]]", "and not both"),
            ("values_per_sign = 2, slope = true", "unknown field `slope`"),
        ] {
            let message = network(form).unwrap_err();
            assert!(message.contains(expected), "{form}: {message}");
        }
    }

    #[test]
    fn a_public_slope_is_the_nearest_sixteenth() {
        for (learned, expected) in
            [(0.0, 0.0), (0.1, 0.125), (-0.1, -0.125), (0.031, 0.0), (0.25, 0.25), (99.0, MAX_SLOPE)]
        {
            assert_eq!(public_slope(learned), expected, "{learned}");
        }
        assert!(public_slope(f32::NAN).is_nan());
    }
}
