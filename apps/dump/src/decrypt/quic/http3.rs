//! HTTP/3 in the streams of a connection (RFC 9114): frames as they begin, field sections as they end.
//!
//! Payloads of other frames are passed over. What is kept of a stream is what stands behind a gap, and one field section, which is bounded;
//! and of a connection a bounded number of streams.

use std::collections::{BTreeMap, VecDeque};

use exos_http3::frame::{kind, stream, take_head};
use exos_http3::{qpack, varint};

use super::super::http2::Frame;
use super::super::stream::Stream;
use super::StreamPart;
use crate::limits::{FIELDS_SHOWN, FOLLOWED_STREAMS_MAX, HEADER_BLOCK_LEN_MAX};
use exos_tls::observer::Side;

/// A stream in one of its directions. Requests come first, so that these are forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    is_one_way: bool,
    id: u64,
    is_server: bool,
}

/// One direction of a stream.
#[derive(Debug)]
struct Half {
    bytes: Stream,
    /// Where it ends, when that is known.
    last: Option<u64>,
    /// Of a stream in one direction: its type has come.
    is_typed: bool,
    /// Bytes of a payload that are still to be passed over.
    skipped: u64,
    /// Nothing of it is told.
    is_over: bool,
}

/// The streams that are followed.
#[derive(Debug, Default)]
pub(super) struct Http3 {
    halves: BTreeMap<Key, Half>,
    /// Those that have ended last: what is sent again of them is not told again.
    ended: VecDeque<Key>,
    /// The latest of each of the four kinds of streams, in both directions.
    latest: [[Option<u64>; 4]; 2],
    held: usize,
}

impl Http3 {
    /// Takes what a frame has of a stream; gives the frames of HTTP/3 in what is in order by that.
    pub(super) fn take(
        &mut self,
        side: Side,
        part: &StreamPart<'_>,
        keeps_fields: bool,
    ) -> Vec<Frame> {
        let key = Key {
            is_one_way: part.id & 2 != 0,
            id: part.id,
            is_server: side == Side::Server,
        };
        let latest = &mut self.latest[usize::from(key.is_server)][(part.id & 3) as usize];
        let is_new = latest.is_none_or(|latest| part.id > latest);
        let mut half = match self.halves.remove(&key) {
            Some(half) => half,
            // Of one that has ended, again; or of one that was forgotten.
            None if !is_new && (part.offset > 0 || self.ended.contains(&key)) => return Vec::new(),
            None => Half::new(),
        };
        if is_new {
            *latest = Some(part.id);
        }
        self.held -= half.bytes.held();
        let mut frames = Vec::new();
        if half.bytes.put_at(part.offset, part.data).is_err() {
            frames.push(line("packets are missing".to_owned()));
            half.end();
        }
        half.last = half.last.or(part.end());
        half.take(key.is_one_way, keeps_fields, &mut frames);
        if half.last.is_none_or(|last| half.bytes.end() < last) {
            self.held += half.bytes.held();
            self.halves.insert(key, half);
        } else {
            if self.ended.len() == FOLLOWED_STREAMS_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back(key);
        }
        if self.halves.len() > FOLLOWED_STREAMS_MAX
            && let Some((_, half)) = self.halves.pop_first()
        {
            self.held -= half.bytes.held();
        }
        frames
    }

    /// Bytes that it keeps.
    pub(super) fn held(&self) -> usize {
        let halves = self.halves.len() * size_of::<(Key, Half)>();
        self.held + halves + self.ended.len() * size_of::<Key>()
    }
}

impl Half {
    fn new() -> Self {
        Self {
            bytes: Stream::new(exos_wire::SeqNumber(0)),
            last: None,
            is_typed: false,
            skipped: 0,
            is_over: false,
        }
    }

    fn end(&mut self) {
        self.bytes.clear();
        self.is_over = true;
    }

    fn take(&mut self, is_one_way: bool, keeps_fields: bool, frames: &mut Vec<Frame>) {
        if self.is_over {
            self.bytes.clear();
            return;
        }
        let ready = self.bytes.ready();
        let mut rest = ready;
        if is_one_way && !self.is_typed {
            let Some(kind) = varint::take(&mut rest) else {
                return;
            };
            self.is_typed = true;
            frames.push(line(name_of_stream(kind)));
            if kind != stream::CONTROL {
                return self.end();
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
                frames.push(line(name_of_frame(kind, len)));
                (rest, self.skipped) = (behind, len);
                continue;
            }
            if len > HEADER_BLOCK_LEN_MAX as u64 {
                frames.push(line("HEADERS that are too long".to_owned()));
                return self.end();
            }
            let Some((section, behind)) = behind.split_at_checked(len as usize) else {
                break;
            };
            frames.push(head(kind, section, keeps_fields));
            rest = behind;
        }
        let taken = ready.len() - rest.len();
        self.bytes.consume(taken);
    }
}

fn line(text: String) -> Frame {
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
        frame = line(format!("{name} by QPACK's dynamic table"));
    }
    frame
}

#[cfg(test)]
mod tests {
    use exos_http3::frame;

    use super::*;

    fn told(http3: &mut Http3, id: u64, offset: u64, data: &[u8], is_last: bool) -> Vec<String> {
        let part = StreamPart {
            id,
            offset,
            data,
            is_last,
        };
        let frames = http3.take(Side::Server, &part, false).into_iter();
        frames
            .map(|frame| String::from_utf8(frame.line).expect("names"))
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

    /// However many streams there are that never end.
    #[test]
    fn streams_are_bounded() {
        let mut http3 = Http3::default();
        told(&mut http3, 3, 0, &frame::settings(), false);
        for nth in 0..4 * FOLLOWED_STREAMS_MAX as u64 {
            told(&mut http3, 4 * nth, 5, &[0; 100], false);
            told(&mut http3, 4 * nth + 1, 0, &[0, 0], true);
            assert!(http3.halves.len() <= FOLLOWED_STREAMS_MAX);
            assert!(http3.held() < FOLLOWED_STREAMS_MAX * 1000);
        }
        let at = frame::settings().len() as u64;
        assert_eq!(
            told(&mut http3, 3, at, &frame::go_away(8), false),
            ["GOAWAY"]
        );
    }
}
