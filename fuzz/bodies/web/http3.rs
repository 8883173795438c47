//! HTTP/3 from outside: field sections, requests, responses and control streams of a peer that sends anything.

use exos_http2::fields::Fields;
use exos_http3::Fault;
use exos_http3::control;
use exos_http3::frame;
use exos_http3::heads::Heads;
use exos_http3::limits::SECTION_LEN_MAX;
use exos_http3::qpack::{decoder, dynamic::Table, encoder};
use exos_http3::request::{Part, Reader};
use exos_http3::response;

/// A field section: what is decoded is encoded so that it is decoded to the same, and no section has more fields than bytes.
pub fn field_section(data: &[u8]) {
    let mut fields = Fields::new();
    let decoded = decoder::decode(data, |name, value| fields.push(name, value));
    assert!(fields.count() <= data.len());
    let (mut section, mut again) = (Vec::new(), Fields::new());
    encoder::begin(&mut section);
    for (name, value) in fields.iter() {
        encoder::push(&mut section, name, value);
    }
    decoder::decode(&section, |name, value| again.push(name, value)).expect("what was encoded");
    assert!(again.iter().eq(fields.iter()), "{decoded:?}");
}

/// Bytes of a table that an encoder may fill here.
const TABLE_LEN: usize = 512;

/// What an encoder says, as much as the second byte says, and a field section: whole and cut as the first byte says the table is the same, and no
/// longer than it may be.
pub fn encoder_stream(data: &[u8]) {
    let Some((&[cut, len], rest)) = data.split_first_chunk() else {
        return;
    };
    let (stream, section) = rest.split_at(rest.len().min(usize::from(len)));
    let whole = filled(stream, stream.len().max(1));
    let cut = filled(stream, usize::from(cut) + 1);
    match (whole, cut) {
        (Ok(whole), Ok(cut)) => {
            assert!(whole.size() <= TABLE_LEN);
            assert_eq!(whole.needed(section), cut.needed(section));
            let (by_whole, by_cut) = (fields_by(&whole, section), fields_by(&cut, section));
            assert!(by_whole.0.iter().eq(by_cut.0.iter()) && by_whole.1 == by_cut.1);
        }
        (whole, cut) => assert_eq!(whole.is_err(), cut.is_err()),
    }
}

fn filled(stream: &[u8], piece: usize) -> Result<Table, Fault> {
    let mut table = Table::observed();
    table.allow(TABLE_LEN as u64);
    let mut held = Vec::new();
    for piece in stream.chunks(piece) {
        held.extend_from_slice(piece);
        let mut rest = &held[..];
        table.take(&mut rest, TABLE_LEN)?;
        let taken = held.len() - rest.len();
        held.drain(..taken);
    }
    Ok(table)
}

/// The fields, and whether all of them could be decoded.
fn fields_by(table: &Table, section: &[u8]) -> (Fields, bool) {
    let mut fields = Fields::new();
    let decoded = decoder::decode_by(table, section, |name, value| fields.push(name, value));
    assert!(fields.count() <= section.len());
    (fields, decoded.is_ok())
}

/// A request's stream: whole and cut as the first byte says it comes to the same, and each byte is taken once. With an odd second
/// byte the rest is the content of a field section.
pub fn request(data: &[u8]) {
    let Some((&[cut, framed], bytes)) = data.split_first_chunk() else {
        return;
    };
    let mut all = Vec::new();
    if framed % 2 == 1 && bytes.len() <= SECTION_LEN_MAX {
        frame::push_head(&mut all, frame::kind::HEADERS, bytes.len() as u64);
    }
    all.extend_from_slice(bytes);
    let whole = read(&all, all.len().max(1));
    let cut = read(&all, usize::from(cut) + 1);
    assert_eq!(whole, cut);
}

/// How many heads and bytes of a body there are, and how it ends.
fn read(bytes: &[u8], piece: usize) -> (u32, usize, Option<u8>) {
    let (mut reader, mut heads, mut body) = (Reader::default(), 0, 0);
    let mut kept = Heads::default();
    for mut piece in bytes.chunks(piece) {
        while !piece.is_empty() {
            match reader.receive(piece, &mut kept) {
                Err(fault) => return (heads, 0, Some(fault as u8)),
                Ok((taken, part)) => {
                    assert!(taken > 0 && (part.is_some() || taken == piece.len()));
                    match part {
                        Some(Part::Head(head)) => {
                            heads += 1;
                            assert!(!head.request().method().is_empty());
                        }
                        Some(Part::Data(data)) => body += data.len(),
                        Some(Part::Trailers(_)) => assert_eq!(heads, 1),
                        None => {}
                    }
                    piece = &piece[taken..];
                }
            }
        }
    }
    assert!(heads <= 1 && body <= bytes.len());
    (heads, body, reader.end().err().map(|fault| fault as u8))
}

/// A response's stream: whole and cut as the first byte says it comes to the same, also where the field sections are remembered. By the
/// second byte it answers a HEAD, or the rest is the content of a field section.
pub fn response(data: &[u8]) {
    let Some((&[cut, how], bytes)) = data.split_first_chunk() else {
        return;
    };
    let mut all = Vec::new();
    if how & 1 == 1 && bytes.len() <= SECTION_LEN_MAX {
        frame::push_head(&mut all, frame::kind::HEADERS, bytes.len() as u64);
    }
    all.extend_from_slice(bytes);
    let mut sections = response::Sections::default();
    let is_head = how & 2 == 2;
    let whole = answered(&all, all.len().max(1), is_head, &mut sections);
    let cut = answered(&all, usize::from(cut) + 1, is_head, &mut sections);
    assert_eq!(whole, cut);
}

/// The status and how many bytes of content there are, and how it ends.
fn answered(
    bytes: &[u8],
    piece: usize,
    is_head: bool,
    sections: &mut response::Sections,
) -> (Option<u16>, usize, Option<u8>) {
    let mut reader = response::Reader::new(is_head);
    let (mut status, mut content) = (None, 0);
    for mut rest in bytes.chunks(piece) {
        loop {
            match reader.receive(&mut rest, sections) {
                Err(fault) => return (status, 0, Some(fault as u8)),
                Ok(None) => break,
                Ok(Some(response::Part::Head(came))) => {
                    assert!(came >= 200 && status.replace(came).is_none());
                }
                Ok(Some(response::Part::Data(data))) => {
                    assert!(status.is_some());
                    content += data.len();
                }
            }
        }
        assert!(rest.is_empty());
    }
    assert!(content <= bytes.len() && reader.has_begun() == status.is_some());
    (status, content, reader.end().err().map(|fault| fault as u8))
}

/// A peer's stream in one direction, a client's or by an odd first byte a server's: whole and cut it comes to the same events.
pub fn control(data: &[u8]) {
    let Some((&cut, bytes)) = data.split_first() else {
        return;
    };
    let peer = match cut & 1 {
        0 => control::Peer::Client,
        _ => control::Peer::Server,
    };
    let whole = events(bytes, bytes.len().max(1), peer);
    assert_eq!(whole, events(bytes, usize::from(cut) + 1, peer));
}

fn events(bytes: &[u8], piece: usize, peer: control::Peer) -> (Vec<control::Event>, Option<u8>) {
    let (mut reader, mut events) = (control::Reader::of(peer), Vec::new());
    for mut rest in bytes.chunks(piece) {
        loop {
            match reader.receive(&mut rest) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(fault) => return (events, Some(fault as u8)),
            }
        }
        assert!(rest.is_empty());
    }
    assert!(events.len() <= bytes.len() + 1);
    (events, None)
}
