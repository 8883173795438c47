//! Counters that others increase, in each way that is compared.

use crate::limits::POLL_INTERVAL;
use crate::stage::args::shown_as_on_the_command_line;
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::interface_with;
use exos::inet::udp::UdpHandle;
use exos::signals::Signals;
use exos::{Buffer, Daemon, Downloaded, Exos, Role, ash};
use exos_host::{Error, Result, error::Context as _};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The port that counters are asked at.
pub(super) const PORT: u16 = 4000;
/// How many there are.
const COUNTERS: usize = 1024;

/// A message is the number of a counter (4 bytes) and what is added (8 bytes), and anything behind it; the answer has what the counter
/// was in the place of the second.
pub(super) const HANDLER: &str = "handler counters {
    words counters[1024];
    need 12;
    counter = &counters[be32(0)];
    before = add(counter, be64(4));
    reply length { be64(4) = before; }
}";

/// A handler of this text.
pub(super) fn parsed(text: &str) -> Result<ash::Checked> {
    ash::parse(text).map_err(|e| Error::new(e.to_string()))
}

/// Who keeps the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Way {
    /// A handler in the kernel; the program sleeps
    Handler,
    /// A handler in the kernel by the daemon, of a program without privilege
    HandlerDaemon,
    /// A program on our stack that polls
    Polling,
    /// A program on our stack that sleeps
    Sleeping,
    /// A program on the kernel's socket that polls
    KernelPolling,
    /// A program on the kernel's socket that sleeps
    KernelSleeping,
}

shown_as_on_the_command_line!(Way);

impl Way {
    /// In the order in which they take turns.
    pub(super) const ALL: [Self; 6] = [
        Self::Handler,
        Self::HandlerDaemon,
        Self::Polling,
        Self::Sleeping,
        Self::KernelPolling,
        Self::KernelSleeping,
    ];

    /// Whether the kernel runs a handler.
    pub(super) fn is_handler(self) -> bool {
        matches!(self, Self::Handler | Self::HandlerDaemon)
    }

    /// Whether the kernel has the address.
    pub(super) fn is_kernels(self) -> bool {
        matches!(self, Self::KernelPolling | Self::KernelSleeping)
    }
}

/// The server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Counters {
    pub way: Way,
    /// Its address.
    pub at: IpAddr,
    /// Of a handler: the program answers itself for this many seconds before.
    pub after: Option<f64>,
    /// Where the daemon listens that lends it its link; none of the interface itself.
    pub daemon: Option<PathBuf>,
}

/// What it measured of itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    /// Of a handler alone.
    pub download: Option<Download>,
}

/// How long a download took, from asking for the handler on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Download {
    /// Until it was in force: the length of the call.
    pub in_force_us: f64,
    /// Until the program saw that the kernel had answered, if it has.
    pub first_us: Option<f64>,
}

impl Helper for Counters {
    const NAME: &'static str = "counters";
    type Measured = Served;

    fn run(self) -> Result<Served> {
        let signals = Signals::catch()?;
        if self.way.is_kernels() {
            return self.on_the_kernels_socket(&signals);
        }
        let program = Program::new(attached((self.at, PORT), self.daemon.clone())?)?;
        say_ready()?;
        if self.way.is_handler() {
            let after = Duration::from_secs_f64(self.after.unwrap_or(0.0));
            return program.download(after, &signals);
        }
        program.serve(self.way == Way::Sleeping, &signals)
    }
}

/// A program on our stack, and its socket.
struct Program {
    exos: Exos,
    socket: UdpHandle,
    counters: Vec<u64>,
}

impl Program {
    fn new(mut exos: Exos) -> Result<Self> {
        let socket = exos.stack.udp.bind(None, PORT);
        let socket = socket.map_err(|e| Error::new(format!("cannot bind: {e}")))?;
        Ok(Self {
            exos,
            socket,
            counters: vec![0; COUNTERS],
        })
    }

    /// Answers all until the end.
    fn serve(mut self, sleeps: bool, signals: &Signals) -> Result<Served> {
        if sleeps {
            // It sleeps at once when there is nothing to do.
            self.exos.share_core();
        }
        while !signals.stop_requested() {
            self.answer()?;
            if sleeps {
                self.exos.wait(None, &[])?;
            }
        }
        Ok(Served { download: None })
    }

    /// Answers for a while, and then has the kernel do it until the end. All begins with a message: the kernel's answers arrive once
    /// the client has its link, so a handler is not to be had before.
    fn download(mut self, after: Duration, signals: &Signals) -> Result<Served> {
        self.await_message(signals)?;
        let begin = Instant::now();
        while begin.elapsed() < after && !signals.stop_requested() {
            self.answer()?;
        }
        let handler = parsed(HANDLER)?;
        let asked = Instant::now();
        let handler = self.exos.download_into_kernel(handler, PORT)?;
        let in_force = asked.elapsed();
        let mut first = None;
        while !signals.stop_requested() {
            self.answer()?;
            if first.is_some() {
                let until = self.exos.now() + POLL_INTERVAL;
                self.exos.wait(Some(until), &[])?;
            } else {
                first = has_answered(&handler).then(|| asked.elapsed());
            }
        }
        let us = |took: Duration| took.as_secs_f64() * 1e6;
        let download = Some(Download {
            in_force_us: us(in_force),
            first_us: first.map(us),
        });
        Ok(Served { download })
    }

    /// Waits for a message, and leaves it without an answer: the client asks again.
    fn await_message(&mut self, signals: &Signals) -> Result<()> {
        while !signals.stop_requested() {
            self.exos.receive();
            self.exos.send()?;
            if let Ok(Some(_)) = self.exos.stack.udp.receive(self.socket) {
                break;
            }
        }
        Ok(())
    }

    /// Answers what has come: all of it, or what came before a handler was in force.
    fn answer(&mut self) -> Result<()> {
        let exos = &mut self.exos;
        exos.receive();
        while let Ok(Some(datagram)) = exos.stack.udp.receive(self.socket) {
            let (from, to) = (datagram.to, datagram.from);
            let mut bytes = datagram.payload.to_vec();
            if increase(&mut self.counters, &mut bytes) {
                let now = exos.now();
                let bytes = Buffer::from(bytes).into();
                let sent = exos.stack.udp_send(now, self.socket, Some(from), to, bytes);
                sent.map_err(|e| Error::new(format!("cannot answer: {e}")))?;
            }
        }
        exos.send().map(drop)
    }
}

/// Whether a counter has been increased by the handler.
fn has_answered(handler: &Downloaded) -> bool {
    let words = handler.memory().words("counters").unwrap_or_default();
    words.iter().any(|word| word.load(Ordering::Relaxed) > 0)
}

/// A server's link: of the interface with this address, or with this port by the daemon that listens there.
pub(super) fn attached((at, port): (IpAddr, u16), daemon: Option<PathBuf>) -> Result<Exos> {
    let Some(socket) = daemon else {
        return Exos::attach(interface_with(at)?);
    };
    Exos::attach(Daemon {
        socket,
        datagrams: true,
        ..Daemon::new(Role::Serve(vec![port]))
    })
}

impl Counters {
    fn on_the_kernels_socket(&self, signals: &Signals) -> Result<Served> {
        let what = || "cannot use a UDP socket";
        let socket = UdpSocket::bind((self.at, PORT)).context(what)?;
        // A signal is looked for now and then.
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .context(what)?;
        let polls = self.way == Way::KernelPolling;
        socket.set_nonblocking(polls).context(what)?;
        let mut counters = vec![0; COUNTERS];
        let mut bytes = [0; 2048];
        say_ready()?;
        while !signals.stop_requested() {
            let Ok((len, from)) = socket.recv_from(&mut bytes) else {
                continue;
            };
            if increase(&mut counters, &mut bytes[..len]) {
                let _ = socket.send_to(&bytes[..len], from);
            }
        }
        Ok(Served { download: None })
    }
}

/// Does what a message asks for, and makes the answer of it.
fn increase(counters: &mut [u64], message: &mut [u8]) -> bool {
    let Some((number, by)) = message.get(..12).map(|head| head.split_at(4)) else {
        return false;
    };
    let number = u32::from_be_bytes(number.try_into().expect("four bytes"));
    let by = u64::from_be_bytes(by.try_into().expect("eight bytes"));
    let Some(counter) = counters.get_mut(number as usize) else {
        return false;
    };
    let before = std::mem::replace(counter, counter.wrapping_add(by));
    message[4..12].copy_from_slice(&before.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn the_program_answers_as_the_handler_means() {
        let handler = ash::parse(HANDLER).expect("it is sound");
        let layout = ash::Layout::of(handler.handler());
        let words = vec![0_u64; layout.bytes() as usize / 8];
        let words: Vec<_> = words.into_iter().map(AtomicU64::new).collect();
        let memory = ash::Memory::new(&words, &layout, handler.handler());
        let mut counters = vec![0; COUNTERS];
        for (number, by, len) in [(7, 5, 12), (7, 1 << 60, 40), (1023, 1, 100), (1024, 1, 12)] {
            let mut message = vec![9; len];
            message[..4].copy_from_slice(&u32::to_be_bytes(number));
            message[4..12].copy_from_slice(&u64::to_be_bytes(by));
            let meant = ash::interpret(&handler, memory, &message);
            let answer = increase(&mut counters, &mut message).then_some(message);
            let meant = match meant {
                ash::Outcome::Reply(bytes) => Some(bytes),
                _ => None,
            };
            assert_eq!(answer, meant);
        }
    }
}
