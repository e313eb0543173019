//! The searches as a whole: what they compute, what they find, and that they go on where they were.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use ::network::shape::Shape;
use ::network::zoo;
use ::network::zoo::genotype::{CellKind, CellOperation};
use recipes::data::{Dataset, SyntheticSize, synthetic};
use recipes::method::sphynx::{CellEpoch, CellSearch, LocationSearch, Post, Strategy, Unseen, candidates};
use recipes::method::{OptimizeSection, ReluBudget, read_epochs};
use recipes::recipe::{Augmentation, Precision};

mod planted;

use super::cell::EdgeFilters;
use super::cells::Learning;
use super::halves::Half;
use super::maps::Order;
use super::network::{Computation, SearchNetwork};
use super::weights::{edges_by_source, targets};
use super::*;
use crate::assemble::{Mode, TrainableNetwork};
use crate::optimize::Told;
use crate::tensor::{Device, Kind, Tensor, no_grad, to_floats};

/// Cells with every operation, in both kinds of cells.
const ALL_OPERATIONS: &str = "average@0+conv3@1.skip@0+dilated5@2.conv5@1+dilated3@3.skip@2+average@3/\
                              skip@0+conv5@1.conv3@0+average@1.dilated3@0+skip@2.dilated5@1+conv3@4";

fn small() -> CellSearch {
    CellSearch {
        channels: 2,
        depth: 3,
        epochs: 2,
        batch: Some(8),
        checkpoint_every: 1,
        ..CellSearch::default()
    }
}

fn network(search: &CellSearch, precision: Precision) -> SearchNetwork {
    crate::tensor::set_threads(1);
    let computation = Computation { precision, ..Computation::on(Device::Cpu, search) };
    SearchNetwork::new(search, Shape::image(8), 10, 1, computation).unwrap()
}

fn images(training: usize) -> Dataset {
    synthetic(&SyntheticSize { side: 8, training, test: 10, seed: 1 }).training
}

fn learning(search: &CellSearch, precision: Precision, training: usize) -> Learning {
    let halves =
        Half::both(&images(training), (search.batch(), Augmentation::default()), 1, Device::Cpu).unwrap();
    let mut learning = Learning::new(network(search, precision), halves, search, Device::Cpu);
    learning.halves.iter_mut().for_each(|half| half.begin_epoch(0, 0.05));
    learning
}

/// Scores that leave one operation on each edge of a genotype, and nothing on the others.
fn set_one_hot(network: &mut SearchNetwork, cells: &Genotype) {
    let edges = edges_by_source(cells.nodes());
    for kind in CellKind::BOTH {
        let mut table = vec![0.0_f32; 7 * edges.len()];
        for (row, (target, source)) in edges.iter().enumerate() {
            let kept = cells.wiring(kind)[target - 2].iter().find(|edge| edge.from == *source);
            let column = kept.map_or(0, |edge| {
                let place = CellOperation::SEARCHED.iter().position(|operation| *operation == edge.operation);
                1 + place.unwrap()
            });
            // Far enough above the others that their weights are exactly 0.
            table[7 * row + column] = 1e4;
        }
        let name = format!("{}.operations", kind.word());
        let (_, scores) = network.both_mut();
        let (_, mut value) = scores.named().find(|(known, _)| *known == name).unwrap();
        no_grad(|| value.copy_(&Tensor::from_slice(&table).view([-1, 7])));
    }
}

/// Copies the weights of a network under search to the network of a genotype.
fn copy_weights(search: &SearchNetwork, discrete: &mut TrainableNetwork, cells: &Genotype, reduces: &[bool]) {
    let numbers: HashMap<String, Tensor> = search.named_numbers().into_iter().collect();
    let mut pairs: Vec<(String, Tensor)> = Vec::new();
    let mut take = |from: &str, range: Option<(usize, usize)>, to: String| {
        let value = &numbers[from];
        let value = range.map_or_else(
            || value.shallow_clone(),
            |(start, length)| value.narrow(0, start as i64, length as i64),
        );
        pairs.push((to, value));
    };
    take("stem.conv.weight", None, "stem.conv1.weight".to_owned());
    take("stem.norm.weight", None, "stem.norm1.weight".to_owned());
    take("stem.norm.bias", None, "stem.norm1.bias".to_owned());
    take("head.fc.weight", None, "head.fc1.weight".to_owned());
    take("head.fc.bias", None, "head.fc1.bias".to_owned());
    let (mut stage, mut block) = (1, 0);
    for (index, reduces_here) in reduces.iter().enumerate() {
        (stage, block) = if *reduces_here { (stage + 1, 1) } else { (stage, block + 1) };
        let (from, to) = (format!("cell{index}"), format!("stage{stage}.block{block}"));
        match numbers.contains_key(&format!("{from}.older.weight")) {
            true => take(&format!("{from}.older.weight"), None, format!("{to}.older.conv1.weight")),
            false => {
                take(&format!("{from}.older.first.weight"), None, format!("{to}.older.conv1.weight"));
                take(&format!("{from}.older.shifted.weight"), None, format!("{to}.older.conv2.weight"));
            }
        }
        take(&format!("{from}.newer.weight"), None, format!("{to}.newer.conv1.weight"));
        take(&format!("{from}.post.weight"), None, format!("{to}.post.conv1.weight"));
        let channels = numbers[&format!("{from}.post.weight")].size()[0] as usize;
        let kind = if *reduces_here { CellKind::Reduce } else { CellKind::Normal };
        for (target, edges) in (2..).zip(cells.wiring(kind)) {
            for (number, edge) in (1..).zip(edges) {
                let place = target - targets(edge.from, cells.nodes()).start;
                let (from, to) =
                    (format!("{from}.node{}", edge.from), format!("{to}.node{target}.edge{number}"));
                let own = Some((place * channels, channels));
                match edge.operation {
                    CellOperation::Average => {}
                    CellOperation::Skip if *reduces_here && edge.from < 2 => {
                        let (first, second) = (channels / 2, channels - channels / 2);
                        let own = |half| Some((place * half, half));
                        take(&format!("{from}.skip.first.weight"), own(first), format!("{to}.conv1.weight"));
                        take(
                            &format!("{from}.skip.shifted.weight"),
                            own(second),
                            format!("{to}.conv2.weight"),
                        );
                    }
                    CellOperation::Skip => {}
                    CellOperation::Conv3 | CellOperation::Conv5 => {
                        let word = edge.operation.word();
                        take(&format!("{from}.{word}.weight"), own, format!("{to}.conv1.weight"));
                        take(&format!("{from}.{word}.second.weight"), own, format!("{to}.conv2.weight"));
                    }
                    other => {
                        take(&format!("{from}.{}.weight", other.word()), own, format!("{to}.conv1.weight"))
                    }
                }
            }
        }
    }
    let known: HashMap<String, Tensor> =
        discrete.named_numbers().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in &pairs {
        no_grad(|| known[name].shallow_clone().copy_(value));
    }
    let weights = known.keys().filter(|name| name.contains("conv") || name.contains("fc")).count();
    let copied = pairs.iter().filter(|(name, _)| name.contains("conv") || name.contains("fc")).count();
    assert_eq!(weights, copied, "every weight of the network was copied");
}

#[test]
fn one_hot_scores_make_the_network_of_the_zoo() {
    let cells = Genotype::from_word(ALL_OPERATIONS).unwrap();
    let mut search = network(&small(), Precision::F64);
    set_one_hot(&mut search, &cells);
    let spec = zoo::build(&format!("sphynx:c=2,d=3,reduce=1+2,cells={ALL_OPERATIONS}"), 8, 10).unwrap();
    let options = AssembleOptions { precision: Precision::F64, seed: 9, ..AssembleOptions::default() };
    let mut discrete = TrainableNetwork::new(&spec, &options, Device::Cpu).unwrap();
    copy_weights(&search, &mut discrete, &cells, &[false, true, true]);
    let mut stream = recipes::random::Stream::new("batch", 1);
    let values: Vec<f32> = (0..6 * 3 * 64).map(|_| stream.between(-2.0, 2.0)).collect();
    let batch = Device::Cpu.floats(&values, &[6, 3, 8, 8]).to_kind(Kind::Double);
    for mode in [Mode::Train { drop_path: None }, Mode::Evaluate] {
        let (one, other) = no_grad(|| (search.forward(&batch, mode), discrete.forward(&batch, mode).logits));
        let difference = (one - &other).abs().max().double_value(&[]);
        // In training the statistics of the batch are used; the running ones, here, have seen the same batch.
        assert!(difference < 1e-9, "{difference} in {mode:?}");
        assert!(other.abs().max().double_value(&[]) > 1e-3);
    }
    assert_eq!(search.cell_scores().genotype(recipes::method::sphynx::Rank::Softmax).unwrap(), cells);
}

/// The loss of a batch, with one score moved.
fn shifted_loss(learning: &Learning, batch: &(Tensor, crate::distill::Targets), index: i64, by: f64) -> f64 {
    let mut score = learning.network.scores().masters().get(index);
    no_grad(|| {
        let _ = score.g_add_scalar_(by);
    });
    let loss = no_grad(|| learning.loss(batch).0.double_value(&[]));
    no_grad(|| {
        let _ = score.g_sub_scalar_(by);
    });
    loss
}

/// Some scores of both cells, and of their edges where edges have some.
fn some_scores(learning: &Learning) -> Vec<i64> {
    let parameters = learning.network.scores();
    let first = parameters.masters().data_ptr() as usize;
    let mut chosen = Vec::new();
    for (name, scores) in parameters.named() {
        let (start, count) = ((scores.data_ptr() as usize - first) / size_of::<f64>(), scores.numel());
        assert!(count >= 5, "{name}");
        chosen.extend((start..start + count).step_by(count.div_ceil(5)).map(|index| index as i64));
    }
    chosen
}

#[test]
fn gradients_of_scores_are_those_of_the_loss() {
    for (strategy, post) in
        [(Strategy::Darts, Post::Paper), (Strategy::Darts, Post::Authors), (Strategy::PcDarts, Post::Paper)]
    {
        let search = CellSearch { strategy, post, nodes: 2, channels: 4, ..small() };
        let mut learning = learning(&search, Precision::F64, 32);
        let row = learning.halves[1].read();
        let batch = learning.halves[1].batch(&row, Kind::Double);
        let gradient = learning.score_gradient(&batch).copy();
        let mut largest = 0.0_f64;
        for index in some_scores(&learning) {
            let difference =
                shifted_loss(&learning, &batch, index, 1e-5) - shifted_loss(&learning, &batch, index, -1e-5);
            let (expected, came) = (difference / 2e-5, gradient.double_value(&[index]));
            assert!(
                (came - expected).abs() < 1e-6 * (1.0 + expected.abs()),
                "{strategy:?}: {came} for {expected}"
            );
            largest = largest.max(came.abs());
        }
        assert!(largest > 1e-4, "{strategy:?}: all gradients vanish");
    }
}

#[test]
fn every_way_to_compute_has_the_same_gradients() {
    for strategy in [Strategy::Darts, Strategy::PcDarts] {
        let search = CellSearch { strategy, channels: 4, ..small() };
        let usual = Computation { precision: Precision::F64, ..Computation::on(Device::Cpu, &search) };
        let gradients = |computation: Computation| {
            let halves =
                Half::both(&images(16), (search.batch(), Augmentation::default()), 1, Device::Cpu).unwrap();
            let network = SearchNetwork::new(&search, Shape::image(8), 10, 1, computation).unwrap();
            let mut learning = Learning::new(network, halves, &search, Device::Cpu);
            learning.halves.iter_mut().for_each(|half| half.begin_epoch(0, 0.05));
            let row = learning.halves[0].read();
            let batch = learning.halves[0].batch(&row, Kind::Double);
            let [weights, scores] = learning.both_gradients(&batch);
            let weights: BTreeMap<String, Vec<f32>> = learning
                .network
                .weights()
                .named_in(&weights)
                .map(|(name, gradient)| (name.to_owned(), to_floats(&gradient.contiguous())))
                .collect();
            (weights, to_floats(&scores))
        };
        let (weights, scores) = gradients(usual);
        assert!(scores.iter().any(|number| number.abs() > 1e-3), "it learns something");
        for filters in [EdgeFilters::Grouped, EdgeFilters::Dense, EdgeFilters::BySize] {
            for order in [Order::Planes, Order::Innermost] {
                let (other_weights, other_scores) = gradients(Computation { filters, order, ..usual });
                let is_close = |one: &f32, other: &f32| (one - other).abs() <= 1e-6 * (1.0 + one.abs());
                assert!(
                    scores.iter().zip(&other_scores).all(|(one, other)| is_close(one, other)),
                    "{filters:?} {order:?}: {scores:?} is not {other_scores:?}"
                );
                assert!(weights.keys().eq(other_weights.keys()));
                for (name, gradient) in &weights {
                    let other = &other_weights[name];
                    assert_eq!(gradient.len(), other.len(), "{name}");
                    let is_same = gradient.iter().zip(other).all(|(one, other)| is_close(one, other));
                    assert!(is_same, "{filters:?} {order:?}: {name}");
                }
            }
        }
    }
}

#[test]
fn gradients_of_second_order_look_one_step_ahead() {
    let search = CellSearch { nodes: 1, ..small() };
    let mut learning = learning(&search, Precision::F64, 32);
    // A step first, so that there is a velocity.
    learning.step(false, false);
    let batches = [0, 1].map(|half| {
        let half: &Half = &learning.halves[half];
        half.batch(&half.read(), Kind::Double)
    });
    let rate = Tensor::from_slice(&[0.1_f64]);
    let start = learning.network.weights().masters().copy();
    // A short reach, since the loss is anything but linear in weights.
    let gradient = learning.gradient_ahead(&batches[0], &batches[1], &rate, 1e-6);
    assert_eq!(to_floats(learning.network.weights().masters()), to_floats(&start), "weights are as before");
    let first_order = learning.score_gradient(&batches[1]).copy();
    // The same by moving a score, then the weights, then looking at the loss.
    let ahead = |learning: &mut Learning, index: i64, by: f64| -> f64 {
        let mut score = learning.network.scores().masters().get(index);
        no_grad(|| {
            let _ = score.g_add_scalar_(by);
        });
        let gradient = learning.weight_gradient(&batches[0]).copy();
        no_grad(|| {
            let velocity = learning.weight_memory.named_rows().next().unwrap().1 * learning.updates.momentum;
            let step = velocity + gradient + &start * learning.updates.weight_decay;
            learning.network.weights().masters().shallow_clone().copy_(&(&start - step * 0.1));
            let loss = learning.loss(&batches[1]).0.double_value(&[]);
            learning.network.weights().masters().shallow_clone().copy_(&start);
            let _ = score.g_sub_scalar_(by);
            loss
        })
    };
    let mut differs = false;
    for index in [0, 2, 3, 4, 9, 10, 11] {
        let expected = (ahead(&mut learning, index, 1e-5) - ahead(&mut learning, index, -1e-5)) / 2e-5;
        let (came, plain) = (gradient.double_value(&[index]), first_order.double_value(&[index]));
        assert!((came - expected).abs() < 2e-3 * expected.abs() + 1e-5, "{came} for {expected}");
        differs |= (came - plain).abs() > 10.0 * (came - expected).abs();
    }
    assert!(differs, "the second term says nothing");
}

#[test]
fn the_search_finds_the_operations_that_a_task_was_made_with() {
    let search = CellSearch { nodes: 1, channels: 4, batch: Some(32), ..small() };
    for word in ["conv3@0+dilated5@1/average@0+conv5@1", "average@0+conv5@1/skip@0+dilated3@1"] {
        let planted = Genotype::from_word(word).unwrap();
        let mut learning = learning(&search, Precision::F32, 64);
        let (images, _) = learning.halves[1].batch(&learning.halves[1].read(), Kind::Float);
        let first = learning.network.scores().masters().copy();
        // What the network of the planted cells says of images is the truth.
        set_one_hot(&mut learning.network, &planted);
        let forward = |network: &SearchNetwork| network.forward(&images, Mode::Train { drop_path: None });
        let truth = no_grad(|| (forward(&learning.network) * 4.0).softmax(-1, Kind::Float));
        no_grad(|| learning.network.scores().masters().shallow_clone().copy_(&first));
        let optimizer = super::cells::SCORE_OPTIMIZER;
        let mut memory = crate::learn::Memory::new(optimizer, learning.network.scores(), 0.0, true);
        let rate = Device::Cpu.floats(&[0.05], &[1]);
        for _ in 0..80 {
            let loss = crate::distill::cross_entropy(&(forward(&learning.network) * 4.0), &truth);
            let (_, scores) = learning.network.both_mut();
            let gradient = scores.gradient(&loss).shallow_clone();
            no_grad(|| memory.step(scores.masters(), &gradient, &rate));
        }
        let found = learning.network.cell_scores().genotype(recipes::method::sphynx::Rank::Softmax).unwrap();
        assert_eq!(found.to_word(), word);
    }
}

fn state(section: SphynxSection) -> recipes::checkpoint::State {
    let text =
        "[data]\nset = \"synthetic\"\n[network]\nname = \"sphynx\"\n[training]\nepochs = 1\nbatch = 8\n";
    let mut recipe = Recipe::from_toml(text).unwrap();
    recipe.optimize = Some(OptimizeSection::Sphynx(Box::new(section)));
    let spec = zoo::build("sphynx:c=2,d=3,reduce=0+1", 8, 10).unwrap();
    let set = images(10);
    recipes::checkpoint::State::new(recipe, &spec, set.classes.clone(), set.normalization())
}

#[test]
fn an_interrupted_search_of_cells_goes_on_to_the_same_bits() {
    crate::tensor::set_threads(1);
    for strategy in [Strategy::Darts, Strategy::DartsSecond, Strategy::PcDarts] {
        let search = CellSearch { strategy, nodes: 2, frozen_epochs: Some(1), epochs: 3, ..small() };
        let section =
            SphynxSection { cell_search: search.clone(), ..SphynxSection::new(ReluBudget::Count(5000)) };
        let set = images(32);
        let augmentation = Augmentation { crop_padding: 1, flip: true, ..Augmentation::default() };
        let begin = |folder: &Path| {
            CellSearcher::new(&search, &set, augmentation, state(section.clone()), folder, Device::Cpu)
                .unwrap()
        };
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let whole = begin(folders[0].path())
            .run(folders[0].path(), 1 << 20, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        // The watch stops the second after its first epoch, as a signal would.
        let cut = std::panic::AssertUnwindSafe(|| {
            begin(folders[1].path()).run(folders[1].path(), 1 << 20, &mut |told| {
                assert!(!matches!(told, Told::Epoch(CellEpoch { epoch: 2.., .. })), "interrupted");
                ControlFlow::Continue(())
            })
        });
        assert!(std::panic::catch_unwind(cut).is_err());
        let went_on = begin(folders[1].path())
            .run(folders[1].path(), 1 << 20, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(whole, went_on);
        let load = |folder: &tempfile::TempDir| Checkpoint::load(folder.path(), Part::All).unwrap();
        let (one, other) = (load(&folders[0]), load(&folders[1]));
        assert_eq!((one.weights, one.optimizer), (other.weights, other.optimizer));
        let scores = |folder: &tempfile::TempDir| -> Vec<_> {
            let epochs: Vec<CellEpoch> = read_epochs(&folder.path().join("cells.jsonl")).unwrap();
            epochs.into_iter().map(|epoch| (epoch.epoch, epoch.scores)).collect()
        };
        assert_eq!(scores(&folders[0]), scores(&folders[1]));
        // Scores stayed as they were in the first epoch, and moved in the others.
        let scores = scores(&folders[0]);
        assert_eq!(scores.len(), 3);
        assert_eq!(scores[0].1, network(&search, Precision::F32).cell_scores());
        assert_ne!(scores[1].1, scores[0].1);
    }
}

#[test]
fn an_interrupted_search_of_locations_goes_on_to_the_same_bits() {
    crate::tensor::set_threads(1);
    let usual = LocationSearch { epochs: 3, batch: 8, checkpoint_every: 1, ..LocationSearch::default() };
    interrupt_locations(&LocationSearch { companions: 1, ..usual.clone() });
    interrupt_locations(&LocationSearch { unseen: Unseen::Mean, ..usual });
}

fn interrupt_locations(search: &LocationSearch) {
    let section =
        SphynxSection { location_search: search.clone(), ..SphynxSection::new(ReluBudget::Count(5000)) };
    let set = images(48);
    let networks = || {
        let pairs = candidates(3, search.candidates);
        let build = |pair: [usize; 2]| {
            (pair, zoo::build(&format!("sphynx:c=2,d=3,reduce={}+{}", pair[0], pair[1]), 8, 10).unwrap())
        };
        pairs.into_iter().map(build).collect::<Vec<_>>()
    };
    let begin = |folder: &Path| {
        let options = AssembleOptions { seed: 1, ..AssembleOptions::default() };
        let images = (&set, Augmentation::default());
        LocationSearcher::new(
            search,
            networks(),
            images,
            &options,
            state(section.clone()),
            (folder, Device::Cpu),
        )
        .unwrap()
    };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let whole =
        begin(folders[0].path()).run(folders[0].path(), 1 << 20, &mut |_| ControlFlow::Continue(())).unwrap();
    let cut = begin(folders[1].path()).run(folders[1].path(), 1 << 20, &mut |_| ControlFlow::Break(()));
    assert!(cut.unwrap_err().is_stop());
    if search.unseen == Unseen::Zero {
        // As a build left it that knew zeros alone.
        let mut earlier = Checkpoint::load(folders[1].path(), Part::All).unwrap();
        assert!(earlier.optimizer.remove("search/mean").is_some());
        earlier.save(folders[1].path(), 1 << 20).unwrap();
    }
    let went_on =
        begin(folders[1].path()).run(folders[1].path(), 1 << 20, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((whole.distribution.clone(), whole.drawn.clone()), (went_on.distribution, went_on.drawn));
    assert_eq!(whole.candidates, [[0, 1], [0, 2], [1, 2]]);
    assert_eq!(whole.drawn.iter().sum::<u64>(), 3);
    assert!((whole.temperature - 0.1).abs() < 1e-12);
    let load = |folder: &tempfile::TempDir| Checkpoint::load(folder.path(), Part::All).unwrap();
    let (one, other) = (load(&folders[0]), load(&folders[1]));
    assert_eq!((one.weights, one.optimizer), (other.weights, other.optimizer));
    // A search of other candidates does not go on here.
    let other = SphynxSection::new(ReluBudget::Count(6000));
    let options = AssembleOptions { seed: 1, ..AssembleOptions::default() };
    let refused = LocationSearcher::new(
        search,
        networks(),
        (&set, Augmentation::default()),
        &options,
        state(other),
        (folders[0].path(), Device::Cpu),
    );
    assert!(matches!(refused.err(), Some(OptimizeRunError::OtherSearch { .. })));
}
