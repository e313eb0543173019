//! `sordino design deepreduce`: the networks of DeepReDuce's pipeline with their counts.

use std::io::Write;

use clap::Args;
use network::cost::Cost;
use network::design::CriticalityOrder;
use network::transform::{Enumeration, deepreduce_networks};
use serde::Serialize;

use crate::commands::load::NetworkArguments;
use crate::commands::{Answer, write_json};
use crate::report::{Table, grouped, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
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

impl Arguments {
    pub(super) fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
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
        let title = format!("{} culled from the least critical stage on", spec.name());
        writeln!(out, "{title}, order {}:\n", self.criticality)?;
        write_lines(&lines, out)?;
        Ok(Answer::Yes)
    }
}

fn write_lines(lines: &[CandidateLine], out: &mut dyn Write) -> anyhow::Result<()> {
    let mut table = Table::new(&["<ReLUs left in", "ReLUs", "multiply-adds", "parameters"]);
    for line in lines {
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
    Ok(())
}
