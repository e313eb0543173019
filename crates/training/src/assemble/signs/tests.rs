//! Values, exact gradients against differences, and the surrogate against a slow formula.

use super::super::Precision;
use super::super::parameters::{Declared, Role, Start};
use super::*;
use crate::tensor::{Device, Kind, to_floats};
use recipes::random::Stream;

const CHANNELS: usize = 6;
/// Images, rows and columns.
const REST: [usize; 3] = [2, 2, 3];
const SIZE: usize = CHANNELS * REST[0] * REST[1] * REST[2];

fn groupings() -> [Grouping; 3] {
    [
        Grouping::Contiguous { values_per_sign: 3 },
        Grouping::Contiguous { values_per_sign: 1 },
        Grouping::Listed(vec![vec![4, 0], vec![1, 5, 3], vec![2]]),
    ]
}

fn numbers(name: &str, count: usize) -> Vec<f32> {
    let mut stream = Stream::new(name, 5);
    (0..count).map(|_| stream.between(-2.0, 2.0)).collect()
}

/// Random numbers in the shape of the maps, in either order of memory.
fn maps(name: &str, innermost_channels: bool) -> Tensor {
    let [images, height, width] = REST.map(|side| side as i64);
    let numbers = numbers(name, SIZE);
    let tensor =
        Device::Cpu.floats(&numbers, &[images, CHANNELS as i64, height, width]).to_kind(Kind::Double);
    match innermost_channels {
        true => tensor.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]),
        false => tensor,
    }
}

struct Example {
    signs: Signs,
    grouping: Grouping,
    parameters: Parameters,
}

impl Example {
    /// With slopes, and with keep scores beside them.
    fn new(grouping: &Grouping) -> Self {
        let setting = Setting { device: Device::Cpu, precision: Precision::F64, innermost_channels: false };
        let signs = grouping.signs(CHANNELS) as i64;
        let declared = vec![
            Declared {
                name: "slope".to_owned(),
                role: Role::Norm,
                shape: vec![CHANNELS as i64],
                values: Start::Uniform { bound: 0.5 },
            },
            Declared {
                name: "keep".to_owned(),
                role: Role::Keep,
                shape: vec![1, signs, REST[1] as i64, REST[2] as i64],
                values: Start::Uniform { bound: 1.0 },
            },
        ];
        Self {
            signs: Signs { slope: Some(0), layout: Layout::new(grouping, CHANNELS, setting) },
            grouping: grouping.clone(),
            parameters: Parameters::new(declared, 1, setting),
        }
    }

    /// The leader of each channel.
    fn leaders(&self) -> Vec<usize> {
        let groups = self.grouping.groups(CHANNELS);
        self.grouping.sign_of_channel(CHANNELS).into_iter().map(|sign| groups[sign][0]).collect()
    }

    fn loss(&self, input: &Tensor, activation: &Activation) -> Tensor {
        (self.signs.apply(input, activation, &self.parameters) * maps("factors", false)).sum(Kind::Double)
    }

    /// By the input, the slopes and the scores.
    fn gradients(&self, input: &Tensor, activation: &Activation) -> [Vec<f32>; 3] {
        let input = input.detach().set_requires_grad(true);
        let leaves = [&input, self.parameters.leaf(0), self.parameters.leaf(1)];
        // A part that nothing reads has no gradient; here zeros.
        let unread = self.parameters.leaf(1).sum(Kind::Double) * 0.0;
        let loss = self.loss(&input, activation) + unread;
        let gradients = Tensor::run_backward(&[loss], &leaves, false, false);
        [0, 1, 2].map(|index| to_floats(&gradients[index]))
    }

    /// The difference of the loss when one number of a tensor moves, over the distance.
    fn difference(
        &self,
        input: &Tensor,
        activation: &Activation,
        moved: &Tensor,
        index: usize,
        step: f64,
    ) -> f32 {
        let numbers = moved.view([-1]);
        let mut entry = numbers.get(index as i64);
        let start = entry.double_value(&[]);
        let mut at = |value: f64| {
            let _ = no_grad(|| entry.fill_(value));
            no_grad(|| self.loss(input, activation)).double_value(&[])
        };
        let (above, below) = (at(start + step), at(start - step));
        at(start);
        ((above - below) / (2.0 * step)) as f32
    }
}

fn channel(index: usize) -> usize {
    index / (REST[1] * REST[2]) % CHANNELS
}

/// The place of another channel at the same image and pixel.
fn beside(index: usize, other: usize) -> usize {
    index + other * REST[1] * REST[2] - channel(index) * REST[1] * REST[2]
}

fn near(came: f32, expected: f32, what: &str) {
    assert!((came - expected).abs() < 1e-4 * expected.abs().max(1.0), "{what}: {came} instead of {expected}");
}

#[test]
fn the_leader_decides_for_its_group() {
    for grouping in groupings() {
        let example = Example::new(&grouping);
        let (leaders, slopes) = (example.leaders(), to_floats(&public(example.parameters.leaf(0))));
        let x = numbers("input", SIZE);
        for innermost_channels in [false, true] {
            let input = maps("input", innermost_channels);
            let output = to_floats(&example.signs.apply(&input, &Activation::Relu, &example.parameters));
            for (index, came) in output.iter().enumerate() {
                let passes = x[beside(index, leaders[channel(index)])] >= 0.0;
                let expected = x[index] * (f32::from(u8::from(passes)) + slopes[channel(index)]);
                near(*came, expected, "output");
            }
        }
    }
}

#[test]
fn gradients_by_slopes_and_followers_are_those_of_differences() {
    for grouping in groupings() {
        let example = Example::new(&grouping);
        let leaders = example.leaders();
        let input = maps("input", false);
        let [by_input, by_slope, _] = example.gradients(&input, &Activation::Relu);
        let (_, slope) = example.parameters.named().next().unwrap();
        for (index, came) in by_slope.iter().enumerate() {
            // The loss is linear in a slope, which moves from one sixteenth to another.
            let expected = example.difference(&input, &Activation::Relu, &slope, index, 1.0 / 16.0);
            near(*came, expected, "slope");
        }
        for index in (0..SIZE).filter(|index| leaders[channel(*index)] != channel(*index)) {
            let expected = example.difference(&input, &Activation::Relu, &input, index, 1e-6);
            near(by_input[index], expected, "follower");
        }
    }
}

/// What leaders learn where signs are kept to so large a part: all of it, none, or as scores say. By sign and place.
fn assert_leaders_learn(grouping: &Grouping, activation: &dyn Fn(&Example) -> (Activation, Vec<f32>)) {
    let example = Example::new(grouping);
    let groups = grouping.groups(CHANNELS);
    let signs = grouping.sign_of_channel(CHANNELS);
    let slopes = to_floats(&public(example.parameters.leaf(0)));
    let (x, factors) = (numbers("input", SIZE), numbers("factors", SIZE));
    let (activation, kept) = activation(&example);
    let [by_input, ..] = example.gradients(&maps("input", true), &activation);
    let places = REST[1] * REST[2];
    for index in 0..SIZE {
        let sign = signs[channel(index)];
        let group = &groups[sign];
        if group[0] != channel(index) {
            continue;
        }
        let kept = kept[sign * places + index % places];
        let soft = 1.0 / (1.0 + (-4.0 * x[index]).exp());
        let own = 1.0 - kept * f32::from(u8::from(x[index] < 0.0)) + slopes[channel(index)];
        let others = group[1..].iter().map(|other| factors[beside(index, *other)] * x[beside(index, *other)]);
        let expected = factors[index] * own + kept * 4.0 * soft * (1.0 - soft) * others.sum::<f32>();
        near(by_input[index], expected, "leader");
    }
}

#[test]
fn a_leader_learns_from_a_soft_sign_what_it_does_to_the_others() {
    for grouping in groupings() {
        let all = vec![1.0; grouping.signs(CHANNELS) * REST[1] * REST[2]];
        assert_leaders_learn(&grouping, &|_| (Activation::Relu, all.clone()));
    }
}

#[test]
fn a_leader_learns_nothing_from_a_sign_that_is_dropped_and_a_part_where_it_is_kept_in_part() {
    for grouping in groupings() {
        let signs = grouping.signs(CHANNELS);
        let places = REST[1] * REST[2];
        let bits: Vec<u8> = (0..signs).map(|sign| u8::from(sign % 2 == 0)).collect();
        assert_leaders_learn(&grouping, &|_| {
            let dropped = Device::Cpu.bytes(&bits, &[1, signs as i64, 1, 1]).to_kind(Kind::Bool);
            let kept = (0..signs * places).map(|place| f32::from(1 - bits[place / places])).collect();
            (Activation::Mask { dropped }, kept)
        });
        assert_leaders_learn(&grouping, &|example| {
            (Activation::Scored { keep: 1 }, to_floats(example.parameters.leaf(1)))
        });
    }
}

#[test]
fn followers_of_masked_signs_have_the_gradients_of_differences() {
    for grouping in groupings() {
        let example = Example::new(&grouping);
        let (leaders, signs) = (example.leaders(), grouping.signs(CHANNELS));
        let bits: Vec<u8> = (0..signs).map(|sign| u8::from(sign % 2 == 0)).collect();
        let dropped = Device::Cpu.bytes(&bits, &[1, signs as i64, 1, 1]).to_kind(Kind::Bool);
        let (input, activation) = (maps("input", false), Activation::Mask { dropped });
        let [by_input, ..] = example.gradients(&input, &activation);
        for index in (0..SIZE).filter(|index| leaders[channel(*index)] != channel(*index)) {
            near(by_input[index], example.difference(&input, &activation, &input, index, 1e-6), "follower");
        }
    }
}

#[test]
fn slopes_act_as_sixteenths_and_learn_as_real_numbers() {
    let learned = Device::Cpu.floats(&[0.1, -0.1, 0.03, 0.25, 99.0], &[5]).set_requires_grad(true);
    let used = public(&learned);
    assert_eq!(to_floats(&used), [0.125, -0.125, 0.0, 0.25, MAX_SLOPE]);
    let gradient = Tensor::run_backward(&[used.sum(Kind::Float)], &[&learned], false, false);
    assert_eq!(to_floats(&gradient[0]), [1.0; 5]);
    let halves: Vec<f32> = (-300..300).map(|units| units as f32 / 32.0).collect();
    let ours: Vec<f32> = halves.iter().map(|learned| network::spec::public_slope(*learned)).collect();
    let count = halves.len() as i64;
    assert_eq!(
        to_floats(&public(&Device::Cpu.floats(&halves, &[count]))),
        ours,
        "the trainer rounds as freezing does"
    );
}

#[test]
fn a_dropped_sign_lets_its_group_through() {
    for grouping in groupings() {
        let example = Example::new(&grouping);
        let (leaders, slopes) = (example.leaders(), to_floats(&public(example.parameters.leaf(0))));
        let signs = grouping.signs(CHANNELS);
        let bits: Vec<u8> = (0..signs).map(|sign| u8::from(sign % 2 == 0)).collect();
        let dropped = Device::Cpu.bytes(&bits, &[1, signs as i64, 1, 1]).to_kind(Kind::Bool);
        let (x, input) = (numbers("input", SIZE), maps("input", false));
        let of_channel = grouping.sign_of_channel(CHANNELS);
        let run = |activation: &Activation| {
            to_floats(&example.signs.apply(&input, activation, &example.parameters))
        };
        let masked = run(&Activation::Mask { dropped });
        let identity = run(&Activation::Identity);
        for index in 0..SIZE {
            let channel = channel(index);
            let all = x[index] * (1.0 + slopes[channel]);
            near(identity[index], all, "identity");
            let passes = of_channel[channel] % 2 == 0 || x[beside(index, leaders[channel])] >= 0.0;
            near(masked[index], if passes { all } else { x[index] * slopes[channel] }, "masked");
        }
    }
}

#[test]
fn scores_lie_between_a_sign_and_none() {
    for grouping in groupings() {
        let example = Example::new(&grouping);
        let input = maps("input", false);
        let activation = Activation::Scored { keep: 1 };
        let (_, keep) = example.parameters.named().nth(1).unwrap();
        let [_, _, by_keep] = example.gradients(&input, &activation);
        for (index, came) in by_keep.iter().enumerate() {
            near(*came, example.difference(&input, &activation, &keep, index, 1e-3), "score");
        }
        let run = |value: f64| {
            let mut keep = keep.shallow_clone();
            let _ = no_grad(|| keep.fill_(value));
            to_floats(&example.signs.apply(&input, &activation, &example.parameters))
        };
        let plain = |activation: &Activation| {
            to_floats(&example.signs.apply(&input, activation, &example.parameters))
        };
        assert_eq!(run(1.0), plain(&Activation::Relu));
        assert_eq!(run(0.0), plain(&Activation::Identity));
    }
}
