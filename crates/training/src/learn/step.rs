//! One step, and how a step is undone.

use super::inside::{self, Seen};
use super::{Fellow, Learner};
use crate::assemble::{Mode, NumberKinds, Output};
use crate::distill::Targets;
use crate::tensor::{Kind, Tensor, no_grad};

/// Keeps the quotient finite when a gradient vanishes.
const CLIP_EPSILON: f64 = 1e-6;

/// Shortens a gradient in place to a length at most.
pub(crate) fn shorten(gradient: &mut Tensor, longest: f32) {
    let factor = f64::from(longest) / (gradient.norm() + CLIP_EPSILON);
    let _ = gradient.g_mul_(&factor.clamp_max(1.0));
}

impl Learner {
    /// Learns from one batch. Everything it needs and makes stays on the device.
    pub(super) fn step(&mut self) {
        let row = no_grad(|| self.tables.read());
        let images = no_grad(|| self.batch(&row));
        let wanted = self.fellows.iter().fold(self.wanted(), |wanted, it| wanted.or(it.learner.wanted()));
        let teacher = no_grad(|| match &self.answers {
            Some(answers) => Some(Seen::logits(answers.about(&row.draws.order))),
            None => self.teacher.as_ref().map(|teacher| teacher.look(&images, wanted)),
        });
        for Fellow { learner, lane } in &mut self.fellows {
            lane.run(|| {
                let row = no_grad(|| learner.tables.read());
                learner.learn(&row, &images, teacher.as_ref());
            });
            if !self.is_settled {
                lane.join();
            }
        }
        self.learn(&row, &images, teacher.as_ref());
        for Fellow { lane, .. } in &mut self.fellows {
            lane.join();
        }
        self.is_settled = true;
    }

    /// Learns from images and what a teacher says of them.
    fn learn(&mut self, row: &super::tables::Row, images: &Tensor, teacher: Option<&Seen>) {
        let targets = no_grad(|| self.targets(row));
        let mode = Mode::Train { drop_path: row.drop_path.as_ref() };
        let Seen { output, stages, sites } = inside::forward(&self.network, images, mode, self.wanted());
        let mut loss = self.options.losses.total(
            &output.logits,
            output.auxiliary.as_ref(),
            teacher.map(|teacher| &teacher.output.logits),
            &targets,
            &row.distillation.squeeze(),
        );
        if let Some(teacher) = teacher.filter(|_| self.options.losses.attention > 0.0) {
            let distance = inside::attention_distance(&stages, &teacher.stages, loss.kind());
            loss += distance * f64::from(self.options.losses.attention);
        }
        if let Some(teacher) = teacher {
            no_grad(|| self.sums.add_differences(&sites, &teacher.sites));
        }
        no_grad(|| self.count(&loss, &output, &targets));
        for (_, scores) in self.network.keep_scores() {
            loss += scores.abs().sum(None) * row.keep_penalty.squeeze();
        }
        let gradient = self.network.parameters_mut().gradient(&loss).shallow_clone();
        drop((loss, output, stages, sites));
        no_grad(|| self.sums.take_from(&gradient, &self.network));
        no_grad(|| self.apply(&gradient, &row.learning_rate));
        no_grad(|| self.tables.advance());
    }

    fn batch(&self, row: &super::tables::Row) -> Tensor {
        match &self.fixed_batch {
            Some((images, _)) => images.shallow_clone(),
            None => self.images.pixels.batch(&self.options.augmentation, &row.draws),
        }
    }

    fn targets(&self, row: &super::tables::Row) -> Targets {
        let kind = self.network.options().precision.master_kind();
        let smoothing = self.options.losses.label_smoothing;
        let classes = self.images.classes;
        if let Some((_, labels)) = &self.fixed_batch {
            return Targets::plain(labels, classes, smoothing, kind);
        }
        let labels = self.images.labels.index_select(0, &row.draws.order);
        if self.options.augmentation.has_mixtures() {
            Targets::mixed(&labels, &labels.flip([0]), &row.draws.share, classes, smoothing, kind)
        } else {
            Targets::plain(&labels, classes, smoothing, kind)
        }
    }

    /// Adds loss and right answers to the totals.
    fn count(&mut self, loss: &Tensor, output: &Output, targets: &Targets) {
        let right = output.logits.argmax(-1, false).eq_tensor(&targets.labels).sum(Kind::Double);
        let both = Tensor::stack(&[loss.detach().to_kind(Kind::Double), right], 0);
        let _ = self.totals.g_add_(&both);
    }

    fn apply(&mut self, gradient: &Tensor, rate: &Tensor) {
        let mut gradient = gradient.shallow_clone();
        if let Some(longest) = self.options.clip {
            shorten(&mut gradient, longest);
        }
        let parameters = self.network.parameters_mut();
        self.memory.step(parameters.masters(), &gradient, rate);
        parameters.refresh();
        if let Some(((weights, statistics), stays)) = self.average.as_mut().zip(self.options.ema) {
            let _ = weights.lerp_(self.network.parameters().masters(), 1.0 - f64::from(stays));
            let _ = statistics.lerp_(self.network.statistics(), 1.0 - f64::from(stays));
        }
    }

    /// Every tensor a step changes, the tables' counters apart.
    fn changed(&self) -> Vec<Tensor> {
        let averages = self.average.iter().flat_map(|(weights, statistics)| [weights, statistics]);
        let rows = self.memory.named_rows().map(|(_, row)| row);
        let own = [
            self.network.parameters().masters(),
            self.network.statistics(),
            self.memory.steps(),
            &self.totals,
        ];
        let own = own.into_iter().chain(rows).chain(averages).chain(self.sums.changed());
        let own = own.map(Tensor::shallow_clone);
        own.chain(self.fellows.iter().flat_map(|fellow| fellow.learner.changed())).collect()
    }

    /// Copies of everything a step changes.
    pub(super) fn snapshot(&self) -> Vec<Tensor> {
        no_grad(|| self.changed().iter().map(Tensor::copy).collect())
    }

    /// Puts everything back as it was.
    pub(super) fn undo(&mut self, before: &[Tensor]) {
        for (mut tensor, before) in self.changed().into_iter().zip(before) {
            tensor.copy_(before);
        }
        self.start_again();
    }

    /// Reads what was put back, from the first step on.
    fn start_again(&mut self) {
        self.network.parameters_mut().refresh();
        self.tables.rewind();
        self.fellows.iter_mut().for_each(|fellow| fellow.learner.start_again());
    }
}
