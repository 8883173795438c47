//! What is remembered of a connection's sequence numbers, and which resets they bear out.
//!
//! A reset that its receiver takes has the number that this expects next (RFC 5961 §3), which is what it last acknowledged. So
//! each end's last acknowledgement is noted, and a reset of the other end has to fit it: to be that number, or beyond it by what
//! may be under way ([`RESET_WINDOWS`]). Who forges a client's packets does not see what the server acknowledges, and cannot
//! change what is noted of it.
//!
//! - **Exactly that number** ends the connection for its receiver. What this has sent before, and comes later, changes nothing.
//! - **Beyond it**: what is under way may make it the right one. If not, the receiver says so, and the connection goes on.
//! - **Anything else** its receiver drops; so it says nothing of the flow, and does not keep it from ageing.
//!
//! What was never heard is not known: after a takeover, until both have spoken. Then a client's reset is not believed, and a server's
//! is. Where packets are also seen elsewhere, what is known is of old: a client's reset has to fit it all the same, a
//! server's is believed.
//!
//! Where the client alone is heard, its own numbers are all there is: a reset has to go on from where its last segment was.

use super::entry::{Flow, Marks};
use crate::limits::{REFUSALS_MAX, RESET_WINDOWS};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Who asked for it.
    Client,
    /// Who was asked.
    Server,
}

impl End {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a reset says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Its receiver believes it.
    Exact,
    /// It may.
    Within,
    /// It does not, or nothing shows that it does.
    Doubtful,
}

const HAS_RESET: u8 = 2;
const ANSWERED: u8 = 1 << 4;
const FAILED: u8 = 1 << 5;
/// The two bits above count the servers that have refused it.
const REFUSALS_SHIFT: u8 = 6;
const _: () = assert!(REFUSALS_MAX == u8::MAX >> REFUSALS_SHIFT);

impl Flow {
    /// What an end expects next of the other, by the last of its segments, is noted.
    #[inline]
    pub(super) fn note_expected(&mut self, by: End, number: u32) {
        self.expected[by as usize] = number;
        self.marks.0 |= by.bit();
    }

    #[inline]
    pub(crate) fn expects(&self, by: End) -> Option<u32> {
        let is_known = self.marks.0 & by.bit() != 0;
        is_known.then(|| self.expected[by as usize])
    }

    /// What a reset of this end with this number says.
    pub fn reset(&self, by: End, number: u32, is_seen_elsewhere: bool) -> Reset {
        let beyond = self
            .expects(by.other())
            .map(|expected| number.wrapping_sub(expected));
        match (by, beyond) {
            (_, Some(0)) => Reset::Exact,
            (End::Server, _) if is_seen_elsewhere => Reset::Within,
            (_, Some(beyond)) if beyond <= RESET_WINDOWS[by as usize] => Reset::Within,
            (_, Some(_)) | (End::Client, None) => Reset::Doubtful,
            (End::Server, None) => Reset::Within,
        }
    }

    /// True when this end has ended the connection for the other one too, which still has segments under way.
    #[inline]
    pub fn has_reset(&self, by: End) -> bool {
        self.marks.0 & by.bit() << HAS_RESET != 0
    }

    /// The server's SYN was seen: what acknowledges it is a proof.
    #[inline]
    pub fn is_answered(&self) -> bool {
        self.marks.0 & ANSWERED != 0
    }

    /// It has failed to begin, which counts once.
    pub fn has_failed(&self) -> bool {
        self.marks.0 & FAILED != 0
    }

    /// How many servers have refused it before this one.
    pub fn refusals(&self) -> u8 {
        self.marks.0 >> REFUSALS_SHIFT
    }

    /// It is what `before` was, with another server, which expects the client's number as the one before did. Each refusal is a failure of its
    /// server; that nobody has answered counts once, since that is also what a client sees to that forges its SYNs.
    pub(super) fn set_moved(&mut self, before: &Self, is_refused: bool) {
        if !is_refused {
            self.marks.0 |= before.marks.0 & FAILED;
        }
        let refusals = before.refusals() + u8::from(is_refused);
        self.marks.0 |= refusals.min(REFUSALS_MAX) << REFUSALS_SHIFT;
        if let Some(number) = before.expects(End::Server) {
            self.note_expected(End::Server, number);
        }
    }

    /// What a client says by itself is noted where it alone is heard: what goes on from before.
    #[inline]
    pub(super) fn note_own(&mut self, number: u32) {
        let goes_on = |before: u32| number.wrapping_sub(before) <= RESET_WINDOWS[0];
        if self.expects(End::Server).is_none_or(goes_on) {
            self.note_expected(End::Server, number);
        }
    }

    /// Whether this end has reset the connection with the exact number.
    pub(super) fn set_has_reset(&mut self, by: End, has: bool) {
        let bit = by.bit() << HAS_RESET;
        self.marks.0 = self.marks.0 & !bit | if has { bit } else { 0 };
    }

    pub(super) fn set_answered(&mut self, isn: u32) {
        self.server_isn = isn;
        self.marks.0 |= ANSWERED;
    }

    pub(super) fn set_failed(&mut self) {
        self.marks.0 |= FAILED;
    }

    /// Another connection begins between the same ends: nothing is known of it.
    pub(super) fn forget_numbers(&mut self) {
        self.marks = Marks::default();
    }
}
