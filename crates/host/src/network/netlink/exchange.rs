//! The exchange itself: one request, and the answers to it.

use crate::error::{Context as _, Error, Result};
use crate::limits::{DUMP_ATTEMPTS, NETLINK_ANSWER_TIMEOUT};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NlasIterator,
    ParseableParametrized as _,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::cell::Cell;
use std::io;

/// A socket to the kernel's network configuration.
pub struct Netlink {
    socket: Socket,
    sequence: Cell<u32>,
}

/// Why a request was not granted: an error number, and perhaps the kernel's own words for it.
pub(super) struct Refusal {
    pub(super) source: io::Error,
    words: Option<String>,
}

impl From<io::Error> for Refusal {
    fn from(source: io::Error) -> Self {
        Self {
            source,
            words: None,
        }
    }
}

impl Refusal {
    /// The error for anyone who asked, with the kernel's words in brackets.
    pub(super) fn while_doing(self, what: String) -> Error {
        Error::io(
            self.words
                .map_or(what.clone(), |words| format!("{what} ({words})")),
            self.source,
        )
    }
}

/// What one datagram of the kernel's answer said about the request.
enum Progress {
    More,
    Done { interrupted: bool },
}

impl Netlink {
    /// Opens one in the network namespace of the calling thread. Needs no privilege; changing things does.
    pub fn new() -> Result<Self> {
        let socket = open(NETLINK_ROUTE)?;
        Ok(Self {
            socket,
            sequence: Cell::new(0),
        })
    }

    /// Changes something; the kernel's acknowledgement is the answer.
    pub(super) fn change(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
        what: impl Fn() -> String,
    ) -> Result<()> {
        self.exchange(message, flags | NLM_F_ACK)
            .map(|_| ())
            .map_err(|r| r.while_doing(what()))
    }

    /// Asks about one thing: the answer and an acknowledgement.
    pub(super) fn get(
        &self,
        message: RouteNetlinkMessage,
        what: impl Fn() -> String,
    ) -> Result<RouteNetlinkMessage> {
        let (mut messages, _) = self
            .exchange(message, NLM_F_ACK)
            .map_err(|r| r.while_doing(what()))?;
        messages
            .pop()
            .ok_or_else(|| Error::new(format!("{}: the kernel gave no answer", what())))
    }

    /// Asks for all of a kind. Asked again when the kernel says that the table changed meanwhile.
    pub(super) fn dump(
        &self,
        message: RouteNetlinkMessage,
        what: impl Fn() -> String,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let mut attempt = 1;
        loop {
            let (messages, interrupted) = self
                .exchange(message.clone(), NLM_F_DUMP)
                .map_err(|r| r.while_doing(what()))?;
            if !interrupted || attempt == DUMP_ATTEMPTS {
                return Ok(messages);
            }
            attempt += 1;
        }
    }

    /// Sends one request and collects the answers to it, and whether the kernel calls them torn.
    pub(super) fn exchange(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(Vec<RouteNetlinkMessage>, bool), Refusal> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        request.header.sequence_number = sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        let mut answers = Vec::new();
        // What a newer kernel says in a way that the parser does not know is left out of a list, rather than
        // making everything else unreadable.
        let take = |m: &RawMessage<'_>| {
            answers.extend(RouteNetlinkMessage::parse_with_param(m.payload, m.kind).ok())
        };
        let interrupted = transact(&self.socket, &bytes, sequence, take)?;
        Ok((answers, interrupted))
    }
}

/// Sends a request and gives the answers to it to `take`. True when the kernel calls them torn.
pub(super) fn transact(
    socket: &Socket,
    request: &[u8],
    sequence: u32,
    mut take: impl FnMut(&RawMessage<'_>),
) -> Result<bool, Refusal> {
    socket.send(request, 0)?;
    loop {
        let datagram = receive(socket)?;
        if let Progress::Done { interrupted } = collect(&datagram, sequence, &mut take)? {
            return Ok(interrupted);
        }
    }
}

/// Opens and connects a netlink socket of a protocol, with explanations and strict checking on.
pub(super) fn open(protocol: isize) -> Result<Socket> {
    let what = || "cannot open a netlink socket";
    let mut socket = Socket::new(protocol).context(what)?;
    socket.bind_auto().context(what)?;
    socket.connect(&SocketAddr::new(0, 0)).context(what)?;
    // Both exist since 4.20; without them errors are shorter and dumps longer, so a refusal does no harm.
    let _ = socket.set_ext_ack(true);
    let _ = socket.set_netlink_get_strict_chk(true);
    rustix::net::sockopt::set_socket_timeout(
        &socket,
        rustix::net::sockopt::Timeout::Recv,
        Some(NETLINK_ANSWER_TIMEOUT),
    )
    .context(what)?;
    Ok(socket)
}

/// One datagram from the kernel. A signal is not an answer.
fn receive(socket: &Socket) -> io::Result<Vec<u8>> {
    loop {
        match socket.recv_from_full() {
            Ok((datagram, from)) if from.port_number() == 0 => return Ok(datagram),
            Ok(_) => {} // Not from the kernel: any process may send to our port.
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the kernel did not answer in time",
                ));
            }
            Err(e) => return Err(e),
        }
    }
}

/// One message of a datagram: its type, flags, sequence number and payload.
pub(super) struct RawMessage<'a> {
    pub(super) kind: u16,
    flags: u16,
    sequence: u32,
    pub(super) payload: &'a [u8],
}

/// Walks the messages of a datagram; a broken length ends the walk.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = RawMessage<'_>> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<16>()?;
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let len = word(0) as usize;
        let payload = bytes.get(16..len)?;
        let message = RawMessage {
            kind: half(4),
            flags: half(6),
            sequence: word(8),
            payload,
        };
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(message)
    })
}

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;

/// Takes the answers to request `sequence` out of a datagram.
fn collect(
    datagram: &[u8],
    sequence: u32,
    take: &mut impl FnMut(&RawMessage<'_>),
) -> Result<Progress, Refusal> {
    let mut interrupted = false;
    for message in messages(datagram).filter(|m| m.sequence == sequence) {
        interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
        match message.kind {
            NLMSG_ERROR => verdict(&message)?,
            NLMSG_DONE => done(message.payload)?,
            _ => {
                take(&message);
                continue;
            }
        }
        return Ok(Progress::Done { interrupted });
    }
    Ok(Progress::More)
}

/// The end of a dump carries its result: 0, or a negative error number.
fn done(payload: &[u8]) -> io::Result<()> {
    match payload.first_chunk().map(|&code| i32::from_ne_bytes(code)) {
        Some(code) if code < 0 => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Ok(()),
    }
}

/// An `nlmsgerr`: 0 acknowledges, otherwise a negative error number and perhaps the kernel's explanation.
fn verdict(message: &RawMessage<'_>) -> Result<(), Refusal> {
    let code = message
        .payload
        .first_chunk()
        .map_or(-libc::EBADMSG, |&code| i32::from_ne_bytes(code));
    if code == 0 {
        return Ok(());
    }
    Err(Refusal {
        source: io::Error::from_raw_os_error(code.saturating_neg()),
        words: explanation(message),
    })
}

/// The kernel's words (`NLMSGERR_ATTR_MSG`), which follow the error and the request it repeats.
fn explanation(message: &RawMessage<'_>) -> Option<String> {
    const NLM_F_CAPPED: u16 = 0x100;
    const NLM_F_ACK_TLVS: u16 = 0x200;
    const NLMSGERR_ATTR_MSG: u16 = 1;
    if message.flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let request_len = u32::from_ne_bytes(*message.payload.get(4..)?.first_chunk()?) as usize;
    let repeated = if message.flags & NLM_F_CAPPED != 0 {
        16
    } else {
        request_len.next_multiple_of(4)
    };
    let words = attribute(message.payload.get(4 + repeated..)?, NLMSGERR_ATTR_MSG)?;
    let words = String::from_utf8_lossy(&words);
    Some(words.trim_end_matches('\0').to_owned())
}

/// The value of the first attribute of a kind. What is broken ends the search.
pub(super) fn attribute(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    let mut all = NlasIterator::new(attributes).map_while(Result::ok);
    let found = all.find(|attribute| attribute.kind() == kind)?;
    Some(found.value().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with this type, flags, sequence number and payload.
    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((16 + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn error(code: i32, rest: &[u8]) -> Vec<u8> {
        [&code.to_ne_bytes(), rest].concat()
    }

    #[test]
    fn messages_of_other_requests_are_left_alone() {
        let datagram = [
            message(100, 0, 7, b"ours"),
            message(100, 0, 8, b"other"),
            message(100, 0, 7, b"ours too"),
        ];
        let mut seen = Vec::new();
        let progress = collect(&datagram.concat(), 7, &mut |m| {
            seen.push(m.payload.to_vec())
        });
        assert!(matches!(progress, Ok(Progress::More)));
        assert_eq!(seen, [b"ours".to_vec(), b"ours too".to_vec()]);
    }

    #[test]
    fn a_dump_ends_with_its_result() {
        let mut nothing = |_: &RawMessage<'_>| {};
        let ended = |flags, code: i32| message(NLMSG_DONE, flags, 1, &code.to_ne_bytes());
        assert!(matches!(
            collect(&ended(0, 0), 1, &mut nothing),
            Ok(Progress::Done { interrupted: false })
        ));
        let torn = ended(NLM_F_DUMP_INTR, 0);
        assert!(matches!(
            collect(&torn, 1, &mut nothing),
            Ok(Progress::Done { interrupted: true })
        ));
        let failed = collect(&ended(0, -libc::ENOMEM), 1, &mut nothing)
            .err()
            .expect("an error number");
        assert_eq!(failed.source.raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn the_kernels_words_become_part_of_the_error() {
        // A capped request (its header only), then NLMSGERR_ATTR_OFFS (2) and NLMSGERR_ATTR_MSG (1).
        let request = message(16, 0, 1, &[]);
        let offset = [8, 0, 2, 0, 1, 2, 3, 4];
        let words = [12, 0, 1, 0, b'n', b'o', b' ', b'w', b'a', b'y', 0, 0];
        let payload = error(-libc::EINVAL, &[&request[..], &offset, &words].concat());
        let datagram = message(NLMSG_ERROR, 0x100 | 0x200, 1, &payload);
        let refusal = collect(&datagram, 1, &mut |_| {}).err().expect("refused");
        let error = refusal.while_doing("cannot do it".to_owned());
        assert_eq!(error.to_string(), "cannot do it (no way): Invalid argument");
    }

    #[test]
    fn broken_datagrams_end_the_walk_without_harm() {
        let whole = [
            message(100, 0, 1, b"one"),
            message(NLMSG_ERROR, 0x300, 1, &error(-1, &[0; 40])),
        ]
        .concat();
        for cut in 0..whole.len() {
            let _ = collect(&whole[..cut], 1, &mut |_| {});
            for len in [0u32, 1, 15, 16, 17, 1 << 31, u32::MAX] {
                let mut broken = whole.clone();
                let at = cut.min(whole.len() - 4);
                broken[at..at + 4].copy_from_slice(&len.to_ne_bytes());
                let _ = collect(&broken, 1, &mut |_| {});
            }
        }
        assert_eq!(messages(&whole).count(), 2);
        assert_eq!(messages(&message(1, 0, 1, b"")[..15]).count(), 0);
    }
}
