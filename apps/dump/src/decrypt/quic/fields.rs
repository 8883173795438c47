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
    /// Something that the encoder has said is missing before what has come of it: how many entries there are is not known.
    has_gap: bool,
}

/// What is said of a head in place of its fields.
pub(super) const UNKNOWN: &str = " by QPACK's dynamic table, which is not known";

/// A field section that cannot be decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// Entries that had been inserted when it came.
    since: u64,
    /// Entries that it needs; 0, while that is not known.
    pub(super) needed: u64,
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            table: Table::observed(),
            is_lost: false,
            has_gap: false,
        }
    }
}

impl Fields {
    /// The other side's settings allow this capacity, in bytes.
    pub(super) fn allow(&mut self, capacity: u64) {
        self.table.allow(capacity);
    }

    /// Before anything was sent: what is allowed stays.
    pub(super) fn restart(&mut self) {
        let allowed = self.table.allowed();
        *self = Self::default();
        if let Some(capacity) = allowed {
            self.allow(capacity);
        }
    }

    /// Nothing more is known of the table.
    pub(super) fn lose(&mut self) {
        *self = Self {
            is_lost: true,
            ..Self::default()
        };
    }

    /// Takes what the encoder says.
    pub(super) fn take(&mut self, rest: &mut &[u8], has_gap: bool) {
        self.has_gap = has_gap;
        if self.is_lost || self.table.take(rest, HEADER_TABLE_LEN_MAX).is_err() {
            self.lose();
            *rest = &[];
        }
    }

    /// Sections that wait for this may be decoded now, or never.
    pub(super) fn is_known(&self, needed: u64) -> bool {
        let is_usable = !self.has_gap && self.table.allowed().is_some();
        self.is_lost || is_usable && needed <= self.table.inserted()
    }

    /// The head of a message; not, where entries are yet to come. It may have waited.
    ///
    /// How many entries it needs is said modulo twice the most that there may be (RFC 9204 §4.5.1.1): behind a gap, or where more than
    /// these have been inserted since it came, it would name others.
    pub(super) fn head(
        &self,
        (kind, section): (u64, &[u8]),
        waited: Option<Waits>,
    ) -> Result<Frame, Waits> {
        let (name, section) = name_of(kind, section);
        let inserted = self.table.inserted();
        let since = waited.map_or(inserted, |it| it.since);
        let mut is_known = !self.is_lost;
        if is_known {
            match self.table.needed(section) {
                Ok(None) => return Err(Waits { since, needed: 0 }),
                Ok(Some(needed)) if needed > 0 => {
                    let most = self.table.entries_max().unwrap_or(0);
                    is_known = inserted - since <= most;
                    if is_known && (self.has_gap || needed > inserted) {
                        let needed = if self.has_gap { 0 } else { needed };
                        return Err(Waits { since, needed });
                    }
                }
                Ok(Some(_)) | Err(_) => {}
            }
        }
        if !is_known && section.first().is_some_and(|first| *first != 0) {
            return Ok(Frame::new(name + UNKNOWN));
        }
        let mut frame = Frame::new(name.clone());
        let mut room = FIELDS_SHOWN;
        let decoded = decoder::decode_by(&self.table, section, |name, value| {
            frame.add_field(name, value, &mut room);
        });
        Ok(match decoded {
            Ok(()) => frame,
            Err(_) => Frame::new(name + " that are not understood"),
        })
    }

    /// Bytes that it keeps beside itself.
    pub(super) fn held(&self) -> usize {
        self.table.held()
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
