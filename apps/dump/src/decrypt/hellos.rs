//! Hellos of TLS that come in several segments, as those with large key shares do: put together from the segment on with which they begin.

use std::collections::HashMap;

use exos_wire::tls::{CLIENT_HELLO, HANDSHAKE, RECORD_LEN, RecordView, SERVER_HELLO};

use super::stream::Stream;
use super::{Endpoint, Segment};
use crate::limits::{HELLO_LEN_MAX, HELLOS_MAX};

/// Bytes before a handshake message's body.
const MESSAGE_LEN: usize = 4;

/// Those of which more is to come, by from where to where they go.
#[derive(Debug, Default)]
pub(super) struct Hellos(HashMap<(Endpoint, Endpoint), Stream>);

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
        if let Some(stream) = self.0.get_mut(&key)
            && (stream.first() != segment.seq || stream.end() > segment.data.len() as u64)
        {
            let is_put = segment.is_whole && stream.put(segment.seq, segment.data).is_ok();
            let found = match is_put {
                true => find(stream.ready()),
                false => Found::Nothing,
            };
            if found != Found::Part {
                self.0.remove(&key);
            }
            return match found {
                Found::Whole(message) => Some(message),
                Found::Part | Found::Nothing => None,
            };
        }
        if segment.is_whole && find(segment.data) == Found::Part {
            if self.0.len() >= HELLOS_MAX {
                self.0.clear();
            }
            let mut stream = Stream::with_ahead(segment.seq, HELLO_LEN_MAX);
            if stream.put(segment.seq, segment.data).is_ok() {
                self.0.insert(key, stream);
            }
        }
        None
    }
}

/// Looks for a hello that begins with these bytes. It may be in several records.
fn find(bytes: &[u8]) -> Found {
    let (mut rest, mut message) = (bytes, Vec::new());
    while let Ok(record) = RecordView::parse(rest) {
        if record.content_type() != HANDSHAKE {
            return Found::Nothing;
        }
        message.extend_from_slice(record.fragment());
        if let Some(&[kind, a, b, c]) = message.first_chunk::<MESSAGE_LEN>() {
            let len = MESSAGE_LEN + u32::from_be_bytes([0, a, b, c]) as usize;
            if !matches!(kind, CLIENT_HELLO | SERVER_HELLO) || len > HELLO_LEN_MAX {
                return Found::Nothing;
            }
            if len <= message.len() {
                message.truncate(len);
                return Found::Whole(message);
            }
        }
        if !record.is_whole() {
            return Found::Part;
        }
        rest = &rest[RECORD_LEN + record.length()..];
    }
    // The head of a record may be cut.
    match message.is_empty() || rest.len() >= RECORD_LEN {
        true => Found::Nothing,
        false => Found::Part,
    }
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
                assert!(hellos.0.is_empty());
            }
            assert_eq!(
                take(&mut Hellos::default(), 0, &bytes),
                None,
                "it is all there"
            );
        }
    }

    #[test]
    fn what_is_no_hello_is_not_kept() {
        let other = [HANDSHAKE, 3, 1, 0, 60, 11, 0, 0, 56];
        let long = [HANDSHAKE, 3, 1, 0x40, 0, CLIENT_HELLO, 0xff, 0, 0];
        let data = [23, 3, 3, 0, 60, 1, 0, 0, 56];
        for bytes in [&other[..], &long, &data, b"GET / HTTP/1.1\r\n\r\n", b""] {
            let mut hellos = Hellos::default();
            assert_eq!(take(&mut hellos, 0, bytes), None);
            assert!(hellos.0.is_empty(), "{bytes:?}");
        }
        // What follows is something else, or too much of it is missing.
        let bytes = records(9);
        let mut hellos = Hellos::default();
        take(&mut hellos, 0, &bytes[..14]);
        assert_eq!(take(&mut hellos, 14, &data), None);
        assert!(hellos.0.is_empty());
        take(&mut hellos, 0, &bytes[..14]);
        for nth in 0..100 {
            assert_eq!(take(&mut hellos, 2000 * (nth + 1), &[0; 1000]), None);
        }
        assert!(hellos.0.is_empty());
    }
}
