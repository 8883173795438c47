//! What a program says of a connection before it opens.

use crate::limits::{KEEPALIVE_COUNT, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL};
use crate::tcp::congestion::algorithm::Algorithm;
use crate::tcp::values::codec::{HandoverError, Wire, travel};
use crate::tcp::values::ecn::EcnMode;
use crate::tcp::values::ip::IpFields;
use crate::time::Duration;

/// What a connection is opened with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes that may be received and not taken by the program, at first.
    pub receive_buffer_bytes: u32,
    /// Up to this many when the path delivers more and the program takes it. No more than
    /// `receive_buffer_bytes`: it does not grow.
    pub receive_buffer_max_bytes: u32,
    /// Wait with less than a full segment while data is in flight (Nagle, RFC 9293 §3.7.4). Off:
    /// programs here hand over whole messages.
    pub nagle: bool,
    /// Offer selective acknowledgements, and send them where the peer offers them too (RFC 2018).
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: EcnMode,
    /// What goes into the IP headers of its segments.
    pub ip: IpFields,
    /// Congestion control.
    pub congestion: Algorithm,
    /// Ask a silent peer whether it is still there (RFC 1122 §4.2.3.6). `None`, the default, never.
    pub keepalive: Option<Keepalive>,
    /// Give up when sent data stays unacknowledged for so long, instead of after a number of
    /// retransmissions (RFC 9293 §3.8.3).
    pub user_timeout: Option<Duration>,
}

impl Options {
    /// The usual ones, with a receive buffer of just this many bytes.
    pub fn with_receive_buffer(bytes: u32) -> Self {
        Self {
            receive_buffer_bytes: bytes,
            receive_buffer_max_bytes: bytes,
            ..Self::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            receive_buffer_bytes: crate::limits::RECEIVE_BUFFER_BYTES,
            receive_buffer_max_bytes: crate::limits::RECEIVE_BUFFER_BYTES_MAX,
            nagle: false,
            sack: true,
            ecn: EcnMode::default(),
            ip: IpFields::default(),
            congestion: Algorithm::default(),
            keepalive: None,
            user_timeout: None,
        }
    }
}

/// When to ask a silent peer whether it is still there.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Keepalive {
    /// Silence before the first question.
    pub idle: Duration,
    /// Time between questions.
    pub interval: Duration,
    /// Questions without an answer after which the connection is given up.
    pub count: u8,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: KEEPALIVE_IDLE,
            interval: KEEPALIVE_INTERVAL,
            count: KEEPALIVE_COUNT,
        }
    }
}

impl Keepalive {
    /// To or from another stack.
    pub(in crate::tcp) fn travel(&mut self, wire: &mut Wire<'_>) -> Result<(), HandoverError> {
        travel!(wire, self => Keepalive {
            idle: duration,
            interval: duration,
            count: u8,
        } by_hand {} stay {});
        Ok(())
    }
}
