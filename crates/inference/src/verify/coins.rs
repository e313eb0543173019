//! What the protocol's rounding depended on, from the secrets of both parties.

use crypto::random::Seed;
use network::inference_model::{InferenceModel, ModelOperation};
use network::reference::{self, Coins};
use network::walk::{StepId, ValueId};

use crate::client::ShareRecord;
use crate::plan::Plan;
use crate::stored::server_masks;

/// All coins of one inference: the client's shares, and the error of every linear layer, which only both parties' secrets
/// together tell. The reference that is given them equals private inference bit for bit.
pub struct ProtocolCoins {
    record: ShareRecord,
    /// By value; empty where no linear layer made it.
    errors: Vec<Vec<i64>>,
    found: LinearErrors,
}

/// What the encryption of linear layers left of exactness.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinearErrors {
    /// Values of linear layers.
    pub values: u64,
    /// Of them, those that are off.
    pub off: u64,
    /// The largest error, in units that the readers of its layer keep.
    pub largest: f64,
    /// The sum of the squares of all errors, in the same units.
    pub squares: f64,
}

impl LinearErrors {
    fn note(&mut self, error: i64, unit: f64) {
        let part = error.unsigned_abs() as f64 / unit;
        self.join(&Self { values: 1, off: u64::from(error != 0), largest: part, squares: part * part });
    }

    /// Adds what was found elsewhere.
    pub fn join(&mut self, other: &Self) {
        self.values += other.values;
        self.off += other.off;
        self.largest = self.largest.max(other.largest);
        self.squares += other.squares;
    }

    /// The root of the mean square of all errors.
    pub fn deviation(&self) -> f64 {
        (self.squares / self.values.max(1) as f64).sqrt()
    }
}

/// Shares of a linear layer that do not add up to its value, not even nearly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the shares of value {scalar} of {layer} are off by {error} last places, and by at most {allowed} they may be; the \
     parties have computed different things"
)]
pub struct WrongShare {
    /// The layer's name.
    pub layer: String,
    /// Its place in the layer's output.
    pub scalar: usize,
    /// By how many last places.
    pub error: i64,
    /// By how many they may be off.
    pub allowed: u64,
}

impl ProtocolCoins {
    /// The coins of the inference that was prepared with this record of the client and this seed of the server's masks.
    ///
    /// # Errors
    /// When the shares of a layer do not add up to its value and as many last places as the encryption may add.
    pub fn new(
        model: &InferenceModel,
        plan: &Plan,
        record: ShareRecord,
        mask_seed: &Seed,
    ) -> Result<Self, WrongShare> {
        let outline = plan.outline();
        let signed = |value: ValueId| record.share(value).iter().map(|word| *word as i64).collect();
        let inputs: Vec<Vec<i64>> =
            plan.linear().iter().map(|job| signed(outline.step(job.step).inputs[0])).collect();
        let input = |step: StepId| {
            let place = plan.linear().iter().position(|job| job.step == step);
            &inputs[place.expect("the plan lists every linear layer")][..]
        };
        let products = reference::weights_alone(model, input);
        let masks = server_masks(plan, record.session, record.inference, mask_seed);
        let mut errors = vec![Vec::new(); outline.value_count()];
        let mut found = LinearErrors::default();
        for ((job, (id, product)), mask) in plan.linear().iter().zip(products).zip(masks) {
            let step = outline.step(id);
            let ModelOperation::Linear { channel_shifts, .. } = &step.operation else {
                unreachable!("the plan lists layers with weights")
            };
            let parameters = job.layout.parameters();
            let (pixels, allowed) = (step.shape.pixels() as usize, parameters.largest_error());
            let unit = 2_f64.powi(parameters.tolerance() as i32);
            let shares = record.share(id.output()).iter().zip(mask.expose().to_unsigned());
            for (scalar, ((share, mask), product)) in shares.zip(product).enumerate() {
                let shift = u32::from(channel_shifts[scalar / pixels]);
                let unused = 64 - step.ring_bits;
                let sum = share.wrapping_add(mask << shift).wrapping_sub((product as u64) << shift);
                let error = sum.wrapping_shl(unused) as i64 >> unused >> shift;
                if error.unsigned_abs() > allowed || sum & ((1 << shift) - 1) != 0 {
                    return Err(WrongShare { layer: step.name.clone(), scalar, error, allowed });
                }
                found.note(error, unit);
                errors[id.output().0].push(error);
            }
        }
        Ok(Self { record, errors, found })
    }

    /// What the errors come to.
    pub fn linear_errors(&self) -> LinearErrors {
        self.found
    }
}

impl Coins for ProtocolCoins {
    fn client_share(&self, value: ValueId, scalar: usize) -> u64 {
        self.record.client_share(value, scalar)
    }

    fn linear_error(&self, value: ValueId, scalar: usize) -> i64 {
        self.errors[value.0].get(scalar).copied().unwrap_or(0)
    }

    fn rounds_relus(&self) -> bool {
        self.record.rounds_relus()
    }
}

impl std::fmt::Debug for ProtocolCoins {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ProtocolCoins(..)")
    }
}
