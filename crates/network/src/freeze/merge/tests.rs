use super::super::calibrate;
use super::*;
use crate::image::Image;
use crate::inference_model::ImageFormat;
use crate::reference::float;
use crate::spec::NetworkSpec;
use crate::weights::{FloatWeights, LayerWeights};
use proptest::prelude::*;

fn spec(layers: &str, head: &str) -> NetworkSpec {
    NetworkSpec::from_toml(&format!(
        "name = \"merge\"\nclasses = 3\ninput = {{ channels = 3, height = 6, width = 6 }}\nhead = [{head}]\n\
         [stem]\nlayers = [{layers}]\n"
    ))
    .unwrap()
}

/// Convolutions and linear layers before and after merging; values before and after must agree on every pixel.
fn merged_counts(layers: &str, head: &str) -> ((usize, usize), (usize, usize)) {
    let spec = spec(layers, head);
    let weights = FloatWeights::random(&spec, 6);
    let image = ImageFormat::usual(3).normalize(&Image::random(spec.draft().input, 2));
    let mut graph = Graph::new(&spec, &weights, None);
    let count = |graph: &Graph| {
        (graph.convolutions().0, graph.nodes.iter().filter(|node| linear(node).is_some()).count())
    };
    let before = count(&graph);
    merge(&mut graph);
    let oracle = float::run(&spec, &weights, None, &image).unwrap();
    let values = calibrate::run(&graph, image);
    // Every value that enters a ReLU or leaves it, on every pixel.
    for (node, value) in graph.nodes.iter().zip(&values[1..]) {
        if matches!(node.operation, FloatOperation::Activate { .. }) {
            let step = spec.walk().steps().iter().find(|step| step.name == node.name).unwrap();
            assert!(close(&values[node.inputs[0].0], &oracle.values[step.inputs[0].0]), "{}", node.name);
            assert!(close(value, &oracle.values[step.output.0]), "{}", node.name);
        }
    }
    assert!(close(values.last().unwrap(), oracle.logits()));
    (before, count(&graph))
}

fn close(left: &[f32], right: &[f32]) -> bool {
    let scale = float::largest(right).max(1e-3);
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| (a - b).abs() <= 2e-4 * scale)
}

const HEAD: &str = "\"relu\", \"classifier\"";

#[test]
fn a_convolution_and_a_cheaper_pointwise_one_become_one() {
    let narrow =
        "{ conv = { out = 8, filter = 3 } }, \"batch_norm\", { conv = { out = 2, filter = 1, stride = 2 } }";
    assert_eq!(merged_counts(narrow, HEAD), ((2, 3), (1, 2)));
    // Two channels to eight: together they would cost more.
    let wide = "{ conv = { out = 2, filter = 3 } }, \"batch_norm\", { conv = { out = 8, filter = 1 } }";
    assert_eq!(merged_counts(wide, HEAD), ((2, 3), (2, 3)));
}

#[test]
fn a_pointwise_convolution_without_biases_goes_into_a_padded_one() {
    let plain =
        "{ conv = { out = 8, filter = 1 } }, { conv = { out = 4, filter = 3, stride = 2 } }, \"batch_norm\"";
    assert_eq!(merged_counts(plain, HEAD), ((2, 3), (1, 2)));
    // With biases the borders would see them: only without padding.
    let biased = "{ conv = { out = 8, filter = 1 } }, \"batch_norm\", { conv = { out = 4, filter = 3 } }";
    assert_eq!(merged_counts(biased, HEAD), ((2, 3), (2, 3)));
    let unpadded =
        "{ conv = { out = 8, filter = 1 } }, \"batch_norm\", { conv = { out = 4, filter = 3, padding = 0 } }";
    assert_eq!(merged_counts(unpadded, HEAD), ((2, 3), (1, 2)));
}

#[test]
fn two_wide_convolutions_stay_two() {
    let layers = "{ conv = { out = 4, filter = 3 } }, { conv = { out = 4, filter = 3 } }";
    assert_eq!(merged_counts(layers, HEAD), ((2, 3), (2, 3)));
}

#[test]
fn fully_connected_layers_without_a_relu_between_them_become_one() {
    let head = "\"relu\", { fully_connected = { out = 50 } }, \"classifier\"";
    assert_eq!(merged_counts("{ conv = { out = 4, filter = 3 } }", head), ((1, 3), (1, 2)));
}

#[test]
fn scalings_go_into_what_follows_where_the_borders_allow() {
    let layers =
        "{ conv = { out = 4, filter = 3 } }, \"relu\", \"batch_norm\", { conv = { out = 4, filter = 1 } }";
    assert_eq!(merged_counts(layers, HEAD), ((2, 4), (2, 3)));
    let padded =
        "{ conv = { out = 4, filter = 3 } }, \"relu\", \"batch_norm\", { conv = { out = 4, filter = 3 } }";
    assert_eq!(merged_counts(padded, HEAD), ((2, 4), (2, 4)));
    let into_fc = "{ conv = { out = 4, filter = 3 } }, \"relu\", \"batch_norm\"";
    assert_eq!(merged_counts(into_fc, "\"classifier\""), ((1, 3), (1, 2)));
}

#[test]
fn averages_come_before_scalings_and_their_divisions_go_into_weights() {
    let layers = "{ conv = { out = 4, filter = 3 } }, \"relu\", \"batch_norm\"";
    let head = "\"global_average_pool\", \"classifier\"";
    assert_eq!(merged_counts(layers, head), ((1, 3), (1, 2)));
    let spec = spec(layers, head);
    let mut graph = Graph::new(&spec, &FloatWeights::random(&spec, 6), None);
    merge(&mut graph);
    // 36 pixels are no power of two.
    assert!(graph.nodes.iter().any(|node| matches!(node.operation, FloatOperation::Sum(Window::Whole))));
    let pooled = "{ conv = { out = 4, filter = 3 } }, \"relu\", \
                  { average_pool = { window = 3, stride = 1, padding = 1 } }, \"batch_norm\"";
    assert_eq!(merged_counts(pooled, "\"relu\", \"classifier\""), ((1, 3), (1, 3)));
}

#[test]
fn a_batch_norm_after_a_factorized_reduce_goes_into_both_halves() {
    let layers = "{ factorized_reduce = { out = 6 } }, \"batch_norm\"";
    assert_eq!(merged_counts(layers, HEAD), ((2, 3), (2, 3)));
}

#[test]
fn a_value_with_two_readers_is_not_merged_away() {
    let layers = "{ conv = { out = 8, filter = 3 } }, { branches = { join = \"sum\", branches = [\
                  [{ conv = { out = 2, filter = 1 } }], [{ conv = { out = 2, filter = 1 } }, \"relu\"]] } }";
    assert_eq!(merged_counts(layers, HEAD), ((3, 4), (3, 4)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn merging_is_exact_on_every_pixel(
        kernels in prop::collection::vec((1_usize..4, 1_usize..3, 1_usize..9, any::<bool>(), any::<bool>()), 1..5),
        seed in any::<u64>(),
    ) {
        let mut layers = Vec::new();
        let mut side = 6;
        for (kernel, stride, out, is_normal, is_padded) in kernels {
            let padding = if is_padded { kernel / 2 } else { 0 };
            if side + 2 * padding < kernel {
                continue;
            }
            side = (side + 2 * padding - kernel) / stride + 1;
            layers.push(format!(
                "{{ conv = {{ out = {out}, filter = {kernel}, stride = {stride}, padding = {padding} }} }}"
            ));
            if is_normal {
                layers.push("\"batch_norm\"".to_owned());
            }
        }
        let spec = spec(&layers.join(", "), "\"global_average_pool\", \"classifier\"");
        let weights = FloatWeights::random(&spec, seed);
        let image = ImageFormat::usual(3).normalize(&Image::random(spec.draft().input, seed));
        let mut graph = Graph::new(&spec, &weights, None);
        let before = graph.convolutions().1;
        merge(&mut graph);
        prop_assert!(graph.convolutions().1 <= before);
        let oracle = float::run(&spec, &weights, None, &image).unwrap();
        prop_assert!(close(calibrate::run(&graph, image).last().unwrap(), oracle.logits()));
    }
}

#[test]
fn random_weights_have_biases_to_tell_borders_by() {
    let spec = spec("{ conv = { out = 8, filter = 1 } }, \"batch_norm\"", HEAD);
    let weights = FloatWeights::random(&spec, 6);
    let Some(LayerWeights::BatchNorm { shift, .. }) = weights.layer("stem.norm1") else { panic!() };
    assert!(shift.iter().all(|shift| *shift != 0.0));
}

/// Branches that end in a sum, as a block trains with them.
fn branches(stride: usize, filters: &[&str], with_identity: bool) -> String {
    let conv =
        |filter: &&str| format!("[{{ conv = {{ out = 4, stride = {stride}, {filter} }} }}, \"batch_norm\"]");
    let mut lists: Vec<String> = filters.iter().map(conv).collect();
    lists.extend(with_identity.then(|| "[\"batch_norm\"]".to_owned()));
    format!(
        "{{ conv = {{ out = 4, filter = 3 }} }}, \"batch_norm\", \"relu\", \
         {{ branches = {{ join = \"sum\", branches = [{}] }} }}",
        lists.join(", ")
    )
}

#[test]
fn branches_that_are_added_become_one_convolution() {
    let three_and_one = ["filter = 3", "filter = 1"];
    assert_eq!(merged_counts(&branches(1, &three_and_one, true), HEAD), ((3, 5), (2, 3)));
    assert_eq!(merged_counts(&branches(2, &three_and_one, false), HEAD), ((3, 4), (2, 3)));
    let order = ["filter = 1", "filter = 5", "filter = 3"];
    assert_eq!(merged_counts(&branches(1, &order, true), HEAD), ((4, 6), (2, 3)));
    let grouped = ["filter = 3, groups = 2", "filter = 1, groups = 2"];
    assert_eq!(merged_counts(&branches(1, &grouped, false), HEAD), ((3, 4), (2, 3)));
    let unpadded = ["filter = 3, padding = 0", "filter = 3, padding = 0"];
    assert_eq!(merged_counts(&branches(1, &unpadded, false), HEAD), ((3, 4), (2, 3)));
    let dilated = ["filter = 3, dilation = 2", "filter = 1"];
    assert_eq!(merged_counts(&branches(1, &dilated, true), HEAD), ((3, 5), (2, 3)));
}

#[test]
fn branches_that_do_not_lie_on_the_same_pixels_stay_apart() {
    let dilated = ["filter = 3", "filter = 3, dilation = 2"];
    assert_eq!(merged_counts(&branches(1, &dilated, false), HEAD), ((3, 4), (3, 4)));
    let grouped = ["filter = 3", "filter = 3, groups = 2"];
    assert_eq!(merged_counts(&branches(1, &grouped, false), HEAD), ((3, 4), (3, 4)));
    let shifted = ["filter = 3", "filter = 2, padding = 0"];
    assert_eq!(merged_counts(&branches(2, &shifted, false), HEAD), ((3, 4), (3, 4)));
}

/// All blocks of a network that trains with branches; each has two convolutions left, and a shortcut where the map changes.
#[test]
fn a_whole_network_with_branches_merges_to_the_one_without() {
    let plain = "signet:signs=0+2+3,values=1,stream=4+6+6,slopes=no,depths=1+2+1";
    let count = |name: &str| {
        let spec = crate::zoo::build(name, 8, 10).unwrap();
        let weights = FloatWeights::random(&spec, 6);
        let mut graph = Graph::new(&spec, &weights, None);
        merge(&mut graph);
        let image = ImageFormat::usual(3).normalize(&Image::random(spec.draft().input, 2));
        let oracle = float::run(&spec, &weights, None, &image).unwrap();
        assert!(close(calibrate::run(&graph, image).last().unwrap(), oracle.logits()), "{name}");
        (graph.convolutions(), graph.nodes.len())
    };
    assert_eq!(count(&format!("{plain},branches=yes")), count(plain));
}
