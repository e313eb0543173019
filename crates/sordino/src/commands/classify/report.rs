//! What the client learned, for people and as JSON.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use inference::client::Answer;
use inference::plan::Reveal;
use inference::transcript::Phase;
use network::inference_model::ModelOutline;
use serde::Serialize;

use client::{Cost, PrivateClient};

use super::Arguments;
use crate::commands::rates::KnownRates;
use crate::commands::write_json;
use crate::report::{path_as_text, path_text, softmax};

/// What all images together took so far.
pub(super) struct Totals {
    pub(super) cost: Cost,
    /// Whether the cost is that of a link that was named or measured.
    is_link_known: bool,
    /// All that were asked about.
    images: u64,
    pub(super) wall: Duration,
    pub(super) online: Duration,
    /// What sessions before this one sent and received.
    earlier: [u64; 2],
}

impl Totals {
    pub(super) fn new(cost: Cost, is_link_known: bool, images: u64) -> Self {
        Self { cost, is_link_known, images, wall: Duration::ZERO, online: Duration::ZERO, earlier: [0; 2] }
    }

    /// Counts what a session took that another one follows.
    pub(super) fn end_session(&mut self, client: &mut PrivateClient) {
        let [up, down] = bytes_of(client);
        self.earlier = [self.earlier[0] + up, self.earlier[1] + down];
    }
}

/// Bytes up and down of a session.
fn bytes_of(client: &mut PrivateClient) -> [u64; 2] {
    let transcript = client.session_mut().connection().transcript();
    let phases = [Phase::SetUp, Phase::Offline, Phase::Online, Phase::Service];
    let traffic = phases.map(|phase| transcript.phase(phase));
    [traffic.iter().map(|phase| phase.bytes_up).sum(), traffic.iter().map(|phase| phase.bytes_down).sum()]
}

/// An image that cannot be used, and why.
#[derive(Serialize)]
pub(super) struct Skipped {
    #[serde(serialize_with = "path_as_text")]
    pub(super) file: PathBuf,
    pub(super) error: String,
}

/// Says what is learned: for people as it comes, or as JSON.
pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    form: Form,
    top: u64,
    answered: usize,
    /// Kept for the object at the end.
    images: Vec<ImageReport>,
    skipped: Vec<Skipped>,
}

/// Above the first answer in text, as wide as its columns.
const HEADING: &str = "  probability     logit  class";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    /// One object at the end.
    Json,
    /// An object a line.
    JsonLines,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        out: &'a mut dyn Write,
        arguments: &Arguments,
        skipped: Vec<Skipped>,
    ) -> anyhow::Result<Self> {
        let form = match (arguments.json, arguments.json_lines) {
            (true, _) => Form::Json,
            (_, true) => Form::JsonLines,
            _ => Form::Text,
        };
        if form == Form::JsonLines {
            skipped.iter().try_for_each(|skipped| write_line(out, skipped))?;
        }
        Ok(Self { out, form, top: arguments.top, answered: 0, images: Vec::new(), skipped })
    }

    /// How many answers there were.
    pub(super) fn answered(&self) -> usize {
        self.answered
    }

    /// Says one answer, or keeps it for the end.
    pub(super) fn print(
        &mut self,
        path: &Path,
        answer: &Answer,
        client: &PrivateClient,
    ) -> anyhow::Result<()> {
        if self.form == Form::Text && self.answered == 0 && client.reveal() == Reveal::Logits {
            writeln!(self.out, "{HEADING}")?;
        }
        self.answered += 1;
        let image = ImageReport::new(path, answer, client.outline(), self.top);
        match self.form {
            Form::Text => image.write(self.out)?,
            Form::JsonLines => write_line(self.out, &image)?,
            Form::Json => self.images.push(image),
        }
        Ok(())
    }

    /// What was said so far is seen.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.out.flush()?)
    }

    /// Says what is said once. True where images were passed over.
    pub(super) fn finish(
        self,
        client: &mut PrivateClient,
        totals: &Totals,
        failure: Option<&anyhow::Error>,
    ) -> anyhow::Result<bool> {
        let has_skipped = !self.skipped.is_empty();
        match self.form {
            Form::Json => {
                let mut report = Report::new(client, totals, self.images, self.skipped);
                report.failure = failure.map(|failure| format!("{failure:#}"));
                write_json(self.out, &report)?;
            }
            Form::JsonLines => {}
            Form::Text => {
                if failure.is_none() && client.reveal() == Reveal::Class {
                    let text =
                        "The server reveals the class alone, so there are no scores and no second guesses.";
                    writeln!(self.out, "{text}")?;
                }
                if has_skipped {
                    let (skipped, all) = (self.skipped.len(), self.skipped.len() + self.answered);
                    writeln!(self.out, "{skipped} of {all} images could not be used and were skipped.")?;
                }
            }
        }
        self.out.flush()?;
        Ok(has_skipped)
    }
}

fn write_line(out: &mut dyn Write, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    model: String,
    reveals: &'static str,
    outline_digest: String,
    weight_commitment: String,
    images: Vec<ImageReport>,
    /// Images that could not be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<Skipped>,
    /// Why there are no more answers, where something ended it early.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    bytes_up: u64,
    bytes_down: u64,
    predicted_bytes: u64,
    wall_s: f64,
    online_wall_s: f64,
    /// Computing, and the link where it is known.
    predicted_s: f64,
    /// Absent where so little was sent that nobody measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    link_down_mbps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_up_mbps: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link_round_trip_ms: Option<f64>,
}

#[derive(Serialize)]
struct ImageReport {
    #[serde(serialize_with = "path_as_text")]
    file: PathBuf,
    best: Vec<Guess>,
}

#[derive(Serialize)]
struct Guess {
    class: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The logit; none where the server reveals the class alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    logit: Option<f64>,
    /// Its part in the softmax of all logits.
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
}

impl ImageReport {
    fn new(path: &Path, answer: &Answer, outline: &ModelOutline, top: u64) -> Self {
        let name = |class| outline.class_name(class).map(str::to_owned);
        let best = match answer {
            Answer::Class(class) => {
                vec![Guess { class: *class, name: name(*class), logit: None, probability: None }]
            }
            Answer::Logits(logits) => {
                let unit = (-(outline.logit_fraction() as f64)).exp2();
                let probabilities = softmax(logits, unit);
                let mut order: Vec<_> = logits.iter().enumerate().collect();
                // Of equals the lowest number comes first, as the sort is stable.
                order.sort_by_key(|(_, logit)| std::cmp::Reverse(**logit));
                let guess = |(class, logit): (usize, &i64)| Guess {
                    class,
                    name: name(class),
                    logit: Some(*logit as f64 * unit),
                    probability: Some(probabilities[class]),
                };
                order.into_iter().take(usize::try_from(top).unwrap_or(usize::MAX)).map(guess).collect()
            }
        };
        Self { file: path.to_owned(), best }
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{}", path_text(&self.file))?;
        for guess in &self.best {
            let name = guess.name.clone().unwrap_or_else(|| format!("class {}", guess.class));
            match (guess.probability, guess.logit) {
                (Some(probability), Some(logit)) => {
                    writeln!(out, "  {:>10.1}%  {logit:8.2}  {name}", 100.0 * probability)?;
                }
                _ => writeln!(out, "  {name}")?,
            }
        }
        Ok(())
    }
}

impl Report {
    fn new(
        client: &mut PrivateClient,
        totals: &Totals,
        images: Vec<ImageReport>,
        skipped: Vec<Skipped>,
    ) -> Self {
        let Totals { cost, is_link_known, images: asked, wall, online, earlier } = totals;
        let (all, rates) = (cost.for_images(*asked), KnownRates::load().rates);
        let link = |of: fn(&Cost) -> f64| is_link_known.then(|| of(cost));
        let (model, reveal) = (client.model().to_owned(), client.reveal());
        let [bytes_up, bytes_down] = bytes_of(client);
        let agreement = client.session_mut().agreement();
        Self {
            model,
            reveals: if reveal == Reveal::Class { "class" } else { "logits" },
            outline_digest: agreement.outline.to_string(),
            weight_commitment: agreement.commitment.to_string(),
            bytes_up: earlier[0] + bytes_up,
            bytes_down: earlier[1] + bytes_down,
            predicted_bytes: all.bytes(),
            predicted_s: (all.offline_time(&rates) + all.online_time(&rates)).as_secs_f64(),
            images,
            skipped,
            failure: None,
            wall_s: wall.as_secs_f64(),
            online_wall_s: online.as_secs_f64(),
            link_down_mbps: link(|cost| cost.link.down * 8e-6),
            link_up_mbps: link(|cost| cost.link.up * 8e-6),
            link_round_trip_ms: link(|cost| cost.link.round_trip.as_secs_f64() * 1e3),
        }
    }
}
