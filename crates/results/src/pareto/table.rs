//! Our results as rows of the page's table.

use network::text::grouped;

use super::charts::megabytes;
use super::{Point, PrivateFront};
use crate::PrivateTiming;

/// What is shown where nothing was measured.
pub(super) const NOT_MEASURED: &str = "not measured";

/// One result in the table: what each cell is sorted by, and what it shows.
pub(super) struct Row {
    pub(super) number: usize,
    pub(super) on_front: bool,
    pub(super) cells: Vec<(String, String)>,
}

/// The titles of the columns. Where signs are shared, comparisons and gated values have one each.
pub(super) fn columns(shares_signs: bool) -> Vec<String> {
    let noun = if shares_signs { "comparisons" } else { "ReLUs" };
    let mut columns = ["no.", "fronts", "result", noun].map(str::to_owned).to_vec();
    columns.extend(shares_signs.then(|| "gated values".to_owned()));
    columns.extend(["accuracy, %", "integers, %"].map(str::to_owned));
    columns.push(format!("% per 1000 {noun}"));
    columns.extend(["online, ms", "offline, s", "MB online", "MB offline", "MB in all"].map(str::to_owned));
    columns.push("multiply-adds, M".to_owned());
    columns.push(format!("{noun} before"));
    columns.extend(["method", "network", "seed", "measured on"].map(str::to_owned));
    columns
}

pub(super) fn row(point: &Point, shares_signs: bool) -> Row {
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
    let fronts = fronts(point);
    cell(u8::from(fronts == BEATEN).to_string(), &fronts);
    cell(record.title.clone(), &record.title);
    let counts = record.counts();
    cell(counts.comparisons.to_string(), &grouped(counts.comparisons));
    if shares_signs {
        cell(counts.gated_values.to_string(), &grouped(counts.gated_values));
    }
    cell(accuracy.to_string(), &format!("{accuracy:.2}"));
    let per_thousand = record.compared.accuracy_per_thousand;
    let figures = [
        integer,
        Some((per_thousand, format!("{per_thousand:.3}"))),
        timing(|timing| 1e3 * timing.online_s, 1),
        timing(|timing| timing.offline_s, 3),
        timing(|timing| timing.online_bytes as f64 / 1e6, 1),
        timing(|timing| timing.offline_bytes as f64 / 1e6, 1),
        timing(|timing| timing.total_bytes() as f64 / 1e6, 1),
    ];
    for figure in figures {
        match figure {
            Some((key, shown)) => cell(key.to_string(), &shown),
            None => cell(String::new(), NOT_MEASURED),
        }
    }
    cell(record.macs.to_string(), &format!("{:.1}", record.macs as f64 / 1e6));
    cell(record.compared.before.to_string(), &grouped(record.compared.before));
    cell(record.method.clone(), &record.method);
    cell(record.network.clone(), &record.network);
    cell(record.seed.to_string(), &record.seed.to_string());
    let settings = record.private.iter().map(describe).collect::<Vec<_>>().join("; ");
    let shown = if settings.is_empty() { NOT_MEASURED } else { &settings };
    cell(settings.clone(), shown);
    Row { number: point.number, on_front: point.on_front, cells }
}

/// What a result on no front is.
const BEATEN: &str = "beaten";

/// Where no other beats it.
fn fronts(point: &Point) -> String {
    let any = |is_on: fn(&PrivateFront) -> bool| point.private_fronts.iter().any(is_on);
    let names = [
        (point.on_front, point.record.counts().noun()),
        (any(|front| front.online_time), "time"),
        (any(|front| front.total_bytes), "bytes"),
    ];
    let names: Vec<_> = names.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name).collect();
    if names.is_empty() { BEATEN.to_owned() } else { names.join(", ") }
}

/// Where and how a latency was measured.
fn describe(timing: &PrivateTiming) -> String {
    let session = match (timing.first_offline_bytes, timing.further_offline_bytes) {
        (Some(first), Some(further)) => {
            format!(
                ", offline {} MB for a session's first image, {} for others",
                megabytes(first),
                megabytes(further)
            )
        }
        _ => String::new(),
    };
    let weights = if timing.random_weights { ", random weights" } else { "" };
    format!("{}, median of {}{weights}{session}", timing.setting(), timing.repeat)
}
