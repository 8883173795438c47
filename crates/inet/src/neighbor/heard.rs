//! What is to be done about a message of ARP or Neighbor Discovery.

/// What a message about neighbours leads to.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Frames that waited for its sender, and can leave.
    pub released: Vec<Vec<u8>>,
    /// What it is answered with.
    pub answer: Option<Answer>,
    /// Every stack with our addresses should hear of it.
    pub for_every_stack: bool,
}

/// An answer to a question for one of our addresses.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A complete frame.
    Frame(Vec<u8>),
    /// An ICMPv6 message to a neighbour whose link address has to be found out first.
    Message {
        from: std::net::Ipv6Addr,
        to: std::net::Ipv6Addr,
        bytes: Vec<u8>,
    },
}
