//! Counters that others increase, in each way that is compared.

use crate::limits::{POLL_INTERVAL, START_TIMEOUT};
use crate::stage::args::shown_as_on_the_command_line;
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::interface_with;
use exos::inet::udp::UdpHandle;
use exos::signals::Signals;
use exos::{Buffer, Downloaded, Exos, ash};
use exos_host::{Error, Result, error::Context as _};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, UdpSocket};
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
    pub(super) const ALL: [Self; 5] = [
        Self::Handler,
        Self::Polling,
        Self::Sleeping,
        Self::KernelPolling,
        Self::KernelSleeping,
    ];

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
}

/// What it measured of itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Served {
    /// From asking for a handler until it was in force; of a handler alone.
    pub download_us: Option<f64>,
}

impl Helper for Counters {
    const NAME: &'static str = "counters";
    type Measured = Served;

    fn run(self) -> Result<Served> {
        let signals = Signals::catch()?;
        if self.way.is_kernels() {
            return self.on_the_kernels_socket(&signals);
        }
        let mut exos = Exos::attach(interface_with(self.at)?)?;
        if self.way == Way::Sleeping {
            // It sleeps at once when there is nothing to do.
            exos.share_core();
        }
        let socket = exos.stack.udp.bind(None, PORT);
        let socket = socket.map_err(|e| Error::new(format!("cannot bind: {e}")))?;
        let mut program = Program {
            exos,
            socket,
            counters: vec![0; COUNTERS],
        };
        say_ready()?;
        let begin = Instant::now();
        let mut downloaded = None;
        let after = Duration::from_secs_f64(self.after.unwrap_or(0.0));
        while !signals.stop_requested() {
            program.answer()?;
            if self.way == Way::Handler && downloaded.is_none() && begin.elapsed() >= after {
                downloaded = Some(program.download()?);
            }
            match self.way {
                Way::Sleeping => program.exos.wait(None, &[])?,
                Way::Handler if downloaded.is_some() => {
                    let until = program.exos.now() + POLL_INTERVAL;
                    program.exos.wait(Some(until), &[])?;
                }
                _ => {}
            }
        }
        let download_us = downloaded.map(|(_, took)| took.as_secs_f64() * 1e6);
        Ok(Served { download_us })
    }
}

/// A program on our stack, and its socket.
struct Program {
    exos: Exos,
    socket: UdpHandle,
    counters: Vec<u64>,
}

impl Program {
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

    /// A handler, and how long it took until it was in force. Its answers arrive once the client has its link, so it is not to be had
    /// before.
    fn download(&mut self) -> Result<(Downloaded, Duration)> {
        let handler = parsed(HANDLER)?;
        let end = Instant::now() + START_TIMEOUT;
        loop {
            let begin = Instant::now();
            match self.exos.download_into_kernel(handler.clone(), PORT) {
                Ok(downloaded) => return Ok((downloaded, begin.elapsed())),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }
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
        Ok(Served { download_us: None })
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
