//! Which channels share a sign.
//!
//! Before training channels are exchangeable: whichever of them share a sign, the network is the same up to the numbers of
//! its channels, so neighbors are as good as any. A choice means something only after they have learned with a sign for each.
//! Then channels whose signs mostly agree lose least when one decides for the others.
//!
//! ```text
//! network with a sign for each value ─ train a while ─ agreement of signs on training images ─ groups ─ train on
//! ```

use serde::{Deserialize, Serialize};

use crate::random::Stream;

/// How the channels that share a sign are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum GroupingRule {
    /// Neighbors, from the first step on.
    #[default]
    Neighbors,
    /// By chance, after a training with a sign for each value: what agreement is compared with.
    Random,
    /// Those whose signs agree most often, after the same training.
    Agreement,
}

/// Groups of so many channels, by chance.
pub fn random_groups(channels: usize, values_per_sign: usize, stream: &mut Stream) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..channels).collect();
    stream.shuffle(&mut order);
    order.chunks(values_per_sign).map(<[usize]>::to_vec).collect()
}

/// Groups of so many channels whose signs agree most often, the leader of each first.
///
/// Greedy: of the channels that are left, the one with the most agreement to its nearest others leads, and takes those.
/// `agreement` has a row for each channel: how often its sign is that of each other one, from 0 to 1.
///
/// # Panics
/// When the rows are not as many and as long as there are channels, or groups do not divide them.
pub fn groups_by_agreement(agreement: &[Vec<f32>], values_per_sign: usize) -> Vec<Vec<usize>> {
    let channels = agreement.len();
    assert!(agreement.iter().all(|row| row.len() == channels), "agreement is a square");
    assert!(channels.is_multiple_of(values_per_sign), "groups are of one size");
    let mut left: Vec<usize> = (0..channels).collect();
    let mut groups = Vec::with_capacity(channels / values_per_sign);
    while !left.is_empty() {
        let (followers, leader) = left
            .iter()
            .map(|leader| (nearest(&agreement[*leader], &left, *leader, values_per_sign - 1), *leader))
            .max_by(|(one, first), (other, second)| {
                let sum = |followers: &[usize], leader: usize| -> f32 {
                    followers.iter().map(|follower| agreement[leader][*follower]).sum()
                };
                // Of equals the earlier one leads.
                sum(one, *first).total_cmp(&sum(other, *second)).then(second.cmp(first))
            })
            .expect("some are left");
        left.retain(|channel| *channel != leader && !followers.contains(channel));
        groups.push(std::iter::once(leader).chain(followers).collect());
    }
    groups
}

/// The channels among those left that agree most with one.
fn nearest(row: &[f32], left: &[usize], leader: usize, count: usize) -> Vec<usize> {
    let mut others: Vec<usize> = left.iter().copied().filter(|channel| *channel != leader).collect();
    let closer = |one: &usize, other: &usize| row[*other].total_cmp(&row[*one]).then(one.cmp(other));
    if count < others.len() && count > 0 {
        others.select_nth_unstable_by(count - 1, closer);
    }
    others.truncate(count);
    others.sort_by(closer);
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_agree_share_a_sign() {
        // 0, 3 and 4 agree, 1, 2 and 5 agree; 3 agrees best with the others of its own.
        let classes = [0, 1, 1, 0, 0, 1];
        let agreement: Vec<Vec<f32>> = (0..6)
            .map(|one: usize| {
                let near = |other: usize| match (classes[one] == classes[other], one == 3 || other == 3) {
                    (true, true) => 0.95,
                    (true, false) => 0.9,
                    (false, _) => 0.5,
                };
                (0..6).map(near).collect()
            })
            .collect();
        assert_eq!(groups_by_agreement(&agreement, 3), [vec![3, 0, 4], vec![1, 2, 5]]);
        assert_eq!(groups_by_agreement(&agreement, 1).len(), 6);
    }

    #[test]
    fn every_channel_is_in_one_group() {
        let mut stream = Stream::new("test", 1);
        let rows = 24;
        let agreement: Vec<Vec<f32>> =
            (0..rows).map(|_| (0..rows).map(|_| stream.unit()).collect()).collect();
        for groups in [groups_by_agreement(&agreement, 4), random_groups(rows, 4, &mut stream)] {
            assert!(groups.iter().all(|group| group.len() == 4));
            let mut all: Vec<usize> = groups.concat();
            all.sort_unstable();
            assert_eq!(all, (0..rows).collect::<Vec<_>>());
        }
    }
}
