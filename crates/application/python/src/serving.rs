//! An application: it asks its handler, and sends what that gives.

use crate::answer::{Answer, Content, content};
use crate::request::Request;
use crate::signals::Signals;
use crate::{Piece, raised};
use exos_application::{Event, RequestId};
use exos_iolite::{Error, Result, Shape};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::time::Duration;

/// Content that waits for its client before an iterator is asked for more.
const QUEUED_LEN_MAX: usize = 64 * 1024;

/// Pieces of one answer that are asked for at once: others wait as long, and an iterator may give empty ones for ever.
const PIECES_MAX: usize = 256;

/// What makes an answer that is under way.
struct Source {
    pieces: Py<PyIterator>,
    /// A piece that found no buffer.
    unsent: Option<Py<PyAny>>,
}

/// Listens at a Unix socket, with a pool of `buffers` buffers of 64 KiB.
///
/// Nothing of it is borrowed while code of Python runs: handlers, iterators, what they leave behind, and signal handlers may call all of it.
#[pyclass(unsendable)]
pub(crate) struct Application {
    application: RefCell<exos_application::Application>,
    sources: RefCell<HashMap<RequestId, Source>>,
}

#[pymethods]
impl Application {
    #[new]
    #[pyo3(signature = (socket, buffers = 256))]
    fn new(socket: std::path::PathBuf, buffers: u32) -> PyResult<Self> {
        let shape = Shape::of(buffers);
        let application = exos_application::Application::listen(socket, shape).map_err(raised)?;
        Ok(Self {
            application: RefCell::new(application),
            sources: RefCell::default(),
        })
    }

    /// Puts bytes into the pool once, to be sent by reference as often as they are wanted.
    fn keep(&self, bytes: &[u8]) -> PyResult<Piece> {
        let application = self.application.borrow();
        application.pool().copy(bytes).map(Piece).map_err(raised)
    }

    /// Answers requests by what `page(request)` returns, until the application has stopped. What a handler raises is an answer's failure,
    /// but for what is no `Exception`, such as `KeyboardInterrupt`: that ends serving.
    fn serve(&self, py: Python<'_>, page: &Bound<'_, PyAny>) -> PyResult<()> {
        let signals = Signals::begin(py)?;
        loop {
            py.check_signals()?;
            let next = self.next_event().map_err(raised)?;
            match next {
                Some(Event::Request(id) | Event::Body(id)) => {
                    let is_asked = self.application.borrow_mut().keep_body(id);
                    if is_asked && let Err(error) = self.answer(id, page) {
                        self.fail(py, id, error)?;
                    }
                }
                Some(Event::Room(id)) => self.go_on(py, id)?,
                Some(Event::Left(id)) => self.forget(id),
                None if self.application.borrow().is_over() => return Ok(()),
                None => {
                    self.sleep(py, &signals).map_err(raised)?;
                    signals.clear();
                }
            }
        }
    }

    /// Stops in order: what is asked may still be answered, for this many seconds at most.
    #[pyo3(signature = (seconds = 10.0))]
    fn stop(&self, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.application.borrow_mut().stop(time);
        Ok(())
    }
}

impl Application {
    fn next_event(&self) -> Result<Option<Event>> {
        self.application.borrow_mut().wait(Some(Duration::ZERO))
    }

    /// Waits for servers and for signals, without the interpreter's lock.
    fn sleep(&self, py: Python<'_>, signals: &Signals<'_>) -> Result<()> {
        let application = self.application.borrow();
        let (servers, time) = (application.as_fd(), application.poll_timeout());
        let signals = signals.as_fd();
        let polled = py.detach(|| {
            let time = time.and_then(|time| Timespec::try_from(time).ok());
            let mut fds = [servers, signals].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            poll(&mut fds, time.as_ref())
        });
        match polled {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::System("cannot wait", error.into())),
        }
    }

    fn answer(&self, id: RequestId, page: &Bound<'_, PyAny>) -> PyResult<()> {
        let asked = self.application.borrow().request(id).map(Request::new);
        let Some(asked) = asked else {
            return Ok(());
        };
        let returned = page.call1((asked,))?;
        let Answer { head, pieces } = Answer::of(&returned)?;
        self.application.borrow_mut().begin(id, &head);
        let source = Source {
            pieces,
            unsent: None,
        };
        self.sources.borrow_mut().insert(id, source);
        self.go_on(page.py(), id)
    }

    /// Asks for more of an answer, as far as its client takes it.
    fn go_on(&self, py: Python<'_>, id: RequestId) -> PyResult<()> {
        for _ in 0..PIECES_MAX {
            if self.application.borrow().queued(id) >= QUEUED_LEN_MAX {
                return Ok(());
            }
            match self.next_piece(py, id) {
                Ok(Some(piece)) if self.send(py, id, &piece)? => {}
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {
                    self.forget(id);
                    self.application.borrow_mut().end(id);
                    return Ok(());
                }
                Err(error) => return self.fail(py, id, error),
            }
        }
        // The others have their turn.
        self.application.borrow_mut().await_buffers(id);
        Ok(())
    }

    /// The next piece of an answer; nothing behind the last one.
    fn next_piece<'py>(
        &self,
        py: Python<'py>,
        id: RequestId,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (unsent, pieces) = match self.sources.borrow_mut().get_mut(&id) {
            Some(source) => (source.unsent.take(), source.pieces.clone_ref(py)),
            None => return Ok(None),
        };
        if let Some(unsent) = unsent {
            return Ok(Some(unsent.into_bound(py)));
        }
        pieces.into_bound(py).next().transpose()
    }

    /// Sends a piece; false when it waits for a buffer, or is none.
    fn send(&self, py: Python<'_>, id: RequestId, piece: &Bound<'_, PyAny>) -> PyResult<bool> {
        let pool = self.application.borrow().pool().clone();
        let (content, is_kept): Content = match content(piece, &pool) {
            Ok(Some(content)) => content,
            Ok(None) => {
                if let Some(source) = self.sources.borrow_mut().get_mut(&id) {
                    source.unsent = Some(piece.clone().unbind());
                }
                self.application.borrow_mut().await_buffers(id);
                return Ok(false);
            }
            Err(error) => return self.fail(py, id, error).map(|()| false),
        };
        let mut application = self.application.borrow_mut();
        match is_kept {
            true => application.send_kept(id, content),
            false => application.send(id, content),
        }
        Ok(true)
    }

    /// What makes an answer may have code to run when it is dropped, which nothing is borrowed for.
    fn forget(&self, id: RequestId) {
        let source = self.sources.borrow_mut().remove(&id);
        drop(source);
    }

    /// The server's operator is told why; what has gone is cut off, what has not is 500. What is no failure of a page goes on to the caller.
    fn fail(&self, py: Python<'_>, id: RequestId, error: PyErr) -> PyResult<()> {
        self.forget(id);
        let is_a_failure = error.is_instance_of::<PyException>(py);
        let words = match is_a_failure {
            true => error.value(py).to_string(),
            false => String::new(),
        };
        let mut application = self.application.borrow_mut();
        application.give_up(id);
        if is_a_failure {
            application.say(id, &words);
            return Ok(());
        }
        Err(error)
    }
}
