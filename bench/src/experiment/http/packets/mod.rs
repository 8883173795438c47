//! A client of packets: visits a web server from the wire itself, with a TCP of its own that is as small as the
//! protocol allows, so that the server and the link are what limits and not the client.
//!
//! | file | what is in it |
//! |---|---|
//! | `connection` | one client's TCP: the states it goes through, without I/O |
//! | `early` | segments that came before their turn |
//! | `response` | what the server must answer, and the comparison with what it does |
//! | `tuples` | which local address and port a connection has |
//! | `steering` | which queue of the wire it uses |
//! | `frames` | segments from and to the wire, and ARP for our addresses |
//! | `schedule` | when requests are meant to begin, at a given rate |
//! | `visitors` | which connection asks next: one request after the other, or at that rate; slow readers |
//! | `visit` | the loop, and what was seen |
//! | `beside` | the server in the same loop, where both ends of something are wanted |
//! | `exchange` | the same frames without any protocol: the limit of the link |
//!
//! What it says cannot flatter a server: a request counts when its answer came whole, in order, with right checksums,
//! and byte for byte what was asked for; everything else is counted as what it is. How long the client itself had
//! something to do is measured, so that one sees who was waiting for whom.
//!
//! What it leaves out: selective acknowledgement, window scaling, and congestion control (its requests are one segment
//! each).

mod beside;
mod connection;
mod early;
mod exchange;
mod frames;
mod response;
mod schedule;
mod steering;
mod tuples;
mod visit;
mod visitors;

pub(super) use exchange::{Exchanged, Round};
pub(crate) use visit::Visited;

use super::Connection as Kind;
use crate::stage::print_measured;
use exos_host::{Error, Result};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::process::ExitCode;

/// What such a program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum PacketsRole {
    /// Visit a web server.
    Visit,
    /// Exchange frames with a program that answers, without any protocol.
    Exchange,
    /// Be that program.
    Answer,
}

/// Options of these programs, which `exos bench http` starts.
#[derive(clap::Args, Clone, Debug)]
pub struct PacketsArgs {
    /// What to do
    #[arg(value_enum)]
    pub(super) role: PacketsRole,
    /// Link address that frames go to
    #[arg(long)]
    pub(super) mac: exos_wire::Mac,
    /// Seconds to measure
    #[arg(long)]
    pub(super) seconds: f64,
    /// The server
    #[arg(long)]
    pub(super) to: Option<SocketAddrV4>,
    /// Bytes of the document to ask for
    #[arg(long, default_value_t = 0)]
    pub(super) size: u64,
    /// A connection for each request, or many requests on each
    #[arg(long, value_enum, default_value = "persistent")]
    pub(super) kind: Kind,
    /// Connections, or exchanges, at a time
    #[arg(long, default_value_t = 1)]
    pub(super) connections: u32,
    /// Requests a second; without it each connection asks again when it has its answer
    #[arg(long)]
    pub(super) rate: Option<f64>,
    /// Queues of the wire, over which connections are spread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) queues: u32,
    /// Milliseconds in which it sleeps between sending all that it has and taking in all that has come
    #[arg(long)]
    pub(super) pause: Option<u64>,
    /// Be the server too, on the wire in this namespace, in the same loop
    #[arg(long, requires = "server")]
    pub(super) server_netns: Option<String>,
    /// Where it is then
    #[arg(long)]
    pub(super) server: Option<SocketAddrV4>,
    /// Visit only when this file is there
    #[arg(long)]
    pub(super) go: Option<PathBuf>,
    /// A file to make when the server of its own is there
    #[arg(long)]
    pub(super) listening: Option<PathBuf>,
    /// Readers beside them that take one segment a second of a long document
    #[arg(long, default_value_t = 0)]
    pub(super) slow: u32,
    /// Bytes of that document
    #[arg(long, default_value_t = 0)]
    pub(super) slow_size: u64,
    /// Rounds of an exchange
    #[arg(long)]
    pub(super) rounds: Vec<Round>,
    /// A file to make when measuring begins
    #[arg(long)]
    pub(super) ready: Option<PathBuf>,
}

/// Does as the command line says.
pub fn packets(args: &PacketsArgs) -> Result<ExitCode> {
    match args.role {
        PacketsRole::Visit => print_measured(&visit::visit(args)?),
        PacketsRole::Exchange => print_measured(&exchange::exchange(args)?),
        PacketsRole::Answer => exchange::answer(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn server(args: &PacketsArgs) -> Result<SocketAddrV4> {
    args.to.ok_or(Error::new("a visit needs --to"))
}
