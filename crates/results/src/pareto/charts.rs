//! The charts: accuracy against comparisons, against measured online time, against bytes in all, against multiply-adds.

use super::scatter::{Mark, Scatter, Series};
use super::{Group, PrivateFront};
use crate::reproduce::{self, PublishedPoint};
use crate::{ParetoFront, PrivateTiming, Setting};

/// Colors of our measurements, one for each setting; the papers have those between.
const OUR_COLORS: [usize; 4] = [0, 5, 6, 7];

pub(super) fn against_comparisons(group: &Group, papers: &[PublishedPoint]) -> String {
    let marks = group.points.iter().map(|point| {
        let (record, accuracy) = (&point.record, point.record.accuracy().0);
        Mark {
            x: record.comparisons() as f64,
            y: accuracy,
            label: point.number.to_string(),
            title: format!("{}: {}, {accuracy:.2}%", record.title, record.counts()),
            on_front: point.on_front,
        }
    });
    let ours = Series {
        name: "ours, numbered as in the table; pale where beaten".to_owned(),
        color: 0,
        is_ours: true,
        marks: marks.collect(),
    };
    let x_text = |value: f64| if value >= 1e3 { format!("{}K", value / 1e3) } else { value.to_string() };
    let series =
        std::iter::once(ours).chain(papers_series(papers, |point| Some(point.relus as f64))).collect();
    let x_title = match group.shares_signs() {
        true => "comparisons; a ReLU is one",
        false => "ReLUs",
    };
    Scatter { x_title: x_title.to_owned(), y_title: "accuracy, %".to_owned(), x_text, series }.svg()
}

/// Nothing where nothing was measured.
pub(super) fn against_online_time(group: &Group, papers: &[PublishedPoint]) -> Option<String> {
    let mut series = our_series(group, "measured online", |timing, front| {
        (timing.online_s, format!("{:.1} ms", 1e3 * timing.online_s), front.online_time)
    })?;
    series.extend(papers_series(papers, |point| point.latency));
    let x_text = |value: f64| {
        if value < 1.0 { format!("{} ms", (value * 1e4).round() / 10.0) } else { format!("{value} s") }
    };
    let title = "ours: from image to answer; what the papers' contain is below";
    let scatter = Scatter { x_title: title.to_owned(), y_title: "accuracy, %".to_owned(), x_text, series };
    Some(scatter.svg())
}

/// Nothing where nothing was measured. The papers' points come without bytes.
pub(super) fn against_total_bytes(group: &Group) -> Option<String> {
    let series = our_series(group, "measured bytes", |timing, front| {
        let bytes = timing.total_bytes();
        (bytes as f64, format!("{} MB", megabytes(bytes)), front.total_bytes)
    })?;
    let x_text = |value: f64| format!("{} MB", value / 1e6);
    let title = "bytes of one inference, online and offline";
    let scatter = Scatter { x_title: title.to_owned(), y_title: "accuracy, %".to_owned(), x_text, series };
    Some(scatter.svg())
}

/// What the server computes, and most of what homomorphic encryption costs. The papers' points come without.
pub(super) fn against_multiply_adds(group: &Group) -> String {
    let marks = group.points.iter().map(|point| {
        let (record, accuracy) = (&point.record, point.record.accuracy().0);
        let millions = record.macs as f64 / 1e6;
        Mark {
            x: record.macs as f64,
            y: accuracy,
            label: point.number.to_string(),
            title: format!("{}: {millions:.1} million multiply-adds, {accuracy:.2}%", record.title),
            on_front: point.on_multiply_adds_front,
        }
    });
    let marks = marks.collect();
    let name = "ours, numbered as in the table; pale where beaten".to_owned();
    let series = vec![Series { name, color: 0, is_ours: true, marks }];
    let x_text = |value: f64| format!("{}M", value / 1e6);
    Scatter { x_title: "multiply-adds".to_owned(), y_title: "accuracy, %".to_owned(), x_text, series }.svg()
}

/// `5.4`.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// One series for each setting, so that nothing is compared that was not measured alike. A measurement has a place on the
/// axis, a text, and may be on the front.
fn our_series(
    group: &Group,
    what: &str,
    place: impl Fn(&PrivateTiming, PrivateFront) -> (f64, String, bool),
) -> Option<Vec<Series>> {
    let settings = group.settings();
    let series = |(index, setting): (usize, &Setting<'_>)| Series {
        name: format!("ours, {what}: {setting}"),
        color: OUR_COLORS[index % OUR_COLORS.len()],
        is_ours: true,
        marks: group
            .measured(setting)
            .map(|(point, timing, front)| {
                let (x, text, on_front) = place(timing, front);
                let title = format!("{}: {text}", point.record.title);
                Mark { x, y: point.record.accuracy().0, label: point.number.to_string(), title, on_front }
            })
            .collect(),
    };
    (!settings.is_empty()).then(|| settings.iter().enumerate().map(series).collect())
}

/// One series for each paper, with its own front, and two for other methods: those that count all they pay, and those that pay
/// for polynomials beside.
fn papers_series(points: &[PublishedPoint], x: fn(&PublishedPoint) -> Option<f64>) -> Vec<Series> {
    let papers = reproduce::papers();
    let mut series: Vec<Series> = Vec::with_capacity(papers.len() + OTHERS.len());
    for (index, paper) in papers.iter().enumerate() {
        let own = points.iter().filter(|point| point.paper == paper.paper);
        series.push(printed_series(format!("{}, as printed", paper.paper), index + 1, own, x));
    }
    for (name, color, is_free) in OTHERS {
        let others = points.iter().filter(|point| point.way.is_none() && point.instead.is_free() == is_free);
        series.push(printed_series(name.to_owned(), color, others, x));
    }
    series
}

/// Other methods: name, color, whether a dropped ReLU is free.
const OTHERS: [(&str, usize, bool); 2] = [
    ("SENet, CryptoNAS, channel pruning, as printed", 8, true),
    ("DELPHI, AutoReP, as printed: a polynomial, not counted, for each dropped ReLU", 9, false),
];

fn printed_series<'a>(
    name: String,
    color: usize,
    points: impl Iterator<Item = &'a PublishedPoint>,
    x: fn(&PublishedPoint) -> Option<f64>,
) -> Series {
    let mark = |point: &PublishedPoint| {
        let title = format!(
            "{}, {}: {}, {} ReLUs, {}%",
            point.paper, point.place, point.row, point.printed_relus, point.accuracy
        );
        Some(Mark { x: x(point)?, y: point.accuracy, label: String::new(), title, on_front: false })
    };
    let mut marks: Vec<Mark> = points.filter_map(mark).collect();
    find_front(&mut marks);
    Series { name, color, is_ours: false, marks }
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
