//! A session whose handshake is over: records in, records out, changes of keys, alerts.

use rustls::{AlertDescription, HandshakeType};

use crate::TlsError;
use crate::handshake::Kernel;
use crate::limits::{
    HEADER_LEN, MESSAGE_LEN_MAX, PLAIN_LEN_MAX, RECORDS_12_MAX, RECORDS_MAX, UNREAD_LEN,
    USELESS_RECORDS_MAX,
};
use crate::record::{Cipher, ContentType, Header, Opened, Version};

/// Alert levels (RFC 8446 §6).
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// `request_update` of a KeyUpdate (RFC 8446 §4.6.3).
const UPDATE_NOT_REQUESTED: u8 = 0;
const UPDATE_REQUESTED: u8 = 1;

/// What a handshake message has before its content: its type, and its length.
const MESSAGE_HEADER_LEN: usize = 4;

pub(crate) struct Traffic {
    version: Version,
    tx: Cipher,
    rx: Cipher,
    kernel: Kernel,
    /// Of a message behind the handshake, what has come.
    message: Vec<u8>,
    /// The peer wants us to change our key: before what we send next, so that who reads nothing is sent nothing (RFC 8446 §4.6.3).
    owes_key: bool,
    /// A renegotiation was refused.
    has_refused: bool,
    /// Records in a row that brought nothing.
    useless: u8,
    /// The peer has ended its side.
    pub(crate) is_peer_closed: bool,
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
            message: Vec::new(),
            owes_key: false,
            has_refused: false,
            useless: 0,
            is_peer_closed: false,
            is_closed: false,
        }
    }

    /// Decrypts whole records, appended to `plain`, while there is room there; gives how many bytes they were.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, TlsError> {
        let mut taken = 0;
        while !self.is_peer_closed && plain.len() < UNREAD_LEN {
            let rest = &bytes[taken..];
            let Some(header) = Header::parse(rest, self.version)? else {
                break;
            };
            let Some(payload) = rest.get(HEADER_LEN..HEADER_LEN + header.len) else {
                break;
            };
            let begin = plain.len();
            if self.version == Version::V13 && header.content_type != ContentType::Data {
                return Err(TlsError::Unexpected); // Nothing goes in plain text any more.
            }
            let opened = self.rx.open(header, payload, plain)?;
            taken += HEADER_LEN + header.len;
            if opened.content_type != ContentType::Handshake && !self.message.is_empty() {
                return Err(TlsError::Unexpected); // RFC 8446 §5.1
            }
            if opened.content_type == ContentType::Data && opened.len > 0 {
                self.useless = 0;
                continue;
            }
            let message = plain.split_off(begin);
            self.take_message(opened, &message, out)?;
        }
        // What comes behind the peer's end is not looked at.
        Ok(if self.is_peer_closed {
            bytes.len()
        } else {
            taken
        })
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
            AlertDescription::UserCanceled if level == WARNING => {}
            _ if level == WARNING && self.version == Version::V12 => {}
            alert => return Err(TlsError::Alert(alert)),
        }
        Ok(())
    }

    /// Messages of the handshake behind the handshake, which may be in several records.
    fn take_handshake(&mut self, part: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if part.is_empty() {
            return Err(TlsError::Unexpected); // RFC 8446 §5.1
        }
        let mut messages = std::mem::take(&mut self.message);
        messages.extend_from_slice(part);
        let mut rest = &messages[..];
        while let Some((&[kind, a, b, c], behind)) = rest.split_first_chunk::<MESSAGE_HEADER_LEN>()
        {
            let len = u32::from_be_bytes([0, a, b, c]) as usize;
            if len > MESSAGE_LEN_MAX {
                return Err(TlsError::TooLong);
            }
            let Some((content, behind)) = behind.split_at_checked(len) else {
                break;
            };
            let kind = HandshakeType::from(kind);
            self.take_handshake_message(kind, content, behind.is_empty(), out)?;
            rest = behind;
        }
        self.message = rest.to_vec();
        Ok(())
    }

    fn take_handshake_message(
        &mut self,
        kind: HandshakeType,
        content: &[u8],
        is_last: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        match (self.version, kind, &mut self.kernel) {
            // Behind it other keys are used, so nothing may follow in its record.
            (Version::V13, HandshakeType::KeyUpdate, _) if is_last => self.change_keys(content),
            (Version::V13, HandshakeType::NewSessionTicket, Kernel::Client(kernel)) => {
                kernel.handle_new_session_ticket(content)?;
                Ok(())
            }
            // Renegotiation, which nobody needs, and which is refused (RFC 5746 §4.5).
            (Version::V12, HandshakeType::ClientHello, Kernel::Server(_))
            | (Version::V12, HandshakeType::HelloRequest, Kernel::Client(_))
                if !self.has_refused =>
            {
                self.has_refused = true;
                match self.is_closed {
                    true => Ok(()),
                    false => self.send_alert(WARNING, AlertDescription::NoRenegotiation, out),
                }
            }
            _ => Err(TlsError::Unexpected),
        }
    }

    /// The peer has changed its key, and may want us to change ours (RFC 8446 §4.6.3).
    fn change_keys(&mut self, content: &[u8]) -> Result<(), TlsError> {
        let secrets = match &mut self.kernel {
            Kernel::Server(kernel) => kernel.update_rx_secret(),
            Kernel::Client(kernel) => kernel.update_rx_secret(),
        };
        self.rx = Cipher::new(self.version, secrets?)?;
        match content {
            [UPDATE_NOT_REQUESTED] => {}
            [UPDATE_REQUESTED] => self.owes_key = true,
            _ => return Err(TlsError::Illegal),
        }
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
        self.owes_key = false;
        Ok(())
    }

    /// Appends records of these pieces.
    pub(crate) fn seal(&mut self, pieces: &[&[u8]], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.is_closed {
            return Err(TlsError::Over);
        }
        let len: usize = pieces.iter().map(|piece| piece.len()).sum();
        let records = len.div_ceil(PLAIN_LEN_MAX);
        out.reserve_exact(len + records * self.tx.overhead());
        let mut pieces = Pieces { pieces, at: 0 };
        let mut left = len;
        while left > 0 {
            self.see_to_our_key(out)?;
            let count = left.min(PLAIN_LEN_MAX);
            let part = Part {
                pieces: &mut pieces,
                left: count,
            };
            self.tx.seal(ContentType::Data, part, out)?;
            left -= count;
        }
        Ok(())
    }

    /// A key may encrypt so much and no more.
    fn see_to_our_key(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        match self.version {
            Version::V13 if self.owes_key || self.tx.records() >= RECORDS_MAX => {
                self.change_our_key(out)
            }
            Version::V12 if self.tx.records() >= RECORDS_12_MAX => Err(TlsError::Exhausted),
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

/// Pieces that are cut into records.
struct Pieces<'a> {
    pieces: &'a [&'a [u8]],
    /// Where the first one goes on.
    at: usize,
}

/// As much of them as one record has.
struct Part<'a, 'b> {
    pieces: &'b mut Pieces<'a>,
    left: usize,
}

impl<'a> Iterator for Part<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (first, others) = self.pieces.pieces.split_first()?;
        if self.left == 0 {
            return None;
        }
        let rest = &first[self.pieces.at..];
        let piece = &rest[..rest.len().min(self.left)];
        self.left -= piece.len();
        if piece.len() == rest.len() {
            (self.pieces.pieces, self.pieces.at) = (others, 0);
        } else {
            self.pieces.at += piece.len();
        }
        Some(piece)
    }
}
