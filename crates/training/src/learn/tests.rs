//! Learning a toy set, and what must not depend on how a run was made.

use std::collections::BTreeMap;

use network::shape::Shape;
use network::zoo;
use recipes::random::Stream;
use recipes::recipe::Precision;

use super::*;
use crate::assemble::AssembleOptions;
use crate::tensor::to_floats;

const SIDE: usize = 8;

/// Images of four classes: which quarter of them is bright, under noise.
struct Toy {
    images: Vec<u8>,
    labels: Vec<u16>,
}

impl Toy {
    fn new(count: usize, seed: u64) -> Self {
        let mut stream = Stream::new("toy", seed);
        let (mut images, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let label = stream.below(4) as usize;
            labels.push(label as u16);
            for index in 0..3 * SIDE * SIDE {
                let (row, column) = (index / SIDE % SIDE, index % SIDE);
                let is_bright = (row / (SIDE / 2)) * 2 + column / (SIDE / 2) == label;
                images.push((60 + stream.below(60) + 70 * u32::from(is_bright)) as u8);
            }
        }
        Self { images, labels }
    }

    fn on_device(&self) -> DeviceImages {
        // Tests run side by side already, and small tensors gain nothing from more threads.
        crate::tensor::set_threads(1);
        let set = ImageSet {
            shape: Shape::image(SIDE),
            classes: 4,
            images: &self.images,
            labels: &self.labels,
            mean: &[0.4; 3],
            deviation: &[0.2; 3],
        };
        DeviceImages::new(&set, Device::Cpu).unwrap()
    }
}

fn network(name: &str, seed: u64, precision: Precision) -> TrainableNetwork {
    let spec = zoo::build(name, SIDE, 4).unwrap();
    let options = AssembleOptions { seed, precision, ..AssembleOptions::default() };
    TrainableNetwork::new(&spec, &options, Device::Cpu).unwrap()
}

fn learner(name: &str, teacher: Option<&str>, options: LearnOptions) -> Learner {
    let teacher = teacher.map(|name| network(name, 9, Precision::F32));
    let student = network(name, 1, Precision::F32);
    Learner::new(student, teacher, options, Toy::new(200, 1).on_device()).unwrap()
}

fn constant(learning_rate: f32) -> impl Fn(u64) -> StepRates {
    move |_| StepRates { learning_rate, drop_path: 0.1, ..StepRates::default() }
}

fn epochs(learner: &mut Learner, range: std::ops::Range<u64>) -> EpochFigures {
    let mut last = None;
    for epoch in range {
        last = Some(learner.run_epoch(epoch, &constant(0.05), &mut |_| {}).unwrap());
    }
    last.unwrap()
}

#[test]
fn a_small_hybrenet_learns_a_toy_set() {
    let network = network("hrn-2x5x3x:m=2", 1, Precision::F32);
    let augmentation = Augmentation { crop_padding: 1, ..Augmentation::default() };
    let options = LearnOptions { batch: 25, augmentation, ..LearnOptions::default() };
    let mut learner = Learner::new(network, None, options, Toy::new(200, 1).on_device()).unwrap();
    // Down to nothing, so that the running statistics catch up with the weights.
    let rates =
        |step: u64| StepRates { learning_rate: 0.05 * (1.0 - step as f32 / 64.0), ..StepRates::default() };
    let mut steps = 0;
    let first = learner.run_epoch(0, &rates, &mut |_| steps += 1).unwrap();
    assert_eq!((steps, learner.steps_per_epoch(), first.images), (8, 8, 200));
    let later: Vec<_> = (1..8).map(|epoch| learner.run_epoch(epoch, &rates, &mut |_| {}).unwrap()).collect();
    assert!(later[6].loss < first.loss && later[6].accuracy > 0.9, "{first:?} {later:?}");
    let test = evaluate(learner.network(), &Toy::new(100, 2).on_device(), 30).unwrap();
    assert!(test.accuracy() > 0.95, "{test:?}");
    assert_eq!(test.images, 100);
}

#[test]
fn learning_in_bf16_lowers_the_loss_too() {
    let network = network("resnet10:m=2", 1, Precision::Bf16);
    let options = LearnOptions { batch: 10, ..LearnOptions::default() };
    let mut learner = Learner::new(network, None, options, Toy::new(40, 1).on_device()).unwrap();
    let losses: Vec<f64> =
        (0..4).map(|epoch| learner.run_epoch(epoch, &constant(0.02), &mut |_| {}).unwrap().loss).collect();
    assert!(losses[3] < 0.8 * losses[0], "{losses:?}");
}

const SIGNET: &str = "signet:signs=0+2+3,values=4,stream=4+6+8,depths=1+1+1";

/// Taught by another network, in bf16 and f32, until the loss has fallen by half.
#[test]
fn a_network_with_shared_signs_learns_from_a_teacher() {
    for precision in [Precision::F32, Precision::Bf16] {
        let mut options = LearnOptions { batch: 25, ..LearnOptions::default() };
        let dkd = Distillation::Dkd { temperature: 4.0, alpha: 1.0, beta: 2.0, warm_up_epochs: 0.0 };
        options.losses.distillation = Some(dkd);
        let images = || Toy::new(200, 1).on_device();
        let plain = LearnOptions { batch: 25, ..LearnOptions::default() };
        let mut teacher =
            Learner::new(network("resnet10:m=2", 9, Precision::F32), None, plain, images()).unwrap();
        epochs(&mut teacher, 0..4);
        let student = network(SIGNET, 1, precision);
        let mut learner = Learner::new(student, Some(teacher.into_network()), options, images()).unwrap();
        let losses: Vec<f64> = (0..6)
            .map(|epoch| learner.run_epoch(epoch, &constant(0.05), &mut |_| {}).unwrap().loss)
            .collect();
        assert!(losses[5] < 0.5 * losses[0], "{precision:?}: {losses:?}");
        let slopes = learner.network().to_arrays()["stage2.block1.body.signs1.slope"].floats().unwrap();
        assert!(slopes.iter().any(|slope| *slope != 0.0), "slopes learn too: {slopes:?}");
    }
}

#[test]
fn predictions_are_those_that_were_evaluated() {
    let images = Toy::new(50, 3);
    let network = network("resnet10:m=2", 5, Precision::F32);
    let evaluation = evaluate(&network, &images.on_device(), 16).unwrap();
    let logits = predict(&network, &images.on_device(), 50).unwrap();
    let best = |row: &[f32]| (0..4).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap();
    let right = logits.chunks(4).zip(&images.labels).filter(|(row, label)| best(row) == usize::from(**label));
    assert_eq!(right.count() as u64, evaluation.correct);
}

/// Options that use everything at once.
fn everything() -> LearnOptions {
    LearnOptions {
        seed: 7,
        batch: 16,
        clip: Some(1.0),
        ema: Some(0.9),
        losses: Losses {
            attention: 0.0,
            label_smoothing: 0.1,
            distillation: Some(Distillation::soft(4.0, 0.9)),
            auxiliary_weight: 0.0,
        },
        augmentation: Augmentation {
            crop_padding: 2,
            flip: true,
            cutout: 3,
            trivial: 1.0,
            cutmix: 1.0,
            mixup: 0.0,
        },
        ..LearnOptions::default()
    }
}

#[test]
fn a_run_depends_on_its_seed_alone() {
    let run = |seed| {
        let mut learner =
            learner("sphynx:c=2,d=3,reduce=1", Some("resnet10:m=2"), LearnOptions { seed, ..everything() });
        let figures = epochs(&mut learner, 0..2);
        (figures.loss, learner.network().to_arrays(), learner.state())
    };
    let first = run(7);
    assert!(first == run(7));
    assert!(first.1 != run(8).1);
}

#[test]
fn a_resumed_run_ends_where_the_uninterrupted_one_does() {
    let sgd = Optimizer::Sgd { momentum: 0.9, nesterov: true };
    let adam = Optimizer::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };
    for (name, optimizer) in [("resnet10:m=2", sgd), ("resnet10:m=2", adam), (SIGNET, sgd)] {
        let options = LearnOptions { optimizer, ..everything() };
        let fresh = || learner(name, Some("resnet10:m=2"), options.clone());
        let mut whole = fresh();
        epochs(&mut whole, 0..4);
        let mut first = fresh();
        epochs(&mut first, 0..2);
        let (arrays, state) = (first.network().to_arrays(), first.state());
        drop(first);
        let mut second = fresh();
        let mut network = second.into_network();
        network.load_arrays(&arrays).unwrap();
        let teacher = Some(super::tests::network("resnet10:m=2", 9, Precision::F32));
        second = Learner::new(network, teacher, options.clone(), Toy::new(200, 1).on_device()).unwrap();
        second.restore(&state).unwrap();
        epochs(&mut second, 2..4);
        assert!(second.network().to_arrays() == whole.network().to_arrays());
        assert!(second.state() == whole.state());
    }
}

/// Views that come again: three of them, without mixtures.
fn with_views() -> LearnOptions {
    let mut options = LearnOptions { views: NonZeroU32::new(3), ..everything() };
    options.augmentation.cutmix = 0.0;
    options
}

#[test]
fn kept_answers_are_those_the_teacher_gives() {
    let fresh = || learner("resnet10:m=2", Some("resnet10:m=4"), with_views());
    let (mut kept, mut asked) = (fresh(), fresh());
    // Learns from the same views, and asks at every step.
    asked.answers = None;
    for epoch in 0..5 {
        let (kept, asked) = (epochs(&mut kept, epoch..epoch + 1), epochs(&mut asked, epoch..epoch + 1));
        let difference = (kept.loss - asked.loss).abs() / asked.loss;
        assert!(difference < 2e-3, "epoch {epoch}: {} instead of {}", kept.loss, asked.loss);
    }
    let mut others = learner("resnet10:m=2", Some("resnet10:m=4"), with_views());
    others.options.views = None;
    others.answers = None;
    assert_ne!(epochs(&mut others, 0..1).loss, epochs(&mut fresh(), 0..1).loss, "other views");
}

#[test]
fn a_run_with_views_goes_on_to_the_same_bits() {
    let fresh = || learner("resnet10:m=2", Some("resnet10:m=2"), with_views());
    let mut whole = fresh();
    epochs(&mut whole, 0..5);
    let mut first = fresh();
    epochs(&mut first, 0..4);
    let (arrays, state) = (first.network().to_arrays(), first.state());
    let mut second = fresh();
    second.network_mut().load_arrays(&arrays).unwrap();
    second.restore(&state).unwrap();
    epochs(&mut second, 4..5);
    assert!(second.network().to_arrays() == whole.network().to_arrays());
}

#[test]
fn a_state_of_another_run_is_refused() {
    let mut learner = learner("resnet10:m=2", None, LearnOptions { batch: 16, ..LearnOptions::default() });
    let good = learner.state();
    let mut less = good.clone();
    less.remove("velocity.stem.conv1.weight");
    let error = learner.restore(&less).unwrap_err().to_string();
    assert!(error.contains("velocity.stem.conv1.weight"), "{error}");
    assert!(learner.restore(&BTreeMap::new()).is_err());
    learner.restore(&good).unwrap();
}

#[test]
fn undoing_steps_leaves_no_trace() {
    let mut learner = learner("resnet10:m=2", Some("resnet10:m=2"), everything());
    epochs(&mut learner, 0..1);
    learner.begin_epoch(1, &constant(0.1)).unwrap();
    let before = (learner.network().to_arrays(), learner.state(), to_floats(&learner.totals));
    let snapshot = learner.snapshot();
    (0..3).for_each(|_| learner.step());
    assert!(before.0 != learner.network().to_arrays());
    no_grad(|| learner.undo(&snapshot));
    assert!(before == (learner.network().to_arrays(), learner.state(), to_floats(&learner.totals)));
}

#[test]
fn averages_follow_slowly_and_are_swapped_in_and_out() {
    let mut learner =
        learner("resnet10:m=2", None, LearnOptions { batch: 16, ema: Some(0.9), ..LearnOptions::default() });
    let start = learner.network().to_arrays()["stem.conv1.weight"].floats().unwrap()[0];
    epochs(&mut learner, 0..1);
    let now = learner.network().to_arrays();
    let averaged = learner.with_average(|network| network.to_arrays());
    assert!(learner.network().to_arrays() == now);
    let (now, averaged) = (&now["stem.conv1.weight"], &averaged["stem.conv1.weight"]);
    let (now, averaged) = (now.floats().unwrap()[0], averaged.floats().unwrap()[0]);
    assert!((averaged - start).abs() < (now - start).abs(), "{start} {averaged} {now}");
}

#[test]
fn a_penalty_lowers_keep_scores_and_decay_leaves_them() {
    let run = |keep_penalty| {
        let mut network = network("resnet10:m=2", 1, Precision::F32);
        network.enable_keep_scores(recipes::method::Granularity::Pixel).unwrap();
        let options = LearnOptions { batch: 20, weight_decay: 0.5, ..LearnOptions::default() };
        let mut learner = Learner::new(network, None, options, Toy::new(100, 1).on_device()).unwrap();
        // A network that learns nothing but scores: without rates nothing moves, so the rate is tiny.
        let rates = |_| StepRates { learning_rate: 1e-3, keep_penalty, ..StepRates::default() };
        learner.run_epoch(0, &rates, &mut |_| {}).unwrap();
        let scores = learner.network().keep_scores();
        scores.iter().map(|(_, scores)| to_floats(scores).iter().sum::<f32>()).sum::<f32>()
    };
    let total = network("resnet10:m=2", 1, Precision::F32).relu_count() as f32;
    assert!((run(0.0) - total).abs() < 0.01 * total, "{} {total}", run(0.0));
    assert!(run(1.0) < 0.995 * total, "{} {total}", run(1.0));
}

#[test]
fn a_learning_rate_without_measure_is_an_error_that_says_so() {
    let mut learner = learner("resnet10:m=2", None, LearnOptions { batch: 16, ..LearnOptions::default() });
    let mut outcome = Ok(());
    for epoch in 0..4 {
        outcome = outcome.and_then(|()| learner.run_epoch(epoch, &constant(1e30), &mut |_| {}).map(drop));
    }
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("lower the learning rate"), "{error}");
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let options = |change: &dyn Fn(&mut LearnOptions)| {
        let mut options = LearnOptions { batch: 16, ..LearnOptions::default() };
        change(&mut options);
        options
    };
    let refuse = |options: LearnOptions, teacher: Option<TrainableNetwork>| {
        let network = network("resnet10:m=2", 1, Precision::F32);
        Learner::new(network, teacher, options, Toy::new(50, 1).on_device()).err().unwrap().to_string()
    };
    assert!(refuse(options(&|options| options.batch = 51), None).contains("from 1 to 50"));
    let distilled = |options: &mut LearnOptions| {
        options.losses.distillation = Some(Distillation::LogitMse { weight: 1.0 });
    };
    assert!(refuse(options(&distilled), None).contains("needs a teacher"));
    let other = zoo::build("resnet10:m=2", SIDE, 5).unwrap();
    let other = TrainableNetwork::new(&other, &AssembleOptions::default(), Device::Cpu).unwrap();
    assert!(refuse(options(&distilled), Some(other)).contains("5 classes"));
    let mixed = |options: &mut LearnOptions| {
        options.augmentation.mixup = 1.0;
        options.augmentation.cutmix = 1.0;
    };
    assert!(refuse(options(&mixed), None).contains("exclude each other"));
    let viewed = |options: &mut LearnOptions| {
        options.augmentation.cutmix = 1.0;
        options.views = NonZeroU32::new(2);
    };
    assert!(refuse(options(&viewed), None).contains("teacher.views"));
    let toy = Toy::new(10, 1);
    let set = ImageSet {
        shape: Shape::image(SIDE),
        classes: 2,
        images: &toy.images,
        labels: &toy.labels,
        mean: &[0.5; 3],
        deviation: &[0.5; 3],
    };
    assert!(DeviceImages::new(&set, Device::Cpu).unwrap_err().to_string().contains("2 classes"));
    let short = ImageSet { images: &toy.images[1..], classes: 4, ..set };
    assert!(DeviceImages::new(&short, Device::Cpu).unwrap_err().to_string().contains("10 images of 3x8x8"));
    let gray = ImageSet { mean: &[0.5], classes: 4, ..set };
    assert!(DeviceImages::new(&gray, Device::Cpu).unwrap_err().to_string().contains("3 channels"));
}

#[test]
fn steps_are_measured() {
    let spec = zoo::build("resnet10:m=2", SIDE, 4).unwrap();
    for (data_pipeline, teacher) in [(true, Some(spec.clone())), (false, None)] {
        let options = BenchOptions {
            batch: 4,
            steps: 20,
            precision: Precision::F32,
            graph: GraphUse::Auto,
            data_pipeline,
            teacher,
        };
        let time = measure_step(&spec, &options, Device::Cpu).unwrap();
        assert!(time.milliseconds > 0.0 && time.images_per_second > 0.0);
        assert!(time.not_recorded.is_some());
        assert!(time.losses.0.is_finite() && time.losses.1.is_finite() && time.losses.0 != time.losses.1);
    }
}
