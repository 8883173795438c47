//! What a server or the wire does to segments, and what a load has to say of it: each request alike, each on a connection of
//! its own.

use std::time::Duration;

use exos_webswamp::statistics::ErrorKind;
use exos_wire::tcp::TcpFlags;

use crate::raw::peer::{Damage, OK, Script, Talk};

/// A script, and what becomes of each request.
pub struct Case {
    pub name: &'static str,
    pub script: Script,
    /// How it fails; `None` when it is answered.
    pub error: Option<ErrorKind>,
    /// Milliseconds from its begin until its connection stands; `None` when it never does.
    pub connect_millis: Option<u64>,
    /// Until the first byte of its response, and until the last.
    pub first_millis: u64,
    pub last_millis: u64,
    /// Segments that are sent again for it; `None` where that follows from the peer's count alone.
    pub sent_again: Option<u64>,
    /// Counters of the stack, and what each request adds to them.
    pub counters: &'static [(&'static str, u64)],
}

/// Until a request is given up.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A round trip to the handshake, another to the response.
const GOOD: Case = Case {
    name: "a good server",
    script: |talk| talk.well(),
    error: None,
    connect_millis: Some(2),
    first_millis: 4,
    last_millis: 4,
    sent_again: Some(0),
    counters: &[
        ("tcp_connected", 1),
        ("drop_tcp_checksum", 0),
        ("tcp_duplicate_data", 0),
    ],
};

/// How long a peer waits before it says again what was not acknowledged.
const AGAIN: Duration = Duration::from_millis(200);

/// The response, wrong at first and right when it is said again.
fn first_damaged(talk: &mut Talk<'_>, damage: Damage) {
    if !talk.heard.is_request() {
        return talk.well();
    }
    let flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN;
    talk.say(Duration::ZERO, flags, talk.flow.next, OK, damage);
    talk.answer(AGAIN, OK);
}

/// Does this instead of an answer.
fn instead(talk: &mut Talk<'_>, what: fn(&mut Talk<'_>)) {
    if talk.heard.is_request() {
        what(talk);
    } else {
        talk.well();
    }
}

/// Does this and answers well.
fn before(talk: &mut Talk<'_>, what: fn(&mut Talk<'_>)) {
    if talk.heard.is_request() {
        what(talk);
    }
    talk.well();
}

fn say_reset(talk: &mut Talk<'_>, beyond: u32) {
    let flags = TcpFlags::RST | TcpFlags::ACK;
    talk.say(
        Duration::ZERO,
        flags,
        talk.flow.next + beyond,
        "",
        Damage::None,
    );
}

const HALF: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";

pub const CASES: [Case; 20] = [
    GOOD,
    Case {
        name: "an IP header with a wrong checksum, and right when it comes again",
        script: |talk| first_damaged(talk, Damage::IpChecksum),
        first_millis: 204,
        last_millis: 204,
        sent_again: None,
        counters: &[("drop_ipv4_checksum", 1), ("drop_tcp_checksum", 0)],
        ..GOOD
    },
    Case {
        name: "a segment with a wrong checksum, and right when it comes again",
        script: |talk| first_damaged(talk, Damage::TcpChecksum),
        first_millis: 204,
        last_millis: 204,
        sent_again: None,
        counters: &[("drop_ipv4_checksum", 0), ("drop_tcp_checksum", 1)],
        ..GOOD
    },
    Case {
        name: "nothing but wrong checksums",
        script: |talk| {
            instead(talk, |talk| {
                let flags = TcpFlags::ACK | TcpFlags::PSH;
                for again in 0..5 {
                    talk.say(
                        AGAIN * again,
                        flags,
                        talk.flow.next,
                        OK,
                        Damage::TcpChecksum,
                    );
                }
            });
        },
        error: Some(ErrorKind::Timeout),
        sent_again: None,
        counters: &[("drop_tcp_checksum", 5), ("tcp_aborted", 1)],
        ..GOOD
    },
    // RFC 6298 §2.1 and §5.5: after 1, 3 and 7 seconds.
    Case {
        name: "SYNs that nobody answers",
        script: |_| (),
        error: Some(ErrorKind::ConnectTimeout),
        connect_millis: None,
        sent_again: Some(3),
        counters: &[("tcp_connected", 0), ("tcp_timeouts", 3)],
        ..GOOD
    },
    Case {
        name: "a SYN-ACK that is lost",
        script: |talk| {
            if !talk.heard.is_syn() || talk.flow.syns == 2 {
                talk.well();
            }
        },
        connect_millis: Some(1002),
        first_millis: 1004,
        last_millis: 1004,
        sent_again: Some(1),
        counters: &[("tcp_connected", 1)],
        ..GOOD
    },
    Case {
        name: "a SYN-ACK and nothing after it",
        script: |talk| {
            if talk.heard.is_syn() {
                talk.well();
            }
        },
        error: Some(ErrorKind::Timeout),
        sent_again: None,
        counters: &[
            ("tcp_connected", 1),
            ("tcp_aborted", 1),
            ("tcp_resets_sent", 1),
        ],
        ..GOOD
    },
    Case {
        name: "a reset for an answer to the SYN",
        script: |talk| say_reset(talk, 0),
        error: Some(ErrorKind::Refused),
        connect_millis: None,
        counters: &[("tcp_connected", 0), ("tcp_reset_received", 1)],
        ..GOOD
    },
    Case {
        name: "a reset in the middle of a response",
        script: |talk| {
            instead(talk, |talk| {
                talk.say_some(Duration::ZERO, HALF);
                say_reset(talk, 0);
            });
        },
        error: Some(ErrorKind::Reset),
        counters: &[("tcp_reset_received", 1), ("tcp_resets_sent", 0)],
        ..GOOD
    },
    // RFC 9293 §3.10.7.4, first: what lies outside of the window is dropped.
    Case {
        name: "a reset outside of the window",
        script: |talk| before(talk, |talk| say_reset(talk, 0x4000_0000)),
        counters: &[("drop_tcp_out_of_window", 1), ("tcp_reset_received", 0)],
        ..GOOD
    },
    // RFC 5961 §3.2: the peer is asked whether it means it; one that does not goes on.
    Case {
        name: "a reset in the window, but not where it should be",
        script: |talk| before(talk, |talk| say_reset(talk, 100)),
        counters: &[
            ("drop_tcp_reset_challenged", 1),
            ("tcp_challenges_sent", 1),
            ("tcp_reset_received", 0),
        ],
        ..GOOD
    },
    // RFC 1122 §4.2.3.9: a hard error while a connection is being opened ends it.
    Case {
        name: "a port that is unreachable",
        script: |talk| talk.unreachable(3),
        error: Some(ErrorKind::Unreachable),
        connect_millis: None,
        counters: &[("icmp_errors_received", 1), ("tcp_connected", 0)],
        ..GOOD
    },
    // RFC 1122 §4.2.3.9: a hint, no more.
    Case {
        name: "a host that is said to be unreachable while it answers",
        script: |talk| before(talk, |talk| talk.unreachable(1)),
        counters: &[("icmp_errors_received", 1), ("tcp_connected", 1)],
        ..GOOD
    },
    Case {
        name: "half a response, and then nothing",
        script: |talk| instead(talk, |talk| talk.say_some(Duration::ZERO, HALF)),
        error: Some(ErrorKind::Timeout),
        counters: &[("tcp_aborted", 1), ("tcp_resets_sent", 1)],
        ..GOOD
    },
    Case {
        name: "half a head, and then nothing",
        script: |talk| instead(talk, |talk| talk.say_some(Duration::ZERO, &HALF[..20])),
        error: Some(ErrorKind::Timeout),
        counters: &[("tcp_aborted", 1)],
        ..GOOD
    },
    Case {
        name: "less content than the head says",
        script: |talk| instead(talk, |talk| talk.answer(Duration::ZERO, HALF)),
        error: Some(ErrorKind::Closed),
        counters: &[("tcp_reset_received", 0)],
        ..GOOD
    },
    Case {
        name: "a response in two, the second a second later",
        script: |talk| {
            instead(talk, |talk| {
                talk.say_some(Duration::ZERO, HALF);
                talk.answer(Duration::from_secs(1), "llo");
            });
        },
        last_millis: 1004,
        counters: &[("tcp_duplicate_data", 0)],
        ..GOOD
    },
    Case {
        name: "a response that comes twice",
        script: |talk| {
            instead(talk, |talk| {
                let flags = TcpFlags::ACK | TcpFlags::PSH;
                talk.say(Duration::ZERO, flags, talk.flow.next, HALF, Damage::None);
                talk.say_some(Duration::ZERO, HALF);
                talk.answer(Duration::from_millis(10), "llo");
            });
        },
        last_millis: 14,
        counters: &[("tcp_duplicate_data", 1)],
        ..GOOD
    },
    Case {
        name: "a response whose parts come in the wrong order",
        script: |talk| {
            instead(talk, |talk| {
                let at = talk.flow.next;
                talk.flow.next += HALF.len() as u32;
                talk.answer(Duration::ZERO, "llo");
                let flags = TcpFlags::ACK | TcpFlags::PSH;
                talk.say(Duration::from_millis(10), flags, at, HALF, Damage::None);
            });
        },
        first_millis: 14,
        last_millis: 14,
        counters: &[("tcp_out_of_order", 1)],
        ..GOOD
    },
    Case {
        name: "a window of zero for a second",
        script: |talk| {
            if talk.heard.is_syn() {
                talk.take_and_open(Duration::from_secs(1));
            } else {
                talk.well();
            }
        },
        // The window opens a second after the SYN was heard.
        first_millis: 1004,
        last_millis: 1004,
        // RFC 9293 §3.8.6.1: probes after 200 ms, the least time-out, and after twice that; then the whole request.
        sent_again: Some(2),
        counters: &[("tcp_connected", 1), ("tcp_window_probes", 2)],
        ..GOOD
    },
];
