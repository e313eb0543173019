//! What the demo shows: a table for people, an object for programs.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use inference::client::Answer as Learned;
use network::cost::{Cost, Counts};
use network::inference_model::ModelOutline;
use network::zoo;
use serde::Serialize;

use super::Sample;
use crate::commands::Answer;
use crate::report::{Table, grouped, path_text, percent, softmax};

#[derive(Debug, Serialize)]
pub(super) struct Report {
    model: String,
    #[serde(flatten)]
    counts: Counts,
    /// ReLUs of the network before any was dropped, where signs are not shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    relus_of: Option<u64>,
    images: Vec<ImageReport>,
}

#[derive(Debug, Serialize)]
pub(super) struct ImageReport {
    file: String,
    expected: Option<&'static str>,
    class: String,
    /// The logits equal the reference with the same shares, and the class that of plain rounding.
    equal_to_plaintext: bool,
    /// To the logits of plain rounding.
    max_logit_difference: f64,
    online_ms: f64,
    offline_s: f64,
    bytes: u64,
    #[serde(skip)]
    confidence: f64,
}

impl ImageReport {
    /// What was learned of an image, beside its logits with plain rounding.
    pub(super) fn new(
        sample: &Sample,
        outline: &ModelOutline,
        answer: &Learned,
        plain: &[i64],
        is_close: bool,
    ) -> anyhow::Result<Self> {
        let Learned::Logits(logits) = answer else {
            bail!("the class alone came, the logits were asked for");
        };
        let class = answer.class();
        let unit = (-outline.logit_fraction() as f64).exp2();
        let farthest = logits.iter().zip(plain).map(|(ours, plain)| ours.abs_diff(*plain)).max();
        Ok(Self {
            file: sample.file.clone(),
            expected: sample.expected,
            class: outline.class_name(class).map_or_else(|| format!("class {class}"), str::to_owned),
            equal_to_plaintext: is_close && class == Learned::Logits(plain.to_vec()).class(),
            max_logit_difference: farthest.unwrap_or(0) as f64 * unit,
            online_ms: 0.0,
            offline_s: 0.0,
            bytes: 0,
            confidence: softmax(logits, unit).into_iter().fold(0.0, f64::max),
        })
    }

    pub(super) fn measured(self, online: Duration, offline: Duration, bytes: u64) -> Self {
        let (online_ms, offline_s) = (online.as_secs_f64() * 1e3, offline.as_secs_f64());
        Self { online_ms, offline_s, bytes, ..self }
    }

    fn is_expected(&self) -> bool {
        self.expected.is_some_and(|expected| expected == self.class)
    }
}

impl Report {
    pub(super) fn new(model: &str, outline: &ModelOutline, images: Vec<ImageReport>) -> Self {
        let counts = outline.counts();
        let relus_of = (!counts.shares_signs()).then(|| relus_before(outline).unwrap_or(counts.comparisons));
        Self { model: model.to_owned(), counts, relus_of, images }
    }

    pub(super) fn answer(&self) -> Answer {
        if self.images.iter().all(|image| image.equal_to_plaintext) { Answer::Yes } else { Answer::No }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let of =
            self.relus_of.map(|of| format!(" of {} ({})", grouped(of), percent(self.counts.comparisons, of)));
        writeln!(out, "{}: {}{}\n", self.model, self.counts, of.unwrap_or_default())?;
        self.table().write(out)?;
        writeln!(out)?;
        let count = self.images.len();
        let with_expectation = self.images.iter().filter(|image| image.expected.is_some()).count();
        if with_expectation > 0 {
            let right = self.images.iter().filter(|image| image.is_expected()).count();
            writeln!(out, "{right} of {with_expectation} answers are what a person would say.")?;
        }
        let equal = self.images.iter().filter(|image| image.equal_to_plaintext).count();
        let farthest = self.images.iter().map(|image| image.max_logit_difference).fold(0.0, f64::max);
        writeln!(
            out,
            "{equal} of {count} are those of the network in the clear; logits differ by at most {farthest:.2}, by rounding."
        )?;
        writeln!(
            out,
            "Client and server were two processes over TLS. The server saw neither the images nor the answers."
        )?;
        writeln!(out, "\n{NEXT}")?;
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "<image",
            "<expected",
            "<answer",
            "sure",
            "<as in plain",
            "online",
            "offline",
            "bytes",
        ]);
        for image in &self.images {
            table.row(vec![
                path_text(Path::new(&image.file)),
                image.expected.unwrap_or("-").to_owned(),
                image.class.clone(),
                format!("{:.0}%", 100.0 * image.confidence),
                if image.equal_to_plaintext { "yes" } else { "NO" }.to_owned(),
                format!("{:.0} ms", image.online_ms),
                format!("{:.2} s", image.offline_s),
                format!("{:.0} MB", image.bytes as f64 / 1e6),
            ]);
        }
        table
    }
}

/// The ReLUs of the network as named: a frozen network's name ends with what was done to it, in parentheses.
fn relus_before(outline: &ModelOutline) -> Option<u64> {
    let name = outline.name.split(" (").next()?;
    let spec = zoo::build(name, outline.input.height, outline.classes).ok()?;
    Some(Cost::of(&spec).relus).filter(|relus| *relus >= outline.relu_count())
}

const NEXT: &str = "Next:
  sordino demo cat.jpg                               your own images; --model takes any of models/
  sordino inspect resnet18 --relus 50000 --private   what a network costs in private, before anything runs
  sordino serve models/hybrenet-26k-cifar100.sordino a server; `sordino classify` asks it from another terminal";

#[cfg(test)]
mod tests {
    use super::*;

    fn image(class: &str, equal_to_plaintext: bool) -> ImageReport {
        ImageReport {
            file: "a.jpg".into(),
            expected: Some("cup"),
            class: class.into(),
            equal_to_plaintext,
            max_logit_difference: 0.25,
            online_ms: 20.0,
            offline_s: 0.1,
            bytes: 64_000_000,
            confidence: 0.5,
        }
    }

    #[test]
    fn one_answer_that_differs_is_a_negative_answer() {
        let report = |images| Report {
            model: "m".into(),
            counts: Counts { comparisons: 1, gated_values: 0 },
            relus_of: Some(4),
            images,
        };
        assert_eq!(report(vec![image("cup", true), image("plate", true)]).answer(), Answer::Yes);
        let report = report(vec![image("cup", true), image("cup", false)]);
        assert_eq!(report.answer(), Answer::No);
        let mut text = Vec::new();
        report.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in ["1 ReLU of 4 (25.0%)", " NO ", "2 of 2 answers", "1 of 2 are those", "64 MB"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
