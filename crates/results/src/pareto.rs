//! Results as one HTML page: accuracy against comparisons, measured online time and bytes in all, beside the papers' points.
//!
//! ```text
//! records and checkpoints -> points, by data set and images -> the fronts of each -> page
//! fronts    who is beaten; measurements only by others of the same setting and version of the protocol
//! detail    layers before and after, and masks (SNL Fig. 4), from a run's checkpoint or a record's recipe and mask
//! charts    accuracy against what users pay
//! seeds     mean and deviation over the seeds of one recipe
//! scatter   points over a logarithmic axis; labels finds places for their numbers
//! picture   bars and masks
//! summary   the same as data, for the page in the browser
//! page      the page: self-contained, light and dark, sortable with a few lines of script, complete without it
//! ```
//!
//! Every figure on the page is a record's, a checkpoint's or a paper's printed one. What was not measured says so.

mod charts;
mod detail;
mod fronts;
mod labels;
mod page;
mod picture;
mod scatter;
mod seeds;
mod summary;
mod table;

use recipes::checkpoint::CheckpointError;
use recipes::data::DataKind;
use serde::Serialize;

use crate::reproduce::{self, PublishedPoint};
use crate::{ResultRecord, RunRecord};

pub use detail::{Detail, LayerRelus, MaskPicture};
pub use fronts::PrivateFront;
pub use page::page;
pub use seeds::SeedsLine;
pub use summary::Summary;

/// One result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Its number on the page, from 1.
    pub number: usize,
    /// Whether no other has at most its comparisons and at least its accuracy, and one of the two better.
    pub on_front: bool,
    /// The same by multiply-adds.
    pub on_multiply_adds_front: bool,
    /// The same for each of its measurements, in their order, among those of the same setting.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub private_fronts: Vec<PrivateFront>,
    /// What it is.
    #[serde(flatten)]
    pub record: ResultRecord,
    /// Its layers, where its checkpoint or its recipe tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// Results that can be compared: of one data set, on the same images.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The data set.
    pub data: DataKind,
    /// `test` or `held-out`.
    pub on: String,
    /// Fewest comparisons first.
    pub points: Vec<Point>,
}

impl Group {
    /// What to call it.
    pub fn title(&self) -> String {
        format!("{}, {} images", self.data.name(), self.on)
    }

    /// What the papers print for the same images: accuracies on test images.
    pub fn papers(&self) -> Vec<PublishedPoint> {
        if self.on == "test" { reproduce::published(self.data) } else { Vec::new() }
    }
}

/// A group with what follows from it, as data.
#[derive(Clone, Debug, Serialize)]
pub struct GroupReport<'a> {
    #[serde(flatten)]
    group: &'a Group,
    /// Mean and deviation of recipes with several seeds.
    seeds: Vec<SeedsLine>,
    /// What the four papers and other methods print for the same images.
    papers: Vec<PublishedPoint>,
}

impl<'a> GroupReport<'a> {
    /// Of a group.
    pub fn of(group: &'a Group) -> Self {
        Self { group, seeds: group.seeds(), papers: group.papers() }
    }
}

/// Sorts results into groups and finds the fronts of each. A result that is given twice counts once.
///
/// # Errors
/// When a checkpoint that is there cannot be used.
pub fn groups(found: Vec<RunRecord>) -> Result<Vec<Group>, CheckpointError> {
    let mut seen: Vec<RunRecord> = Vec::new();
    for run in found {
        if !seen.iter().any(|other| other.record == run.record) {
            seen.push(run);
        }
    }
    seen.sort_by(|a, b| {
        let by_accuracy = b.record.accuracy().0.total_cmp(&a.record.accuracy().0);
        a.record.comparisons().cmp(&b.record.comparisons()).then(by_accuracy)
    });
    let mut groups: Vec<Group> = Vec::new();
    for (number, RunRecord { record, checkpoint, mask }) in (1..).zip(seen) {
        let detail = match checkpoint {
            Some(path) => Some(Detail::of_checkpoint(&path)?),
            None => Detail::of_recipe(&record.recipe, mask.as_deref())?,
        };
        // Whatever lies where the record says, it is of this result or of none.
        let is_its_own = |detail: &Detail| detail.relus() == record.comparisons();
        let detail = detail.filter(is_its_own);
        let (data, on) = (record.recipe.data.set, record.accuracy().1.to_owned());
        let place = groups.iter().position(|group| (group.data, &group.on) == (data, &on));
        let place = place.unwrap_or_else(|| {
            groups.push(Group { data, on, points: Vec::new() });
            groups.len() - 1
        });
        groups[place].points.push(Point {
            number,
            on_front: false,
            on_multiply_adds_front: false,
            private_fronts: Vec::new(),
            record,
            detail,
        });
    }
    groups.iter_mut().for_each(Group::mark_fronts);
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::example;

    #[test]
    fn layers_that_are_not_a_results_own_are_not_shown() {
        let mut record = example("as its recipe says", 557_056, 78.86);
        record.recipe.data.set = DataKind::Cifar100;
        record.recipe.network = recipes::recipe::NetworkSection::named("resnet18");
        let mut other = record.clone();
        other.compared.counts.comparisons = 50_000;
        let groups = groups(vec![run(record), run(other)]).unwrap();
        let shown: Vec<_> = groups[0]
            .points
            .iter()
            .map(|point| (point.record.comparisons(), point.detail.is_some()))
            .collect();
        assert_eq!(shown, [(50_000, false), (557_056, true)]);
    }

    fn run(record: ResultRecord) -> RunRecord {
        RunRecord { record, checkpoint: None, mask: None }
    }

    #[test]
    fn only_results_on_the_same_images_are_compared() {
        let mut held_out = example("on held-out images", 30, 99.0);
        (held_out.test_accuracy, held_out.measured_on) = (None, "held-out".to_owned());
        let mut other = example("other data", 40, 98.0);
        other.recipe.data.set = DataKind::Cifar10;
        let records = [
            example("beaten", 200, 60.0),
            example("small", 100, 61.0),
            example("large", 300, 70.0),
            held_out,
            other,
            example("small", 100, 61.0),
        ];
        let groups = groups(records.map(run).into()).unwrap();
        let shown: Vec<_> = groups
            .iter()
            .map(|group| {
                let points = group.points.iter();
                (
                    group.title(),
                    points.map(|point| (point.record.title.as_str(), point.on_front)).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("CIFAR-100, held-out images".to_owned(), vec![("on held-out images", true)]),
                ("CIFAR-10, test images".to_owned(), vec![("other data", true)]),
                (
                    "CIFAR-100, test images".to_owned(),
                    vec![("small", true), ("beaten", false), ("large", true)]
                ),
            ]
        );
    }
}
