//! Where values are rescaled, and which linear runs get coarser weights.
//!
//! A linear run collects fraction bits. Three things keep its ring narrow, tried in this order:
//!
//! 1. An input of a sum or concatenation that is there a round trip before the others (a skip connection across a
//!    ReLU) is rescaled in the same round trip, if some ring would be wider than is comfortable and this narrows it.
//! 2. The weights of a run that is a little too wide for the widest ring, or for a comfortable one, lose one or two bits, if
//!    that makes it fit; this is reported.
//! 3. A value inside such a run is rescaled; this costs a round trip of its own and is reported. It keeps from
//!    [`RESCALED_BITS`] bits down to those of an activation: as many as the fewest round trips and the fewest rescaled
//!    scalars allow.

use std::collections::BTreeSet;

use super::plan::{Problem, ScalePlan};
use crate::inference_model::ModelOperation;
use crate::walk::{StepId, ValueId};

/// Bits a run's weights may lose.
const MAX_TRIM: i32 = 2;
/// The most bits that a rescaling inside a linear run leaves of a value.
const RESCALED_BITS: u32 = 18;
/// How far beyond what is comfortable a ring may be for trimming to be tried.
const MAX_COMFORT_BITS: u32 = 3;

/// What was decided beyond the usual scales.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    /// Inputs of joins (node, which input) that are rescaled.
    pub(super) rescales: BTreeSet<(StepId, usize)>,
    /// By node: fraction bits its weights go without.
    pub(super) trims: Vec<i32>,
    /// Whether to rescale inside a linear run where nothing else helps.
    pub(super) force: bool,
    /// What such a rescaling leaves of a value.
    pub(super) rescaled_bits: u32,
    /// A value that needs more bits than this is too wide: truncation takes one more, and rounding may take another.
    pub(super) width_limit: u32,
}

/// The plan with the narrowest rings for no more round trips than needed.
pub(super) fn choose(problem: &Problem<'_>) -> ScalePlan {
    let trims = vec![0; problem.graph.nodes.len()];
    let width_limit = problem.options.widest_ring_bits - 2;
    let rescales = BTreeSet::new();
    let mut choices = Choices { rescales, trims, force: false, rescaled_bits: RESCALED_BITS, width_limit };
    choose_rescales(problem, &mut choices);
    if problem.may_trim {
        trim_for_comfort(problem, &mut choices);
        trim_to_fit(problem, &mut choices);
    }
    force(problem, &mut choices);
    // A rescaling that was paid for lets other inputs of later joins ride along.
    choose_rescales(problem, &mut choices);
    ScalePlan::new(problem, &choices)
}

/// A reader that decides how wide a ring must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// An `Activate` or `Maximum`, by node.
    Node(StepId),
    /// The client, who reads the logits.
    Logits,
}

/// Each cause with the bits it needs and the value it reads.
fn causes(plan: &ScalePlan) -> Vec<(Cause, u32, ValueId)> {
    let interactive = plan.steps.iter().filter_map(|step| {
        let node = step.node.filter(|_| step.operation.is_interactive())?;
        Some((Cause::Node(node), step.need(), step.inputs[0]))
    });
    let logits = (Cause::Logits, plan.logit_width, plan.output());
    interactive.chain([logits]).collect()
}

fn need(plan: &ScalePlan, cause: Cause) -> u32 {
    causes(plan).into_iter().find(|other| other.0 == cause).map_or(0, |(_, need, _)| need)
}

/// The steps that make a value without any message: marked by number.
fn linear_run(plan: &ScalePlan, value: ValueId) -> Vec<bool> {
    let mut is_in_run = vec![false; plan.steps.len()];
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        let Some(StepId(maker)) = value.maker() else { continue };
        if !plan.steps[maker].operation.is_interactive() && !is_in_run[maker] {
            is_in_run[maker] = true;
            open.extend(&plan.steps[maker].inputs);
        }
    }
    is_in_run
}

fn choose_rescales(problem: &Problem<'_>, choices: &mut Choices) {
    let mut settled = BTreeSet::new();
    loop {
        let plan = ScalePlan::new(problem, choices);
        let is_open = |(cause, need, _): &(Cause, u32, ValueId)| {
            *need > problem.options.comfortable_ring_bits && !settled.contains(cause)
        };
        let Some((cause, before, value)) = causes(&plan).into_iter().find(is_open) else { return };
        settled.insert(cause);
        let run = linear_run(&plan, value);
        let edges: Vec<_> =
            plan.candidates.iter().filter(|found| run[found.step.0]).map(|found| found.edge).collect();
        let mut trial = choices.clone();
        trial.rescales.extend(&edges);
        let narrowed = need(&ScalePlan::new(problem, &trial), cause);
        if narrowed >= before {
            continue;
        }
        for edge in edges {
            trial.rescales.remove(&edge);
            if need(&ScalePlan::new(problem, &trial), cause) > narrowed {
                trial.rescales.insert(edge);
            }
        }
        *choices = trial;
    }
}

/// A run a few bits over what is comfortable, if trimming brings it there.
fn trim_for_comfort(problem: &Problem<'_>, choices: &mut Choices) {
    let comfortable = problem.options.comfortable_ring_bits;
    let plan = ScalePlan::new(problem, choices);
    for (cause, before, value) in causes(&plan) {
        if !(comfortable + 1..=comfortable + MAX_COMFORT_BITS).contains(&before) {
            continue;
        }
        for trim in 1..=MAX_TRIM {
            let mut trial = choices.clone();
            trim_run(&plan, value, trim, &mut trial);
            if need(&ScalePlan::new(problem, &trial), cause) <= comfortable {
                *choices = trial;
                break;
            }
        }
    }
}

/// Runs a few bits over the widest ring, if trimming brings them there.
fn trim_to_fit(problem: &Problem<'_>, choices: &mut Choices) {
    let limit = choices.width_limit;
    let plan = ScalePlan::new(problem, choices);
    for (cause, _, value) in causes(&plan).into_iter().filter(|(_, need, _)| *need > limit) {
        let trimmed = (1..=MAX_TRIM).find_map(|trim| {
            let mut trial = choices.clone();
            trim_run(&plan, value, trim, &mut trial);
            (need(&ScalePlan::new(problem, &trial), cause) <= limit).then_some(trial)
        });
        *choices = trimmed.unwrap_or_else(|| choices.clone());
    }
}

/// Where values inside linear runs are rescaled, and what is left of them, if nothing else helps.
fn force(problem: &Problem<'_>, choices: &mut Choices) {
    let rescaled =
        |force: bool| ScalePlan::new(problem, &Choices { force, ..choices.clone() }).rescaled_scalars();
    if rescaled(true) == rescaled(false) {
        choices.force = true;
        return;
    }
    let fewest = problem.options.activation_bits.min(RESCALED_BITS);
    let mut trials = Vec::new();
    for rescaled_bits in (fewest..=RESCALED_BITS).rev() {
        for width_limit in [choices.width_limit, choices.width_limit + 1] {
            let alone = Choices { force: true, rescaled_bits, width_limit, ..choices.clone() };
            trials.extend([with_early_inputs(problem, &alone), alone]);
        }
    }
    // Of equal prices the first is taken, which leaves most of a value.
    let best = trials.into_iter().min_by_key(|trial| price(problem, trial));
    let mut best = best.unwrap_or_else(|| choices.clone());
    let chosen: Vec<_> = best.rescales.difference(&choices.rescales).copied().collect();
    for edge in chosen {
        let mut trial = best.clone();
        trial.rescales.remove(&edge);
        if price(problem, &trial) <= price(problem, &best) {
            best = trial;
        }
    }
    *choices = best;
}

/// The same with all inputs of joins rescaled that are there a round trip before the others.
fn with_early_inputs(problem: &Problem<'_>, choices: &Choices) -> Choices {
    let mut choices = choices.clone();
    loop {
        let early = ScalePlan::new(problem, &choices).candidates;
        if early.is_empty() {
            return choices;
        }
        choices.rescales.extend(early.into_iter().map(|found| found.edge));
    }
}

/// What a plan costs: bits beyond the widest ring, round trips, rescaled scalars, and bits beyond comfort.
fn price(problem: &Problem<'_>, choices: &Choices) -> (u32, usize, u64, u32) {
    let plan = ScalePlan::new(problem, choices);
    let widest = plan.widest_ring().map_or(0, |(_, bits)| bits);
    let beyond = |limit: u32| widest.saturating_sub(limit);
    let options = problem.options;
    (
        beyond(options.widest_ring_bits),
        plan.round_trips(),
        plan.rescaled_scalars(),
        beyond(options.comfortable_ring_bits),
    )
}

/// All weights of the linear run that makes a value go without some bits.
fn trim_run(plan: &ScalePlan, value: ValueId, trim: i32, choices: &mut Choices) {
    let run = linear_run(plan, value);
    for (step, _) in plan.steps.iter().zip(run).filter(|(_, is_in_run)| *is_in_run) {
        if let (Some(node), ModelOperation::Linear { .. }) = (step.node, &step.operation) {
            choices.trims[node.0] = choices.trims[node.0].max(trim);
        }
    }
}
