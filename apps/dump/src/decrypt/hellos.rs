//! Hellos of TLS that come in several segments, as those with large key shares do: put together from the segment on with which they begin.

use std::collections::HashMap;

use exos_wire::tls::{CLIENT_HELLO, HANDSHAKE, RECORD_LEN, RecordView, SERVER_HELLO};

use super::stream::{Missing, Stream};
use super::{Ends, Segment};
use crate::limits::{HELLO_LEN_MAX, HELLO_RECORDS_MAX, HELLOS_MAX};

/// Bytes before a handshake message's body.
const MESSAGE_LEN: usize = 4;

/// Hellos of which more is to come, by from where to where they go.
#[derive(Debug, Default)]
pub(super) struct Hellos {
    parts: HashMap<Ends, Part>,
    /// How many have begun.
    count: u64,
}

/// A hello of which more is to come.
#[derive(Debug)]
struct Part {
    /// Which it is of those that have begun.
    number: u64,
    /// From its first record on; those that are whole are taken out.
    stream: Stream,
    /// What those had of the message.
    message: Vec<u8>,
    records: usize,
}

/// What bytes from a record's begin on have of a hello.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// All of it: the message, without heads of records.
    Whole(Vec<u8>),
    Part,
    Nothing,
}

impl Hellos {
    /// Takes a segment with data; gives the message that it completes, if that began in another.
    pub(super) fn take(&mut self, segment: &Segment<'_>) -> Option<Vec<u8>> {
        let key = (segment.from, segment.to);
        if let Some(part) = self.parts.get_mut(&key) {
            let is_next = part.stream.next() == segment.seq;
            let is_again = part.stream.first() == segment.seq;
            let found = match segment.is_whole {
                // Of a connection that is between the same ends now.
                true if !is_next && !is_again && begins_hello(segment.data) => Found::Nothing,
                true => part.take(segment),
                false => Found::Nothing,
            };
            match found {
                Found::Part => return None,
                Found::Whole(_) | Found::Nothing => self.parts.remove(&key),
            };
            if let Found::Whole(message) = found {
                return (!is_again).then_some(message);
            }
        }
        if segment.is_whole && begins_hello(segment.data) {
            let mut part = Part::new(self.count, segment);
            if part.take(segment) == Found::Part {
                self.keep(key, part);
            }
        }
        None
    }

    /// Keeps the begin of a hello, and for it forgets the oldest where there are too many.
    fn keep(&mut self, key: Ends, part: Part) {
        if self.parts.len() >= HELLOS_MAX {
            let oldest = self.parts.iter().min_by_key(|(_, part)| part.number);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.parts.remove(&oldest);
            }
        }
        self.count += 1;
        self.parts.insert(key, part);
    }
}

impl Part {
    fn new(number: u64, segment: &Segment<'_>) -> Self {
        Self {
            number,
            stream: Stream::with_ahead(segment.seq, HELLO_LEN_MAX),
            message: Vec::new(),
            records: 0,
        }
    }

    /// Takes a segment, and looks at what it brings.
    fn take(&mut self, segment: &Segment<'_>) -> Found {
        match self.stream.put(segment.seq, segment.data) {
            Ok(()) => self.read(),
            Err(Missing) => Found::Nothing,
        }
    }

    /// Takes the records that are whole: each byte is looked at once, but for heads.
    fn read(&mut self) -> Found {
        let ready = self.stream.ready();
        let mut rest = ready;
        let found = loop {
            let record = match RecordView::parse(rest) {
                Ok(record) if record.content_type() == HANDSHAKE => record,
                // The head of a record may be cut.
                Err(_) if rest.len() < RECORD_LEN => break Found::Part,
                Ok(_) | Err(_) => break Found::Nothing,
            };
            let len = match message_len(&self.message, record.fragment()) {
                Ok(len) => len,
                Err(NoHello) => break Found::Nothing,
            };
            if let Some(len) =
                len.filter(|len| *len <= self.message.len() + record.fragment().len())
            {
                self.message.extend_from_slice(record.fragment());
                self.message.truncate(len);
                break Found::Whole(std::mem::take(&mut self.message));
            }
            if !record.is_whole() {
                break Found::Part;
            }
            self.records += 1;
            if self.records >= HELLO_RECORDS_MAX {
                break Found::Nothing;
            }
            self.message.extend_from_slice(record.fragment());
            rest = &rest[RECORD_LEN + record.length()..];
        };
        let taken = ready.len() - rest.len();
        self.stream.consume(taken);
        found
    }
}

/// A message is no hello.
struct NoHello;

/// The length of the message that begins with these bytes, once it is known.
fn message_len(first: &[u8], more: &[u8]) -> Result<Option<usize>, NoHello> {
    let mut bytes = first.iter().chain(more).copied();
    let len = match [(); MESSAGE_LEN].map(|()| bytes.next()) {
        [Some(CLIENT_HELLO | SERVER_HELLO), Some(a), Some(b), Some(c)] => {
            MESSAGE_LEN + u32::from_be_bytes([0, a, b, c]) as usize
        }
        [None | Some(CLIENT_HELLO | SERVER_HELLO), ..] => return Ok(None),
        _ => return Err(NoHello),
    };
    match len <= HELLO_LEN_MAX {
        true => Ok(Some(len)),
        false => Err(NoHello),
    }
}

/// A record begins with these bytes, and in it a message that may be a hello.
fn begins_hello(bytes: &[u8]) -> bool {
    RecordView::parse(bytes).is_ok_and(|record| {
        record.content_type() == HANDSHAKE && message_len(&[], record.fragment()).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use exos_wire::SeqNumber;
    use exos_wire::tcp::TcpFlags;

    use super::*;

    const MESSAGE: [u8; 44] = {
        let mut message = [7; 44];
        (message[0], message[1], message[2], message[3]) = (CLIENT_HELLO, 0, 0, 40);
        message
    };

    /// The message in records of this length.
    fn records(len: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[HANDSHAKE, 3, 1, 0, part.len() as u8], part].concat();
        MESSAGE.chunks(len).flat_map(record).collect()
    }

    fn take(hellos: &mut Hellos, at: usize, data: &[u8]) -> Option<Vec<u8>> {
        let end = |port| (Ipv4Addr::LOCALHOST.into(), port);
        hellos.take(&Segment {
            from: end(1),
            to: end(2),
            seq: SeqNumber(at as u32 + 100),
            ack: SeqNumber(0),
            flags: TcpFlags::ACK,
            data,
            is_whole: true,
        })
    }

    /// Wherever records and segments are cut, behind the head of the first record; and where segments come twice, or the last ones first.
    #[test]
    fn hellos_are_put_together() {
        for len in [9, 40, 44] {
            let bytes = records(len);
            for cut in RECORD_LEN + MESSAGE_LEN..bytes.len() {
                let mut hellos = Hellos::default();
                let (first, rest) = bytes.split_at(cut);
                assert_eq!(take(&mut hellos, 0, first), None);
                assert_eq!(take(&mut hellos, 0, first), None);
                let (second, third) = rest.split_at(rest.len() / 2);
                let at = cut + second.len();
                let whole = match second.is_empty() {
                    true => take(&mut hellos, at, third),
                    false => {
                        assert_eq!(take(&mut hellos, at, third), None);
                        take(&mut hellos, cut, second)
                    }
                };
                assert_eq!(whole.as_deref(), Some(&MESSAGE[..]), "{len} {cut}");
                assert!(hellos.parts.is_empty());
            }
            assert_eq!(
                take(&mut Hellos::default(), 0, &bytes),
                None,
                "it is all there"
            );
        }
    }

    /// A hello in more records than any has is given up, and what was looked at is not kept to be looked at again.
    #[test]
    fn records_are_looked_at_once() {
        let long = [CLIENT_HELLO, 0, 0x40, 0];
        let mut bytes = [&[HANDSHAKE, 3, 1, 0, 4][..], &long].concat();
        let mut hellos = Hellos::default();
        assert_eq!(take(&mut hellos, 0, &bytes), None);
        let record = [HANDSHAKE, 3, 1, 0, 1, 7];
        for nth in 2..HELLO_RECORDS_MAX {
            assert_eq!(take(&mut hellos, bytes.len(), &record), None);
            bytes.extend(record);
            let part = hellos.parts.values().next().expect("more is to come");
            assert_eq!((part.records, part.stream.ready().len()), (nth, 0));
        }
        assert_eq!(take(&mut hellos, bytes.len(), &record), None);
        assert!(hellos.parts.is_empty());
    }

    /// The end of a hello was not captured, and the next connection is between the same ends; and others' hellos never end.
    #[test]
    fn the_next_hello_is_found() {
        let bytes = records(44);
        let mut hellos = Hellos::default();
        for at in [50_000, 3000, 3030] {
            assert_eq!(take(&mut hellos, at, &bytes[..20]), None);
        }
        let whole = take(&mut hellos, 3050, &bytes[20..]);
        assert_eq!(whole.as_deref(), Some(&MESSAGE[..]));
        assert!(hellos.parts.is_empty());
        let end = |port| (Ipv4Addr::LOCALHOST.into(), port);
        let segment = |port, at: u32, data| Segment {
            from: end(port),
            to: end(1),
            seq: SeqNumber(at),
            ack: SeqNumber(0),
            flags: TcpFlags::ACK,
            data,
            is_whole: true,
        };
        for port in 0..1000 {
            hellos.take(&segment(port, 0, &bytes[..20]));
            assert!(hellos.parts.len() <= HELLOS_MAX);
        }
        let whole = hellos.take(&segment(900, 20, &bytes[20..]));
        assert_eq!(whole.as_deref(), Some(&MESSAGE[..]));
    }

    #[test]
    fn what_is_no_hello_is_not_kept() {
        let other = [HANDSHAKE, 3, 1, 0, 60, 11, 0, 0, 56];
        let long = [HANDSHAKE, 3, 1, 0x40, 0, CLIENT_HELLO, 0xff, 0, 0];
        let data = [23, 3, 3, 0, 60, 1, 0, 0, 56];
        for bytes in [&other[..], &long, &data, b"GET / HTTP/1.1\r\n\r\n", b""] {
            let mut hellos = Hellos::default();
            assert_eq!(take(&mut hellos, 0, bytes), None);
            assert!(hellos.parts.is_empty(), "{bytes:?}");
        }
        // What follows is something else, or too much of it is missing.
        let bytes = records(9);
        let mut hellos = Hellos::default();
        take(&mut hellos, 0, &bytes[..14]);
        assert_eq!(take(&mut hellos, 14, &data), None);
        assert!(hellos.parts.is_empty());
        take(&mut hellos, 0, &bytes[..14]);
        for nth in 0..100 {
            assert_eq!(take(&mut hellos, 2000 * (nth + 1), &[0; 1000]), None);
        }
        assert!(hellos.parts.is_empty());
    }
}
