//! The page: what its template shows.

use askama::Template;

use super::charts::{against_comparisons, against_multiply_adds, against_online_time, against_total_bytes};
use super::table::{NOT_MEASURED, Row, columns, row};
use super::{Group, Point, SeedsLine};
use crate::reproduce::{self, Paper, PublishedPoint};

/// The page. Well-formed, and loads nothing from anywhere.
pub fn page(groups: &[Group]) -> String {
    let page = Page { sections: groups.iter().map(Section::new).collect() };
    page.render().expect("the template writes into memory alone")
}

#[derive(Template)]
#[template(path = "pareto.html")]
struct Page<'a> {
    sections: Vec<Section<'a>>,
}

/// Results of one data set on the same images.
struct Section<'a> {
    title: String,
    points: &'a [Point],
    /// What is counted: ReLUs, or comparisons where signs are shared.
    noun: &'static str,
    columns: Vec<String>,
    rows: Vec<Row>,
    /// What the papers print for the same images.
    papers: Vec<PublishedPoint>,
    against_comparisons: String,
    /// Nothing where nothing was measured.
    against_online_time: Option<String>,
    against_total_bytes: Option<String>,
    against_multiply_adds: String,
    /// Results that differ in their seeds alone.
    seeds: Vec<SeedsLine>,
    /// Versions of the protocol that the measurements belong to, where they are several.
    versions_apart: Option<String>,
    /// How many results were not measured.
    unmeasured: usize,
}

impl<'a> Section<'a> {
    fn new(group: &'a Group) -> Self {
        let papers = group.papers();
        Self {
            title: group.title(),
            points: &group.points,
            noun: group.noun(),
            columns: columns(group.shares_signs()),
            rows: group.points.iter().map(|point| row(point, group.shares_signs())).collect(),
            against_comparisons: against_comparisons(group, &papers),
            against_online_time: against_online_time(group, &papers),
            against_total_bytes: against_total_bytes(group),
            against_multiply_adds: against_multiply_adds(group),
            seeds: group.seeds(),
            versions_apart: group.versions_apart(),
            unmeasured: group.unmeasured(),
            papers,
        }
    }

    /// The papers that have points here.
    fn printed(&self) -> impl Iterator<Item = &'static Paper> {
        let has_points = |paper: &&Paper| self.papers.iter().any(|point| point.paper == paper.paper);
        reproduce::papers().iter().filter(has_points)
    }
}

impl Point {
    fn has_masks(&self) -> bool {
        self.detail.as_ref().is_some_and(|detail| !detail.masks.is_empty())
    }
}

#[cfg(test)]
mod tests;
