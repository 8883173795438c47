//! The beginning of a session, by rustls, until both sides have finished and its keys are ours.
//!
//! | file | what is in it |
//! |---|---|
//! | `early` | what is sent before both have finished |
//! | `step` | rustls, a step at a time |

mod early;
mod refusing;
mod step;

use std::sync::Arc;

use exos_wire::tls::{HelloView, RecordView};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::{ExtractedSecrets, ProtocolVersion};
use rustls_pki_types::ServerName;

use crate::TlsError;
use crate::limits::{
    EXPANSION_12_MAX, FRAGMENTS_LEN_MAX, HEADER_LEN, PLAIN_LEN_MAX, SERVER_NAME_LEN_MAX,
};
use crate::record::TAG_LEN;
use crate::session::About;
use early::Early;
use step::{Side, Step};

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

/// The message that a client begins with.
const CLIENT_HELLO: u8 = 1;

/// What rustls refuses as malformed: a header of a record that is too long.
const TOO_LONG: &[u8] = &[HANDSHAKE, 3, 3, 0xff, 0xff];

/// What it refuses as unexpected in TLS 1.3: a change of ciphers to anything but 1.
const ILLEGAL_CHANGE: &[u8] = &[20, 3, 3, 0, 1, 2];

/// The alert that a record is too long, in plain text.
const OVERFLOW: &[u8] = &[ALERT, 3, 3, 0, 2, 2, 22];

const NO_EXTRACTION: &str = "enable_secret_extraction is to be set: records are encrypted here";

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
    /// A client's hello, while it has not come whole.
    hello: Vec<u8>,
    /// The host that it asks for, which rustls does not tell.
    server_name: Option<Box<str>>,
    early: Early,
}

/// A handshake that is over.
pub(crate) struct Done {
    pub(crate) secrets: ExtractedSecrets,
    pub(crate) kernel: Kernel,
    pub(crate) about: About,
    /// Its last record ended within another message.
    pub(crate) is_cut: bool,
    /// A client's early data that the server has not taken: it is to be sent again.
    pub(crate) unsent: Vec<u8>,
}

impl Handshake {
    pub(crate) fn server(config: Arc<rustls::ServerConfig>) -> Result<Handshake, TlsError> {
        if !config.enable_secret_extraction {
            return Err(TlsError::Config(NO_EXTRACTION));
        }
        if config.max_early_data_size > 0
            && (config.ticketer.enabled() || !config.send_half_rtt_data)
        {
            return Err(TlsError::Config(
                "early data is taken by tickets::accept_early_data: max_early_data_size is to be 0",
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
            hello: Vec::new(),
            server_name: None,
            early: Early::default(),
        }
    }

    /// Takes whole records, until it is over: what is behind is not its own. Early data is appended to `plain`, messages for the
    /// peer to `out`. Gives how much it has taken, and whether it is over.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, bool), TlsError> {
        if let (false, Some(&first)) = (self.has_begun, bytes.first()) {
            self.has_begun = true;
            self.looks_like_tls(first)?;
        }
        if self.side.common().wants_write() {
            self.go_on(plain, out)?; // A client's hello, for which nothing has to come.
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
            if record[0] == HANDSHAKE && matches!(self.side, Side::Server(_)) {
                self.look_at_hello(record);
            }
            if record[0] == HANDSHAKE && self.is_encrypted() {
                return Err(self.refuse(ILLEGAL_CHANGE, TlsError::Unexpected, plain, out));
            }
            let is_alone = self.incoming.is_empty();
            self.incoming.extend_from_slice(record);
            taken += record.len();
            let said = out.len();
            if let Err(error) = self.go_on(plain, out) {
                return Err(match out.len() == said {
                    true => self.say_unsaid(error, record.len(), plain, out),
                    false => error,
                });
            }
            if is_alone && self.incoming.is_empty() && self.is_encrypted() {
                self.early.note_end(record);
            }
            if is_alone && self.is_early_data(record.len()) {
                self.incoming.clear();
            }
            if !self.side.common().is_handshaking() {
                return Ok((taken, true));
            }
            if self.incoming.len() > FRAGMENTS_LEN_MAX {
                return Err(self.refuse(TOO_LONG, TlsError::TooLong, plain, out));
            }
        }
    }

    /// What rustls does not tell of a client's hello, if this record has one.
    fn look_at_hello(&mut self, record: &[u8]) {
        let Ok(record) = RecordView::parse(record) else {
            return;
        };
        let mut whole = std::mem::take(&mut self.hello);
        let fragment = match whole.is_empty() {
            true => record.fragment(),
            false => {
                whole.extend_from_slice(record.fragment());
                &whole
            }
        };
        if !is_whole(fragment) {
            // It goes on in other records, of which rustls bounds the length.
            if fragment.first() == Some(&CLIENT_HELLO) {
                self.hello = match whole.is_empty() {
                    true => fragment.to_vec(),
                    false => whole,
                };
            }
            return;
        }
        let Ok(hello) = HelloView::parse(fragment) else {
            return;
        };
        if self.server_name.is_none() {
            self.server_name = server_name(&hello);
        }
        self.early.is_announced |= hello.extensions().has_early_data();
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
    fn go_on(&mut self, plain: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), TlsError> {
        loop {
            let (discard, step) = self
                .side
                .step(&mut self.incoming, &mut self.early, plain, out);
            match step {
                Ok(step) => {
                    self.incoming.drain(..discard);
                    if matches!(step, Step::Waits) {
                        return Ok(());
                    }
                }
                Err(error) => {
                    self.say_why(plain, out);
                    return Err(error.into());
                }
            }
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

    // Before it is over.

    /// Plaintext may be sent, and may have come: early data of a client's (RFC 8446 §4.2.10), or a server's answer to it.
    pub(crate) fn may_send(&self) -> bool {
        self.early.may_send
    }

    /// Appends records of these pieces, where that is allowed already. What of a client's the server does not take, and what is
    /// beyond the bound of its ticket, is sent when the handshake is over; and what follows early data when none may be sent any more, as
    /// behind a HelloRetryRequest (§4.1.2).
    pub(crate) fn seal(&mut self, pieces: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        let is_clients = matches!(self.side, Side::Client(_));
        if !self.early.may_send && is_clients && self.early.is_announced {
            self.early.give(pieces.concat());
            return Ok(());
        }
        if !self.early.may_send {
            return Err(TlsError::Over);
        }
        let plain = pieces.concat();
        self.side
            .seal(&mut self.incoming, &mut self.early, plain, out)
    }

    /// What it has come to as yet.
    pub(crate) fn about(&self) -> About {
        About {
            server_name: self.server_name.clone(),
            early: self.early.fate(),
            ..About::of(self.side.common())
        }
    }

    /// Takes out what it has come to.
    pub(crate) fn finish(self) -> Result<Done, TlsError> {
        let about = self.about();
        let unsent = self.early.into_unsent();
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
            unsent,
        })
    }
}

/// The host that a hello names. rustls judges whether it is one, and here it has to be plain text.
fn server_name(hello: &HelloView<'_>) -> Option<Box<str>> {
    let name = str::from_utf8(hello.extensions().server_name()?).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (name.len() <= SERVER_NAME_LEN_MAX && name.bytes().all(is_plain)).then(|| name.into())
}

/// The message that a record begins with is all there.
fn is_whole(fragment: &[u8]) -> bool {
    let Some((&[_, high, middle, low], content)) = fragment.split_first_chunk() else {
        return false;
    };
    content.len() >= u32::from_be_bytes([0, high, middle, low]) as usize
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
