//! Reshape: smaller networks of the same form (DeepReDuce section 3.3).

use super::{TransformError, checked, lists_mut, stage_blocks, visit};
use crate::shape::Shape;
use crate::spec::{Layer, NetworkSpec};
use crate::walk::{Part, StageIndex};

/// The largest factor that makes sense for channels.
const MAX_WIDTH_FACTOR: f64 = 64.0;

/// Multiplies the channels of stem and stages, rounding down ("alpha"); the head keeps its own.
///
/// # Errors
/// When the factor is no positive number or leaves a layer without channels, or groups no longer divide.
pub fn scale_channels(spec: &NetworkSpec, factor: f64) -> Result<NetworkSpec, TransformError> {
    if !(factor > 0.0 && factor <= MAX_WIDTH_FACTOR) {
        let expected = "a number above 0 and at most 64";
        return Err(TransformError::Factor { what: "the channel factor", factor, expected });
    }
    let scaled = |channels: usize| (channels as f64 * factor) as usize;
    let mut draft = spec.draft().clone();
    let mut widen = |layer: &mut Layer| match layer {
        Layer::Conv(conv) => conv.out = scaled(conv.out),
        Layer::FactorizedReduce(reduce) => reduce.out = scaled(reduce.out),
        Layer::Split(split) => {
            split.groups.iter_mut().for_each(|group| group.channels = scaled(group.channels))
        }
        _ => {}
    };
    visit(&mut draft.stem.layers, &mut widen);
    visit(&mut draft.stem.second, &mut widen);
    for block in draft.stages.iter_mut().flat_map(|stage| &mut stage.blocks) {
        for list in lists_mut(block) {
            visit(list, &mut widen);
        }
    }
    checked(draft)
}

/// Lowers the resolution of every feature map by raising the stride of the first convolution ("rho").
///
/// # Errors
/// When the factor is not 1/2, 1/3 and so on, or the maps become too small for the network.
pub fn scale_resolution(spec: &NetworkSpec, factor: f64) -> Result<NetworkSpec, TransformError> {
    let divisor = (1.0 / factor).round();
    if !(1.0..=64.0).contains(&divisor) || (divisor * factor - 1.0).abs() > 1e-6 {
        let expected = "1 divided by a whole number up to 64, such as 0.5";
        return Err(TransformError::Factor { what: "the resolution factor", factor, expected });
    }
    let mut draft = spec.draft().clone();
    let mut is_done = false;
    let mut stretch = |layer: &mut Layer| {
        if let Layer::Conv(conv) = layer
            && !is_done
        {
            conv.stride = conv.stride.saturating_mul(divisor as usize);
            is_done = true;
        }
    };
    visit(&mut draft.stem.layers, &mut stretch);
    for block in draft.stages.iter_mut().flat_map(|stage| &mut stage.blocks) {
        for list in lists_mut(block) {
            visit(list, &mut stretch);
        }
    }
    if !is_done {
        return Err(TransformError::NoConvolution { network: draft.name });
    }
    checked(draft)
}

/// Keeps only the first block of a stage: the networks that DeepReDuce marks with `*` (Tables 4 and 5).
///
/// # Errors
/// When there is no such stage, or a later block gives the stage its final shape (the pooling of a VGG stage).
pub fn keep_first_block(spec: &NetworkSpec, stage: StageIndex) -> Result<NetworkSpec, TransformError> {
    let mut draft = spec.draft().clone();
    stage_blocks(&mut draft, stage)?.truncate(1);
    let shortened = checked(draft)?;
    let (before, after) = (stage_end(spec, stage), stage_end(&shortened, stage));
    if before != after {
        return Err(TransformError::StageEnd { stage: stage.0 });
    }
    Ok(shortened)
}

/// The shape of the last value a stage makes.
fn stage_end(spec: &NetworkSpec, stage: StageIndex) -> Option<Shape> {
    let walk = spec.walk();
    let last = walk.steps().iter().rfind(|step| step.place.part == Part::Stage(stage))?;
    Some(walk.shape(last.output))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cost;
    use crate::zoo;

    #[test]
    fn half_the_channels_halve_the_relus_and_quarter_the_work() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        let half = scale_channels(&spec, 0.5).unwrap();
        assert_eq!(Cost::of(&half).relus * 2, Cost::of(&spec).relus);
        let same_by_name = zoo::build("resnet18:m=32", 32, 100).unwrap();
        assert_eq!(Cost::of(&half), Cost::of(&same_by_name));
    }

    #[test]
    fn half_the_resolution_quarters_the_relus() {
        for name in ["resnet18", "vgg16", "wrn-16x8", "mobilenetv2"] {
            let spec = zoo::build(name, 64, 100).unwrap();
            let half = scale_resolution(&spec, 0.5).unwrap();
            let same_by_input = zoo::build(name, 32, 100).unwrap();
            assert_eq!(Cost::of(&half).relus, Cost::of(&same_by_input).relus, "{name}");
        }
    }

    #[test]
    fn senseless_factors_are_refused() {
        let spec = zoo::build("resnet18", 32, 100).unwrap();
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(matches!(scale_channels(&spec, bad), Err(TransformError::Factor { .. })), "{bad}");
            assert!(matches!(scale_resolution(&spec, bad), Err(TransformError::Factor { .. })), "{bad}");
        }
        assert!(scale_resolution(&spec, 0.4).is_err());
        assert!(matches!(scale_channels(&spec, 0.001), Err(TransformError::Shapes(_))));
    }
}
