//! The networks of DeepReDuce's pipeline (section 3.5, Figure 4), named as the paper names them.
//!
//! From the least critical stage on, stages are culled one after the other. After each, five networks arise: the
//! culled one, that one thinned, and the thinned one with half the channels, half the resolution, and both. The
//! most critical stage is never culled, so a network of D stages gives 5(D-1).

use super::{
    ThinChoice, TransformError, cull_stage, drop_stem_relus, keep_first_block, scale_channels,
    scale_resolution, thin_stage,
};
use crate::design::CriticalityOrder;
use crate::spec::NetworkSpec;
use crate::walk::StageIndex;

/// One network of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// As the paper writes it: `S2^RT+S3^RT, alpha=0.5`.
    pub name: String,
    /// The network, or why it does not exist: a VGG on small images cannot lose half its resolution.
    pub spec: Result<NetworkSpec, TransformError>,
}

/// What to enumerate beyond the paper's five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enumeration {
    /// Also the smallest network with one block in each surviving stage (`*` in Tables 4 and 5).
    pub with_single_blocks: bool,
    /// Which ReLU of a block goes when it is thinned.
    pub thin: ThinChoice,
}

/// The 5(D-1) networks of the pipeline, in its order.
///
/// # Errors
/// When the order is one for another number of stages.
pub fn deepreduce_networks(
    spec: &NetworkSpec,
    order: &CriticalityOrder,
    enumeration: Enumeration,
) -> Result<Vec<Candidate>, TransformError> {
    let stages = order.most_to_least();
    if stages.len() != spec.stage_count() {
        let network = spec.name().to_owned();
        return Err(TransformError::Order { named: stages.len(), network, stages: spec.stage_count() });
    }
    let mut candidates = Vec::new();
    let mut culled = drop_stem_relus(spec)?;
    for surviving in (1..stages.len()).rev() {
        culled = cull_stage(&culled, stages[surviving])?;
        let mut kept = stages[..surviving].to_vec();
        kept.sort_unstable();
        let thinned = kept
            .iter()
            .try_fold(culled.clone(), |spec, &stage| thin_stage(&spec, stage, enumeration.thin))?;
        candidates.extend(iteration(&culled, &thinned, &kept, enumeration));
    }
    Ok(candidates)
}

/// The networks of one iteration: one more stage culled, `kept` ones surviving.
fn iteration(
    culled: &NetworkSpec,
    thinned: &NetworkSpec,
    kept: &[StageIndex],
    enumeration: Enumeration,
) -> Vec<Candidate> {
    let named = |mark: &str, suffix: &str, spec| {
        let names: Vec<_> = kept.iter().map(|stage| format!("{stage}{mark}")).collect();
        Candidate { name: names.join("+") + suffix, spec }
    };
    let half_channels = scale_channels(thinned, 0.5);
    let both = half_channels.clone().and_then(|spec| scale_resolution(&spec, 0.5));
    let mut candidates = vec![
        named("", "", Ok(culled.clone())),
        named("^RT", "", Ok(thinned.clone())),
        named("^RT", ", alpha=0.5", half_channels),
        named("^RT", ", rho=0.5", scale_resolution(thinned, 0.5)),
        named("^RT", ", alpha=0.5, rho=0.5", both.clone()),
    ];
    if enumeration.with_single_blocks {
        let single =
            both.and_then(|both| kept.iter().try_fold(both, |spec, &stage| keep_first_block(&spec, stage)));
        candidates.push(named("*^RT", ", alpha=0.5, rho=0.5", single));
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo;

    fn relus(candidate: &Candidate) -> u64 {
        Cost::of(candidate.spec.as_ref().unwrap()).relus
    }

    #[test]
    fn a_network_of_four_stages_gives_fifteen() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let order = CriticalityOrder::parse("3,2,4,1").unwrap();
        let candidates = deepreduce_networks(&spec, &order, Enumeration::default()).unwrap();
        let listed: Vec<(&str, u64)> =
            candidates.iter().map(|candidate| (candidate.name.as_str(), relus(candidate))).collect();
        assert_eq!(listed.len(), 15);
        assert_eq!(
            listed[..7],
            [
                ("S2+S3+S4", 229_376),
                ("S2^RT+S3^RT+S4^RT", 114_688),
                ("S2^RT+S3^RT+S4^RT, alpha=0.5", 57_344),
                ("S2^RT+S3^RT+S4^RT, rho=0.5", 28_672),
                ("S2^RT+S3^RT+S4^RT, alpha=0.5, rho=0.5", 14_336),
                ("S2+S3", 196_608),
                ("S2^RT+S3^RT", 98_304),
            ]
        );
        assert_eq!(listed[10].0, "S3");
    }

    #[test]
    fn single_block_networks_come_on_request() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let order = CriticalityOrder::parse("3,2,4,1").unwrap();
        let enumeration = Enumeration { with_single_blocks: true, ..Enumeration::default() };
        let candidates = deepreduce_networks(&spec, &order, enumeration).unwrap();
        assert_eq!(candidates.len(), 18);
        assert_eq!(candidates[5].name, "S2*^RT+S3*^RT+S4*^RT, alpha=0.5, rho=0.5");
        assert_eq!(relus(&candidates[5]), 7_168);
    }

    #[test]
    fn a_network_that_cannot_shrink_is_listed_with_the_reason() {
        let spec = zoo::build("vgg16", 32, 100).unwrap();
        let order = CriticalityOrder::parse("3,2,4,1,5").unwrap();
        let candidates = deepreduce_networks(&spec, &order, Enumeration::default()).unwrap();
        assert_eq!(candidates.len(), 20);
        assert!(candidates[2].spec.is_ok());
        assert!(matches!(candidates[3].spec, Err(TransformError::Shapes(_))));
    }

    #[test]
    fn an_order_for_another_network_is_refused() {
        let spec = zoo::build("resnet56", 32, 100).unwrap();
        let order = CriticalityOrder::parse("3,2,4,1").unwrap();
        assert!(deepreduce_networks(&spec, &order, Enumeration::default()).is_err());
    }
}
