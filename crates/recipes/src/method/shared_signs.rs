//! Shared signs: the signet for a budget of comparisons.
//!
//! A signet has `u` signs a block and pixel in its second stage, `5u` in its third and `15u` in its fourth; its first
//! compares nothing. That is where DeepReShape's HybReNets have their ReLUs at small budgets (section 4: growth 2x5x3x,
//! first stage culled). On images of 32x32 with two blocks a stage each `u` takes 1,632 comparisons.
//!
//! ```text
//! signs    the largest u whose comparisons fit the budget; one in tenths of thousands stands for the count that begins
//!          with it, as tables print them: 6.5K is 6,528
//! values   4 a sign, more where the second stage would have fewer than 32 channels inside, fewer where it would have
//!          more than 64; at least 2, at most 16
//! stream   16+64+256+512 channels; 16+128+384+768 where each value has its own sign
//! ```
//!
//! The budgets of the networks that were measured give exactly those: 3,264 with 16 values a sign, 6,528 with 8, 13,056 and
//! 26,112 with 4. Options that the network's name gives stay as they are.

use network::cost::Cost;
use network::shape::{MAX_CHANNELS, Shape};
use network::transform::Reduction;
use network::zoo;

use super::{BudgetError, OptimizeError, PlannedNetwork, ReluBudget};

/// Signs of each stage as multiples of the second's.
const GROWTH: [u64; 4] = [0, 1, 5, 15];
/// Channels of the residual stream.
const STREAM: [usize; 4] = [16, 64, 256, 512];
/// The same where no signs are shared, so that the layers inside are narrow.
const WIDE_STREAM: [usize; 4] = [16, 128, 384, 768];
/// Channels inside the second stage's blocks: as few and as many as were measured.
const INNER: (u64, u64) = (32, 64);
/// Values of a sign, where the inner channels allow them.
const USUAL_VALUES: u64 = 4;
/// The fewest and the most that the rule takes.
const VALUES: (u64, u64) = (2, 16);
/// What the family writes where a name says nothing.
const DEFAULT_SIGNS: [u64; 4] = [0, 16, 80, 240];
const DEFAULT_VALUES: u64 = 4;

/// The signet for a budget, on images of a shape.
///
/// # Errors
/// When the network is no signet, names what the budget decides, or has no size within the budget.
pub fn plan_for(
    name: &str,
    shape: Shape,
    classes: usize,
    budget: ReluBudget,
    values_per_sign: Option<u64>,
) -> Result<PlannedNetwork, OptimizeError> {
    let ReluBudget::Count(budget) = budget else { return Err(BudgetError::NoCount.into()) };
    let family = Family::new(name, shape, classes)?;
    let signs = family.signs_for(budget, values_per_sign)?;
    let name = family.name(signs, values_per_sign.unwrap_or_else(|| usual_values(signs)));
    PlannedNetwork::new(&name, Reduction::default(), &family.build(&name)?)
}

/// How many values share a sign where the second stage has so many signs.
fn usual_values(signs: u64) -> u64 {
    let (fewest, most) = (INNER.0.div_ceil(signs), INNER.1 / signs);
    USUAL_VALUES.min(most).max(fewest).clamp(VALUES.0, VALUES.1)
}

/// Signets of the same options, of any number of signs.
struct Family<'a> {
    name: &'a str,
    /// As written, without the family.
    options: Vec<&'a str>,
    stages: usize,
    side: usize,
    classes: usize,
}

impl<'a> Family<'a> {
    fn new(name: &'a str, shape: Shape, classes: usize) -> Result<Self, OptimizeError> {
        let refused =
            |reason: &str| OptimizeError::NoSignet { network: name.to_owned(), reason: reason.to_owned() };
        let (family, options) = name.split_once(':').unwrap_or((name, ""));
        if family != "signet" {
            return Err(refused("expected signet, with options or without, such as signet:depths=1+1+1+1"));
        }
        let options: Vec<_> = options.split(',').filter(|option| !option.is_empty()).collect();
        let value = |key: &str| options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='));
        if value("signs").is_some() {
            return Err(refused("the budget decides how many signs there are; remove signs from the name"));
        }
        if value("values").is_some() {
            return Err(refused(
                "give the values of a sign with --values-per-sign (optimize.values_per_sign); remove values from the name",
            ));
        }
        let stages = value("stream").or_else(|| value("depths")).map_or(4, |list| list.split('+').count());
        if !(2..=GROWTH.len()).contains(&stages) {
            return Err(refused("expected two to four stages, of which the first compares nothing"));
        }
        Ok(Self { name, options, stages, side: shape.height, classes })
    }

    /// The largest number of signs in the second stage that fits the budget.
    fn signs_for(&self, budget: u64, values_per_sign: Option<u64>) -> Result<u64, OptimizeError> {
        let comparisons = |signs: u64| {
            let name = self.name(signs, values_per_sign.unwrap_or_else(|| usual_values(signs)));
            self.build(&name).map(|spec| Cost::of(&spec).relus)
        };
        let is_printed = budget >= 1000 && budget.is_multiple_of(100);
        let limit = if is_printed { budget + 99 } else { budget };
        let refused = |nearest| BudgetError::NoSharedSigns { budget, network: self.name.to_owned(), nearest };
        let (smallest, second) = (comparisons(1)?, comparisons(2)?);
        if smallest > limit {
            return Err(refused(vec![smallest, second]).into());
        }
        // The last stage has the most channels inside.
        let channels = GROWTH[self.stages - 1] * values_per_sign.unwrap_or(VALUES.0);
        let most = MAX_CHANNELS as u64 / channels;
        let largest = comparisons(most)?;
        if limit >= largest + (second - smallest) {
            return Err(refused(vec![largest]).into());
        }
        // Comparisons grow with the signs: the last number that fits lies between the first and the next.
        let (mut fits, mut next) = (1_u64, most + 1);
        while next - fits > 1 {
            let middle = fits.midpoint(next);
            match comparisons(middle)? <= limit {
                true => fits = middle,
                false => next = middle,
            }
        }
        Ok(fits)
    }

    /// The name of the signet with so many signs in its second stage; what the family takes for granted is left out.
    fn name(&self, signs: u64, values: u64) -> String {
        let mut options = Vec::new();
        let signs_of_stages: Vec<u64> = GROWTH[..self.stages].iter().map(|growth| growth * signs).collect();
        if signs_of_stages != DEFAULT_SIGNS {
            options.push(format!("signs={}", joined(&signs_of_stages)));
        }
        if values != DEFAULT_VALUES {
            options.push(format!("values={values}"));
        }
        let stream = if values == 1 { WIDE_STREAM } else { STREAM };
        let has_stream = self.options.iter().any(|option| option.starts_with("stream="));
        if !has_stream && stream[..self.stages] != STREAM {
            options.push(format!("stream={}", joined(&stream[..self.stages])));
        }
        options.extend(self.options.iter().map(|option| (*option).to_owned()));
        match options.is_empty() {
            true => "signet".to_owned(),
            false => format!("signet:{}", options.join(",")),
        }
    }

    fn build(&self, name: &str) -> Result<network::spec::NetworkSpec, OptimizeError> {
        Ok(zoo::build(name, self.side, self.classes)?)
    }
}

fn joined<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, side: usize, budget: u64, values: Option<u64>) -> Result<PlannedNetwork, String> {
        plan_for(name, Shape::image(side), 100, ReluBudget::Count(budget), values)
            .map_err(|error| error.to_string())
    }

    #[track_caller]
    fn chosen(budget: u64, values: Option<u64>) -> (String, u64, u64) {
        let plan = plan("signet", 32, budget, values).unwrap();
        (plan.network, plan.cost.relus, plan.cost.gated_values)
    }

    #[test]
    fn the_measured_networks_come_out_at_their_budgets() {
        for (budget, printed, name, gated_values) in [
            (3_264, 3_300, "signet:signs=0+2+10+30,values=16", 48_960),
            (6_528, 6_500, "signet:signs=0+4+20+60,values=8", 45_696),
            (13_056, 13_100, "signet:signs=0+8+40+120", 39_168),
            (26_112, 26_100, "signet", 78_336),
        ] {
            let expected = (name.to_owned(), budget, gated_values);
            assert_eq!(chosen(budget, None), expected);
            assert_eq!(chosen(printed, None), expected);
        }
        // Those with a sign for each value, and with two values a sign.
        let wide = "stream=16+128+384+768";
        assert_eq!(chosen(26_112, Some(1)), (format!("signet:values=1,{wide}"), 26_112, 0));
        assert_eq!(chosen(13_056, Some(1)), (format!("signet:signs=0+8+40+120,values=1,{wide}"), 13_056, 0));
        assert_eq!(chosen(26_112, Some(2)), ("signet:values=2".to_owned(), 26_112, 26_112));
    }

    #[test]
    fn larger_budgets_have_fewer_values_a_sign() {
        let expected = |signs: &str, count| (format!("signet:signs={signs},values=2"), count, count);
        assert_eq!(chosen(52_200, None), expected("0+32+160+480", 52_224));
        assert_eq!(chosen(100_000, None), expected("0+61+305+915", 99_552));
        assert_eq!(chosen(104_400, None), expected("0+64+320+960", 104_448));
    }

    #[test]
    fn what_lies_between_fits_and_wastes_less_than_one_step() {
        for budget in (1_632_u64..120_000).step_by(1_237).filter(|budget| !budget.is_multiple_of(100)) {
            let plan = plan("signet", 32, budget, None).unwrap();
            let is_within = plan.cost.relus <= budget && plan.cost.relus + 1_632 > budget;
            assert!(is_within, "{}: {} for {budget}", plan.network, plan.cost.relus);
        }
        assert_eq!((usual_values(3), usual_values(12), usual_values(24), usual_values(1)), (11, 4, 2, 16));
    }

    #[test]
    fn options_of_the_name_stay() {
        let small = plan("signet:stream=4+8+8,depths=1+1+1,slopes=no", 16, 990, Some(4)).unwrap();
        // 64 comparisons for each sign of the second stage, 5 * 16 in the third.
        let name = "signet:signs=0+6+30,stream=4+8+8,depths=1+1+1,slopes=no";
        assert_eq!((small.network.as_str(), small.cost.relus), (name, 6 * (64 + 5 * 16)));
        let other = plan("signet:stem-relu=yes", 32, 43_000, Some(4)).unwrap();
        assert_eq!((other.network.as_str(), other.cost.relus), ("signet:stem-relu=yes", 26_112 + 16_384));
    }

    #[test]
    fn what_cannot_be_met_is_refused_with_the_nearest() {
        let refusal = |name, budget, values| plan(name, 32, budget, values).unwrap_err();
        let text = refusal("signet", 1_000, None);
        assert!(text.contains("1000 comparisons") && text.contains("1632 or 3264"), "{text}");
        let text = refusal("signet", 1_000_000_000, None);
        assert!(text.contains("nearest that can is 3564288"), "{text}");
        let text = refusal("signet:signs=0+1+2+3", 5_000, None);
        assert!(text.contains("remove signs"), "{text}");
        let text = refusal("signet:values=3", 5_000, None);
        assert!(text.contains("--values-per-sign"), "{text}");
        let text = refusal("resnet18", 5_000, None);
        assert!(text.contains("expected signet"), "{text}");
        let text = refusal("signet:stream=8", 5_000, None);
        assert!(text.contains("two to four stages"), "{text}");
        let part = plan_for("signet", Shape::image(32), 100, ReluBudget::FractionOfBaseline(0.5), None);
        assert!(part.unwrap_err().to_string().contains("13.1K"), "a part of what?");
    }
}
