//! A program on several cores: a share of an interface's queues, a stack and a loop on each, and nothing shared between
//! them.
//!
//! [`Exos::attach`] opens all queues when [`Attachment::cores`](crate::Attachment) says how many, and gives the first
//! core's [`Exos`]; the others are taken from it ([`Exos::take_cores`]) and started, each in its own thread. A stack does
//! not know of the others. The interface spreads connections over its queues, all of which are opened, so that all that
//! comes is seen; what it brings to the wrong core is handed on ([`crate::handoff`]).
//!
//! All stacks accept connections on the same ports. Those that they open are from pairs of address and port that no other
//! of them chooses ([`exos_inet::Part`]); what answers them comes by whichever queue the device likes.
//!
//! A program on several interfaces opens each by itself ([`Core::open`]), and starts the first core of all ([`Core::lead`]). What
//! they bring is never another's: nothing is handed on between them. Nor is it between those of a program whose links a daemon lends:
//! each core has one, and the daemon's gate says whose a flow is.

use std::net::IpAddr;

use exos_filter::handler::SynHandler;
use exos_host::Error;
use exos_host::random::random_number;
use exos_inet::tcp::ListenOptions;
use exos_inet::{Config, Offload, Part, Stack};
use exos_link::{Link, Offload as LinkOffload, XdpLink};

use crate::attach::describe;
use crate::clock;
use crate::handlers::syn_handler;
use crate::handoff::Handoff;
use crate::host_tables::HostTables;
use crate::node::Exos;
pub use crate::share::Core;
use crate::share::{Kept, StackSettings};

impl Core {
    /// A stack on the core's queues, in the thread that calls.
    ///
    /// # Errors
    ///
    /// The host's tables cannot be read.
    pub fn start(self) -> Result<Exos, Error> {
        let mut exos = Exos::new(
            stack(self.config, self.seed, self.part)?,
            Link::Xdp(self.link),
        );
        exos.tables = self.tables.map(HostTables::new).transpose()?;
        exos.handoff = self.handoff;
        exos.kept = self.kept;
        exos.requests_part = self.requests;
        exos.syns_part = self.syns;
        if let Some(via) = self.via {
            exos.lent(via);
        }
        Ok(exos)
    }

    /// Starts the first of these in the thread that calls; the others are [taken](Exos::take_cores) from it, in this order. Where
    /// there are several interfaces, the cores of each stand together.
    ///
    /// # Errors
    ///
    /// There is none, or as [`start`](Self::start).
    pub fn lead(all: impl IntoIterator<Item = Self>) -> Result<Exos, Error> {
        let mut cores = all.into_iter();
        let first = cores.next().ok_or_else(|| Error::new("no interface"))?;
        let mut exos = first.start()?;
        exos.cores = cores.collect();
        Ok(exos)
    }

    /// What answers SYNs as a listener with these options on the core's stack does, once that has started.
    pub(crate) fn syn_handler(
        &self,
        port: u16,
        options: ListenOptions,
    ) -> Result<SynHandler, Error> {
        let mut stack = stack(self.config.clone(), self.seed, self.part)?;
        let listener = stack.tcp.listen(None, port, options);
        let listener = listener.expect("nobody else listens on this stack");
        syn_handler(&self.link, &mut stack, clock::now(), listener)
    }

    /// The interface.
    pub fn interface(&self) -> &str {
        self.link.name()
    }

    /// The stack's addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.config.addresses.iter().map(|(address, _)| *address)
    }

    /// What a person should know about the core's link, in a line.
    pub fn describe_link(&self) -> String {
        describe::xdp(&self.link)
    }
}

impl Exos {
    /// The other cores, to be started in threads of their own. Empty when asked for again.
    pub fn take_cores(&mut self) -> Vec<Core> {
        std::mem::take(&mut self.cores)
    }
}

/// The cores of an interface, one for each of these links. All are made with one seed, as [`Stack::handle_frame_among`] wants
/// it.
pub(crate) fn share_out(
    links: Vec<XdpLink>,
    config: Config,
    tables: Option<u32>,
    wanted: &StackSettings,
    kept: Kept,
) -> Result<Vec<Core>, Error> {
    let count = links.len();
    let offload = links.first().map(XdpLink::offload);
    let config = settle(config, offload.unwrap_or_default(), wanted);
    let seed = seed(wanted);
    let ends = match count {
        0 | 1 => Vec::new(),
        _ => Handoff::between(count)?,
    };
    let mut ends = ends.into_iter();
    let mut kept = Some(kept);
    let core = |(link, part)| Core {
        link,
        config: config.clone(),
        seed,
        tables,
        handoff: ends.next(),
        part,
        kept: kept.take().unwrap_or_default(),
        via: None,
        requests: None,
        syns: None,
    };
    let all = links.into_iter().zip(Part::all(count as u32));
    Ok(all.map(core).collect())
}

/// A stack on a link that is one core's.
pub(crate) fn join(link: Link, config: Config, wanted: &StackSettings) -> Result<Exos, Error> {
    let config = settle(config, link.offload(), wanted);
    let part = Part::all(1).next().expect("there is a first core");
    Ok(Exos::new(stack(config, seed(wanted), part)?, link))
}

/// The configuration with what the link does for the stack, as far as that is wanted.
fn settle(config: Config, offload: LinkOffload, wanted: &StackSettings) -> Config {
    Config {
        offload: Offload {
            checksum: offload.tx_checksum,
            segmentation: offload.tx_segmentation.filter(|_| wanted.segmentation),
            // Of this the link is asked in each turn.
            datagrams: false,
        },
        verify_checksums: wanted.verify_checksums,
        ..config
    }
}

pub(crate) fn seed(wanted: &StackSettings) -> u64 {
    wanted.seed.unwrap_or_else(random_number)
}

fn stack(config: Config, seed: u64, part: Part) -> Result<Stack, Error> {
    let mut stack = Stack::new(config, seed, clock::now()).map_err(|e| {
        Error::new(format!(
            "these addresses and routes do not fit together: {e}"
        ))
    })?;
    stack.tcp.set_local_part(part);
    Ok(stack)
}
