//! How much is answered in the kernel.

use exos_filter::handler::web::layout::{Entries, RESPONSE_MAX};
use exos_inet::limits::CONNECTIONS_MAX;

use crate::{Error, ErrorKind};

/// How much the kernel answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Requests: a power of two from 4 to 65,536. Each has four places that it may be in, so with half as many hardly one has none.
    pub requests: u32,
    /// Bytes of a response: a multiple of 8, [`Requests::RESPONSE_MAX`](super::Requests::RESPONSE_MAX) at most.
    pub response_max: usize,
    /// Requests that nobody has asked for some 10 s go.
    pub forgets: bool,
    /// Requests are HTTP's: one that is not answered as it is, is answered as without the lines that no answer depends on ([`reduce`](super::reduce)).
    pub http: bool,
    /// Connections that the kernel's part and the stack have at once, together.
    pub connections: u32,
    /// How many of them one peer may have, which is an IPv4 address or an IPv6 network of 64 bits. What the program has of those it says
    /// ([`Requests::peer_room`](super::Requests::peer_room)); of what was taken on it need not.
    pub peer_connections: Option<u32>,
}

impl Capacity {
    /// Documents, as a web server has them.
    pub const DOCUMENTS: Self = Self {
        requests: 1024,
        response_max: RESPONSE_MAX,
        forgets: true,
        http: true,
        connections: CONNECTIONS_MAX as u32,
        peer_connections: None,
    };

    pub(super) fn entries(self) -> Result<Entries, Error> {
        let entries = Entries {
            count: self.requests.into(),
            response_max: self.response_max,
        };
        if entries.is_valid() {
            return Ok(entries);
        }
        let error = Error::new(format!(
            "{} requests with responses of {} bytes cannot be answered in the kernel",
            self.requests, self.response_max
        ));
        let mend = format!(
            "say a power of two from 4 to 65536, and a multiple of 8 to {}",
            RESPONSE_MAX
        );
        Err(error.mend(mend).of_kind(ErrorKind::Invalid))
    }
}
