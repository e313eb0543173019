//! The layers with secret weights: their encryption parameters, layouts and flights.

use crypto::he::{HeOutline, HeParameters, Layout, LinearShape};
use network::inference_model::ModelOutline;
use network::walk::StepId;

use crate::InferenceError;
use crate::geometry;

/// A layer with secret weights, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(pub(crate) usize);

/// One layer with secret weights.
#[derive(Debug)]
pub struct LinearJob {
    /// Its step in the outline.
    pub step: StepId,
    /// Which of the plan's parameters it uses.
    pub group: usize,
    /// Where its numbers lie in ciphertexts.
    pub layout: Layout,
}

pub(super) fn plan(outline: &ModelOutline) -> Result<(Vec<HeParameters>, Vec<LinearJob>), InferenceError> {
    let shape = |(id, layer)| {
        let geometry = geometry::layer(&layer, outline.shape(outline.step(id).inputs[0]))?;
        Ok((id, LinearShape::from(&geometry)))
    };
    let layers = outline.linear_steps().map(shape).collect::<Result<Vec<_>, InferenceError>>()?;
    let rings: Vec<u32> = layers.iter().map(|(id, _)| outline.step(*id).ring_bits).collect();
    let choice = |lowest: u32, highest: u32| {
        let shapes = layers.iter().zip(&rings).filter(|(_, ring)| (lowest..=highest).contains(ring));
        let shapes = shapes.map(|((_, shape), _)| *shape).collect();
        HeParameters::from_outline(&HeOutline::from_layers(
            highest,
            geometry::weight_bits(outline.weight_bits),
            shapes,
        ))
    };
    let Some(&widest) = rings.iter().max() else { return Ok((Vec::new(), Vec::new())) };
    let mut parameters = vec![choice(0, widest)?];
    let mut narrow = widest;
    if parameters[0].answer_primes() > 1 {
        // The widest ring whose answers fit one prime and those below it get a set of their own, listed first.
        let mut candidates = rings.clone();
        candidates.sort_unstable();
        candidates.dedup();
        for ring_bits in candidates.into_iter().rev().skip(1) {
            let below = choice(0, ring_bits)?;
            if below.answer_primes() == 1 {
                parameters = vec![below, choice(ring_bits + 1, widest)?];
                narrow = ring_bits;
                break;
            }
        }
    }
    let jobs = layers
        .iter()
        .zip(&rings)
        .map(|((step, shape), ring_bits)| {
            let group = usize::from(parameters.len() > 1 && *ring_bits > narrow);
            let layout = Layout::new(&parameters[group], shape)?;
            Ok(LinearJob { step: *step, group, layout })
        })
        .collect::<Result<_, InferenceError>>()?;
    Ok((parameters, jobs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::transform::{cull_stage, drop_stem_relus};
    use network::walk::StageIndex;
    use network::weights::FloatWeights;
    use network::zoo;

    /// A run of layers without ReLU asks for a wide ring, the layers after it for narrow ones.
    fn mixed_rings() -> ModelOutline {
        let spec = zoo::build("resnet18:m=4", 16, 10).unwrap();
        let spec = cull_stage(&drop_stem_relus(&spec).unwrap(), StageIndex(1)).unwrap();
        let images = [Image::random(spec.draft().input, 1)];
        let weights = FloatWeights::random(&spec, 1);
        freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0.outline().clone()
    }

    #[test]
    fn wide_rings_have_a_set_of_their_own() {
        let outline = mixed_rings();
        let (parameters, jobs) = plan(&outline).unwrap();
        assert_eq!(parameters.iter().map(HeParameters::answer_primes).collect::<Vec<_>>(), [1, 2]);
        for job in jobs {
            let ring_bits = outline.step(job.step).ring_bits;
            assert!(ring_bits <= parameters[job.group].ring_bits());
            assert_eq!(job.group == 0, ring_bits <= parameters[0].ring_bits(), "narrow rings use the first");
        }
    }
}
