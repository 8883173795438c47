//! A connection beside a server whose frames a test writes.

mod faults;
mod requests;
mod responses;

use exos_buf::Slice;
use exos_http2::frame::setting;
use exos_http2::frame::{self, FrameHead, PREFACE, flag, kind};
use exos_http2::hpack::{Decoder, encoder};
use exos_http2::{ErrorCode, Fault, StreamId};

use super::*;
use crate::limits::{IDLE_FRAMES_MAX, WINDOW};
use crate::multiplexed::{Code, Loss, Multiplexed as _, News, Part};
use crate::request::{Content, Request, Version};

fn content(url: &str) -> Content {
    Content {
        version: Version::Http2,
        ..Content::get(&url.parse().unwrap())
    }
}

fn get() -> Request {
    Request::new(&content("http://h/a"))
}

fn post(len: usize) -> Request {
    Request::new(&Content {
        method: "POST".to_owned(),
        body: Some(vec![b'x'; len]),
        ..content("http://h/a")
    })
}

/// A frame as it was sent: its head and its payload.
type Sent = (FrameHead, Vec<u8>);

fn bytes(slices: &[Slice]) -> Vec<u8> {
    slices.iter().flat_map(Slice::as_bytes).copied().collect()
}

/// What leaves, without the preface.
fn sent(connection: &mut Connection) -> Vec<Sent> {
    let out: Vec<Slice> = connection.poll_out().collect();
    let bytes = bytes(&out);
    let mut rest = bytes.strip_prefix(&PREFACE[..]).unwrap_or(&bytes);
    let mut frames = Vec::new();
    while let Some(head) = FrameHead::parse(rest) {
        frames.push((head, rest[9..][..head.len].to_vec()));
        rest = &rest[9 + head.len..];
    }
    assert!(rest.is_empty());
    frames
}

fn kinds(frames: &[Sent]) -> Vec<(u8, StreamId)> {
    frames
        .iter()
        .map(|(head, _)| (head.kind, head.stream))
        .collect()
}

/// A part of a response: slot, status, content, and whether it is the last.
type Came = (u32, Option<u16>, Vec<u8>, bool);

/// All that a server's bytes say.
#[derive(Debug, Default, PartialEq)]
struct Said {
    parts: Vec<Came>,
    framing: u64,
    lost: Vec<(u32, Loss)>,
    gone: Vec<(Code, Vec<u32>)>,
}

fn take(connection: &mut Connection, mut bytes: &[u8]) -> Result<Said, Fault> {
    let mut said = Said::default();
    take_more(connection, &mut bytes, &mut said)?;
    assert!(bytes.is_empty(), "{bytes:?}");
    Ok(said)
}

fn take_more(connection: &mut Connection, bytes: &mut &[u8], said: &mut Said) -> Result<(), Fault> {
    while let Some((count, news)) = connection.take(bytes)? {
        *bytes = &bytes[count..];
        match news {
            News::Nothing => (),
            News::Part(Part {
                slot,
                status,
                framing,
                content,
                is_end,
            }) => {
                said.framing += framing;
                let last = said
                    .parts
                    .last_mut()
                    .filter(|last| last.0 == slot && !last.3);
                match last {
                    Some(last) if status.is_none() => {
                        last.2.extend(content);
                        last.3 = is_end;
                    }
                    _ => said.parts.push((slot, status, content.to_vec(), is_end)),
                }
            }
            News::Lost { slot, why } => said.lost.push((slot, why)),
            News::GoingAway { code, unasked, .. } => said.gone.push((code, unasked)),
        }
    }
    Ok(())
}

/// Frames of a server.
#[derive(Default)]
struct Server(Vec<u8>);

impl Server {
    fn settings(mut self, values: &[(u16, u32)]) -> Self {
        frame::push_settings(&mut self.0, values);
        self
    }

    fn frame(mut self, kind: u8, flags: u8, stream: StreamId, payload: &[u8]) -> Self {
        frame::push_head(&mut self.0, payload.len(), kind, flags, stream);
        self.0.extend(payload);
        self
    }

    fn head(self, stream: StreamId, fields: &[(&str, &str)], is_end: bool) -> Self {
        let mut block = Vec::new();
        for (name, value) in fields {
            encoder::push(&mut block, name.as_bytes(), value.as_bytes());
        }
        let flags = flag::END_HEADERS | (u8::from(is_end) * flag::END_STREAM);
        self.frame(kind::HEADERS, flags, stream, &block)
    }

    fn data(self, stream: StreamId, content: &[u8], is_end: bool) -> Self {
        self.frame(
            kind::DATA,
            u8::from(is_end) * flag::END_STREAM,
            stream,
            content,
        )
    }
}

/// One that stands, whose server has said these settings, with requests of these slots under way.
fn asked(settings: &[(u16, u32)], slots: u32) -> Connection {
    let mut connection = Connection::new();
    take(&mut connection, &Server::default().settings(settings).0).unwrap();
    for slot in 0..slots {
        connection.ask(slot, &get());
    }
    sent(&mut connection);
    connection
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut fields = Vec::new();
    decoder
        .decode(block, |name, value| fields.push((text(name), text(value))))
        .unwrap();
    fields
}
