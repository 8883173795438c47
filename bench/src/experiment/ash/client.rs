//! Who asks: on a stack of ours that polls, with one datagram under way or several.

use super::asked::{Asked, Question};
use crate::limits::START_TIMEOUT;
use crate::report::percentile;
use crate::stage::calls::{CallClock, Calls};
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::interface_with;
use exos::{Exos, Slice};
use exos_host::{Error, Result};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// When a message is given up for lost, and another is sent.
const LOST: Duration = Duration::from_millis(200);

/// When the first question is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// The client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Asking {
    pub question: Question,
    pub to: IpAddr,
    /// The client's address, which the kernel does not have.
    pub from: IpAddr,
    pub seconds: f64,
    /// Messages under way.
    pub under_way: u32,
}

/// What it saw.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub per_sec: f64,
    /// Round trips.
    pub median_us: f64,
    pub p99_us: f64,
    /// Messages without an answer.
    pub lost: u64,
    /// Answers.
    pub answers: u64,
    /// Calls of the stack that handed messages over.
    pub calls: Calls,
}

impl Helper for Asking {
    const NAME: &'static str = "asking";
    type Measured = Answered;

    fn run(self) -> Result<Answered> {
        let exos = Exos::attach(interface_with(self.from)?)?;
        let mut asker = Asker::new(exos, &self)?;
        asker.await_server()?;
        say_ready()?;
        asker.load(Duration::from_secs_f64(self.seconds))
    }
}

/// A socket, and when each message that is under way left.
struct Asker {
    exos: Exos,
    socket: exos::inet::udp::UdpHandle,
    to: SocketAddr,
    asked: Asked,
    /// When each left.
    left: Vec<Instant>,
    /// There is something to be handed over.
    has_asked: bool,
    calls: CallClock,
    took_us: Vec<f64>,
    lost: u64,
}

impl Asker {
    fn new(mut exos: Exos, of: &Asking) -> Result<Self> {
        let socket = exos.stack.udp.bind(None, 0);
        let socket = socket.map_err(|e| Error::new(format!("cannot bind: {e}")))?;
        Ok(Self {
            exos,
            socket,
            to: SocketAddr::new(of.to, of.question.port),
            asked: Asked::new(&of.question, of.under_way),
            left: vec![Instant::now(); of.under_way as usize],
            has_asked: false,
            calls: CallClock::new()?,
            took_us: Vec::new(),
            lost: 0,
        })
    }

    /// The first question asks for the server's hardware address, too.
    fn await_server(&mut self) -> Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end {
            self.send(self.asked.first());
            let soon = Instant::now() + AGAIN;
            while Instant::now() < soon {
                if let Some(answer) = self.hear()?
                    && self.asked.answers_first(&answer)
                {
                    return Ok(());
                }
            }
        }
        Err(Error::new("the server does not answer"))
    }

    /// Sends one of the messages; it is this late.
    fn ask(&mut self, at: usize, now: Instant) {
        self.left[at] = now;
        self.send(self.asked.message(at));
    }

    /// What finds no room is lost, as on a wire.
    fn send(&mut self, bytes: Slice) {
        self.has_asked = true;
        let (now, stack) = (self.exos.now(), &mut self.exos.stack);
        let _ = stack.udp_send(now, self.socket, None, self.to, bytes);
    }

    /// An answer that is there. What is to be sent leaves when none is, many at once.
    fn hear(&mut self) -> Result<Option<Vec<u8>>> {
        let heard = self.exos.stack.udp.receive(self.socket);
        if let Ok(Some(datagram)) = heard {
            return Ok(Some(datagram.payload));
        }
        match std::mem::take(&mut self.has_asked) {
            true => self.calls.time(|| self.exos.send())?,
            false => self.exos.send()?,
        };
        self.exos.receive();
        Ok(None)
    }

    fn load(&mut self, length: Duration) -> Result<Answered> {
        self.calls.restart();
        let begin = Instant::now();
        (0..self.left.len()).for_each(|at| self.ask(at, begin));
        let (mut now, mut looked) = (begin, begin);
        while now - begin < length {
            let heard = self.hear()?;
            now = Instant::now();
            if let Some(answer) = heard
                && let Some(at) = self.asked.answered(&answer)?
            {
                let took = now - self.left[at];
                self.took_us.push(took.as_secs_f64() * 1e6);
                self.ask(at, now);
            }
            if now - looked > LOST {
                looked = now;
                self.ask_again(now);
            }
        }
        let calls = self.calls.restart();
        let per_sec = self.took_us.len() as f64 / begin.elapsed().as_secs_f64();
        if self.took_us.is_empty() {
            return Err(Error::new("not a single message was answered"));
        }
        Ok(Answered {
            per_sec,
            median_us: percentile(&mut self.took_us, 0.5),
            p99_us: percentile(&mut self.took_us, 0.99),
            lost: self.lost,
            answers: self.took_us.len() as u64,
            calls,
        })
    }

    fn ask_again(&mut self, now: Instant) {
        for at in 0..self.left.len() {
            if now - self.left[at] > LOST {
                self.lost += 1;
                self.asked.lost(at);
                self.ask(at, now);
            }
        }
    }
}
