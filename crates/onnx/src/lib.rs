//! ONNX files become networks that can be frozen and run in private.
//!
//! ```text
//! bytes -> wire (protobuf fields) -> proto (nodes, initializers) -> lower, node by node -> network::imported
//!                                                                    constants folded, views tracked
//! ```
//!
//! What PyTorch, TensorFlow and others export is a graph of named tensors. Here each tensor is either a constant, which is
//! computed at once, or a *map*: a value of the network with a view, which says in what order its axes are read. Reshapes
//! and transposes only change the view; everything else becomes steps of an
//! [`ImportedNetwork`]. What private inference cannot do is refused with the node's
//! name, the reason, and what to use instead.
//!
//! The reader of protobuf is our own, a few hundred lines. A generated one, or one that decodes the whole schema, would copy
//! gigabytes of weights into structures that nobody reads, and recurse into subgraphs that are refused anyway. This one
//! borrows weights from the file's bytes, never recurses, checks every length before it allocates, and brings no
//! dependency into a tool that handles strangers' files.

#![forbid(unsafe_code)]

mod embed;
mod error;
mod external;
mod lower;
mod pixels;
mod proto;
mod refuse;
mod tensor;
mod wire;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use network::imported::ImportedNetwork;

pub use error::{Expectation, NodeFault, OnnxError};
pub use external::{ExternalError, ExternalFiles};
pub use wire::WireError;

/// The longest file that is read: the most that protobuf allows.
pub const MAX_FILE_BYTES: u64 = 2 << 30;
/// The oldest set of operations that is read.
pub const OLDEST_OPSET: i64 = 11;
/// The newest set of operations whose meaning is known here; newer ones are read with a note.
pub const NEWEST_OPSET: i64 = 26;

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// What to call the network; the graph's own name when absent.
    pub name: Option<String>,
    /// Height and width of the image where the file leaves them open.
    pub side: Option<usize>,
}

/// What came out of a file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The network with its weights.
    pub network: ImportedNetwork,
    /// What the network itself does first to every pixel, where it does: taken out of the network, because it is part of
    /// how pixels become numbers.
    pub normalization: Option<Normalization>,
    /// What the user should know: what was dropped, taken for granted or left out.
    pub notes: Vec<String>,
}

/// Each channel of the image times a scale, plus a shift.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalization {
    /// One per channel, above zero.
    pub scale: Vec<f32>,
    /// One per channel.
    pub shift: Vec<f32>,
}

/// Reads a file; weights that it keeps in other files are read from its folder.
///
/// # Errors
/// When the file cannot be read, is no ONNX model, or holds something that cannot be run in private.
pub fn import_file(path: &Path, options: &ImportOptions) -> Result<Imported, OnnxError> {
    let unreadable = |source| OnnxError::Unreadable { path: path.into(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(OnnxError::TooLong { path: path.into() });
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let options = ImportOptions { name: options.name.clone().or(stem), ..options.clone() };
    import(&bytes, &ExternalFiles::in_folder(folder), &options)
}

/// Reads the bytes of a file.
///
/// # Errors
/// As [`import_file`].
pub fn import(bytes: &[u8], files: &ExternalFiles, options: &ImportOptions) -> Result<Imported, OnnxError> {
    let model = proto::Model::parse(bytes)?;
    lower::lower(&model, files, options)
}
