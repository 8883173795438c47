//! What has passed between two ends, for packets of connections that are not known: whether they are QUIC's, and why they are not decrypted.
//!
//! A long header of a known version is QUIC's. A short header says it by two bits alone (RFC 9000 §17.3.1), of which the ends may have agreed
//! to send one as they like (RFC 9287), and others have them, too: it is QUIC's between ends that have sent long ones, and maybe on HTTP's
//! port with both bits. It is not where one of the ends has sent what is known as another protocol's (RFC 9443 §3).

use super::shown::Certainty;
use super::{Datagram, FIXED, LONG, SHORT_LEN_MIN, is_https};
use crate::decrypt::{Ends, Recent, either_way};
use crate::limits::QUIC_PATHS_MAX;

/// Of STUN, four bytes behind its first (RFC 8489 §5).
const STUN_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
/// With which a client of OpenVPN begins. Its server's answer, and data, have the bits of a short header.
const OPENVPN_CLIENT_RESET: u8 = 7 << 3;

/// What has passed between two ends, whichever way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    /// Packets with long headers.
    pub(super) has_long: bool,
    /// The first packet of a connection.
    pub(super) has_first: bool,
    /// Datagrams of another protocol.
    has_others: bool,
    /// It was said that a datagram may be QUIC's.
    is_maybe: bool,
    /// It was said why packets are not decrypted.
    pub(super) was_told: bool,
}

/// The ends between which there was something of it.
#[derive(Debug, Default)]
pub(super) struct Paths(Recent<Ends, Path, QUIC_PATHS_MAX>);

impl Paths {
    /// What has passed between these ends, to be noted down.
    pub(super) fn between(&mut self, ends: Ends) -> &mut Path {
        self.0.find_or_default(either_way(ends))
    }

    /// Packets with long headers have passed between these ends.
    pub(super) fn has_long(&mut self, ends: Ends) -> bool {
        self.0.find(either_way(ends)).is_some_and(|it| it.has_long)
    }

    /// Notes a datagram down that has no long header and is of no connection that is known, and judges whether it is QUIC's; `None` where it
    /// is not.
    pub(super) fn judge_short(&mut self, datagram: &Datagram<'_>) -> Option<Certainty> {
        let ends = (datagram.from, datagram.to);
        let &first = datagram.bytes.first()?;
        let is_short = first & LONG == 0 && datagram.len >= SHORT_LEN_MIN;
        let is_stun = datagram.bytes.get(4..8) == Some(&STUN_COOKIE);
        if self.has_long(ends) {
            return (is_short && !is_stun).then_some(Certainty::Certain);
        }
        if !is_https(ends) {
            return None;
        }
        let path = self.between(ends);
        // QUIC's own packets have marks of some others by chance: these count before it alone.
        path.has_others |= is_stun || !path.is_maybe && has_mark_of_others(datagram);
        if path.has_others || !is_short || first & FIXED == 0 {
            return None;
        }
        path.is_maybe = true;
        Some(Certainty::Maybe)
    }
}

/// DTLS, OpenVPN, or data of a TURN channel (RFC 8656 §12.4): of that a number from 0x4000 to 0x4fff, and the length of the data behind it,
/// which may be padded to a multiple of four.
fn has_mark_of_others(datagram: &Datagram<'_>) -> bool {
    match datagram.bytes {
        [0x14..=0x3f, 0xfe, ..] | [OPENVPN_CLIENT_RESET, ..] => true,
        &[0x40..=0x4f, _, high, low, ..] => {
            let len = 4 + usize::from(u16::from_be_bytes([high, low]));
            datagram.len == len || datagram.len == len.next_multiple_of(4)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// However many others there are, those of which connections speak stay.
    #[test]
    fn ends_that_speak_are_remembered() {
        let mut paths = Paths::default();
        let end = |nth: u32| (Ipv4Addr::from(nth).into(), 443);
        paths.between((end(1), end(0))).was_told = true;
        for nth in 0..4 * QUIC_PATHS_MAX as u32 {
            paths.between((end(nth + 2), end(0))).has_long = true;
            if nth % 1000 == 0 {
                assert!(paths.between((end(0), end(1))).was_told, "{nth}");
            }
        }
        assert!(!paths.has_long((end(2), end(0))));
    }
}
