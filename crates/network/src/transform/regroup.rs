//! Other groups for channels that share signs.

use super::{TransformError, checked, visit_all};
use crate::spec::{Grouping, Layer, NetworkSpec, SharedSigns};
use crate::walk::Operation;

/// Gives every activation with shared signs another grouping, in the order of the walk.
///
/// # Errors
/// When there are not as many groupings as such activations, or one does not fit its channels.
pub fn regroup_signs(spec: &NetworkSpec, groupings: Vec<Grouping>) -> Result<NetworkSpec, TransformError> {
    let mut draft = spec.draft().clone();
    let expected = shared_signs(spec).count();
    if expected != groupings.len() {
        let network = spec.name().to_owned();
        return Err(TransformError::Groupings { network, expected, came: groupings.len() });
    }
    let mut groupings = groupings.into_iter();
    visit_all(&mut draft, &mut |layer| {
        if let Layer::SharedSigns(signs) = layer {
            signs.grouping = groupings.next().expect("one for each was counted");
        }
    });
    checked(draft)
}

/// The activations with shared signs and their channels, in the order of the walk.
pub fn shared_signs(spec: &NetworkSpec) -> impl Iterator<Item = (&SharedSigns, usize)> {
    let walk = spec.walk();
    walk.steps().iter().filter_map(|step| match &step.operation {
        Operation::SharedSigns { signs, .. } => Some((signs, walk.shape(step.output).channels)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo;

    #[test]
    fn groupings_go_to_their_layers_in_order() {
        let spec = zoo::build("signet:signs=0+2+3,values=2,stream=4+8+8,depths=1+1+2,stem-relu=yes", 16, 10);
        let spec = spec.unwrap();
        let channels: Vec<usize> = shared_signs(&spec).map(|(_, channels)| channels).collect();
        assert_eq!(channels, [4, 4, 6, 6]);
        let reversed = |channels: &usize| Grouping::Listed(vec![(0..*channels).rev().collect()]);
        let groupings: Vec<Grouping> = channels.iter().map(reversed).collect();
        let regrouped = regroup_signs(&spec, groupings.clone()).unwrap();
        let found: Vec<Grouping> =
            shared_signs(&regrouped).map(|(signs, _)| signs.grouping.clone()).collect();
        assert_eq!(found, groupings);
        assert_eq!(Cost::of(&regrouped).relus, 256 + 64 + 2 * 16);
        let names = |spec: &NetworkSpec| -> Vec<String> {
            spec.walk().steps().iter().map(|step| step.name.clone()).collect()
        };
        assert_eq!(names(&regrouped), names(&spec));
    }

    #[test]
    fn groupings_that_do_not_fit_are_refused() {
        let spec = zoo::build("signet:signs=0+2,values=2,stream=4+8,depths=1+1", 16, 10).unwrap();
        let error = regroup_signs(&spec, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("1 activations") && error.contains("0 groupings"), "{error}");
        assert!(regroup_signs(&spec, vec![Grouping::Listed(vec![vec![0, 1, 2]])]).is_err());
    }
}
