//! What goes wrong, as exceptions with the words of the command line.

use std::error::Error;

use network::text::with_causes;
use pyo3::PyErr;
use pyo3::exceptions::PyException;

pyo3::create_exception!(
    sordino,
    SordinoError,
    PyException,
    "Something that Sordino cannot do, and what to do about it."
);
pyo3::create_exception!(
    sordino,
    ModelError,
    SordinoError,
    "A network, a model file or an image that cannot be used."
);
pyo3::create_exception!(
    sordino,
    SessionError,
    SordinoError,
    "A client or a server that cannot go on: unreachable, refused, broken off."
);

/// About networks, models and images.
pub(crate) fn of_model(error: impl Error) -> PyErr {
    ModelError::new_err(with_causes(&error))
}

/// About connections.
pub(crate) fn of_session(error: impl Error) -> PyErr {
    SessionError::new_err(with_causes(&error))
}
