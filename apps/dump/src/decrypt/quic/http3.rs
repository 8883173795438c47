//! HTTP/3 in the streams that one side of a connection sends (RFC 9114): frames as they begin, field sections as they end.
//!
//! Payloads of other frames are passed over. What is kept of a stream is what stands behind a gap, and one field section, which is bounded;
//! and of a side a bounded number of streams.

use std::collections::{BTreeMap, VecDeque};

use exos_http3::frame::{kind, stream, take_head};
use exos_http3::{qpack, varint};

use super::super::http2::Frame;
use super::super::stream::Stream;
use super::{Shown, StreamPart, Told};
use crate::limits::{
    AHEAD_BYTES_MAX, FIELDS_SHOWN, FOLLOWED_STREAMS_MAX, HEADER_BLOCK_LEN_MAX, STREAMS_HELD_MAX,
};

/// A stream. Requests come first, so that these are forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    is_one_way: bool,
    id: u64,
}

/// What one side sends of a stream.
#[derive(Debug)]
struct Half {
    bytes: Stream,
    /// Where it ends, when that is known.
    last: Option<u64>,
    /// Of a stream in one direction: its type has come.
    is_typed: bool,
    /// Bytes of a payload that are still to be passed over.
    skipped: u64,
}

/// Nothing more of a stream is told.
#[derive(Debug, PartialEq, Eq)]
struct Over;

/// The streams that are followed.
#[derive(Debug, Default)]
pub(super) struct Http3 {
    halves: BTreeMap<Key, Half>,
    /// Those that have ended last, in whatever order: what is sent again of them is not told again.
    ended: VecDeque<Key>,
    /// Of each of the four kinds of streams: all below have ended that are not followed.
    ended_below: [u64; 4],
    held: usize,
}

impl Http3 {
    /// Takes what a frame has of a stream; tells the frames of HTTP/3 in what is in order by that.
    pub(super) fn take(&mut self, part: &StreamPart<'_>, shown: &mut Shown) {
        let key = Key {
            is_one_way: part.id & 2 != 0,
            id: part.id,
        };
        let mut half = match self.halves.remove(&key) {
            Some(half) => half,
            None if self.has_ended(key) => return,
            None => Half::new(),
        };
        self.held -= half.bytes.held();
        let is_missing = half.bytes.put_at(part.offset, part.data).is_err();
        if is_missing {
            shown.tell(line("packets are missing".to_owned()));
        }
        half.last = half.last.or(part.end());
        let is_over = is_missing || half.take(key.is_one_way, shown) == Err(Over);
        if is_over || half.last.is_some_and(|last| half.bytes.end() >= last) {
            self.end(key);
        } else {
            self.held += half.bytes.held();
            self.halves.insert(key, half);
        }
        while self.halves.len() > FOLLOWED_STREAMS_MAX || self.held > STREAMS_HELD_MAX {
            let Some((key, half)) = self.halves.pop_first() else {
                break;
            };
            self.held -= half.bytes.held();
            self.end(key);
        }
    }

    fn has_ended(&self, key: Key) -> bool {
        key.id < self.ended_below[kind_of(key.id)] || self.ended.contains(&key)
    }

    fn end(&mut self, key: Key) {
        if self.ended.len() == FOLLOWED_STREAMS_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            let below = &mut self.ended_below[kind_of(oldest.id)];
            *below = (*below).max(oldest.id + 1);
        }
        self.ended.push_back(key);
    }

    /// Bytes that it keeps.
    pub(super) fn held(&self) -> usize {
        // A tree's nodes are half full at least.
        let halves = 2 * self.halves.len() * size_of::<(Key, Half)>();
        size_of::<Self>() + self.held + halves + self.ended.capacity() * size_of::<Key>()
    }
}

/// Who begins a stream, and which ways it goes (RFC 9000 §2.1).
fn kind_of(id: u64) -> usize {
    (id & 3) as usize
}

impl Half {
    fn new() -> Self {
        Self {
            bytes: Stream::of_quic(AHEAD_BYTES_MAX),
            last: None,
            is_typed: false,
            skipped: 0,
        }
    }

    fn take(&mut self, is_one_way: bool, shown: &mut Shown) -> Result<(), Over> {
        let ready = self.bytes.ready();
        let mut rest = ready;
        if is_one_way && !self.is_typed {
            let Some(kind) = varint::take(&mut rest) else {
                return Ok(());
            };
            self.is_typed = true;
            shown.tell(line(name_of_stream(kind)));
            if kind != stream::CONTROL {
                return Err(Over);
            }
        }
        loop {
            let skipped = self.skipped.min(rest.len() as u64);
            self.skipped -= skipped;
            rest = &rest[skipped as usize..];
            let mut behind = rest;
            let Some((kind, len)) = take_head(&mut behind) else {
                break;
            };
            if !matches!(kind, kind::HEADERS | kind::PUSH_PROMISE) {
                shown.tell(line(name_of_frame(kind, len)));
                (rest, self.skipped) = (behind, len);
                continue;
            }
            if len > HEADER_BLOCK_LEN_MAX as u64 {
                shown.tell(line("HEADERS that are too long".to_owned()));
                return Err(Over);
            }
            let Some((section, behind)) = behind.split_at_checked(len as usize) else {
                break;
            };
            shown.tell(Told::Http3(head(kind, section, shown.keeps_fields)));
            rest = behind;
        }
        let taken = ready.len() - rest.len();
        self.bytes.consume(taken);
        Ok(())
    }
}

fn line(text: String) -> Told {
    Told::Http3(plain(text))
}

fn plain(text: String) -> Frame {
    Frame {
        line: text.into_bytes(),
        fields: Vec::new(),
    }
}

/// RFC 9114 §6.2, RFC 9204 §4.2.
fn name_of_stream(kind: u64) -> String {
    match kind {
        stream::CONTROL => "control".to_owned(),
        stream::PUSH => "push".to_owned(),
        stream::QPACK_ENCODER => "QPACK encoder".to_owned(),
        stream::QPACK_DECODER => "QPACK decoder".to_owned(),
        other => format!("stream {other:#x}"),
    }
}

/// RFC 9114 §7.2, RFC 9218 §7.2.
fn name_of_frame(kind: u64, len: u64) -> String {
    let name = match kind {
        kind::DATA => return format!("DATA {len}"),
        kind::CANCEL_PUSH => "CANCEL_PUSH",
        kind::SETTINGS => "SETTINGS",
        kind::GOAWAY => "GOAWAY",
        kind::MAX_PUSH_ID => "MAX_PUSH_ID",
        kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH => "PRIORITY_UPDATE",
        other => return format!("frame {other:#x}"),
    };
    name.to_owned()
}

/// A field section. One that needs entries of the dynamic table is not read.
fn head(kind: u64, section: &[u8], keeps_fields: bool) -> Frame {
    let mut frame = Frame::default();
    let (name, section) = match kind {
        kind::PUSH_PROMISE => {
            let mut section = section;
            let promised = varint::take(&mut section);
            (format!("PUSH_PROMISE {}", promised.unwrap_or(0)), section)
        }
        _ => ("HEADERS".to_owned(), section),
    };
    frame.line.extend_from_slice(name.as_bytes());
    let mut room = FIELDS_SHOWN;
    let decoded = qpack::decoder::decode(section, |name, value| {
        frame.add_field(name, value, &mut room, keeps_fields);
    });
    if decoded.is_err() {
        frame = plain(format!("{name} by QPACK's dynamic table"));
    }
    frame
}

#[cfg(test)]
mod tests {
    use exos_http3::frame;

    use super::super::Header;
    use super::*;

    fn told(http3: &mut Http3, id: u64, offset: u64, data: &[u8], is_last: bool) -> Vec<String> {
        let part = StreamPart {
            id,
            offset,
            data,
            is_last,
        };
        let mut shown = Shown::default();
        let destination = Vec::new();
        let header = Header {
            long: None,
            source: destination.clone(),
            destination,
            token_len: 0,
        };
        shown.begin(header, None);
        http3.take(&part, &mut shown);
        let told = shown.packets.remove(0).told.into_iter();
        told.map(|told| match told {
            Told::Http3(frame) => String::from_utf8(frame.line).expect("names"),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    /// An answer of 300 bytes.
    fn answer() -> Vec<u8> {
        let mut bytes = Vec::new();
        let section = qpack::encoder::section(&[(":status", "200"), ("a", "b")]);
        frame::push(&mut bytes, kind::HEADERS, &section);
        frame::push(&mut bytes, kind::DATA, &[0; 300]);
        bytes
    }

    #[test]
    fn frames_are_told_once_in_whatever_order_their_parts_come() {
        let answer = answer();
        let wanted = ["HEADERS 200", "DATA 300"];
        for cut in 1..answer.len() {
            let (mut http3, (first, second)) = (Http3::default(), answer.split_at(cut));
            let (at, mut all) = (cut as u64, Vec::new());
            for _ in 0..2 {
                all.extend(told(&mut http3, 0, at, second, true));
                all.extend(told(&mut http3, 0, 0, first, false));
            }
            assert_eq!(all, wanted, "{cut}");
            assert!(http3.halves.is_empty() && http3.held == 0);
        }
    }

    #[test]
    fn streams_in_one_direction_have_types() {
        let mut http3 = Http3::default();
        let settings = frame::settings();
        assert_eq!(
            told(&mut http3, 3, 0, &settings, false),
            ["control", "SETTINGS"]
        );
        let at = settings.len() as u64;
        assert_eq!(
            told(&mut http3, 3, at, &frame::go_away(8), false),
            ["GOAWAY"]
        );
        assert_eq!(told(&mut http3, 7, 0, &[2], false), ["QPACK encoder"]);
        assert_eq!(told(&mut http3, 7, 1, &[1, 1, 1], false), [""; 0]);
        assert_eq!(
            told(&mut http3, 11, 0, &[0x40, 0x21, 9], true),
            ["stream 0x21"]
        );
        // A section that names an entry of a table that the sender has filled.
        let head = [1, 3, 2, 0, 0x80];
        assert_eq!(
            told(&mut http3, 0, 0, &head, true),
            ["HEADERS by QPACK's dynamic table"]
        );
        let long = [1, 0x80, 1, 0x11, 0x70];
        assert_eq!(
            told(&mut http3, 4, 0, &long, false),
            ["HEADERS that are too long"]
        );
    }

    /// Parts of several streams in all orders: a stream that begins late has not ended.
    #[test]
    fn streams_come_in_any_order() {
        let answer = answer();
        let (first, second) = answer.split_at(4);
        let mut parts = Vec::new();
        for id in [0, 4, 8] {
            parts.push((id, 0, first, false));
            parts.push((id, 4, second, true));
        }
        let mut random = exos_testing::Random(5);
        for _ in 0..100 {
            for i in (1..parts.len()).rev() {
                parts.swap(i, random.below(i + 1));
            }
            let mut http3 = Http3::default();
            let mut all = Vec::new();
            for (id, at, data, is_last) in parts.iter().chain(&parts) {
                all.extend(told(&mut http3, *id, *at, data, *is_last));
            }
            all.sort();
            let wanted = ["DATA 300"; 3].into_iter().chain(["HEADERS 200"; 3]);
            assert_eq!(all, wanted.collect::<Vec<_>>());
        }
        // What has ended long ago is not told again either.
        let mut http3 = Http3::default();
        for id in (0..4 * FOLLOWED_STREAMS_MAX as u64).map(|nth| 4 * nth) {
            assert_eq!(told(&mut http3, id, 0, &answer, true).len(), 2);
        }
        assert_eq!(told(&mut http3, 0, 0, &answer, true), [""; 0]);
    }

    /// A megabyte behind a gap in each of many streams.
    #[test]
    fn bytes_behind_gaps_are_bounded_together() {
        let mut http3 = Http3::default();
        for at in 0..16 {
            for id in 0..64 {
                told(&mut http3, 4 * id, 1 + 60_000 * at, &[0; 60_000], false);
                assert!(http3.held() <= STREAMS_HELD_MAX + 64 * 1024);
            }
        }
    }

    /// However many streams there are that never end.
    #[test]
    fn streams_are_bounded() {
        let mut http3 = Http3::default();
        told(&mut http3, 3, 0, &frame::settings(), false);
        for nth in 0..4 * FOLLOWED_STREAMS_MAX as u64 {
            told(&mut http3, 4 * nth, 5, &[0; 100], false);
            told(&mut http3, 4 * nth + 1, 0, &[0, 0], true);
            assert!(http3.halves.len() <= FOLLOWED_STREAMS_MAX);
            assert!(http3.held() < FOLLOWED_STREAMS_MAX * 2000);
        }
        let at = frame::settings().len() as u64;
        assert_eq!(
            told(&mut http3, 3, at, &frame::go_away(8), false),
            ["GOAWAY"]
        );
    }
}
