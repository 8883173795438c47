//! Field sections that one side of HTTP/3 sends, and the table to which they refer (RFC 9204): that side's encoder fills it, on a stream of
//! its own, as far as the other side's settings allow.

use exos_http3::frame::{kind, setting, take_head};
use exos_http3::qpack::{decoder, dynamic::Table};
use exos_http3::varint;

use super::super::http2::Frame;
use crate::limits::{FIELDS_SHOWN, HEADER_TABLE_LEN_MAX};

/// What sections are decoded with.
#[derive(Debug)]
pub(super) struct Fields {
    table: Table,
    /// Something that has changed it is not known.
    is_lost: bool,
}

impl Fields {
    pub(super) fn new() -> Self {
        Self {
            table: Table::observed(),
            is_lost: false,
        }
    }

    /// The other side's settings allow this capacity, in bytes.
    pub(super) fn allow(&mut self, capacity: u64) {
        self.table.allow(capacity);
    }

    /// Before anything was sent: what is allowed stays.
    pub(super) fn restart(&mut self) {
        let allowed = self.table.allowed();
        *self = Self::new();
        if let Some(capacity) = allowed {
            self.allow(capacity);
        }
    }

    /// Nothing more is known of the table.
    pub(super) fn lose(&mut self) {
        *self = Self::new();
        self.is_lost = true;
    }

    /// Takes what the encoder says.
    pub(super) fn take(&mut self, rest: &mut &[u8]) {
        if self.is_lost || self.table.take(rest, HEADER_TABLE_LEN_MAX).is_err() {
            self.lose();
            *rest = &[];
        }
    }

    /// The head of a message; nothing, where entries are yet to come.
    pub(super) fn head(&self, kind: u64, section: &[u8], keeps_fields: bool) -> Option<Frame> {
        let (name, section) = name_of(kind, section);
        if !self.is_lost && self.table.has(section) == Ok(false) {
            return None;
        }
        let mut frame = Frame::new(name.clone());
        let mut room = FIELDS_SHOWN;
        let decoded = decoder::decode_by(&self.table, section, |name, value| {
            frame.add_field(name, value, &mut room, keeps_fields);
        });
        Some(match (decoded, self.is_lost) {
            (Ok(()), _) => frame,
            (Err(_), true) => Frame::new(name + " by QPACK's dynamic table, which is not known"),
            (Err(_), false) => Frame::new(name + " that are not understood"),
        })
    }

    /// Bytes that it keeps beside itself.
    pub(super) fn held(&self) -> usize {
        2 * self.table.size() // An entry counts 32 bytes beside its own, which the list may double.
    }
}

/// What is said of a head whose fields are not known, and its section.
fn name_of(kind: u64, content: &[u8]) -> (String, &[u8]) {
    let mut section = content;
    match kind {
        kind::PUSH_PROMISE => {
            let promised = varint::take(&mut section).unwrap_or(0);
            (format!("PUSH_PROMISE {promised}"), section)
        }
        _ => ("HEADERS".to_owned(), section),
    }
}

/// The bytes of a table that settings allow (§5).
pub(super) fn capacity_of(settings: &[u8]) -> u64 {
    let mut rest = settings;
    // An identifier and a value are as a frame's type and length.
    let mut all = std::iter::from_fn(|| take_head(&mut rest));
    let capacity = all.find(|(id, _)| *id == setting::QPACK_MAX_TABLE_CAPACITY);
    capacity.map_or(0, |(_, value)| value)
}
