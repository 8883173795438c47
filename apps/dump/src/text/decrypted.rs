//! Hellos that are in several segments, and what was encrypted, where there is a key: names of handshake messages, alerts, heads of HTTP and lengths of other data, shown with
//! the segment in which their records end.

use exos_tls::observer::HandshakeType;
use exos_wire::tls::HelloView;

use super::http;
use super::line::Line;
use super::part::Part;
use crate::decrypt::{Frame, Item, Segment};

impl Line<'_> {
    pub(super) fn decrypted(&mut self, segment: &Segment<'_>) {
        let Some(decrypter) = self.decrypter.take() else {
            return;
        };
        if let Some(message) = decrypter.hello(segment)
            && let Ok(hello) = HelloView::parse(&message)
        {
            write!(self, ": ");
            self.tls_hello(&hello);
        }
        let shown = decrypter.segment(segment);
        for item in &shown.items {
            self.decrypted_item(item, &shown.plain);
        }
        self.decrypter = Some(decrypter);
    }

    fn decrypted_item(&mut self, item: &Item, plain: &[u8]) {
        match item {
            Item::Message(kind) => write!(self, ": TLS {}", message_name(*kind)),
            Item::Alert(level, description) => self.tls_alert(*level, *description),
            Item::Data(range) => {
                let data = &plain[range.clone()];
                write!(self, ": TLS");
                match http::begins_message(data) {
                    true => self.http(Part::new(data, data.len(), "http")),
                    false => write!(self, " data {}", data.len()),
                }
            }
            Item::Http2(frame) => {
                write!(self, ": HTTP/2 ");
                self.http_frame(frame);
            }
            Item::Note(note) => write!(self, ": TLS [{note}]"),
        }
    }

    /// A frame of HTTP/2 or 3, with `-v` all fields of a head.
    pub(super) fn http_frame(&mut self, frame: &Frame) {
        self.escaped(&frame.line);
        if self.style.verbosity > 0 {
            for field in &frame.fields {
                write!(self, "\n\t");
                self.escaped(field);
            }
        }
    }
}

/// RFC 8446 §4, and what TLS 1.2 has beside (RFC 5246 §7.4).
pub(super) fn message_name(kind: HandshakeType) -> String {
    // rustls names them as the standard does, and gives numbers to those that it does not know.
    format!("{kind:?}")
}
