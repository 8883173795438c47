//! `exos bench ash`: handlers in the kernel beside programs that poll, programs that sleep, and the kernel's sockets (Wallach, Engler,
//! Kaashoek, *ASHs*, SIGCOMM 1996: Tables 1 to 7, and Figure 5).
//!
//! | cells | what is measured |
//! |---|---|
//! | `roundtrip` | a remote increment, one at a time: how long until the answer is there (Tables 1 and 6) |
//! | `rate/BYTES` | increments in messages of this length, 64 under way: how many are answered in a second, and what a core is busy with |
//! | `receive/BYTES` | messages of this length that are only received, in place and copied, with and without a checksum (Table 2) |
//! | `stream` | a stream of TCP received by our stack in memory, in place and copied, with and without checksums (Table 3) |
//! | `crowd/N` | the mean round trip while N other programs want the server's core, and by that alone (Figure 5) |
//! | `sandbox` | the handler, as it is generated, beside the same written by hand as eBPF: nanoseconds of a message, in the kernel's test run |
//! | `places` | the handler run by the program itself: nanoseconds of a message, as machine code, by the interpreter, and with the stack around it |
//! | `get/udp`, `get/tcp` | a value of 100 bytes from a cache: by the kernel's part of a cache of ours, also by the daemon, by that cache alone, and by memcached on the kernel's sockets; over TCP one at a time, too (Table 7) |
//! | `layers` | a server of three layers beside one of them: nanoseconds of a message, in the kernel's test run |
//! | `pipes/BYTES` | copies of messages, and checksum and words turned round while they are copied, in one loop and in passes (Tables 4 and 5) |
//! | `download` | from asking for a handler until it is in force and has answered, and whether a message was lost meanwhile |
//!
//! Set-up: the lab's plain wire; the server on one core of side a, the client on the other core and side, with a stack of ours that
//! polls, or of `receive` with frames of its own. Of each handler on the wire one way is that of a program without privilege, by a
//! daemon on side a. In each run of a cell the ways take turns. On a veth a handler runs in the soft interrupt of who sends, that is on the
//! client's core: its cost is in the round trip and in `client-busy`, not in `busy`.
//!
//! `server` and `client` are the two ends, those of `receive` are its own, `crowd` the other programs, `cache` and `get` a cache and who
//! asks it; `stream`, `sandbox`, `places`, `layers` and `pipes` need no wire; `session` has all of it run, and `charts` draws what came of it.

mod asked;
mod cache;
mod charts;
mod client;
mod crowd;
mod get;
mod layers;
#[cfg(target_arch = "x86_64")]
mod pipes;
mod places;
mod receive;
mod sandbox;
mod server;
mod session;
mod stream;

pub(crate) use cache::CacheServer;
pub(crate) use client::Asking;
pub(crate) use crowd::Busy;
pub(crate) use receive::{Flooding, Receiving};
pub(crate) use server::Counters;

use crate::experiment::cells::{in_rounds, some_cells};
use crate::experiment::figure::Figures;
pub use crate::experiment::figure::Report;
use crate::report::{self, Environment};
use crate::stage::LabStage;
use crate::stage::args::CommonArgs;
use exos_host::Result;
use get::Transport;
use session::Session;
use std::fmt;
use std::process::ExitCode;

/// Options of `exos bench ash`.
#[derive(clap::Args, Clone, Debug)]
pub struct AshArgs {
    /// How cells are chosen and told of.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// What is measured at once.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Roundtrip,
    Rate(u16),
    Receive(u16),
    Stream,
    Crowd(u32),
    Sandbox,
    Places,
    Layers,
    Pipes(u32),
    Get(Transport),
    Download,
}

impl Cell {
    /// A run of it.
    fn measure(self, session: &Session, figures: &mut Figures) -> Result<()> {
        match self {
            Self::Roundtrip => session.round_trips(figures),
            Self::Rate(bytes) => session.rates(self, bytes, figures),
            Self::Receive(bytes) => receive::measure(session, bytes, figures),
            Self::Crowd(programs) => session.crowd(self, programs, figures),
            Self::Stream => {
                stream::compare(session.is_quick, figures);
                Ok(())
            }
            Self::Sandbox => sandbox::compare(figures),
            Self::Places => places::compare(figures),
            Self::Layers => layers::compare(figures),
            #[cfg(target_arch = "x86_64")]
            Self::Pipes(bytes) => pipes::compare(bytes, session.is_quick, figures),
            // There is nothing to compare with.
            #[cfg(not(target_arch = "x86_64"))]
            Self::Pipes(_) => Ok(()),
            Self::Get(transport) => get::measure(session, transport, figures),
            Self::Download => session.download(figures),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Roundtrip => f.write_str("roundtrip"),
            Self::Rate(bytes) => write!(f, "rate/{bytes}"),
            Self::Receive(bytes) => write!(f, "receive/{bytes}"),
            Self::Stream => f.write_str("stream"),
            Self::Crowd(programs) => write!(f, "crowd/{programs}"),
            Self::Sandbox => f.write_str("sandbox"),
            Self::Places => f.write_str("places"),
            Self::Layers => f.write_str("layers"),
            Self::Pipes(bytes) => write!(f, "pipes/{bytes}"),
            Self::Get(transport) => write!(f, "get/{transport}"),
            Self::Download => f.write_str("download"),
        }
    }
}

/// Lengths of messages.
const LENGTHS: [u16; 3] = [12, 100, 1000];
/// Lengths of messages that are only received, to the most that an Ethernet frame carries.
const RECEIVED: [u16; 3] = [64, 512, 1472];
/// Lengths of messages that are passed through pipes.
const PASSED: [u32; 5] = [64, 256, 1472, 4096, 65536];
/// Programs that want the server's core.
const CROWDS: [u32; 4] = [1, 2, 5, 10];

fn cells(args: &AshArgs) -> Vec<Cell> {
    let rates = LENGTHS.map(Cell::Rate);
    let crowds = CROWDS.map(Cell::Crowd);
    let pipes = PASSED.map(Cell::Pipes);
    let receives = RECEIVED.map(Cell::Receive);
    let (lengths, receives, crowds, pipes) = match args.common.quick {
        true => (&rates[..1], &receives[2..], &crowds[..1], &pipes[..1]),
        false => (&rates[..], &receives[..], &crowds[..], &pipes[..]),
    };
    let alone = [
        Cell::Stream,
        Cell::Sandbox,
        Cell::Places,
        Cell::Layers,
        Cell::Download,
    ];
    let gets = [Transport::Udp, Transport::Tcp].map(Cell::Get);
    let all = [
        &[Cell::Roundtrip],
        lengths,
        receives,
        crowds,
        &alone,
        pipes,
        &gets,
    ]
    .concat();
    args.common.wanted(true, all)
}

/// Measures as asked, prints the table, and writes JSON and the page.
pub fn run(args: &AshArgs) -> Result<ExitCode> {
    let names = || cells(args).iter().map(Cell::to_string).collect();
    report::tell(&args.common, names, || measure(args))
}

/// Measures as asked: everything once before the first is repeated.
pub fn measure(args: &AshArgs) -> Result<Report> {
    let cells = some_cells(cells(args))?;
    let seconds = if args.common.quick { 0.5 } else { 2.0 };
    let session = Session {
        is_quick: args.common.quick,
        stage: LabStage::up(&args.common, seconds)?,
    };
    let figures = in_rounds(&session, &cells, Cell::to_string, |cell, figures| {
        cell.measure(&session, figures)
    })?;
    Ok(Report {
        environment: Environment::of(&session, session.seconds)?,
        figures,
        about: ("exos bench ash", "Handlers in the kernel"),
        charts: charts::of,
    })
}
