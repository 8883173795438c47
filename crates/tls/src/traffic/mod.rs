//! A session whose handshake is over: records in, records out, changes of keys, alerts.

mod messages;
mod pieces;

use rustls::{AlertDescription, HandshakeType, InvalidMessage};

use crate::TlsError;
use crate::handshake::Kernel;
use crate::limits::{HEADER_LEN, PLAIN_LEN_MAX, USELESS_RECORDS_MAX};
use crate::record::{Cipher, ContentType, Header, Opened, Version};
use messages::{MESSAGE_HEADER_LEN, Message, split};
use pieces::Pieces;

/// Alert levels (RFC 8446 §6).
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// `request_update` of a KeyUpdate (RFC 8446 §4.6.3).
const UPDATE_NOT_REQUESTED: u8 = 0;
const UPDATE_REQUESTED: u8 = 1;

/// A session of which nothing is left but keys: what else it needs is there for as long as it is used.
pub(crate) struct Traffic {
    version: Version,
    tx: Cipher,
    rx: Cipher,
    kernel: Kernel,
    /// A message that has not wholly come.
    cut: Vec<u8>,
    /// Records in a row that brought nothing.
    useless: u8,
    /// The peer wants us to change our key before we send anything more.
    owes_key_change: bool,
    /// It has been told once that there is no renegotiation.
    has_refused: bool,
    /// The peer has ended its side.
    is_peer_closed: bool,
    /// We have ended ours.
    is_closed: bool,
}

impl Traffic {
    pub(crate) fn new(version: Version, tx: Cipher, rx: Cipher, kernel: Kernel) -> Traffic {
        Traffic {
            version,
            tx,
            rx,
            kernel,
            cut: Vec::new(),
            useless: 0,
            owes_key_change: false,
            has_refused: false,
            is_peer_closed: false,
            is_closed: false,
        }
    }

    /// The peer has ended its side.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.is_peer_closed
    }

    /// Decrypts whole records, appended to `plain` until that has this length; gives how many bytes they were.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        len_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, TlsError> {
        let mut taken = 0;
        while !self.is_peer_closed && plain.len() < len_max {
            let rest = &bytes[taken..];
            let Some(header) = Header::parse(rest, self.version)? else {
                break;
            };
            let Some(record) = rest.get(..HEADER_LEN + usize::from(header.len)) else {
                break;
            };
            self.receive_record(header, &record[HEADER_LEN..], plain, out)?;
            taken += record.len();
        }
        // What comes behind the peer's end is not looked at.
        Ok(if self.is_peer_closed {
            bytes.len()
        } else {
            taken
        })
    }

    fn receive_record(
        &mut self,
        header: Header,
        payload: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        if self.version == Version::V13 && header.content_type != ContentType::Data {
            return Err(TlsError::Unexpected); // Nothing goes in plain text any more.
        }
        let begin = plain.len();
        let opened = self.rx.open(header, payload, plain)?;
        if !self.cut.is_empty() && opened.content_type != ContentType::Handshake {
            plain.truncate(begin);
            return Err(TlsError::Unexpected); // Within a message (RFC 8446 §5.1).
        }
        if opened.content_type == ContentType::Data && opened.len > 0 {
            self.useless = 0;
            return Ok(());
        }
        let message = plain.split_off(begin);
        self.take_message(opened, &message, out)
    }

    /// A record that is no plaintext for the program.
    fn take_message(
        &mut self,
        opened: Opened,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        self.useless += 1;
        if self.useless > USELESS_RECORDS_MAX {
            return Err(TlsError::Useless);
        }
        match opened.content_type {
            ContentType::Data => Ok(()), // An empty one hides the length of others.
            ContentType::Alert => self.take_alert(message),
            ContentType::Handshake => self.take_handshake(message, out),
            ContentType::ChangeCipherSpec => Err(TlsError::Unexpected),
        }
    }

    fn take_alert(&mut self, message: &[u8]) -> Result<(), TlsError> {
        let &[level, description] = message else {
            return Err(TlsError::Unexpected);
        };
        match AlertDescription::from(description) {
            AlertDescription::CloseNotify => self.is_peer_closed = true,
            // It says why a close_notify follows, and that its level is a warning (RFC 8446 §6.1).
            AlertDescription::UserCanceled if level == WARNING => {}
            _ if level == WARNING && self.version == Version::V12 => {}
            alert => return Err(TlsError::Alert(alert)),
        }
        Ok(())
    }

    fn take_handshake(&mut self, fragment: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if fragment.is_empty() {
            return Err(TlsError::Unexpected); // RFC 8446 §5.1.
        }
        let mut all = std::mem::take(&mut self.cut);
        all.extend_from_slice(fragment);
        let mut rest = &all[..];
        while let Some((message, behind)) = split(rest)? {
            self.take_handshake_message(&message, behind.is_empty(), out)?;
            rest = behind;
        }
        self.cut = rest.to_vec();
        Ok(())
    }

    fn take_handshake_message(
        &mut self,
        message: &Message<'_>,
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        match (self.version, message.kind, &mut self.kernel) {
            // Behind it other keys are used, so nothing may follow in its record.
            (Version::V13, HandshakeType::KeyUpdate, _) if is_last => {
                self.change_their_key(message.content)
            }
            (Version::V13, HandshakeType::NewSessionTicket, Kernel::Client(kernel)) => {
                kernel.handle_new_session_ticket(message.content)?;
                Ok(())
            }
            (Version::V12, HandshakeType::ClientHello, Kernel::Server(_))
            | (Version::V12, HandshakeType::HelloRequest, Kernel::Client(_)) => {
                self.refuse_renegotiation(out)
            }
            _ => Err(TlsError::Unexpected),
        }
    }

    /// Nobody needs renegotiation: it is refused (RFC 5746 §4.5), once, so that a peer cannot fill what it does not read.
    fn refuse_renegotiation(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        if std::mem::replace(&mut self.has_refused, true) {
            return Err(TlsError::Unexpected);
        }
        match self.is_closed {
            true => Ok(()),
            false => self.send_alert(WARNING, AlertDescription::NoRenegotiation, out),
        }
    }

    /// The peer has changed its key, and may want us to change ours. That is due when we next send data, by which one answer goes for
    /// many (RFC 8446 §4.6.3): a peer that does not read gets no others.
    fn change_their_key(&mut self, content: &[u8]) -> Result<(), TlsError> {
        match content {
            [UPDATE_NOT_REQUESTED] => {}
            [UPDATE_REQUESTED] => self.owes_key_change = true,
            [_] => return Err(TlsError::Illegal),
            _ => return Err(rustls::Error::from(InvalidMessage::InvalidKeyUpdate).into()),
        }
        let secrets = match &mut self.kernel {
            Kernel::Server(kernel) => kernel.update_rx_secret(),
            Kernel::Client(kernel) => kernel.update_rx_secret(),
        };
        self.rx = Cipher::new(self.version, secrets?)?;
        Ok(())
    }

    fn change_our_key(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        let kind = HandshakeType::KeyUpdate.into();
        let message: [u8; MESSAGE_HEADER_LEN + 1] = [kind, 0, 0, 1, UPDATE_NOT_REQUESTED];
        self.tx
            .seal(ContentType::Handshake, [&message[..]].into_iter(), out)?;
        let secrets = match &mut self.kernel {
            Kernel::Server(kernel) => kernel.update_tx_secret(),
            Kernel::Client(kernel) => kernel.update_tx_secret(),
        };
        self.tx = Cipher::new(self.version, secrets?)?;
        self.owes_key_change = false;
        Ok(())
    }

    /// Appends records of these pieces.
    pub(crate) fn seal(&mut self, pieces: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.is_closed {
            return Err(TlsError::Over);
        }
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let records = len.div_ceil(PLAIN_LEN_MAX);
        out.reserve(len + records * self.tx.overhead());
        let mut pieces = Pieces::new(pieces);
        let mut left = len;
        while left > 0 {
            self.see_to_our_key(out)?;
            let count = left.min(PLAIN_LEN_MAX);
            let part = pieces.part(count);
            self.tx.seal(ContentType::Data, part, out)?;
            left -= count;
        }
        Ok(())
    }

    /// Changes our key where the peer wants it, or where it has encrypted what it may.
    fn see_to_our_key(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        let is_used_up = self.tx.is_used_up();
        match self.version {
            Version::V13 if is_used_up || self.owes_key_change => self.change_our_key(out),
            Version::V12 if is_used_up => Err(TlsError::Exhausted),
            _ => Ok(()),
        }
    }

    /// Appends the alert that ends our side, once.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if !self.is_closed {
            self.is_closed = true;
            // A cipher that refuses is over anyway.
            let _ = self.send_alert(WARNING, AlertDescription::CloseNotify, out);
        }
    }

    /// Appends the alert that says why it cannot go on.
    pub(crate) fn fail(&mut self, alert: AlertDescription, out: &mut Vec<u8>) {
        if !self.is_closed {
            self.is_closed = true;
            let _ = self.send_alert(FATAL, alert, out);
        }
    }

    fn send_alert(
        &mut self,
        level: u8,
        alert: AlertDescription,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let message = [level, u8::from(alert)];
        self.tx
            .seal(ContentType::Alert, [&message[..]].into_iter(), out)
    }
}
