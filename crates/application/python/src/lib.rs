//! Applications in Python, by PyO3: an example of what a language makes of `exos_application`. `pages.py` beside this uses all of it; the folder's
//! README says how to build it.
//!
//! A handler is asked for each request, and gives an answer of pieces: bytes of Python, which are copied once, and kept ones, which go by
//! reference. The interpreter's lock is released while the application waits, and nowhere else: all belongs to one thread.

#![forbid(unsafe_code)]

mod answer;
mod request;
mod serving;

use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;

/// Bytes in an application's pool that are made once, and sent by reference.
#[pyclass(unsendable, frozen)]
struct Piece(exos_iolite::Aggregate);

#[pymethods]
impl Piece {
    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// What Python makes of an error.
fn raised(error: exos_iolite::Error) -> PyErr {
    let words = error.to_string();
    match error {
        exos_iolite::Error::Exhausted { .. } => PyMemoryError::new_err(words),
        exos_iolite::Error::System(..) => PyOSError::new_err(words),
        _ => PyRuntimeError::new_err(words),
    }
}

/// Pages that a process of its own makes for `exos serve`.
#[pymodule]
mod exos_application_python {
    #[pymodule_export]
    use super::Piece;
    #[pymodule_export]
    use super::request::Request;
    #[pymodule_export]
    use super::serving::Application;
}
