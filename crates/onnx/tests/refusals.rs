//! Models that cannot be run in private or make no sense: each is refused with the node and the right words.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod writer;

use sordino_onnx::{ExternalFiles, ImportOptions, import};
use writer::{Dim, Graph, Node, bytes_field, number_field};

fn refusal_of(bytes: &[u8], options: &ImportOptions) -> String {
    match import(bytes, &ExternalFiles::none(), options) {
        Ok(imported) => panic!("accepted: {:?}", imported.notes),
        Err(error) => error.to_string(),
    }
}

fn refusal(graph: &Graph) -> String {
    refusal_of(&graph.model(17), &ImportOptions::default())
}

/// A graph from a 3x8x8 image through one node to a flat answer of 5.
fn around(node: Node) -> Graph {
    let mut graph = Graph::image(&[Dim::Known(1), Dim::Known(3), Dim::Known(8), Dim::Known(8)]);
    graph.tensor("fc", &[192, 5], &vec![0.1; 960]);
    graph.tensor("scalar", &[], &[0.5]);
    graph.tensor("vector", &[3], &[0.5; 3]);
    graph.tensor("filter", &[4, 3, 3, 3], &[0.1; 108]);
    graph.integers("axes", &[2, 3]);
    graph.integers("halves", &[1, 2, 96]);
    graph.node(node);
    graph.node(Node::new("Flatten", &["z"], &["flat"]));
    graph.node(Node::new("Gemm", &["flat", "fc"], &["y"]));
    graph.output("y");
    graph
}

#[test]
fn operations_without_a_private_form_are_refused_with_what_to_use() {
    let cases: &[(&str, &str)] = &[
        ("Gelu", "train with ReLU"),
        ("Erf", "train with ReLU"),
        ("Tanh", "smooth curve"),
        ("Elu", "smooth curve"),
        ("Softplus", "smooth curve"),
        ("Mish", "smooth curve"),
        ("HardSwish", "train with ReLU6 or ReLU"),
        ("InstanceNormalization", "batch normalization"),
        ("LayerNormalization", "batch normalization"),
        ("GroupNormalization", "batch normalization"),
        ("LRN", "batch normalization"),
        ("Resize", "resize images before"),
        ("DepthToSpace", "moves pixels"),
        ("ConvTranspose", "makes maps larger"),
        ("LSTM", "without loops"),
        ("QuantizeLinear", "before it is quantized"),
        ("TopK", "end with its logits"),
        ("Einsum", "convolutional network"),
        ("NoSuchThing", "no step of a frozen model does this"),
    ];
    for (operation, words) in cases {
        let message = refusal(&around(Node::new(operation, &["x"], &["z"])));
        assert!(message.contains(words), "{operation}: {message}");
        assert!(message.starts_with(&format!("node \"{operation}_z\" ({operation}): ")), "{message}");
        assert!(message.contains("cannot be run in private") && message.contains("instead: "), "{message}");
    }
}

#[test]
fn forms_of_known_operations_that_do_not_fit_are_refused() {
    let conv = |attributes: &[(&str, &[i64])]| {
        let mut node = Node::new("Conv", &["x", "filter"], &["z"]);
        for (name, values) in attributes {
            node = node.integers(name, values);
        }
        node
    };
    let cases: Vec<(Node, &str)> = vec![
        (conv(&[("strides", &[1, 2])]), "one stride"),
        (conv(&[("strides", &[0, 0])]), "strides is [0, 0]; expected two numbers from 1 to 4096"),
        (conv(&[("strides", &[2])]), "strides is [2]"),
        (conv(&[("dilations", &[9999, 1])]), "dilations"),
        (conv(&[("pads", &[-1, 0, 0, 0])]), "pads is [-1, 0, 0, 0]"),
        (conv(&[("pads", &[i64::MAX, 0, 0, 0])]), "pads is [9223372036854775807"),
        (conv(&[("pads", &[0, 0, 0, 2])]), "the same padding on all sides"),
        (conv(&[("kernel_shape", &[5, 5])]), "the kernel_shape, [5, 5]"),
        (conv(&[]).integer("group", 2), "expected 1 inputs in each of 2 groups"),
        (conv(&[]).integer("group", 0), "groups"),
        (conv(&[]).text("auto_pad", "SAME"), "auto_pad is SAME"),
        (Node::new("Conv", &["x", "x"], &["z"]), "its filter is computed from the image"),
        (Node::new("Conv", &["x", "vector"], &["z"]), "outputs, inputs of a group, rows, columns"),
        (Node::new("Conv", &["x"], &["z"]), "it has 1 inputs or entries; expected 2"),
        (Node::new("MaxPool", &["x"], &["z"]), "kernel_shape is absent"),
        (Node::new("MaxPool", &["x"], &["z"]).integers("kernel_shape", &[2, 1]), "square windows"),
        (Node::new("MaxPool", &["x"], &["z"]).integers("kernel_shape", &[0, 0]), "sides from 1 to 4096"),
        (
            Node::new("MaxPool", &["x"], &["z"])
                .integers("kernel_shape", &[3, 3])
                .integers("pads", &[0, 0, 1, 1]),
            "the same padding on all sides",
        ),
        (Node::new("Mul", &["x", "x"], &["z"]), "no squeeze-and-excite"),
        (Node::new("Div", &["scalar", "x"], &["z"]), "divides secret values"),
        (Node::new("MatMul", &["x", "x"], &["z"]), "multiplies or divides secret values"),
        (Node::new("MatMul", &["x", "vector"], &["z"]), "expected a matrix"),
        (Node::new("Gemm", &["x", "fc"], &["z"]), "flatten the map first"),
        (Node::new("Add", &["x", "filter"], &["z"]), "cannot be made"),
        (Node::new("BatchNormalization", &["x", "vector", "vector", "vector"], &["z"]), "expected 5"),
        (
            Node::new("BatchNormalization", &["x", "scalar", "vector", "vector", "vector"], &["z"]),
            "one number for each of 3",
        ),
        (
            Node::new("BatchNormalization", &["x", "vector", "vector", "vector", "vector"], &["z"])
                .integer("training_mode", 1),
            "model.eval()",
        ),
        (Node::new("Transpose", &["x"], &["z"]).integers("perm", &[0, 1, 3, 2]), "exchange of axes"),
        (Node::new("ReduceMean", &["x"], &["z"]).integers("axes", &[1]), "global average pooling"),
        (Node::new("ReduceMean", &["x"], &["z"]).integers("axes", &[7]), "place 7 of 4 does not exist"),
        (Node::new("Reshape", &["x", "axes"], &["z"]), "cannot be reshaped"),
        (Node::new("Reshape", &["x", "halves"], &["z"]), "group normalization and shuffled channels"),
        (Node::new("Concat", &["x", "x"], &["z"]).integer("axis", 2), "concatenations of channels"),
        (Node::new("Split", &["x"], &["z"]).integer("axis", 2), "splits of channels"),
        (Node::new("Pad", &["x", "axes"], &["z"]), "a number for each end of each axis"),
        (Node::new("Slice", &["x", "axes"], &["z"]), "expected 3"),
        (Node::new("PRelu", &["x", "filter"], &["z"]), "cannot be made"),
        (Node::new("Clip", &["x", "scalar", "scalar"], &["z"]), "a lower bound below the upper one"),
        (Node::new("Relu", &["nothing"], &["z"]), "reads \"nothing\", which nothing before it makes"),
        (Node::new("Relu", &["x"], &["x"]), "makes \"x\", which is there already"),
        (
            Node::new("Relu", &["x"], &["z"]).domain("com.microsoft"),
            "operations of \"com.microsoft\" are unknown",
        ),
    ];
    assert!(cases.len() >= 30);
    for (node, words) in cases {
        let message = refusal(&around(node));
        assert!(message.contains(words), "expected {words:?} in: {message}");
        assert!(message.starts_with("node \""), "{message}");
    }
}

#[test]
fn a_softmax_inside_is_refused_by_its_own_name() {
    let mut graph = Graph::image(&[Dim::Known(1), Dim::Known(3), Dim::Known(1), Dim::Known(1)]);
    graph.tensor("fc", &[3, 3], &[0.1; 9]);
    graph.node(Node::new("Flatten", &["x"], &["f"]));
    graph.node(Node::new("Gemm", &["f", "fc"], &["g"]));
    graph.node(Node::new("Softmax", &["g"], &["s"]).integer("axis", 1));
    graph.node(Node::new("Gemm", &["s", "fc"], &["y"]));
    graph.output("y");
    let message = refusal(&graph);
    assert!(
        message.starts_with("node \"Softmax_s\" (Softmax)") && message.contains("only at the end"),
        "{message}"
    );
}

#[test]
fn images_of_other_kinds_are_refused() {
    use Dim::{Known, Open};
    let model = |dims: &[Dim]| {
        let mut graph = Graph::image(dims);
        graph.node(Node::new("GlobalAveragePool", &["x"], &["y"]));
        graph.output("y");
        graph
    };
    let open = model(&[Open("n"), Known(3), Open("height"), Open("width")]);
    assert!(
        refusal(&open)
            .contains("[n, 3, height, width]; expected a known height and width; name them with --input")
    );
    let sided = ImportOptions { side: Some(16), ..ImportOptions::default() };
    let imported = import(&open.model(17), &ExternalFiles::none(), &sided).unwrap();
    assert_eq!(imported.network.input().height, 16);
    let fixed = model(&[Known(1), Known(3), Known(8), Known(8)]);
    assert!(refusal_of(&fixed.model(17), &sided).contains("images of that size"));
    assert!(
        refusal(&model(&[Known(1), Known(784)])).contains("one image, as batch, channels, height, width")
    );
    assert!(refusal(&model(&[Known(1), Known(3), Known(8), Known(99_999)])).contains("sides up to 4096"));
    assert!(
        refusal(&model(&[Known(1), Open("c"), Known(8), Known(8)])).contains("a known number of channels")
    );
    let mut two = model(&[Known(1), Known(3), Known(8), Known(8)]);
    two.input("other", &[Known(1)]);
    assert!(refusal(&two).contains("2 inputs (x, other)"), "{}", refusal(&two));
}

#[test]
fn files_that_are_no_models_are_refused() {
    let plain = ImportOptions::default();
    assert!(refusal_of(b"", &plain).contains("no graph"));
    assert!(refusal_of(b"PK\x03\x04 a zip file", &plain).contains("no usable ONNX model"));
    assert!(refusal_of(&[0xff; 64], &plain).contains("no usable ONNX model"));
    let graph = around(Node::new("Relu", &["x"], &["z"]));
    assert!(refusal_of(&graph.model(9), &plain).contains("opset 9; expected 11 or newer"));
    assert!(refusal_of(&bytes_field(7, &graph.bytes()), &plain).contains("opset 0"));
    let mut no_end = around(Node::new("Relu", &["x"], &["z"]));
    no_end.outputs.clear();
    assert!(refusal(&no_end).contains("made by no operation on the image"));
    no_end.output("fc");
    assert!(refusal(&no_end).contains("\"fc\" is made by no operation"));
    let mut map = around(Node::new("Relu", &["x"], &["z"]));
    map.outputs.clear();
    map.output("z");
    assert!(refusal(&map).contains("ends at 3x8x8; expected one number for each class"));
    let mut sparse = around(Node::new("Relu", &["x"], &["z"]));
    sparse.extra.extend(bytes_field(15, &[]));
    assert!(refusal(&sparse).contains("sparse"));
}

#[test]
fn tensors_that_do_not_hold_what_they_say_are_refused() {
    let with = |tensor: Vec<u8>| {
        let mut graph = around(Node::new("Mul", &["r", "odd"], &["z"]));
        graph.nodes.insert(0, Node::new("Relu", &["x"], &["r"]).bytes());
        graph.extra.extend(bytes_field(5, &tensor));
        refusal(&graph)
    };
    let named = |dims: &[i64], kind: u64, rest: Vec<u8>| {
        let mut tensor: Vec<u8> = dims.iter().flat_map(|dim| number_field(1, dim.cast_unsigned())).collect();
        tensor.extend(number_field(2, kind));
        tensor.extend(bytes_field(8, b"odd"));
        tensor.extend(rest);
        tensor
    };
    let raw = |bytes: &[u8]| bytes_field(9, bytes);
    assert!(with(named(&[2], 1, raw(&[0; 4]))).contains("has 1 numbers where its shape needs 2"));
    assert!(with(named(&[-2], 1, raw(&[]))).contains("a dimension is -2"));
    assert!(with(named(&[1 << 40], 1, raw(&[]))).contains("more than any network needs"));
    assert!(with(named(&[1], 8, raw(&[0; 4]))).contains("numbers of ONNX type 8 are not read"));
    assert!(with(named(&[1], 1, raw(&f32::NAN.to_le_bytes()))).contains("not finite"));
    let outside = [
        bytes_field(13, &[bytes_field(1, b"location"), bytes_field(2, b"../secret")].concat()),
        number_field(14, 1),
    ];
    assert!(
        with(named(&[1], 1, outside.concat()))
            .contains("a file in the folder of the model, named without `..`")
    );
}
