//! The beginning of a session, by rustls, until both sides have finished and its keys are ours.

use std::sync::Arc;

use exos_wire::tls::{HelloView, RecordView};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CommonState, ExtractedSecrets, PeerMisbehaved, ProtocolVersion};
use rustls_pki_types::ServerName;

use crate::TlsError;
use crate::limits::{
    EXPANSION_12_MAX, FRAGMENTS_LEN_MAX, HEADER_LEN, PLAIN_LEN_MAX, SERVER_NAME_LEN_MAX,
};
use crate::record::TAG_LEN;
use crate::session::About;

/// What is left of rustls' connection: it makes the next keys, and takes a client's tickets.
pub(crate) enum Kernel {
    Server(KernelConnection<ServerConnectionData>),
    Client(KernelConnection<ClientConnectionData>),
}

/// What records are of that may come first.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// What the others are of.
const DATA: u8 = 23;

/// What rustls refuses as malformed: a header of a record that is too long.
const TOO_LONG: &[u8] = &[HANDSHAKE, 3, 3, 0xff, 0xff];

/// What it refuses as unexpected in TLS 1.3: a change of ciphers to anything but 1.
const ILLEGAL_CHANGE: &[u8] = &[20, 3, 3, 0, 1, 2];

/// The alert that a record is too long, in plain text.
const OVERFLOW: &[u8] = &[ALERT, 3, 3, 0, 2, 2, 22];

const NO_EXTRACTION: &str = "enable_secret_extraction is to be set: records are encrypted here";

enum Side {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// A handshake under way.
///
/// rustls sees one whole record after another, and none behind the one that ends the handshake: that is for the keys which
/// come of it. So nothing is decrypted twice, and rustls gets no message that it would answer behind our back.
pub(crate) struct Handshake {
    side: Side,
    /// Fragments of a message that rustls is in the middle of, and a record: it decrypts and puts together in place.
    incoming: Vec<u8>,
    /// Something was received.
    has_begun: bool,
    /// The host that a client asks for, which rustls does not tell.
    server_name: Option<Box<str>>,
}

/// A handshake that is over.
pub(crate) struct Done {
    pub(crate) secrets: ExtractedSecrets,
    pub(crate) kernel: Kernel,
    pub(crate) about: About,
    /// Its last record ended within another message.
    pub(crate) is_cut: bool,
}

/// What one step of rustls came to.
enum Step {
    Again,
    /// Nothing happens before more is received.
    Waits,
}

impl Handshake {
    pub(crate) fn server(config: Arc<rustls::ServerConfig>) -> Result<Handshake, TlsError> {
        if !config.enable_secret_extraction {
            return Err(TlsError::Config(NO_EXTRACTION));
        }
        if config.max_early_data_size > 0 {
            return Err(TlsError::Config(
                "early data is not taken: max_early_data_size is to be 0",
            ));
        }
        let connection = UnbufferedServerConnection::new(config)?;
        Ok(Handshake::of(Side::Server(connection)))
    }

    /// Begins at once: [`receive`](Handshake::receive) of nothing gives what is to be sent.
    pub(crate) fn client(
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Handshake, TlsError> {
        if !config.enable_secret_extraction {
            return Err(TlsError::Config(NO_EXTRACTION));
        }
        let connection = UnbufferedClientConnection::new(config, name)?;
        Ok(Handshake::of(Side::Client(connection)))
    }

    fn of(side: Side) -> Handshake {
        Handshake {
            side,
            incoming: Vec::new(),
            has_begun: false,
            server_name: None,
        }
    }

    /// Takes whole records, until it is over: what is behind is not its own. Messages for the peer are appended to `out`. Gives
    /// how much it has taken, and whether it is over.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, bool), TlsError> {
        if let (false, Some(&first)) = (self.has_begun, bytes.first()) {
            self.has_begun = true;
            self.looks_like_tls(first)?;
        }
        if self.side.common().wants_write() {
            self.go_on(out)?; // A client's hello, for which nothing has to come.
        }
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            if self.is_plain() && is_too_long(rest) {
                out.extend_from_slice(OVERFLOW);
                return Err(TlsError::TooLong);
            }
            let Some(record) = first_record(rest) else {
                return Ok((taken, false));
            };
            if self.server_name.is_none() && matches!(self.side, Side::Server(_)) {
                self.server_name = server_name(record);
            }
            if record[0] == HANDSHAKE && self.is_encrypted() {
                return Err(self.refuse(ILLEGAL_CHANGE, TlsError::Unexpected, out));
            }
            let is_alone = self.incoming.is_empty();
            self.incoming.extend_from_slice(record);
            taken += record.len();
            let said = out.len();
            if let Err(error) = self.go_on(out) {
                return Err(match out.len() == said {
                    true => self.say_unsaid(error, record.len(), out),
                    false => error,
                });
            }
            if is_alone && self.is_early_data(record.len()) {
                self.incoming.clear();
            }
            if !self.side.common().is_handshaking() {
                return Ok((taken, true));
            }
            if self.incoming.len() > FRAGMENTS_LEN_MAX {
                return Err(self.refuse(TOO_LONG, TlsError::TooLong, out));
            }
        }
    }

    /// What comes first is a handshake record, or an alert of a peer that cannot do with the hello.
    fn looks_like_tls(&self, first: u8) -> Result<(), TlsError> {
        match first {
            ALERT | HANDSHAKE => Ok(()),
            first => Err(TlsError::NotTls {
                is_http: matches!(self.side, Side::Server(_)) && first.is_ascii_alphabetic(),
            }),
        }
    }

    /// Has rustls go on with what there is.
    fn go_on(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        loop {
            let (discard, step) = self.side.step(&mut self.incoming, out);
            match step {
                Ok(step) => {
                    self.incoming.drain(..discard);
                    if matches!(step, Step::Waits) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.say_why(out);
                    return Err(error.into());
                }
            }
        }
    }

    /// Appends the alert with which rustls has failed. It gives what it has to send before it looks at what was received, and
    /// then it must not look: it remembers places there of messages that it will not come to.
    fn say_why(&mut self, out: &mut Vec<u8>) {
        while self.side.common().wants_write() {
            if self.side.step(&mut self.incoming, out).1.is_err() {
                return;
            }
        }
    }

    /// rustls has failed by the record of this length that came last. Some of its errors come without an alert: those about what records are, which it
    /// finds before it looks at messages. Then that record has left no trace but its bytes here, and in its place comes one that is refused with an
    /// alert.
    fn say_unsaid(&mut self, error: TlsError, len: usize, out: &mut Vec<u8>) -> TlsError {
        let TlsError::Handshake(rustls::Error::PeerMisbehaved(
            PeerMisbehaved::IllegalTlsInnerPlaintext
            | PeerMisbehaved::MessageInterleavedWithHandshakeMessage
            | PeerMisbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage
            | PeerMisbehaved::TooManyEmptyFragments,
        )) = error
        else {
            return error;
        };
        let before = self.incoming.len().saturating_sub(len);
        self.incoming.truncate(before);
        let is_between_messages = self.is_encrypted() && before == 0;
        let by = if is_between_messages {
            ILLEGAL_CHANGE
        } else {
            TOO_LONG
        };
        self.refuse(by, error, out)
    }

    /// Something has come that rustls would take, or call by another name. It alone can tell the peer: it is made to, by what it
    /// refuses with the right alert.
    fn refuse(&mut self, by: &[u8], error: TlsError, out: &mut Vec<u8>) -> TlsError {
        self.incoming.extend_from_slice(by);
        match self.go_on(out) {
            Ok(()) | Err(_) => error,
        }
    }

    /// Nothing is encrypted yet, as far as can be told: no version is agreed on.
    fn is_plain(&self) -> bool {
        self.side.common().protocol_version().is_none()
    }

    /// Both hellos of TLS 1.3 are exchanged: what follows of the handshake is encrypted.
    fn is_encrypted(&self) -> bool {
        let common = self.side.common();
        common.protocol_version() == Some(ProtocolVersion::TLSv1_3)
            && common.negotiated_key_exchange_group().is_some()
    }

    /// What rustls has left of a record of this length, with nothing before it, is early data. It skips that up to a bound (RFC 8446
    /// §4.2.10), but leaves it where it is: it would count it again with each record that follows, and the bound is soon met.
    ///
    /// It leaves a part of a message, too, and decrypts both in place. Then a message's type is the last byte that is not zero (RFC
    /// 8446 §5.4); in what could not be decrypted it is hardly ever, and then it is as if this did not look.
    fn is_early_data(&self, len: usize) -> bool {
        let is_left = matches!(self.side, Side::Server(_)) && self.incoming.len() == len;
        if !is_left || self.incoming[0] != DATA || !self.is_encrypted() {
            return false;
        }
        let inner = self.incoming.get(HEADER_LEN..len.saturating_sub(TAG_LEN));
        let inner = inner.unwrap_or_default();
        inner.iter().rfind(|&&byte| byte != 0) != Some(&HANDSHAKE)
    }

    /// Takes out what it has come to.
    pub(crate) fn finish(self) -> Result<Done, TlsError> {
        let about = About {
            server_name: self.server_name,
            ..About::of(self.side.common())
        };
        let (secrets, kernel) = match self.side {
            Side::Server(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Kernel::Server(kernel))
            }
            Side::Client(connection) => {
                let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
                (secrets, Kernel::Client(kernel))
            }
        };
        Ok(Done {
            secrets,
            kernel,
            about,
            is_cut: !self.incoming.is_empty(),
        })
    }
}

impl Side {
    fn common(&self) -> &CommonState {
        match self {
            Side::Server(connection) => connection,
            Side::Client(connection) => connection,
        }
    }

    fn step(
        &mut self,
        incoming: &mut [u8],
        out: &mut Vec<u8>,
    ) -> (usize, Result<Step, rustls::Error>) {
        match self {
            Side::Server(connection) => step(connection.process_tls_records(incoming), out),
            Side::Client(connection) => step(connection.process_tls_records(incoming), out),
        }
    }
}

/// Does what rustls asks for; gives how much of what was received it has done with.
fn step<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
) -> (usize, Result<Step, rustls::Error>) {
    let step = status.state.map(|state| match state {
        ConnectionState::EncodeTlsData(mut message) => {
            let begin = out.len();
            if let Err(EncodeError::InsufficientSize(need)) = message.encode(&mut []) {
                out.resize(begin + need.required_size, 0);
            }
            let written = message.encode(&mut out[begin..]).unwrap_or(0);
            out.truncate(begin + written);
            Step::Again
        }
        ConnectionState::TransmitTlsData(sent) => {
            sent.done();
            Step::Again
        }
        // Its end, too. It does not come to data, of which it sees no record; early data is refused by a configuration.
        _ => Step::Waits,
    });
    (status.discard, step)
}

/// The host that a hello in this record names. rustls judges whether it is one, and here it has to be plain text.
fn server_name(record: &[u8]) -> Option<Box<str>> {
    let record = RecordView::parse(record).ok()?;
    if record.content_type() != exos_wire::tls::HANDSHAKE {
        return None;
    }
    let hello = HelloView::parse(record.fragment()).ok()?;
    let name = str::from_utf8(hello.extensions().server_name()?).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (name.len() <= SERVER_NAME_LEN_MAX && name.bytes().all(is_plain)).then(|| name.into())
}

/// The record that bytes begin with is longer than its plaintext may be (RFC 8446 §5.1).
fn is_too_long(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|&[_, _, _, high, low]| {
        usize::from(u16::from_be_bytes([high, low])) > PLAIN_LEN_MAX
    })
}

/// The record that bytes begin with, if it is whole. Of one that is longer than any that is its header, which rustls refuses.
fn first_record(bytes: &[u8]) -> Option<&[u8]> {
    let &[_, _, _, high, low] = bytes.first_chunk::<HEADER_LEN>()?;
    let len = usize::from(u16::from_be_bytes([high, low]));
    match len > PLAIN_LEN_MAX + EXPANSION_12_MAX {
        true => bytes.get(..HEADER_LEN),
        false => bytes.get(..HEADER_LEN + len),
    }
}
