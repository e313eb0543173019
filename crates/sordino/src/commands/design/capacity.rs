//! `sordino design capacity`: where a budget of ReLUs remembers most (SNL section 5).

use std::io::Write;

use anyhow::ensure;
use clap::Args;
use network::design::{Capacity, Retention, linearized_capacity, optimal_retention, pruned_capacity};
use serde::Serialize;

use crate::commands::{Answer, write_json};
use crate::report::{Table, grouped, percent};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Neurons of the first hidden layer.
    #[arg(long, value_name = "NEURONS")]
    first: u64,
    /// Neurons of the second hidden layer.
    #[arg(long, value_name = "NEURONS")]
    second: u64,
    /// How many ReLUs are kept.
    #[arg(long, value_name = "RELUS", value_parser = super::relu_count)]
    budget: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One way to keep the budget.
#[derive(Serialize)]
struct Kept {
    what: &'static str,
    first: u64,
    second: u64,
    /// Linear pieces when the other ReLUs become the identity (Corollary 1).
    linearized: f64,
    /// The same when the other neurons are removed (Corollary 2).
    pruned: f64,
}

impl Arguments {
    pub(super) fn run(&self, out: &mut dyn Write) -> anyhow::Result<Answer> {
        let all =
            self.first.checked_add(self.second).filter(|all| self.first > 0 && self.second > 0 && *all > 0);
        ensure!(all.is_some(), "both hidden layers need neurons, in all less than 2^64");
        let all = all.unwrap_or_default();
        ensure!(
            self.budget <= all,
            "the budget is {}, but both layers have only {} neurons",
            grouped(self.budget),
            grouped(all)
        );
        let even = self.budget as f64 / all as f64;
        let lines = [
            self.kept("the most pieces (Theorem 2)", optimal_retention(self.first, self.second, self.budget)),
            self.kept("as much of both layers", Retention { first: even, second: even }),
        ];
        let full = Capacity::relu(self.first, self.second).full();
        if self.json {
            write_json(out, &serde_json::json!({ "all_relus": full, "kept": lines }))?;
            return Ok(Answer::Yes);
        }
        let mut table = Table::new(&[
            "<kept",
            "of the first",
            "of the second",
            "pieces, others linear",
            "others removed",
        ]);
        for line in &lines {
            table.row(vec![
                line.what.to_owned(),
                format!("{} ({})", grouped(line.first), percent(line.first, self.first)),
                format!("{} ({})", grouped(line.second), percent(line.second, self.second)),
                format!("{:.3e}", line.linearized),
                format!("{:.3e}", line.pruned),
            ]);
        }
        table.write(out)?;
        writeln!(out, "\nall {} ReLUs: {full:.3e} pieces (Theorem 1)", grouped(all))?;
        Ok(Answer::Yes)
    }

    fn kept(&self, what: &'static str, kept: Retention) -> Kept {
        let network = Capacity::relu(self.first, self.second);
        // The optimum may ask for half a neuron; together they are the budget.
        let second = (kept.second * self.second as f64) as u64;
        Kept {
            what,
            first: self.budget.saturating_sub(second),
            second,
            linearized: linearized_capacity(&network, kept),
            pruned: pruned_capacity(&network, kept),
        }
    }
}
