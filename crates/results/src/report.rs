//! Logs as one HTML page with curves: self-contained, light and dark, no scripts, nothing loaded from elsewhere.

pub(crate) mod chart;

use std::fmt::Write;

use chart::{Chart, Curve};
use recipes::log::{Epoch, Event, Start, Tried};

/// The log of one run, to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What to call it.
    pub name: String,
    /// What happened.
    pub events: Vec<Event>,
}

impl Run {
    fn start(&self) -> Option<&Start> {
        self.events.iter().find_map(|event| if let Event::Start(start) = event { Some(start) } else { None })
    }

    fn epochs(&self) -> impl Iterator<Item = &Epoch> {
        self.events
            .iter()
            .filter_map(|event| if let Event::Epoch(epoch) = event { Some(epoch) } else { None })
    }

    /// The results, where the run ended; what the last tried epoch gave otherwise.
    fn results(&self) -> Vec<&Tried> {
        for event in self.events.iter().rev() {
            match event {
                Event::End(end) => return end.results.iter().collect(),
                Event::Epoch(Epoch { tried: Some(tried), .. }) => return vec![tried],
                _ => {}
            }
        }
        Vec::new()
    }

    fn curve(&self, value: impl Fn(&Epoch) -> Option<f64>) -> Vec<(f64, f64)> {
        self.epochs().filter_map(|epoch| Some((f64::from(epoch.epoch), value(epoch)?))).collect()
    }
}

/// The page.
pub fn page(runs: &[Run]) -> String {
    let mut page = format!("{HEAD}{STYLE}");
    let title = if let [run] = runs { escape(&run.name) } else { format!("{} runs", runs.len()) };
    let _ = write!(page, "<title>{title} · Sordino</title></head><body><main>\n<h1>{title}</h1>\n");
    page.push_str(&table(runs));
    let accuracy = |epoch: &Epoch| epoch.tried.as_ref().map(|tried| 100.0 * tried.accuracy);
    page.push_str(&chart("Accuracy on images it did not learn from, %", runs, accuracy));
    page.push_str(&chart("Accuracy while learning, %", runs, |epoch| Some(100.0 * epoch.training_accuracy)));
    page.push_str(&chart("Loss", runs, |epoch| Some(epoch.loss)));
    page.push_str(&chart("Learning rate", runs, |epoch| Some(epoch.learning_rate)));
    page.push_str("</main></body></html>\n");
    page
}

fn chart(title: &str, runs: &[Run], value: impl Fn(&Epoch) -> Option<f64> + Copy) -> String {
    let curves: Vec<Curve> =
        runs.iter().map(|run| Curve { name: escape(&run.name), points: run.curve(value) }).collect();
    format!("<h2>{title}</h2>\n{}\n", Chart { curves }.svg())
}

fn table(runs: &[Run]) -> String {
    let mut text = String::from(
        "<div class=scroll><table><tr><th></th><th>run</th><th>network</th><th>ReLUs</th><th>data</th><th>epochs</th>\
         <th>device</th><th>seed</th><th>images/s</th><th>result</th></tr>\n",
    );
    for (index, run) in runs.iter().enumerate() {
        let start = run.start();
        let done = run.epochs().map(|epoch| epoch.epoch).max().unwrap_or(0);
        let planned = start.map_or(done, |start| start.epochs);
        let speed = run.epochs().map(|epoch| epoch.images_per_second).fold(0.0, f64::max);
        let results: Vec<String> = run
            .results()
            .iter()
            .map(|tried| format!("{:.2}% of {} {}", 100.0 * tried.accuracy, tried.images, escape(&tried.on)))
            .collect();
        let cell = |value: Option<String>| value.unwrap_or_default();
        let _ = writeln!(
            text,
            "<tr><td><i class=key style=\"background:var(--c{})\"></i></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{done} of {planned}</td><td>{}</td><td>{}</td><td>{speed:.0}</td><td>{}</td></tr>",
            index % chart::COLORS,
            escape(&run.name),
            cell(start.map(|start| escape(&start.network))),
            cell(start.map(|start| start.relus.to_string())),
            cell(start.map(|start| escape(&start.data))),
            cell(start.map(|start| escape(&start.device))),
            cell(start.map(|start| start.seed.to_string())),
            results.join(", "),
        );
    }
    text.push_str("</table></div>\n");
    text
}

/// Text that a page shows as it is.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

const HEAD: &str = "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
<meta name=viewport content=\"width=device-width,initial-scale=1\">\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";

/// Light and dark, for every page.
pub(crate) const STYLE: &str = "<style>
:root{color-scheme:light dark;--ink:#1c1e21;--faint:#6b7078;--line:#d9dce1;--paper:#fff;
--c0:#0b66c3;--c1:#c2410c;--c2:#15803d;--c3:#7e22ce;--c4:#b91c5c;--c5:#0e7490;--c6:#854d0e;--c7:#4b5563}
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--faint:#9aa1ab;--line:#343941;--paper:#15181c;
--c0:#6cb2ff;--c1:#ff9b6a;--c2:#6fdc93;--c3:#cf9bff;--c4:#ff8ab8;--c5:#67d4e8;--c6:#e0b56a;--c7:#b4bbc6}}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:960px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.5rem;margin:0 0 16px}h2{font-size:1.05rem;margin:28px 0 6px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--faint);font-weight:500}.key{display:inline-block;width:14px;height:4px;border-radius:2px}
svg{width:100%;height:auto;display:block}svg text{fill:var(--faint);font:12px system-ui,sans-serif}
.grid{stroke:var(--line);stroke-width:1}.curve{fill:none;stroke-width:2;stroke-linejoin:round}
p{color:var(--faint)}
@media(max-width:640px){svg text{font-size:22px}}
</style>";

#[cfg(test)]
mod tests {
    use super::*;
    use recipes::log::End;

    fn run(name: &str) -> Run {
        let epoch = |number: u32| {
            let tried =
                Tried { on: "test".into(), accuracy: 0.2 * f64::from(number), images: 100, loss: 1.0 };
            Event::Epoch(Epoch {
                epoch: number,
                learning_rate: 0.1,
                loss: 3.0 / f64::from(number),
                training_accuracy: 0.3,
                images_per_second: 1234.0,
                seconds: 1.0,
                tried: (number != 2).then_some(tried),
            })
        };
        let end = End {
            results: vec![Tried { on: "test".into(), accuracy: 0.6, images: 100, loss: 1.0 }],
            seconds: 3.0,
        };
        Run { name: name.to_owned(), events: vec![epoch(1), epoch(2), epoch(3), Event::End(end)] }
    }

    #[test]
    fn a_page_shows_every_run_and_loads_nothing() {
        let page = page(&[run("first"), run("<script>second")]);
        assert!(page.contains("60.00% of 100 test") && page.contains("3 of 3"));
        assert!(page.contains("&lt;script&gt;second") && !page.contains("<script"));
        for forbidden in ["http://", "https://", "src=\"", "url(", "@import", "href"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<polyline").count(), 8);
    }

    #[test]
    fn an_empty_run_gives_a_page_too() {
        let page = page(&[Run { name: "empty".into(), events: Vec::new() }]);
        assert!(page.contains("no figures yet") && page.contains("0 of 0"));
    }
}
