//! DeepReDuce: which stages' ReLUs matter, found by training; then cull, thin and reshape from the least critical on.
//!
//! ```text
//! probes      one network per stage, with ReLUs in that stage alone, trained with the full network as teacher
//! criticality C_k of equation 1 (section 3.1) from the probes' accuracies, w = 0.07
//! candidates  5(D-1) networks (section 3.5): cull one more stage, thin the rest, then half the channels, half the
//!             resolution, both; `*` adds the smallest one with a single block per surviving stage
//! training    each candidate with the full network as teacher (section 3.4)
//! ```
//!
//! Probes and candidates are plans for recipes, so each is a run of its own that can be resumed.

use std::collections::BTreeSet;

use network::cost::Cost;
use network::design::{CriticalityOrder, stage_criticality};
use network::spec::NetworkSpec;
use network::transform::{Reduction, StemRule};
use network::walk::{Part, StageIndex};
use serde::{Deserialize, Serialize};

use super::{BudgetError, OptimizeError, PlannedNetwork};

/// One plan per stage: ReLUs in that stage alone, in the order of the stages.
///
/// # Errors
/// When the network cannot lose the ReLUs of a stage.
pub fn probes(name: &str, spec: &NetworkSpec) -> Result<Vec<PlannedNetwork>, OptimizeError> {
    let all: BTreeSet<StageIndex> = (1..=spec.stage_count()).map(StageIndex).collect();
    let alone = |stage: &StageIndex| {
        let mut cull = all.clone();
        cull.remove(stage);
        let reduction = Reduction { cull, stem: StemRule::Drop, ..Reduction::default() };
        Ok(PlannedNetwork { title: format!("{stage} alone"), ..PlannedNetwork::new(name, reduction, spec)? })
    };
    all.iter().map(alone).collect()
}

/// What the probes found out about one stage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageFinding {
    /// The stage, from 1.
    pub stage: usize,
    /// Its ReLUs.
    pub relus: u64,
    /// Accuracy in percent of the network with ReLUs in this stage alone.
    pub accuracy: f64,
    /// C_k of equation 1.
    pub criticality: f64,
}

/// The criticalities of all stages, from the accuracies (in percent) of the probes in the order of the stages.
///
/// # Panics
/// If there are not as many accuracies as stages.
pub fn criticalities(spec: &NetworkSpec, accuracies: &[f64]) -> Vec<StageFinding> {
    let mut relus = vec![0; spec.stage_count()];
    for (part, cost) in Cost::by_part(spec) {
        if let Part::Stage(stage) = part {
            relus[stage.0 - 1] = cost.relus;
        }
    }
    let values = stage_criticality(accuracies, &relus);
    let finding = |((stage, relus), (accuracy, criticality)): ((usize, u64), (&f64, f64))| StageFinding {
        stage,
        relus,
        accuracy: *accuracy,
        criticality,
    };
    (1..).zip(relus.iter().copied()).zip(accuracies.iter().zip(values)).map(finding).collect()
}

/// The order that findings imply.
///
/// # Errors
/// When there are fewer than two stages.
pub fn order(findings: &[StageFinding]) -> Result<CriticalityOrder, OptimizeError> {
    let values: Vec<f64> = findings.iter().map(|finding| finding.criticality).collect();
    Ok(CriticalityOrder::from_criticality(&values)?)
}

/// The 5(D-1) networks of the pipeline, in its order; 6(D-1) with single blocks. Those that do not exist (a small
/// image cannot lose half its resolution in a deep network) are left out.
///
/// # Errors
/// When the order is another network's.
pub fn pipeline(
    name: &str,
    spec: &NetworkSpec,
    order: &CriticalityOrder,
    with_single_blocks: bool,
) -> Result<Vec<PlannedNetwork>, OptimizeError> {
    let stages = order.most_to_least();
    if stages.len() != spec.stage_count() {
        let (named, network) = (stages.len(), spec.name().to_owned());
        let stages = spec.stage_count();
        return Err(network::transform::TransformError::Order { named, network, stages }.into());
    }
    let mut plans = Vec::new();
    for surviving in (1..stages.len()).rev() {
        let cull: BTreeSet<_> = stages[surviving..].iter().copied().collect();
        let kept: BTreeSet<_> = stages[..surviving].iter().copied().collect();
        let culled = Reduction { cull, stem: StemRule::Drop, ..Reduction::default() };
        let thinned = Reduction { thin: kept.clone(), ..culled.clone() };
        let both = Reduction { width: Some(0.5), resolution: Some(0.5), ..thinned.clone() };
        let single = Reduction { single_block: kept.clone(), ..both.clone() };
        let iteration = [
            ("", "", culled),
            ("^RT", "", thinned.clone()),
            ("^RT", ", alpha=0.5", Reduction { width: Some(0.5), ..thinned.clone() }),
            ("^RT", ", rho=0.5", Reduction { resolution: Some(0.5), ..thinned }),
            ("^RT", ", alpha=0.5, rho=0.5", both),
            ("*^RT", ", alpha=0.5, rho=0.5", single),
        ];
        let count = if with_single_blocks { 6 } else { 5 };
        for (mark, suffix, reduction) in iteration.into_iter().take(count) {
            let names: Vec<_> = kept.iter().map(|stage| format!("{stage}{mark}")).collect();
            let title = names.join("+") + suffix;
            plans.extend(
                PlannedNetwork::new(name, reduction, spec).ok().map(|plan| PlannedNetwork { title, ..plan }),
            );
        }
    }
    Ok(plans)
}

/// The candidate with the most ReLUs within a budget; of equals the one that comes first in the pipeline.
///
/// # Errors
/// When all of them have more.
pub fn choose(plans: &[PlannedNetwork], budget: u64) -> Result<&PlannedNetwork, OptimizeError> {
    let fitting = plans.iter().rev().filter(|plan| plan.cost.relus <= budget);
    fitting.max_by_key(|plan| plan.cost.relus).ok_or_else(|| {
        let smallest = plans.iter().map(|plan| plan.cost.relus).min().unwrap_or(0);
        let network = plans.first().map_or_else(String::new, |plan| plan.network.clone());
        let noun = plans.first().map_or("ReLUs", |plan| plan.cost.counts().noun());
        BudgetError::BelowSmallest { method: "DeepReDuce", budget, network, smallest, noun }.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::transform::{Enumeration, deepreduce_networks};
    use network::zoo;

    fn resnet18() -> NetworkSpec {
        zoo::build("resnet18", 32, 100).unwrap()
    }

    #[test]
    fn a_probe_has_the_relus_of_one_stage() {
        let counts: Vec<_> =
            probes("resnet18", &resnet18()).unwrap().iter().map(|plan| plan.cost.relus).collect();
        assert_eq!(counts, [262_144, 131_072, 65_536, 32_768]);
    }

    #[test]
    fn the_accuracies_of_table_1_give_the_papers_order() {
        let findings = criticalities(&resnet18(), &[59.85, 68.79, 69.9, 63.16]);
        assert_eq!(order(&findings).unwrap(), CriticalityOrder::parse("3,2,4,1").unwrap());
        assert_eq!(findings[0].criticality, 0.0);
        // (69.9 - 59.85) / 65.536^0.07
        assert!((findings[2].criticality - 7.499).abs() < 0.001, "{}", findings[2].criticality);
    }

    #[test]
    fn candidates_are_the_networks_of_the_pipeline() {
        for (network, stage_order) in
            [("resnet18", "3,2,4,1"), ("resnet56", "3,2,1"), ("mobilenetv1", "4,3,5,2,1")]
        {
            let spec = zoo::build(network, 32, 100).unwrap();
            let order = CriticalityOrder::parse(stage_order).unwrap();
            let enumeration = Enumeration { with_single_blocks: true, ..Enumeration::default() };
            let listed = deepreduce_networks(&spec, &order, enumeration).unwrap();
            let listed: Vec<_> = listed
                .into_iter()
                .filter_map(|candidate| Some((candidate.name, Cost::of(&candidate.spec.ok()?))))
                .collect();
            let plans = pipeline(network, &spec, &order, true).unwrap();
            let plans: Vec<_> = plans.into_iter().map(|plan| (plan.title, plan.cost)).collect();
            assert_eq!(plans, listed, "{network}");
        }
    }

    #[test]
    fn a_network_of_d_stages_has_five_times_d_less_one() {
        let order = CriticalityOrder::parse("3,2,4,1").unwrap();
        assert_eq!(pipeline("resnet18", &resnet18(), &order, false).unwrap().len(), 15);
        assert_eq!(pipeline("resnet18", &resnet18(), &order, true).unwrap().len(), 18);
        let other = CriticalityOrder::parse("3,2,1").unwrap();
        assert!(pipeline("resnet18", &resnet18(), &other, false).is_err());
    }

    #[test]
    fn the_budget_chooses_the_largest_that_fits() {
        let order = CriticalityOrder::parse("3,2,4,1").unwrap();
        let plans = pipeline("resnet18", &resnet18(), &order, true).unwrap();
        let chosen = |budget| choose(&plans, budget).map(|plan| (plan.title.clone(), plan.cost.relus));
        assert_eq!(chosen(28_700).unwrap(), ("S2^RT+S3^RT+S4^RT, rho=0.5".to_owned(), 28_672));
        assert_eq!(chosen(28_671).unwrap(), ("S2^RT+S3^RT, rho=0.5".to_owned(), 24_576));
        assert_eq!(chosen(400_000).unwrap().1, 229_376);
        assert!(chosen(100).unwrap_err().to_string().contains("no fewer"));
    }
}
