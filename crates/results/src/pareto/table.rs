//! Our results as rows of the page's table.

use network::text::grouped;

use super::Point;
use crate::PrivateTiming;

/// What is shown where nothing was measured.
pub(super) const NOT_MEASURED: &str = "not measured";

/// One result in the table: what each cell is sorted by, and what it shows.
pub(super) struct Row {
    pub(super) number: usize,
    pub(super) on_front: bool,
    pub(super) cells: Vec<(String, String)>,
}

pub(super) fn row(point: &Point) -> Row {
    let record = &point.record;
    let accuracy = record.accuracy().0;
    let integer = record.integer_accuracy.map(|accuracy| {
        let images = record.integer_images.map_or_else(String::new, |images| format!(" of {images}"));
        (accuracy, format!("{accuracy:.2}{images}"))
    });
    let timing = |of: fn(&PrivateTiming) -> f64, decimals: usize| {
        let first = record.private.first()?;
        let shown: Vec<_> =
            record.private.iter().map(|timing| format!("{:.decimals$}", of(timing))).collect();
        Some((of(first), shown.join("; ")))
    };
    let mut cells = Vec::new();
    let mut cell = |key: String, shown: &str| cells.push((key, shown.to_owned()));
    cell(point.number.to_string(), &point.number.to_string());
    cell(u8::from(!point.on_front).to_string(), if point.on_front { "front" } else { "beaten" });
    cell(record.title.clone(), &record.title);
    cell(record.relus.to_string(), &grouped(record.relus));
    cell(accuracy.to_string(), &format!("{accuracy:.2}"));
    let figures = [
        integer,
        Some((record.accuracy_per_kilorelu, format!("{:.3}", record.accuracy_per_kilorelu))),
        timing(|timing| 1e3 * timing.online_s, 1),
        timing(|timing| timing.offline_s, 3),
        timing(|timing| timing.online_bytes as f64 / 1e6, 1),
        timing(|timing| timing.offline_bytes as f64 / 1e6, 1),
    ];
    for figure in figures {
        match figure {
            Some((key, shown)) => cell(key.to_string(), &shown),
            None => cell(String::new(), NOT_MEASURED),
        }
    }
    cell(record.macs.to_string(), &format!("{:.1}", record.macs as f64 / 1e6));
    cell(record.relus_before.to_string(), &grouped(record.relus_before));
    cell(record.method.clone(), &record.method);
    cell(record.network.clone(), &record.network);
    cell(record.seed.to_string(), &record.seed.to_string());
    let settings = record.private.iter().map(describe).collect::<Vec<_>>().join("; ");
    let shown = if settings.is_empty() { NOT_MEASURED } else { &settings };
    cell(settings.clone(), shown);
    Row { number: point.number, on_front: point.on_front, cells }
}

/// Where and how a latency was measured.
pub(super) fn describe(timing: &PrivateTiming) -> String {
    let PrivateTiming { link, threads, processor, repeat, .. } = timing;
    let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    format!("{link}, {threads} a party, {processor}, median of {repeat}")
}
