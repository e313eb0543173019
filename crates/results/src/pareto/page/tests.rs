use super::*;
use crate::pareto::{Detail, groups};
use crate::record::tests::{example, timing};
use crate::{Compared, FrozenModel, RunRecord};
use network::cost::Counts;
use network::text::grouped;
use network::zoo;

fn example_groups() -> Vec<Group> {
    let mut measured = example("<b>measured</b> & frozen", 26_112, 71.15);
    measured.note_model(FrozenModel { file: "m.sordino".into(), digest: "m".into() }, 71.03, 10_000);
    let _ = measured.note_timing(timing(0.0213, "loopback", "m"));
    let _ = measured.note_timing(timing(0.264, "1000 Mb/s, 20 ms round trip", "m"));
    // Two values follow each sign, and the older protocol measured it.
    let mut shared = example("shared signs", 26_113, 71.16);
    shared.compared = Compared::new(Counts { comparisons: 26_113, gated_values: 52_226 }, 26_113, 71.16);
    let older = crate::PrivateTiming { protocol_version: Some(2), ..timing(0.0318, "loopback", "n") };
    shared.private = vec![crate::PrivateTiming {
        first_offline_bytes: Some(8_800_000),
        further_offline_bytes: Some(4_700_000),
        ..older
    }];
    let records = [measured, example("plain", 557_056, 78.86), example("beaten", 600_000, 70.01), shared];
    let run = |record| RunRecord { record, checkpoint: None, mask: None };
    let mut groups = groups(records.map(run).into()).unwrap();
    let spec = zoo::build("resnet10:m=4", 16, 10).unwrap();
    let mask = network::mask::ActivationMask::keep_all(&spec);
    groups[0].points[0].detail = Some(Detail::new(&spec, &spec, Some(&mask)));
    groups
}

/// Every element is closed in order, and nothing but `&amp;` and the like begins with `&`.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = page.strip_prefix("<!doctype html>").unwrap();
    for (index, part) in body.split('<').enumerate().skip(1) {
        let is_raw = matches!(open.last(), Some(&"style" | &"script"));
        if is_raw && !part.starts_with('/') {
            continue;
        }
        let (tag, text) =
            part.split_once('>').unwrap_or_else(|| panic!("part {index} is not closed: {part}"));
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else {
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        for entity in text.split('&').skip(1) {
            assert!(
                ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|known| entity.starts_with(known)),
                "&{entity}"
            );
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// What a reader sees as figures: cells of tables, titles of points, counts of layers; not ticks, notes and recipes.
fn figures(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for element in ["<td", "<title", "<figcaption"] {
        for part in page.split(element).skip(1) {
            let text = part.split_once('>').unwrap().1.split("</").next().unwrap();
            let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
            let words =
                text.split(['<', '>', ' ', ';', ':', '%']).map(|word| word.trim_end_matches([',', '.']));
            found.extend(words.filter(is_number).map(str::to_owned));
        }
    }
    found
}

#[test]
fn a_page_is_well_formed_and_loads_nothing() {
    let page = page(&example_groups());
    assert_well_formed(&page);
    assert!(page.contains("&lt;b&gt;measured&lt;/b&gt; &amp; frozen") && !page.contains("<b>measured"));
    for forbidden in ["http:", "https:", "url(", "@import", "href", "src=\"/", "fetch", "XMLHttp"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let pictures = page.matches("src=\"").count();
    assert_eq!(pictures, page.matches("src=\"data:image/png;base64,").count());
    assert_eq!(pictures, 9);
}

#[test]
fn every_figure_comes_from_the_records_or_the_papers() {
    let groups = example_groups();
    let page = page(&groups);
    let mut known: Vec<String> = Vec::new();
    for point in &groups[0].points {
        let record = &point.record;
        let compared = record.compared;
        let counts = [compared.counts.comparisons, compared.counts.gated_values, compared.before];
        known.extend(counts.map(grouped));
        known.extend([point.number, record.seed as usize].map(|number| number.to_string()));
        known.extend([format!("{:.1}", record.macs as f64 / 1e6), format!("{:.2}", record.float_accuracy)]);
        known.push(format!("{:.3}", compared.accuracy_per_thousand));
        known.extend(record.integer_accuracy.map(|accuracy| format!("{accuracy:.2}")));
        known.extend(record.integer_images.map(|images| images.to_string()));
        for timing in &record.private {
            known.extend([format!("{:.1}", 1e3 * timing.online_s), format!("{:.3}", timing.offline_s)]);
            let bytes = [timing.online_bytes, timing.offline_bytes, timing.total_bytes()].into_iter();
            let bytes = bytes.chain(timing.first_offline_bytes).chain(timing.further_offline_bytes);
            known.extend(bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1e6)));
            known.extend([timing.threads, timing.repeat].map(|count| count.to_string()));
            known.extend(timing.protocol_version.map(|version| version.to_string()));
            known.extend(timing.link.split([' ', ',']).map(str::to_owned));
        }
        for layer in point.detail.iter().flat_map(|detail| &detail.layers) {
            known.extend([layer.before, layer.after].map(|count| count.to_string()));
        }
    }
    for point in reproduce::published(groups[0].data) {
        known.extend([point.printed_relus, point.accuracy.to_string()]);
        known.extend(point.latency.map(|latency| latency.to_string()));
        // Names such as `2x5x3x m=16, reuse 4`, `Table 5`, `He et al., 2020`.
        known.extend(
            format!("{} {} {}", point.row, point.place, point.paper).split([' ', ',']).map(str::to_owned),
        );
    }
    let shown = figures(&page);
    assert!(shown.len() > 100, "{} figures", shown.len());
    for figure in &shown {
        assert!(known.contains(figure), "{figure} is nobody's");
    }
    // And the other way round: what was recorded is shown.
    let recorded = ["71.15", "71.03", "10000", "26,112", "52,226", "555.5", "21.3", "264.0", "0.456", "14.3"];
    for figure in recorded.into_iter().chain(["51.0", "65.3", "31.8", "19.0", "8.8", "4.7"]) {
        assert!(shown.iter().any(|other| other == figure), "{figure}");
    }
}

#[test]
fn what_was_not_measured_says_so() {
    let run = RunRecord { record: example("plain", 1000, 50.0), checkpoint: None, mask: None };
    let page = page(&groups(vec![run]).unwrap());
    assert_well_formed(&page);
    assert!(page.contains("not measured: <code>sordino bench private"));
    // Integers, online, offline, three counts of bytes, and where.
    assert_eq!(page.matches(">not measured</td>").count(), 7);
    assert!(!page.contains("bytes in all</h3>"));
}

#[test]
fn shared_signs_are_counted_apart_and_versions_drawn_apart() {
    let page = page(&example_groups());
    assert!(page.contains("<th>comparisons</th><th>gated values</th>") && !page.contains("<th>ReLUs before"));
    assert!(page.contains("26,113 comparisons and 52,226 gated values, 71.16%"));
    assert!(page.contains("several versions of the protocol (protocol 4 or 5, protocol 2)"));
    for name in ["measured online: protocol 4 or 5, loopback", "measured bytes: protocol 2, loopback"] {
        assert!(page.contains(name), "{name}");
    }
    // Beaten by nobody who was measured alike.
    assert!(page.contains(">comparisons, time, bytes</td>"));
    let run = RunRecord { record: example("plain", 1000, 50.0), checkpoint: None, mask: None };
    let plain = super::page(&groups(vec![run]).unwrap());
    assert!(
        plain.contains("<th>ReLUs</th>")
            && !plain.contains("comparisons")
            && !plain.contains("several versions")
    );
}

#[test]
fn held_out_accuracies_are_not_set_beside_the_papers() {
    let mut record = example("held out", 1000, 50.0);
    (record.test_accuracy, record.measured_on) = (None, "held-out".to_owned());
    let page = page(&groups(vec![RunRecord { record, checkpoint: None, mask: None }]).unwrap());
    assert!(!page.contains("The papers' points") && page.contains("held-out images"));
}
