//! HTTP/2 from outside: header blocks, and whole connections of a client that sends anything.

use exos_http2::connection::{Connection, Event};
use exos_http2::frame::{self, FrameHead, flag, kind};
use exos_http2::hpack::{Decoder, DynamicEncoder, encoder};
use exos_http2::limits::{FIELDS_LEN_MAX, FRAME_LEN_MAX, STREAMS_MAX};

/// Header blocks, each behind a byte that says how long it is: what is decoded is encoded so that it is decoded to the same, and
/// no block costs more fields than it has bytes. So is what is encoded for one peer, whose table becomes as large as some blocks are long.
pub fn header_blocks(data: &[u8]) {
    let (mut decoder, mut rest) = (Decoder::new(256), data);
    let (mut for_peer, mut peer) = (DynamicEncoder::default(), Decoder::new(4096));
    while let Some((&len, behind)) = rest.split_first() {
        let (block, behind) = behind.split_at(behind.len().min(usize::from(len)));
        rest = behind;
        let (mut fields, mut again) = (Vec::new(), Vec::new());
        let decoded = decoder.decode(block, |name, value| {
            fields.push((name.to_vec(), value.to_vec()));
            encoder::push(&mut again, name, value);
        });
        assert!(fields.len() <= block.len());
        if len % 16 == 3 {
            for_peer.set_len_max(block.len());
        }
        let (mut without, again) = (Decoder::new(0), &again[..]);
        for (decoder, block) in [
            (&mut without, again),
            (&mut peer, for_peer.encode(&[again])),
        ] {
            let mut left = fields.iter();
            let check = |name: &[u8], value: &[u8]| {
                let (its, own) = left.next().expect("no more than before");
                assert!(its == name && own == value);
            };
            decoder.decode(block, check).expect("what was encoded");
            assert_eq!(left.len(), 0);
        }
        if decoded.is_err() {
            return;
        }
    }
}

/// A client that begins in order, and then sends frames: the first byte says how the bytes are cut. With an odd second byte each
/// frame's length is made to fit, so that more of them are whole. Requests are answered as windows let them, bodies are consumed;
/// what leaves is whole frames, as many streams are open as may be, and the work for each byte is bounded.
pub fn connection(data: &[u8]) {
    let Some((&[cut, fits], frames)) = data.split_first_chunk() else {
        return;
    };
    let mut bytes = frame::PREFACE.to_vec();
    frame::push_settings(&mut bytes, &[]);
    match fits % 2 {
        0 => bytes.extend_from_slice(frames),
        _ => push_fitted(&mut bytes, frames),
    }
    let mut out = Vec::new();
    let mut server = Connection::server(&mut out);
    let mut waiting = Vec::new();
    'all: for piece in bytes.chunks(usize::from(cut) + 1) {
        waiting.extend_from_slice(piece);
        loop {
            match step(&mut server, &waiting, &mut out) {
                Ok(0) => break,
                Ok(taken) => drop(waiting.drain(..taken)),
                Err(()) => break 'all,
            }
        }
        assert!(server.stream_count() <= STREAMS_MAX as usize);
    }
    let (mut rest, mut decoder) = (&out[..], Decoder::new(4096));
    while let Some(head) = FrameHead::parse(rest) {
        assert!(head.len <= FRAME_LEN_MAX);
        if head.kind == kind::HEADERS {
            let mut count = 0;
            let decoded = decoder.decode(&rest[9..][..head.len], |_, _| count += 1);
            assert_eq!((decoded, count), (Ok(()), 2), "a response");
        }
        rest = &rest[9 + head.len..];
    }
    assert!(rest.is_empty(), "whole frames");
}

/// Takes one frame, and answers it.
fn step(server: &mut Connection, waiting: &[u8], out: &mut Vec<u8>) -> Result<usize, ()> {
    let (taken, event) = server.receive(waiting, out).map_err(|_| ())?;
    assert!(taken <= waiting.len());
    let (mut answer, mut consume) = (None, None);
    match event {
        Some(Event::Request { stream, head, .. }) => {
            let fields: usize = head
                .fields()
                .map(|(name, value)| name.len() + value.len())
                .sum();
            assert!(fields <= FIELDS_LEN_MAX && !head.method().is_empty());
            answer = (stream % 8 != 1).then_some(stream);
        }
        Some(Event::FieldsTooLong { stream }) => answer = Some(stream),
        Some(Event::Data {
            stream,
            bytes,
            is_end,
        }) => {
            consume = Some((stream, bytes.len()));
            answer = is_end.then_some(stream);
        }
        Some(Event::Trailers { stream, fields }) => {
            assert!(fields.iter().all(|(name, _)| !name.starts_with(b":")));
            answer = Some(stream);
        }
        _ => {}
    }
    if let Some((stream, len)) = consume {
        server.consume(stream, len, out);
    }
    if let Some(stream) = answer {
        let mut block = vec![0x88];
        encoder::push(&mut block, b"x-a", &[b'0' + (stream % 8) as u8]);
        server.send_head(stream, &[&block], false, out);
        let len = server.begin_data(stream, 100, true, out);
        out.extend(std::iter::repeat_n(b'x', len));
        assert!(server.room(stream) <= i32::MAX as usize);
    }
    Ok(taken)
}

/// Frames of the types that there are, each of a byte for its type, one for its flags, one for its stream and one for its length.
fn push_fitted(bytes: &mut Vec<u8>, mut rest: &[u8]) {
    const KINDS: [u8; 12] = [
        kind::DATA,
        kind::HEADERS,
        kind::PRIORITY,
        kind::RST_STREAM,
        kind::SETTINGS,
        kind::PUSH_PROMISE,
        kind::PING,
        kind::GOAWAY,
        kind::WINDOW_UPDATE,
        kind::CONTINUATION,
        kind::PRIORITY_UPDATE,
        200,
    ];
    while let Some((&[kind, flags, stream, len], behind)) = rest.split_first_chunk() {
        let (payload, behind) = behind.split_at(behind.len().min(usize::from(len)));
        rest = behind;
        let kind = KINDS[usize::from(kind) % KINDS.len()];
        let mut whole = Vec::new();
        if kind == kind::HEADERS && flags & 0x40 != 0 {
            // A request that is sound, and the payload's fields behind it.
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
            whole.extend(encoder::block(&fields));
        }
        whole.extend_from_slice(payload);
        let flags = flags & (flag::END_STREAM | flag::END_HEADERS | flag::PADDED | flag::PRIORITY);
        frame::push(bytes, kind, flags, u32::from(stream), &whole);
    }
}
