//! What becomes of a frame, and of first packets that no server is to have.

use std::net::IpAddr;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is rewritten but for the link addresses, and goes to this host.
    Onward(IpAddr),
    /// Others were made of it, which go on in its place: [`poll_made`](super::Forwarder::poll_made).
    Generated,
    /// A copy of it waits for another that has to go first.
    Held,
    /// It is dropped, and counted, and its sender is told by a frame that was made.
    Answered,
    /// It is not the forwarder's: unchanged, for the stack.
    Stack,
    /// It is dropped, and counted.
    Drop,
}

impl Verdict {
    /// True when the packet goes on, as it is or in others.
    pub const fn goes_on(self) -> bool {
        matches!(self, Self::Onward(_) | Self::Generated)
    }
}

/// What becomes of first packets while no server is to have any.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoServer {
    /// Answer with a TCP reset or an ICMP error: the client knows at once
    #[default]
    Reset,
    /// Drop the packet: the client retries for a while
    Hold,
}

/// A packet to a listener that is of no flow.
pub(super) enum NoFlow {
    /// It goes on to this server all the same.
    To(u16),
    /// It becomes this.
    Becomes(Verdict),
}
