//! `sordino design`: networks for a ReLU budget by the papers' rules, without training.

use std::io::Write;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use network::cost::Cost;
use network::design::{CriticalityOrder, Equalization, sphynx_choices, with_low_budget_growth};
use network::transform::{Enumeration, deepreduce_networks};
use network::zoo;
use serde::Serialize;

use super::inspect::NetworkArguments;
use super::{Answer, write_json};
use crate::report::{Table, grouped, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    method: Method,
}

#[derive(Debug, Subcommand)]
enum Method {
    /// Growth factors that put the ReLUs of all stages in criticality order (DeepReShape, Algorithm 1).
    Hybrenet(HybrenetArguments),
    /// The 5(D-1) culled, thinned and reshaped networks of DeepReDuce's pipeline.
    Deepreduce(DeepreduceArguments),
    /// Channels and cells of a Sphynx network for a budget.
    Sphynx(SphynxArguments),
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    match &arguments.method {
        Method::Hybrenet(arguments) => arguments.run(out),
        Method::Deepreduce(arguments) => arguments.run(out),
        Method::Sphynx(arguments) => arguments.run(out),
    }
}

#[derive(Debug, Args)]
struct HybrenetArguments {
    /// The network whose depths are kept.
    #[arg(long, default_value = "resnet18", value_name = "NETWORK")]
    baseline: String,
    /// All stages, most critical first.
    #[arg(long, default_value = "3,2,4,1", value_name = "STAGES")]
    criticality: String,
    /// The largest growth factor to consider.
    #[arg(long, default_value_t = 12, value_name = "FACTOR")]
    max_factor: u64,
    /// Whether widths or depths shall do it.
    #[arg(long, value_enum, default_value_t = Through::Width)]
    through: Through,
    /// Channels of the first stage, for the counts shown.
    #[arg(long, default_value_t = 16, value_name = "CHANNELS")]
    m: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Through {
    /// Channels grow by other factors; depths stay.
    Width,
    /// Blocks per stage change; channels double.
    Depth,
}

#[derive(Serialize)]
struct WidthAnswer {
    baseline: String,
    criticality: String,
    /// Every solution up to the largest factor.
    solutions: Vec<String>,
    /// The same, each open run of a factor as one family, counted for its smallest member.
    families: Vec<SizedFamily>,
    paper_choice: Vec<String>,
    low_budget: Vec<SizedNetwork>,
}

#[derive(Serialize)]
struct SizedNetwork {
    #[serde(skip)]
    growth: Vec<u64>,
    factors: String,
    network: String,
    #[serde(flatten)]
    cost: Cost,
}

#[derive(Serialize)]
struct SizedFamily {
    family: String,
    is_open: bool,
    #[serde(flatten)]
    smallest: SizedNetwork,
}

#[derive(Serialize)]
struct DepthAnswer {
    criticality: String,
    depths: Vec<u64>,
    network: String,
    #[serde(flatten)]
    cost: Cost,
}

impl HybrenetArguments {
    fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let order = CriticalityOrder::parse(&self.criticality)?;
        match self.through {
            Through::Width => self.through_width(order, out),
            Through::Depth => self.through_depth(&order, out),
        }
    }

    fn through_width(&self, order: CriticalityOrder, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let baseline = zoo::build(&self.baseline, 32, 100)?;
        let depths: Vec<u64> =
            baseline.draft().stages.iter().map(|stage| stage.blocks.len() as u64).collect();
        let equalization = Equalization::new(&depths, order)
            .with_context(|| format!("{} and the criticality order do not go together", self.baseline))?;
        let solutions = equalization.through_width(self.max_factor)?;
        let paper_choice = equalization.paper_choice(self.max_factor)?;
        let families: Vec<SizedFamily> = equalization
            .families(self.max_factor)?
            .iter()
            .map(|family| SizedFamily {
                family: family.to_string(),
                is_open: family.is_open(),
                smallest: self.sized(&family.smallest(), &depths),
            })
            .collect();
        let mut low: Vec<_> =
            families.iter().map(|family| with_low_budget_growth(&family.smallest.growth)).collect();
        low.sort();
        low.dedup();
        let answer = WidthAnswer {
            baseline: self.baseline.clone(),
            criticality: self.criticality.clone(),
            solutions: solutions.iter().map(|factors| written(factors)).collect(),
            families,
            paper_choice: paper_choice.iter().map(|factors| written(factors)).collect(),
            low_budget: low.iter().map(|factors| self.sized(factors, &depths)).collect(),
        };
        let found = if solutions.is_empty() { Answer::No } else { Answer::Yes };
        if self.json {
            write_json(out, &answer)?;
        } else {
            answer.write(out, self.m, self.max_factor)?;
        }
        Ok(found)
    }

    fn sized(&self, factors: &[u64], depths: &[u64]) -> SizedNetwork {
        let written = written(factors);
        let joined: Vec<_> = depths.iter().map(ToString::to_string).collect();
        let family = if depths.len() == 3 { "resnet20" } else { "resnet18" };
        let network = format!("{family}:m={},factors={written},depths={}", self.m, joined.join("+"));
        // A network too wide for a spec still has factors worth printing; its counts are then left at zero.
        let cost = zoo::build(&network, 32, 100).map_or_else(|_| Cost::default(), |spec| Cost::of(&spec));
        SizedNetwork { growth: factors.to_vec(), factors: written, network, cost }
    }

    fn through_depth(&self, order: &CriticalityOrder, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let factors = vec![2; order.most_to_least().len() - 1];
        let depths = Equalization::through_depth(order, &factors)?;
        let joined: Vec<_> = depths.iter().map(ToString::to_string).collect();
        let family = if depths.len() == 3 { "resnet20" } else { "resnet18" };
        let network = format!("{family}:m={},depths={}", self.m, joined.join("+"));
        let cost = Cost::of(&zoo::build(&network, 32, 100)?);
        let answer = DepthAnswer { criticality: self.criticality.clone(), depths, network, cost };
        if self.json {
            return write_json(out, &answer);
        }
        writeln!(
            out,
            "smallest depths that put ReLUs in the order {} with channels that double:",
            self.criticality
        )?;
        writeln!(out, "  {}   {} ReLUs   {}", joined.join("+"), grouped(answer.cost.relus), answer.network)?;
        writeln!(
            out,
            "\nDeepReShape appendix C.1 prints 1+5+5+3, 1+5+7+2, 1+6+6+2 and 1+7+5+2 instead; they do not"
        )?;
        writeln!(out, "satisfy its inequality and are kept as hrn-depth-1-5-5-3 and so on.")?;
        Ok(Answer::Yes)
    }
}

impl WidthAnswer {
    fn write(&self, out: &mut dyn Write, m: u64, max_factor: u64) -> anyhow::Result<()> {
        if self.solutions.is_empty() {
            writeln!(
                out,
                "no factors from 2 to {max_factor} put the stages of {} in the order {}",
                self.baseline, self.criticality
            )?;
            return Ok(());
        }
        writeln!(out, "{} with ReLUs in the order {} (counts at m={m}):\n", self.baseline, self.criticality)?;
        let mut table = Table::new(&["<growth", "ReLUs", "multiply-adds", "<paper's choice"]);
        for SizedFamily { family, smallest, .. } in &self.families {
            let is_chosen = self.paper_choice.contains(&smallest.factors);
            table.row(vec![
                family.clone(),
                grouped(smallest.cost.relus),
                short(smallest.cost.macs),
                if is_chosen { "*".to_owned() } else { String::new() },
            ]);
        }
        table.write(out)?;
        if self.families.iter().any(|family| family.is_open) {
            writeln!(out, "\nopen families are counted at their smallest member")?;
        }
        writeln!(
            out,
            "\nfor small budgets, with alpha = 2 (most ReLUs in the first stage, to be culled):\n"
        )?;
        let mut table = Table::new(&["<growth", "ReLUs", "multiply-adds"]);
        for network in &self.low_budget {
            table.row(vec![network.factors.clone(), grouped(network.cost.relus), short(network.cost.macs)]);
        }
        Ok(table.write(out)?)
    }
}

fn written(factors: &[u64]) -> String {
    factors.iter().map(|factor| format!("{factor}x")).collect()
}

#[derive(Debug, Args)]
struct DeepreduceArguments {
    #[command(flatten)]
    network: NetworkArguments,
    /// All stages, most critical first.
    #[arg(long, value_name = "STAGES")]
    criticality: String,
    /// Also list the smallest networks with one block per surviving stage (`*` in the paper).
    #[arg(long)]
    single_blocks: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CandidateLine {
    name: String,
    #[serde(flatten)]
    cost: Option<Cost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impossible: Option<String>,
}

impl DeepreduceArguments {
    fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let spec = self.network.load()?;
        let order = CriticalityOrder::parse(&self.criticality)?;
        let enumeration = Enumeration { with_single_blocks: self.single_blocks, ..Enumeration::default() };
        let line = |candidate: network::transform::Candidate| match candidate.spec {
            Ok(spec) => CandidateLine { name: candidate.name, cost: Some(Cost::of(&spec)), impossible: None },
            Err(error) => CandidateLine {
                name: candidate.name,
                cost: None,
                impossible: Some(format!("{:#}", anyhow::Error::from(error))),
            },
        };
        let lines: Vec<_> = deepreduce_networks(&spec, &order, enumeration)?.into_iter().map(line).collect();
        if self.json {
            return write_json(out, &lines);
        }
        writeln!(
            out,
            "{} culled from the least critical stage on, order {}:\n",
            spec.name(),
            self.criticality
        )?;
        let mut table = Table::new(&["<ReLUs left in", "ReLUs", "multiply-adds", "parameters"]);
        for line in &lines {
            table.row(match &line.cost {
                Some(cost) => {
                    vec![line.name.clone(), grouped(cost.relus), short(cost.macs), grouped(cost.parameters)]
                }
                None => vec![line.name.clone(), "-".to_owned(), "-".to_owned(), "-".to_owned()],
            });
        }
        table.write(out)?;
        if let Some(reason) = lines.iter().find_map(|line| line.impossible.as_ref()) {
            writeln!(out, "\n- these networks do not exist: {reason}")?;
        }
        Ok(Answer::Yes)
    }
}

#[derive(Debug, Args)]
struct SphynxArguments {
    /// How many ReLUs there may be, more or less.
    #[arg(long, value_name = "RELUS")]
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

impl SphynxArguments {
    fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
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
        Ok(found)
    }
}
