//! Datagrams that are only received (*ASHs*, Table 2): taken into memory of the program or looked at where they lie, each with the UDP
//! checksum that is then verified and without one, in the kernel and by programs.
//!
//! The client writes frames as fast as they leave, the same one again and again, and waits for nobody. What counts is what the server
//! received; the rest is lost, in the veth's ring or in the server's.

use super::Cell;
use super::sandbox::frame;
use super::server::{PORT, attached, parsed};
use super::session::{CLIENT, KERNEL, OURS, Session, socket_of};
use crate::experiment::figure::Figures;
use crate::limits::POLL_INTERVAL;
use crate::stage::args::{all, shown_as_on_the_command_line};
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::{LinkWay, flush, open_by};
use crate::stage::mac_of;
use exos::Exos;
use exos::signals::Signals;
use exos_host::{Error, Result, error::Context as _};
use exos_inet::limits::HANDLED_BYTES_MAX;
use exos_inet::{Handled, MessageHandler};
use exos_lab::Side;
use exos_link::{Link, TxMeta};
use exos_wire::Mac;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rows into which messages are taken, in turn, and bytes of each: as many as a message may have.
const ROWS: usize = 1024;
const ROW_BYTES: usize = 1472;

/// Takes messages into rows, and counts them and their bytes.
const TAKING: &str = "handler taking {
    words seen[2];
    rows messages[1024] of 1472;
    count = &seen[0];
    bytes = &seen[1];
    number = add(count, 1);
    place = &messages[number & 1023];
    take(place, 0, length);
    add(bytes, length);
    done;
}";

/// Counts messages and their bytes.
const LOOKING: &str = "handler looking {
    words seen[2];
    count = &seen[0];
    bytes = &seen[1];
    add(count, 1);
    add(bytes, length);
    done;
}";

/// Bytes of a frame before the UDP checksum.
const BEFORE_CHECKSUM: usize = 40;
/// Frames that the client hands over at a time.
const BATCH: usize = 64;
/// How often a load is begun of which nothing came; when nothing came of any, that is an error.
const LOADS: u32 = 3;

/// Who receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Way {
    /// A handler in the kernel that takes messages into rows
    HandlerCopied,
    /// A handler in the kernel that counts them where they lie
    HandlerInPlace,
    /// The first of these by the daemon, of a program without privilege
    HandlerDaemonCopied,
    /// The second likewise
    HandlerDaemonInPlace,
    /// A program that polls, and copies out of the frames that our stack shows it
    StackCopied,
    /// A program that polls, and counts in the frames that our stack shows it
    StackInPlace,
    /// A program that polls a socket of our stack
    Socket,
    /// A program that polls the kernel's socket
    Kernel,
}

shown_as_on_the_command_line!(Way);

/// The client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Flooding {
    /// The server's link address, and its own.
    pub to: ([u8; 6], Ipv4Addr),
    pub from: Ipv4Addr,
    /// Of a message.
    pub bytes: u16,
    pub has_checksum: bool,
    pub seconds: f64,
}

/// What left.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Flooded {
    pub messages: u64,
    pub seconds: f64,
}

impl Helper for Flooding {
    const NAME: &'static str = "flooding";
    type Measured = Flooded;

    fn run(self) -> Result<Flooded> {
        let mut link = Link::from(open_by(LinkWay::Cheaper)?);
        let frame = self.frame(link.mac());
        say_ready()?;
        let (begin, length) = (Instant::now(), Duration::from_secs_f64(self.seconds));
        let mut messages = 0;
        while begin.elapsed() < length {
            let full = |_: &usize| !link.transmit(&frame, &[], TxMeta::default());
            messages += (0..BATCH).find(full).unwrap_or(BATCH) as u64;
            flush(&mut link)?;
        }
        let seconds = begin.elapsed().as_secs_f64();
        Ok(Flooded { messages, seconds })
    }
}

impl Flooding {
    fn frame(&self, from: Mac) -> Vec<u8> {
        let to = (Mac(self.to.0), self.to.1);
        let mut frame = frame((from, self.from), to, &vec![0xa5; self.bytes.into()]);
        if !self.has_checksum {
            frame[BEFORE_CHECKSUM..][..2].fill(0);
        }
        frame
    }
}

/// The server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Receiving {
    pub way: Way,
    /// Where the daemon listens that lends it its link; none of the interface itself.
    pub daemon: Option<PathBuf>,
}

/// What came.
#[derive(Clone, Copy, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Received {
    pub messages: u64,
    pub bytes: u64,
}

impl Helper for Receiving {
    const NAME: &'static str = "receiving";
    type Measured = Received;

    fn run(self) -> Result<Received> {
        let signals = Signals::catch()?;
        if self.way == Way::Kernel {
            return by_kernels_socket(&signals);
        }
        let exos = attached((OURS.into(), PORT), self.daemon)?;
        match self.way {
            Way::HandlerCopied | Way::HandlerDaemonCopied => in_kernel(exos, TAKING, &signals),
            Way::HandlerInPlace | Way::HandlerDaemonInPlace => in_kernel(exos, LOOKING, &signals),
            Way::StackCopied => in_frames(exos, Program::with_rows(), &signals),
            Way::StackInPlace => in_frames(exos, Program::default(), &signals),
            Way::Socket | Way::Kernel => by_socket(exos, &signals),
        }
    }
}

impl Way {
    fn at(self) -> Ipv4Addr {
        match self {
            Self::Kernel => KERNEL,
            _ => OURS,
        }
    }

    fn is_by_daemon(self) -> bool {
        matches!(self, Self::HandlerDaemonCopied | Self::HandlerDaemonInPlace)
    }
}

/// The program sleeps.
fn in_kernel(mut exos: Exos, handler: &str, signals: &Signals) -> Result<Received> {
    let downloaded = exos.download_into_kernel(parsed(handler)?, PORT)?;
    say_ready()?;
    while !signals.stop_requested() {
        exos.receive();
        exos.send()?;
        let until = exos.now() + POLL_INTERVAL;
        exos.wait(Some(until), &[signals.fd()])?;
    }
    let seen = downloaded.memory().words("seen").expect("both have it");
    let [messages, bytes] = [0, 1].map(|at: usize| seen[at].load(Ordering::Relaxed));
    Ok(Received { messages, bytes })
}

/// What a program does with messages: takes them into rows where it has some, and counts them.
#[derive(Default)]
struct Program {
    rows: Vec<[u8; ROW_BYTES]>,
    received: Received,
}

impl Program {
    fn with_rows() -> Self {
        Self {
            rows: vec![[0; ROW_BYTES]; ROWS],
            ..Self::default()
        }
    }

    /// Where the next message goes.
    fn row(&mut self) -> Option<&mut [u8; ROW_BYTES]> {
        self.rows.get_mut(self.received.messages as usize % ROWS)
    }

    fn count(&mut self, len: usize) {
        self.received.messages += 1;
        self.received.bytes += len as u64;
    }

    fn take(&mut self, message: &[u8]) {
        if let Some(row) = self.row() {
            row[..message.len()].copy_from_slice(message);
        }
        self.count(message.len());
    }
}

/// What the stack shows messages to.
struct Shown(Rc<RefCell<Program>>);

impl MessageHandler for Shown {
    fn handle(&mut self, message: &[u8], _: &mut [u8; HANDLED_BYTES_MAX]) -> Handled {
        self.0.borrow_mut().take(message);
        Handled::Done
    }
}

fn in_frames(mut exos: Exos, program: Program, signals: &Signals) -> Result<Received> {
    let program = Rc::new(RefCell::new(program));
    let shown = Box::new(Shown(program.clone()));
    exos.stack.handle_datagrams(PORT, shown);
    say_ready()?;
    // What had come before the end is taken, too.
    while exos.receive() > 0 || !signals.stop_requested() {
        exos.send()?;
    }
    let received = program.borrow().received;
    Ok(received)
}

fn by_socket(mut exos: Exos, signals: &Signals) -> Result<Received> {
    let socket = exos.stack.udp.bind(None, PORT);
    let socket = socket.map_err(|e| Error::new(format!("cannot bind: {e}")))?;
    let mut program = Program::with_rows();
    say_ready()?;
    while exos.receive() > 0 || !signals.stop_requested() {
        while let Ok(Some(datagram)) = exos.stack.udp.receive(socket) {
            program.take(&datagram.payload);
        }
        exos.send()?;
    }
    Ok(program.received)
}

fn by_kernels_socket(signals: &Signals) -> Result<Received> {
    let what = || "cannot use a UDP socket";
    let socket = UdpSocket::bind((KERNEL, PORT)).context(what)?;
    socket.set_nonblocking(true).context(what)?;
    let mut program = Program::with_rows();
    say_ready()?;
    loop {
        match socket.recv(program.row().expect("it has rows")) {
            Ok(len) => program.count(len),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error).context(what),
            Err(_) if signals.stop_requested() => return Ok(program.received),
            Err(_) => {}
        }
    }
}

/// What was seen of one way.
struct Seen {
    sent: Flooded,
    received: Received,
    /// How busy the server's core was, and the client's.
    busy: [f64; 2],
}

/// A run: each in turn.
pub(super) fn measure(session: &Session, bytes: u16, figures: &mut Figures) -> Result<()> {
    let cell = Cell::Receive(bytes);
    for way in all::<Way>() {
        for (has_checksum, more) in [(true, ""), (false, "/no-checksum")] {
            let name = format!("{cell}/{way}{more}");
            let note = |lost: String| session.note(format!("{name}: {lost}"));
            let seen = repeat_until_some_come(note, || load(session, way, bytes, has_checksum))?;
            seen.add(&name, bytes, figures)?;
        }
    }
    Ok(())
}

/// Of what a load sends on a machine that runs much else nothing may come: what receives gets no time before the end. Such loads are noted.
fn repeat_until_some_come(
    note: impl Fn(String),
    mut load: impl FnMut() -> Result<Seen>,
) -> Result<Seen> {
    for _ in 1..LOADS {
        let seen = load()?;
        if seen.received.messages > 0 {
            return Ok(seen);
        }
        let sent = seen.sent.messages;
        note(format!(
            "none of {sent} messages came; they were sent again"
        ));
    }
    load()
}

/// Has the client send to a server of this way.
fn load(session: &Session, way: Way, bytes: u16, has_checksum: bool) -> Result<Seen> {
    // There are many of these loads.
    let seconds = session.seconds / 2.0;
    let daemon = session.daemon_for(way.is_by_daemon())?;
    let receiving = Receiving {
        way,
        daemon: socket_of(&daemon),
    };
    let server = session.serve(&daemon, &receiving)?;
    let client = Flooding {
        to: (mac_of(&session.lab, Side::A)?.0, way.at()),
        from: CLIENT,
        bytes,
        has_checksum,
        seconds,
    };
    let client = session.helper(Side::B, &client)?;
    let busy = session.busy_cores(seconds)?;
    Ok(Seen {
        sent: client.measured(session, seconds)?,
        received: server.stop_measured()?,
        busy,
    })
}

impl Seen {
    fn add(&self, name: &str, bytes: u16, figures: &mut Figures) -> Result<()> {
        let sent = self.sent;
        let (messages, all) = (self.received.messages, self.received.bytes);
        if messages == 0 || all != messages * u64::from(bytes) {
            let sent = sent.messages;
            return Err(Error::new(format!(
                "{name}: of {sent} messages of {bytes} bytes came {messages}, with {all} bytes"
            )));
        }
        let [server, client] = self.busy;
        figures.add(name, "MB/s", all as f64 / sent.seconds / 1e6);
        let lost = 1.0 - messages as f64 / sent.messages as f64;
        for (what, unit, value) in [
            ("rate", "msg/s", messages as f64 / sent.seconds),
            ("lost", "of messages", lost),
            ("busy", "of a core", server),
            ("client-busy", "of a core", client),
        ] {
            figures.add(format!("{name}/{what}"), unit, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos::ash;
    use std::sync::atomic::AtomicU64;

    /// What is lost once is noted, and what is always lost is an error.
    #[test]
    fn loads_of_which_nothing_comes_are_repeated() {
        for (comes_in, is_measured) in [(1, true), (LOADS, true), (LOADS + 1, false)] {
            let (mut loads, notes) = (0, RefCell::new(Vec::new()));
            let seen = repeat_until_some_come(
                |note| notes.borrow_mut().push(note),
                || {
                    loads += 1;
                    let messages = u64::from(loads == comes_in);
                    Ok(Seen {
                        sent: Flooded {
                            messages: 2,
                            seconds: 1.0,
                        },
                        received: Received {
                            messages,
                            bytes: 12 * messages,
                        },
                        busy: [1.0; 2],
                    })
                },
            );
            let added = seen.and_then(|seen| seen.add("receive", 12, &mut Figures::default()));
            assert_eq!(added.is_ok(), is_measured, "{added:?}");
            assert_eq!(loads, comes_in.min(LOADS));
            assert_eq!(notes.borrow().len() as u32, loads - 1);
        }
    }

    #[test]
    fn handlers_count_what_the_program_counts_and_take_what_it_takes() {
        for (text, mut program) in [
            (TAKING, Program::with_rows()),
            (LOOKING, Program::default()),
        ] {
            let handler = ash::parse(text).expect("it is sound");
            let layout = ash::Layout::of(handler.handler());
            let words: Vec<_> = (0..layout.bytes() / 8).map(|_| AtomicU64::new(0)).collect();
            let memory = ash::Memory::new(&words, &layout, handler.handler());
            for (number, len) in (0..1030_u32).zip([8, 100, ROW_BYTES].into_iter().cycle()) {
                let message = number.to_le_bytes().repeat(len / 4);
                program.take(&message);
                let outcome = ash::interpret(&handler, memory, &message);
                assert!(matches!(outcome, ash::Outcome::Done));
            }
            let seen = memory.words("seen").expect("it is there");
            let seen = [0, 1].map(|at: usize| seen[at].load(Ordering::Relaxed));
            assert_eq!(seen, [program.received.messages, program.received.bytes]);
            for (at, row) in program.rows.iter().enumerate() {
                let words = memory.row("messages", at as u32).expect("as many");
                let words = words
                    .iter()
                    .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
                assert!(words.eq(row.iter().copied()), "row {at}");
            }
        }
    }
}
