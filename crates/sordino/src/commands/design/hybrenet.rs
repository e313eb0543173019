//! `sordino design hybrenet`: growth factors or depths that put the ReLUs of all stages in criticality order.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use network::cost::Cost;
use network::design::{CriticalityOrder, Equalization, with_low_budget_growth};
use network::walk::StageIndex;
use network::zoo;
use serde::Serialize;

use crate::commands::load::NetworkArguments;
use crate::commands::{Answer, write_json};
use crate::report::{Table, grouped, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The network whose depths are kept: a name, or a TOML file.
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
    /// Empty where the first stage is not the least critical one: its ReLUs are then no candidates for culling.
    low_budget: Vec<SizedNetwork>,
}

#[derive(Serialize)]
struct SizedNetwork {
    #[serde(skip)]
    growth: Vec<u64>,
    factors: String,
    network: String,
    #[serde(flatten)]
    cost: Option<Cost>,
    /// Why there are no counts: the network is too wide for a spec. Its factors are worth printing all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    impossible: Option<String>,
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

impl Arguments {
    pub(super) fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let order = CriticalityOrder::parse(&self.criticality)?;
        match self.through {
            Through::Width => self.through_width(order, out),
            Through::Depth => self.through_depth(&order, out),
        }
    }

    fn through_width(&self, order: CriticalityOrder, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let baseline = NetworkArguments::named(&self.baseline).load()?;
        let depths: Vec<u64> =
            baseline.draft().stages.iter().map(|stage| stage.blocks.len() as u64).collect();
        let culls_first = order.most_to_least().last() == Some(&StageIndex(1));
        let equalization = Equalization::new(&depths, order)
            .with_context(|| format!("{} and the criticality order do not go together", self.baseline))?;
        let answer = self.answer(&equalization, &depths, culls_first)?;
        if self.json {
            write_json(out, &answer)?;
        } else {
            answer.write(out, self.m, self.max_factor)?;
        }
        Ok(if answer.solutions.is_empty() { Answer::No } else { Answer::Yes })
    }

    fn answer(
        &self,
        equalization: &Equalization,
        depths: &[u64],
        culls_first: bool,
    ) -> anyhow::Result<WidthAnswer> {
        let mut families = Vec::new();
        for family in equalization.families(self.max_factor)? {
            let smallest = self.sized(&family.smallest(), depths)?;
            families.push(SizedFamily { family: family.to_string(), is_open: family.is_open(), smallest });
        }
        let mut low: Vec<_> =
            families.iter().map(|family| with_low_budget_growth(&family.smallest.growth)).collect();
        low.sort();
        low.dedup();
        low.retain(|_| culls_first);
        let all_written = |list: Vec<Vec<u64>>| list.iter().map(|factors| written(factors)).collect();
        Ok(WidthAnswer {
            baseline: self.baseline.clone(),
            criticality: self.criticality.clone(),
            solutions: all_written(equalization.through_width(self.max_factor)?),
            families,
            paper_choice: all_written(equalization.paper_choice(self.max_factor)?),
            low_budget: low.iter().map(|factors| self.sized(factors, depths)).collect::<Result<_, _>>()?,
        })
    }

    fn sized(&self, factors: &[u64], depths: &[u64]) -> anyhow::Result<SizedNetwork> {
        let written = written(factors);
        let family = family_with_stages(depths.len())?;
        let network = format!("{family}:m={},factors={written},depths={}", self.m, joined(depths));
        let (cost, impossible) = match zoo::build(&network, 32, 100) {
            Ok(spec) => (Some(Cost::of(&spec)), None),
            Err(error) => (None, Some(format!("{:#}", anyhow::Error::from(error)))),
        };
        Ok(SizedNetwork { growth: factors.to_vec(), factors: written, network, cost, impossible })
    }

    fn through_depth(&self, order: &CriticalityOrder, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let factors = vec![2; order.most_to_least().len() - 1];
        let depths = Equalization::through_depth(order, &factors)?;
        let family = family_with_stages(depths.len())?;
        let network = format!("{family}:m={},depths={}", self.m, joined(&depths));
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
        let (depths, relus) = (joined(&answer.depths), grouped(answer.cost.relus));
        writeln!(out, "  {depths}   {relus} ReLUs   {}", answer.network)?;
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
        let (baseline, order) = (&self.baseline, &self.criticality);
        if self.solutions.is_empty() {
            writeln!(
                out,
                "no factors from 2 to {max_factor} put the stages of {baseline} in the order {order}"
            )?;
            return Ok(());
        }
        writeln!(out, "{baseline} with ReLUs in the order {order} (counts at m={m}):\n")?;
        let mut table = Table::new(&["<growth", "ReLUs", "multiply-adds", "<paper's choice"]);
        for SizedFamily { family, smallest, .. } in &self.families {
            let is_chosen = self.paper_choice.contains(&smallest.factors);
            let mut row = smallest.cells(family);
            row.push(if is_chosen { "*".to_owned() } else { String::new() });
            table.row(row);
        }
        table.write(out)?;
        if self.families.iter().any(|family| family.is_open) {
            writeln!(out, "\nopen families are counted at their smallest member")?;
        }
        if !self.low_budget.is_empty() {
            let reason = "most ReLUs in the first, least critical stage, to be culled";
            writeln!(out, "\nfor small budgets, with alpha = 2 ({reason}):\n")?;
            let mut table = Table::new(&["<growth", "ReLUs", "multiply-adds"]);
            self.low_budget.iter().for_each(|network| table.row(network.cells(&network.factors)));
            table.write(out)?;
        }
        let all = self.families.iter().map(|family| &family.smallest).chain(&self.low_budget);
        if let Some(reason) = all.filter_map(|network| network.impossible.as_ref()).next() {
            writeln!(out, "\n- these networks cannot be built: {reason}")?;
        }
        Ok(())
    }
}

impl SizedNetwork {
    fn cells(&self, growth: &str) -> Vec<String> {
        let count = |count: Option<String>| count.unwrap_or_else(|| "-".to_owned());
        vec![
            growth.to_owned(),
            count(self.cost.map(|cost| grouped(cost.relus))),
            count(self.cost.map(|cost| short(cost.macs))),
        ]
    }
}

/// The family of the zoo whose depths and factors can be chosen for this many stages.
fn family_with_stages(stages: usize) -> anyhow::Result<&'static str> {
    match stages {
        3 => Ok("resnet20"),
        4 => Ok("resnet18"),
        _ => bail!("a HybReNet has 3 or 4 stages, as the ResNets have; this one would have {stages}"),
    }
}

fn joined(depths: &[u64]) -> String {
    depths.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

fn written(factors: &[u64]) -> String {
    factors.iter().map(|factor| format!("{factor}x")).collect()
}
