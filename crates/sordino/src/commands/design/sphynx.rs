//! `sordino design sphynx`: channels and cells of a Sphynx network for a budget.

use std::io::Write;

use clap::Args;
use network::design::{SPHYNX_TOLERANCE, sphynx_choices};
use serde::Serialize;

use crate::commands::{Answer, write_json};
use crate::report::{Table, grouped};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// How many ReLUs there should be, up to 3% more or less.
    #[arg(long, value_name = "RELUS", value_parser = super::relu_count)]
    budget: u64,
    /// Side of the input image.
    #[arg(long, default_value_t = 32, value_name = "PIXELS")]
    input: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SphynxLine {
    network: String,
    channels: u64,
    depth: u64,
    relus: u64,
    deviation: f64,
    is_published: bool,
}

impl Arguments {
    /// What "more or less" means here.
    fn tolerance(&self, lines: &[SphynxLine]) -> String {
        let (budget, tolerance) = (grouped(self.budget), 100.0 * SPHYNX_TOLERANCE);
        match lines.iter().any(|line| line.deviation.abs() <= SPHYNX_TOLERANCE) {
            true => format!("up to {tolerance}% more or less than {budget} ReLUs are listed"),
            false => {
                format!(
                    "no network is within {tolerance}% of {budget} ReLUs; the one that a search takes is listed"
                )
            }
        }
    }

    pub(super) fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let lines: Vec<_> = sphynx_choices(self.budget, self.input)?
            .into_iter()
            .map(|choice| SphynxLine {
                network: format!("sphynx:c={},d={}", choice.channels, choice.depth),
                channels: choice.channels,
                depth: choice.depth,
                relus: choice.relus,
                deviation: choice.deviation,
                is_published: choice.published_reduce.is_some(),
            })
            .collect();
        let found = if lines.is_empty() { Answer::No } else { Answer::Yes };
        if self.json {
            write_json(out, &lines)?;
            return Ok(found);
        }
        if lines.is_empty() {
            writeln!(
                out,
                "no Sphynx network of three or more cells has {} ReLUs or fewer",
                grouped(self.budget)
            )?;
            return Ok(found);
        }
        let mut table = Table::new(&["<network", "ReLUs", "from budget", "<published"]);
        for line in &lines {
            let published = if line.is_published { "yes" } else { "" };
            let deviation = format!("{:+.1}%", 100.0 * line.deviation);
            table.row(vec![line.network.clone(), grouped(line.relus), deviation, published.to_owned()]);
        }
        table.write(out)?;
        writeln!(out, "\n{}", self.tolerance(&lines))?;
        Ok(found)
    }
}
