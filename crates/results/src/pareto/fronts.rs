//! Who is beaten: by comparisons among all results of a group, by time and bytes among measurements of one setting.

use serde::Serialize;

use super::{Group, Point};
use crate::{ParetoFront, PrivateTiming, Setting};

/// Whether no other measurement of the same setting costs at most as much and has at least its accuracy, one of the two better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrivateFront {
    /// By time from image to answer.
    pub online_time: bool,
    /// By bytes in all ([`PrivateTiming::total_bytes`]).
    pub total_bytes: bool,
}

impl Group {
    /// The settings of all measurements, newest protocol first, each once.
    pub fn settings(&self) -> Vec<Setting<'_>> {
        let mut settings: Vec<Setting<'_>> = Vec::new();
        for timing in self.points.iter().flat_map(|point| &point.record.private) {
            if !settings.contains(&timing.setting()) {
                settings.push(timing.setting());
            }
        }
        settings.sort_by_key(|setting| std::cmp::Reverse(setting.protocol_version));
        settings
    }

    /// The measurements of a setting with their points, and whether each is beaten.
    pub fn measured<'a>(
        &'a self,
        setting: &'a Setting<'_>,
    ) -> impl Iterator<Item = (&'a Point, &'a PrivateTiming, PrivateFront)> {
        let of_point = |point: &'a Point| point.record.private.iter().zip(&point.private_fronts);
        let all = self
            .points
            .iter()
            .flat_map(move |point| of_point(point).map(move |(timing, front)| (point, timing, *front)));
        all.filter(|(_, timing, _)| timing.setting() == *setting)
    }

    /// How many results were not measured in private.
    pub fn unmeasured(&self) -> usize {
        self.points.iter().filter(|point| point.record.private.is_empty()).count()
    }

    /// Whether values of some network follow the signs of other channels.
    pub fn shares_signs(&self) -> bool {
        self.points.iter().any(|point| point.record.counts().shares_signs())
    }

    /// What is counted: ReLUs, or comparisons where some network shares signs.
    pub fn noun(&self) -> &'static str {
        if self.shares_signs() { "comparisons" } else { "ReLUs" }
    }

    /// That measurements of several versions of the protocol are there, where they are; each version has its own fronts.
    pub fn versions_apart(&self) -> Option<String> {
        let mut versions: Vec<String> = self.settings().iter().map(Setting::protocol).collect();
        versions.dedup();
        (versions.len() > 1).then(|| versions.join(", "))
    }

    /// Marks who is on which front.
    pub(super) fn mark_fronts(&mut self) {
        let by_comparisons = self.unbeaten(|point| point.record.comparisons());
        let by_multiply_adds = self.unbeaten(|point| point.record.macs);
        for (index, point) in self.points.iter_mut().enumerate() {
            point.on_front = by_comparisons.contains(&index);
            point.on_multiply_adds_front = by_multiply_adds.contains(&index);
            point.private_fronts = vec![PrivateFront::default(); point.record.private.len()];
        }
        let microseconds = |timing: &PrivateTiming| (timing.online_s * 1e6) as u64;
        for (point, timing) in self.unbeaten_by(microseconds) {
            self.points[point].private_fronts[timing].online_time = true;
        }
        for (point, timing) in self.unbeaten_by(PrivateTiming::total_bytes) {
            self.points[point].private_fronts[timing].total_bytes = true;
        }
    }

    /// Places of the results that no other beats.
    fn unbeaten(&self, cost: impl Fn(&Point) -> u64) -> Vec<usize> {
        let mut front = ParetoFront::default();
        for (place, point) in self.points.iter().enumerate() {
            front.insert(cost(point), point.record.accuracy().0, place);
        }
        front.points().iter().map(|(_, _, place)| *place).collect()
    }

    /// Places of the measurements that none of the same setting beats.
    fn unbeaten_by(&self, cost: impl Fn(&PrivateTiming) -> u64) -> Vec<(usize, usize)> {
        let mut unbeaten = Vec::new();
        for setting in self.settings() {
            let mut front = ParetoFront::default();
            for (place, point) in self.points.iter().enumerate() {
                for (number, timing) in point.record.private.iter().enumerate() {
                    if timing.setting() == setting {
                        front.insert(cost(timing), point.record.accuracy().0, (place, number));
                    }
                }
            }
            unbeaten.extend(front.points().iter().map(|(_, _, places)| *places));
        }
        unbeaten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{example, timing};
    use crate::{ResultRecord, RunRecord};

    fn group(records: Vec<ResultRecord>) -> Group {
        let run = |record| RunRecord { record, checkpoint: None, mask: None };
        super::super::groups(records.into_iter().map(run).collect()).unwrap().remove(0)
    }

    fn measured(title: &str, accuracy: f64, online_s: f64, bytes: u64, version: u16) -> ResultRecord {
        let mut record = example(title, 1000, accuracy);
        record.private = vec![PrivateTiming {
            further_offline_bytes: Some(bytes),
            protocol_version: Some(version),
            ..timing(online_s, "lan", "m")
        }];
        record
    }

    #[test]
    fn measurements_of_other_versions_are_not_compared() {
        let group = group(vec![
            measured("slow today", 70.0, 0.5, 9, 4),
            measured("fast today", 69.0, 0.3, 9, 4),
            measured("beaten today", 68.0, 0.4, 8, 4),
            measured("slower once", 60.0, 0.9, 99, 2),
        ]);
        let front = |title: &str| {
            let point = group.points.iter().find(|point| point.record.title == title).unwrap();
            (point.private_fronts[0].online_time, point.private_fronts[0].total_bytes)
        };
        assert_eq!(front("slow today"), (true, true));
        assert_eq!(front("fast today"), (true, false));
        assert_eq!(front("beaten today"), (false, true));
        assert_eq!(front("slower once"), (true, true));
        assert_eq!(group.versions_apart().as_deref(), Some("protocol 4 or 5, protocol 2"));
        assert_eq!(group.settings().len(), 2);
        assert_eq!(group.measured(&group.settings()[0]).count(), 3);
        assert_eq!(group.unmeasured(), 0);
    }

    #[test]
    fn each_cost_has_its_own_front() {
        let of = |title: &str, relus: u64, macs: u64, accuracy: f64| ResultRecord {
            macs,
            ..example(title, relus, accuracy)
        };
        let group =
            group(vec![of("small", 100, 900, 60.0), of("cheap", 200, 500, 59.0), of("both", 300, 400, 70.0)]);
        let fronts: Vec<_> =
            group.points.iter().map(|point| (point.on_front, point.on_multiply_adds_front)).collect();
        assert_eq!(fronts, [(true, false), (false, false), (true, true)]);
    }

    #[test]
    fn one_version_needs_no_warning() {
        let group = group(vec![measured("a", 70.0, 0.5, 9, 4), example("b", 5, 60.0)]);
        assert_eq!((group.versions_apart(), group.unmeasured()), (None, 1));
    }
}
