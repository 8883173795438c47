//! Signals while the application sleeps: CPython writes a byte for each to a descriptor, so that none comes between a look and the sleep behind
//! it.

use pyo3::prelude::*;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Wakes a loop of the main thread for signals, until it is dropped. In other threads there are none.
pub(crate) struct Signals<'py> {
    woken: UnixStream,
    wakes: Option<(Python<'py>, UnixStream, i32)>,
}

impl<'py> Signals<'py> {
    pub fn begin(py: Python<'py>) -> PyResult<Self> {
        let (woken, wakes) = UnixStream::pair()?;
        for end in [&woken, &wakes] {
            end.set_nonblocking(true)?;
        }
        // Fails in all threads but the main one.
        let wakes = match set(py, wakes.as_raw_fd()) {
            Ok(before) => Some((py, wakes, before)),
            Err(_) => None,
        };
        Ok(Self { woken, wakes })
    }

    /// Readable when there was a signal.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// What was said is known.
    pub fn clear(&self) {
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

impl Drop for Signals<'_> {
    fn drop(&mut self) {
        if let Some((py, _, before)) = &self.wakes {
            // As it was before.
            let _ = set(*py, *before);
        }
    }
}

fn set(py: Python<'_>, fd: i32) -> PyResult<i32> {
    let signal = py.import("signal")?;
    signal.call_method1("set_wakeup_fd", (fd,))?.extract()
}
