//! Batch norms and fully connected layers.

use network::spec::{Conv, FullyConnected, Layer};
use network::weights::LayerWeights;

use super::activation::float;
use super::map::{Map, View};
use super::{Lowering, Outcome, Value, constant_at, map_at, node_name, private, weights_at};
use crate::error::NodeFault;
use crate::proto::Node;
use crate::tensor::{Tensor, integer};

impl<'a> Lowering<'a> {
    pub(super) fn batch_norm(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let name = node_name(node);
        let map = map_at(inputs, 0)?;
        let map = self.settled(map, name)?;
        let shape = self.shape(map);
        let is_flat = matches!(map.view, View::Flat | View::FlatPixels);
        if map.view == View::ChannelsLast || (is_flat && shape.pixels() != 1) {
            return Err(NodeFault::Form {
                what: format!("batch normalization of {:?}", self.dims(map)),
                instead: "batch normalization of channels, before the map is flattened",
            });
        }
        if integer(node, "training_mode", 0) != 0 {
            return Err(NodeFault::Form {
                what: "batch normalization in training mode".to_owned(),
                instead: "export the model after model.eval()",
            });
        }
        let mut parts = Vec::new();
        for (place, what) in [(1, "scale"), (2, "shift"), (3, "mean"), (4, "variance")] {
            let part = weights_at(self, inputs, place, what)?;
            if part.data.len() != shape.channels {
                let expected = format!("one number for each of {} channels", shape.channels);
                return Err(NodeFault::Shape { what, came: part.dims.clone(), expected });
            }
            parts.push(part.floats());
        }
        let epsilon = f64::from(float(node, "epsilon", 1e-5)?);
        let double = |part: usize| parts[part].iter().copied().map(f64::from);
        let (mut scales, mut shifts) = (Vec::new(), Vec::new());
        for (((scale, shift), mean), variance) in double(0).zip(double(1)).zip(double(2)).zip(double(3)) {
            let scale = scale / (variance + epsilon).sqrt();
            scales.push(scale as f32);
            shifts.push((shift - mean * scale) as f32);
        }
        self.affine(name, map, scales, shifts)
    }

    pub(super) fn gemm(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        let map = map_at(inputs, 0)?;
        let weights = weights_at(self, inputs, 1, "second factor")?;
        if integer(node, "transA", 0) != 0 {
            let what = "a product with the batch turned".to_owned();
            return Err(NodeFault::Form { what, instead: "transA=0" });
        }
        let is_turned = integer(node, "transB", 0) != 0;
        let (alpha, beta) = (float(node, "alpha", 1.0)?, float(node, "beta", 1.0)?);
        let matrix = Matrix::new(&weights, is_turned, alpha)?;
        let biases = match constant_at(self, inputs, 2, "bias")? {
            None => vec![0.0; matrix.outputs],
            Some(biases) => spread(&biases, matrix.outputs, beta)?,
        };
        self.fully_connected(node_name(node), map, matrix, biases)
    }

    pub(super) fn mat_mul(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Map> {
        if matches!(inputs, [Some(Value::Map(_)), Some(Value::Map(_))]) {
            return Err(private("MatMul"));
        }
        let map = map_at(inputs, 0)?;
        let weights = weights_at(self, inputs, 1, "second factor")?;
        let matrix = Matrix::new(&weights, false, 1.0)?;
        let biases = vec![0.0; matrix.outputs];
        let name = node_name(node);
        if map.view != View::ChannelsLast {
            return self.fully_connected(name, map, matrix, biases);
        }
        // The last axis are the channels: a convolution of single pixels.
        let map = self.settled(map, name)?;
        let shape = self.shape(map);
        if matrix.inputs != shape.channels {
            return Err(matrix.fault(shape.channels));
        }
        let layer = Layer::Conv(Conv { padding: Some(0), bias: true, ..Conv::new(matrix.outputs, 1) });
        let weights = LayerWeights::Linear { weights: matrix.rows, biases };
        let value = self.builder.weighted(name, &layer, weights, map.value)?;
        Ok(Map::new(value, View::ChannelsLast))
    }

    fn fully_connected(&mut self, name: &str, map: Map, matrix: Matrix, biases: Vec<f32>) -> Outcome<Map> {
        let map = self.settled(map, name)?;
        let shape = self.shape(map);
        if !matches!(map.view, View::Flat | View::FlatPixels) {
            let (came, expected) = (self.dims(map), "batch, scalars: flatten the map first".to_owned());
            return Err(NodeFault::Shape { what: "input", came, expected });
        }
        if matrix.inputs as u64 != shape.scalars() {
            return Err(matrix.fault(shape.scalars() as usize));
        }
        let is_by_pixel = map.view == View::FlatPixels && shape.pixels() > 1;
        let layer = Layer::FullyConnected(FullyConnected { out: matrix.outputs });
        let weights = if is_by_pixel { matrix.by_channel(shape.channels) } else { matrix.rows };
        let weights = LayerWeights::Linear { weights, biases };
        let value = self.builder.weighted(name, &layer, weights, map.value)?;
        Ok(Map::new(value, View::Flat))
    }
}

/// The weights of a fully connected layer, one row for each output.
struct Matrix {
    rows: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl Matrix {
    fn new(tensor: &Tensor, is_by_output: bool, factor: f32) -> Outcome<Self> {
        let &[first, second] = tensor.dims.as_slice() else {
            let expected = "a matrix".to_owned();
            return Err(NodeFault::Shape { what: "second factor", came: tensor.dims.clone(), expected });
        };
        if first == 0 || second == 0 {
            let expected = "a matrix with numbers in it".to_owned();
            return Err(NodeFault::Shape { what: "second factor", came: tensor.dims.clone(), expected });
        }
        let values = tensor.floats();
        let (outputs, inputs) = if is_by_output { (first, second) } else { (second, first) };
        let mut rows = match is_by_output {
            true => values,
            false => {
                (0..outputs).flat_map(|output| values.iter().skip(output).step_by(outputs).copied()).collect()
            }
        };
        if factor != 1.0 {
            rows.iter_mut().for_each(|weight| *weight *= factor);
        }
        Ok(Self { rows, inputs, outputs })
    }

    /// Rows that go pixel by pixel, put in the order of the network, channel by channel.
    fn by_channel(self, channels: usize) -> Vec<f32> {
        let pixels = self.inputs / channels;
        let row = |row: &[f32]| -> Vec<f32> {
            let places =
                (0..channels).flat_map(|channel| (0..pixels).map(move |pixel| pixel * channels + channel));
            places.map(|place| row[place]).collect()
        };
        self.rows.chunks_exact(self.inputs).flat_map(row).collect()
    }

    fn fault(&self, inputs: usize) -> NodeFault {
        let expected = format!("{inputs} inputs");
        NodeFault::Shape { what: "second factor", came: vec![self.inputs, self.outputs], expected }
    }
}

/// Biases, one for each output, from one, a row or a list of them.
fn spread(biases: &Tensor, outputs: usize, factor: f32) -> Outcome<Vec<f32>> {
    let values = biases.floats();
    match values.len() {
        1 => Ok(vec![values[0] * factor; outputs]),
        count if count == outputs => Ok(values.into_iter().map(|bias| bias * factor).collect()),
        _ => {
            let expected = format!("one number for each of {outputs} outputs");
            Err(NodeFault::Shape { what: "bias", came: biases.dims.clone(), expected })
        }
    }
}
