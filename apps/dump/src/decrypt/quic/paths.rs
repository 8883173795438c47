//! What has passed between two ends, for packets of connections that are not known: whether they are QUIC's, and why they are not decrypted.
//!
//! A long header of a known version is QUIC's. A short header says it by two bits alone (RFC 9000 §17.3.1), which OpenVPN and TURN have, too:
//! it is QUIC's between ends that have sent long ones, and maybe on HTTP's port. It is not where one of the ends has sent what begins as no
//! packet of QUIC does (RFC 9443 §3), or data of a TURN channel (RFC 8656 §12.4).

use std::collections::HashMap;

use super::shown::Certainty;
use super::{Datagram, FIXED, LONG, SHORT_LEN_MIN, is_https};
use crate::decrypt::{Ends, either_way};
use crate::limits::QUIC_PATHS_MAX;

/// What has passed between two ends, whichever way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    /// Packets with long headers.
    pub(super) has_long: bool,
    /// The first packet of a connection.
    pub(super) has_first: bool,
    /// Datagrams of another protocol.
    pub(super) has_others: bool,
    /// It was said why packets are not decrypted.
    pub(super) was_told: bool,
}

/// The ends between which there was something of it.
#[derive(Debug, Default)]
pub(super) struct Paths(HashMap<Ends, Path>);

impl Paths {
    /// What has passed between these ends, to be noted down. Where there are too many, all others are forgotten.
    pub(super) fn between(&mut self, ends: Ends) -> &mut Path {
        let ends = either_way(ends);
        if self.0.len() >= QUIC_PATHS_MAX && !self.0.contains_key(&ends) {
            self.0.clear();
        }
        self.0.entry(ends).or_default()
    }

    /// Whether a datagram without a long header, which is of no connection that is known, is QUIC's; `None` where it is not.
    pub(super) fn of_short(&mut self, datagram: &Datagram<'_>) -> Option<Certainty> {
        let ends = (datagram.from, datagram.to);
        let known = self.0.get(&either_way(ends)).copied().unwrap_or_default();
        let &first = datagram.bytes.first()?;
        let is_short = first & (LONG | FIXED) == FIXED && datagram.len >= SHORT_LEN_MIN;
        if known.has_long {
            return is_short.then_some(Certainty::Certain);
        }
        if known.has_others || !is_https(ends) {
            return None;
        }
        if first & FIXED == 0 || is_of_turn_channel(datagram) {
            self.between(ends).has_others = true;
            return None;
        }
        is_short.then_some(Certainty::Maybe)
    }
}

/// A channel's number, from 0x4000 to 0x4fff, and the length of the data behind it, which may be padded to a multiple of four.
fn is_of_turn_channel(datagram: &Datagram<'_>) -> bool {
    let &[0x40..=0x4f, _, high, low, ..] = datagram.bytes else {
        return false;
    };
    let len = 4 + usize::from(u16::from_be_bytes([high, low]));
    datagram.len == len || datagram.len == len.next_multiple_of(4)
}
