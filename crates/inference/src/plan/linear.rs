//! The layers with secret weights: their encryption parameters, layouts and flights.

use std::fmt;

use crypto::he::{HeOutline, HeParameters, Layout, LinearShape};
use network::inference_model::ModelOutline;
use network::text::counted;
use network::walk::StepId;

use super::Plan;
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
    /// Which of the plan's keys it uses.
    pub group: usize,
    /// Where its numbers lie in ciphertexts.
    pub layout: Layout,
}

/// One key's parameters for each ring that the layers use, and the layers. Every layer has widths of its own, by its share's
/// ring and by what its readers drop.
pub(super) fn plan(outline: &ModelOutline) -> Result<(Vec<HeParameters>, Vec<LinearJob>), InferenceError> {
    let shape = |(id, layer)| {
        let geometry = geometry::layer(&layer, outline.shape(outline.step(id).inputs[0]))?;
        Ok((id, LinearShape::from(&geometry)))
    };
    let layers = outline.linear_steps().map(shape).collect::<Result<Vec<_>, InferenceError>>()?;
    let weight_bits = geometry::weight_bits(outline.weight_bits);
    let outlines: Vec<_> = layers
        .iter()
        .zip(outline.tolerances())
        .map(|((id, shape), (_, tolerance))| {
            let ring_bits = outline.step(*id).ring_bits;
            HeOutline::from_layers(ring_bits, weight_bits, vec![*shape]).tolerating(tolerance)
        })
        .collect();
    let (mut keys, mut jobs): (Vec<HeParameters>, Vec<_>) = (Vec::new(), Vec::new());
    for ((step, shape), parameters) in layers.iter().zip(HeParameters::from_outlines(&outlines)?) {
        let layout = Layout::new(&parameters, shape)?;
        let known = keys.iter().position(|key| key.shares_key_with(&parameters));
        let group = known.unwrap_or(keys.len());
        if known.is_none() {
            keys.push(parameters);
        }
        jobs.push(LinearJob { step: *step, group, layout });
    }
    Ok((keys, jobs))
}

/// A ring of the encryption and what the layers that use it send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRing {
    /// Coefficients of a ciphertext.
    pub degree: usize,
    /// Bits of the primes of its modulus.
    pub prime_bits: Vec<u32>,
    /// Linear layers that use it.
    pub layers: usize,
    /// Bits of a coefficient of a request, the least and the largest of all layers.
    pub request_bits: [u32; 2],
    /// Bits of a value of an answer.
    pub value_bits: [u32; 2],
    /// Bits of a coefficient of an answer's second half.
    pub second_half_bits: [u32; 2],
}

impl Plan {
    /// The rings in use, in the order of the keys.
    pub fn rings(&self) -> Vec<PlannedRing> {
        let ring = |(group, key): (usize, &HeParameters)| {
            let layers: Vec<_> = self.linear.iter().filter(|job| job.group == group).collect();
            let bits = |which: usize| {
                let all = layers.iter().map(|job| job.layout.parameters().message_bits()[which]);
                [all.clone().min().unwrap_or(0), all.max().unwrap_or(0)]
            };
            PlannedRing {
                degree: key.degree(),
                prime_bits: key.primes().map(|prime| prime.ilog2() + 1).collect(),
                layers: layers.len(),
                request_bits: bits(0),
                value_bits: bits(1),
                second_half_bits: bits(2),
            }
        };
        self.parameters.iter().enumerate().map(ring).collect()
    }
}

impl fmt::Display for PlannedRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |[least, largest]: [u32; 2]| match least == largest {
            true => least.to_string(),
            false => format!("{least} to {largest}"),
        };
        let primes: Vec<_> = self.prime_bits.iter().map(u32::to_string).collect();
        write!(
            formatter,
            "RLWE n = {}, q = {} bits, for {}: coefficients of {} bits up, of {} and {} down; masks uniform \
             modulo q",
            self.degree,
            primes.join(" + "),
            counted(self.layers as u64, "linear layer"),
            range(self.request_bits),
            range(self.value_bits),
            range(self.second_half_bits)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::inference_model::ENCRYPTION_DEVIATION;
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
    fn wide_rings_have_a_key_of_their_own() {
        let outline = mixed_rings();
        let (keys, jobs) = plan(&outline).unwrap();
        assert!(keys.len() > 1 && keys.iter().any(|key| key.degree() == 2048), "{keys:?}");
        for (job, (step, tolerance)) in jobs.iter().zip(outline.tolerances()) {
            let parameters = job.layout.parameters();
            assert_eq!((job.step, parameters.tolerance()), (step, tolerance));
            assert_eq!(parameters.ring_bits(), outline.step(step).ring_bits);
            assert!(keys[job.group].shares_key_with(parameters));
        }
    }

    #[test]
    fn the_encryption_errs_as_little_as_the_network_asks() {
        let outline = mixed_rings();
        for job in plan(&outline).unwrap().1 {
            let parameters = job.layout.parameters();
            let unit = 2_f64.powi(parameters.tolerance() as i32);
            assert!(parameters.deviation() <= ENCRYPTION_DEVIATION * unit, "{parameters}");
        }
    }
}
