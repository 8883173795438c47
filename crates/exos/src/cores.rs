//! A program on several cores: a share of the interface's queues, a stack and a loop on each, and nothing shared between
//! them.
//!
//! [`Exos::attach`] opens all queues when [`Attachment::cores`](crate::Attachment) says how many, and gives the first
//! core's [`Exos`]; the others are taken from it ([`Exos::take_cores`]) and started, each in its own thread. A stack does
//! not know of the others. The interface spreads connections over its queues, all of which are opened, so that all that
//! comes is seen; what it brings to the wrong core is handed on ([`crate::handoff`]).
//!
//! All stacks accept connections on the same ports. Those that they open are from pairs of address and port that no other
//! of them chooses ([`exos_inet::Part`]); what answers them comes by whichever queue the device likes.

use exos_host::Error;
use exos_inet::{Config, Offload, Part, Stack};
use exos_link::{Link, XdpLink};

use crate::attach::Attachment;
use crate::clock;
use crate::handoff::Handoff;
use crate::host_tables::HostTables;
use crate::node::Exos;

/// What a core's thread begins with.
pub struct Core {
    pub(crate) link: XdpLink,
    pub(crate) config: Config,
    pub(crate) seed: u64,
    /// The interface whose host's tables say the next hops, where they do.
    pub(crate) tables: Option<u32>,
    pub(crate) handoff: Handoff,
    /// Of the pairs of address and port.
    pub(crate) part: Part,
}

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
        exos.handoff = Some(self.handoff);
        Ok(exos)
    }
}

impl Exos {
    /// The other cores, to be started in threads of their own. Empty when asked for again.
    pub fn take_cores(&mut self) -> Vec<Core> {
        std::mem::take(&mut self.cores)
    }
}

/// A stack on a link for each core: the first as it is, the others to be started. All are made with one seed, as
/// [`Stack::handle_frame_among`] wants it.
pub(crate) fn join(
    first: Link,
    others: Vec<XdpLink>,
    mut config: Config,
    tables: Option<u32>,
    wanted: &Attachment,
) -> Result<Exos, Error> {
    let offload = first.offload();
    config.offload = Offload {
        checksum: offload.tx_checksum,
        segmentation: offload.tx_segmentation.filter(|_| wanted.segmentation),
    };
    config.verify_checksums = wanted.verify_checksums;
    let seed = wanted.seed.map_or_else(secret, Ok)?;
    let mut parts = Part::all(1 + others.len() as u32);
    let part = parts.next().expect("there is a first core");
    let mut exos = Exos::new(stack(config.clone(), seed, part)?, first);
    exos.tables = tables.map(HostTables::new).transpose()?;
    if others.is_empty() {
        return Ok(exos);
    }
    let mut ends = Handoff::between(others.len() + 1)?.into_iter();
    exos.handoff = ends.next();
    let core = |((link, handoff), part)| Core {
        link,
        config: config.clone(),
        seed,
        tables,
        handoff,
        part,
    };
    let others = others.into_iter().zip(ends).zip(parts);
    exos.cores = others.map(core).collect();
    Ok(exos)
}

fn secret() -> Result<u64, Error> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::io("cannot draw a secret for sequence numbers", e))?;
    Ok(u64::from_le_bytes(seed))
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
