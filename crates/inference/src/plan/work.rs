//! How much there is to compute, counted from the plan alone. What a unit takes is measured, by `sordino doctor --measure`.

use super::{LinearJob, Plan};
use crate::transcript::{Kind, Phase, Work};

/// How many units of each kind of work one inference is. Each counts what the time of its kind grows with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedWork {
    /// Coefficients of all ciphertexts of requests and answers, once for each prime: transforms, noise, packing.
    pub ciphertexts: u64,
    /// Coefficients of the products of weights and halves of ciphertexts, once for each prime: the server's.
    pub products: u64,
    /// Oblivious transfers, both directions.
    pub transfers: u64,
    /// Those of the transfers that signs and gates need: there are as many as compared bits and two more.
    pub gates: u64,
    /// Bytes of garbled tables.
    pub tables: u64,
    /// Positions truncated without ReLU.
    pub truncated: u64,
    /// Multiply-adds of linear layers.
    pub multiply_adds: u64,
}

impl PlannedWork {
    /// What a further inference of a session is: the products with second halves are there already.
    pub fn later(self) -> Self {
        Self { products: self.products / 2, ..self }
    }

    /// So many inferences.
    pub fn times(self, inferences: u64) -> Self {
        Self {
            ciphertexts: self.ciphertexts * inferences,
            products: self.products * inferences,
            transfers: self.transfers * inferences,
            gates: self.gates * inferences,
            tables: self.tables * inferences,
            truncated: self.truncated * inferences,
            multiply_adds: self.multiply_adds * inferences,
        }
    }

    /// The units of a kind of work in a phase. The encryption counts its products apart.
    pub fn units(&self, phase: Phase, work: Work) -> u64 {
        match (phase, work) {
            (Phase::Offline, Work::Homomorphic) => self.ciphertexts,
            (Phase::Offline, Work::Transfer) => self.transfers,
            (Phase::Offline | Phase::Online, Work::Gates) => self.gates,
            (Phase::Offline | Phase::Online, Work::Garbling) => self.tables,
            (Phase::Offline | Phase::Online, Work::Truncation) => self.truncated,
            (Phase::Offline | Phase::Online, Work::Linear) => self.multiply_adds,
            _ => 0,
        }
    }
}

impl Plan {
    /// What the first inference of a session is to compute.
    pub fn work(&self) -> PlannedWork {
        let mut work = PlannedWork {
            transfers: (self.transfer_count() + self.reverse_count()) as u64,
            ciphertexts: self.linear.iter().map(LinearJob::ciphertext_coefficients).sum(),
            products: self.linear.iter().map(LinearJob::product_coefficients).sum(),
            multiply_adds: self.multiply_adds(),
            ..PlannedWork::default()
        };
        for part in self.parts.iter().map(|planned| &planned.part) {
            match part.kind() {
                Kind::Gates => work.gates += part.transfer_count() as u64,
                Kind::Garbled => work.tables += part.bytes().offer as u64,
                _ => work.truncated += part.counts().linearized as u64,
            }
        }
        work
    }

    fn multiply_adds(&self) -> u64 {
        let layers = self.outline.linear_steps();
        layers.map(|(id, geometry)| geometry.taps() as u64 * self.outline.step(id).shape.scalars()).sum()
    }
}

impl LinearJob {
    fn ciphertext_coefficients(&self) -> u64 {
        self.coefficients(self.layout.input_ciphertexts() + self.layout.output_ciphertexts())
    }

    fn product_coefficients(&self) -> u64 {
        2 * self.coefficients(self.layout.products())
    }

    /// Of so many polynomials, once for each prime.
    fn coefficients(&self, polynomials: usize) -> u64 {
        let parameters = self.layout.parameters();
        (polynomials * parameters.degree() * parameters.primes().len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use network::freeze::{FreezeOptions, freeze};
    use network::image::Image;
    use network::weights::FloatWeights;
    use network::zoo;

    use super::*;
    use crate::plan::{ReluRounding, Reveal, Terms};

    #[test]
    fn work_is_counted_from_the_plan() {
        let spec = zoo::build("resnet18:m=4", 8, 10).unwrap();
        let images = [Image::random(spec.draft().input, 1)];
        let weights = FloatWeights::random(&spec, 1);
        let model = freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0;
        let outline = Arc::new(model.outline().clone());
        let plan = |relus| Plan::new(Arc::clone(&outline), Terms { reveal: Reveal::Logits, relus }).unwrap();
        let fast = plan(ReluRounding::Stochastic).work();
        let exact = plan(ReluRounding::Nearest).work();
        assert_eq!((fast.ciphertexts, fast.products), (exact.ciphertexts, exact.products));
        assert!(fast.gates > 0 && fast.tables == 0 && exact.gates == 0 && exact.tables > 0);
        // The stem: 3 channels to 4 through 3x3 filters at 8x8, and further layers.
        assert!(fast.multiply_adds > 3 * 9 * 4 * 64);
        assert!(fast.transfers > fast.gates, "each sign has one transfer in the other direction");
        assert_eq!(fast.units(Phase::Online, Work::Transfer), 0);
        assert_eq!(fast.later().times(2).products, fast.products);
        assert_eq!(exact.units(Phase::Offline, Work::Garbling), exact.tables);
    }
}
