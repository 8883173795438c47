//! HTTP/2 in what was decrypted (RFC 9113): the frames of one side as they begin, header blocks as they end.
//!
//! Both sides' header compression is followed from the first block on. Payloads of other frames are passed over; what is kept is the
//! head of a frame and one header block, which is bounded.

use exos_http2::frame::{FrameHead, PREFACE, flag, kind};
use exos_http2::hpack::Decoder;
use exos_http2::limits::FRAME_HEAD_LEN;

use crate::limits::{FIELD_SHOWN, FIELDS_SHOWN, HEADER_BLOCK_LEN_MAX, HEADER_TABLE_LEN_MAX};

/// A block that sets the table to 4,096 bytes, which it has before a peer allows more (RFC 7541 §6.3, RFC 9113 §6.5.2).
const INITIAL_TABLE: [u8; 3] = [0x3f, 0xe1, 0x1f];

/// A frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Its type, stream, and what it says: `HEADERS 1 GET /index.html`.
    pub(crate) line: Vec<u8>,
    /// Of a header block: its fields, a line each.
    pub(crate) fields: Vec<Vec<u8>>,
}

/// Why the frames of a side are not understood any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHttp2;

/// What one side sends.
#[derive(Debug)]
pub(super) struct Frames {
    /// What has come of a frame that is not whole, up to where its payload is passed over.
    bytes: Vec<u8>,
    /// Bytes of the payload that are still to be passed over.
    skipped: usize,
    /// Nothing has come, of a client not even its preface.
    is_first: bool,
    decoder: Decoder,
    /// A header block of which more follows, and its stream.
    block: Vec<u8>,
    has_failed: bool,
}

impl Default for Frames {
    /// Before anything has come.
    fn default() -> Self {
        let mut decoder = Decoder::new(HEADER_TABLE_LEN_MAX);
        let set = decoder.decode(&INITIAL_TABLE, |_, _| {});
        debug_assert!(set.is_ok(), "less than the most");
        Self {
            bytes: Vec::new(),
            skipped: 0,
            is_first: true,
            decoder,
            block: Vec::new(),
            has_failed: false,
        }
    }
}

impl Frames {
    /// Takes what follows; appends the frames in it.
    ///
    /// # Errors
    /// It is no HTTP/2, or more than is followed. From then on nothing is.
    pub(super) fn take(&mut self, data: &[u8], frames: &mut Vec<Frame>) -> Result<(), NotHttp2> {
        if self.has_failed {
            return Ok(());
        }
        let taken = self.take_all(data, frames);
        if taken.is_err() {
            (self.has_failed, self.bytes, self.block) = (true, Vec::new(), Vec::new());
        }
        taken
    }

    fn take_all(&mut self, data: &[u8], frames: &mut Vec<Frame>) -> Result<(), NotHttp2> {
        let skipped = self.skipped.min(data.len());
        self.skipped -= skipped;
        self.bytes.extend_from_slice(&data[skipped..]);
        let mut bytes = std::mem::take(&mut self.bytes);
        let taken = self.take_whole(&bytes, frames)?;
        bytes.drain(..taken);
        if !bytes.is_empty() {
            self.bytes = bytes; // Else its memory is given back.
        }
        Ok(())
    }

    /// Takes whole frames, and gives how many bytes these are.
    fn take_whole(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<usize, NotHttp2> {
        let mut at = 0;
        if self.is_first && !bytes.is_empty() {
            if bytes.starts_with(PREFACE) {
                at = PREFACE.len();
            } else if PREFACE.starts_with(bytes) {
                return Ok(0); // The rest of it follows.
            }
            self.is_first = false;
        }
        while let Some(head) = FrameHead::parse(&bytes[at..]) {
            let rest = &bytes[at + FRAME_HEAD_LEN..];
            let has_block = matches!(
                head.kind,
                kind::HEADERS | kind::CONTINUATION | kind::PUSH_PROMISE
            );
            if !has_block {
                frames.push(Frame::new(line_of(&head)));
                let there = head.len.min(rest.len());
                self.skipped = head.len - there;
                at += FRAME_HEAD_LEN + there;
                continue;
            }
            if self.block.len() + head.len > HEADER_BLOCK_LEN_MAX {
                return Err(NotHttp2);
            }
            let Some(payload) = rest.get(..head.len) else {
                break;
            };
            let fragment = fragment(&head, payload).ok_or(NotHttp2)?;
            self.block.extend_from_slice(fragment);
            at += FRAME_HEAD_LEN + head.len;
            frames.push(match head.has(flag::END_HEADERS) {
                true => self.head_of_message(&head)?,
                false => Frame::new(line_of(&head)),
            });
        }
        Ok(at)
    }

    fn head_of_message(&mut self, head: &FrameHead) -> Result<Frame, NotHttp2> {
        let mut frame = Frame::new(line_of(head));
        let block = std::mem::take(&mut self.block);
        let mut room = FIELDS_SHOWN;
        let decoded = self.decoder.decode(&block, |name, value| {
            frame.add_field(name, value, &mut room);
        });
        decoded.map_err(|_| NotHttp2)?;
        self.decoder.shrink(FIELD_SHOWN);
        Ok(frame)
    }

    /// Memory that it takes.
    pub(super) fn held(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.block.capacity() + self.decoder.held()
    }
}

impl Frame {
    pub(super) fn new(line: String) -> Self {
        Self {
            line: line.into_bytes(),
            fields: Vec::new(),
        }
    }

    /// Adds a field of its header block, of which all have so much room. A byte may name one of the table's size: what is kept is bounded.
    pub(super) fn add_field(&mut self, name: &[u8], value: &[u8], room: &mut usize) {
        let cut = |bytes: &[u8]| bytes[..bytes.len().min(FIELD_SHOWN)].to_vec();
        if matches!(name, b":method" | b":path" | b":status") && self.line.len() < FIELD_SHOWN {
            self.line.push(b' ');
            self.line.extend(cut(value));
        }
        if *room == 0 {
            return;
        }
        let field = [&*cut(name), b": ", &*cut(value)].concat();
        if field.len() <= *room {
            *room -= field.len();
            self.fields.push(field);
        }
    }

    /// Bytes that it takes.
    pub(super) fn len(&self) -> usize {
        let fields = self.fields.iter().map(Vec::len).sum::<usize>();
        self.line.len() + fields + size_of::<Self>()
    }
}

/// What is always said of a frame.
fn line_of(head: &FrameHead) -> String {
    let name = match head.kind {
        kind::DATA => "DATA",
        kind::HEADERS => "HEADERS",
        kind::PRIORITY => "PRIORITY",
        kind::RST_STREAM => "RST_STREAM",
        kind::SETTINGS if head.has(flag::ACK) => "SETTINGS ack",
        kind::SETTINGS => "SETTINGS",
        kind::PUSH_PROMISE => "PUSH_PROMISE",
        kind::PING if head.has(flag::ACK) => "PING ack",
        kind::PING => "PING",
        kind::GOAWAY => "GOAWAY",
        kind::WINDOW_UPDATE => "WINDOW_UPDATE",
        kind::CONTINUATION => "CONTINUATION",
        kind::PRIORITY_UPDATE => "PRIORITY_UPDATE",
        other => return format!("frame {other}"),
    };
    let stream = match head.stream {
        0 => String::new(),
        stream => format!(" {stream}"),
    };
    let len = match head.kind {
        kind::DATA => format!(" length {}", head.len),
        _ => String::new(),
    };
    format!("{name}{stream}{len}")
}

/// The part of a header block in a frame (RFC 9113 §6.2): without padding and priority.
fn fragment<'a>(head: &FrameHead, payload: &'a [u8]) -> Option<&'a [u8]> {
    if head.kind == kind::CONTINUATION {
        return Some(payload);
    }
    let (padding, mut rest) = match head.has(flag::PADDED) {
        true => payload
            .split_first()
            .map(|(len, rest)| (usize::from(*len), rest))?,
        false => (0, payload),
    };
    if head.kind == kind::PUSH_PROMISE {
        rest = rest.get(4..)?; // The stream that is promised.
    } else if head.has(flag::PRIORITY) {
        rest = rest.get(5..)?;
    }
    rest.get(..rest.len().checked_sub(padding)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_http2::{frame, hpack};

    /// What a client sends: its preface, settings, a request whose head is in two frames, padded, and data.
    fn stream() -> Vec<u8> {
        let mut out = PREFACE.to_vec();
        frame::push_settings(&mut out, &[(1, 0)]);
        let mut block = Vec::new();
        for (name, value) in [(":method", "GET"), (":path", "/a b"), ("x", "y")] {
            hpack::encoder::push(&mut block, name.as_bytes(), value.as_bytes());
        }
        let (first, second) = block.split_at(5);
        frame::push_head(
            &mut out,
            1 + 5 + 5 + 3,
            kind::HEADERS,
            flag::PADDED | flag::PRIORITY,
            1,
        );
        out.push(3);
        out.extend([0, 0, 0, 0, 16]);
        out.extend(first);
        out.extend([0; 3]);
        frame::push_head(
            &mut out,
            second.len(),
            kind::CONTINUATION,
            flag::END_HEADERS,
            1,
        );
        out.extend(second);
        frame::push_head(&mut out, 3000, kind::DATA, flag::END_STREAM, 1);
        out.extend([7; 3000]);
        frame::push_head(&mut out, 0, 0x21, 0, 0);
        out
    }

    fn shown(bytes: &[u8], cut: usize) -> Result<Vec<Frame>, NotHttp2> {
        let (mut frames, mut all) = (Frames::default(), Vec::new());
        for piece in bytes.chunks(cut) {
            frames.take(piece, &mut all)?;
        }
        Ok(all)
    }

    #[test]
    fn frames_are_the_same_wherever_they_are_cut() {
        let bytes = stream();
        let whole = shown(&bytes, bytes.len()).unwrap();
        let lines: Vec<_> = whole
            .iter()
            .map(|it| String::from_utf8_lossy(&it.line))
            .collect();
        let wanted = [
            "SETTINGS",
            "HEADERS 1",
            "CONTINUATION 1 GET /a b",
            "DATA 1 length 3000",
            "frame 33",
        ];
        assert_eq!(lines, wanted);
        assert_eq!(whole[2].fields[2], b"x: y");
        for cut in 1..200 {
            assert_eq!(shown(&bytes, cut).unwrap(), whole, "{cut}");
        }
    }

    /// Any bytes: nothing panics, nothing is kept without bound, and what is not understood is told once.
    #[test]
    fn what_is_no_http2_is_told_once() {
        let mut random = exos_testing::Random(5);
        for _ in 0..2000 {
            let mut bytes = stream();
            for _ in 0..=random.below(4) {
                random.mutate(&mut bytes);
            }
            let (mut frames, mut all, mut failures) = (Frames::default(), Vec::new(), 0);
            for piece in bytes.chunks(1 + random.below(500)) {
                failures += usize::from(frames.take(piece, &mut all).is_err());
                assert!(frames.bytes.len() + frames.block.len() <= bytes.len());
            }
            assert!(failures <= 1);
        }
        let mut bytes = Vec::new();
        for _ in 0..20 {
            frame::push_head(&mut bytes, 16_000, kind::HEADERS, 0, 1);
            bytes.extend([0; 16_000]);
        }
        assert_eq!(shown(&bytes, 9000), Err(NotHttp2), "a head without end");
    }

    /// A table of the most entries is counted, also when it was emptied: that gives no places back.
    #[test]
    fn the_table_of_field_compression_counts() {
        let mut block = b"\x3f\xe1\xff\x03".to_vec(); // 65,536 bytes.
        block.extend(b"\x40\x01a\0".repeat(HEADER_TABLE_LEN_MAX / 33));
        let mut frames = Frames::default();
        let empty = frames.held();
        for (block, least) in [(&block[..], HEADER_TABLE_LEN_MAX), (b"\x20", 1985 * 24)] {
            let mut bytes = Vec::new();
            frame::push_head(&mut bytes, block.len(), kind::HEADERS, flag::END_HEADERS, 1);
            bytes.extend(block);
            frames.take(&bytes, &mut Vec::new()).expect("a head");
            assert!(frames.held() - empty >= least, "{}", frames.held());
        }
    }

    /// A byte that names a long field of the table is as much as a byte should be.
    #[test]
    fn a_head_is_not_much_longer_than_its_bytes() {
        let mut block = vec![0x40, 1, b'x', 0x7f, 0xff, 0x1e]; // A value of 4,000 bytes, which the table keeps.
        block[3..].copy_from_slice(&[0x7f, 0xa1, 0x1e]);
        block.extend([b'y'; 0x7f + 0x21 + 0x1e * 128]);
        let mut bytes = Vec::new();
        frame::push_head(&mut bytes, block.len(), kind::HEADERS, flag::END_HEADERS, 1);
        bytes.extend(&block);
        for _ in 0..1000 {
            frame::push_head(&mut bytes, 15, kind::HEADERS, flag::END_HEADERS, 1);
            bytes.extend([0xbe; 15]);
        }
        let frames = shown(&bytes, bytes.len()).unwrap();
        assert_eq!(frames.len(), 1001);
        assert!(frames.iter().all(|frame| frame.len() < 2 * FIELDS_SHOWN));
    }
}
