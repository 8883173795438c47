//! Responses that the kernel sent on connections which have come to this server before their clients acknowledged them.

use std::collections::HashMap;

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use crate::log::Line;

/// One of them.
#[derive(Debug)]
pub(super) struct Sent {
    /// Bytes of it.
    pub(super) len: u64,
    /// What the log says of it, if that is known, and when its request came; nothing where there is no log.
    pub(super) logged: Option<(Option<Line>, Instant)>,
    /// The connection is to end behind it.
    pub(super) closes: bool,
}

/// Those whose connections are about to be told of.
pub(super) type SentByKernel = HashMap<ConnectionId, Sent>;
