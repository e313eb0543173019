//! The native half of the Python package `sordino`: everything that takes time, without numpy and without torch.
//!
//! ```text
//! python/sordino   numpy arrays to bytes and back, torch modules to ONNX files; what users see and read
//! waiting          long work in a thread of its own, so that the interpreter goes on and Ctrl-C is heard
//! images           bytes to images
//! imported         an ONNX file, frozen
//! model            a frozen model: files, figures, the reference, private inference within this process
//! server           the service, for notebooks and tests
//! client           a session with a server
//! error            what goes wrong, as exceptions with the words of the command line
//! ```

mod client;
mod error;
mod images;
mod imported;
mod model;
mod server;
mod waiting;

/// What `sordino._native` has.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::error::{ModelError, SessionError, SordinoError};
    #[pymodule_export]
    use crate::imported::Imported;
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::server::Server;
}
