//! Nodes become steps, one after the other, as the file lists them.
//!
//! Every tensor of the file is a constant, a map, or an *answer*: a map behind a softmax that was left out, which
//! nothing may read but the end of the network.

mod activation;
mod arithmetic;
mod input;
mod linear;
mod map;
mod shape;
mod window;

use std::collections::HashMap;
use std::rc::Rc;

use network::imported::ImportBuilder;
use network::spec::SpecFault;
use network::walk::ValueId;

use crate::error::{Expectation, NodeFault, OnnxError};
use crate::external::ExternalFiles;
use crate::proto::{Attribute, Model, Node, TensorProto};
use crate::refuse::{Refusal, refusal};
use crate::tensor::{Tensor, fold};
use crate::{ImportOptions, Imported, NEWEST_OPSET, Normalization, OLDEST_OPSET};
use map::Map;

/// Numbers that constants may grow by when they are computed, repeated per channel or filled up with zeros.
const MAX_MADE: usize = 1 << 26;

/// The network of a file.
pub(crate) fn lower<'a>(
    model: &'a Model<'a>,
    files: &'a ExternalFiles,
    options: &ImportOptions,
) -> Result<Imported, OnnxError> {
    let mut notes = Vec::new();
    let version = model.opsets.iter().find(|(domain, _)| is_own(domain)).map_or(0, |(_, version)| *version);
    if version < OLDEST_OPSET {
        return Err(OnnxError::Opset { version });
    }
    if version > NEWEST_OPSET {
        notes.push(format!(
            "opset {version} is newer than {NEWEST_OPSET}, the newest known here; compare the answers with your framework's"
        ));
    }
    let graph = &model.graph;
    if graph.has_sparse {
        return Err(OnnxError::Input { came: "sparse tensors".to_owned(), expected: Expectation::Dense });
    }
    let image = input::image(graph, options)?;
    let name = options.name.as_deref().unwrap_or(graph.name);
    let size = |fault: SpecFault| OnnxError::Input { came: fault.to_string(), expected: Expectation::Size };
    let mut lowering = Lowering {
        files,
        functions: &model.functions,
        builder: ImportBuilder::new(name, image.shape).map_err(size)?,
        batch: image.batch,
        values: HashMap::new(),
        uses: uses(model),
        is_image_shared: false,
        is_nonnegative: Vec::new(),
        normalization: None,
        notes,
        budget: MAX_MADE,
    };
    for tensor in &graph.initializers {
        lowering.values.insert(tensor.name, Value::Initializer(tensor));
    }
    lowering.insert(image.name, Value::Map(Map::new(ValueId::IMAGE, image.view)));
    for node in &graph.nodes {
        lowering.run(node)?;
    }
    lowering.finish(&graph.outputs)
}

/// Whether a domain is that of ONNX's own operations.
fn is_own(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// How often each tensor is read, the outputs of the graph included.
fn uses<'a>(model: &'a Model<'a>) -> HashMap<&'a str, usize> {
    let mut uses = HashMap::new();
    let read = model.graph.nodes.iter().flat_map(|node| &node.inputs);
    for name in read.chain(&model.graph.outputs) {
        *uses.entry(*name).or_default() += 1;
    }
    uses
}

/// What a tensor of the file is.
#[derive(Clone, Debug)]
enum Value<'a> {
    Map(Map),
    Constant(Rc<Tensor>),
    /// Decoded where it is used: weights are large and used once.
    Initializer(&'a TensorProto<'a>),
    /// A map behind an operation that was left out at the end.
    Answer(Map, &'a Node<'a>),
}

struct Lowering<'a> {
    files: &'a ExternalFiles,
    functions: &'a [&'a str],
    builder: ImportBuilder,
    batch: usize,
    values: HashMap<&'a str, Value<'a>>,
    uses: HashMap<&'a str, usize>,
    /// Whether several nodes read the image, so that nothing that one of them does belongs to its format.
    is_image_shared: bool,
    /// By value: whether it is never below zero.
    is_nonnegative: Vec<bool>,
    normalization: Option<Normalization>,
    notes: Vec<String>,
    /// Numbers that constants may still grow by.
    budget: usize,
}

type Outcome<T> = Result<T, NodeFault>;

impl<'a> Lowering<'a> {
    fn run(&mut self, node: &'a Node<'a>) -> Result<(), OnnxError> {
        let made = self.node(node).map_err(|(at, fault)| OnnxError::Node {
            name: node_name(at).to_owned(),
            operation: at.operation.to_owned(),
            fault,
        })?;
        for (name, value) in node.outputs.iter().zip(made) {
            if name.is_empty() {
                continue;
            }
            if self.values.contains_key(name) {
                let fault = NodeFault::Twice { name: (*name).to_owned() };
                let (name, operation) = (node_name(node).to_owned(), node.operation.to_owned());
                return Err(OnnxError::Node { name, operation, fault });
            }
            self.insert(name, value);
        }
        Ok(())
    }

    /// What a node makes; a fault comes with the node that is to blame.
    fn node(&mut self, node: &'a Node<'a>) -> Result<Vec<Value<'a>>, (&'a Node<'a>, NodeFault)> {
        let inputs = self.inputs(node).map_err(|fault| (node, fault))?;
        let answer = inputs.iter().find_map(|value| match value {
            Some(Value::Answer(map, dropped)) => Some((*map, *dropped)),
            _ => None,
        });
        if let Some((map, dropped)) = answer {
            let passes = ["Identity", "Flatten", "Reshape", "Squeeze", "Cast", "Dropout", "ArgMax"];
            return match passes.contains(&node.operation) {
                true => Ok(vec![Value::Answer(map, dropped)]),
                false => Err((dropped, private(dropped.operation))),
            };
        }
        let map = inputs.iter().flatten().find_map(|value| match value {
            Value::Map(map) => Some(*map),
            _ => None,
        });
        match map {
            None => self.constant(node, &inputs).map(|tensor| vec![Value::Constant(Rc::new(tensor))]),
            Some(map) => self.operation(node, &inputs, map),
        }
        .map_err(|fault| (node, fault))
    }

    fn inputs(&self, node: &Node<'a>) -> Outcome<Vec<Option<Value<'a>>>> {
        if !is_own(node.domain) {
            return Err(match self.functions.contains(&node.operation) {
                true => NodeFault::Function,
                false => NodeFault::Domain { domain: node.domain.to_owned() },
            });
        }
        let find = |name: &&'a str| match *name {
            "" => Ok(None),
            name => match self.values.get(name) {
                Some(value) => Ok(Some(value.clone())),
                None => Err(NodeFault::Unknown { name: name.to_owned() }),
            },
        };
        node.inputs.iter().map(find).collect()
    }

    /// A node all of whose inputs are constants.
    fn constant(&mut self, node: &Node<'a>, inputs: &[Option<Value<'a>>]) -> Outcome<Tensor> {
        let tensor = if node.operation == "Constant" {
            self.constant_node(node)?
        } else {
            let decoded = self.constants(inputs)?;
            let borrowed: Vec<Option<&Tensor>> = decoded.iter().map(Option::as_deref).collect();
            fold(node, &borrowed)?
        };
        self.spend(tensor.data.len())?;
        Ok(tensor)
    }

    fn constant_node(&self, node: &Node<'a>) -> Outcome<Tensor> {
        for (name, attribute) in &node.attributes {
            match (*name, attribute) {
                ("value", Attribute::Tensor(proto)) => return Tensor::decode(proto, self.files),
                ("value_float", Attribute::Float(value)) => return Ok(Tensor::scalar(*value)),
                ("value_int", Attribute::Integer(value)) => {
                    let tensor = Tensor::integers(vec![*value]);
                    return Ok(Tensor { dims: Vec::new(), ..tensor });
                }
                ("value_ints", Attribute::Integers(values)) => return Ok(Tensor::integers(values.clone())),
                ("value_floats", Attribute::Floats(values)) => {
                    let data = crate::tensor::Data::Floats(values.clone());
                    return Ok(Tensor { dims: vec![values.len()], data });
                }
                _ => {}
            }
        }
        Err(NodeFault::Constant)
    }

    /// The constants among some inputs; maps are nothing here.
    fn constants(&self, inputs: &[Option<Value<'a>>]) -> Outcome<Vec<Option<Rc<Tensor>>>> {
        inputs
            .iter()
            .map(|value| match value {
                Some(Value::Constant(tensor)) => Ok(Some(tensor.clone())),
                Some(Value::Initializer(proto)) => Tensor::decode(proto, self.files).map(Rc::new).map(Some),
                _ => Ok(None),
            })
            .collect()
    }

    /// A node that reads the map, and perhaps others.
    fn operation(
        &mut self,
        node: &'a Node<'a>,
        inputs: &[Option<Value<'a>>],
        map: Map,
    ) -> Outcome<Vec<Value<'a>>> {
        let one = |map: Map| vec![Value::Map(map)];
        match node.operation {
            "Identity" | "Dropout" | "Cast" | "CastLike" => Ok(one(map)),
            "Conv" => self.conv(node, inputs).map(one),
            "BatchNormalization" => self.batch_norm(node, inputs).map(one),
            "Gemm" => self.gemm(node, inputs).map(one),
            "MatMul" => self.mat_mul(node, inputs).map(one),
            "Relu" | "Clip" | "LeakyRelu" | "PRelu" | "HardSigmoid" | "Abs" => {
                self.activation(node, inputs).map(one)
            }
            "MaxPool" | "AveragePool" | "GlobalAveragePool" | "GlobalMaxPool" | "ReduceMean"
            | "ReduceMax" => self.pool(node, inputs).map(one),
            "Add" | "Sub" | "Mul" | "Div" | "Sum" | "Neg" | "Max" | "Min" | "Mean" => {
                self.arithmetic(node, inputs).map(one)
            }
            "Concat" => self.concat(node, inputs).map(one),
            "Split" => self.split(node, inputs).map(|maps| maps.into_iter().map(Value::Map).collect()),
            "Slice" => self.slice(node, inputs).map(one),
            "Pad" => self.pad(node, inputs).map(one),
            "Flatten" | "Reshape" | "Squeeze" | "Unsqueeze" | "Transpose" => {
                self.reshape(node, inputs).map(one)
            }
            "Shape" | "Size" => self.measure(node, map).map(|tensor| vec![Value::Constant(Rc::new(tensor))]),
            "Softmax" | "LogSoftmax" | "Sigmoid" | "ArgMax" | "Hardmax" => self.leave_out(node, map),
            operation => Err(private(operation)),
        }
    }

    /// An operation that changes no order among the logits is left to the client, if nothing reads what it makes.
    fn leave_out(&mut self, node: &'a Node<'a>, map: Map) -> Outcome<Vec<Value<'a>>> {
        if self.shape(map).pixels() != 1 || map.value == ValueId::IMAGE {
            return Err(private(node.operation));
        }
        self.notes.push(format!(
            "{} ({}) at the end is left out: it changes no answer, and the client gets the logits before it",
            node_name(node),
            node.operation
        ));
        Ok(vec![Value::Answer(map, node)])
    }

    fn insert(&mut self, name: &'a str, value: Value<'a>) {
        if let Value::Map(map) = &value {
            let is_image = map.value == ValueId::IMAGE;
            self.is_image_shared |= is_image && self.uses.get(name).is_some_and(|uses| *uses > 1);
        }
        self.values.insert(name, value);
    }

    /// Takes from what constants may grow by.
    fn spend(&mut self, numbers: usize) -> Outcome<()> {
        self.budget = self.budget.checked_sub(numbers).ok_or(NodeFault::Budget { limit: MAX_MADE })?;
        Ok(())
    }

    fn finish(mut self, outputs: &[&'a str]) -> Result<Imported, OnnxError> {
        let name = outputs.first().copied().unwrap_or_default();
        let map = match self.values.get(name) {
            Some(Value::Map(map) | Value::Answer(map, _)) => *map,
            _ => return Err(OnnxError::Output { name: name.to_owned() }),
        };
        if outputs.len() > 1 {
            let others = outputs[1..].join(", ");
            self.notes.push(format!("the logits are taken from {name}; not computed: {others}"));
        }
        let fault = |fault| OnnxError::Node { name: name.to_owned(), operation: "output".to_owned(), fault };
        let map = self.settled(map, name).map_err(fault)?;
        let network = self.builder.finish(map.value)?;
        Ok(Imported { network, normalization: self.normalization, notes: self.notes })
    }
}

/// The name of a node, or that of what it makes.
fn node_name<'a>(node: &Node<'a>) -> &'a str {
    match (node.name, node.outputs.first()) {
        ("", Some(output)) => output,
        (name, _) => name,
    }
}

/// The refusal of an operation.
fn private(operation: &str) -> NodeFault {
    let Refusal { why, instead } = refusal(operation);
    NodeFault::Private { why, instead }
}

/// The map that a node reads at one place.
fn map_at(inputs: &[Option<Value<'_>>], place: usize) -> Outcome<Map> {
    match inputs.get(place) {
        Some(Some(Value::Map(map))) => Ok(*map),
        Some(Some(_)) => Err(NodeFault::Form {
            what: "a constant where the image should be".to_owned(),
            instead: "simplify the model first (for example with onnxsim)",
        }),
        _ => Err(NodeFault::Inputs { expected: place + 1, came: inputs.len() }),
    }
}

/// A constant that a node reads at one place; nothing where it reads nothing.
fn constant_at(
    lowering: &Lowering<'_>,
    inputs: &[Option<Value<'_>>],
    place: usize,
    what: &'static str,
) -> Outcome<Option<Rc<Tensor>>> {
    match inputs.get(place) {
        None | Some(None) => Ok(None),
        Some(Some(Value::Constant(tensor))) => Ok(Some(tensor.clone())),
        Some(Some(Value::Initializer(proto))) => Ok(Some(Rc::new(Tensor::decode(proto, lowering.files)?))),
        Some(Some(Value::Map(_) | Value::Answer(..))) => Err(NodeFault::NotConstant { what }),
    }
}

/// The same where there must be one.
fn weights_at(
    lowering: &Lowering<'_>,
    inputs: &[Option<Value<'_>>],
    place: usize,
    what: &'static str,
) -> Outcome<Rc<Tensor>> {
    constant_at(lowering, inputs, place, what)?
        .ok_or(NodeFault::Inputs { expected: place + 1, came: inputs.len() })
}
