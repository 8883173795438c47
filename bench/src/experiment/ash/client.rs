//! Who asks: on a stack of ours that polls, with one datagram under way or several.

use super::server::PORT;
use crate::limits::START_TIMEOUT;
use crate::report::percentile;
use crate::stage::calls::{CallClock, Calls};
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::interface_with;
use exos::{Buffer, Exos, Slice};
use exos_host::{Error, Result};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// When a message is given up for lost, and another is sent.
const LOST: Duration = Duration::from_millis(200);

/// What is asked. A message begins with a number, with which its answer begins, too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    /// Where.
    pub port: u16,
    /// Asked until there is an answer, before all others.
    pub first: Vec<u8>,
    pub message: Vec<u8>,
    /// Bytes of the number.
    pub number_len: usize,
    /// What stands behind the number in each answer; where it is given, others are errors.
    pub answer: Option<Vec<u8>>,
}

impl Question {
    /// One more for a counter, in a message of this length.
    pub fn increment(length: u16) -> Self {
        let mut message = vec![0; length.max(12).into()];
        message[11] = 1;
        Self {
            port: PORT,
            first: message.clone(),
            message,
            number_len: 4,
            answer: None,
        }
    }

    /// The message with this number, by which its answer is known.
    fn numbered(&self, number: u32) -> Slice {
        let (len, bytes) = (self.number_len, u64::from(number).to_be_bytes());
        let mut message = self.message.clone();
        message[..len].copy_from_slice(&bytes[8 - len..]);
        Buffer::from(message).into()
    }
}

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
    question: Question,
    /// Each message by its number, made once: the client is to be as cheap as can be.
    messages: Vec<Slice>,
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
            question: of.question.clone(),
            messages: (0..of.under_way)
                .map(|number| of.question.numbered(number))
                .collect(),
            left: vec![Instant::now(); of.under_way as usize],
            has_asked: false,
            calls: CallClock::new()?,
            took_us: Vec::new(),
            lost: 0,
        })
    }

    /// The first message asks for the server's hardware address, too. What else comes of it is not looked at.
    fn await_server(&mut self) -> Result<()> {
        let first: Slice = Buffer::from(self.question.first.clone()).into();
        let answer = self.question.answer.take();
        let end = Instant::now() + START_TIMEOUT;
        let mut is_there = false;
        while !is_there && Instant::now() < end {
            self.send(first.clone());
            let soon = Instant::now() + Duration::from_millis(50);
            while Instant::now() < soon {
                is_there |= self.hear()?.is_some();
            }
        }
        self.question.answer = answer;
        match is_there {
            true => Ok(()),
            false => Err(Error::new("the server does not answer")),
        }
    }

    /// Sends the message with this number; it is this late.
    fn ask(&mut self, number: usize, now: Instant) {
        self.left[number] = now;
        self.send(self.messages[number].clone());
    }

    /// What finds no room is lost, as on a wire.
    fn send(&mut self, bytes: Slice) {
        self.has_asked = true;
        let (now, stack) = (self.exos.now(), &mut self.exos.stack);
        let _ = stack.udp_send(now, self.socket, None, self.to, bytes);
    }

    /// The number of a message whose answer is there. What is to be sent leaves when none is, many at once.
    fn hear(&mut self) -> Result<Option<usize>> {
        let heard = self.exos.stack.udp.receive(self.socket);
        let Ok(Some(datagram)) = heard else {
            match std::mem::take(&mut self.has_asked) {
                true => self.calls.time(|| self.exos.send())?,
                false => self.exos.send()?,
            };
            self.exos.receive();
            return Ok(None);
        };
        let Some((number, rest)) = datagram.payload.split_at_checked(self.question.number_len)
        else {
            return Ok(None);
        };
        if self
            .question
            .answer
            .as_ref()
            .is_some_and(|answer| answer != rest)
        {
            let rest = String::from_utf8_lossy(rest);
            return Err(Error::new(format!("a wrong answer: {rest:?}")));
        }
        let number = number
            .iter()
            .fold(0, |all, byte| all << 8 | usize::from(*byte));
        Ok(Some(number).filter(|number| *number < self.left.len()))
    }

    fn load(&mut self, length: Duration) -> Result<Answered> {
        self.calls.restart();
        let begin = Instant::now();
        (0..self.left.len()).for_each(|number| self.ask(number, begin));
        let (mut now, mut looked) = (begin, begin);
        while now - begin < length {
            let heard = self.hear()?;
            now = Instant::now();
            if let Some(number) = heard {
                let took = now - self.left[number];
                self.took_us.push(took.as_secs_f64() * 1e6);
                self.ask(number, now);
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
        for number in 0..self.left.len() {
            if now - self.left[number] > LOST {
                self.lost += 1;
                self.ask(number, now);
            }
        }
    }
}
