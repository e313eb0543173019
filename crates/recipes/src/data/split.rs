//! The fixed held-out part of a training set.
//!
//! Whatever is chosen between networks (a mask, a width, a loss weight) is chosen on these images, never on test images.

use crate::random::Stream;

/// The seed of every published split.
pub const HELD_OUT_SEED: u64 = 1;

/// Divides a training set in two: what to learn from, and `count` images that are held out, each class in its
/// proportion. Both parts are ascending and the same for the same labels, count and seed.
///
/// # Panics
/// If more images are to be held out than there are.
pub fn held_out_split(labels: &[u16], count: usize, seed: u64) -> (Vec<u32>, Vec<u32>) {
    assert!(count <= labels.len(), "cannot hold out {count} of {} images", labels.len());
    let classes = labels.iter().copied().max().map_or(0, |class| usize::from(class) + 1);
    let mut members = vec![Vec::new(); classes];
    for (index, label) in labels.iter().enumerate() {
        members[usize::from(*label)].push(index as u32);
    }
    let sizes: Vec<usize> = members.iter().map(Vec::len).collect();
    let mut is_held_out = vec![false; labels.len()];
    for ((class, members), quota) in members.iter_mut().enumerate().zip(quotas(&sizes, count)) {
        Stream::new(&format!("held out {class}"), seed).shuffle(members);
        members[..quota].iter().for_each(|index| is_held_out[*index as usize] = true);
    }
    (0..labels.len() as u32).partition(|index| !is_held_out[*index as usize])
}

/// Shares of `count` in proportion to the sizes; the largest remainders get what rounding leaves over.
fn quotas(sizes: &[usize], count: usize) -> Vec<usize> {
    let total = sizes.iter().sum::<usize>().max(1);
    let mut quotas: Vec<usize> = sizes.iter().map(|size| size * count / total).collect();
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|class| (std::cmp::Reverse(sizes[*class] * count % total), *class));
    let left = count - quotas.iter().sum::<usize>();
    order.into_iter().take(left).for_each(|class| quotas[class] += 1);
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_gives_its_proportion() {
        let labels: Vec<u16> = (0..5000).map(|index| index % 100).collect();
        let (training, held_out) = held_out_split(&labels, 500, HELD_OUT_SEED);
        assert_eq!((training.len(), held_out.len()), (4500, 500));
        for class in 0..100 {
            assert_eq!(held_out.iter().filter(|index| labels[**index as usize] == class).count(), 5);
        }
    }

    #[test]
    fn the_two_parts_are_disjoint_whole_and_fixed() {
        let labels: Vec<u16> = (0..997).map(|index| (index * index % 7) as u16).collect();
        let (training, held_out) = held_out_split(&labels, 101, 5);
        assert_eq!(held_out.len(), 101);
        let mut all = [training.clone(), held_out].concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..997));
        assert_eq!(held_out_split(&labels, 101, 5).0, training);
        assert_ne!(held_out_split(&labels, 101, 6).0, training);
    }

    #[test]
    fn the_published_split_never_changes() {
        let labels: Vec<u16> = (0..20).map(|index| index % 2).collect();
        assert_eq!(held_out_split(&labels, 6, HELD_OUT_SEED).1.len(), 6);
        let digest = |labels: &[u16], count| {
            let (_, held_out) = held_out_split(labels, count, HELD_OUT_SEED);
            let bytes: Vec<u8> = held_out.iter().flat_map(|index| index.to_le_bytes()).collect();
            blake3::hash(&bytes).to_hex()[..16].to_owned()
        };
        let cifar: Vec<u16> = (0..50_000_u32).map(|index| (index % 100) as u16).collect();
        assert_eq!(digest(&cifar, 5000), "320cc9054eac2ccf");
    }

    #[test]
    fn an_empty_part_is_allowed() {
        assert_eq!(held_out_split(&[0, 1], 0, 1), (vec![0, 1], vec![]));
        assert_eq!(held_out_split(&[], 0, 1), (vec![], vec![]));
        assert_eq!(held_out_split(&[0, 1], 2, 1), (vec![], vec![0, 1]));
    }
}
