//! An application: where it listens, its links to servers, and what happens to their requests.

use super::answer::{Answer, Head};
use super::exchange::Exchange;
use super::link::{Link, News};
use super::request::Request;
use crate::limits::{
    ACCEPT_PAUSE, BEGINNING_MAX, BEGINNING_TIME, LINKS_MAX, LOOKS_EVERY, SHORT_PAUSE,
};
use crate::socket::hear;
use exos_iolite::{Aggregate, Error, Pool, Result, Shape};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// A request, among all that an application has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    link: u64,
    number: u32,
}

/// What happens to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It has come.
    Request(RequestId),
    /// More of its body has.
    Body(RequestId),
    /// All of its content that there was has gone, and its answer has not ended: there is room for more.
    Room(RequestId),
    /// Nobody wants its answer any more.
    Left(RequestId),
}

/// A server that has connected, and with its second socket has said so.
#[derive(Debug)]
struct Beginning {
    requests: OwnedFd,
    answers: Option<OwnedFd>,
    /// When it is sent away if it has not said all that makes a link.
    until: Instant,
}

/// An application that answers requests of web servers on this machine.
#[derive(Debug)]
pub struct Application {
    listener: OwnedFd,
    pool: Pool,
    beginning: Vec<Beginning>,
    links: HashMap<u64, Link>,
    next: u64,
    events: VecDeque<Event>,
    turns: u32,
    /// No descriptor was left: nothing is accepted before.
    paused_until: Option<Instant>,
}

impl Application {
    /// Listens at a Unix socket, and makes a pool for its pages. A socket that is left of an application that has ended is replaced. Who
    /// may connect to it may ask: see to its directory's permissions, or the umask.
    ///
    /// # Errors
    ///
    /// Somebody listens there, or it cannot be made.
    pub fn listen(path: impl AsRef<Path>, shape: Shape) -> Result<Self> {
        let path = path.as_ref();
        let listened = match UnixListener::bind(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                if is_left_behind(path) {
                    let _ = std::fs::remove_file(path);
                }
                UnixListener::bind(path)
            }
            other => other,
        };
        let refused = |error| Error::System("cannot listen at the application's socket", error);
        Self::of(listened.map_err(refused)?.into(), shape)
    }

    /// Takes a Unix socket that listens, such as one that systemd has made.
    ///
    /// # Errors
    ///
    /// There is no memory for a pool of this shape, or the socket is none.
    pub fn of(listener: OwnedFd, shape: Shape) -> Result<Self> {
        rustix::io::ioctl_fionbio(&listener, true)
            .map_err(|error| Error::System("cannot use the socket", error.into()))?;
        Ok(Self {
            listener,
            pool: Pool::new("exos-pages", shape)?,
            beginning: Vec::new(),
            links: HashMap::new(),
            next: 0,
            events: VecDeque::new(),
            turns: 0,
            paused_until: None,
        })
    }

    /// Where pages are made: what is in it goes to servers by reference.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Answers every request when its body is whole, until the socket fails. What `answer` fails to make is answered with 500, and the server's
    /// operator is told why. The length of an answer is said in its head.
    ///
    /// # Errors
    ///
    /// The socket does not listen any more.
    pub fn serve(
        &mut self,
        mut answer: impl FnMut(&Request, &Pool) -> Result<Answer>,
    ) -> Result<()> {
        loop {
            let (Event::Request(id) | Event::Body(id)) = self.event()? else {
                continue;
            };
            let link = self.links.get_mut(&id.link);
            let is_whole = link.and_then(|link| link.with(id.number, Exchange::keep_body));
            if is_whole != Some(true) {
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
    }

    fn event(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.wait(None)? {
                return Ok(event);
            }
        }
    }

    // Requests.

    /// A request that was not left, and whose answer has not ended.
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        let exchange = self.exchange(id).filter(|exchange| !exchange.is_ended());
        exchange.map(|exchange| &exchange.request)
    }

    fn exchange(&self, id: RequestId) -> Option<&Exchange> {
        self.links.get(&id.link)?.exchange(id.number)
    }

    /// Takes what has come of its body.
    pub fn read_body(&mut self, id: RequestId) -> Vec<u8> {
        self.with(id, Exchange::read_body).unwrap_or_default()
    }

    /// No more of its body comes.
    pub fn body_is_whole(&self, id: RequestId) -> bool {
        self.exchange(id).is_none_or(Exchange::body_is_whole)
    }

    /// Answers it.
    pub fn answer(&mut self, id: RequestId, answer: Answer) {
        let head = answer.head.clone().length(answer.len() as u64);
        self.begin(id, &head);
        for (content, is_kept) in answer.parts {
            self.with(id, |exchange| exchange.send(content, is_kept));
        }
        self.end(id);
    }

    /// Begins its answer. A second head changes nothing.
    pub fn begin(&mut self, id: RequestId, head: &Head) {
        self.with(id, |exchange| exchange.begin(head));
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

    /// Says a line about it to the server's operator.
    pub fn say(&mut self, id: RequestId, line: &str) {
        if let Some(link) = self.links.get_mut(&id.link) {
            link.say(id.number, line);
        }
    }

    /// Bytes of its content that wait for room.
    pub fn queued(&self, id: RequestId) -> usize {
        self.exchange(id).map_or(0, Exchange::queued)
    }

    fn with<R>(&mut self, id: RequestId, act: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
        self.links.get_mut(&id.link)?.with(id.number, act)
    }

    // The loop.

    /// Sends what was said, and waits until something happens to a request; nothing when the time has passed, or for nothing.
    ///
    /// # Errors
    ///
    /// The socket does not listen any more.
    pub fn wait(&mut self, at_most: Option<Duration>) -> Result<Option<Event>> {
        if let Some(event) = self.next_event() {
            return Ok(Some(event));
        }
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(LOOKS_EVERY) {
            // Also while there is always something to answer.
            self.sleep(Some(Duration::ZERO))?;
        }
        // What has come may have room for more be sent.
        while self.events.is_empty() {
            self.each_link(Link::send);
            if !self.each_link(Link::look) {
                break;
            }
        }
        if self.events.is_empty() && !self.each_link(Link::arm) {
            self.sleep(at_most)?;
            self.each_link(Link::look);
        }
        Ok(self.next_event())
    }

    /// The next that has happened. More of a body is no news to a request whose answer has ended.
    fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.events.pop_front()?;
            match event {
                Event::Body(id) if self.request(id).is_none() => {}
                _ => return Some(event),
            }
        }
    }

    /// Does something with each link; true when one says so. One that fails is over.
    fn each_link(
        &mut self,
        mut act: impl FnMut(&mut Link, &mut Vec<News>) -> Result<bool>,
    ) -> bool {
        let (events, mut is_any, mut news) = (&mut self.events, false, Vec::new());
        self.links.retain(|&id, link| {
            let result = act(link, &mut news);
            let of = |number| RequestId { link: id, number };
            events.extend(news.drain(..).map(|news| match news {
                News::Request(number) => Event::Request(of(number)),
                News::Body(number) => Event::Body(of(number)),
                News::Room(number) => Event::Room(of(number)),
                News::Left(number) => Event::Left(of(number)),
            }));
            if result.is_err() {
                events.extend(link.numbers().map(of).map(Event::Left));
            }
            is_any |= result.as_ref().is_ok_and(|is| *is);
            result.is_ok()
        });
        is_any
    }

    fn sleep(&mut self, at_most: Option<Duration>) -> Result<()> {
        let now = Instant::now();
        self.paused_until.take_if(|until| *until <= now);
        self.beginning.retain(|beginning| now < beginning.until);
        let untils = self.beginning.iter().map(|beginning| beginning.until);
        let until = untils.chain(self.paused_until).min();
        let left = until.map(|until| until - now);
        let short = (self.links.values())
            .any(Link::is_short)
            .then_some(SHORT_PAUSE);
        let time = [at_most, left, short].into_iter().flatten().min();
        let time = time.and_then(|time| Timespec::try_from(time).ok());
        let accepts = self.paused_until.is_none();
        let order: Vec<u64> = self.links.keys().copied().collect();
        let mut fds: Vec<PollFd<'_>> =
            Vec::with_capacity(2 * order.len() + self.beginning.len() + 1);
        let sockets = order.iter().flat_map(|id| self.links[id].fds());
        fds.extend(sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(
            self.beginning
                .iter()
                .map(|b| PollFd::new(&b.requests, PollFlags::IN)),
        );
        if accepts {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        match poll(&mut fds, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Error::System("cannot wait", error.into())),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let (links, others) = ready.split_at(2 * order.len());
        for (id, two) in order.iter().zip(links.chunks(2)) {
            if let Some(link) = self.links.get_mut(id) {
                link.woken([two[0], two[1]]);
            }
        }
        let has_begun = others.iter().take(self.beginning.len()).any(|ready| *ready);
        if has_begun {
            self.go_on_beginning();
        }
        if accepts && others.last() == Some(&true) {
            self.accept()?;
        }
        Ok(())
    }

    fn has_place(&self) -> bool {
        self.beginning.len() < BEGINNING_MAX && self.links.len() < LINKS_MAX
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                // It hears at once that there is no place for it, and comes again later.
                Ok(_) if !self.has_place() => {}
                Ok(requests) => self.beginning.push(Beginning {
                    requests,
                    answers: None,
                    until: Instant::now() + BEGINNING_TIME,
                }),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                    break;
                }
                Err(error) => return Err(Error::System("cannot accept a server", error.into())),
            }
        }
        // What it says is there mostly, as it says that at once.
        self.go_on_beginning();
        Ok(())
    }

    /// Hears those that have connected. One that says something else is sent away.
    fn go_on_beginning(&mut self) {
        for mut beginning in std::mem::take(&mut self.beginning) {
            if beginning.answers.is_none() {
                match hear(&beginning.requests) {
                    Ok(answers) => beginning.answers = answers,
                    Err(_) => continue,
                }
            }
            // Its pipe follows, in a message of its own. What has come since it was heard is heard in the next turn.
            let Some(answers) = (beginning.answers).take_if(|_| is_readable(&beginning.requests))
            else {
                self.beginning.push(beginning);
                continue;
            };
            if let Ok(link) = Link::begin(beginning.requests, answers, &self.pool) {
                self.links.insert(self.next, link);
                self.next += 1;
            }
        }
    }
}

/// A socket at which nobody listens any more. What is something else is somebody's, and an application that is busy listens still.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket());
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

fn is_readable(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
