//! SENet: how many ReLUs each layer keeps, by how much of its weights magnitude pruning would take.
//!
//! ```text
//! sensitivity   all filters are pruned together by magnitude to a density; a layer whose filters lose most is one whose
//!               ReLUs matter most: 1 - the part that survives (the paper's inverse relation)
//! allocation    the budget, shared in proportion to that; no layer gets more than it has
//! location      in each layer the positions at which student and teacher differ most, epoch by epoch
//! fine-tuning   with the mask as it is, softened outputs and the maps at the ends of the stages
//! ```
//!
//! Kundu and others, "Learning to Linearize Deep Neural Networks for Secure and Efficient Private Inference" (ICLR 2023). The
//! authors' code has the parts of each layer as constants; `ratios` takes such a list instead of the first line. The settings
//! are those of that code. How the sensitivity is measured there is not in it: pruning once, by magnitude, is ours.

use network::mask::{ActivationMask, Bits, SiteMask};
use network::spec::NetworkSpec;
use network::walk::{Operation, ReluSite, ValueId};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

use super::ReluBudget;
use crate::random::Stream;

/// SENet's allocation and its search of locations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SenetSection {
    /// How many ReLUs stay.
    pub budget: ReluBudget,
    /// A run or checkpoint of the network that is to lose ReLUs; the recipe's teacher where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<PathBuf>,
    /// The part of each layer's ReLUs that stays, in the order of the network, scaled to the budget; found by pruning where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios: Option<Vec<f64>>,
    /// The part of the weights that survives the pruning which measures sensitivity.
    #[serde(default = "density")]
    pub density: f64,
    /// Epochs of the search of locations.
    #[serde(default = "epochs")]
    pub epochs: u32,
    /// Images of one of its steps.
    #[serde(default = "batch")]
    pub batch: usize,
    /// Its rate, which stays.
    #[serde(default = "learning_rate")]
    pub learning_rate: f64,
    /// How much of each weight goes into its gradient there.
    #[serde(default = "weight_decay")]
    pub weight_decay: f64,
    /// By which logits are divided there.
    #[serde(default = "temperature")]
    pub temperature: f64,
    /// Weight of the teacher's term there; the true classes get the rest.
    #[serde(default = "half")]
    pub distillation: f64,
    /// Epochs between two checkpoints of the search.
    #[serde(default = "checkpoint_every")]
    pub checkpoint_every: u32,
}

impl SenetSection {
    /// The authors' settings.
    pub fn new(budget: ReluBudget) -> Self {
        Self {
            budget,
            start: None,
            ratios: None,
            density: density(),
            epochs: epochs(),
            batch: batch(),
            learning_rate: learning_rate(),
            weight_decay: weight_decay(),
            temperature: temperature(),
            distillation: half(),
            checkpoint_every: checkpoint_every(),
        }
    }

    pub(crate) fn out_of_range(&self) -> Option<(&'static str, String, &'static str)> {
        let ratios = self.ratios.iter().flatten().find(|ratio| !(0.0..=1.0).contains(*ratio));
        let checks = [
            ("optimize.ratios", ratios.copied().unwrap_or(0.0), ratios.is_none(), "parts from 0 to 1"),
            (
                "optimize.density",
                self.density,
                self.density > 0.0 && self.density < 1.0,
                "a part between 0 and 1",
            ),
            ("optimize.epochs", f64::from(self.epochs), self.epochs > 0, "1 or more"),
            ("optimize.batch", self.batch as f64, self.batch >= 2, "2 images or more"),
            ("optimize.learning_rate", self.learning_rate, self.learning_rate > 0.0, "a rate above 0"),
            ("optimize.weight_decay", self.weight_decay, self.weight_decay >= 0.0, "0 or more"),
            ("optimize.temperature", self.temperature, self.temperature > 0.0, "a number above 0"),
            ("optimize.distillation", self.distillation, (0.0..=1.0).contains(&self.distillation), "0 to 1"),
        ];
        let bad = checks.into_iter().find(|(_, value, is_good, _)| !is_good || !value.is_finite());
        bad.map(|(key, value, _, expected)| (key, value.to_string(), expected))
    }

    /// ReLUs of each site under a budget, with the sensitivities that pruning found, or by the section's own ratios.
    ///
    /// # Errors
    /// When there are not as many ratios as sites, or they are all 0.
    pub fn allocation(
        &self,
        spec: &NetworkSpec,
        budget: u64,
        sensitivities: &[f64],
    ) -> Result<Vec<u64>, AllocationError> {
        let sizes: Vec<u64> = spec.walk().sites().iter().map(size).collect();
        let Some(ratios) = &self.ratios else { return Ok(allocate(budget, sensitivities, &sizes)) };
        self.check_ratios(spec)?;
        let shares: Vec<f64> = ratios.iter().zip(&sizes).map(|(ratio, size)| ratio * *size as f64).collect();
        Ok(allocate(budget, &shares, &sizes))
    }

    /// Refuses ratios of another network.
    ///
    /// # Errors
    /// When there are not as many as sites, or they are all 0.
    pub fn check_ratios(&self, spec: &NetworkSpec) -> Result<(), AllocationError> {
        let Some(ratios) = &self.ratios else { return Ok(()) };
        let expected = spec.walk().sites().len();
        if ratios.len() != expected || ratios.iter().all(|ratio| *ratio == 0.0) {
            return Err(AllocationError { network: spec.name().to_owned(), expected, came: ratios.len() });
        }
        Ok(())
    }
}

fn density() -> f64 {
    0.1
}

fn epochs() -> u32 {
    150
}

fn batch() -> usize {
    128
}

fn learning_rate() -> f64 {
    0.05
}

fn weight_decay() -> f64 {
    5e-4
}

fn temperature() -> f64 {
    4.0
}

fn half() -> f64 {
    0.5
}

fn checkpoint_every() -> u32 {
    10
}

/// Ratios of another network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{network} has {expected} layers with ReLUs, optimize.ratios {came} numbers; give one for each layer, not all 0, or leave \
     them out to have them found"
)]
pub struct AllocationError {
    /// The network.
    pub network: String,
    /// Its layers.
    pub expected: usize,
    /// What came.
    pub came: usize,
}

/// ReLUs of a site.
fn size(site: &ReluSite) -> u64 {
    site.shape.scalars()
}

/// Shares a budget in proportion to weights. No place gets more than its size; what it cannot take goes to the others in the
/// same proportion, and the rest to places without weight.
pub fn allocate(budget: u64, weights: &[f64], sizes: &[u64]) -> Vec<u64> {
    let mut counts = vec![0; sizes.len()];
    let budget = budget.min(sizes.iter().sum());
    let fair = fair_parts(budget as f64, weights, sizes);
    for (count, part) in counts.iter_mut().zip(&fair) {
        // A whole number that came out a little larger must not take one that is another's.
        *count = (part - 1e-6).max(0.0) as u64;
    }
    // The largest remainders first; places that are full are passed over.
    let remainder = |index: usize| fair[index] - counts[index] as f64;
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|one, other| remainder(*other).total_cmp(&remainder(*one)).then(one.cmp(other)));
    let mut left = budget - counts.iter().sum::<u64>();
    while left > 0 {
        for index in &order {
            if left > 0 && counts[*index] < sizes[*index] {
                counts[*index] += 1;
                left -= 1;
            }
        }
    }
    counts
}

/// The same with broken numbers, before anything is rounded.
fn fair_parts(budget: f64, weights: &[f64], sizes: &[u64]) -> Vec<f64> {
    let mut parts = vec![0.0; sizes.len()];
    let mut open: Vec<usize> = (0..sizes.len()).filter(|index| weights[*index] > 0.0).collect();
    let mut left = budget;
    loop {
        let total: f64 = open.iter().map(|index| weights[*index]).sum();
        let is_over = |index: &usize| left * weights[*index] / total >= sizes[*index] as f64;
        let full: Vec<usize> = open.iter().copied().filter(is_over).collect();
        if full.is_empty() {
            open.iter().for_each(|index| parts[*index] = left * weights[*index] / total);
            return parts;
        }
        for index in full {
            parts[index] = sizes[index] as f64;
            left -= parts[index];
            open.retain(|other| *other != index);
        }
    }
}

/// For each site the steps whose filters make what it reads: back through batch norms, sums and the like.
pub fn filters_before_sites(spec: &NetworkSpec) -> Vec<Vec<String>> {
    let steps = spec.walk().steps();
    let behind = |value: ValueId| {
        let (mut names, mut open, mut seen) = (Vec::new(), vec![value], Vec::new());
        while let Some(value) = open.pop() {
            let Some(maker) = value.maker().filter(|_| !seen.contains(&value)) else { continue };
            seen.push(value);
            let step = &steps[maker.0];
            match step.operation {
                Operation::Conv(_) | Operation::FullyConnected { .. } => names.push(step.name.clone()),
                Operation::Relu { .. } | Operation::SharedSigns { .. } => {}
                _ => open.extend(&step.inputs),
            }
        }
        names
    };
    let is_site =
        |operation: &Operation| matches!(operation, Operation::Relu { .. } | Operation::SharedSigns { .. });
    steps.iter().filter(|step| is_site(&step.operation)).map(|step| behind(step.inputs[0])).collect()
}

/// How much the ReLUs of each site matter: 1 - the part of the filters before it that survives when all are pruned together, by
/// magnitude, to a density. One list of weights for each site.
pub fn sensitivities(filters: &[Vec<f32>], density: f64) -> Vec<f64> {
    let mut all: Vec<f32> = filters.iter().flatten().map(|weight| weight.abs()).collect();
    let kept = ((all.len() as f64 * density).round() as usize).min(all.len());
    let threshold = match all.len() - kept {
        0 => f32::NEG_INFINITY,
        pruned => *all.select_nth_unstable_by(pruned - 1, f32::total_cmp).1,
    };
    let survives =
        |weights: &Vec<f32>| weights.iter().filter(|weight| weight.abs() > threshold).count() as f64;
    filters.iter().map(|weights| 1.0 - survives(weights) / weights.len().max(1) as f64).collect()
}

/// The mask that keeps in each site so many positions, those with the highest scores. Of equals the earlier one stays.
///
/// # Panics
/// If scores or counts are another network's.
pub fn highest_in_each_site(spec: &NetworkSpec, scores: &[Vec<f32>], counts: &[u64]) -> ActivationMask {
    let site = |(scores, count): (&Vec<f32>, &u64)| {
        let count = *count as usize;
        if count == 0 {
            return SiteMask::DropAll;
        }
        if count >= scores.len() {
            return SiteMask::KeepAll;
        }
        let mut order: Vec<usize> = (0..scores.len()).collect();
        let by_rank =
            |one: &usize, other: &usize| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other));
        order.select_nth_unstable_by(count - 1, by_rank);
        let mut keeps = vec![false; scores.len()];
        order[..count].iter().for_each(|index| keeps[*index] = true);
        SiteMask::Pixels(Bits::collect(keeps))
    };
    ActivationMask::new(spec, scores.iter().zip(counts).map(site).collect())
        .expect("there is a score for each position of each site")
}

/// A mask with so many positions in each site, by chance: where the search of locations begins.
pub fn random_mask(spec: &NetworkSpec, counts: &[u64], seed: u64) -> ActivationMask {
    let mut stream = Stream::new("SENet's first mask", seed);
    let mut draw = |site: &ReluSite| (0..size(site)).map(|_| stream.unit()).collect();
    let scores: Vec<Vec<f32>> = spec.walk().sites().iter().map(&mut draw).collect();
    highest_in_each_site(spec, &scores, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::zoo;
    use proptest::prelude::*;

    /// The authors' list for 50,000 ReLUs of ResNet-18, its stem first.
    const RATIOS: [f64; 17] =
        [0.02, 0.025, 0.03, 0.025, 0.025, 0.05, 0.05, 0.05, 0.05, 0.25, 0.25, 0.25, 0.25, 0.5, 0.6, 0.6, 0.6];

    #[test]
    fn the_authors_parts_make_their_budget() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let section =
            SenetSection { ratios: Some(RATIOS.to_vec()), ..SenetSection::new(ReluBudget::Count(50_000)) };
        // Their counts are 1311, 1638, 1966 ...; together 49,967, so that 50,000 is nearly the same.
        let counts = section.allocation(&spec, 50_000, &[]).unwrap();
        assert_eq!(counts.iter().sum::<u64>(), 50_000);
        for ((count, ratio), site) in counts.iter().zip(RATIOS).zip(spec.walk().sites()) {
            let theirs = ratio * size(site) as f64;
            assert!((*count as f64 - theirs).abs() < 5.0, "{}: {count} and {theirs}", site.name);
        }
        let short = SenetSection { ratios: Some(vec![0.5; 16]), ..section };
        let error = short.allocation(&spec, 50_000, &[]).unwrap_err().to_string();
        assert!(error.contains("17 layers") && error.contains("16 numbers"), "{error}");
    }

    #[test]
    fn what_a_full_layer_cannot_take_goes_to_the_others() {
        assert_eq!(allocate(100, &[1.0, 1.0, 2.0], &[10, 1000, 1000]), [10, 30, 60]);
        assert_eq!(allocate(7, &[1.0, 1.0, 0.0], &[2, 2, 10]), [2, 2, 3]);
        assert_eq!(allocate(99, &[0.5, 0.5], &[3, 4]), [3, 4]);
    }

    #[test]
    fn a_layer_that_pruning_empties_is_the_most_sensitive() {
        let filters = [vec![0.9, -0.8, 0.7, 0.1], vec![0.05; 4], vec![0.6, 0.02, 0.01, 0.0]];
        let found = sensitivities(&filters, 4.0 / 12.0);
        assert_eq!(found, [0.25, 1.0, 0.75]);
    }

    #[test]
    fn each_site_knows_the_filters_that_it_reads() {
        let spec = zoo::build("resnet18:m=1,depths=1+1+1+1", 8, 10).unwrap();
        let filters = filters_before_sites(&spec);
        assert_eq!(filters.len(), spec.walk().sites().len());
        assert_eq!(filters[0], ["stem.conv1"]);
        assert_eq!(filters[1], ["stage1.block1.body.conv1"]);
        // After an addition: the body's last filters, and those of the shortcut where there are some.
        assert_eq!(filters[2], ["stage1.block1.body.conv2"]);
        assert_eq!(filters[4].len(), 2, "{:?}", filters[4]);
    }

    #[test]
    fn the_highest_stay_in_each_site() {
        let spec = zoo::build("resnet18:m=1,depths=1+1+1+1", 8, 10).unwrap();
        let sizes: Vec<u64> = spec.walk().sites().iter().map(size).collect();
        let scores: Vec<Vec<f32>> =
            sizes.iter().map(|size| (0..*size).map(|index| (index % 7) as f32).collect()).collect();
        let mut counts: Vec<u64> = sizes.iter().map(|size| size / 4).collect();
        (counts[0], counts[1]) = (0, sizes[1]);
        let mask = highest_in_each_site(&spec, &scores, &counts);
        let kept: Vec<u64> = spec.walk().sites().iter().map(|site| mask.relu_count_at(site.index)).collect();
        assert_eq!(kept, counts);
        let SiteMask::Pixels(bits) = mask.site(network::walk::SiteIndex(2)) else { panic!("pixels") };
        let lowest_kept = (0..bits.len()).filter(|index| bits.get(*index)).map(|index| index % 7).min();
        assert!(lowest_kept >= Some(5), "{lowest_kept:?}");
        let random = random_mask(&spec, &counts, 1);
        assert_eq!(random.relu_count(), counts.iter().sum::<u64>());
        assert_ne!(random, random_mask(&spec, &counts, 2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_budget_is_shared_to_the_last_relu(
            places in prop::collection::vec((0.0..1.0_f64, 1..500_u64), 1..12), part in 0.0..1.0_f64
        ) {
            let (weights, sizes): (Vec<f64>, Vec<u64>) = places.into_iter().unzip();
            let budget = (sizes.iter().sum::<u64>() as f64 * part) as u64;
            let counts = allocate(budget, &weights, &sizes);
            prop_assert_eq!(counts.iter().sum::<u64>(), budget);
            prop_assert!(counts.iter().zip(&sizes).all(|(count, size)| count <= size));
        }
    }
}
