//! `sordino zoo`: the networks that have a name, with what they cost.

use std::io::Write;

use clap::Args;
use network::cost::{Cost, CostFigures};
use network::zoo;
use serde::Serialize;

use super::{Answer, write_json};
use crate::report::{Table, grouped, short};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    families: Vec<FamilyListing>,
    networks: Vec<NetworkListing>,
}

#[derive(Serialize)]
struct FamilyListing {
    pattern: &'static str,
    options: Vec<OptionListing>,
}

#[derive(Serialize)]
struct OptionListing {
    name: &'static str,
    meaning: &'static str,
}

#[derive(Serialize)]
struct NetworkListing {
    name: &'static str,
    family: &'static str,
    input: usize,
    summary: &'static str,
    #[serde(flatten)]
    figures: CostFigures,
    #[serde(skip)]
    cost: Cost,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<Answer> {
    let listing = Listing::new()?;
    if arguments.json {
        return write_json(out, &listing);
    }
    let mut plain = Table::new(&["<network", "input", "ReLUs", "multiply-adds", "parameters", "<what it is"]);
    let columns = [
        "<shared signs",
        "input",
        "comparisons",
        "gated values",
        "multiply-adds",
        "parameters",
        "<what it is",
    ];
    let mut sharing = Table::new(&columns);
    for network in &listing.networks {
        let cost = network.cost;
        let mut cells = vec![network.name.to_owned(), network.input.to_string(), grouped(cost.relus)];
        cells.extend(cost.shares_signs().then(|| grouped(cost.gated_values)));
        cells.extend([short(cost.macs), grouped(cost.parameters), network.summary.to_owned()]);
        if cost.shares_signs() { sharing.row(cells) } else { plain.row(cells) }
    }
    plain.write(out)?;
    writeln!(out)?;
    sharing.write(out)?;
    writeln!(out, "\nFamilies and their options, written as NAME:option=value,option=value")?;
    for family in &listing.families {
        writeln!(out, "\n  {}", family.pattern)?;
        for option in &family.options {
            writeln!(out, "    {:<14} {}", option.name, option.meaning)?;
        }
    }
    Ok(Answer::Yes)
}

impl Listing {
    fn new() -> Result<Self, zoo::ZooError> {
        let option = |&(name, meaning): &(&'static str, &'static str)| OptionListing { name, meaning };
        let families = zoo::families()
            .iter()
            .map(|family| FamilyListing {
                pattern: family.pattern,
                options: family.options.iter().map(option).collect(),
            })
            .collect();
        let network = |entry: &zoo::Entry| {
            let classes = if entry.input == 224 { 1000 } else { 100 };
            let cost = Cost::of(&zoo::build(entry.name, entry.input, classes)?);
            let &zoo::Entry { name, family, input, summary } = entry;
            Ok(NetworkListing { name, family, input, summary, figures: cost.figures(cost), cost })
        };
        Ok(Self {
            families,
            networks: zoo::catalog().iter().map(network).collect::<Result<_, zoo::ZooError>>()?,
        })
    }
}
