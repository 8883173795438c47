//! An application: its requests, and what happens to them.

use super::answer::{Answer, Head};
use super::event::{Event, RequestId};
use super::exchange::Exchange;
use super::link::Link;
use super::links::Links;
use super::listener::listen;
use super::request::Request;
use crate::limits::{LOOKS_EVERY, SHORT_PAUSE};
use exos_iolite::{Aggregate, Pool, Result, Shape};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// An application that answers requests of web servers on this machine.
#[derive(Debug)]
pub struct Application {
    pool: Pool,
    links: Links,
    events: VecDeque<Event>,
    turns: u32,
    /// All was sent, and the descriptor is readable when there is something to hear.
    is_armed: bool,
    /// Those that wait for buffers of the pool, and when to look for some next.
    want_buffers: VecDeque<RequestId>,
    buffers_at: Instant,
    /// The socket does not listen any more.
    has_failed: bool,
}

impl Application {
    /// Listens at a Unix socket, and makes a pool for its pages. A socket that is left of an application that has ended is replaced. Who
    /// may connect to it may ask: see to its directory's permissions, or the umask.
    ///
    /// # Errors
    ///
    /// Somebody listens there, or it cannot be made.
    pub fn listen(path: impl AsRef<Path>, shape: Shape) -> Result<Self> {
        Self::of(listen(path.as_ref())?, shape)
    }

    /// Takes a Unix socket that listens, such as one that systemd has made.
    ///
    /// # Errors
    ///
    /// There is no memory for a pool of this shape, or the socket is none.
    pub fn of(listener: OwnedFd, shape: Shape) -> Result<Self> {
        let pool = Pool::new("exos-pages", shape)?;
        Ok(Self {
            links: Links::new(listener, pool.clone())?,
            pool,
            events: VecDeque::new(),
            turns: 0,
            is_armed: false,
            want_buffers: VecDeque::new(),
            buffers_at: Instant::now(),
            has_failed: false,
        })
    }

    /// Where pages are made: what is in it goes to servers by reference.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Answers every request when its body is whole, until the application has [stopped](Self::stop). What `answer` fails to make is answered
    /// with 500, and the server's operator is told why. The length of an answer is said in its head.
    ///
    /// # Errors
    ///
    /// The socket does not listen any more.
    pub fn serve(
        &mut self,
        mut answer: impl FnMut(&Request, &Pool) -> Result<Answer>,
    ) -> Result<()> {
        while !self.is_over() {
            let Some(Event::Request(id) | Event::Body(id)) = self.wait(None)? else {
                continue;
            };
            if !self.keep_body(id) {
                continue;
            }
            let made = self.request(id).map(|request| answer(request, &self.pool));
            match made {
                Some(Ok(answer)) => self.answer(id, answer),
                Some(Err(error)) => {
                    self.say(id, &error.to_string());
                    self.begin(id, &Head::new(500));
                    self.end(id);
                }
                None => {}
            }
        }
        Ok(())
    }

    // Requests.

    /// A request that was not left, and whose answer has not ended.
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        let exchange = self.exchange(id).filter(|exchange| !exchange.is_ended());
        exchange.map(|exchange| &exchange.request)
    }

    fn exchange(&self, id: RequestId) -> Option<&Exchange> {
        self.links.get(id.link)?.exchange(id.key)
    }

    /// Takes what has come of its body.
    pub fn read_body(&mut self, id: RequestId) -> Vec<u8> {
        self.with(id, Exchange::read_body).unwrap_or_default()
    }

    /// Takes the next bytes of its body that have come, as many as fit; how many that were.
    pub fn read_body_into(&mut self, id: RequestId, out: &mut [u8]) -> usize {
        self.with(id, |exchange| exchange.read_body_into(out))
            .unwrap_or(0)
    }

    /// Has what has come of its body be kept [beside it](Request::body); true when that is whole, which is so once, and at once where there is
    /// none. One whose body is longer than an application keeps is answered with 413.
    pub fn keep_body(&mut self, id: RequestId) -> bool {
        self.with(id, Exchange::keep_body).unwrap_or(false)
    }

    /// No more of its body comes than is there.
    pub fn body_is_whole(&self, id: RequestId) -> bool {
        self.exchange(id).is_none_or(Exchange::body_is_whole)
    }

    /// Answers it.
    pub fn answer(&mut self, id: RequestId, answer: Answer) {
        let length = answer.len() as u64;
        self.with(id, |exchange| {
            exchange.begin(answer.head.length(length));
            exchange.send_all(answer.parts);
            exchange.end();
        });
    }

    /// Its answer has begun, or ended.
    pub fn has_begun(&self, id: RequestId) -> bool {
        self.exchange(id).is_none_or(Exchange::has_head)
    }

    /// Begins its answer. A second head changes nothing; one that is longer than 32 KiB is 500.
    pub fn begin(&mut self, id: RequestId, head: &Head) {
        self.with(id, |exchange| exchange.begin(head.clone()));
    }

    /// Sends content that was made for it. It waits here until the server has room for it.
    pub fn send(&mut self, id: RequestId, content: impl Into<Aggregate>) {
        let content = content.into();
        self.with(id, |exchange| exchange.send(content, false));
    }

    /// Sends content that is kept here and will be sent again.
    pub fn send_kept(&mut self, id: RequestId, content: impl Into<Aggregate>) {
        let content = content.into();
        self.with(id, |exchange| exchange.send(content, true));
    }

    /// Ends its answer.
    pub fn end(&mut self, id: RequestId) {
        self.with(id, Exchange::end);
    }

    /// Gives its answer up: one whose head has gone is cut off, and the client hears that it is not whole; any other is 500.
    pub fn give_up(&mut self, id: RequestId) {
        self.with(id, |exchange| exchange.give_up(500));
    }

    /// Has [`Event::Room`] tell of it when buffers of the pool are free again: for one whose content found none
    /// ([`Error::Exhausted`](exos_iolite::Error::Exhausted)).
    pub fn await_buffers(&mut self, id: RequestId) {
        self.is_armed = false;
        if self.request(id).is_none() || self.want_buffers.contains(&id) {
            return;
        }
        if self.want_buffers.is_empty() {
            // Not at once: there may be some, and too few for it.
            self.buffers_at = Instant::now() + SHORT_PAUSE;
        }
        self.want_buffers.push_back(id);
    }

    /// Those that wait for buffers may go on when some are free.
    fn tell_of_buffers(&mut self) {
        if self.want_buffers.is_empty() || Instant::now() < self.buffers_at {
            return;
        }
        match self.pool.look().free {
            0 => self.buffers_at = Instant::now() + SHORT_PAUSE,
            _ => self
                .events
                .extend(self.want_buffers.drain(..).map(Event::Room)),
        }
    }

    /// Says a line about it to the server's operator.
    pub fn say(&mut self, id: RequestId, line: &str) {
        self.is_armed = false;
        if let Some(link) = self.links.get_mut(id.link) {
            link.say(id.key, line);
        }
    }

    /// Bytes of its content that wait for room.
    pub fn queued(&self, id: RequestId) -> usize {
        self.exchange(id).map_or(0, Exchange::queued)
    }

    fn with<R>(&mut self, id: RequestId, act: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
        self.is_armed = false;
        self.links.get_mut(id.link)?.with(id.key, act)
    }

    // The loop.

    /// Sends what was said, and waits until something happens to a request; nothing when the time has passed, for nothing, or when the
    /// application has stopped.
    ///
    /// # Errors
    ///
    /// The socket does not listen any more, or the kernel does not let it wait: the application [is over](Self::is_over).
    pub fn wait(&mut self, at_most: Option<Duration>) -> Result<Option<Event>> {
        let next = self.next(at_most);
        self.has_failed |= next.is_err();
        next
    }

    fn next(&mut self, at_most: Option<Duration>) -> Result<Option<Event>> {
        let mut has_slept = false;
        self.is_armed = false;
        for _ in 0..LOOKS_EVERY {
            self.tell_of_buffers();
            if let Some(event) = self.next_event() {
                return Ok(Some(event));
            }
            self.turns = self.turns.wrapping_add(1);
            if self.turns.is_multiple_of(LOOKS_EVERY) {
                // Also while there is always something to hear.
                self.links.sleep(Some(Duration::ZERO), &mut self.events)?;
            }
            self.links.each(&mut self.events, Link::send);
            let has_heard = self.links.each(&mut self.events, Link::look);
            if has_heard || !self.events.is_empty() || self.links.each(&mut self.events, Link::arm)
            {
                continue;
            }
            if has_slept || self.is_over() {
                self.is_armed = true;
                break;
            }
            let time = at_most.into_iter().chain(self.quiet_time()).min();
            self.links.sleep(time, &mut self.events)?;
            has_slept = true;
        }
        Ok(self.next_event())
    }

    /// How long a program that waits for the [descriptor](AsFd) among others may do so before it calls [`wait`](Self::wait), whatever happens:
    /// not at all when something was said since, nothing when for good. It waits when `wait` with no time has found nothing.
    pub fn poll_timeout(&self) -> Option<Duration> {
        match self.is_armed && self.events.is_empty() {
            true => self.quiet_time(),
            false => Some(Duration::ZERO),
        }
    }

    /// How long nothing happens that no descriptor tells of.
    fn quiet_time(&self) -> Option<Duration> {
        let now = Instant::now();
        let pause = self.buffers_at.saturating_duration_since(now);
        let pause = (!self.want_buffers.is_empty()).then_some(pause);
        let links = self.links.quiet_time(now);
        links.into_iter().chain(pause).min()
    }

    // Stopping.

    /// Stops in order: nobody can connect any more, servers ask nothing more, and what is asked is answered, for this long at most. From then on
    /// another application may listen at the path.
    pub fn stop(&mut self, at_most: Duration) {
        self.is_armed = false;
        self.links.stop(at_most);
    }

    /// [Stops](Self::stop) when this descriptor is readable, such as one that a signal is told by.
    ///
    /// # Errors
    ///
    /// It is none that can be waited for.
    pub fn stop_on(&mut self, fd: OwnedFd, at_most: Duration) -> Result<()> {
        self.links.stop_on(fd, at_most)
    }

    /// It stops, and is to begin nothing new.
    pub fn is_stopping(&self) -> bool {
        self.links.is_stopping()
    }

    /// It has stopped, and all that was asked is over; or it cannot go on.
    pub fn is_over(&self) -> bool {
        self.has_failed || self.links.is_over() && self.events.is_empty()
    }

    /// The next that has happened. More of a body, and room, are no news to a request whose answer has ended.
    fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.events.pop_front()?;
            match event {
                Event::Body(id) | Event::Room(id) if self.request(id).is_none() => {}
                _ => return Some(event),
            }
        }
    }
}

impl AsFd for Application {
    /// Readable when [`wait`](Application::wait) has something to do, once it has found nothing.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.links.as_fd()
    }
}
