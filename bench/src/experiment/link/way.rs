//! The ways of sending frames that are compared.

use crate::stage::args::shown_as_on_the_command_line;
use crate::stage::link::LinkWay;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How frames leave.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// AF_XDP's transmit ring
    Ring,
    /// Live frame mode, whatever the batch
    Live,
    /// The ring or live frame mode, whichever has cost less: a link's default
    Cheaper,
    /// UDP sockets, many datagrams in a system call
    Socket,
    /// iperf3 with UDP
    Iperf3,
    /// DPDK's testpmd with its driver of packet sockets
    DpdkPacket,
    /// DPDK's testpmd with its driver of AF_XDP
    DpdkXdp,
}

shown_as_on_the_command_line!(Way);

impl Way {
    /// Those of an AF_XDP link.
    pub(super) fn of_link(self) -> Option<LinkWay> {
        match self {
            Self::Ring => Some(LinkWay::Ring),
            Self::Live => Some(LinkWay::Live),
            Self::Cheaper => Some(LinkWay::Cheaper),
            Self::Socket | Self::Iperf3 | Self::DpdkPacket | Self::DpdkXdp => None,
        }
    }
}
