//! Each way in which a server answers or does not, and what is to be seen of it.

use exos_webswamp::statistics::ErrorKind;

use crate::faults::server::{Peer, Script};

/// A script, a load, and what comes of them.
pub struct Case {
    pub name: &'static str,
    pub script: Script,
    pub options: &'static str,
    pub responses: u64,
    /// Bytes of content of these.
    pub content: u64,
    pub errors: &'static [(ErrorKind, u64)],
    /// Connections, for us and for the server.
    pub connections: u64,
    /// Requests that the server took in.
    pub requests: u64,
    /// No response's first byte came earlier,
    pub first_millis: u64,
    /// nor its last.
    pub last_millis: u64,
}

/// A response of five bytes.
pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Four requests of one client, one after the other, in time enough for any machine.
const FOUR: &str = "-n 4 -c 1 --timeout 100s";

const PIPELINED: &str = "-n 40 -c 1 --timeout 100s --pipeline 4";

const CLOSING: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";

/// Four good responses on a connection; cases say what is other.
const GOOD: Case = Case {
    name: "answers",
    script: |peer| answer(peer, |peer| peer.say(OK)),
    options: FOUR,
    responses: 4,
    content: 20,
    errors: &[],
    connections: 1,
    requests: 4,
    first_millis: 0,
    last_millis: 0,
};

/// Four that all fail, each on a connection of its own.
const fn bad(name: &'static str, script: Script, errors: &'static [(ErrorKind, u64)]) -> Case {
    Case {
        name,
        script,
        responses: 0,
        content: 0,
        errors,
        connections: 4,
        ..GOOD
    }
}

/// Does this for each request.
fn answer(peer: &mut Peer, each: fn(&mut Peer)) {
    while peer.request().is_some() {
        each(peer);
    }
}

const RESET: &[(ErrorKind, u64)] = &[(ErrorKind::Reset, 4)];
const CLOSED: &[(ErrorKind, u64)] = &[(ErrorKind::Closed, 4)];
const MALFORMED: &[(ErrorKind, u64)] = &[(ErrorKind::Malformed, 4)];

pub const CASES: [Case; 29] = [
    GOOD,
    Case {
        name: "answers several clients",
        options: "-n 60 -c 3 --timeout 100s",
        responses: 60,
        content: 300,
        connections: 3,
        requests: 60,
        ..GOOD
    },
    Case {
        name: "takes its time",
        script: |peer| {
            answer(peer, |peer| {
                peer.sleep(30);
                peer.say(OK);
            });
        },
        first_millis: 30,
        last_millis: 30,
        ..GOOD
    },
    Case {
        name: "takes its time in the middle",
        script: |peer| {
            answer(peer, |peer| {
                peer.say(&OK[..OK.len() - 3]);
                peer.sleep(30);
                peer.say(&OK[OK.len() - 3..]);
            });
        },
        last_millis: 30,
        ..GOOD
    },
    Case {
        name: "takes its time in the head",
        script: |peer| {
            answer(peer, |peer| {
                peer.say(&OK[..20]);
                peer.sleep(30);
                peer.say(&OK[20..]);
            });
        },
        first_millis: 30,
        last_millis: 30,
        ..GOOD
    },
    Case {
        name: "answers in chunks",
        script: |peer| {
            answer(peer, |peer| {
                peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
                peer.sleep(5);
                peer.say("c\r\n10;x\r\n0123456789abcdef\r\n0\r\nA: b\r\n\r\n");
            });
        },
        content: 4 * 19,
        ..GOOD
    },
    Case {
        name: "says first that it will answer",
        script: |peer| {
            answer(peer, |peer| {
                peer.say("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 None\r\n\r\n");
            });
        },
        content: 0,
        ..GOOD
    },
    Case {
        name: "closes when it has answered, and says so",
        script: |peer| {
            peer.request();
            peer.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello");
        },
        connections: 4,
        ..GOOD
    },
    Case {
        name: "closes when it has answered without saying so",
        script: |peer| {
            peer.request();
            peer.say_last(OK);
            peer.hold();
        },
        connections: 4,
        ..GOOD
    },
    Case {
        name: "answers until it closes",
        script: |peer| {
            peer.request();
            peer.say("HTTP/1.1 200 OK\r\n\r\nhel");
            peer.sleep(5);
            peer.say("lo");
        },
        connections: 4,
        last_millis: 5,
        ..GOOD
    },
    Case {
        name: "closes because it is asked to",
        script: |peer| {
            peer.request();
            peer.say(OK);
        },
        options: "-n 4 -c 1 --timeout 100s --requests-per-connection 1",
        connections: 4,
        ..GOOD
    },
    Case {
        name: "closes when our side has finished",
        script: |peer| {
            answer(peer, |peer| peer.say(OK));
        },
        options: "-n 4 -c 1 --timeout 100s --requests-per-connection 2 --early-finish",
        connections: 2,
        ..GOOD
    },
    Case {
        name: "answers with more than it says",
        // What is too much is no begin of the next response.
        script: |peer| {
            peer.request();
            peer.say(&format!("{OK}more\r\n"));
            peer.hold();
        },
        responses: 2,
        content: 10,
        errors: &[(ErrorKind::Malformed, 2)],
        connections: 2,
        requests: 2,
        ..GOOD
    },
    Case {
        name: "answers with less than is expected",
        options: "-n 4 -c 1 --timeout 100s --expect-length 6",
        connections: 1,
        ..bad(GOOD.name, GOOD.script, &[(ErrorKind::Mismatch, 4)])
    },
    Case {
        name: "answers requests that are sent behind others",
        options: "-n 40 -c 2 --timeout 100s --pipeline 8",
        responses: 40,
        content: 200,
        connections: 2,
        requests: 40,
        ..GOOD
    },
    // Each of these ten connections has four requests, of which the first is answered.
    Case {
        name: "closes behind a response, and says so",
        script: |peer| {
            if (0..4).all(|_| peer.request().is_some()) {
                peer.say_last(CLOSING);
            }
            peer.hold();
        },
        options: PIPELINED,
        responses: 10,
        content: 50,
        errors: &[(ErrorKind::Closed, 30)],
        connections: 10,
        requests: 40,
        ..GOOD
    },
    Case {
        name: "resets what is behind others",
        script: |peer| {
            if (0..4).all(|_| peer.request().is_some()) {
                peer.reset();
            }
        },
        options: PIPELINED,
        errors: &[(ErrorKind::Reset, 10), (ErrorKind::Closed, 30)],
        connections: 10,
        requests: 40,
        ..bad(GOOD.name, GOOD.script, &[])
    },
    bad("resets at once", |peer| peer.reset(), RESET).asked(0),
    bad(
        "resets when it is asked",
        |peer| {
            peer.request();
            peer.reset();
        },
        RESET,
    ),
    bad(
        "resets in the middle",
        |peer| {
            peer.request();
            peer.say(&OK[..OK.len() - 3]);
            peer.sleep(5);
            peer.reset();
        },
        RESET,
    ),
    bad(
        "resets what only its end would have ended",
        |peer| {
            peer.request();
            peer.say("HTTP/1.1 200 OK\r\n\r\nhel");
            peer.sleep(5);
            peer.reset();
        },
        RESET,
    ),
    bad("closes at once", |peer| _ = peer.request(), CLOSED),
    bad(
        "closes in the head",
        |peer| {
            peer.request();
            peer.say(&OK[..20]);
        },
        CLOSED,
    ),
    bad(
        "answers with less than it says",
        |peer| {
            peer.request();
            peer.say(&OK[..OK.len() - 1]);
        },
        CLOSED,
    ),
    bad(
        "ends in a chunk",
        |peer| {
            peer.request();
            peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        },
        CLOSED,
    ),
    bad(
        "does not speak HTTP",
        |peer| {
            peer.request();
            peer.say("SSH-2.0-OpenSSH_9.9\r\n");
            peer.hold();
        },
        MALFORMED,
    ),
    bad(
        "contradicts itself",
        |peer| {
            peer.request();
            peer.say("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello");
            peer.hold();
        },
        MALFORMED,
    ),
    bad(
        "has chunks without a size",
        |peer| {
            peer.request();
            peer.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello");
            peer.hold();
        },
        MALFORMED,
    ),
    Case {
        options: "-n 2 -c 2 --timeout 1s",
        connections: 2,
        ..bad(
            "never answers",
            |peer| {
                peer.request();
                peer.hold();
            },
            &[(ErrorKind::Timeout, 2)],
        )
        .asked(2)
    },
];

impl Case {
    const fn asked(self, requests: u64) -> Self {
        Self { requests, ..self }
    }
}
