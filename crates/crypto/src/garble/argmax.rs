//! Which of the shared logits is greatest: the client alone reads the answer, the lowest place of several
//! wins.
//!
//! A tournament: the winner of each pair moves up with the bits of its place.

use super::circuit::{Builder, Circuit, Output, Wire};
use super::error::{GarbleError, check_shape};

/// The parameters of the circuit that names a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgmaxShape {
    classes: u32,
    width: u32,
}

/// A contender: its value and the bits of its place below the current round. No wire stands for a zero bit.
struct Contender {
    value: Vec<Wire>,
    place: Vec<Option<Wire>>,
}

impl ArgmaxShape {
    /// The greatest of `classes` sums modulo 2^`width`.
    ///
    /// # Errors
    /// When there are fewer than two classes or more than 65536, or the width is not in 2..=64.
    pub fn new(classes: u32, width: u32) -> Result<Self, GarbleError> {
        check_shape("classes", 2, 1 << 16, classes.into())?;
        check_shape("width", 2, 64, width.into())?;
        Ok(Self { classes, width })
    }

    /// Bits of the logits' ring.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// How many logits.
    pub fn classes(&self) -> u32 {
        self.classes
    }

    /// The circuit. Both parties put in their shares of the logits, reduced modulo 2^width.
    pub fn circuit(&self) -> Circuit {
        let widths = vec![self.width; self.classes as usize];
        let mut builder = Builder::new(&widths, &widths);
        let mut round: Vec<Contender> = (0..widths.len())
            .map(|place| Contender { value: builder.shared_value(place), place: Vec::new() })
            .collect();
        while round.len() > 1 {
            let mut winners = Vec::with_capacity(round.len().div_ceil(2));
            let mut contenders = round.into_iter();
            while let Some(first) = contenders.next() {
                winners.push(match contenders.next() {
                    Some(second) => builder.play(first, second),
                    None => builder.pass(first),
                });
            }
            round = winners;
        }
        let winner = round.pop().expect("a tournament has a winner");
        let place = winner.place.into_iter().map(|bit| bit.expect("every round of the winner had a pair"));
        builder.finish(Output::Decoded(place.collect()))
    }
}

impl Builder {
    /// The winner of a pair; a draw is the first one's.
    fn play(&mut self, first: Contender, second: Contender) -> Contender {
        let second_wins = self.is_less(&first.value, &second.value);
        let value = self.choose_word(second_wins, &second.value, &first.value);
        let bits = first.place.into_iter().zip(second.place);
        let mut place: Vec<Option<Wire>> = bits
            .map(|bits| match bits {
                (Some(first), Some(second)) => Some(self.choose(second_wins, second, first)),
                (None, Some(second)) => Some(self.and(second_wins, second)),
                (Some(first), None) => {
                    let first_wins = self.not(second_wins);
                    Some(self.and(first_wins, first))
                }
                (None, None) => None,
            })
            .collect();
        place.push(Some(second_wins));
        Contender { value, place }
    }

    /// A contender without an opponent: this round's bit of its place is zero.
    fn pass(&mut self, mut contender: Contender) -> Contender {
        contender.place.push(None);
        contender
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garble::ideal;
    use crate::garble::testing::{random_values, run_both_parties};

    fn check(shape: &ArgmaxShape, server: &[u64], client: &[u64]) {
        let classes = shape.classes as usize;
        let clear = shape.circuit().run_in_the_clear(server, client);
        let decoded = run_both_parties(shape.circuit(), server.len() / classes, server, client, &[]);
        let images = server.chunks(classes).zip(client.chunks(classes));
        for (((server, client), clear), decoded) in images.zip(clear).zip(decoded) {
            let want = ideal::argmax(shape, server, client);
            assert_eq!((clear, decoded), (want, want), "{shape:?}: {server:?} + {client:?}");
        }
    }

    #[test]
    fn any_number_of_classes_has_its_greatest_found() {
        for classes in [2, 3, 4, 5, 6, 7, 9, 10, 13] {
            let count = 200 * classes as usize;
            let shape = ArgmaxShape::new(classes, 32).unwrap();
            check(&shape, &random_values(count, 32, 1), &random_values(count, 32, 2));
            // Two bits make many draws.
            let shape = ArgmaxShape::new(classes, 2).unwrap();
            check(&shape, &random_values(count, 2, 3), &random_values(count, 2, 4));
        }
    }

    #[test]
    fn a_hundred_classes_in_a_single_lane_are_right() {
        let shape = ArgmaxShape::new(100, 24).unwrap();
        check(&shape, &random_values(100, 24, 1), &random_values(100, 24, 2));
    }

    #[test]
    fn the_lowest_place_wins_a_draw() {
        for classes in 2..12 {
            let shape = ArgmaxShape::new(classes, 8).unwrap();
            let zeros = vec![0; classes as usize];
            check(&shape, &zeros, &zeros);
            assert_eq!(shape.circuit().run_in_the_clear(&zeros, &zeros), [0]);
        }
    }

    #[test]
    fn impossible_shapes_are_refused() {
        assert!(ArgmaxShape::new(1, 8).is_err());
        assert!(ArgmaxShape::new(10, 1).is_err());
    }
}
