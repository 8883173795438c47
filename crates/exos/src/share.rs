//! What a core has of an interface before its thread runs: its link, and what its stack is made of.

use std::sync::Arc;

use exos_filter::Rule;
use exos_host::multicast::Memberships;
use exos_host::ports::Reservation;
use exos_inet::{Config, Part};
use exos_link::XdpLink;

use crate::handoff::Handoff;
use crate::node::syn_answers::OnInterface;
use crate::requests;
use crate::via::Via;

/// How the stack on a link behaves, whichever link it is.
pub(crate) struct StackSettings {
    /// Hand over large segments to be cut by the link, where it can.
    pub(crate) segmentation: bool,
    /// Verify the TCP and UDP checksums of what comes, where the link has not.
    pub(crate) verify_checksums: bool,
    /// What numbers follow from that nobody is to foretell; `None` draws a secret.
    pub(crate) seed: Option<u64>,
}

/// What a core's thread begins with.
pub struct Core {
    pub(crate) link: XdpLink,
    pub(crate) config: Config,
    pub(crate) seed: u64,
    /// The interface whose host's tables say the next hops, where they do.
    pub(crate) tables: Option<u32>,
    /// Its place among the interface's cores, where there are several.
    pub(crate) handoff: Option<Handoff>,
    /// Of the pairs of address and port.
    pub(crate) part: Part,
    pub(crate) kept: Kept,
    /// The daemon that lends the link, where one does.
    pub(crate) via: Option<Via>,
    /// Its part in what its interface's first core has answered in the kernel.
    pub(crate) requests: Option<requests::Part>,
    /// Its part in SYNs that are answered there.
    pub(crate) syns: Option<SynsPart>,
}

/// What the cores of an interface know together of what answers their SYNs, and whether a core is the first of these.
pub(crate) type SynsPart = (Arc<OnInterface>, bool);

/// What belongs to an interface and stays for as long as its first core runs.
#[derive(Default)]
pub(crate) struct Kept {
    /// What is taken of what comes by it, for our addresses.
    pub(crate) rules: Vec<Rule>,
    /// Ports of the host that must not be answered by it.
    pub(crate) _reservations: Vec<Reservation>,
    /// The groups in which others ask for our IPv6 addresses.
    pub(crate) _memberships: Option<Memberships>,
}
