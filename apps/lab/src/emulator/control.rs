//! The control socket of an emulator: who runs it, what it does, and its end, for other processes.
//!
//! It is a Unix socket with a name of the abstract kind, which belongs to the network namespace in the middle of
//! the lab: it is found by that alone, and gone with the process, so there is no file that could say otherwise.
//! A request is one line, `statistics` or `stop`; the answer is [`Statistics`] as JSON, or `{"error": "..."}`,
//! and the end of the stream. After `stop` the answer is the last one.

use super::reporter::Reporter;
use super::statistics::Statistics;
use crate::limits::{ANSWER_LEN_MAX, ANSWER_TIMEOUT};
use exos_host::netns::NetNs;
use exos_host::{Error, Result, error::Context as _};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;

/// The socket's abstract name.
const NAME: &str = "exos-lab-emulator";

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The numbers of now.
    Statistics,
    /// Stop, and the last numbers.
    Stop,
}

impl Request {
    fn line(self) -> &'static str {
        match self {
            Self::Statistics => "statistics\n",
            Self::Stop => "stop\n",
        }
    }
}

fn address() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(NAME)
}

/// Asks the emulator in this namespace; `None` when there is none.
pub(crate) fn ask(middle: &NetNs, request: Request) -> Result<Option<Statistics>> {
    let what = || "cannot ask the emulator";
    let mut stream = match middle.run(|| UnixStream::connect_addr(&address()?))? {
        Ok(stream) => stream,
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(e) => return Err(Error::io(what(), e)),
    };
    let mut answer = String::new();
    let mut exchange = || {
        stream.set_read_timeout(Some(2 * ANSWER_TIMEOUT))?;
        stream.write_all(request.line().as_bytes())?;
        (&stream).take(ANSWER_LEN_MAX).read_to_string(&mut answer)
    };
    exchange().context(what)?;
    if answer.is_empty() {
        return Ok(None); // It ended between our question and its answer.
    }
    serde_json::from_str(&answer).map(Some).map_err(|_| {
        Error::new(format!("the emulator answers {}", answer.trim()))
            .mend("make the lab again: `exos lab down`, then `exos lab up`")
    })
}

/// The listening end.
pub(super) struct Control {
    listener: UnixListener,
    reporter: Arc<Reporter>,
}

impl Control {
    pub(super) fn listen(middle: &NetNs, reporter: Arc<Reporter>) -> Result<Self> {
        let listener = middle
            .run(|| UnixListener::bind_addr(&address()?))?
            .context(|| "cannot listen for questions to the emulator")
            .map_err(|e| e.mend("another emulator runs in this lab: `exos lab down` ends it"))?;
        Ok(Self { listener, reporter })
    }

    /// Answers until the other end of `quit` is closed.
    pub(super) fn serve(&self, quit: BorrowedFd<'_>) {
        loop {
            let mut fds = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&quit, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            if !fds[0].revents().is_empty()
                && let Ok((stream, _)) = self.listener.accept()
            {
                // Who asked and went away has no use for the answer.
                let _ = self.answer(stream);
            } else if !fds[1].revents().is_empty() {
                return;
            }
        }
    }

    fn answer(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut line = String::new();
        BufReader::new((&stream).take(64)).read_line(&mut line)?;
        let answer = match line.as_str() {
            line if line == Request::Statistics.line() => self.reporter.statistics(),
            line if line == Request::Stop.line() => self.reporter.stop(),
            _ => Err(Error::new("unknown request")),
        };
        let json = match answer {
            Ok(statistics) => serde_json::to_string(&statistics),
            Err(e) => serde_json::to_string(&serde_json::json!({ "error": e.to_string() })),
        };
        stream.write_all(json.expect("plain data becomes JSON").as_bytes())
    }
}
