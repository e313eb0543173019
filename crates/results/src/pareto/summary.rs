//! The fronts as data for a page that draws them itself: what its charts, its table and its lists of layers need, no more.

use serde::Serialize;

use super::{Group, Point, PrivateFront};
use crate::reproduce::{self, Instead};
use crate::{PrivateTiming, Setting};

/// Results of several groups, and what must be known of the papers.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    groups: Vec<GroupSummary>,
    papers: Vec<PaperSummary>,
}

#[derive(Clone, Debug, Serialize)]
struct PaperSummary {
    paper: String,
    link: String,
    /// What its latencies contain.
    latency: String,
}

#[derive(Clone, Debug, Serialize)]
struct GroupSummary {
    title: String,
    /// Where and how ours were measured; their times are compared within one alone.
    settings: Vec<String>,
    ours: Vec<OurPoint>,
    papers: Vec<PaperPoint>,
}

#[derive(Clone, Debug, Serialize)]
struct OurPoint {
    number: usize,
    title: String,
    method: String,
    network: String,
    seed: u64,
    accuracy: f64,
    comparisons: u64,
    /// Values that follow the sign of another one.
    gated_values: u64,
    multiply_adds: u64,
    on_front: bool,
    measured: Vec<Measurement>,
    /// Name, ReLUs of the full network, ReLUs that are left; empty where they are not known.
    layers: Vec<(String, u64, u64)>,
}

#[derive(Clone, Debug, Serialize)]
struct Measurement {
    /// Which of the group's settings.
    setting: usize,
    online_s: f64,
    offline_s: f64,
    bytes: u64,
    on_time_front: bool,
    on_bytes_front: bool,
}

#[derive(Clone, Debug, Serialize)]
struct PaperPoint {
    paper: String,
    place: String,
    row: String,
    relus: u64,
    accuracy: f64,
    online_s: Option<f64>,
    /// A polynomial, not counted, takes the place of each dropped ReLU.
    has_polynomials: bool,
}

impl Summary {
    /// Of groups as [`super::groups`] gives them; those without a point of a paper are left out.
    pub fn of(groups: &[Group]) -> Self {
        let with_papers = groups.iter().filter(|group| !group.papers().is_empty());
        let paper = |paper: &reproduce::Paper| PaperSummary {
            paper: paper.paper.clone(),
            link: paper.link.clone(),
            latency: paper.latency.clone(),
        };
        Self {
            groups: with_papers.map(GroupSummary::of).collect(),
            papers: reproduce::papers().iter().map(paper).collect(),
        }
    }
}

impl GroupSummary {
    fn of(group: &Group) -> Self {
        let settings = group.settings();
        let paper = |point: reproduce::PublishedPoint| PaperPoint {
            paper: point.paper,
            place: point.place,
            row: point.row,
            relus: point.relus,
            accuracy: point.accuracy,
            online_s: point.latency,
            has_polynomials: point.instead == Instead::Polynomial,
        };
        Self {
            title: group.title(),
            ours: group.points.iter().map(|point| OurPoint::of(point, &settings)).collect(),
            papers: group.papers().into_iter().map(paper).collect(),
            settings: settings.iter().map(ToString::to_string).collect(),
        }
    }
}

impl OurPoint {
    fn of(point: &Point, settings: &[Setting<'_>]) -> Self {
        let Point { number, on_front, private_fronts, record, detail, .. } = point;
        let measured = |(timing, front): (&PrivateTiming, &PrivateFront)| {
            Some(Measurement {
                setting: settings.iter().position(|setting| *setting == timing.setting())?,
                online_s: timing.online_s,
                offline_s: timing.offline_s,
                bytes: timing.total_bytes(),
                on_time_front: front.online_time,
                on_bytes_front: front.total_bytes,
            })
        };
        let layers = detail.iter().flat_map(|detail| &detail.layers);
        Self {
            number: *number,
            title: record.title.clone(),
            method: record.method.clone(),
            network: record.network.clone(),
            seed: record.seed,
            accuracy: record.accuracy().0,
            comparisons: record.comparisons(),
            gated_values: record.counts().gated_values,
            multiply_adds: record.macs,
            on_front: *on_front,
            measured: record.private.iter().zip(private_fronts).filter_map(measured).collect(),
            layers: layers.map(|layer| (layer.name.clone(), layer.before, layer.after)).collect(),
        }
    }
}
