//! What passes between a server and an application: records, each a header and as many bytes as it says.
//!
//! ```text
//!   kind (1) | flags (1) | number (2) | request (4) | length of what follows (4) | value (4) | bytes
//! ```
//!
//! Numbers are in the machine's order: both are on it. A link carries many requests at once, by number. What follows a header may be passed
//! by reference, and may be cut anywhere.
//!
//! An application answers with few heads again and again. It gives them numbers of the link, up to [`HEADS_MAX`], and sends the bytes of one
//! that has a number once: a head with a number and without bytes is that which was sent with the number last. So it does with pieces of
//! content that it keeps, up to [`PIECES_MAX`]. So head and content of a page that is kept are 32 bytes.
//!
//! | kind | from | bytes | flags, value |
//! |---|---|---|---|
//! | [`Request`](Kind::Request) | server | variables, as FastCGI's pairs of names and values | last: it has no body |
//! | [`Body`](Kind::Body) | server | a part of the body | last |
//! | [`Leave`](Kind::Leave) | both | | nobody wants the answer any more; or it does not become whole |
//! | [`Head`](Kind::Head) | application | header fields of CGI (RFC 3875 §6) | sized: the value is the content's length; the number of the head, or 0 |
//! | [`Content`](Kind::Content) | application | a part of the content | last; kept: the same bytes will be sent again; the number of the piece, or 0 |
//! | [`Said`](Kind::Said) | application | lines for the operator | |
//! | [`Stop`](Kind::Stop) | application | | it ends: it answers what was asked, and is to be asked nothing more; of no request |
//! | [`Room`](Kind::Room) | both | | the number of further bytes of the body, or of the content, that may be sent |

use crate::limits::{DRAFT_LEN, HEADS_MAX, PIECES_MAX, REQUESTS_MAX};
use exos_iolite::{Aggregate, Error, Result, Slice};

/// What a server says first, with a descriptor: the name of what it speaks, and the version of that. An application of another version sends it
/// away, and its operator reads why ([`Link::failure`](crate::asking::Link::failure)).
pub const HELLO: [u8; 16] = *b"exos-pages/3\0\0\0\0";

/// Bytes of a header.
pub const HEADER_LEN: usize = 16;

const LAST: u8 = 1;
const KEPT: u8 = 2;
const SIZED: u8 = 4;

/// Bits of a request's number that say where its entry is at both ends. The others say how often that was used before.
pub(crate) const SLOT_BITS: u32 = 14;

const _: () = assert!(REQUESTS_MAX < 1 << SLOT_BITS);

/// Where the entry of the request with this number is, from 0 on, if it is one.
pub(crate) fn slot_of(number: u32) -> Option<usize> {
    ((number & ((1 << SLOT_BITS) - 1)) as usize).checked_sub(1)
}

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
    /// The value is the length of the answer's content.
    pub is_sized: bool,
    /// The number of a head or of a piece that is kept, of which [`HEADS_MAX`] and [`PIECES_MAX`] are the largest; or 0.
    pub number: u16,
    /// Which request.
    pub request: u32,
    /// Bytes that follow.
    pub len: u32,
    /// How much room there is more, or how long the content is.
    pub value: u32,
}

impl Header {
    /// A header of a record with this many bytes.
    pub fn new(kind: Kind, request: u32, len: usize) -> Header {
        Header {
            kind,
            is_last: false,
            is_kept: false,
            is_sized: false,
            number: 0,
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

    /// One of a head with this number, or without one, of an answer with content of this length.
    #[must_use]
    pub fn of_head(self, number: u16, length: Option<u32>) -> Header {
        Header {
            number,
            is_sized: length.is_some(),
            value: length.unwrap_or(0),
            ..self
        }
    }

    /// One of a piece that is kept and has this number; what was sent with it, where no bytes follow.
    #[must_use]
    pub fn of_piece(self, number: u16) -> Header {
        Header {
            number,
            is_kept: true,
            ..self
        }
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
        let flags = [
            (self.is_last, LAST),
            (self.is_kept, KEPT),
            (self.is_sized, SIZED),
        ];
        out[1] = flags
            .into_iter()
            .map(|(is, flag)| u8::from(is) * flag)
            .sum();
        out[2..4].copy_from_slice(&self.number.to_ne_bytes());
        for (at, word) in [(4, self.request), (8, self.len), (12, self.value)] {
            out[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        out
    }

    fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Header> {
        let [kind, flags, number @ .., _, _, _, _, _, _, _, _, _, _, _, _] = bytes;
        let numbers = &bytes[4..];
        let kind = KINDS.get(usize::from(*kind).wrapping_sub(1)).copied();
        let kind = kind.ok_or(Error::PeerFault("its record is of no kind"))?;
        let number = u16::from_ne_bytes(*number);
        let (known, number_max) = match kind {
            Kind::Head => (LAST | KEPT | SIZED, HEADS_MAX),
            Kind::Content if flags & KEPT != 0 => (LAST | KEPT, PIECES_MAX),
            _ => (LAST | KEPT, 0),
        };
        if flags & !known != 0 {
            return Err(Error::PeerFault("its record has flags that mean nothing"));
        }
        if usize::from(number) > number_max {
            return Err(Error::PeerFault(
                "its record has a number that means nothing",
            ));
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
            is_sized: flags & SIZED != 0,
            number,
            request,
            len,
            value,
        })
    }
}

/// A part of a record.
#[derive(Debug)]
pub struct Piece<'d> {
    /// Of which record.
    pub header: Header,
    /// Bytes of it; none of a record without any.
    pub bytes: Bytes<'d>,
    /// The record is whole.
    pub is_end: bool,
}

/// Bytes of a record.
#[derive(Debug)]
pub enum Bytes<'d> {
    /// Copied out of what the peer can change.
    Copied(&'d [u8]),
    /// Where they are: what stands in front of them ends with another slice.
    Passed(Slice),
}

impl Bytes<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Bytes::Copied(bytes) => bytes.len(),
            Bytes::Passed(slice) => slice.len(),
        }
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the first of them, at most this many.
    pub fn append_to(&self, out: &mut Vec<u8>, most: usize) {
        let len = self.len().min(most);
        match self {
            Bytes::Copied(bytes) => out.extend_from_slice(&bytes[..len]),
            Bytes::Passed(slice) => {
                let before = out.len();
                out.resize(before + len, 0);
                slice.copy_to(0, &mut out[before..]);
            }
        }
    }
}

/// Reads records wherever they are cut. A slice in which a header is is copied as a whole, once, and read there: it has many short
/// records. What comes in slices of its own stays in them.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The copy of a slice, and how much of it was read.
    copied: Vec<u8>,
    at: usize,
    /// A header that has begun.
    begun: [u8; HEADER_LEN],
    begun_len: usize,
    /// The record that has begun, and how many bytes of it are to come.
    record: Option<(Header, u32)>,
}

impl Decoder {
    /// All that was taken was read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.copied.len()
    }

    /// Takes the next part of a record from the front; nothing when there is none.
    ///
    /// # Errors
    ///
    /// It is no record: nothing that follows means anything.
    pub fn next(&mut self, data: &mut Aggregate) -> Result<Option<Piece<'_>>> {
        let (header, left) = match self.record.take() {
            Some(record) => record,
            None => match self.header(data)? {
                Some(header) => (header, header.len),
                None => return Ok(None),
            },
        };
        let bytes = match self.copied.len() - self.at {
            _ if left == 0 => Bytes::Copied(&[]),
            0 => match pop(data, left as usize) {
                Some(slice) => Bytes::Passed(slice),
                None => {
                    self.record = Some((header, left));
                    return Ok(None);
                }
            },
            rest => {
                let len = rest.min(left as usize);
                self.at += len;
                Bytes::Copied(&self.copied[self.at - len..self.at])
            }
        };
        let left = left - bytes.len() as u32;
        if left > 0 {
            self.record = Some((header, left));
        }
        Ok(Some(Piece {
            header,
            bytes,
            is_end: left == 0,
        }))
    }

    fn header(&mut self, data: &mut Aggregate) -> Result<Option<Header>> {
        loop {
            let rest = &self.copied[self.at..];
            if self.begun_len == 0
                && let Some(whole) = rest.first_chunk()
            {
                self.at += HEADER_LEN;
                return Header::parse(whole).map(Some);
            }
            let part = rest.len().min(HEADER_LEN - self.begun_len);
            self.begun[self.begun_len..][..part].copy_from_slice(&rest[..part]);
            self.begun_len += part;
            self.at += part;
            if self.begun_len == HEADER_LEN {
                self.begun_len = 0;
                return Header::parse(&self.begun).map(Some);
            }
            // All that was copied was read.
            let Some(slice) = data.pop_first() else {
                return Ok(None);
            };
            self.copied.resize(slice.len(), 0);
            self.copied.shrink_to(2 * DRAFT_LEN);
            slice.copy_to(0, &mut self.copied);
            self.at = 0;
        }
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
        let flags = any::<(bool, bool, bool, u32, u32)>();
        let numbers = (0..=HEADS_MAX.min(PIECES_MAX) as u16, 0..200_u32);
        (kind, flags, numbers).prop_map(|(kind, flags, (number, len))| {
            let (is_last, is_kept, is_sized, request, value) = flags;
            let len = if has_bytes(kind) { len } else { 0 };
            let is_head = kind == Kind::Head;
            let is_numbered = is_head || kind == Kind::Content && is_kept;
            Header {
                kind,
                is_last,
                is_kept,
                is_sized: is_sized && is_head,
                number: if is_numbered { number } else { 0 },
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
                piece.bytes.append_to(&mut begun, usize::MAX);
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
        for kind in KINDS {
            let good = Header::new(kind, 1, 0).bytes();
            assert_eq!(read(&good, &[]).map(|r| r.len()).ok(), Some(1));
            // A head alone says how long its content is, and has a number beside pieces that are kept.
            let is_head = kind == Kind::Head;
            let first = HEADS_MAX as u8 + 1;
            for (at, byte, means_something) in [
                (0, 0, false),
                (0, 9, false),
                (1, SIZED, is_head),
                (1, 8, false),
                (2, 1, is_head),
                (2, first, false),
                (3, 1, false),
            ] {
                let mut other = good;
                other[at] = byte;
                let read = read(&other, &[]);
                let is_refused = matches!(read, Err(Error::PeerFault(_)));
                assert_eq!(is_refused, !means_something, "{kind:?} {at} {byte}");
            }
        }
    }
}
