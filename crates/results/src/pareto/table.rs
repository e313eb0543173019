//! The tables of the page: our results, sortable, and the papers' points.

use std::fmt::Write;

use network::text::grouped;

use super::{Group, Point};
use crate::PrivateTiming;
use crate::report::escape;
use crate::reproduce::{PublishedPoint, papers};

/// What is shown where nothing was measured.
pub(super) const NOT_MEASURED: &str = "not measured";

/// Our results.
pub(super) fn results(group: &Group) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table class=\"sortable\"><thead><tr><th>no.</th><th>front</th><th>result</th>\
         <th>ReLUs</th><th>accuracy, %</th><th>integers, %</th><th>% per 1000 ReLUs</th><th>online, ms</th>\
         <th>offline, s</th><th>MB online</th><th>MB offline</th><th>multiply-adds, M</th><th>ReLUs before</th>\
         <th>method</th><th>network</th><th>seed</th><th>measured on</th></tr></thead><tbody>\n",
    );
    for point in &group.points {
        text.push_str(&row(point));
    }
    text + "</tbody></table></div>\n"
}

fn row(point: &Point) -> String {
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
    let class = if point.on_front { " class=\"front\"" } else { "" };
    let mut text = format!("<tr{class} id=\"result-{}\">", point.number);
    let mut cell = |key: String, shown: &str| {
        let _ = write!(text, "<td data-key=\"{}\">{}</td>", escape(&key), escape(shown));
    };
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
    text + "</tr>\n"
}

/// Where and how a latency was measured.
pub(super) fn describe(timing: &PrivateTiming) -> String {
    let PrivateTiming { link, threads, processor, repeat, .. } = timing;
    let threads = if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    format!("{link}, {threads} a party, {processor}, median of {repeat}")
}

/// The papers' points, and what their latencies contain.
pub(super) fn published(points: &[PublishedPoint]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table class=\"sortable\"><thead><tr><th>paper</th><th>where</th><th>network</th>\
         <th>training</th><th>ReLUs</th><th>accuracy, %</th><th>latency, s</th></tr></thead><tbody>\n",
    );
    for point in points {
        let (key, latency) = point.latency.map_or((String::new(), "not printed".to_owned()), |latency| {
            (latency.to_string(), latency.to_string())
        });
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td data-key=\"{}\">{}</td><td>{}</td>\
             <td data-key=\"{key}\">{latency}</td></tr>",
            escape(&point.paper),
            escape(&point.place),
            escape(&point.row),
            point.way.title(),
            point.relus,
            escape(&point.printed_relus),
            point.accuracy,
        );
    }
    text.push_str("</tbody></table></div>\n<ul class=\"note\">");
    for paper in papers().iter().filter(|paper| points.iter().any(|point| point.paper == paper.paper)) {
        let _ = write!(text, "<li>A latency of {}: {}.</li>", escape(&paper.paper), escape(&paper.latency));
    }
    text + "</ul>\n"
}
