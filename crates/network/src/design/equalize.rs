//! ReLU equalization (DeepReShape Algorithm 1, appendix A): widths or depths that put ReLUs in criticality order.
//!
//! Stage k of depth phi_k has ReLUs in proportion to phi_k * (lambda_1 ... lambda_(k-1)) / 4^(k-1): channels grow by
//! lambda from stage to stage while the map shrinks to a quarter. Equalized means that these numbers fall strictly
//! from the most to the least critical stage. (Algorithm 1 prints 2^(k-1); the derivation below it, and the
//! networks it yields, need 4^(k-1).)

use std::collections::HashMap;
use std::fmt;

use super::CriticalityOrder;

/// The inequality for one network and one order.
#[derive(Clone, Debug)]
pub struct Equalization {
    depths: Vec<u64>,
    order: CriticalityOrder,
}

/// Solutions that share all factors but those that are open to above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family(pub Vec<Term>);

/// One factor of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// This number.
    Exactly(u64),
    /// This number or any larger one.
    AtLeast(u64),
}

impl Family {
    /// The member with the smallest factors.
    pub fn smallest(&self) -> Vec<u64> {
        self.0.iter().map(Term::smallest).collect()
    }

    /// Whether it has members beyond any bound.
    pub fn is_open(&self) -> bool {
        self.0.iter().any(Term::is_open)
    }
}

impl Term {
    fn smallest(&self) -> u64 {
        match self {
            Self::Exactly(factor) | Self::AtLeast(factor) => *factor,
        }
    }

    fn is_open(&self) -> bool {
        matches!(self, Self::AtLeast(_))
    }
}

/// `5x5x3x`, or `5x9x2x, beta >= 9` for an open family.
impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for factor in self.smallest() {
            write!(formatter, "{factor}x")?;
        }
        for (index, term) in self.0.iter().enumerate().filter(|(_, term)| term.is_open()) {
            match ["alpha", "beta", "gamma"].get(index) {
                Some(name) => write!(formatter, ", {name} >= {}", term.smallest())?,
                None => write!(formatter, ", factor {} >= {}", index + 1, term.smallest())?,
            }
        }
        Ok(())
    }
}

impl Equalization {
    /// The smallest growth factor considered, as in the paper.
    pub const MIN_FACTOR: u64 = 2;
    /// The largest number of factor combinations that is searched.
    const MAX_COMBINATIONS: u64 = 4_000_000;

    /// For a network with these blocks per stage.
    ///
    /// # Errors
    /// When there is not one depth, at least 1, for each stage of the order.
    pub fn new(depths: &[u64], order: CriticalityOrder) -> Result<Self, DesignError> {
        let stages = order.most_to_least().len();
        if depths.len() != stages || depths.iter().any(|depth| *depth == 0 || *depth > 1000) {
            return Err(DesignError::Depths { came: depths.to_vec(), stages });
        }
        Ok(Self { depths: depths.to_vec(), order })
    }

    /// Whether these growth factors, one between each pair of stages, equalize the network.
    pub fn is_satisfied_by(&self, factors: &[u64]) -> bool {
        let ordered = self.order.most_to_least();
        relative_relus(&self.depths, factors).is_some_and(|counts| {
            ordered.windows(2).all(|pair| counts[pair[0].0 - 1] > counts[pair[1].0 - 1])
        })
    }

    /// Every choice of the later factors, from 2 to the maximum, with the smallest first factor that equalizes.
    ///
    /// # Errors
    /// When the search would be too large.
    pub fn through_width(&self, max_factor: u64) -> Result<Vec<Vec<u64>>, DesignError> {
        let later = self.depths.len() - 2;
        let range = max_factor.saturating_sub(1);
        let combinations = range.checked_pow(later as u32 + 1);
        if combinations.is_none_or(|count| count > Self::MAX_COMBINATIONS) {
            return Err(DesignError::TooMany { max_factor, stages: self.depths.len() });
        }
        let mut solutions = Vec::new();
        for index in 0..range.pow(later as u32) {
            let mut rest = index;
            let tail: Vec<u64> = (0..later)
                .map(|_| {
                    let factor = Self::MIN_FACTOR + rest % range;
                    rest /= range;
                    factor
                })
                .collect();
            solutions.extend(self.smallest_first(&tail, max_factor));
        }
        solutions.sort();
        Ok(solutions)
    }

    fn smallest_first(&self, tail: &[u64], max_factor: u64) -> Option<Vec<u64>> {
        (Self::MIN_FACTOR..=max_factor)
            .map(|first| [&[first], tail].concat())
            .find(|factors| self.is_satisfied_by(factors))
    }

    /// The same solutions with open runs of the later factors written as one family.
    ///
    /// # Errors
    /// When the search would be too large.
    pub fn families(&self, max_factor: u64) -> Result<Vec<Family>, DesignError> {
        let exactly = |factors: Vec<u64>| factors.into_iter().map(Term::Exactly).collect();
        let mut families: Vec<Vec<Term>> = self.through_width(max_factor)?.into_iter().map(exactly).collect();
        for axis in 1..self.depths.len() - 1 {
            families = self.open_along(axis, families, max_factor);
        }
        families.sort_by_key(|terms| terms.iter().map(Term::smallest).collect::<Vec<_>>());
        Ok(families.into_iter().map(Family).collect())
    }

    /// Writes each run of one factor that goes on for ever as one family.
    fn open_along(&self, axis: usize, families: Vec<Vec<Term>>, max_factor: u64) -> Vec<Vec<Term>> {
        // The factors that occur beside the same others, in order.
        let mut runs: HashMap<Vec<Term>, Vec<u64>> = HashMap::new();
        for mut terms in families {
            let factor = terms[axis].smallest();
            terms[axis] = Term::Exactly(0);
            runs.entry(terms).or_default().push(factor);
        }
        let mut merged = Vec::new();
        for (mut terms, mut factors) in runs {
            factors.sort_unstable();
            let is_next = |pair: &(u64, &u64)| pair.0 == *pair.1;
            let reaching = (0..=max_factor).rev().zip(factors.iter().rev()).take_while(is_next).count();
            if reaching > 0 && self.stays(axis, &terms, max_factor) {
                terms[axis] = Term::AtLeast(max_factor + 1 - reaching as u64);
                merged.push(terms.clone());
                factors.truncate(factors.len() - reaching);
            }
            merged.extend(factors.into_iter().map(|factor| {
                terms[axis] = Term::Exactly(factor);
                terms.clone()
            }));
        }
        merged
    }

    /// Whether a run that reaches the largest factor goes on beyond it.
    ///
    /// Counts grow linearly in a factor for the stages after it and stay for the others, so an inequality that holds
    /// at the end of the range and far beyond it holds for ever; open factors found before are tried at both ends.
    fn stays(&self, axis: usize, terms: &[Term], max_factor: u64) -> bool {
        let far = [2 * max_factor, FAR];
        far.iter().all(|&factor| {
            [None, Some(FAR)].into_iter().all(|others| {
                let mut factors: Vec<u64> = terms
                    .iter()
                    .map(|term| others.filter(|_| term.is_open()).unwrap_or_else(|| term.smallest()))
                    .collect();
                factors[axis] = factor;
                self.smallest_first(&factors[1..], max_factor).is_some_and(|found| found[0] == factors[0])
            })
        })
    }

    /// The paper's choice among the solutions: the smallest first factor, then for each last factor below 4 the
    /// smallest second one.
    ///
    /// # Errors
    /// When the search would be too large.
    pub fn paper_choice(&self, max_factor: u64) -> Result<Vec<Vec<u64>>, DesignError> {
        let solutions = self.through_width(max_factor)?;
        let Some(first) = solutions.iter().map(|factors| factors[0]).min() else { return Ok(Vec::new()) };
        let mut chosen: Vec<Vec<u64>> = Vec::new();
        for factors in
            solutions.into_iter().filter(|factors| factors[0] == first && factors[factors.len() - 1] < 4)
        {
            if !chosen.iter().any(|other| other.get(2..) == factors.get(2..)) {
                chosen.push(factors);
            }
        }
        Ok(chosen)
    }

    /// The smallest depths that equalize a network with these growth factors: from the least critical stage, which
    /// gets one block, each next one as few as it needs.
    ///
    /// # Errors
    /// When there is not one factor, at least 1, between each pair of stages.
    pub fn through_depth(order: &CriticalityOrder, factors: &[u64]) -> Result<Vec<u64>, DesignError> {
        let stages = order.most_to_least().len();
        if factors.len() + 1 != stages || factors.iter().any(|factor| *factor == 0 || *factor > 1000) {
            return Err(DesignError::Factors { came: factors.to_vec(), stages });
        }
        smallest_depths(order, factors)
            .ok_or_else(|| DesignError::TooDeep { factors: factors.to_vec(), stages })
    }
}

/// A factor far beyond any range that is searched.
const FAR: u64 = 1 << 20;

/// None where they are beyond counting.
fn smallest_depths(order: &CriticalityOrder, factors: &[u64]) -> Option<Vec<u64>> {
    let stages = order.most_to_least().len();
    let weights = relative_relus(&vec![1; stages], factors)?;
    let mut depths = vec![0; stages];
    let mut needed = 0_u128;
    for stage in order.most_to_least().iter().rev() {
        let weight = weights[stage.0 - 1];
        let depth = needed / weight + 1;
        depths[stage.0 - 1] = u64::try_from(depth).ok()?;
        needed = depth.checked_mul(weight)?;
    }
    Some(depths)
}

/// ReLUs of each stage up to a common factor; none where they are beyond counting or a factor is missing.
fn relative_relus(depths: &[u64], factors: &[u64]) -> Option<Vec<u128>> {
    let stages = depths.len();
    let mut channels = 1_u128;
    let mut counts = Vec::with_capacity(stages);
    for (index, depth) in depths.iter().enumerate() {
        if index > 0 {
            channels = channels.checked_mul(u128::from(*factors.get(index - 1)?))?;
        }
        let shrinking = 4_u128.checked_pow((stages - 1 - index) as u32)?;
        counts.push(u128::from(*depth).checked_mul(channels)?.checked_mul(shrinking)?);
    }
    Some(counts)
}

/// The version for small budgets: the first growth factor lowered to 2, so that most ReLUs stand in the first,
/// least critical stage, where they are culled (DeepReShape section 4, capacity-criticality trade-off).
pub fn with_low_budget_growth(factors: &[u64]) -> Vec<u64> {
    let mut factors = factors.to_vec();
    if let Some(first) = factors.first_mut() {
        *first = 2;
    }
    factors
}

/// A design question without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// Depths that do not fit the order.
    #[error("{came:?} are no depths for {stages} stages; give one number from 1 to 1000 for each")]
    Depths {
        /// What came.
        came: Vec<u64>,
        /// How many are needed.
        stages: usize,
    },
    /// Factors that do not fit the order.
    #[error(
        "{came:?} are no growth factors for {stages} stages; give one number from 1 to 1000 between each two"
    )]
    Factors {
        /// What came.
        came: Vec<u64>,
        /// How many stages there are.
        stages: usize,
    },
    /// Depths beyond counting.
    #[error("with growth factors {factors:?} the {stages} stages would need depths beyond counting")]
    TooDeep {
        /// The growth factors.
        factors: Vec<u64>,
        /// How many stages there are.
        stages: usize,
    },
    /// Too many combinations.
    #[error("factors up to {max_factor} for {stages} stages are too many combinations; lower the maximum")]
    TooMany {
        /// The largest factor.
        max_factor: u64,
        /// How many stages there are.
        stages: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equalization(depths: &[u64], order: &str) -> Equalization {
        Equalization::new(depths, CriticalityOrder::parse(order).unwrap()).unwrap()
    }

    #[test]
    fn resnet18_has_exactly_the_four_solutions_of_the_paper() {
        let solutions = equalization(&[2; 4], "3,2,4,1").through_width(12).unwrap();
        assert_eq!(solutions, [[5, 5, 3], [5, 7, 2], [6, 6, 2], [7, 5, 2]]);
    }

    #[test]
    fn the_altered_order_gives_the_networks_of_appendix_f() {
        let equalization = equalization(&[2; 4], "3,4,2,1");
        assert_eq!(equalization.paper_choice(12).unwrap(), [[5, 6, 3], [5, 9, 2]]);
        let families: Vec<_> = equalization.families(12).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(families, ["5x6x3x, beta >= 6", "5x9x2x, beta >= 9"]);
    }

    #[test]
    fn factors_that_may_all_grow_are_one_family() {
        // 4 > 3 > 2 > 1 with equal depths: each factor must exceed 4.
        let equalization = equalization(&[2; 4], "4,3,2,1");
        let families: Vec<_> = equalization.families(12).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(families, ["5x5x5x, beta >= 5, gamma >= 5"]);
        // A search as large as any that is allowed.
        assert_eq!(equalization.families(158).unwrap().len(), 1);
    }

    #[test]
    fn families_hold_the_solutions_and_nothing_else() {
        for order in ["3,2,4,1", "3,4,2,1", "4,3,2,1", "2,3,4,1", "4,2,3,1", "2,4,3,1", "1,2,3,4"] {
            let equalization = equalization(&[3, 4, 6, 3], order);
            let solutions = equalization.through_width(10).unwrap();
            let families = equalization.families(10).unwrap();
            for factors in (0..9_u64.pow(3)).map(|code| [2 + code % 9, 2 + code / 9 % 9, 2 + code / 81]) {
                let matches = |term: &Term, factor: u64| match term {
                    Term::Exactly(exact) => factor == *exact,
                    Term::AtLeast(least) => factor >= *least,
                };
                let members = families.iter().filter(|family| {
                    family.0.iter().zip(factors).all(|(term, factor)| matches(term, factor))
                });
                assert_eq!(
                    members.count(),
                    usize::from(solutions.contains(&factors.to_vec())),
                    "{order} {factors:?}"
                );
            }
        }
    }

    #[test]
    fn resnet34_gives_the_networks_of_section_5() {
        assert_eq!(equalization(&[3, 4, 6, 3], "3,2,4,1").paper_choice(12).unwrap(), [[4, 6, 3], [4, 9, 2]]);
    }

    #[test]
    fn solutions_satisfy_the_inequality_and_smaller_first_factors_do_not() {
        for order in ["3,2,4,1", "3,4,2,1", "4,3,2,1", "2,3,4,1"] {
            let equalization = equalization(&[3, 4, 6, 3], order);
            for factors in equalization.through_width(9).unwrap() {
                assert!(equalization.is_satisfied_by(&factors));
                let smaller = [factors[0] - 1, factors[1], factors[2]];
                assert!(smaller[0] < 2 || !equalization.is_satisfied_by(&smaller));
            }
        }
    }

    #[test]
    fn the_depths_printed_in_the_paper_do_not_satisfy_its_own_inequality() {
        for depths in [[1, 5, 5, 3], [1, 5, 7, 2], [1, 6, 6, 2], [1, 7, 5, 2]] {
            assert!(!equalization(&depths, "3,2,4,1").is_satisfied_by(&[2, 2, 2]), "{depths:?}");
        }
        let order = CriticalityOrder::parse("3,2,4,1").unwrap();
        let depths = Equalization::through_depth(&order, &[2, 2, 2]).unwrap();
        assert_eq!(depths, [1, 3, 7, 9]);
        assert!(equalization(&depths, "3,2,4,1").is_satisfied_by(&[2, 2, 2]));
        for stage in 1..4 {
            let mut fewer = depths.clone();
            fewer[stage] -= 1;
            assert!(!equalization(&fewer, "3,2,4,1").is_satisfied_by(&[2, 2, 2]));
        }
    }

    #[test]
    fn senseless_questions_are_refused() {
        let order = || CriticalityOrder::parse("3,2,1").unwrap();
        assert!(Equalization::new(&[2, 2], order()).is_err());
        assert!(Equalization::new(&[2, 0, 2], order()).is_err());
        assert!(Equalization::new(&[2, 2, 2], order()).unwrap().through_width(u64::MAX).is_err());
        assert!(Equalization::through_depth(&order(), &[2]).is_err());
        let longest = CriticalityOrder::new((1..=16).map(crate::walk::StageIndex).collect()).unwrap();
        let result = Equalization::through_depth(&longest, &[1000; 15]);
        assert!(matches!(result, Err(DesignError::TooDeep { .. })), "{result:?}");
        let equalization = Equalization::new(&[2; 16], longest).unwrap();
        assert!(!equalization.is_satisfied_by(&[u64::MAX; 15]) && !equalization.is_satisfied_by(&[2]));
    }
}
