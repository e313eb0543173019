//! The Pareto front: the networks that no other beats. One beats another with at most its ReLUs and at least its accuracy, one of
//! the two better.

/// Points of ReLU count and accuracy, each with what it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct ParetoFront<T> {
    points: Vec<(u64, f64, T)>,
}

impl<T> Default for ParetoFront<T> {
    fn default() -> Self {
        Self { points: Vec::new() }
    }
}

impl<T> ParetoFront<T> {
    /// Takes a point; whether it stands on the front. Points it beats leave, equal ones stand beside it.
    pub fn insert(&mut self, relus: u64, accuracy: f64, item: T) -> bool {
        let is_equal = |other: u64, its: f64| other == relus && its == accuracy;
        let beats_it = |(fewer, better, _): &(u64, f64, T)| {
            *fewer <= relus && *better >= accuracy && !is_equal(*fewer, *better)
        };
        if accuracy.is_nan() || self.points.iter().any(beats_it) {
            return false;
        }
        self.points
            .retain(|(other, worse, _)| *other < relus || *worse > accuracy || is_equal(*other, *worse));
        let place = self.points.partition_point(|(other, ..)| *other < relus);
        self.points.insert(place, (relus, accuracy, item));
        true
    }

    /// The points, fewest ReLUs first, equal ones newest first.
    pub fn points(&self) -> &[(u64, f64, T)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_point_beaten_in_both_leaves() {
        let mut front = ParetoFront::default();
        assert!(front.insert(100, 70.0, "a"));
        assert!(front.insert(100, 70.0, "as good as a"));
        assert_eq!(front.points().len(), 2);
        assert!(!front.insert(120, 69.0, "more ReLUs and worse"));
        assert!(front.insert(50, 60.0, "fewer ReLUs"));
        assert!(front.insert(90, 71.0, "beats a"));
        let names: Vec<_> = front.points().iter().map(|point| point.2).collect();
        assert_eq!(names, ["fewer ReLUs", "beats a"]);
        assert!(!front.insert(10, f64::NAN, "no number"));
    }

    proptest! {
        #[test]
        fn nobody_on_the_front_is_beaten(points in prop::collection::vec((1_u64..50, 0_u32..50), 1..60)) {
            let mut front = ParetoFront::default();
            for (relus, accuracy) in &points {
                front.insert(*relus, f64::from(*accuracy), ());
            }
            for (relus, accuracy, ()) in front.points() {
                let beats = |other: &&(u64, u32)| {
                    let better = f64::from(other.1);
                    (other.0 < *relus && better >= *accuracy) || (other.0 <= *relus && better > *accuracy)
                };
                prop_assert!(points.iter().find(beats).is_none());
            }
            let rises = |pair: &[(u64, f64, ())]| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1;
            prop_assert!(front.points().windows(2).all(|pair| rises(pair) || pair[0] == pair[1]));
            let unbeaten = |point: &&(u64, u32)| front.points().iter().any(|on| (on.0, on.1) == (point.0, f64::from(point.1)));
            let times = points.iter().filter(unbeaten).count();
            prop_assert_eq!(times, front.points().len(), "each point on the front as often as it was given");
        }
    }
}
