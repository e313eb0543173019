//! The page: what its template shows.

use askama::Template;
use network::text::grouped;

use super::scatter::{Mark, Scatter, Series};
use super::table::{NOT_MEASURED, Row, describe, row};
use super::{Group, Point};
use crate::ParetoFront;
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
    rows: Vec<Row>,
    /// What the papers print for the same images.
    papers: Vec<PublishedPoint>,
    against_relus: String,
    /// Nothing where no latency was measured.
    against_latency: Option<String>,
    /// How many results have none.
    unmeasured: usize,
}

impl<'a> Section<'a> {
    fn new(group: &'a Group) -> Self {
        // The papers print accuracies on test images.
        let papers = if group.on == "test" { reproduce::published(group.data) } else { Vec::new() };
        Self {
            title: group.title(),
            points: &group.points,
            rows: group.points.iter().map(row).collect(),
            against_relus: against_relus(group, &papers),
            against_latency: against_latency(group, &papers),
            unmeasured: group.points.iter().filter(|point| point.record.private.is_empty()).count(),
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

fn against_relus(group: &Group, papers: &[PublishedPoint]) -> String {
    let mark = |point: &Point| Mark {
        x: point.record.relus as f64,
        y: point.record.accuracy().0,
        label: point.number.to_string(),
        title: format!(
            "{}: {} ReLUs, {:.2}%",
            point.record.title,
            grouped(point.record.relus),
            point.record.accuracy().0
        ),
        on_front: point.on_front,
    };
    let ours = Series {
        name: "ours, numbered as in the table; pale where beaten".to_owned(),
        color: 0,
        is_ours: true,
        marks: group.points.iter().map(mark).collect(),
    };
    let x_text = |value: f64| if value >= 1e3 { format!("{}K", value / 1e3) } else { value.to_string() };
    let series =
        std::iter::once(ours).chain(papers_series(papers, |point| Some(point.relus as f64))).collect();
    Scatter { x_title: "ReLUs".to_owned(), y_title: "accuracy, %".to_owned(), x_text, series }.svg()
}

fn against_latency(group: &Group, papers: &[PublishedPoint]) -> Option<String> {
    let mut by_setting: Vec<(String, Vec<Mark>)> = Vec::new();
    for point in &group.points {
        for timing in &point.record.private {
            let setting = describe(timing);
            let mark = Mark {
                x: timing.online_s,
                y: point.record.accuracy().0,
                label: point.number.to_string(),
                title: format!("{}: {:.1} ms", point.record.title, 1e3 * timing.online_s),
                // Few ReLUs are not always little time.
                on_front: false,
            };
            match by_setting.iter_mut().find(|(known, _)| *known == setting) {
                Some((_, marks)) => marks.push(mark),
                None => by_setting.push((setting, vec![mark])),
            }
        }
    }
    if by_setting.is_empty() {
        return None;
    }
    let mut series: Vec<Series> = Vec::new();
    for (index, (setting, mut marks)) in by_setting.into_iter().enumerate() {
        find_front(&mut marks);
        let color = [0, 5, 6, 7][index % 4];
        let name = format!("ours, measured online: {setting}");
        series.push(Series { name, color, is_ours: true, marks });
    }
    series.extend(papers_series(papers, |point| point.latency));
    let x_text = |value: f64| {
        if value < 1.0 { format!("{} ms", (value * 1e4).round() / 10.0) } else { format!("{value} s") }
    };
    let title = "ours: from image to answer; what the papers' contain is below";
    let scatter = Scatter { x_title: title.to_owned(), y_title: "accuracy, %".to_owned(), x_text, series };
    Some(scatter.svg())
}

/// Tells each mark whether no other is both as far left and as high.
fn find_front(marks: &mut [Mark]) {
    let mut front = ParetoFront::default();
    for (place, mark) in marks.iter().enumerate() {
        front.insert((mark.x * 1e6) as u64, mark.y, place);
    }
    for (_, _, place) in front.points() {
        marks[*place].on_front = true;
    }
}

/// One series for each paper, with its own front.
fn papers_series(points: &[PublishedPoint], x: fn(&PublishedPoint) -> Option<f64>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for (index, paper) in reproduce::papers().iter().enumerate() {
        let own: Vec<&PublishedPoint> = points.iter().filter(|point| point.paper == paper.paper).collect();
        let mark = |point: &&PublishedPoint| {
            let title = format!(
                "{}, {}: {}, {} ReLUs, {}%",
                point.paper, point.place, point.row, point.printed_relus, point.accuracy
            );
            Some(Mark { x: x(point)?, y: point.accuracy, label: String::new(), title, on_front: false })
        };
        let mut marks: Vec<Mark> = own.iter().filter_map(mark).collect();
        find_front(&mut marks);
        let name = format!("{}, as printed", paper.paper);
        series.push(Series { name, color: index + 1, is_ours: false, marks });
    }
    series
}

#[cfg(test)]
mod tests;
