//! What a handler gives: a list of pieces, or a status, header fields and anything that iterates over pieces.

use crate::Piece;
use exos_application::Head;
use exos_iolite::{Aggregate, Pool};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};

/// A piece of content, and whether it is kept.
pub(crate) type Content = (Aggregate, bool);

/// An answer, before it is sent: its content is asked for piece by piece, as far as the client takes it.
pub(crate) struct Answer {
    pub head: Head,
    pub pieces: Py<PyIterator>,
}

fn no_piece() -> PyErr {
    PyTypeError::new_err("an answer consists of bytes, and of what keep() made")
}

/// One piece: bytes are copied into the pool. Nothing where that has no buffer left, which passes.
pub(crate) fn content(piece: &Bound<'_, PyAny>, pool: &Pool) -> PyResult<Option<Content>> {
    if let Ok(kept) = piece.cast::<Piece>() {
        return Ok(Some((kept.borrow().0.clone(), true)));
    }
    let bytes = piece.cast::<PyBytes>().map_err(|_| no_piece())?.as_bytes();
    let shape = pool.shape();
    if bytes.len() as u64 > u64::from(shape.buffer_len) * u64::from(shape.buffers) / 2 {
        let words = "a piece is longer than half of the application's buffers: pass it in parts";
        return Err(PyValueError::new_err(words));
    }
    match pool.copy(bytes) {
        Ok(copy) => Ok(Some((copy, false))),
        Err(exos_iolite::Error::Exhausted { .. }) => Ok(None),
        Err(error) => Err(crate::raised(error)),
    }
}

/// Bytes of a piece.
fn len(piece: &Bound<'_, PyAny>) -> PyResult<usize> {
    match piece.is_instance_of::<Piece>() || piece.is_instance_of::<PyBytes>() {
        true => piece.len(),
        false => Err(no_piece()),
    }
}

/// The bytes of a native string of WSGI (PEP 3333): each of its characters is one.
fn native(text: &str) -> PyResult<Vec<u8>> {
    let bytes = text.chars().map(u8::try_from).collect::<Result<_, _>>();
    bytes.map_err(|_| PyValueError::new_err("a header field has characters beyond latin-1"))
}

impl Answer {
    /// Of what a handler has returned.
    pub fn of(returned: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(three) = returned.cast::<PyTuple>() else {
            let head = Head::new(200).field("Content-Type", "text/html; charset=utf-8");
            return Self::with(head, returned);
        };
        let (status, fields, pieces): (u16, Vec<(String, String)>, Bound<'_, PyAny>) =
            three.extract()?;
        if !(200..600).contains(&status) {
            return Err(PyValueError::new_err("a status is 200 to 599"));
        }
        let mut head = Head::new(status);
        for (name, value) in fields {
            head = head.field(&name, native(&value)?);
        }
        Self::with(head, &pieces)
    }

    /// The length of a list is said in the head.
    fn with(head: Head, pieces: &Bound<'_, PyAny>) -> PyResult<Self> {
        let head = match pieces.cast::<PyList>() {
            Ok(list) => {
                let lens = list.iter().map(|piece| len(&piece));
                head.length(lens.sum::<PyResult<usize>>()? as u64)
            }
            Err(_) => head,
        };
        let pieces = pieces.try_iter()?.unbind();
        Ok(Self { head, pieces })
    }
}
