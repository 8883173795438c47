//! What a handler gives: a list of pieces, or a status, header fields and an iterable of pieces.

use crate::Piece;
use exos_application::Head;
use exos_iolite::{Aggregate, Pool};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyList, PyTuple};

/// A piece of content, and whether it is kept.
pub(crate) type Content = (Aggregate, bool);

/// An answer, before it is sent.
pub(crate) struct Answer {
    pub head: Head,
    pub body: Body,
}

/// The content of an answer.
pub(crate) enum Body {
    /// All of it is there.
    Whole(Vec<Content>),
    /// It is asked for piece by piece, as far as the client takes it.
    Iterator(Py<PyIterator>),
}

/// One piece: bytes are copied into the pool.
pub(crate) fn content(piece: &Bound<'_, PyAny>, pool: &Pool) -> PyResult<Content> {
    if let Ok(kept) = piece.cast::<Piece>() {
        return Ok((kept.borrow().0.clone(), true));
    }
    let bytes = piece.cast::<PyBytes>().map_err(|_| {
        PyTypeError::new_err("an answer consists of bytes, and of what keep() made")
    })?;
    let copy = pool.copy(bytes.as_bytes()).map_err(crate::raised)?;
    Ok((copy, false))
}

impl Answer {
    /// Of what a handler has returned.
    pub fn of(returned: &Bound<'_, PyAny>, pool: &Pool) -> PyResult<Self> {
        let Ok(three) = returned.cast::<PyTuple>() else {
            let head = Head::new(200).field("Content-Type", "text/html; charset=utf-8");
            let body = Body::of(returned, pool)?;
            return Ok(Self { head, body });
        };
        let (status, fields, body): (u16, Vec<(String, String)>, Bound<'_, PyAny>) =
            three.extract()?;
        if !(200..600).contains(&status) {
            return Err(PyValueError::new_err("a status is 200 to 599"));
        }
        let fields = fields.into_iter();
        let head = fields.fold(Head::new(status), |head, (name, value)| {
            head.field(&name, value)
        });
        let body = Body::of(&body, pool)?;
        Ok(Self { head, body })
    }
}

impl Body {
    fn of(given: &Bound<'_, PyAny>, pool: &Pool) -> PyResult<Self> {
        if let Ok(list) = given.cast::<PyList>() {
            let pieces = list.iter().map(|piece| content(&piece, pool));
            return Ok(Body::Whole(pieces.collect::<PyResult<_>>()?));
        }
        Ok(Body::Iterator(given.try_iter()?.unbind()))
    }
}
