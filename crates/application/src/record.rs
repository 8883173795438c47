//! What passes between a server and an application: records, each a header and as many bytes as it says.
//!
//! ```text
//!   kind (1) | flags (1) | 0 (2) | request (4) | length of what follows (4) | value (4) | bytes
//! ```
//!
//! Numbers are in the machine's order: both are on it. A link carries many requests at once, by number. What follows a header is passed
//! by reference, wherever that is cut.
//!
//! | kind | from | bytes | flags, value |
//! |---|---|---|---|
//! | [`Request`](Kind::Request) | server | variables, as FastCGI's pairs of names and values | last: it has no body |
//! | [`Body`](Kind::Body) | server | a part of the body | last |
//! | [`Leave`](Kind::Leave) | both | | nobody wants the answer any more; or it does not become whole |
//! | [`Head`](Kind::Head) | application | header fields of CGI (RFC 3875 §6) | |
//! | [`Content`](Kind::Content) | application | a part of the content | last; kept: the same bytes will be sent again |
//! | [`Said`](Kind::Said) | application | lines for the operator | |
//! | [`Stop`](Kind::Stop) | application | | it ends: it answers what was asked, and is to be asked nothing more; of no request |
//! | [`Room`](Kind::Room) | both | | the number of further bytes of the body, or of the content, that may be sent |

use exos_iolite::{Aggregate, Error, Result, Slice};

/// Bytes of a header.
pub const HEADER_LEN: usize = 16;

const LAST: u8 = 1;
const KEPT: u8 = 2;

/// What a record is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A request begins.
    Request = 1,
    /// A part of its body.
    Body = 2,
    /// Nobody wants its answer; or it does not become whole.
    Leave = 3,
    /// The head of its answer.
    Head = 4,
    /// A part of the content.
    Content = 5,
    /// Lines for the operator.
    Said = 6,
    /// More may be sent.
    Room = 7,
    /// No more requests are taken.
    Stop = 8,
}

const KINDS: [Kind; 8] = [
    Kind::Request,
    Kind::Body,
    Kind::Leave,
    Kind::Head,
    Kind::Content,
    Kind::Said,
    Kind::Room,
    Kind::Stop,
];

/// The header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is about.
    pub kind: Kind,
    /// Nothing of its kind follows for this request.
    pub is_last: bool,
    /// The application keeps these bytes where they are, and is likely to send them again.
    pub is_kept: bool,
    /// Which request.
    pub request: u32,
    /// Bytes that follow.
    pub len: u32,
    /// How much room there is more.
    pub value: u32,
}

impl Header {
    /// A header of a record with this many bytes.
    pub fn new(kind: Kind, request: u32, len: usize) -> Header {
        Header {
            kind,
            is_last: false,
            is_kept: false,
            request,
            len: u32::try_from(len).expect("a record is shorter than 4 GiB"),
            value: 0,
        }
    }

    /// One behind which nothing of its kind follows, if so.
    #[must_use]
    pub fn last(self, is_last: bool) -> Header {
        Header { is_last, ..self }
    }

    /// One of bytes that are kept, if so.
    #[must_use]
    pub fn kept(self, is_kept: bool) -> Header {
        Header { is_kept, ..self }
    }

    /// One that gives room for more.
    pub fn room(request: u32, more: usize) -> Header {
        let value = u32::try_from(more).expect("there is less room than 4 GiB");
        Header {
            value,
            ..Header::new(Kind::Room, request, 0)
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0] = self.kind as u8;
        out[1] = if self.is_last { LAST } else { 0 } | if self.is_kept { KEPT } else { 0 };
        for (at, word) in [(4, self.request), (8, self.len), (12, self.value)] {
            out[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        out
    }

    fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Header> {
        let [kind, flags, 0, 0, numbers @ ..] = bytes else {
            return Err(Error::PeerFault("its record has bytes that mean nothing"));
        };
        let kind = KINDS.into_iter().find(|known| *known as u8 == *kind);
        let kind = kind.ok_or(Error::PeerFault("its record is of no kind"))?;
        if flags & !(LAST | KEPT) != 0 {
            return Err(Error::PeerFault("its record has flags that mean nothing"));
        }
        let (words, _) = numbers.as_chunks::<4>();
        let [request, len, value] = std::array::from_fn(|n| u32::from_ne_bytes(words[n]));
        if len > 0 && matches!(kind, Kind::Leave | Kind::Room | Kind::Stop) {
            return Err(Error::PeerFault(
                "its record has bytes, and is of a kind that has none",
            ));
        }
        Ok(Header {
            kind,
            is_last: flags & LAST != 0,
            is_kept: flags & KEPT != 0,
            request,
            len,
            value,
        })
    }
}

/// A part of a record.
#[derive(Debug)]
pub struct Piece {
    /// Of which record.
    pub header: Header,
    /// Bytes of it, in one buffer; none of a record without any.
    pub bytes: Option<Slice>,
    /// The record is whole.
    pub is_end: bool,
}

/// Reads records wherever they are cut.
#[derive(Debug, Default)]
pub struct Decoder {
    /// A header that has begun.
    begun: [u8; HEADER_LEN],
    begun_len: usize,
    /// The record that has begun, and how many bytes of it are to come.
    record: Option<(Header, u32)>,
}

impl Decoder {
    /// Takes the next part of a record from the front; nothing when there is none.
    ///
    /// # Errors
    ///
    /// It is no record: nothing that follows means anything.
    pub fn next(&mut self, data: &mut Aggregate) -> Result<Option<Piece>> {
        let (header, left) = match self.record {
            Some(record) => record,
            None => {
                let Some(header) = self.header(data)? else {
                    return Ok(None);
                };
                (header, header.len)
            }
        };
        if left == 0 {
            self.record = None;
            let bytes = None;
            return Ok(Some(Piece {
                header,
                bytes,
                is_end: true,
            }));
        }
        let Some(bytes) = pop(data, left as usize) else {
            self.record = Some((header, left));
            return Ok(None);
        };
        let left = left - bytes.len() as u32;
        self.record = (left > 0).then_some((header, left));
        Ok(Some(Piece {
            header,
            bytes: Some(bytes),
            is_end: left == 0,
        }))
    }

    fn header(&mut self, data: &mut Aggregate) -> Result<Option<Header>> {
        while self.begun_len < HEADER_LEN {
            let Some(part) = pop(data, HEADER_LEN - self.begun_len) else {
                return Ok(None);
            };
            part.copy_to(0, &mut self.begun[self.begun_len..][..part.len()]);
            self.begun_len += part.len();
        }
        self.begun_len = 0;
        Header::parse(&self.begun).map(Some)
    }
}

/// The first bytes in one buffer, at most this many.
fn pop(data: &mut Aggregate, most: usize) -> Option<Slice> {
    let first = data.pop_first()?;
    if first.len() <= most {
        return Some(first);
    }
    data.prepend(first.sub(most..first.len()));
    Some(first.sub(0..most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn local(bytes: &[u8]) -> Slice {
        exos_buf::Buffer::from(bytes.to_vec()).whole().into()
    }

    fn has_bytes(kind: Kind) -> bool {
        !matches!(kind, Kind::Leave | Kind::Room | Kind::Stop)
    }

    /// They would be taken for the beginning of another record's.
    #[test]
    fn records_without_bytes_have_none() {
        for kind in KINDS {
            let record = [&Header::new(kind, 7, 3).bytes()[..], b"abc"].concat();
            assert_eq!(read(&record, &[]).is_ok(), has_bytes(kind), "{kind:?}");
        }
    }

    fn header() -> impl Strategy<Value = Header> {
        let kind = (0..KINDS.len()).prop_map(|n| KINDS[n]);
        let flags = any::<(bool, bool, u32, u32)>();
        (kind, flags, 0..200_u32).prop_map(|(kind, flags, len)| {
            let (is_last, is_kept, request, value) = flags;
            let len = if has_bytes(kind) { len } else { 0 };
            Header {
                kind,
                is_last,
                is_kept,
                request,
                len,
                value,
            }
        })
    }

    /// All records of these bytes, cut there, with their bytes; an error where they are none.
    fn read(bytes: &[u8], cuts: &[usize]) -> Result<Vec<(Header, Vec<u8>)>> {
        let (mut decoder, mut data) = (Decoder::default(), Aggregate::new());
        let (mut records, mut begun, mut at) = (Vec::new(), Vec::new(), 0);
        for cut in cuts.iter().copied().chain([bytes.len()]) {
            let end = cut.clamp(at, bytes.len());
            data.append(local(&bytes[at..end]));
            at = end;
            while let Some(piece) = decoder.next(&mut data)? {
                let slice = piece.bytes.iter();
                slice
                    .for_each(|slice| slice.for_each_block(|block| begun.extend_from_slice(block)));
                if piece.is_end {
                    records.push((piece.header, std::mem::take(&mut begun)));
                }
            }
        }
        Ok(records)
    }

    proptest! {
        #[test]
        fn records_are_read_wherever_they_are_cut(
            headers in proptest::collection::vec(header(), 0..8),
            mut cuts in proptest::collection::vec(0..2000_usize, 0..20),
        ) {
            cuts.sort_unstable();
            let mut bytes = Vec::new();
            let mut wanted = Vec::new();
            for (n, header) in headers.into_iter().enumerate() {
                let content = vec![n as u8; header.len as usize];
                bytes.extend(header.bytes());
                bytes.extend(&content);
                wanted.push((header, content));
            }
            prop_assert_eq!(read(&bytes, &cuts).expect("records"), wanted);
        }

        #[test]
        fn any_bytes_are_records_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0..300_usize) {
            let whole = read(&bytes, &[]);
            let in_two = read(&bytes, &[cut]);
            prop_assert_eq!(whole.ok(), in_two.ok());
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let good = Header::new(Kind::Head, 1, 0).bytes();
        assert_eq!(read(&good, &[]).map(|r| r.len()).ok(), Some(1));
        for (at, byte) in [(0, 0), (0, 9), (1, 4), (2, 1), (3, 1)] {
            let mut bad = good;
            bad[at] = byte;
            assert!(
                matches!(read(&bad, &[]), Err(Error::PeerFault(_))),
                "{at} {byte}"
            );
        }
    }
}
