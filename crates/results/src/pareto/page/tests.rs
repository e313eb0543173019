use super::*;
use crate::pareto::{Detail, groups};
use crate::record::tests::{example, timing};
use crate::{FrozenModel, RunRecord};
use network::zoo;

fn example_groups() -> Vec<Group> {
    let mut measured = example("<b>measured</b> & frozen", 26_112, 71.15);
    measured.note_model(FrozenModel { file: "m.sordino".into(), digest: "m".into() }, 71.03, 10_000);
    measured.note_timing(timing(0.0213, "loopback", "m"));
    measured.note_timing(timing(0.264, "1000 Mb/s, 20 ms round trip", "m"));
    let records = [measured, example("plain", 557_056, 78.86), example("beaten", 600_000, 70.01)];
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
        known.extend([point.number.to_string(), record.seed.to_string(), grouped(record.relus)]);
        known.extend([grouped(record.relus_before), format!("{:.1}", record.macs as f64 / 1e6)]);
        known.extend([
            format!("{:.2}", record.float_accuracy),
            format!("{:.3}", record.accuracy_per_kilorelu),
        ]);
        known.extend(record.integer_accuracy.map(|accuracy| format!("{accuracy:.2}")));
        known.extend(record.integer_images.map(|images| images.to_string()));
        for timing in &record.private {
            known.extend([format!("{:.1}", 1e3 * timing.online_s), format!("{:.3}", timing.offline_s)]);
            known.extend(
                [timing.online_bytes, timing.offline_bytes].map(|bytes| format!("{:.1}", bytes as f64 / 1e6)),
            );
            known.extend([timing.threads, timing.repeat].map(|count| count.to_string()));
            known.extend(timing.link.split([' ', ',']).map(str::to_owned));
        }
        for layer in point.detail.iter().flat_map(|detail| &detail.layers) {
            known.extend([layer.before, layer.after].map(|count| count.to_string()));
        }
    }
    for point in reproduce::published(groups[0].data) {
        known.extend([point.printed_relus, point.accuracy.to_string()]);
        known.extend(point.latency.map(|latency| latency.to_string()));
        // Names such as `2x5x3x m=16, reuse 4`, `Table 5`.
        known.extend(format!("{} {}", point.row, point.place).split([' ', ',']).map(str::to_owned));
    }
    let shown = figures(&page);
    assert!(shown.len() > 100, "{} figures", shown.len());
    for figure in &shown {
        assert!(known.contains(figure), "{figure} is nobody's");
    }
    // And the other way round: what was recorded is shown.
    for figure in ["71.15", "71.03", "10000", "26,112", "555.5", "21.3", "264.0", "0.456", "14.3", "51.0"] {
        assert!(shown.iter().any(|other| other == figure), "{figure}");
    }
}

#[test]
fn what_was_not_measured_says_so() {
    let run = RunRecord { record: example("plain", 1000, 50.0), checkpoint: None, mask: None };
    let page = page(&groups(vec![run]).unwrap());
    assert_well_formed(&page);
    assert!(page.contains("not measured: <code>sordino bench private"));
    // Integers, online, offline, two counts of bytes, and where.
    assert_eq!(page.matches(">not measured</td>").count(), 6);
}

#[test]
fn held_out_accuracies_are_not_set_beside_the_papers() {
    let mut record = example("held out", 1000, 50.0);
    (record.test_accuracy, record.measured_on) = (None, "held-out".to_owned());
    let page = page(&groups(vec![RunRecord { record, checkpoint: None, mask: None }]).unwrap());
    assert!(!page.contains("The papers' points") && page.contains("held-out images"));
}
