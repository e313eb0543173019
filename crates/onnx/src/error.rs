//! Files that cannot be imported, with the node and what to do.

use std::path::PathBuf;

use network::imported::ImportFault;
use network::shape::Shape;
use network::spec::SpecFault;

use crate::external::ExternalError;
use crate::wire::WireError;
use crate::{MAX_FILE_BYTES, OLDEST_OPSET};

/// A file that cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is longer than any ONNX file.
    #[error("{} is longer than {MAX_FILE_BYTES} bytes; export the weights into a file beside it", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// It is no ONNX model.
    #[error("this is no usable ONNX model: {0}")]
    Format(#[from] WireError),
    /// Operations of another age.
    #[error(
        "the model uses opset {version}; expected {OLDEST_OPSET} or newer: export it again with opset_version=17"
    )]
    Opset {
        /// What came.
        version: i64,
    },
    /// Something else than one image goes in.
    #[error("the model takes {came}; expected {expected}")]
    Input {
        /// What the file says.
        came: String,
        /// What a model must take.
        expected: Expectation,
    },
    /// Nothing comes out, or something that no node makes.
    #[error("the model's output {name:?} is made by no operation on the image; expected logits")]
    Output {
        /// Its name.
        name: String,
    },
    /// A node that cannot be run in private, or makes no sense.
    #[error("node {name:?} ({operation}): {fault}")]
    Node {
        /// The node's name, or its output's where it has none.
        name: String,
        /// What it does.
        operation: String,
        /// Why it is refused.
        #[source]
        fault: NodeFault,
    },
    /// A network that makes no sense as a whole.
    #[error(transparent)]
    Network(#[from] ImportFault),
}

/// What a model must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Expectation {
    /// One image.
    #[error("one image, as batch, channels, height, width")]
    OneImage,
    /// Known sides.
    #[error("a known height and width; name them with --input PIXELS, or export with an example image")]
    Sides,
    /// The sides that the file fixes.
    #[error("images of that size; leave --input out, or export the model for another size")]
    FixedSide,
    /// A known number of channels.
    #[error("a known number of channels, from 1 to 65536, and sides up to 4096")]
    Size,
    /// A tensor that the graph itself gives.
    #[error("weights inside the file; sparse ones have to be written out")]
    Dense,
}

/// Why a node is refused.
#[derive(Debug, thiserror::Error)]
pub enum NodeFault {
    /// Private inference cannot do this.
    #[error("this cannot be run in private: {why}; instead: {instead}")]
    Private {
        /// Why.
        why: &'static str,
        /// What to use.
        instead: &'static str,
    },
    /// A known operation in a form that is not supported.
    #[error("{what} cannot be run in private; instead: {instead}")]
    Form {
        /// Which form.
        what: String,
        /// What to use.
        instead: &'static str,
    },
    /// A set of operations that is not ONNX's own.
    #[error("operations of {domain:?} are unknown; export with ONNX's own, without fused or custom ones")]
    Domain {
        /// Which.
        domain: String,
    },
    /// A function that the file defines.
    #[error("this is a function of the file; export with functions inlined")]
    Function,
    /// An input that nothing makes.
    #[error("it reads {name:?}, which nothing before it makes")]
    Unknown {
        /// The input.
        name: String,
    },
    /// A name that is made twice.
    #[error("it makes {name:?}, which is there already")]
    Twice {
        /// The output.
        name: String,
    },
    /// Another number of inputs.
    #[error("it has {came} inputs or entries; expected {expected}")]
    Inputs {
        /// How many are needed.
        expected: usize,
        /// How many there are.
        came: usize,
    },
    /// Weights that are no constants.
    #[error("its {what} is computed from the image; expected a constant")]
    NotConstant {
        /// Which input.
        what: &'static str,
    },
    /// An attribute that makes no sense.
    #[error("its {name} is {came}; expected {expected}")]
    Attribute {
        /// Which.
        name: &'static str,
        /// What came.
        came: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// A tensor of another shape.
    #[error("its {what} is {came:?}; expected {expected}")]
    Shape {
        /// Which tensor.
        what: &'static str,
        /// Its shape.
        came: Vec<usize>,
        /// What is needed.
        expected: String,
    },
    /// Values that cannot be combined.
    #[error(
        "values of {first} and {second} cannot be joined; expected the same height and width, and for sums the same channels"
    )]
    Sizes {
        /// One.
        first: Shape,
        /// Another.
        second: Shape,
    },
    /// Shapes that cannot be brought together.
    #[error("a tensor of {from:?} cannot be made {to:?}")]
    Broadcast {
        /// What came.
        from: Vec<usize>,
        /// What is needed.
        to: Vec<usize>,
    },
    /// A reshape to another number of elements.
    #[error("{from:?} cannot be reshaped to {to:?}")]
    Reshape {
        /// What came.
        from: Vec<usize>,
        /// The target.
        to: Vec<i64>,
    },
    /// An axis that is not there.
    #[error("place {axis} of {rank} does not exist")]
    Axis {
        /// Which.
        axis: i64,
        /// How many there are.
        rank: usize,
    },
    /// An order of axes that is none.
    #[error("its perm is no order of the axes")]
    Permutation,
    /// A slice that goes backwards.
    #[error("a step of {step} is not supported; expected 1 or more")]
    Step {
        /// The step.
        step: i64,
    },
    /// Numbers that should be whole.
    #[error("{what} must be whole numbers")]
    Whole {
        /// Which.
        what: &'static str,
    },
    /// Numbers that should be finite.
    #[error("its {what} is not finite")]
    Infinite {
        /// Which.
        what: &'static str,
    },
    /// Arithmetic beyond 64 bits.
    #[error("its integers overflow, or it divides by zero")]
    Overflow,
    /// An operation on constants that is not known.
    #[error("this operation on constants is not known; simplify the model first (for example with onnxsim)")]
    Constant,
    /// A type of number that is not read.
    #[error(
        "numbers of ONNX type {data_type} are not read; expected float, half, bfloat16, double or integers"
    )]
    DataType {
        /// Its number.
        data_type: i64,
    },
    /// A negative dimension.
    #[error("a dimension is {value}")]
    Dimension {
        /// Which.
        value: i64,
    },
    /// Too many dimensions.
    #[error("a tensor has {rank} dimensions")]
    Rank {
        /// How many.
        rank: usize,
    },
    /// Too many elements.
    #[error("a tensor of {elements} numbers is more than any network needs")]
    TensorSize {
        /// How many.
        elements: u64,
    },
    /// Fewer or more numbers than the shape says.
    #[error("the tensor {name:?} has {came} numbers where its shape needs {expected}")]
    TensorLength {
        /// Its name.
        name: String,
        /// What the shape says.
        expected: usize,
        /// What came.
        came: usize,
    },
    /// All constants together are too large.
    #[error("the constants of this graph, computed and filled up, take more than {limit} numbers")]
    Budget {
        /// How many there may be.
        limit: usize,
    },
    /// Weights outside the file.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// Sizes that do not fit the network.
    #[error(transparent)]
    Spec(#[from] SpecFault),
}
