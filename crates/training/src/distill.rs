//! Losses: cross-entropy, and what a teacher adds.
//!
//! | name | loss | from |
//! | --- | --- | --- |
//! | Hinton | `h CE + s T² KL(teacher/T ‖ student/T)` | KD of DeepReDuce, SNL, DeepReShape |
//! | decoupled | `h CE + w (α TCKD + β NCKD)`, both with `T²` | DKD of DeepReShape; `w` warms up |
//! | logit MSE | `CE + s ‖student − teacher‖²`, mean over images | Sphynx appendix G |
//!
//! The papers' "relative weight 0.9" can be read as the weight of the soft or of the hard term; both are here.

use recipes::recipe::Distillation;

use crate::tensor::{Kind, Tensor};

/// Everything that is minimized, weight decay and keep scores apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Losses {
    /// How much of a label's certainty is spread over all classes.
    pub(crate) label_smoothing: f32,
    /// What a teacher adds.
    pub(crate) distillation: Option<Distillation>,
    /// Of the auxiliary head's cross-entropy.
    pub(crate) auxiliary_weight: f32,
    /// Of the distance of attention maps from the teacher's, at the ends of the stages.
    pub(crate) attention: f32,
}

/// The labels of a batch.
#[derive(Debug)]
pub(crate) struct Targets {
    /// One class per image.
    pub(crate) labels: Tensor,
    /// One row of chances per image, smoothed and mixed.
    pub(crate) chances: Tensor,
}

impl Targets {
    /// Labels as they are, smoothed.
    pub(crate) fn plain(labels: &Tensor, classes: usize, smoothing: f32, kind: Kind) -> Self {
        let chances = smooth(&one_hot(labels, classes, kind), classes, smoothing);
        Self { labels: labels.shallow_clone(), chances }
    }

    /// Each image is this share of itself and for the rest another one.
    pub(crate) fn mixed(
        labels: &Tensor,
        others: &Tensor,
        share: &Tensor,
        classes: usize,
        smoothing: f32,
        kind: Kind,
    ) -> Self {
        let own = one_hot(labels, classes, kind);
        let mixed = one_hot(others, classes, kind).lerp_tensor(&own, &share.to_kind(kind));
        Self { labels: labels.shallow_clone(), chances: smooth(&mixed, classes, smoothing) }
    }
}

fn one_hot(labels: &Tensor, classes: usize, kind: Kind) -> Tensor {
    // Made by comparing, so that nothing has to look at the labels from the processor.
    let all = Tensor::arange(classes as i64, (Kind::Int64, labels.device()));
    labels.unsqueeze(1).eq_tensor(&all).to_kind(kind)
}

fn smooth(chances: &Tensor, classes: usize, smoothing: f32) -> Tensor {
    if smoothing == 0.0 {
        return chances.shallow_clone();
    }
    let smoothing = f64::from(smoothing);
    chances * (1.0 - smoothing) + smoothing / classes as f64
}

impl Losses {
    /// The loss of a batch, a single number. `warm_up` scales what the teacher adds in decoupled distillation.
    pub(crate) fn total(
        &self,
        logits: &Tensor,
        auxiliary: Option<&Tensor>,
        teacher: Option<&Tensor>,
        targets: &Targets,
        warm_up: &Tensor,
    ) -> Tensor {
        let hard = cross_entropy(logits, &targets.chances);
        let mut loss = match self.distillation.zip(teacher) {
            None => hard,
            Some((distillation, teacher)) => distilled(distillation, hard, logits, teacher, targets, warm_up),
        };
        if let Some(auxiliary) = auxiliary.filter(|_| self.auxiliary_weight != 0.0) {
            loss += cross_entropy(auxiliary, &targets.chances) * f64::from(self.auxiliary_weight);
        }
        loss
    }
}

fn distilled(
    distillation: Distillation,
    hard: Tensor,
    logits: &Tensor,
    teacher: &Tensor,
    targets: &Targets,
    warm_up: &Tensor,
) -> Tensor {
    match distillation {
        Distillation::Kd { temperature, weight, reading } => {
            let (hard_weight, soft_weight) = reading.hard_and_soft(weight);
            let soft = softened_divergence(logits, teacher, temperature as f32);
            weighted(hard, hard_weight as f32) + weighted(soft, soft_weight as f32)
        }
        Distillation::Dkd { temperature, alpha, beta, .. } => {
            let (target, others) = decoupled(logits, teacher, &targets.labels, temperature as f32);
            hard + (weighted(target, alpha as f32) + weighted(others, beta as f32)) * warm_up
        }
        Distillation::LogitMse { weight } => {
            let distance = (logits - teacher).square().sum_dim_intlist(1, false, None).mean(None);
            hard + weighted(distance, weight as f32)
        }
    }
}

fn weighted(loss: Tensor, weight: f32) -> Tensor {
    if weight == 1.0 { loss } else { loss * f64::from(weight) }
}

/// The mean over images of `-Σ p log q`.
pub(crate) fn cross_entropy(logits: &Tensor, chances: &Tensor) -> Tensor {
    -(logits.log_softmax(-1, None) * chances).sum_dim_intlist(-1, false, None).mean(None)
}

/// The mean over images of `T² KL(teacher/T ‖ student/T)`.
pub(crate) fn softened_divergence(logits: &Tensor, teacher: &Tensor, temperature: f32) -> Tensor {
    let temperature = f64::from(temperature);
    let student = (logits / temperature).log_softmax(-1, None);
    let teacher = (teacher / temperature).log_softmax(-1, None);
    divergence(&teacher, &student) * (temperature * temperature)
}

/// The mean over images of `KL(p ‖ q)` of log-chances.
fn divergence(teacher: &Tensor, student: &Tensor) -> Tensor {
    (teacher.exp() * (teacher - student)).sum_dim_intlist(-1, false, None).mean(None)
}

/// The two halves of decoupled distillation, each times `T²`: the label against the rest (TCKD), and the rest among
/// themselves (NCKD).
pub(crate) fn decoupled(
    logits: &Tensor,
    teacher: &Tensor,
    labels: &Tensor,
    temperature: f32,
) -> (Tensor, Tensor) {
    let temperature = f64::from(temperature);
    let is_label = one_hot(labels, logits.size()[1] as usize, logits.kind());
    // Far below every other logit, as the authors' code has it: its chance is then 0 in any precision.
    let hidden = &is_label * -1000.0;
    let pair = |logits: &Tensor| {
        let chances = (logits / temperature).log_softmax(-1, None);
        let label = (&chances * &is_label).sum_dim_intlist(-1, true, None);
        let rest = (chances + &hidden).logsumexp([-1].as_slice(), true);
        Tensor::cat(&[label, rest], 1)
    };
    let others = |logits: &Tensor| (logits / temperature + &hidden).log_softmax(-1, None);
    let scale = temperature * temperature;
    let target = divergence(&pair(teacher), &pair(logits)) * scale;
    (target, divergence(&others(teacher), &others(logits)) * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Device;
    use recipes::recipe::ReadingOfWeight;

    fn doubles(values: &[f64], shape: &[i64]) -> Tensor {
        Tensor::from_slice(values).view(shape)
    }

    fn number(tensor: &Tensor) -> f64 {
        tensor.double_value(&[])
    }

    fn softmax(values: &[f64]) -> Vec<f64> {
        let sum: f64 = values.iter().map(|value| value.exp()).sum();
        values.iter().map(|value| value.exp() / sum).collect()
    }

    fn kl(p: &[f64], q: &[f64]) -> f64 {
        p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
    }

    const STUDENT: [[f64; 3]; 2] = [[1.0, 2.0, 0.5], [-1.0, 0.0, 3.0]];
    const TEACHER: [[f64; 3]; 2] = [[2.0, 1.0, 0.0], [0.5, 0.5, 2.0]];
    const LABELS: [usize; 2] = [0, 2];

    fn batch() -> (Tensor, Tensor, Tensor) {
        let labels = Device::Cpu.integers(&[0, 2], &[2]);
        (doubles(&STUDENT.concat(), &[2, 3]), doubles(&TEACHER.concat(), &[2, 3]), labels)
    }

    fn assert_close(came: f64, expected: f64) {
        assert!((came - expected).abs() < 1e-9, "{came} instead of {expected}");
    }

    #[test]
    fn cross_entropy_and_smoothing_worked_out_by_hand() {
        let (student, _, labels) = batch();
        for smoothing in [0.0, 0.1] {
            let targets = Targets::plain(&labels, 3, smoothing, Kind::Double);
            let mut expected = 0.0;
            for (logits, label) in STUDENT.iter().zip(LABELS) {
                for (class, chance) in softmax(logits).iter().enumerate() {
                    let hard = f64::from(u8::from(class == label));
                    let smoothing = f64::from(smoothing);
                    expected -= (hard * (1.0 - smoothing) + smoothing / 3.0) * chance.ln() / 2.0;
                }
            }
            assert_close(number(&cross_entropy(&student, &targets.chances)), expected);
        }
    }

    #[test]
    fn mixed_labels_share_their_chances() {
        let (_, _, labels) = batch();
        let share = doubles(&[0.7], &[1]);
        let targets = Targets::mixed(&labels, &labels.flip([0]), &share, 3, 0.0, Kind::Double);
        let expected = doubles(&[0.7, 0.0, 0.3, 0.3, 0.0, 0.7], &[2, 3]);
        assert!(targets.chances.allclose(&expected, 1e-12, 1e-12, false));
    }

    #[test]
    fn the_softened_divergence_worked_out_by_hand() {
        let (student, teacher, _) = batch();
        let soft = |logits: &[f64]| softmax(&logits.iter().map(|value| value / 4.0).collect::<Vec<_>>());
        let expected: f64 =
            STUDENT.iter().zip(&TEACHER).map(|(s, t)| 16.0 * kl(&soft(t), &soft(s)) / 2.0).sum();
        assert_close(number(&softened_divergence(&student, &teacher, 4.0)), expected);
        assert_close(number(&softened_divergence(&teacher, &teacher, 4.0)), 0.0);
    }

    #[test]
    fn decoupled_halves_worked_out_by_hand() {
        let (student, teacher, labels) = batch();
        let (target, others) = decoupled(&student, &teacher, &labels, 2.0);
        let (mut expected_target, mut expected_others) = (0.0, 0.0);
        for ((student, teacher), label) in STUDENT.iter().zip(&TEACHER).zip(LABELS) {
            let soft = |logits: &[f64]| softmax(&logits.iter().map(|value| value / 2.0).collect::<Vec<_>>());
            let (p, q) = (soft(teacher), soft(student));
            expected_target += 4.0 * kl(&[p[label], 1.0 - p[label]], &[q[label], 1.0 - q[label]]) / 2.0;
            let rest = |logits: &[f64]| {
                let kept = logits.iter().enumerate().filter(|(class, _)| *class != label);
                softmax(&kept.map(|(_, value)| value / 2.0).collect::<Vec<_>>())
            };
            expected_others += 4.0 * kl(&rest(teacher), &rest(student)) / 2.0;
        }
        assert_close(number(&target), expected_target);
        assert_close(number(&others), expected_others);
    }

    #[test]
    fn decoupled_with_the_teachers_own_weights_is_the_classic_divergence() {
        // KD = TCKD + (1 - p_label) NCKD (DKD, equation 6), for a single image.
        let (student, teacher, labels) = batch();
        let first = |tensor: &Tensor| tensor.narrow(0, 0, 1);
        let (student, teacher, labels) = (first(&student), first(&teacher), first(&labels));
        let (target, others) = decoupled(&student, &teacher, &labels, 1.0);
        let label = softmax(&TEACHER[0])[0];
        let classic = number(&softened_divergence(&student, &teacher, 1.0));
        assert_close(number(&target) + (1.0 - label) * number(&others), classic);
    }

    #[test]
    fn totals_weigh_their_parts() {
        let (student, teacher, labels) = batch();
        let targets = Targets::plain(&labels, 3, 0.0, Kind::Double);
        let hard = number(&cross_entropy(&student, &targets.chances));
        let total = |distillation, warm_up: f64| {
            let losses = Losses { distillation: Some(distillation), ..Losses::default() };
            let warm_up = doubles(&[warm_up], &[]);
            number(&losses.total(&student, None, Some(&teacher), &targets, &warm_up))
        };
        let soft = number(&softened_divergence(&student, &teacher, 4.0));
        let near = |came: f64, expected: f64| assert!((came - expected).abs() < 1e-6, "{came} {expected}");
        near(total(Distillation::soft(4.0, 0.9), 1.0), 0.1 * hard + 0.9 * soft);
        let hard_kd = Distillation::Kd { temperature: 4.0, weight: 0.9, reading: ReadingOfWeight::Hard };
        near(total(hard_kd, 1.0), 0.9 * hard + 0.1 * soft);
        let (target, others) = decoupled(&student, &teacher, &labels, 4.0);
        let dkd = Distillation::Dkd { temperature: 4.0, alpha: 1.0, beta: 2.0, warm_up_epochs: 0.0 };
        near(total(dkd, 0.25), hard + 0.25 * (number(&target) + 2.0 * number(&others)));
        // The squared distances are 1 + 1 + 0.25 and 2.25 + 0.25 + 1.
        near(total(Distillation::LogitMse { weight: 0.5 }, 1.0), hard + 0.5 * (2.25 + 3.5) / 2.0);
        let losses = Losses { auxiliary_weight: 0.4, ..Losses::default() };
        let warm_up = doubles(&[1.0], &[]);
        near(number(&losses.total(&student, Some(&student), None, &targets, &warm_up)), 1.4 * hard);
    }
}
