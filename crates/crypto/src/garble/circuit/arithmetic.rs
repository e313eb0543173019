//! Words of wires: sums, differences, comparisons and choices. Words run from the lowest bit up, in two's
//! complement.

use super::{Builder, Wire};

impl Builder {
    /// The sum of two words of one width, modulo two to that width; width - 1 ANDs.
    pub fn add(&mut self, left: &[Wire], right: &[Wire]) -> Vec<Wire> {
        assert_eq!(left.len(), right.len(), "words of one width are added");
        let mut sum = vec![self.xor(left[0], right[0])];
        if left.len() == 1 {
            return sum;
        }
        let mut carry = self.and(left[0], right[0]);
        for bit in 1..left.len() {
            sum.push(self.parity(left[bit], right[bit], carry));
            if bit + 1 < left.len() {
                carry = self.majority(left[bit], right[bit], carry);
            }
        }
        sum
    }

    /// `left - right` modulo two to the width of `right`, where `left` may be shorter and then has zeros
    /// above its top; width - 1 ANDs.
    pub fn subtract(&mut self, left: &[Wire], right: &[Wire]) -> Vec<Wire> {
        assert!(left.len() <= right.len(), "the minuend is not the longer word");
        // Bit by bit from below; a borrow arises where two of (not left, right, borrow) are one.
        let mut difference = vec![self.xor(left[0], right[0])];
        let inverted = self.not(left[0]);
        let mut borrow = (right.len() > 1).then(|| self.and(inverted, right[0]));
        for bit in 1..right.len() {
            let borrowed = borrow.expect("every bit but the last hands on a borrow");
            let is_last = bit + 1 == right.len();
            if let Some(wire) = left.get(bit) {
                difference.push(self.parity(*wire, right[bit], borrowed));
                let inverted = self.not(*wire);
                borrow = (!is_last).then(|| self.majority(inverted, right[bit], borrowed));
            } else {
                difference.push(self.xor(right[bit], borrowed));
                borrow = (!is_last).then(|| self.or(right[bit], borrowed));
            }
        }
        difference
    }

    /// The OR of two wires.
    pub fn or(&mut self, left: Wire, right: Wire) -> Wire {
        let both = self.and(left, right);
        self.parity(left, right, both)
    }

    /// `if_one` where the condition is one, else `if_zero`; one AND.
    pub fn choose(&mut self, condition: Wire, if_one: Wire, if_zero: Wire) -> Wire {
        let difference = self.xor(if_one, if_zero);
        let chosen = self.and(condition, difference);
        self.xor(chosen, if_zero)
    }

    /// [`Builder::choose`] on each bit of two words.
    pub fn choose_word(&mut self, condition: Wire, if_one: &[Wire], if_zero: &[Wire]) -> Vec<Wire> {
        let pairs = if_one.iter().zip(if_zero);
        pairs.map(|(one, zero)| self.choose(condition, *one, *zero)).collect()
    }

    /// The word where the condition is one, else zero; one AND a bit.
    pub fn keep_if(&mut self, condition: Wire, word: &[Wire]) -> Vec<Wire> {
        word.iter().map(|wire| self.and(condition, *wire)).collect()
    }

    /// Whether the signed word is negative: its top bit.
    pub fn sign(&self, word: &[Wire]) -> Wire {
        *word.last().expect("a word has at least one wire")
    }

    /// Whether `left < right` as signed words; one AND a bit.
    pub fn is_less(&mut self, left: &[Wire], right: &[Wire]) -> Wire {
        assert_eq!(left.len(), right.len(), "words of one width are compared");
        // The borrow out of left - right, bit by bit from below; at the sign bits the parts are exchanged,
        // since a set sign makes a word smaller.
        let top = left.len() - 1;
        let mut borrow = None;
        for bit in 0..=top {
            let (smaller, greater) =
                if bit == top { (right[bit], left[bit]) } else { (left[bit], right[bit]) };
            let not_smaller = self.not(smaller);
            borrow = Some(match borrow {
                None => self.and(not_smaller, greater),
                Some(borrow) => self.majority(not_smaller, greater, borrow),
            });
        }
        borrow.expect("a word has at least one wire")
    }

    /// Whether the unsigned word exceeds a public constant; none if it never can. At most one AND a bit.
    pub fn exceeds(&mut self, word: &[Wire], constant: u64) -> Option<Wire> {
        if word.len() < 64 && constant >> word.len() != 0 {
            return None;
        }
        let mut greater = None;
        for (bit, wire) in word.iter().enumerate() {
            greater = match (constant >> bit & 1 == 1, greater) {
                (true, None) => None,
                (true, Some(below)) => Some(self.and(*wire, below)),
                (false, None) => Some(*wire),
                (false, Some(below)) => Some(self.or(*wire, below)),
            };
        }
        greater
    }
}

#[cfg(test)]
mod tests {
    use super::super::Output;
    use super::*;

    /// Runs a circuit over all pairs of `width`-bit words and compares with `want`.
    fn for_all_pairs(
        width: u32,
        build: impl Fn(&mut Builder, &[Wire], &[Wire]) -> Vec<Wire>,
        want: impl Fn(u64, u64) -> u64,
    ) -> usize {
        let mut builder = Builder::new(&[width], &[width]);
        let (left, right) = (builder.server_value(0), builder.client_value(0));
        let out = build(&mut builder, &left, &right);
        let circuit = builder.finish(Output::Colors(out));
        for left in 0..1 << width {
            let rights: Vec<u64> = (0..1 << width).collect();
            let lefts = vec![left; rights.len()];
            let results = circuit.run_in_the_clear(&lefts, &rights);
            for (right, result) in rights.into_iter().zip(results) {
                assert_eq!(result, want(left, right), "{left} and {right} at {width} bits");
            }
        }
        circuit.and_count()
    }

    fn signed(value: u64, width: u32) -> i64 {
        (value << (64 - width)) as i64 >> (64 - width)
    }

    #[test]
    fn every_operation_holds_for_all_words_of_up_to_five_bits() {
        for width in 1..=5 {
            let mask = (1 << width) - 1;
            let full = width as usize;
            assert_eq!(for_all_pairs(width, |b, x, y| b.add(x, y), |x, y| (x + y) & mask), full - 1);
            assert_eq!(
                for_all_pairs(width, |b, x, y| b.subtract(x, y), |x, y| x.wrapping_sub(y) & mask),
                full - 1
            );
            assert_eq!(
                for_all_pairs(
                    width,
                    |b, x, y| vec![b.is_less(x, y)],
                    |x, y| u64::from(signed(x, width) < signed(y, width))
                ),
                full
            );
            let chosen = |x: u64, y: u64| if y & 1 == 1 { x } else { 0 };
            assert_eq!(for_all_pairs(width, |b, x, y| b.keep_if(y[0], x), chosen), full);
        }
    }

    #[test]
    fn a_shorter_minuend_counts_as_zero_above_its_top() {
        for short in 1..5 {
            let mask = (1_u64 << 5) - 1;
            let ands = for_all_pairs(
                5,
                |b, x, y| b.subtract(&x[..short], y),
                |x, y| (x & ((1 << short) - 1)).wrapping_sub(y) & mask,
            );
            assert_eq!(ands, 4);
        }
    }

    #[test]
    fn choice_takes_the_side_of_its_condition() {
        for_all_pairs(
            4,
            |b, x, y| {
                let condition = b.xor(x[0], y[0]);
                b.choose_word(condition, x, y)
            },
            |x, y| if (x ^ y) & 1 == 1 { x } else { y },
        );
    }

    #[test]
    fn a_word_is_compared_with_every_constant() {
        for constant in 0..20 {
            for_all_pairs(
                4,
                |b, x, y| {
                    // A circuit must have an output even where the answer is known to be no.
                    let sum = b.xor(x[0], y[0]);
                    let other = b.xor(sum, y[0]);
                    let zero = b.xor(other, x[0]);
                    vec![b.exceeds(x, constant).unwrap_or(zero)]
                },
                |x, _| u64::from(x > constant),
            );
        }
    }
}
