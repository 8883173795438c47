//! What is known when the program is made.

use crate::handler::forward::WayOut;
use exos_wire::Mac;
use exos_wire::tcp::cookie::Recipe;
use std::net::IpAddr;

/// Whose SYNs are answered, and how.
#[derive(Clone, Debug)]
pub struct SynHandler {
    /// The interface's link address.
    pub mac: Mac,
    /// Whose SYNs are answered.
    pub addresses: Vec<IpAddr>,
    /// Who cannot have sent a packet: addresses of ours, and those of all hosts of a network.
    pub not_from: Vec<IpAddr>,
    /// What the answers are made of.
    pub recipe: Recipe,
    /// Frames may come with the checksum left to a device: only the pseudo header's sum is in its field.
    pub may_be_partial: bool,
    /// SYNs are answered, too, that offer what the answer does not take up (ECN), or a cookie without timestamps does not keep (scale and
    /// SACK, but for Windows's, of whose MSS it may keep a little less). Otherwise these are the stack's, which takes up all.
    pub may_decline: bool,
    /// How answers leave.
    pub way_out: WayOut,
}
