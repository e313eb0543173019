//! Where the numbers of points stand: none covers another, those of points above each other stay in that order, and each
//! is nearer to its own point than to others where there is room.

use std::cmp::Ordering;

/// Width of a digit and height of a line of a label, in units of the picture.
const DIGIT: f64 = 8.0;
const LINE: f64 = 12.0;
/// How far a label stands from the middle of its point.
const GAP: f64 = 9.0;
/// The farthest places that are tried: lines above and below.
const LINES: u32 = 6;
/// Half the width of a point.
const RADIUS: f64 = 7.0;

/// A point and what is written beside it.
#[derive(Clone, Copy)]
pub(super) struct Labeled<'a> {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) text: &'a str,
}

/// A rectangle: its left end, its base line, its width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) left: f64,
    pub(super) base: f64,
    width: f64,
}

/// A place for the label of each point.
pub(super) fn places(points: &[Labeled<'_>]) -> Vec<Place> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    // From top to bottom, so that an order can be kept.
    order.sort_by(|one, other| top_down(&points[*one], &points[*other]));
    let mut found: Vec<Option<Place>> = vec![None; points.len()];
    for index in order {
        let taken: Vec<(&Labeled<'_>, Place)> =
            points.iter().zip(&found).filter_map(|(point, place)| Some((point, (*place)?))).collect();
        let cost = |place: &Place| place.cost(index, points, &taken);
        let best = around(&points[index]).into_iter().min_by(|one, other| cost(one).total_cmp(&cost(other)));
        found[index] = best;
    }
    found.into_iter().flatten().collect()
}

fn top_down(one: &Labeled<'_>, other: &Labeled<'_>) -> Ordering {
    one.y.total_cmp(&other.y).then(one.x.total_cmp(&other.x))
}

/// Places around a point; the usual one, beneath it on the right, is the first.
fn around(point: &Labeled<'_>) -> Vec<Place> {
    let width = DIGIT * point.text.chars().count() as f64;
    let (right, left) = (point.x + GAP, point.x - GAP - width);
    let lines = (0..LINES).flat_map(|line| {
        let far = LINE * f64::from(line);
        let (below, above) = (point.y + 14.0 + far, point.y - 6.0 - far);
        [(right, below), (right, above), (left, below), (left, above)]
    });
    lines.map(|(left, base)| Place { left, base, width }).collect()
}

impl Place {
    fn overlaps(self, other: Self) -> bool {
        self.is_beneath_or_above(other) && (self.base - other.base).abs() < LINE
    }

    /// Whether they share a column.
    fn is_beneath_or_above(self, other: Self) -> bool {
        self.left < other.left + other.width && other.left < self.left + self.width
    }

    /// From its nearest edge to a point.
    fn distance(self, point: &Labeled<'_>) -> f64 {
        let x = (self.left - point.x).max(point.x - self.left - self.width).max(0.0);
        let y = (self.base - LINE - point.y).max(point.y - self.base).max(0.0);
        x.hypot(y)
    }

    /// What speaks against it: a label that it covers most, then a changed order, then a point that it touches or seems to
    /// belong to, then its distance.
    fn cost(self, index: usize, points: &[Labeled<'_>], taken: &[(&Labeled<'_>, Self)]) -> f64 {
        let point = &points[index];
        let own = self.distance(point);
        let covered = taken.iter().filter(|(_, other)| self.overlaps(*other)).count();
        let is_swapped = |other: &Labeled<'_>, place: Self| {
            self.is_beneath_or_above(place) && (point.y - other.y) * (self.base - place.base) < 0.0
        };
        let swapped = taken.iter().filter(|(other, place)| is_swapped(other, *place)).count();
        let others = points.iter().enumerate().filter(|(other, _)| *other != index);
        let disturbed: f64 = others
            .map(|(_, other)| self.distance(other))
            .map(|distance| f64::from(u8::from(distance < RADIUS)) + f64::from(u8::from(distance < own)))
            .sum();
        1e6 * covered as f64 + 1e4 * swapped as f64 + 15.0 * disturbed + own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(points: &[(f64, f64, &str)]) -> Vec<Place> {
        let points: Vec<Labeled<'_>> = points.iter().map(|&(x, y, text)| Labeled { x, y, text }).collect();
        places(&points)
    }

    #[test]
    fn labels_of_points_that_lie_together_lie_apart() {
        let texts = ["7", "12", "16", "18", "4", "5", "133"];
        let mut points: Vec<_> =
            texts.iter().enumerate().map(|(index, text)| (100.0 + index as f64, 50.0, *text)).collect();
        points.push((400.0, 50.0, "8"));
        let places = placed(&points);
        for (index, one) in places.iter().enumerate() {
            assert!(places[..index].iter().all(|other| !one.overlaps(*other)), "{index}");
        }
        assert_eq!((places[7].left, places[7].base), (409.0, 64.0), "far away: the usual place");
    }

    #[test]
    fn labels_of_points_above_each_other_keep_their_order() {
        let places = placed(&[(100.0, 62.0, "3"), (100.0, 50.0, "1"), (100.0, 56.0, "2")]);
        for (upper, lower) in [(1, 2), (2, 0), (1, 0)] {
            let (upper, lower): (Place, Place) = (places[upper], places[lower]);
            assert!(!upper.is_beneath_or_above(lower) || upper.base < lower.base, "{upper:?} {lower:?}");
        }
    }

    #[test]
    fn a_label_is_not_put_beside_another_point() {
        let places = placed(&[(100.0, 50.0, "1"), (114.0, 60.0, "2")]);
        let first = Labeled { x: 100.0, y: 50.0, text: "1" };
        let second = Labeled { x: 114.0, y: 60.0, text: "2" };
        assert!(places[0].distance(&first) < places[0].distance(&second));
        assert!(places[1].distance(&second) < places[1].distance(&first));
    }
}
