//! A small writer of ONNX files, for models that no exporter would write.

/// A dimension of an input.
#[derive(Clone, Copy)]
pub(crate) enum Dim {
    Known(i64),
    Open(&'static str),
}

/// A field with a number.
pub(crate) fn number_field(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field with bytes.
pub(crate) fn bytes_field(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

pub(crate) struct Graph {
    pub(crate) nodes: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Vec<u8>>,
    /// Further fields.
    pub(crate) extra: Vec<u8>,
}

impl Graph {
    /// A graph that takes `x` of these dimensions.
    pub(crate) fn image(dims: &[Dim]) -> Self {
        let mut graph = Self { nodes: Vec::new(), outputs: Vec::new(), extra: Vec::new() };
        graph.input("x", dims);
        graph
    }

    pub(crate) fn input(&mut self, name: &str, dims: &[Dim]) {
        let dim = |dim: &Dim| match dim {
            Dim::Known(side) => bytes_field(1, &number_field(1, side.cast_unsigned())),
            Dim::Open(name) => bytes_field(1, &bytes_field(2, name.as_bytes())),
        };
        let shape: Vec<u8> = dims.iter().flat_map(dim).collect();
        let tensor = [number_field(1, 1), bytes_field(2, &shape)].concat();
        let info = [bytes_field(1, name.as_bytes()), bytes_field(2, &bytes_field(1, &tensor))].concat();
        self.extra.extend(bytes_field(11, &info));
    }

    pub(crate) fn output(&mut self, name: &str) {
        self.outputs.push(bytes_field(12, &bytes_field(1, name.as_bytes())));
    }

    pub(crate) fn node(&mut self, node: Node) {
        self.nodes.push(node.bytes());
    }

    pub(crate) fn tensor(&mut self, name: &str, dims: &[i64], values: &[f32]) {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(name, dims, 1, &raw);
    }

    pub(crate) fn integers(&mut self, name: &str, values: &[i64]) {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer(name, &[values.len() as i64], 7, &raw);
    }

    fn initializer(&mut self, name: &str, dims: &[i64], kind: u64, raw: &[u8]) {
        let mut tensor: Vec<u8> = dims.iter().flat_map(|dim| number_field(1, dim.cast_unsigned())).collect();
        tensor.extend(number_field(2, kind));
        tensor.extend(bytes_field(8, name.as_bytes()));
        tensor.extend(bytes_field(9, raw));
        self.extra.extend(bytes_field(5, &tensor));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let nodes = self.nodes.iter().flat_map(|node| bytes_field(1, node));
        nodes.chain(self.extra.iter().copied()).chain(self.outputs.iter().flatten().copied()).collect()
    }

    /// The whole file, with operations of this version.
    pub(crate) fn model(&self, opset: u64) -> Vec<u8> {
        let version = [bytes_field(1, b""), number_field(2, opset)].concat();
        [number_field(1, 8), bytes_field(8, &version), bytes_field(7, &self.bytes())].concat()
    }
}

pub(crate) struct Node(Vec<u8>);

impl Node {
    /// A node that is called after its operation and first output.
    pub(crate) fn new(operation: &str, inputs: &[&str], outputs: &[&str]) -> Self {
        let mut bytes: Vec<u8> = inputs.iter().flat_map(|name| bytes_field(1, name.as_bytes())).collect();
        bytes.extend(outputs.iter().flat_map(|name| bytes_field(2, name.as_bytes())));
        bytes.extend(bytes_field(3, format!("{operation}_{}", outputs[0]).as_bytes()));
        bytes.extend(bytes_field(4, operation.as_bytes()));
        Self(bytes)
    }

    pub(crate) fn integers(self, name: &str, values: &[i64]) -> Self {
        let list: Vec<u8> = values.iter().flat_map(|value| number_field(8, value.cast_unsigned())).collect();
        self.attribute(name, 7, &list)
    }

    pub(crate) fn integer(self, name: &str, value: i64) -> Self {
        self.attribute(name, 2, &number_field(3, value.cast_unsigned()))
    }

    pub(crate) fn text(self, name: &str, value: &str) -> Self {
        self.attribute(name, 3, &bytes_field(4, value.as_bytes()))
    }

    pub(crate) fn domain(mut self, domain: &str) -> Self {
        self.0.extend(bytes_field(7, domain.as_bytes()));
        self
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }

    fn attribute(mut self, name: &str, kind: u64, value: &[u8]) -> Self {
        let attribute = [bytes_field(1, name.as_bytes()), value.to_vec(), number_field(20, kind)].concat();
        self.0.extend(bytes_field(5, &attribute));
        self
    }
}
