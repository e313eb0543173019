//! The part of the ONNX schema that networks need, borrowed from the file's bytes.
//!
//! Numbers of fields are those of `onnx.proto`. What is not listed here (documentation, types of inner values, training
//! information, metadata) is passed over.

use crate::wire::{Message, WireError};

const MAX_NODES: usize = 100_000;
const MAX_TENSORS: usize = 200_000;
/// Inputs, outputs and attributes of one node, and dimensions of a tensor.
const MAX_PARTS: usize = 8192;
/// Integers of an attribute or tensor: shapes, axes, indices.
pub(crate) const MAX_INTEGERS: usize = 1 << 20;

/// A file.
#[derive(Debug, Default)]
pub(crate) struct Model<'a> {
    /// The version of each set of operations, by domain.
    pub(crate) opsets: Vec<(&'a str, i64)>,
    pub(crate) graph: Graph<'a>,
    /// Names of functions that the file defines.
    pub(crate) functions: Vec<&'a str>,
}

#[derive(Debug, Default)]
pub(crate) struct Graph<'a> {
    pub(crate) name: &'a str,
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) initializers: Vec<TensorProto<'a>>,
    pub(crate) inputs: Vec<ValueInfo<'a>>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) has_sparse: bool,
}

/// A tensor that the graph takes.
#[derive(Debug, Default)]
pub(crate) struct ValueInfo<'a> {
    pub(crate) name: &'a str,
    /// Nothing where the file says no shape.
    pub(crate) dims: Option<Vec<Dimension<'a>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension<'a> {
    Known(i64),
    /// Named or nameless, to be chosen by whoever runs the model.
    Open(&'a str),
}

#[derive(Debug, Default)]
pub(crate) struct Node<'a> {
    pub(crate) name: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) domain: &'a str,
    pub(crate) inputs: Vec<&'a str>,
    pub(crate) outputs: Vec<&'a str>,
    pub(crate) attributes: Vec<(&'a str, Attribute<'a>)>,
}

#[derive(Debug)]
pub(crate) enum Attribute<'a> {
    Float(f32),
    Integer(i64),
    Text(&'a [u8]),
    Tensor(Box<TensorProto<'a>>),
    Floats(Vec<f32>),
    Integers(Vec<i64>),
    /// A graph, a list of texts, or a reference into a function.
    Other,
}

/// A tensor as it is written; decoded only where it is used.
#[derive(Debug, Default)]
pub(crate) struct TensorProto<'a> {
    pub(crate) name: &'a str,
    pub(crate) dims: Vec<i64>,
    pub(crate) data_type: i64,
    pub(crate) raw: Option<&'a [u8]>,
    pub(crate) floats: Vec<f32>,
    pub(crate) integers: Vec<i64>,
    /// Keys and values that say where the data lie, for data outside the file.
    pub(crate) external: Vec<(&'a str, &'a str)>,
    pub(crate) is_external: bool,
}

impl<'a> Model<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut model = Self::default();
        let mut has_graph = false;
        for field in Message::new(bytes) {
            match field? {
                (7, field) => {
                    model.graph = Graph::parse(field.bytes("the graph")?)?;
                    has_graph = true;
                }
                (8, field) => push(&mut model.opsets, opset(field.bytes("an opset")?)?, "opsets", MAX_PARTS)?,
                (25, field) => {
                    let name = function_name(field.bytes("a function")?)?;
                    push(&mut model.functions, name, "functions", MAX_PARTS)?;
                }
                _ => {}
            }
        }
        if has_graph { Ok(model) } else { Err(WireError::NoGraph) }
    }
}

fn opset(bytes: &[u8]) -> Result<(&str, i64), WireError> {
    let (mut domain, mut version) = ("", 0);
    for field in Message::new(bytes) {
        match field? {
            (1, field) => domain = field.text("a domain")?,
            (2, field) => version = field.integer("a version")?,
            _ => {}
        }
    }
    Ok((domain, version))
}

fn function_name(bytes: &[u8]) -> Result<&str, WireError> {
    for field in Message::new(bytes) {
        if let (1, field) = field? {
            return field.text("a function's name");
        }
    }
    Ok("")
}

impl<'a> Graph<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut graph = Self::default();
        for field in Message::new(bytes) {
            match field? {
                (1, field) => {
                    let node = Node::parse(field.bytes("a node")?)?;
                    push(&mut graph.nodes, node, "nodes", MAX_NODES)?;
                }
                (2, field) => graph.name = field.text("the graph's name")?,
                (5, field) => {
                    let tensor = TensorProto::parse(field.bytes("an initializer")?)?;
                    push(&mut graph.initializers, tensor, "initializers", MAX_TENSORS)?;
                }
                (11, field) => {
                    let info = ValueInfo::parse(field.bytes("an input")?)?;
                    push(&mut graph.inputs, info, "inputs", MAX_TENSORS)?;
                }
                (12, field) => {
                    let info = ValueInfo::parse(field.bytes("an output")?)?;
                    push(&mut graph.outputs, info.name, "outputs", MAX_PARTS)?;
                }
                (15, _) => graph.has_sparse = true,
                _ => {}
            }
        }
        Ok(graph)
    }
}

impl<'a> ValueInfo<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut info = Self::default();
        for field in Message::new(bytes) {
            match field? {
                (1, field) => info.name = field.text("a tensor's name")?,
                (2, field) => info.dims = tensor_type(field.bytes("a type")?)?,
                _ => {}
            }
        }
        Ok(info)
    }
}

/// The shape of a tensor's type; nothing for types without one.
fn tensor_type(bytes: &[u8]) -> Result<Option<Vec<Dimension<'_>>>, WireError> {
    let mut dims = None;
    for field in Message::new(bytes) {
        let (1, field) = field? else { continue };
        for field in Message::new(field.bytes("a tensor type")?) {
            if let (2, field) = field? {
                dims = Some(shape(field.bytes("a shape")?)?);
            }
        }
    }
    Ok(dims)
}

fn shape(bytes: &[u8]) -> Result<Vec<Dimension<'_>>, WireError> {
    let mut dims = Vec::new();
    for field in Message::new(bytes) {
        let (1, field) = field? else { continue };
        let mut dimension = Dimension::Open("");
        for field in Message::new(field.bytes("a dimension")?) {
            match field? {
                (1, field) => dimension = Dimension::Known(field.integer("a dimension")?),
                (2, field) => dimension = Dimension::Open(field.text("a dimension's name")?),
                _ => {}
            }
        }
        push(&mut dims, dimension, "dimensions", MAX_PARTS)?;
    }
    Ok(dims)
}

impl<'a> Node<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut node = Self::default();
        for field in Message::new(bytes) {
            match field? {
                (1, field) => push(&mut node.inputs, field.text("an input")?, "inputs of a node", MAX_PARTS)?,
                (2, field) => {
                    push(&mut node.outputs, field.text("an output")?, "outputs of a node", MAX_PARTS)?;
                }
                (3, field) => node.name = field.text("a node's name")?,
                (4, field) => node.operation = field.text("an operation")?,
                (5, field) => {
                    let attribute = attribute(field.bytes("an attribute")?)?;
                    push(&mut node.attributes, attribute, "attributes of a node", MAX_PARTS)?;
                }
                (7, field) => node.domain = field.text("a domain")?,
                _ => {}
            }
        }
        Ok(node)
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute<'a>> {
        self.attributes.iter().find(|(other, _)| *other == name).map(|(_, attribute)| attribute)
    }
}

/// Writers may leave out zeros, so that the stated kind decides where no value came.
fn attribute(bytes: &[u8]) -> Result<(&str, Attribute<'_>), WireError> {
    const WHAT: &str = "an attribute's value";
    let (mut name, mut kind, mut value) = ("", 0, None);
    let (mut floats, mut integers) = (Vec::new(), Vec::new());
    for field in Message::new(bytes) {
        match field? {
            (1, field) => name = field.text("an attribute's name")?,
            (2, field) => value = Some(Attribute::Float(field.float(WHAT)?)),
            (3, field) => value = Some(Attribute::Integer(field.integer(WHAT)?)),
            (4, field) => value = Some(Attribute::Text(field.bytes(WHAT)?)),
            (5, field) => {
                value = Some(Attribute::Tensor(Box::new(TensorProto::parse(field.bytes(WHAT)?)?)));
            }
            (7, field) => field.floats(WHAT, &mut floats)?,
            (8, field) => field.integers(WHAT, MAX_INTEGERS, &mut integers)?,
            (20, field) => kind = field.integer("an attribute's kind")?,
            (6 | 9..=11 | 14 | 15 | 21..=23, _) => value = Some(Attribute::Other),
            _ => {}
        }
    }
    let value = value.unwrap_or(match kind {
        1 => Attribute::Float(0.0),
        2 => Attribute::Integer(0),
        3 => Attribute::Text(&[]),
        6 => Attribute::Floats(floats),
        7 => Attribute::Integers(integers),
        _ if !integers.is_empty() => Attribute::Integers(integers),
        _ if !floats.is_empty() => Attribute::Floats(floats),
        _ => Attribute::Other,
    });
    Ok((name, value))
}

impl<'a> TensorProto<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        const WHAT: &str = "a tensor's data";
        let mut tensor = Self::default();
        for field in Message::new(bytes) {
            match field? {
                (1, field) => field.integers("dimensions", MAX_PARTS, &mut tensor.dims)?,
                (2, field) => tensor.data_type = field.integer("a tensor's type")?,
                (4, field) => field.floats(WHAT, &mut tensor.floats)?,
                // Half-precision numbers come as integers too, so that these may be weights.
                (5 | 7 | 11, field) => {
                    field.integers("integers of a tensor", MAX_WORDS, &mut tensor.integers)?
                }
                (8, field) => tensor.name = field.text("a tensor's name")?,
                (9, field) => tensor.raw = Some(field.bytes(WHAT)?),
                (10, field) => field.doubles(WHAT, &mut tensor.floats)?,
                (13, field) => {
                    let entry = entry(field.bytes("a place of data")?)?;
                    push(&mut tensor.external, entry, "places of data", MAX_PARTS)?;
                }
                (14, field) => tensor.is_external = field.integer("a place of data")? == 1,
                _ => {}
            }
        }
        Ok(tensor)
    }
}

/// Numbers of a tensor that are written one by one.
const MAX_WORDS: usize = 1 << 28;

fn entry(bytes: &[u8]) -> Result<(&str, &str), WireError> {
    let (mut key, mut value) = ("", "");
    for field in Message::new(bytes) {
        match field? {
            (1, field) => key = field.text("a key")?,
            (2, field) => value = field.text("a value")?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn push<T>(list: &mut Vec<T>, item: T, what: &'static str, limit: usize) -> Result<(), WireError> {
    if list.len() >= limit {
        return Err(WireError::Many { what, limit });
    }
    list.push(item);
    Ok(())
}
