//! The trees behind the extension: the receiver grows them whole, the sender all but one leaf of each.
//!
//! Goldreich, Goldwasser and Micali's tree (J. ACM 1986) of depth 4 or 8, handed over with one leaf hidden, as
//! Roy's SoftSpokenOT (CRYPTO 2022) asks of its base step. At each level the receiver adds up all left
//! children and all right children; the sender learns the sum on the side its path does *not* take, and gets
//! the one sibling it lacks.
//!
//! ```text
//!               root                  sender's path (= its bits of the offset): 1 0 ..
//!             /      \
//!            L        R*              level 0: learns the sum of left children        = L
//!          /   \    /   \
//!         o     o  o*    S            level 1: learns the sum of right children, S = sum - its own
//! ```
//!
//! The sender keeps the nodes of a level at position `index xor path`. There the hidden node is always number
//! 0 and its sibling number 1, so nothing is ever addressed by the secret path.

use subtle::{Choice, ConditionallySelectable};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::domain;
use crate::ot::base::{BASE_TRANSFERS, BaseReceiverKeys, BaseSenderKeys};
use crate::ot::depth::Depth;
use crate::ot::error::{OtError, OtMessage};
use crate::ot::values::{CorrelationOffset, check_length};
use crate::random::{Generator, SessionId};

/// The seed of one node.
type Node = [u8; 32];

/// What a leaf's stream is keyed with: block `i` of the stream is AES of `i xor whitening` under `key`.
///
/// The whitening makes the cipher's inputs unpredictable, so that one table of AES keys cannot be tried
/// against the leaves of many sessions at once.
#[derive(Clone, Copy, Zeroize, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(in crate::ot) struct LeafKey {
    pub(in crate::ot) key: [u8; 16],
    pub(in crate::ot) whitening: u128,
}

/// The leaves of all trees, tree by tree. The sender's are at `index xor path`, and number 0 of each tree is
/// zero.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(in crate::ot) struct Leaves {
    #[zeroize(skip)]
    pub(in crate::ot) depth: Depth,
    pub(in crate::ot) keys: Vec<LeafKey>,
}

impl Leaves {
    /// None yet. Their room is made once, so that no unwiped copy stays behind.
    fn with_room(depth: Depth) -> Self {
        Self { depth, keys: Vec::with_capacity(depth.trees() * depth.leaves()) }
    }
}

/// The third message of the setup: for every level of every tree the two sums, each under the base key that
/// the sender has exactly when its path takes the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSums(Vec<[Node; 2]>);

impl TreeSums {
    /// Length on the wire at any depth: a level of a tree belongs to a base transfer.
    pub const BYTES: usize = 64 * BASE_TRANSFERS;

    /// The message as sent.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flatten().flatten().copied().collect()
    }

    /// Reads the peer's message.
    ///
    /// # Errors
    /// When the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, OtError> {
        check_length(OtMessage::TreeSums, Self::BYTES, bytes.len())?;
        let node = |half: &[u8]| Node::try_from(half).expect("halves of 64 bytes");
        Ok(Self(bytes.chunks_exact(64).map(|pair| [node(&pair[..32]), node(&pair[32..])]).collect()))
    }
}

/// The bits of the offset in the order of the base transfers: transfer `depth t + level` carries the path bit of
/// tree `t` at that level. The first level decides the highest of the tree's bits.
pub(in crate::ot) fn base_choices(depth: Depth, offset: &CorrelationOffset) -> u128 {
    let offset = Zeroizing::new(offset.expose());
    (0..BASE_TRANSFERS).fold(0, |choices, transfer| {
        let (tree, level) = (transfer / depth.bits(), transfer % depth.bits());
        choices | (*offset >> offset_bit(depth, tree, level) & 1) << transfer
    })
}

/// Which bit of the offset decides the path of a tree at a level.
fn offset_bit(depth: Depth, tree: usize, level: usize) -> usize {
    tree * depth.bits() + (depth.bits() - 1 - level)
}

/// Grows every tree from a fresh root: what the receiver keeps, and what it sends.
pub(in crate::ot) fn grow(
    session: SessionId,
    depth: Depth,
    keys: &BaseSenderKeys,
    generator: &mut Generator,
) -> (TreeSums, Leaves) {
    let mut sums = Vec::with_capacity(BASE_TRANSFERS);
    let mut leaves = Leaves::with_room(depth);
    for (tree, keys) in keys.0.chunks_exact(depth.bits()).enumerate() {
        let mut nodes = Zeroizing::new(vec![generator.array::<32>()]);
        for (level, [key_left, key_right]) in keys.iter().enumerate() {
            let mut children = Zeroizing::new(Vec::with_capacity(2 * nodes.len()));
            children.extend(nodes.iter().flat_map(|node| split(session, tree, level, node)));
            nodes = children;
            let [mut left, mut right] = sum_sides(&nodes);
            // A path that turns left holds the left key and needs the right sum, and the other way round.
            add(&mut right, key_left);
            add(&mut left, key_right);
            sums.push([right, left]);
        }
        leaves.keys.extend(nodes.iter().map(|node| leaf(session, tree, node)));
    }
    (TreeSums(sums), leaves)
}

/// Rebuilds all but the hidden leaf of every tree, in constant time.
pub(in crate::ot) fn puncture(
    session: SessionId,
    depth: Depth,
    offset: &CorrelationOffset,
    keys: &BaseReceiverKeys,
    sums: &TreeSums,
) -> Leaves {
    let offset = Zeroizing::new(offset.expose());
    let mut leaves = Leaves::with_room(depth);
    let levels = keys.0.chunks_exact(depth.bits()).zip(sums.0.chunks_exact(depth.bits()));
    for (tree, (keys, sums)) in levels.enumerate() {
        let mut nodes = Zeroizing::new(vec![Node::default()]);
        for (level, (key, sums)) in keys.iter().zip(sums).enumerate() {
            let turn = Choice::from((*offset >> offset_bit(depth, tree, level)) as u8 & 1);
            let mut sibling = Zeroizing::new(Node::conditional_select(&sums[0], &sums[1], turn));
            add(&mut sibling, key);
            nodes = descend(session, tree, level, &nodes, turn, &sibling);
        }
        leaves.keys.push(LeafKey { key: [0; 16], whitening: 0 });
        leaves.keys.extend(nodes[1..].iter().map(|node| leaf(session, tree, node)));
    }
    leaves
}

/// One level further down in a punctured tree: `sibling_sum` is the sum of all children on the side that the
/// path does not take.
fn descend(
    session: SessionId,
    tree: usize,
    level: usize,
    nodes: &[Node],
    turn: Choice,
    sibling_sum: &Node,
) -> Zeroizing<Vec<Node>> {
    let mut children = Zeroizing::new(vec![Node::default(); 2 * nodes.len()]);
    let mut sibling = Zeroizing::new(*sibling_sum);
    for (position, node) in nodes.iter().enumerate().skip(1) {
        let mut pair = Zeroizing::new(split(session, tree, level, node));
        let (left, right) = pair.split_at_mut(1);
        Node::conditional_swap(&mut left[0], &mut right[0], turn);
        add(&mut sibling, &right[0]);
        (children[2 * position], children[2 * position + 1]) = (left[0], right[0]);
    }
    children[1] = *sibling;
    children
}

/// The two children of a node.
fn split(session: SessionId, tree: usize, level: usize, node: &Node) -> [Node; 2] {
    let mut hasher = Zeroizing::new(blake3::Hasher::new_derive_key(domain::OT_TREE.context()));
    hasher.update(&session.0);
    hasher.update(&[tree as u8, level as u8]);
    hasher.update(node);
    let mut children = [Node::default(); 2];
    hasher.finalize_xof().fill(children.as_flattened_mut());
    children
}

fn leaf(session: SessionId, tree: usize, node: &Node) -> LeafKey {
    let mut hasher = Zeroizing::new(blake3::Hasher::new_derive_key(domain::OT_LEAF.context()));
    hasher.update(&session.0);
    hasher.update(&[tree as u8]);
    hasher.update(node);
    let bytes = Zeroizing::new(*hasher.finalize().as_bytes());
    let (key, whitening) = bytes.split_at(16);
    LeafKey {
        key: key.try_into().expect("half of 32 bytes"),
        whitening: u128::from_le_bytes(whitening.try_into().expect("half of 32 bytes")),
    }
}

/// The sum of all left children and that of all right ones.
fn sum_sides(children: &[Node]) -> [Node; 2] {
    let mut sums = [Node::default(); 2];
    for (index, child) in children.iter().enumerate() {
        add(&mut sums[index % 2], child);
    }
    sums
}

fn add(sum: &mut Node, node: &Node) {
    for (sum, byte) in sum.iter_mut().zip(node) {
        *sum ^= byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ot::ideal;
    use crate::random::Seed;

    const SESSION: SessionId = SessionId([7; 32]);

    fn deal(depth: Depth, offset: u128) -> (CorrelationOffset, Leaves, Leaves) {
        let mut generator = Seed::from_bytes([5; 32]).generator();
        let offset = CorrelationOffset::from_u128(offset);
        let (pairs, chosen) = ideal::base_transfers(base_choices(depth, &offset), &mut generator);
        let (sums, full) = grow(SESSION, depth, &pairs, &mut generator);
        let sums = TreeSums::from_bytes(&sums.to_bytes()).unwrap();
        let punctured = puncture(SESSION, depth, &offset, &chosen, &sums);
        (offset, full, punctured)
    }

    fn assert_punctured_at_the_offset(depth: Depth, offset: u128) {
        let (offset, full, punctured) = deal(depth, offset);
        let leaves = depth.leaves();
        for tree in 0..depth.trees() {
            let hidden = (offset.expose() >> (depth.bits() * tree)) as usize & (leaves - 1);
            for position in 1..leaves {
                let index = position ^ hidden;
                assert_eq!(punctured.keys[tree * leaves + position], full.keys[tree * leaves + index]);
            }
            assert_eq!(punctured.keys[tree * leaves], LeafKey { key: [0; 16], whitening: 0 });
        }
    }

    #[test]
    fn every_leaf_but_the_hidden_one_agrees_with_the_full_tree() {
        // Sixteen rotations of the nibbles 0 to 15, so that every tree of depth 4 is punctured at every leaf it can
        // have.
        for rotation in 0..16 {
            let offset = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210_u128.rotate_left(4 * rotation);
            assert_punctured_at_the_offset(Depth::Four, offset);
        }
        // Sixteen offsets whose sixteen bytes are all numbers of leaves together.
        for high in 0..16 {
            let offset = u128::from_le_bytes(std::array::from_fn(|low| (high << 4 | low) as u8));
            assert_punctured_at_the_offset(Depth::Eight, offset);
        }
    }

    #[test]
    fn base_choices_are_a_permutation_of_the_offsets_bits() {
        for depth in Depth::ALL {
            let choices = |bit: u32| base_choices(depth, &CorrelationOffset::from_u128(1 << bit));
            let lowest = choices(0);
            assert_eq!(lowest, 1 << (depth.bits() - 1), "the lowest bit of the first tree is its last turn");
            let all = (1..128).fold(lowest, |all, bit| {
                let one = choices(bit) ^ lowest;
                assert_eq!((one.count_ones(), all & one), (1, 0));
                all | one
            });
            assert_eq!(all, u128::MAX);
        }
    }

    /// An offset is uniform but for its lowest bit, so base choices are uniform but for one.
    #[test]
    fn the_tree_of_the_lowest_bit_has_half_as_many_possible_hidden_leaves() {
        let mut generator = Seed::from_bytes([6; 32]).generator();
        for depth in Depth::ALL {
            let mut seen = vec![vec![false; depth.leaves()]; 2];
            for _ in 0..16 * depth.leaves() {
                let offset = CorrelationOffset::random(&mut generator).expose();
                seen[0][offset as usize & (depth.leaves() - 1)] = true;
                seen[1][(offset >> (128 - depth.bits())) as usize] = true;
            }
            let odd: Vec<bool> = (0..depth.leaves()).map(|index| index % 2 == 1).collect();
            assert_eq!(seen, [odd, vec![true; depth.leaves()]]);
        }
    }

    #[test]
    fn all_leaves_of_a_session_differ() {
        for depth in Depth::ALL {
            let (_, full, _) = deal(depth, 9);
            let mut keys: Vec<_> = full.keys.iter().map(|leaf| (leaf.key, leaf.whitening)).collect();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), depth.trees() * depth.leaves());
        }
    }

    #[test]
    fn sums_of_wrong_length_are_refused() {
        for sent in [0, 64, 8191, 8193] {
            let refused = TreeSums::from_bytes(&vec![0; sent]).unwrap_err();
            assert_eq!(
                refused,
                OtError::MessageLength { message: OtMessage::TreeSums, expected: 8192, sent }
            );
        }
    }
}
