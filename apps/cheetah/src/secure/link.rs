//! One connection: its session, what waits to be encrypted, and what of that its client has taken.
//!
//! Of plaintext that was given, the last part waits as slices (`waiting`); what comes before is in records on the transport, and a
//! [`Flight`] remembers how many bytes of these are how many of plaintext.

use std::collections::VecDeque;

use exos_buf::{Buffer, Slice};
use exos_inet::tcp::ConnectionId;
use exos_tls::limits::UNREAD_LEN;
use exos_tls::{Session, TlsError};

use crate::acme::challenges::PROTOCOL;
use crate::connections::Transport;
use crate::limits::{
    HELLO_HEADS_LEN_MAX, HELLO_LEN_MAX, SEALED_AHEAD_LEN, SEALED_LEN, SEALED_UNDER_WAY_LEN,
};

/// Plaintext that was encrypted together.
#[derive(Clone, Copy, Debug)]
struct Flight {
    plain_len: usize,
    records_len: usize,
    /// Where it ends among all bytes that were given to the transport.
    end: u64,
}

/// How far its end has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// More may be sent.
    Open,
    /// It follows what waits.
    Wanted,
    /// It is sent.
    Sent,
}

/// One connection.
pub(super) struct Link {
    id: ConnectionId,
    session: Session,
    waiting: VecDeque<Slice>,
    waiting_len: usize,
    flights: VecDeque<Flight>,
    /// Bytes that were given to the transport.
    sent: u64,
    /// Plaintext that nobody will take any more.
    lost: usize,
    end: End,
    /// It is in a list of those that are to be seen to in this turn.
    pub(super) is_listed: bool,
    /// Its handshake waits for another turn.
    pub(super) is_deferred: bool,
    /// It has done so before.
    pub(super) was_deferred: bool,
    /// The handshake has come to a session.
    has_stood: bool,
    /// It came to an end by what went wrong.
    has_failed: bool,
    /// Bytes of a hello that was not answered.
    hello_len: usize,
    /// The hello says itself that it is too long.
    says_too_long: bool,
    /// The client has ended its side of the connection, which is told behind what it has sent.
    pub(super) owes_end: bool,
    /// It was told.
    has_told_end: bool,
    /// Nothing that still comes is looked at, behind our end.
    discards: bool,
}

/// What came of bytes that were received.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// There is more plaintext.
    pub(super) is_readable: bool,
    /// No more comes.
    pub(super) is_finished: bool,
    /// The handshake is over now.
    pub(super) is_established: bool,
    /// It is over.
    pub(super) failed: Option<TlsError>,
}

impl Link {
    pub(super) fn new(id: ConnectionId, session: Session) -> Link {
        Link {
            id,
            session,
            waiting: VecDeque::new(),
            waiting_len: 0,
            flights: VecDeque::new(),
            sent: 0,
            lost: 0,
            end: End::Open,
            is_listed: false,
            is_deferred: false,
            was_deferred: false,
            has_stood: false,
            has_failed: false,
            hello_len: 0,
            says_too_long: false,
            owes_end: false,
            has_told_end: false,
            discards: false,
        }
    }

    pub(super) fn id(&self) -> ConnectionId {
        self.id
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// It came to an end by what went wrong: what was given to it and not taken never will be.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The handshake has come to a session, whatever has become of that.
    pub(super) fn has_stood(&self) -> bool {
        self.has_stood
    }

    // What arrives.

    /// Takes in what the transport has received.
    pub(super) fn receive(&mut self, transport: &mut impl Transport) -> Received {
        const LEN_MAX: usize = HELLO_LEN_MAX + HELLO_HEADS_LEN_MAX;
        if self.end == End::Sent || self.session.is_over() {
            return Received::default(); // What still comes is thrown away.
        }
        let (was_handshaking, was_closed) =
            (self.session.is_handshaking(), self.session.is_peer_closed());
        let before = self.session.readable().len();
        let mut out = Vec::new();
        let bytes = transport.readable(self.id);
        self.says_too_long |= self.hello_len == 0 && says_too_long(bytes);
        let hello_len = self.hello_len + bytes.len();
        let is_too_long = self.says_too_long && hello_len > HELLO_LEN_MAX;
        let taken = match is_too_long {
            true => Ok(0),
            false => self.session.receive(bytes, &mut out),
        };
        self.give(out, transport);
        let is_unanswered = self.session.is_handshaking() && self.sent == 0;
        let taken = match taken {
            Ok(_) if is_too_long || is_unanswered && hello_len > LEN_MAX => {
                self.give(TOO_LONG.to_vec(), transport);
                Err(too_long())
            }
            taken => taken,
        };
        let failed = match taken {
            Ok(taken) => {
                self.hello_len += taken;
                transport.consume(self.id, taken);
                None
            }
            Err(error) => {
                self.fail(&error, transport);
                Some(error)
            }
        };
        let is_established = was_handshaking && self.session.is_established();
        self.has_stood |= is_established;
        if is_established && self.session.about().protocol.as_deref() == Some(PROTOCOL) {
            self.end_question(transport);
        }
        let is_more = self.session.readable().len() > before;
        // What came before may have waited for the end of the handshake.
        let has_waited = is_established && before > 0;
        Received {
            is_readable: is_more || has_waited,
            is_finished: self.session.is_peer_closed() && !was_closed,
            is_established,
            failed,
        }
    }

    /// An authority has seen what it asked for by a handshake: nothing else follows (RFC 8737 §3).
    fn end_question(&mut self, transport: &mut impl Transport) {
        let mut out = Vec::new();
        self.session.close(&mut out);
        self.give(out, transport);
        self.end = End::Sent;
        transport.finish(self.id);
        transport.discard_received(self.id);
    }

    /// It cannot go on: its client hears why, if it can understand that, and nothing that still comes is looked at.
    fn fail(&mut self, error: &TlsError, transport: &mut impl Transport) {
        if let TlsError::NotTls { is_http: true } = error {
            self.give(PLAIN_HTTP.to_vec(), transport);
        }
        self.has_failed = true;
        self.lost += self.waiting_len;
        self.waiting = VecDeque::new();
        self.waiting_len = 0;
        self.end = End::Sent;
        transport.finish(self.id);
        transport.discard_received(self.id);
    }

    /// The client's end, if all that came before it has been looked at.
    pub(super) fn take_end(&mut self, transport: &impl Transport) -> bool {
        let is_full = self.session.readable().len() >= UNREAD_LEN;
        let waits = is_full && !transport.readable(self.id).is_empty();
        let is_told = self.owes_end && !self.is_deferred && !waits;
        self.owes_end &= !is_told;
        self.has_told_end |= is_told;
        is_told
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.session.consume(count);
    }

    // What leaves.

    /// Plaintext to be sent. It is encrypted by [`flush`](Link::flush).
    pub(super) fn send(&mut self, bytes: Slice) {
        match self.end {
            End::Open if bytes.is_empty() => {}
            End::Open => {
                self.waiting_len += bytes.len();
                self.waiting.push_back(bytes);
            }
            End::Wanted | End::Sent => self.lost += bytes.len(),
        }
    }

    /// Our side ends behind what waits.
    pub(super) fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Wanted;
        }
    }

    /// What still comes is thrown away, but for what our end waits for.
    pub(super) fn discard_received(&mut self, transport: &mut impl Transport) {
        match self.session.is_early() && self.end == End::Wanted {
            true => self.discards = true,
            false => transport.discard_received(self.id),
        }
    }

    /// Encrypts what waits, as far as the transport has not enough to send.
    pub(super) fn flush(&mut self, transport: &mut impl Transport) -> Result<(), TlsError> {
        self.forget_taken(transport);
        while self.waiting_len > 0
            && (self.session.is_established() || self.session.is_early())
            && transport.unsent(self.id) < SEALED_AHEAD_LEN
            && transport.unacknowledged(self.id) < SEALED_UNDER_WAY_LEN
        {
            if let Err(error) = self.seal_some(transport) {
                self.fail(&error, transport);
                return Err(error);
            }
        }
        let is_all = match (self.session.is_early(), self.session.is_handshaking()) {
            // Our end follows the client's Finished, by which it has its tickets, if that may still come.
            (true, _) => self.has_told_end && self.waiting_len == 0,
            (false, true) => true,
            (false, false) => self.waiting_len == 0,
        };
        if self.end == End::Wanted && is_all {
            self.end = End::Sent;
            let mut out = Vec::new();
            self.session.close(&mut out);
            self.give(out, transport);
            transport.finish(self.id);
            if self.discards {
                transport.discard_received(self.id);
            }
        }
        Ok(())
    }

    /// Encrypts some of what waits.
    fn seal_some(&mut self, transport: &mut impl Transport) -> Result<(), TlsError> {
        let mut slices = Vec::new();
        let mut plain_len = 0;
        while plain_len < SEALED_LEN
            && let Some(slice) = self.waiting.pop_front()
        {
            let room = SEALED_LEN - plain_len;
            if slice.len() > room {
                self.waiting.push_front(slice.sub(room..slice.len()));
            }
            let slice = match slice.len() > room {
                true => slice.sub(0..room),
                false => slice,
            };
            plain_len += slice.len();
            slices.push(slice);
        }
        self.waiting_len -= plain_len;
        if self.waiting.is_empty() {
            self.waiting = VecDeque::new(); // An idle connection has no queue.
        }
        let copies = copied(&slices);
        let mut copies = copies.iter();
        let piece = |slice| Slice::in_place(slice).or_else(|| copies.next().map(|copy| &copy[..]));
        let pieces: Vec<&[u8]> = slices.iter().filter_map(piece).collect();
        let mut out = Vec::new();
        let sealed = self.session.seal(&pieces, &mut out);
        let records_len = out.len();
        self.give(out, transport);
        self.flights.push_back(Flight {
            plain_len,
            records_len,
            end: self.sent,
        });
        sealed
    }

    /// Hands records to the transport.
    fn give(&mut self, records: Vec<u8>, transport: &mut impl Transport) {
        if !records.is_empty() {
            self.sent += records.len() as u64;
            transport.send(self.id, Buffer::sent_once(records).into());
        }
    }

    // How much of it is where.

    /// Bytes of plaintext that the client has not taken.
    pub(super) fn unacknowledged(&self, transport: &impl Transport) -> usize {
        self.beyond(transport.unacknowledged(self.id))
    }

    /// Those that are not under way either.
    pub(super) fn unsent(&self, transport: &impl Transport) -> usize {
        self.beyond(transport.unsent(self.id))
    }

    /// Plaintext that is in the last bytes which were given to the transport, or waits.
    fn beyond(&self, last: usize) -> usize {
        let position = self.sent.saturating_sub(last as u64);
        let flights = self.flights.iter().rev();
        let left =
            flights.map_while(|flight| {
                let records_left = flight.end.checked_sub(position).filter(|left| *left > 0)?;
                Some(match records_left < flight.records_len as u64 {
                    // In parts as of its records.
                    true => (flight.plain_len as u64 * records_left)
                        .div_ceil(flight.records_len as u64) as usize,
                    false => flight.plain_len,
                })
            });
        left.sum::<usize>() + self.waiting_len + self.lost
    }

    fn forget_taken(&mut self, transport: &impl Transport) {
        let unacknowledged = transport.unacknowledged(self.id) as u64;
        let position = self.sent.saturating_sub(unacknowledged);
        while self.flights.front().is_some_and(|it| it.end <= position) {
            self.flights.pop_front();
        }
        if self.flights.is_empty() {
            self.flights = VecDeque::new();
        }
    }
}

/// Copies of those that are in memory which another process can write, in order: what is encrypted may not change meanwhile.
fn copied(slices: &[Slice]) -> Vec<Vec<u8>> {
    let theirs = slices.iter().filter(|slice| slice.in_place().is_none());
    let copy = |slice: &Slice| {
        let mut copy = Vec::with_capacity(slice.len());
        slice.append_to(&mut copy);
        copy
    };
    theirs.map(copy).collect()
}

/// A hello that says itself that it is too long (RFC 8446 §4, §5.1). It is refused when as much has come as is taken, also where all of it came
/// at once.
fn says_too_long(bytes: &[u8]) -> bool {
    const HEAD_LEN: usize = 4;
    const RECORD_LEN_MAX: usize = 1 << 14;
    match *bytes {
        [22, _, _, a, b, 1, high, middle, low, ..]
            if (HEAD_LEN..=RECORD_LEN_MAX).contains(&u16::from_be_bytes([a, b]).into()) =>
        {
            u32::from_be_bytes([0, high, middle, low]) as usize + HEAD_LEN > HELLO_LEN_MAX
        }
        _ => false,
    }
}

/// What a hello comes to that is too long.
fn too_long() -> TlsError {
    let why = rustls::InvalidMessage::HandshakePayloadTooLarge;
    TlsError::Handshake(rustls::Error::InvalidMessage(why))
}

/// The alert that a client gets of that (`decode_error`, RFC 8446 §6.2).
const TOO_LONG: [u8; 7] = [21, 3, 3, 0, 2, 2, 50];

/// What a client gets that asks a port of TLS in plain text; nginx's words.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 64\r\nConnection: close\r\n\r\nThe plain HTTP request was sent to an HTTPS port: use https://\r\n";
