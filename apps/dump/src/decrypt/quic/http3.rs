//! HTTP/3 in the streams that one side of a connection sends (RFC 9114): frames as they begin, field sections as they end.
//!
//! Payloads of other frames are passed over, but for settings. What is kept of a stream is what stands behind a gap, or behind a field section
//! that waits for QPACK's dynamic table, and one field section, which is bounded; and of a side a bounded number of streams.

use std::collections::BTreeMap;

use exos_http3::frame::{kind, stream, take_head};
use exos_http3::limits::CONTROL_FRAME_LEN_MAX;
use exos_http3::varint;
use exos_wire::SeqNumber;

use super::super::http2::Frame;
use super::super::stream::Stream;
use super::ended::Ended;
use super::fields::{Fields, UNKNOWN, Waits, capacity_of};
use super::{Shown, StreamPart, Told};
use crate::limits::{
    FOLLOWED_STREAMS_MAX, HEADER_BLOCK_LEN_MAX, HEADER_TABLE_LEN_MAX, STREAMS_HELD_MAX,
};

/// A stream: whether it is one in one direction, and its identifier. Requests come first, so that these are forgotten first.
type Key = (bool, u64);

fn key_of(id: u64) -> Key {
    (id & 2 != 0, id)
}

/// A stream in one direction that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OneWay {
    Control,
    Encoder,
}

/// What one side sends of a stream.
#[derive(Debug)]
struct Half {
    bytes: Stream,
    /// Where it ends, when that is known.
    last: Option<u64>,
    frames: Frames,
}

/// Where the frames of a stream are.
#[derive(Debug, Default)]
struct Frames {
    /// Of a stream in one direction, when its type has come.
    kind: Option<OneWay>,
    /// Bytes of a payload that are still to be passed over.
    skipped: u64,
    /// Its next field section needs entries of the table that have not come.
    waits: Option<Waits>,
}

/// Nothing more of a stream is told.
#[derive(Debug, PartialEq, Eq)]
struct Over;

/// The streams that are followed.
#[derive(Debug, Default)]
pub(super) struct Http3 {
    halves: BTreeMap<Key, Box<Half>>,
    ended: Ended,
    fields: Fields,
    held: usize,
    /// What its settings allow the other side's table, once they have come.
    allows: Option<u64>,
    /// The least number of entries for which a head waits.
    awaited: Option<u64>,
}

impl Http3 {
    /// Takes what a frame has of a stream; tells the frames of HTTP/3 in what is in order by that. What this side allows the other's table
    /// ([`Http3::allow`]) is given back when its settings are in there.
    pub(super) fn take(&mut self, part: &StreamPart<'_>, shown: &mut Shown) -> Option<u64> {
        let key = key_of(part.id);
        let mut half = match self.halves.remove(&key) {
            Some(half) => half,
            None if self.ended.has(part.id) => return None,
            None => Box::new(Half::new()),
        };
        self.held -= half.bytes.held();
        let is_missing = half.bytes.put_at(part.offset, part.data).is_err();
        if is_missing {
            shown.tell(line("packets are missing".to_owned()));
        }
        half.last = half.last.or(part.end());
        self.read(key, half, is_missing, shown);
        while self.halves.len() > FOLLOWED_STREAMS_MAX || self.held > STREAMS_HELD_MAX {
            let Some((key, half)) = self.halves.pop_first() else {
                break;
            };
            self.held -= half.bytes.held();
            self.end(key, &half);
        }
        self.go_on(shown);
        self.allows.take()
    }

    /// The other side's settings allow a table of this capacity, in bytes.
    pub(super) fn allow(&mut self, capacity: u64, shown: &mut Shown) {
        self.fields.allow(capacity);
        self.go_on(shown);
    }

    /// Nothing of what was sent counts.
    pub(super) fn restart(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.restart();
        *self = Self {
            fields,
            ..Self::default()
        };
    }

    /// Reads what is there of a stream, and keeps the rest.
    fn read(&mut self, key: Key, mut half: Box<Half>, is_missing: bool, shown: &mut Shown) {
        let read = match is_missing {
            true => Err(Over),
            false => half.take(key, &mut self.fields, shown),
        };
        if let Ok(Some(capacity)) = read {
            self.allows = Some(capacity);
        }
        if let Some(waits) = half.frames.waits {
            let least = self.awaited.map_or(waits.needed, |it| it.min(waits.needed));
            self.awaited = Some(least);
        }
        let has_all = half.last.is_some_and(|last| half.bytes.end() >= last);
        if read.is_err() || has_all && half.frames.waits.is_none() {
            self.end(key, &half);
        } else {
            self.held += half.bytes.held();
            self.halves.insert(key, half);
        }
    }

    /// Reads on where heads have waited for the table, and what they need has come.
    fn go_on(&mut self, shown: &mut Shown) {
        let Some(_) = self.awaited.take_if(|it| self.fields.is_known(*it)) else {
            return;
        };
        let waiting = self.halves.iter();
        let waiting = waiting.filter_map(|(key, half)| Some((*key, half.frames.waits?.needed)));
        let (ready, later): (Vec<_>, Vec<_>) =
            waiting.partition(|(_, needed)| self.fields.is_known(*needed));
        self.awaited = later.iter().map(|(_, needed)| *needed).min();
        for (key, _) in ready {
            if let Some(half) = self.halves.remove(&key) {
                self.held -= half.bytes.held();
                self.read(key, half, false, shown);
            }
        }
    }

    fn end(&mut self, key: Key, half: &Half) {
        if half.frames.kind == Some(OneWay::Encoder) {
            self.fields.lose();
        }
        let followed = &self.halves;
        self.ended
            .add(key.1, |id| followed.contains_key(&key_of(id)));
    }

    /// Bytes that it keeps.
    pub(super) fn held(&self) -> usize {
        // A tree's nodes are half full at least, but for the first; and what the allocator takes of each.
        let slots = match self.halves.len() {
            0 => 0,
            count => 2 * count + 11,
        };
        let slots = slots * size_of::<(Key, Box<Half>)>();
        let halves = self.halves.len() * (size_of::<Half>() + 16) + slots;
        size_of::<Self>() + self.held + halves + self.ended.held() + self.fields.held()
    }
}

impl Half {
    fn new() -> Self {
        Self {
            bytes: Stream::new(SeqNumber(0)),
            last: None,
            frames: Frames::default(),
        }
    }

    /// Tells what is in order. Settings give what they allow the other side's table.
    fn take(
        &mut self,
        key: Key,
        fields: &mut Fields,
        shown: &mut Shown,
    ) -> Result<Option<u64>, Over> {
        let (ready, ahead) = (self.bytes.ready(), self.bytes.ahead());
        let mut rest = ready;
        let mut read = self.frames.read(&mut rest, key, fields, shown);
        if self.frames.kind == Some(OneWay::Encoder) {
            fields.take(&mut rest, ahead > 0);
            // More than a table of instructions is not waited for: heads wait with it.
            if ahead > HEADER_TABLE_LEN_MAX {
                shown.tell(line("packets are missing".to_owned()));
                read = Err(Over);
            }
        }
        let taken = ready.len() - rest.len();
        self.bytes.consume(taken);
        read
    }
}

impl Frames {
    fn read(
        &mut self,
        rest: &mut &[u8],
        (is_one_way, id): Key,
        fields: &mut Fields,
        shown: &mut Shown,
    ) -> Result<Option<u64>, Over> {
        if is_one_way && self.kind.is_none() {
            let Some(kind) = varint::take(rest) else {
                return Ok(None);
            };
            shown.tell(line(name_of_stream(kind)));
            self.kind = Some(match kind {
                stream::CONTROL => OneWay::Control,
                stream::QPACK_ENCODER => OneWay::Encoder,
                _ => return Err(Over),
            });
        }
        if self.kind == Some(OneWay::Encoder) {
            return Ok(None);
        }
        let (mut allows, mut waited) = (None, self.waits.take());
        loop {
            let skipped = self.skipped.min(rest.len() as u64);
            self.skipped -= skipped;
            *rest = &rest[skipped as usize..];
            let mut behind = *rest;
            let Some((kind, len)) = take_head(&mut behind) else {
                return Ok(allows);
            };
            let is_head = matches!(kind, kind::HEADERS | kind::PUSH_PROMISE);
            let is_settings = kind == kind::SETTINGS && len <= CONTROL_FRAME_LEN_MAX as u64;
            if !is_head && !is_settings {
                shown.tell(line(name_of_frame(kind, len)));
                (*rest, self.skipped) = (behind, len);
                continue;
            }
            if len > HEADER_BLOCK_LEN_MAX as u64 {
                shown.tell(line("HEADERS that are too long".to_owned()));
                return Err(Over);
            }
            let Some((content, behind)) = behind.split_at_checked(len as usize) else {
                return Ok(allows);
            };
            if is_settings {
                allows = Some(capacity_of(content));
                shown.tell(line(name_of_frame(kind, len)));
            } else {
                let has_waited = waited.is_some();
                match fields.head((kind, content), waited.take()) {
                    Ok(head) => {
                        if has_waited {
                            shown.tell(line(format!("of stream {id}")));
                        }
                        shown.tell(Told::Http3(head));
                    }
                    // What is behind it is told, even if it never comes.
                    Err(_) if rest.len() > 2 * HEADER_BLOCK_LEN_MAX => {
                        shown.tell(line(format!("of stream {id}")));
                        shown.tell(line(format!("HEADERS{UNKNOWN}")));
                    }
                    Err(waits) => {
                        if !has_waited {
                            let waits = "HEADERS that wait for QPACK's dynamic table";
                            shown.tell(line(waits.to_owned()));
                        }
                        self.waits = Some(waits);
                        return Ok(allows);
                    }
                }
            }
            *rest = behind;
        }
    }
}

fn line(text: String) -> Told {
    Told::Http3(Frame::new(text))
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

#[cfg(test)]
mod tests {
    use exos_http3::{frame, qpack};

    use super::super::Header;
    use super::*;

    fn told(http3: &mut Http3, id: u64, offset: u64, data: &[u8], is_last: bool) -> Vec<String> {
        let part = StreamPart {
            id,
            offset,
            data,
            is_last,
        };
        told_by(|shown| {
            http3.take(&part, shown);
        })
    }

    fn told_by(take: impl FnOnce(&mut Shown)) -> Vec<String> {
        let mut shown = Shown::default();
        let destination = Vec::new();
        let header = Header {
            long: None,
            source: destination.clone(),
            destination,
            token_len: 0,
        };
        shown.begin(header, None);
        take(&mut shown);
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

    /// A head that names an entry waits until this has come, and it is known how large the table may be: in whatever order.
    #[test]
    fn heads_wait_for_the_table() {
        // A stream's type, 220 bytes, and `a: b`; the newest entry, and data behind it.
        let encoder = b"\x02\x3f\xbd\x01\x41a\x01b";
        let head = b"\x01\x04\x02\x00\xd9\x80\x00\x02xx";
        let (waits, late) = (
            "HEADERS that wait for QPACK's dynamic table",
            ["of stream 0", "HEADERS 200", "DATA 2"],
        );
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut http3 = Http3::default();
            let mut all = Vec::new();
            for step in order {
                match step {
                    0 => all.extend(told_by(|shown| http3.allow(220, shown))),
                    1 => all.extend(told(&mut http3, 2, 0, encoder, false)),
                    _ => all.extend(told(&mut http3, 0, 0, head, true)),
                }
            }
            all.retain(|it| it != "QPACK encoder");
            let wanted = match order[2] {
                2 => late[1..].to_vec(),
                _ => [&[waits][..], &late].concat(),
            };
            assert_eq!(all, wanted, "{order:?}");
            assert!(http3.halves.len() == 1 && http3.held == 0 && http3.fields.held() > 0);
        }
        // Where the encoder cannot be followed, this is said; heads without the table are told.
        let mut http3 = Http3::default();
        http3.allow(220, &mut Shown::default());
        assert_eq!(told(&mut http3, 0, 0, head, true), [waits]);
        let said = told(&mut http3, 2, 0, b"\x02\x00", false);
        let unknown = "HEADERS by QPACK's dynamic table, which is not known";
        assert_eq!(said, ["QPACK encoder", "of stream 0", unknown, "DATA 2"]);
        assert_eq!(told(&mut http3, 4, 0, &answer(), true).len(), 2);
        assert_eq!(told(&mut http3, 8, 0, head, true)[0], unknown);
    }

    /// A packet with instructions is not in the capture, and more entries than there is room for come behind: no fields of others are shown.
    #[test]
    fn no_fields_are_told_by_a_table_with_a_gap() {
        let unknown = "HEADERS by QPACK's dynamic table, which is not known";
        for is_filled in [false, true] {
            let mut http3 = Http3::default();
            http3.allow(96, &mut Shown::default());
            // 96 bytes, 3 entries; the fifth one is the third of those that are left.
            let mut encoder = b"\x02\x3f\x41".to_vec();
            for name in b'a'..=b'p' {
                encoder.extend([0x41, name, 0]);
            }
            let (first, rest) = encoder.split_at(3 + 3 * 4);
            let (lost, rest) = rest.split_at(3);
            told(&mut http3, 2, 0, first, false);
            let at = (first.len() + lost.len()) as u64;
            assert_eq!(told(&mut http3, 2, at, rest, false), [""; 0]);
            // It needs 10 entries, which is said as 4 is.
            let head = b"\x01\x03\x05\x00\x80";
            let waits = "HEADERS that wait for QPACK's dynamic table";
            assert_eq!(told(&mut http3, 0, 0, head, true), [waits]);
            let said = match is_filled {
                true => told(&mut http3, 2, first.len() as u64, lost, false),
                false => {
                    let after = at + rest.len() as u64;
                    let said = told(&mut http3, 2, after, &[0; HEADER_TABLE_LEN_MAX], false);
                    assert_eq!(said[0], "packets are missing");
                    said[1..].to_vec()
                }
            };
            assert_eq!(said, ["of stream 0", unknown], "{is_filled}");
        }
    }

    /// Heads that wait are looked at once for what each needs, and never for an empty part of the encoder's stream.
    #[test]
    fn heads_that_wait_are_looked_at_when_they_can_be_told() {
        let mut http3 = Http3::default();
        http3.allow(4096, &mut Shown::default());
        told(&mut http3, 2, 0, b"\x02\x3f\xe1\x1f", false);
        for nth in 0..100 {
            let head = [1, 3, 2 + nth as u8, 0, 0x80];
            told(&mut http3, 4 * nth, 0, &head, false);
        }
        for nth in 0..100_u64 {
            assert_eq!(http3.awaited, Some(nth + 1));
            assert_eq!(told(&mut http3, 2, 0, b"", false), [""; 0]);
            let said = told(&mut http3, 2, 4 + 3 * nth, &[0x41, b'a', 0], false);
            assert_eq!(
                said,
                [format!("of stream {}", 4 * nth), "HEADERS".to_owned()]
            );
        }
        assert_eq!(http3.awaited, None);
    }

    /// Settings that are not in the capture: what is behind a head that waits for them is told all the same.
    #[test]
    fn what_is_behind_a_head_waits_no_longer_than_it_is_worth() {
        let mut http3 = Http3::default();
        let head = b"\x01\x03\x02\x00\x80\x00\x80\x04\x00\x00";
        told(&mut http3, 0, 0, head, false);
        let rest = vec![0; 1 << 18];
        let said = told(&mut http3, 0, head.len() as u64, &rest, true);
        let unknown = "HEADERS by QPACK's dynamic table, which is not known";
        assert_eq!(said, ["of stream 0", unknown, "DATA 262144"]);
        assert!(http3.halves.is_empty() && http3.held == 0);
    }

    /// What settings allow the other side.
    #[test]
    fn settings_allow_a_table() {
        for (settings, capacity) in [(&[0, 4, 0][..], 0), (&[0, 4, 5, 7, 9, 1, 0x50, 0], 4096)] {
            let mut http3 = Http3::default();
            let mut shown = Shown::default();
            let part = |data| StreamPart {
                id: 3,
                offset: 0,
                data,
                is_last: false,
            };
            let (last, first) = (part(settings), part(&settings[..settings.len() - 1]));
            assert_eq!(http3.take(&first, &mut shown), None);
            assert_eq!(http3.take(&last, &mut shown), Some(capacity));
            assert_eq!(http3.take(&last, &mut shown), None);
        }
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
