//! QUIC (RFC 9000): the packets of a datagram, and in braces the frames of those that were decrypted.
//!
//! Packets with long headers are recognised by their version on any port, and where their fixed bit is cleared by the keys that open the first
//! one. One that negotiates versions has none, and is looked for on HTTP's
//! port. Short headers say next to nothing: they are recognised by the identifier of a connection that is known, and between ends that have
//! sent long ones; on HTTP's port it is said that they may be QUIC's.

use exos_http3::ErrorCode;
use exos_tls::observer::Side;
use exos_wire::quic::{PacketType, VERSION_1};
use exos_wire::tls::HelloView;

use super::decrypted::message_name;
use super::ip::Upper;
use super::line::Line;
use super::part::Part;
use crate::decrypt::quic::{Certainty, Close, Datagram, Header, ShownPacket, Told};

/// Errors of TLS stand behind this (RFC 9001 §4.8).
const CRYPTO_ERROR: u64 = 0x100;

impl Line<'_> {
    pub(super) fn quic(&mut self, payload: Part<'_>, (src, dst): (u16, u16), upper: &Upper) {
        let Some(decrypter) = self.decrypter.take() else {
            return;
        };
        let (from, to) = upper.addresses.both();
        let shown = decrypter.datagram(&Datagram {
            from: (from, src),
            to: (to, dst),
            bytes: payload.bytes(),
            len: payload.len(),
        });
        let mut separator = match shown.certainty {
            Certainty::Certain => ": QUIC ",
            Certainty::Maybe => ": maybe QUIC ",
        };
        for packet in &shown.packets {
            write!(self, "{separator}");
            self.quic_packet(packet);
            separator = ", ";
        }
        self.decrypter = Some(decrypter);
    }

    fn quic_packet(&mut self, packet: &ShownPacket) {
        match packet.late_from {
            Some(Side::Client) => write!(self, "late from the client "),
            Some(Side::Server) => write!(self, "late from the server "),
            None => {}
        }
        self.quic_header(&packet.header);
        if let Some(number) = packet.number {
            write!(self, " #{number}");
        }
        let (mut separator, mut is_open) = (" {", false);
        for told in &packet.told {
            match told {
                Told::Frame(line) => {
                    write!(self, "{separator}{line}");
                    (separator, is_open) = (", ", true);
                }
                Told::Close(close) => self.quic_close(close),
                Told::Hello(message) => match HelloView::parse(message) {
                    Ok(hello) => {
                        write!(self, " ");
                        self.tls_hello(&hello);
                    }
                    Err(_) => write!(self, " TLS hello that is not understood"),
                },
                Told::Message(kind) => write!(self, " TLS {}", message_name(*kind)),
                Told::Http3(frame) => {
                    write!(self, " HTTP/3 ");
                    self.http_frame(frame);
                }
                Told::Note(note) => write!(self, " [{note}]"),
            }
        }
        if is_open {
            write!(self, "}}");
        }
    }

    fn quic_header(&mut self, header: &Header) {
        let Some((kind, version)) = header.long else {
            write!(self, "1-RTT");
            return self.quic_ids(header);
        };
        let name = match kind {
            PacketType::Initial => "Initial",
            PacketType::ZeroRtt => "0-RTT",
            PacketType::Handshake => "Handshake",
            PacketType::Retry => "Retry",
            PacketType::VersionNegotiation => "Version Negotiation",
        };
        write!(self, "{name}");
        match version {
            0 => {}
            VERSION_1 => write!(self, " v1"),
            _ => write!(self, " v2"),
        }
        self.quic_ids(header);
    }

    fn quic_ids(&mut self, header: &Header) {
        if self.style.verbosity > 0 {
            self.hexadecimal(" to ", &header.destination);
            self.hexadecimal(" from ", &header.source);
            if header.token_len > 0 {
                write!(self, " token {}", header.token_len);
            }
        }
    }

    /// The error that a connection ends with, by its name where it has one, and what its sender says of it.
    fn quic_close(&mut self, close: &Close) {
        write!(self, " ");
        let code = close.code;
        let is_of_tls =
            !close.is_of_application && (CRYPTO_ERROR..CRYPTO_ERROR + 0x100).contains(&code);
        let name = match close.is_of_application {
            true => u32::try_from(code)
                .ok()
                .and_then(|code| ErrorCode(code).name()),
            false => transport_error(code),
        };
        match name {
            _ if is_of_tls => {
                write!(self, "TLS ");
                self.tls_alert_name((code - CRYPTO_ERROR) as u8);
            }
            Some(name) => write!(self, "{name}"),
            None => write!(self, "{code:#x}"),
        }
        if !close.reason.is_empty() {
            write!(self, " \"");
            self.escaped(&close.reason);
            write!(self, "\"");
        }
    }
}

/// RFC 9000 §20.1, RFC 9368 §10.2.
fn transport_error(code: u64) -> Option<&'static str> {
    Some(match code {
        0 => "no_error",
        1 => "internal_error",
        2 => "connection_refused",
        3 => "flow_control_error",
        4 => "stream_limit_error",
        5 => "stream_state_error",
        6 => "final_size_error",
        7 => "frame_encoding_error",
        8 => "transport_parameter_error",
        9 => "connection_id_limit_error",
        0xa => "protocol_violation",
        0xb => "invalid_token",
        0xc => "application_error",
        0xd => "crypto_buffer_exceeded",
        0xe => "key_update_error",
        0xf => "aead_limit_reached",
        0x10 => "no_viable_path",
        0x11 => "version_negotiation_error",
        _ => return None,
    })
}
