//! Logs as one HTML page with curves: self-contained, light and dark, no scripts, nothing loaded from elsewhere.

pub(crate) mod chart;
mod search;
mod wiring;

use askama::Template;
use recipes::log::{Epoch, Event, Start, Tried};

use chart::{Chart, Curve};

pub use search::SearchReport;

/// The log of one run, to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRun {
    /// What to call it.
    pub name: String,
    /// What happened.
    pub events: Vec<Event>,
}

impl LoggedRun {
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

/// The page of some runs.
pub fn page(runs: &[LoggedRun]) -> String {
    let accuracy = |epoch: &Epoch| epoch.tried.as_ref().map(|tried| 100.0 * tried.accuracy);
    let page = Page {
        title: if let [run] = runs { run.name.clone() } else { format!("{} runs", runs.len()) },
        rows: runs.iter().zip((0..chart::COLORS).cycle()).map(Row::new).collect(),
        charts: [
            ("Accuracy on images it did not learn from, %", chart(runs, accuracy)),
            ("Accuracy while learning, %", chart(runs, |epoch| Some(100.0 * epoch.training_accuracy))),
            ("Loss", chart(runs, |epoch| Some(epoch.loss))),
            ("Learning rate", chart(runs, |epoch| Some(epoch.learning_rate))),
        ],
    };
    page.render().expect("the template writes into memory alone")
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    title: String,
    rows: Vec<Row<'a>>,
    /// Titles and drawings.
    charts: [(&'static str, String); 4],
}

/// One run in the table.
struct Row<'a> {
    color: usize,
    run: &'a LoggedRun,
    /// Epochs done, and those that were to be done.
    done: u32,
    planned: u32,
    /// Images per second, at best.
    speed: String,
    results: String,
}

impl<'a> Row<'a> {
    fn new((run, color): (&'a LoggedRun, usize)) -> Self {
        let done = run.epochs().map(|epoch| epoch.epoch).max().unwrap_or(0);
        let speed = run.epochs().map(|epoch| epoch.images_per_second).fold(0.0, f64::max);
        let result =
            |tried: &&Tried| format!("{:.2}% of {} {}", 100.0 * tried.accuracy, tried.images, tried.on);
        let results: Vec<String> = run.results().iter().map(result).collect();
        Self {
            color,
            run,
            done,
            planned: run.start().map_or(done, |start| start.epochs),
            speed: format!("{speed:.0}"),
            results: results.join(", "),
        }
    }
}

fn chart(runs: &[LoggedRun], value: impl Fn(&Epoch) -> Option<f64> + Copy) -> String {
    let curve = |run: &LoggedRun| Curve { name: run.name.clone(), points: run.curve(value) };
    Chart { curves: runs.iter().map(curve).collect() }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::cost::Counts;
    use recipes::log::End;

    fn run(name: &str) -> LoggedRun {
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
        let start = Event::Start(Start {
            title: String::new(),
            network: "signet".into(),
            counts: Counts { comparisons: 26_112, gated_values: 78_336 },
            parameters: 1,
            data: "the synthetic set".into(),
            images: 100,
            epochs: 3,
            seed: 1,
            device: "cpu".into(),
            precision: None,
            resumed_after: 0,
            deterministic: true,
        });
        LoggedRun {
            name: name.to_owned(),
            events: vec![start, epoch(1), epoch(2), epoch(3), Event::End(end)],
        }
    }

    #[test]
    fn a_page_shows_every_run_and_loads_nothing() {
        let page = page(&[run("first"), run("<script>second")]);
        assert!(page.contains("60.00% of 100 test") && page.contains("3 of 3"));
        assert!(
            page.contains("<td>26,112 comparisons and 78,336 gated values</td>") && !page.contains("ReLUs")
        );
        assert!(page.contains("&lt;script&gt;second") && !page.contains("<script"));
        for forbidden in ["http://", "https://", "src=\"", "url(", "@import", "href"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert_eq!(page.matches("<polyline").count(), 8);
    }

    #[test]
    fn an_empty_run_gives_a_page_too() {
        let page = page(&[LoggedRun { name: "empty".into(), events: Vec::new() }]);
        assert!(page.contains("no figures yet") && page.contains("0 of 0"));
    }
}
