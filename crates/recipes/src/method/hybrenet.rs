//! DeepReShape: a network whose ReLUs stand where they matter, then few and fixed steps to a budget.
//!
//! ReLU equalization (section 4, Algorithm 1) turns the depths of a classical network into two families of HybReNets:
//! the equalized one, thinned, for large budgets, and the one with first growth factor 2, its dominant first stage
//! culled and the others thinned, for small ones (capacity-criticality trade-off, section 3). Algorithm 2 (appendix
//! G) then cuts channels, and last of all applies ReLU-reuse with factors 4, 8 and 16.
//!
//! `choose` is the rule from a budget to one network:
//!
//! ```text
//! at the largest row of the tables or above    the equalized family, as wide as the budget allows
//! down to m = 8 of the small-budget family      the largest count of either family, m at least 8
//! below                                         ReLU-reuse at m = 16 or a little wider, the smallest factor that fits
//! ```
//!
//! The budgets of Tables 5, 11 and 12 give exactly their rows, also where a table prints a rounded count.

use network::cost::Cost;
use network::design::{CriticalityOrder, Equalization, with_low_budget_growth};
use network::spec::NetworkSpec;
use network::transform::{Reduction, Reuse, StemRule};
use network::walk::{Part, StageIndex};
use network::zoo;

use super::{BudgetError, OptimizeError, PlannedNetwork};

/// The fewest channels of the first stage before ReLU-reuse takes over.
const MIN_CHANNELS: u64 = 8;
/// The channels of the first stage under ReLU-reuse (appendix D).
const REUSE_CHANNELS: u64 = 16;
/// The channels of the equalized family's largest row.
const LARGE_CHANNELS: u64 = 16;
/// The factors of ReLU-reuse, least first (Algorithm 2).
const REUSE_FACTORS: [usize; 3] = [4, 8, 16];
/// Growth factors above this are not considered, as in `sordino design hybrenet`.
const MAX_FACTOR: u64 = 12;

/// A classical network whose depths the HybReNets keep.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Base {
    depths: Vec<u64>,
    side: usize,
    classes: usize,
    equalized: Vec<u64>,
}

impl Base {
    /// The families for the depths of a network and its criticality order.
    /// Refused when the depths cannot be equalized in this order, or the first stage is not the least critical one.
    fn new(spec: &NetworkSpec, order: &CriticalityOrder) -> Result<Self, OptimizeError> {
        let draft = spec.draft();
        let depths: Vec<u64> = draft.stages.iter().map(|stage| stage.blocks.len() as u64).collect();
        let impossible =
            |reason: String| OptimizeError::NoHybReNet { network: spec.name().to_owned(), reason };
        if depths.len() != 4 || order.most_to_least().last() != Some(&StageIndex(1)) {
            return Err(impossible(
                "HybReNets have four stages of which the first is the least critical".to_owned(),
            ));
        }
        let equalization =
            Equalization::new(&depths, order.clone()).map_err(|error| impossible(error.to_string()))?;
        let mut base =
            Self { depths, side: draft.input.height, classes: draft.classes, equalized: Vec::new() };
        let choices = equalization.paper_choice(MAX_FACTOR).map_err(|error| impossible(error.to_string()))?;
        // Among the solutions the paper takes the one with the fewest multiply-adds (Table 16).
        let mut cheapest: Option<(u64, Vec<u64>)> = None;
        for factors in choices {
            let macs = Cost::of(&base.build(&factors, LARGE_CHANNELS)?).macs;
            if cheapest.as_ref().is_none_or(|(least, _)| macs < *least) {
                cheapest = Some((macs, factors));
            }
        }
        let (_, factors) = cheapest.ok_or_else(|| impossible("no growth factors equalize it".to_owned()))?;
        base.equalized = factors;
        Ok(base)
    }

    fn name(&self, factors: &[u64], channels: u64) -> String {
        let growth: String = factors.iter().map(|factor| format!("{factor}x")).collect();
        let depths: Vec<_> = self.depths.iter().map(ToString::to_string).collect();
        let depths = match depths.join("+").as_str() {
            "2+2+2+2" => String::new(),
            "3+4+6+3" => ",base=resnet34".to_owned(),
            other => format!(",depths={other}"),
        };
        format!("hrn-{growth}:m={channels}{depths}")
    }

    fn build(&self, factors: &[u64], channels: u64) -> Result<NetworkSpec, OptimizeError> {
        Ok(zoo::build(&self.name(factors, channels), self.side, self.classes)?)
    }

    /// The equalized network, all stages thinned.
    fn large(&self, channels: u64) -> Result<PlannedNetwork, OptimizeError> {
        let reduction = Reduction { thin: stages(1..=4), ..Reduction::default() };
        PlannedNetwork::new(
            &self.name(&self.equalized, channels),
            reduction,
            &self.build(&self.equalized, channels)?,
        )
    }

    /// The network for small budgets: first stage culled, the others thinned.
    fn small(&self, channels: u64, reuse: Option<usize>) -> Result<PlannedNetwork, OptimizeError> {
        let factors = with_low_budget_growth(&self.equalized);
        let reduction = Reduction {
            cull: stages(1..=1),
            thin: stages(2..=4),
            reuse: reuse.map(Reuse::new),
            ..Reduction::default()
        };
        PlannedNetwork::new(&self.name(&factors, channels), reduction, &self.build(&factors, channels)?)
    }
}

/// The HybReNet for a budget; refused when even ReLU-reuse by 16 has more ReLUs.
fn choose(base: &Base, budget: u64) -> Result<PlannedNetwork, OptimizeError> {
    if let Some(row) = published_row(base, budget)? {
        return Ok(row);
    }
    let largest_row = base.large(LARGE_CHANNELS)?;
    if budget >= largest_row.cost.relus {
        let channels = budget / (largest_row.cost.relus / LARGE_CHANNELS);
        return base.large(channels);
    }
    let smallest = base.small(MIN_CHANNELS, None)?;
    if budget >= smallest.cost.relus {
        let small = base.small(budget / (smallest.cost.relus / MIN_CHANNELS), None)?;
        let channels = budget / (largest_row.cost.relus / LARGE_CHANNELS);
        let large = (channels >= MIN_CHANNELS).then(|| base.large(channels)).transpose()?;
        return Ok(large.filter(|large| large.cost.relus > small.cost.relus).unwrap_or(small));
    }
    with_reuse(base, budget)
}

/// The smallest reuse factor that fits at the papers' width, then as wide as fits.
fn with_reuse(base: &Base, budget: u64) -> Result<PlannedNetwork, OptimizeError> {
    let mut smallest = u64::MAX;
    for factor in REUSE_FACTORS {
        let narrow = base.small(REUSE_CHANNELS, Some(factor))?;
        smallest = smallest.min(narrow.cost.relus);
        if narrow.cost.relus > budget {
            continue;
        }
        let widest = budget / (narrow.cost.relus / REUSE_CHANNELS);
        // Widths whose channels do not divide into the groups of ReLU-reuse are passed over.
        let wider =
            (REUSE_CHANNELS + 1..=widest).rev().find_map(|channels| base.small(channels, Some(factor)).ok());
        return Ok(wider.filter(|plan| plan.cost.relus <= budget).unwrap_or(narrow));
    }
    let network = base.name(&with_low_budget_growth(&base.equalized), REUSE_CHANNELS);
    Err(BudgetError::BelowSmallest { method: "DeepReShape", budget, network, smallest, noun: "ReLUs" }.into())
}

/// A row of Table 5, 11 or 12: image side, blocks of the third stage, count as printed, what it stands for.
type Row = (usize, u64, u64, Width);

/// The width and steps of a row.
#[derive(Clone, Copy)]
enum Width {
    Large(u64),
    Small(u64),
    Reuse(usize),
}

const ROWS: &[Row] = &[
    (32, 2, 163_300, Width::Large(16)),
    (32, 2, 104_400, Width::Small(32)),
    (32, 2, 52_200, Width::Small(16)),
    (32, 2, 26_100, Width::Small(8)),
    (32, 2, 13_100, Width::Reuse(4)),
    (32, 2, 6_500, Width::Reuse(8)),
    (32, 2, 3_200, Width::Reuse(16)),
    (64, 2, 653_300, Width::Large(16)),
    (64, 2, 417_800, Width::Small(32)),
    (64, 2, 326_600, Width::Large(8)),
    (64, 2, 104_400, Width::Small(8)),
    (64, 2, 52_200, Width::Reuse(4)),
    (32, 6, 317_400, Width::Large(16)),
    (32, 6, 134_100, Width::Small(16)),
    (32, 6, 67_100, Width::Small(8)),
    (32, 6, 33_500, Width::Reuse(4)),
    (32, 6, 16_600, Width::Reuse(8)),
    (32, 6, 8_300, Width::Reuse(16)),
    (64, 6, 1_269_800, Width::Large(16)),
    (64, 6, 952_000, Width::Large(12)),
    (64, 6, 536_600, Width::Small(16)),
    (64, 6, 402_000, Width::Small(12)),
    (64, 6, 268_300, Width::Small(8)),
    (64, 6, 134_100, Width::Reuse(4)),
    (64, 6, 67_100, Width::Reuse(8)),
    (64, 6, 33_500, Width::Reuse(16)),
];

/// The row of a budget written as the tables print it; its count may differ by the rounding of the print.
fn published_row(base: &Base, budget: u64) -> Result<Option<PlannedNetwork>, OptimizeError> {
    let third = match base.depths.as_slice() {
        [2, 2, 2, 2] => 2,
        [3, 4, 6, 3] => 6,
        _ => return Ok(None),
    };
    let row =
        ROWS.iter().find(|(side, depth, printed, _)| (*side, *depth, *printed) == (base.side, third, budget));
    row.map(|(.., width)| match *width {
        Width::Large(channels) => base.large(channels),
        Width::Small(channels) => base.small(channels, None),
        Width::Reuse(factor) => base.small(REUSE_CHANNELS, Some(factor)),
    })
    .transpose()
}

/// Algorithm 2 on any network: cull the least critical stage if it has the most ReLUs, thin the others, halve the
/// channels, reuse by 4, 8 and 16. Networks that cannot be made so are left out.
fn algorithm_2(
    name: &str,
    spec: &NetworkSpec,
    order: &CriticalityOrder,
) -> Result<Vec<PlannedNetwork>, OptimizeError> {
    let all = order.most_to_least();
    let least = *all.last().expect("an order names at least two stages");
    if all.len() != spec.stage_count() {
        let (named, stages) = (all.len(), spec.stage_count());
        let network = spec.name().to_owned();
        return Err(network::transform::TransformError::Order { named, network, stages }.into());
    }
    let culls = dominant_stage(spec) == Some(least);
    let culled = if culls { stages(least.0..=least.0) } else { Default::default() };
    let kept = (1..=all.len()).map(StageIndex).filter(|stage| !culled.contains(stage)).collect();
    let net = Reduction { cull: culled.clone(), stem: StemRule::Drop, ..Reduction::default() };
    let thinned = Reduction { thin: kept, ..net.clone() };
    let reuse = |factor| Reduction { reuse: Some(Reuse::new(factor)), ..thinned.clone() };
    let mut reductions = vec![net, thinned.clone(), Reduction { width: Some(0.5), ..thinned.clone() }];
    reductions.extend(REUSE_FACTORS.map(reuse));
    let made = reductions.into_iter().filter_map(|reduction| PlannedNetwork::new(name, reduction, spec).ok());
    Ok(made.collect())
}

/// The network for a budget: a HybReNet on the depths of the network, or, with `keep_network` or where its depths have
/// none, the largest that Algorithm 2 makes of the network itself.
///
/// # Errors
/// When the order is another network's, or even the smallest has more ReLUs.
pub fn plan_for(
    name: &str,
    spec: &NetworkSpec,
    order: &CriticalityOrder,
    budget: u64,
    keep_network: bool,
) -> Result<PlannedNetwork, OptimizeError> {
    if !keep_network && let Ok(base) = Base::new(spec, order) {
        return choose(&base, budget);
    }
    let plans = algorithm_2(name, spec, order)?;
    let smallest = plans.iter().map(|plan| plan.cost.relus).min().unwrap_or(0);
    let fitting = plans.into_iter().filter(|plan| plan.cost.relus <= budget && plan.cost.relus > 0);
    let network = name.to_owned();
    fitting.max_by_key(|plan| plan.cost.relus).ok_or_else(|| {
        BudgetError::BelowSmallest { method: "DeepReShape", budget, network, smallest, noun: "ReLUs" }.into()
    })
}

/// The stage with the most ReLUs, which the stem's are counted to where it is the first.
fn dominant_stage(spec: &NetworkSpec) -> Option<StageIndex> {
    let mut counts = vec![0; spec.stage_count()];
    for (part, cost) in Cost::by_part(spec) {
        match part {
            Part::Stem => counts[0] += cost.relus,
            Part::Stage(stage) => counts[stage.0 - 1] += cost.relus,
            Part::Head => {}
        }
    }
    (1..).map(StageIndex).zip(&counts).max_by_key(|(_, count)| **count).map(|(stage, _)| stage)
}

fn stages(range: std::ops::RangeInclusive<usize>) -> std::collections::BTreeSet<StageIndex> {
    range.map(StageIndex).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(network: &str, side: usize) -> Base {
        let spec = zoo::build(network, side, 100).unwrap();
        Base::new(&spec, &CriticalityOrder::parse("3,2,4,1").unwrap()).unwrap()
    }

    fn chosen(network: &str, side: usize, budget: u64) -> (String, u64, Option<usize>) {
        let plan = choose(&base(network, side), budget).unwrap();
        (plan.network, plan.cost.relus, plan.reduction.reuse.map(|reuse| reuse.factor))
    }

    #[test]
    fn the_families_are_those_of_the_paper() {
        assert_eq!(base("resnet18", 32).equalized, [5, 5, 3]);
        assert_eq!(base("resnet34", 32).equalized, [4, 6, 3]);
    }

    /// Tables 5, 11 and 12: side, depths, network, reuse, multiply-adds in millions, count.
    const TABLES: &[(usize, &str, &str, Option<usize>, u64)] = &[
        (32, "resnet18", "hrn-5x5x3x:m=16", None, 163_328),
        (32, "resnet18", "hrn-2x5x3x:m=32", None, 104_448),
        (32, "resnet18", "hrn-2x5x3x:m=16", None, 52_224),
        (32, "resnet18", "hrn-2x5x3x:m=8", None, 26_112),
        (32, "resnet18", "hrn-2x5x3x:m=16", Some(4), 13_056),
        (32, "resnet18", "hrn-2x5x3x:m=16", Some(8), 6_528),
        (32, "resnet18", "hrn-2x5x3x:m=16", Some(16), 3_264),
        (64, "resnet18", "hrn-5x5x3x:m=16", None, 653_312),
        (64, "resnet18", "hrn-2x5x3x:m=32", None, 417_792),
        (64, "resnet18", "hrn-5x5x3x:m=8", None, 326_656),
        (64, "resnet18", "hrn-2x5x3x:m=8", None, 104_448),
        (64, "resnet18", "hrn-2x5x3x:m=16", Some(4), 52_224),
        (32, "resnet34", "hrn-4x6x3x:m=16,base=resnet34", None, 317_440),
        (32, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", None, 134_144),
        (32, "resnet34", "hrn-2x6x3x:m=8,base=resnet34", None, 67_072),
        (32, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", Some(4), 33_536),
        (32, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", Some(8), 16_768),
        (32, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", Some(16), 8_384),
        (64, "resnet34", "hrn-4x6x3x:m=16,base=resnet34", None, 1_269_760),
        (64, "resnet34", "hrn-4x6x3x:m=12,base=resnet34", None, 952_320),
        (64, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", None, 536_576),
        (64, "resnet34", "hrn-2x6x3x:m=12,base=resnet34", None, 402_432),
        (64, "resnet34", "hrn-2x6x3x:m=8,base=resnet34", None, 268_288),
        (64, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", Some(4), 134_144),
        (64, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", Some(8), 67_072),
        (64, "resnet34", "hrn-2x6x3x:m=16,base=resnet34", Some(16), 33_536),
    ];

    #[test]
    fn the_budgets_of_the_tables_return_their_rows() {
        assert_eq!(TABLES.len(), ROWS.len());
        for ((side, depths, network, reuse, relus), row) in TABLES.iter().zip(ROWS) {
            let expected = (network.to_string(), *relus, *reuse);
            assert_eq!(chosen(depths, *side, *relus), expected, "the count of {network} at {side}");
            assert_eq!(chosen(depths, *side, row.2), expected, "the print of {network} at {side}");
        }
    }

    #[test]
    fn between_the_rows_the_largest_count_that_fits_is_taken() {
        for budget in (3_264..700_000).step_by(7_919).chain([13_055, 26_111, 104_447]) {
            let (network, relus, reuse) = chosen("resnet18", 32, budget);
            assert!(relus <= budget, "{network}: {relus} for {budget}");
            // Reuse only below the narrowest network without it.
            assert_eq!(reuse.is_some(), budget < 26_112, "{network} for {budget}");
            assert!(relus as f64 > 0.7 * budget as f64, "{network}: {relus} for {budget}");
        }
        assert_eq!(chosen("resnet18", 32, 40_000), ("hrn-2x5x3x:m=12".to_owned(), 39_168, None));
        assert_eq!(chosen("resnet18", 32, 20_000), ("hrn-2x5x3x:m=24".to_owned(), 19_584, Some(4)));
        assert_eq!(chosen("resnet18", 32, 210_000), ("hrn-5x5x3x:m=20".to_owned(), 204_160, None));
    }

    #[test]
    fn a_budget_below_the_smallest_is_refused_with_the_smallest() {
        let error = choose(&base("resnet18", 32), 3_000).unwrap_err().to_string();
        assert!(error.contains("3264") && error.contains("3000"), "{error}");
    }

    #[test]
    fn a_network_without_hybrenets_is_reduced_itself() {
        let order = CriticalityOrder::parse("3,2,1").unwrap();
        let spec = zoo::build("resnet20", 32, 10).unwrap();
        let plan = plan_for("resnet20", &spec, &order, Cost::of(&spec).relus / 4, false).unwrap();
        assert_eq!(plan.network, "resnet20");
        assert!(plan.cost.relus > 0 && plan.cost.relus <= Cost::of(&spec).relus / 4);
        assert!(plan_for("resnet20", &spec, &order, 10, false).is_err());
    }

    #[test]
    fn algorithm_2_culls_only_a_dominant_least_critical_stage() {
        let order = CriticalityOrder::parse("3,2,4,1").unwrap();
        let counts = |name: &str| -> Vec<u64> {
            let spec = zoo::build(name, 32, 100).unwrap();
            algorithm_2(name, &spec, &order).unwrap().iter().map(|plan| plan.cost.relus).collect()
        };
        // Stage 1 dominates: 104,448 without it, then half, a quarter, and reuse of the thinned one.
        assert_eq!(counts("hrn-2x5x3x:m=16"), [104_448, 52_224, 26_112, 13_056, 6_528, 3_264]);
        // Stage 3 dominates: nothing is culled.
        assert_eq!(counts("hrn-5x5x3x:m=16"), [326_656, 163_328, 81_664, 40_832, 20_416, 10_208]);
    }
}
