//! Heads of requests that came last, decoded.
//!
//! Clients ask in the words in which they asked before, and those of one kind in each other's words. Clients are left no table, so the bytes of
//! a section say the fields that they say on any connection and at any time: a section that is there is not decoded again. A section is found
//! as a whole or not at all, so that nobody learns a part of another's by trying.
//!
//! Each has a place, which a hash of its bytes says; another one there replaces it. What is long is decoded outside of them.

use exos_http2::fields::Fields;
use exos_http2::message::{self, Layout, RequestHead};

use crate::error::Fault;
use crate::limits::{HEAD_KEPT_LEN_MAX, HEADS_MAX, SECTION_KEPT_LEN_MAX};
use crate::qpack::decoder;

/// Heads that came last, of all requests that are read with it.
#[derive(Debug)]
pub struct Heads {
    places: Vec<Kept>,
    /// What is decoded, until it has a place; and what is too long for one.
    latest: Kept,
    long: Kept,
    trailers: Fields,
}

/// A section, and what it says.
#[derive(Debug, Default)]
struct Kept {
    /// Empty where nothing is kept: no section is.
    section: Vec<u8>,
    fields: Fields,
    layout: Layout,
    /// What the program made of them.
    text: Vec<u8>,
}

/// The fields of a request, which keep to the rules (RFC 9114 §4.2, §4.3: those of HTTP/2).
#[derive(Debug)]
pub struct Head<'a>(&'a mut Kept);

impl Head<'_> {
    /// The request.
    pub fn request(&self) -> RequestHead<'_> {
        RequestHead::new(&self.0.fields, self.0.layout)
    }

    /// There were more fields than may be kept: those that are here are the first of them.
    pub fn is_too_long(&self) -> bool {
        self.0.fields.is_too_long()
    }

    /// The urgency that the request asks for (RFC 9218 §4.1), from 0, before all others, to 7.
    pub fn urgency(&self) -> u8 {
        self.0.layout.priority.unwrap_or_default().urgency
    }

    /// What the program makes of the request, by `make`, which is called once while the head is kept: it goes by the request alone.
    pub fn text(&mut self, make: impl FnOnce(&RequestHead<'_>, &mut Vec<u8>)) -> &[u8] {
        let Kept {
            fields,
            layout,
            text,
            ..
        } = &mut *self.0;
        if text.is_empty() {
            make(&RequestHead::new(fields, *layout), text);
        }
        text
    }

    pub(crate) fn layout(&self) -> Layout {
        self.0.layout
    }
}

impl Default for Heads {
    fn default() -> Heads {
        Heads {
            places: (0..HEADS_MAX).map(|_| Kept::default()).collect(),
            latest: Kept::default(),
            long: Kept::default(),
            trailers: Fields::new(),
        }
    }
}

impl Heads {
    /// The head that a section says.
    ///
    /// # Errors
    ///
    /// It says none.
    pub(crate) fn head(&mut self, section: &[u8]) -> Result<Head<'_>, Fault> {
        if section.len() > SECTION_KEPT_LEN_MAX {
            self.long.decode(section)?;
            return Ok(Head(&mut self.long));
        }
        let place = place(section);
        if section.is_empty() || self.places[place].section != section {
            self.latest.shrink();
            self.latest.decode(section)?;
            if self.latest.len() > HEAD_KEPT_LEN_MAX || self.latest.is_somebodys() {
                return Ok(Head(&mut self.latest));
            }
            self.latest.section.extend_from_slice(section);
            std::mem::swap(&mut self.places[place], &mut self.latest);
        }
        Ok(Head(&mut self.places[place]))
    }

    /// The fields of a section behind a body.
    ///
    /// # Errors
    ///
    /// There may be none such.
    pub(crate) fn trailers(&mut self, section: &[u8]) -> Result<&Fields, Fault> {
        self.trailers.clear();
        decoder::decode(section, |name, value| self.trailers.push(name, value))?;
        match message::trailers(&self.trailers) {
            Ok(()) => Ok(&self.trailers),
            Err(_) => Err(Fault::Malformed),
        }
    }
}

impl Kept {
    /// Gives memory back beyond what a head that is kept needs.
    fn shrink(&mut self) {
        self.fields.shrink(2 * HEAD_KEPT_LEN_MAX);
        self.text.clear();
        self.text.shrink_to(2 * HEAD_KEPT_LEN_MAX);
    }

    /// Its size, as tables of fields count theirs (RFC 9204 §3.2.1).
    fn len(&self) -> usize {
        let each = self.fields.iter();
        each.map(|(name, value)| name.len() + value.len() + 32)
            .sum()
    }

    /// It is one client's alone, and does not stay in memory when it has been answered.
    fn is_somebodys(&self) -> bool {
        let mut names = self.fields.iter().map(|(name, _)| name);
        names.any(|name| matches!(name, b"authorization" | b"cookie"))
    }

    /// Becomes what a section says, and is not found by it.
    fn decode(&mut self, section: &[u8]) -> Result<(), Fault> {
        self.section.clear();
        self.text.clear();
        self.fields.clear();
        decoder::decode(section, |name, value| self.fields.push(name, value))?;
        self.layout = message::request(&self.fields).map_err(|_| Fault::Malformed)?;
        Ok(())
    }
}

/// Where a section is: words of eight bytes, each multiplied into the next (as Firefox and rustc have it), of which the upper bits depend on all
/// others. A client that makes two meet has its requests decoded.
fn place(section: &[u8]) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = section.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let all = words.iter().chain([&last]);
    let mix = |hash: u64, word: &[u8; 8]| {
        (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR)
    };
    let hash = all.fold(section.len() as u64, mix);
    (hash >> (u64::BITS - HEADS_MAX.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qpack::encoder;

    fn section(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let get = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", path),
        ];
        encoder::section(&[&get[..], more].concat())
    }

    /// Whatever came before, and however many others, a head says what its section says; what is made of it is made once while it is kept.
    #[test]
    fn a_head_says_what_its_section_says() {
        let mut heads = Heads::default();
        let mut made = 0;
        for round in 0..3 {
            for number in 0..4 * HEADS_MAX {
                let (path, urgency) = (format!("/{number}"), (number % 8) as u8);
                let section = section(&path, &[("priority", &format!("u={urgency}"))]);
                for again in 0..2 {
                    let mut head = heads.head(&section).unwrap();
                    assert_eq!(head.urgency(), urgency, "{round}");
                    assert_eq!(head.request().path(), Some(path.as_bytes()));
                    let before = made;
                    let text = head.text(|request, text| {
                        made += 1;
                        text.extend_from_slice(request.path().unwrap());
                    });
                    assert_eq!(text, path.as_bytes());
                    assert!(again == 0 || made == before);
                }
            }
        }
    }

    /// As many numbered documents as there are places have most of them.
    #[test]
    fn sections_that_differ_little_have_places_of_their_own() {
        for path in ["/", "/aaaaaaa", "/aaaaaa", "/file-"] {
            let sections = (0..HEADS_MAX).map(|number| section(&format!("{path}{number:02}"), &[]));
            let places: std::collections::BTreeSet<usize> =
                sections.map(|section| place(&section)).collect();
            assert!(places.len() >= HEADS_MAX / 3, "{path}: {}", places.len());
        }
    }

    /// What is long, what says much in few bytes, what is one client's alone, and what is none leaves nothing behind.
    #[test]
    fn what_is_long_or_somebodys_or_wrong_is_not_kept() {
        let long = "x".repeat(2 * SECTION_KEPT_LEN_MAX);
        // A field of the fixed table, of a byte in the section.
        let mut dense = section("/", &[]);
        dense.extend([0xc0 | 37; 200]);
        let mut bad = section("/", &[]);
        bad.push(0xff);
        let own = [("cookie", "a=b"), ("authorization", "Basic YTpi")];
        let own = own.map(|field| section("/", &[field]));
        for section in own
            .into_iter()
            .chain([section("/", &[("a", &long)]), dense])
        {
            let mut heads = Heads::default();
            for _ in 0..2 {
                let mut head = heads.head(&section).unwrap();
                assert_eq!(head.text(|_, text| text.push(b'a')), b"a");
            }
            assert!(heads.places.iter().all(|kept| kept.section.is_empty()));
        }
        let mut heads = Heads::default();
        for _ in 0..2 {
            assert!(heads.head(&bad).is_err() && heads.head(&[]).is_err());
            assert!(heads.head(&section("/", &[(":path", "/")])).is_err());
        }
        assert!(heads.places.iter().all(|kept| kept.section.is_empty()));
        assert!(heads.head(&section("/", &[])).is_ok());
    }
}
