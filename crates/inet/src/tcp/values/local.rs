//! What the stack knows and a new connection needs.

use crate::limits::{MSS_DEFAULT_V4, MSS_DEFAULT_V6};
use crate::tcp::values::flow::Flow;

/// What the stack knows and a new connection needs.
#[derive(Copy, Clone, Debug)]
pub struct Local {
    /// The MSS to announce: what the link's MTU leaves for data (RFC 9293 §3.7.1).
    pub mss: u16,
}

impl Local {
    /// The MSS of a peer that names none (RFC 9293 §3.7.1).
    pub(in crate::tcp) fn mss_default(&self, flow: &Flow) -> u16 {
        let default = if flow.is_ipv6() {
            MSS_DEFAULT_V6
        } else {
            MSS_DEFAULT_V4
        };
        default.min(self.mss)
    }
}
