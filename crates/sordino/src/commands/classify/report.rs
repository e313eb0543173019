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

/// What `--json` prints.
#[derive(Serialize)]
pub(super) struct Report {
    model: String,
    reveals: &'static str,
    outline_digest: String,
    weight_commitment: String,
    images: Vec<ImageReport>,
    bytes_up: u64,
    bytes_down: u64,
    predicted_bytes: u64,
    wall_s: f64,
    online_wall_s: f64,
    link_down_mbps: f64,
    link_up_mbps: f64,
    link_round_trip_ms: f64,
}

#[derive(Serialize)]
pub(super) struct ImageReport {
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
}

impl ImageReport {
    pub(super) fn new(path: &Path, answer: &Answer, outline: &ModelOutline, top: usize) -> Self {
        let name = |class| outline.class_name(class).map(str::to_owned);
        let best = match answer {
            Answer::Class(class) => vec![Guess { class: *class, name: name(*class), logit: None }],
            Answer::Logits(logits) => {
                let unit = (-(outline.logit_fraction() as f64)).exp2();
                let mut order: Vec<_> = logits.iter().enumerate().collect();
                // Of equals the lowest number comes first, as the sort is stable.
                order.sort_by_key(|(_, logit)| std::cmp::Reverse(**logit));
                let guess = |(class, logit): (usize, &i64)| Guess {
                    class,
                    name: name(class),
                    logit: Some(*logit as f64 * unit),
                };
                order.into_iter().take(top.max(1)).map(guess).collect()
            }
        };
        Self { file: path.to_owned(), best }
    }
}

impl Report {
    pub(super) fn new(
        client: &mut PrivateClient,
        cost: &Cost,
        wall: Duration,
        online: Duration,
        images: Vec<ImageReport>,
    ) -> Self {
        let (model, reveal) = (client.model().to_owned(), client.reveal());
        let session = client.session_mut();
        let agreement = session.agreement();
        let transcript = session.connection().transcript();
        let phases = [Phase::SetUp, Phase::Offline, Phase::Online, Phase::Service];
        let sum = |of: fn(inference::transcript::Traffic) -> u64| {
            phases.into_iter().map(|phase| of(transcript.phase(phase))).sum()
        };
        Self {
            model,
            reveals: if reveal == Reveal::Class { "class" } else { "logits" },
            outline_digest: agreement.outline.to_string(),
            weight_commitment: agreement.commitment.to_string(),
            bytes_up: sum(|traffic| traffic.bytes_up),
            bytes_down: sum(|traffic| traffic.bytes_down),
            predicted_bytes: cost.bytes() * images.len() as u64,
            images,
            wall_s: wall.as_secs_f64(),
            online_wall_s: online.as_secs_f64(),
            link_down_mbps: cost.link.down * 8e-6,
            link_up_mbps: cost.link.up * 8e-6,
            link_round_trip_ms: cost.link.round_trip.as_secs_f64() * 1e3,
        }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        for image in &self.images {
            writeln!(out, "{}", image.file.display())?;
            for guess in &image.best {
                let name = guess.name.clone().unwrap_or_else(|| format!("class {}", guess.class));
                match guess.logit {
                    Some(logit) => writeln!(out, "  {logit:8.2}  {name}")?,
                    None => writeln!(out, "  {name}")?,
                }
            }
        }
        if self.reveals == "class" {
            writeln!(
                out,
                "The server reveals the class alone, so there are no scores and no second guesses."
            )?;
        }
        Ok(())
    }
}
