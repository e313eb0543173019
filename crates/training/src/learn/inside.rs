//! The inside of a network while it learns: maps at the ends of stages, values behind ReLU sites, derivatives by keep scores.
//!
//! | what | for whom |
//! | --- | --- |
//! | the distance of attention maps at the ends of the stages, as a loss | SENet's fine-tuning |
//! | summed distances from the teacher at every position of every site | SENet's search of locations |
//! | summed magnitudes of derivatives by keep scores, which do not move | Taylor scores of ReLUs |
//!
//! Sums stay on the device and are read once an epoch.

use network::shape::Shape;
use network::spec::NetworkSpec;
use network::walk::{Operation, Part, StageIndex, Step, ValueId};

use super::{LearnError, Learner, Teacher};
use crate::assemble::{Mode, Output, Role, TrainableNetwork};
use crate::tensor::{Kind, Tensor, no_grad, to_floats};

/// Keeps the quotient finite for a map of zeros.
const EPSILON: f64 = 1e-24;

/// What of a forward pass is looked at beside its logits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) stages: bool,
    pub(super) sites: bool,
}

impl Wanted {
    pub(super) fn or(self, other: Self) -> Self {
        Self { stages: self.stages || other.stages, sites: self.sites || other.sites }
    }
}

/// What was seen.
pub(super) struct Seen {
    pub(super) output: Output,
    /// The value at the end of each stage.
    pub(super) stages: Vec<Tensor>,
    /// The value behind each ReLU site.
    pub(super) sites: Vec<Tensor>,
}

impl Seen {
    /// Logits alone.
    pub(super) fn logits(logits: Tensor) -> Self {
        let output = Output { logits, auxiliary: None };
        Self { output, stages: Vec::new(), sites: Vec::new() }
    }
}

/// What a learner sums up beside its loss.
#[derive(Default)]
pub(super) struct Sums {
    /// For each site how far student and teacher are apart at each position; empty unless it is watched.
    differences: Vec<Tensor>,
    /// What each keep score is worth, as a row like the parameters'.
    worth: Option<Tensor>,
}

impl Sums {
    /// Every tensor that a step changes.
    pub(super) fn changed(&self) -> impl Iterator<Item = &Tensor> {
        self.differences.iter().chain(&self.worth)
    }

    /// Adds how far each position of each site is from the teacher's.
    pub(super) fn add_differences(&mut self, student: &[Tensor], teacher: &[Tensor]) {
        for ((sum, student), teacher) in self.differences.iter_mut().zip(student).zip(teacher) {
            let distance = (teacher.to_kind(Kind::Float) - student.detach().to_kind(Kind::Float)).abs();
            let _ = sum.g_add_(&distance.sum_dim_intlist([0_i64].as_slice(), false, Kind::Float));
        }
    }

    /// Adds the magnitudes of the derivatives by keep scores, and takes them out of the gradient: scores do not move.
    pub(super) fn take_from(&mut self, gradient: &Tensor, network: &TrainableNetwork) {
        let Some(worth) = &self.worth else { return };
        for segment in network.parameters().segments().into_iter().filter(|it| it.role == Role::Keep) {
            let mut piece = gradient.narrow(0, segment.start, segment.length);
            let _ = worth.narrow(0, segment.start, segment.length).g_add_(&piece.abs());
            let _ = piece.zero_();
        }
    }
}

impl Learner {
    pub(super) fn wanted(&self) -> Wanted {
        let stages = self.options.losses.attention > 0.0;
        Wanted { stages, sites: !self.sums.differences.is_empty() }
    }

    /// From now on sums up how far each position of each site is from the teacher's.
    ///
    /// # Errors
    /// When there is no teacher with the same sites.
    pub(crate) fn watch_differences(&mut self) -> Result<(), LearnError> {
        let own = site_shapes(&self.network);
        if self.teacher.as_ref().and_then(Teacher::sites).as_ref() != Some(&own) {
            return Err(LearnError::OtherSites { network: self.network.spec().name().to_owned() });
        }
        // Nobody kept the inside of a teacher.
        (self.answers, self.options.views) = (None, None);
        let device = self.network.device();
        let zeros = |shape: Shape| {
            device.zeros(&[shape.channels as i64, shape.height as i64, shape.width as i64], Kind::Float)
        };
        self.sums.differences = own.into_iter().map(zeros).collect();
        Ok(())
    }

    /// What was summed up since the last call, a list for each site.
    pub(crate) fn take_differences(&mut self) -> Vec<Vec<f32>> {
        let lists = self.sums.differences.iter().map(to_floats).collect();
        self.sums.differences.iter_mut().for_each(|sum| drop(sum.zero_()));
        lists
    }

    /// From now on sums up what each keep score is worth, and leaves the scores as they are.
    pub(crate) fn watch_worth(&mut self) {
        let masters = self.network.parameters().masters();
        self.sums.worth = Some(masters.zeros_like());
    }

    /// What was summed up since the last call, a list for each site; empty for a site without scores.
    pub(crate) fn take_worth(&mut self) -> Vec<Vec<f32>> {
        let sites = self.network.spec().walk().sites();
        let mut lists = vec![Vec::new(); sites.len()];
        let Some(worth) = &mut self.sums.worth else { return lists };
        for (name, values) in self.network.parameters().named_in(worth) {
            let site =
                name.strip_suffix(".keep").and_then(|name| sites.iter().find(|site| site.name == name));
            if let Some(site) = site {
                lists[site.index.0] = to_floats(&values);
            }
        }
        no_grad(|| drop(worth.zero_()));
        lists
    }

    /// The network, to be changed between two epochs; a recorded step needs its tensors where they are.
    pub(crate) fn network_mut(&mut self) -> &mut TrainableNetwork {
        &mut self.network
    }
}

/// A forward pass, with what is wanted of its inside.
pub(super) fn forward(network: &TrainableNetwork, images: &Tensor, mode: Mode<'_>, wanted: Wanted) -> Seen {
    let (mut stages, mut sites) = (Vec::new(), Vec::new());
    let ends = if wanted.stages { stage_ends(network.spec()) } else { Vec::new() };
    let output = network.forward_watched(images, mode, &mut |step: &Step, _, output| {
        if ends.contains(&step.output) {
            stages.push(output.shallow_clone());
        }
        if wanted.sites && matches!(step.operation, Operation::Relu { .. } | Operation::SharedSigns { .. }) {
            sites.push(output.shallow_clone());
        }
    });
    Seen { output, stages, sites }
}

/// The sizes of a network's ReLU layers.
pub(super) fn site_shapes(network: &TrainableNetwork) -> Vec<Shape> {
    network.spec().walk().sites().iter().map(|site| site.shape).collect()
}

/// Refuses a teacher whose maps are of other sizes at the ends of the stages.
pub(super) fn check_maps(network: &TrainableNetwork, teacher: &TrainableNetwork) -> Result<(), LearnError> {
    let sides = |network: &TrainableNetwork| -> Vec<(usize, usize)> {
        let walk = network.spec().walk();
        let side = |value: ValueId| (walk.shape(value).height, walk.shape(value).width);
        stage_ends(network.spec()).into_iter().map(side).collect()
    };
    match sides(network) == sides(teacher) {
        true => Ok(()),
        false => Err(LearnError::OtherMaps {
            network: network.spec().name().to_owned(),
            teacher: teacher.spec().name().to_owned(),
        }),
    }
}

/// The last value of each stage.
fn stage_ends(spec: &NetworkSpec) -> Vec<ValueId> {
    let steps = spec.walk().steps();
    let last = |stage: usize| {
        let is_in = |step: &&Step| step.place.part == Part::Stage(StageIndex(stage));
        steps.iter().rev().find(is_in).map(|step| step.output)
    };
    (1..=spec.stage_count()).filter_map(last).collect()
}

/// How far attention maps are apart, summed over the ends of the stages: the mean over images and positions of the squared
/// distance (Zagoruyko and Komodakis, as SENet's code has it).
pub(super) fn attention_distance(student: &[Tensor], teacher: &[Tensor], kind: Kind) -> Tensor {
    let distance = |(student, teacher): (&Tensor, &Tensor)| {
        (attention_map(student, kind) - attention_map(teacher, kind)).square().mean(None)
    };
    let distances: Vec<Tensor> = student.iter().zip(teacher).map(distance).collect();
    Tensor::stack(&distances, 0).sum(kind)
}

/// One row for each image: the mean over channels of the squares, of length 1.
fn attention_map(map: &Tensor, kind: Kind) -> Tensor {
    let means = map.to_kind(kind).square().mean_dim([1_i64].as_slice(), false, kind).flatten(1, -1);
    let squares = means.square().sum_dim_intlist([1_i64].as_slice(), true, kind);
    &means / squares.clamp_min(EPSILON).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Device;

    #[test]
    fn attention_maps_have_length_one_and_do_not_know_scale() {
        let map = Device::Cpu.floats(&[3.0, 0.0, 1.0, 2.0, 1.0, 0.0, 0.0, 2.0], &[1, 2, 2, 2]);
        // Means of squares over the two channels: (9 + 1) / 2, 0, 1 / 2, (4 + 4) / 2.
        let expected = [5.0, 0.0, 0.5, 4.0_f32];
        let length = expected.iter().map(|value| value * value).sum::<f32>().sqrt();
        let came = to_floats(&attention_map(&map, Kind::Float));
        assert!(
            came.iter().zip(expected).all(|(came, value)| (came - value / length).abs() < 1e-6),
            "{came:?}"
        );
        let distance = |other: &Tensor| {
            to_floats(&attention_distance(&[map.shallow_clone()], &[other.shallow_clone()], Kind::Float))[0]
        };
        assert!(distance(&(&map * -7.0)) < 1e-12);
        assert!(distance(&map.flip([3])) > 0.1);
        assert!(to_floats(&attention_map(&(&map * 0.0), Kind::Float)).iter().all(|value| *value == 0.0));
    }
}
