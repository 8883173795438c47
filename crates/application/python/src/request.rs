//! A request, as a handler has it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// A request, with all of its body.
#[pyclass(frozen)]
pub(crate) struct Request(exos_application::Request);

impl Request {
    pub(crate) fn new(request: &exos_application::Request) -> Self {
        Self(request.clone())
    }
}

/// As text, a byte of which is a character: what WSGI calls native strings.
fn native(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

#[pymethods]
impl Request {
    /// A variable of CGI/1.1, such as PATH_INFO or HTTP_HOST; `default` when there is none.
    #[pyo3(signature = (name, default = None))]
    fn get(&self, name: &str, default: Option<String>) -> Option<String> {
        self.0.variable(name).map(native).or(default)
    }

    /// All variables, in order.
    #[getter]
    fn variables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (name, value) in self.0.variables() {
            all.set_item(native(name), native(value))?;
        }
        Ok(all)
    }

    /// The body.
    #[getter]
    fn body<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.body())
    }
}
