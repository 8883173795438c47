//! Who asks for increments: on a stack of ours that polls, with one message under way or several.

use super::server::PORT;
use crate::limits::START_TIMEOUT;
use crate::stage::helper::{Helper, say_ready};
use exos::attach::{Addresses, Interface, Prefixed};
use exos::{Buffer, Exos};
use exos_host::{Error, Result};
use exos_lab::INTERFACE;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// When a message is given up for lost, and another is sent.
const LOST: Duration = Duration::from_millis(200);

/// The client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Increments {
    pub to: IpAddr,
    /// The client's address, which the kernel does not have.
    pub from: IpAddr,
    pub seconds: f64,
    /// Bytes of a message.
    pub length: u16,
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
}

impl Helper for Increments {
    const NAME: &'static str = "increments";
    type Measured = Answered;

    fn run(self) -> Result<Answered> {
        let own = Prefixed {
            ip: self.from,
            prefix: 24,
        };
        let exos = Exos::attach(Interface::new(INTERFACE, Addresses::new([own])?))?;
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
    message: Vec<u8>,
    /// When each message left, by the counter that it asks for.
    left: Vec<Instant>,
    took_us: Vec<f64>,
    lost: u64,
}

impl Asker {
    fn new(mut exos: Exos, of: &Increments) -> Result<Self> {
        let socket = exos.stack.udp.bind(None, 0);
        let socket = socket.map_err(|e| Error::new(format!("cannot bind: {e}")))?;
        Ok(Self {
            exos,
            socket,
            to: SocketAddr::new(of.to, PORT),
            message: vec![0; of.length.max(12).into()],
            left: vec![Instant::now(); of.under_way as usize],
            took_us: Vec::new(),
            lost: 0,
        })
    }

    /// The first message asks for the server's hardware address, too.
    fn await_server(&mut self) -> Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end {
            self.ask(0);
            let soon = Instant::now() + Duration::from_millis(50);
            while Instant::now() < soon {
                if self.hear()?.is_some() {
                    return Ok(());
                }
            }
        }
        Err(Error::new("the counters do not answer"))
    }

    /// Increments the counter of this number, by which its answer is known.
    fn ask(&mut self, number: usize) {
        self.message[..4].copy_from_slice(&(number as u32).to_be_bytes());
        self.message[11] = 1;
        self.left[number] = Instant::now();
        let now = self.exos.now();
        let bytes = Buffer::from(self.message.clone()).into();
        // What finds no room is lost, as on a wire.
        let _ = self
            .exos
            .stack
            .udp_send(now, self.socket, None, self.to, bytes);
    }

    /// The number of a message whose answer is there. What is to be sent leaves when none is, many at once.
    fn hear(&mut self) -> Result<Option<usize>> {
        let heard = self.exos.stack.udp.receive(self.socket);
        let Ok(Some(datagram)) = heard else {
            self.exos.send()?;
            self.exos.receive();
            return Ok(None);
        };
        let number = datagram.payload.get(..4).and_then(|n| n.try_into().ok());
        let number = number.map(|n| u32::from_be_bytes(n) as usize);
        Ok(number.filter(|number| *number < self.left.len()))
    }

    fn load(&mut self, length: Duration) -> Result<Answered> {
        let begin = Instant::now();
        (0..self.left.len()).for_each(|number| self.ask(number));
        let mut looked = begin;
        while begin.elapsed() < length {
            if let Some(number) = self.hear()? {
                let took = self.left[number].elapsed();
                self.took_us.push(took.as_secs_f64() * 1e6);
                self.ask(number);
            }
            if looked.elapsed() > LOST {
                looked = Instant::now();
                self.ask_again();
            }
        }
        let per_sec = self.took_us.len() as f64 / begin.elapsed().as_secs_f64();
        self.took_us.sort_by(f64::total_cmp);
        let at = |part: usize| self.took_us.get(self.took_us.len() * part / 100);
        match (at(50), at(99)) {
            (Some(&median_us), Some(&p99_us)) => Ok(Answered {
                per_sec,
                median_us,
                p99_us,
                lost: self.lost,
            }),
            _ => Err(Error::new("not a single message was answered")),
        }
    }

    fn ask_again(&mut self) {
        for number in 0..self.left.len() {
            if self.left[number].elapsed() > LOST {
                self.lost += 1;
                self.ask(number);
            }
        }
    }
}
