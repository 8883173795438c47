//! An application: it asks its handler, and sends what that gives.

use crate::answer::{Answer, Body, Content, content};
use crate::request::Request;
use crate::{Piece, raised};
use exos_application::{Event, RequestId};
use exos_iolite::{Error, Result, Shape};
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

/// Listens at a Unix socket, with a pool of so many buffers of 64 KiB.
///
/// Nothing of it is borrowed while code of Python runs: handlers, iterators and signal handlers may call all of it.
#[pyclass(unsendable)]
pub(crate) struct Application {
    application: RefCell<exos_application::Application>,
    /// What makes answers that are under way.
    iterators: RefCell<HashMap<RequestId, Py<PyIterator>>>,
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
            iterators: RefCell::default(),
        })
    }

    /// Puts bytes into the pool once, to be sent by reference as often as they are wanted.
    fn keep(&self, bytes: &[u8]) -> PyResult<Piece> {
        let application = self.application.borrow();
        application.pool().copy(bytes).map(Piece).map_err(raised)
    }

    /// Answers requests by what `page(request)` returns, until the application has stopped.
    fn serve(&self, py: Python<'_>, page: &Bound<'_, PyAny>) -> PyResult<()> {
        loop {
            let next = self.next_event().map_err(raised)?;
            match next {
                Some(Event::Request(id) | Event::Body(id)) => {
                    let is_asked = self.application.borrow_mut().keep_body(id);
                    if is_asked && let Err(error) = self.answer(id, page) {
                        self.fail(py, id, error);
                    }
                }
                Some(Event::Room(id)) => self.go_on(py, id),
                Some(Event::Left(id)) => drop(self.iterators.borrow_mut().remove(&id)),
                None if self.application.borrow().is_over() => return Ok(()),
                None => {
                    self.sleep(py).map_err(raised)?;
                    py.check_signals()?;
                }
            }
        }
    }

    /// Stops in order: what is asked may still be answered, for so many seconds at most.
    #[pyo3(signature = (seconds = 10.0))]
    fn stop(&self, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
        self.application.borrow_mut().stop(time);
        Ok(())
    }
}

impl Application {
    fn next_event(&self) -> Result<Option<Event>> {
        self.application.borrow_mut().wait(Some(Duration::ZERO))
    }

    /// Waits for servers, without the interpreter's lock, until a signal at the latest.
    fn sleep(&self, py: Python<'_>) -> Result<()> {
        let application = self.application.borrow();
        let (fd, time) = (application.as_fd(), application.poll_timeout());
        let polled = py.detach(|| {
            let time = time.and_then(|time| Timespec::try_from(time).ok());
            let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
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
        let pool = self.application.borrow().pool().clone();
        let Answer { head, body } = Answer::of(&returned, &pool)?;
        match body {
            Body::Whole(parts) => {
                let len: usize = parts.iter().map(|(content, _)| content.len()).sum();
                let mut application = self.application.borrow_mut();
                application.begin(id, &head.length(len as u64));
                drop(application);
                parts.into_iter().for_each(|part| self.send(id, part));
                self.application.borrow_mut().end(id);
            }
            Body::Iterator(iterator) => {
                self.application.borrow_mut().begin(id, &head);
                self.iterators.borrow_mut().insert(id, iterator);
                self.go_on(page.py(), id);
            }
        }
        Ok(())
    }

    fn send(&self, id: RequestId, (content, is_kept): Content) {
        let mut application = self.application.borrow_mut();
        match is_kept {
            true => application.send_kept(id, content),
            false => application.send(id, content),
        }
    }

    /// Asks for more of an answer, as far as its client takes it.
    fn go_on(&self, py: Python<'_>, id: RequestId) {
        while self.application.borrow().queued(id) < QUEUED_LEN_MAX {
            let iterators = self.iterators.borrow();
            let Some(mut iterator) = iterators.get(&id).map(|it| it.bind(py).clone()) else {
                return;
            };
            drop(iterators);
            let next = iterator.next().map(|piece| {
                let pool = self.application.borrow().pool().clone();
                content(&piece?, &pool)
            });
            match next {
                Some(Ok(part)) => self.send(id, part),
                Some(Err(error)) => return self.fail(py, id, error),
                None => {
                    self.iterators.borrow_mut().remove(&id);
                    return self.application.borrow_mut().end(id);
                }
            }
        }
    }

    /// The server's operator is told why; what has begun is cut off, what has not is 500.
    fn fail(&self, py: Python<'_>, id: RequestId, error: PyErr) {
        self.iterators.borrow_mut().remove(&id);
        let mut application = self.application.borrow_mut();
        application.say(id, &error.value(py).to_string());
        application.give_up(id);
    }
}
