//! Where the numbers of points stand, so that none covers another.

/// Width of a digit and height of a line of a label, in units of the picture.
const DIGIT: f64 = 8.0;
const LINE: f64 = 12.0;
/// How far a label stands from the middle of its point.
const GAP: f64 = 9.0;
/// The farthest places that are tried: lines above and below.
const LINES: u32 = 6;

/// The labels that have a place already.
#[derive(Default)]
pub(super) struct Labels {
    taken: Vec<Place>,
}

/// A rectangle: its left end, its base line, its width.
#[derive(Clone, Copy)]
struct Place {
    left: f64,
    base: f64,
    width: f64,
}

impl Place {
    fn overlaps(self, other: Self) -> bool {
        self.left < other.left + other.width
            && other.left < self.left + self.width
            && (self.base - other.base).abs() < LINE
    }
}

impl Labels {
    /// Left end and base line for the label of a point: beneath it on the right where that is free, else the nearest place
    /// around it that is.
    pub(super) fn place(&mut self, x: f64, y: f64, text: &str) -> (f64, f64) {
        let width = DIGIT * text.chars().count() as f64;
        let around = (0..LINES).flat_map(|line| {
            let far = LINE * f64::from(line);
            let (right, left) = (x + GAP, x - GAP - width);
            [(right, y + 14.0 + far), (right, y - 6.0 - far), (left, y + 14.0 + far), (left, y - 6.0 - far)]
        });
        let mut places = around.map(|(left, base)| Place { left, base, width });
        let is_free = |place: &Place| !self.taken.iter().any(|other| place.overlaps(*other));
        let first = Place { left: x + GAP, base: y + 14.0, width };
        let place = places.find(is_free).unwrap_or(first);
        self.taken.push(place);
        (place.left, place.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_points_that_lie_together_lie_apart() {
        let mut labels = Labels::default();
        assert_eq!(labels.place(100.0, 50.0, "7"), (109.0, 64.0), "the usual place");
        for (index, text) in ["12", "16", "18", "4", "5", "133"].iter().enumerate() {
            labels.place(100.0 + index as f64, 50.0, text);
        }
        for (index, one) in labels.taken.iter().enumerate() {
            assert!(labels.taken[..index].iter().all(|other| !one.overlaps(*other)), "{index}");
        }
        assert_eq!(labels.place(400.0, 50.0, "8"), (409.0, 64.0), "far away");
    }
}
