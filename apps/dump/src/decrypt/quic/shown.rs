//! What is told of a datagram: its packets, and of those that were decrypted what is in them.

use exos_tls::observer::{HandshakeType, Level, Side};
use exos_wire::quic::PacketType;

use super::Close;
use crate::decrypt::http2::Frame;
use crate::limits::{QUIC_FAILED_MAX, TOLD_BYTES_MAX};

/// What is in clear of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of a long header: what the packet is for, and its version.
    pub(crate) long: Option<(PacketType, u32)>,
    pub(crate) destination: Vec<u8>,
    pub(crate) source: Vec<u8>,
    /// Bytes of its token.
    pub(crate) token_len: usize,
}

impl Header {
    pub(super) fn short(destination: &[u8]) -> Self {
        Self {
            long: None,
            destination: destination.to_vec(),
            source: Vec::new(),
            token_len: 0,
        }
    }

    pub(super) fn level(&self) -> Level {
        match self.long {
            Some((PacketType::ZeroRtt, _)) => Level::Early,
            Some((PacketType::Handshake, _)) => Level::Handshake,
            Some(_) => Level::Initial,
            None => Level::Traffic,
        }
    }
}

/// What is to be told of a packet that was decrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A frame. What it completes follows.
    Frame(String),
    /// What that frame says which ends the connection.
    Close(Close),
    /// A hello that is whole.
    Hello(Vec<u8>),
    /// Another message of the handshake.
    Message(HandshakeType),
    /// A frame of HTTP/3.
    Http3(Frame),
    /// Why there is nothing.
    Note(String),
}

impl Told {
    pub(super) fn message(message: Vec<u8>) -> Self {
        match HandshakeType::from(message[0]) {
            HandshakeType::ClientHello | HandshakeType::ServerHello => Self::Hello(message),
            other => Self::Message(other),
        }
    }

    fn len(&self) -> usize {
        let more = match self {
            Self::Frame(line) | Self::Note(line) => line.len(),
            Self::Close(close) => close.reason.len(),
            Self::Hello(message) => message.len(),
            Self::Message(_) => 0,
            Self::Http3(frame) => frame.len(),
        };
        size_of::<Self>() + more
    }
}

/// A packet, and what is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownPacket {
    pub(crate) header: Header,
    /// It came before, from this side, and its key later.
    pub(crate) late_from: Option<Side>,
    /// Its number, when it was decrypted.
    pub(crate) number: Option<u64>,
    pub(crate) told: Vec<Told>,
}

/// How sure it is that a datagram is QUIC's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Certainty {
    #[default]
    Certain,
    /// Its port and two of its bits say so.
    Maybe,
}

/// What a datagram came to.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) packets: Vec<ShownPacket>,
    pub(crate) certainty: Certainty,
    pub(super) has_fields: bool,
    told_bytes: usize,
    /// Packets that were not decrypted though there are keys.
    failed: usize,
}

impl Shown {
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.certainty = Certainty::Certain;
        (self.told_bytes, self.failed) = (0, 0);
    }

    /// A packet was not decrypted though there are keys; true once there are as many as are tried of one datagram.
    pub(super) fn fails(&mut self) -> bool {
        self.failed += 1;
        self.failed >= QUIC_FAILED_MAX
    }

    pub(super) fn begin(&mut self, header: Header, late_from: Option<Side>) {
        self.packets.push(ShownPacket {
            header,
            late_from,
            number: None,
            told: Vec::new(),
        });
    }

    pub(super) fn number(&mut self, number: u64) {
        if let Some(packet) = self.packets.last_mut() {
            packet.number = Some(number);
        }
    }

    /// Adds what is told of the last packet, while there is room for more.
    pub(super) fn tell(&mut self, mut told: Told) {
        if let Told::Http3(frame) = &mut told
            && !self.has_fields
        {
            frame.fields.clear();
        }
        let had_room = self.told_bytes <= TOLD_BYTES_MAX;
        self.told_bytes += told.len();
        let told = match (had_room, self.told_bytes <= TOLD_BYTES_MAX) {
            (_, true) => told,
            (true, false) => Told::Note("more frames".to_owned()),
            (false, false) => return,
        };
        if let Some(packet) = self.packets.last_mut() {
            packet.told.push(told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FIELDS_SHOWN;

    /// Fields take room from other frames only where they are told.
    #[test]
    fn fields_that_are_not_told_take_no_room() {
        for has_fields in [false, true] {
            let mut shown = Shown {
                has_fields,
                ..Shown::default()
            };
            shown.begin(Header::short(b""), None);
            for _ in 0..2 * TOLD_BYTES_MAX / FIELDS_SHOWN {
                let mut frame = Frame::new("HEADERS".to_owned());
                frame.add_field(b"x", &[b'y'; 1000], &mut FIELDS_SHOWN.clone());
                frame
                    .fields
                    .resize(FIELDS_SHOWN / 1000, frame.fields[0].clone());
                shown.tell(Told::Http3(frame));
            }
            let told = &shown.packets[0].told;
            let more = Told::Note("more frames".to_owned());
            assert_eq!(told.contains(&more), has_fields);
        }
    }
}
