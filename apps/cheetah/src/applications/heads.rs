//! Heads of answers over shared buffers that come again and again: parsed once, and ready for clients of HTTP/1.
//!
//! What an application sends again is in the same place as before ([`Rc::ptr_eq`]), and stays there while it is remembered here. With it belong the
//! fields that a rule sets, which leave out the application's own of these names.

use std::cell::OnceCell;
use std::rc::Rc;

use exos_application::asking;
use exos_buf::Slice;

use super::head::{Head, HeadError, is_among};
use crate::limits::HEADS_REMEMBERED;
use crate::message::Status;

/// A head as it is told to clients.
#[derive(Clone, Debug)]
pub struct Known {
    /// What it says.
    pub head: Head,
    /// Its status, where that and the reason are one of ours and it may come again.
    pub status: Option<Status>,
    /// All behind the opening of a response, for a client of HTTP/1, where a length is said.
    pub lines: OnceCell<Slice>,
}

impl From<Head> for Known {
    /// One that comes once.
    fn from(head: Head) -> Known {
        Known {
            head,
            status: None,
            lines: OnceCell::new(),
        }
    }
}

impl Known {
    /// One that may come again.
    fn again(head: Head) -> Rc<Known> {
        let mut all = Status::ALL.into_iter();
        let status = all.find(|it| it.code() == head.code && it.reason() == head.reason);
        Rc::new(Known {
            status,
            ..Known::from(head)
        })
    }
}

/// Those that came lately.
#[derive(Debug, Default)]
pub struct Heads {
    all: Vec<Remembered>,
    /// Whose place the next takes, where all are taken.
    at: usize,
}

#[derive(Debug)]
struct Remembered {
    bytes: Rc<[u8]>,
    set: Option<Slice>,
    /// The length that was said beside it last.
    length: Option<u32>,
    known: Rc<Known>,
}

impl Remembered {
    fn is(&self, bytes: &Rc<[u8]>, set: Option<&Slice>) -> bool {
        let is_set_alike = match (&self.set, set) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                one.buffer().same(other.buffer()) && one.range() == other.range()
            }
            _ => false,
        };
        Rc::ptr_eq(&self.bytes, bytes) && is_set_alike
    }
}

impl Heads {
    /// Parses a head, of which a rule sets these lines.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn parse(
        &mut self,
        said: &asking::Head,
        set: Option<&Slice>,
    ) -> Result<Rc<Known>, HeadError> {
        let place = self.all.iter_mut().find(|it| it.is(&said.bytes, set));
        if let Some(place) = place {
            if place.length != said.length {
                place.known = Known::again(with_length(&place.known.head, place.length, said)?);
                place.length = said.length;
            }
            return Ok(Rc::clone(&place.known));
        }
        let is_set = |name: &str| set.is_some_and(|lines| is_among(lines.as_bytes(), name));
        let parsed = Head::parse(&said.bytes, is_set)?;
        let whole = parsed.filter(|(_, len)| *len == said.bytes.len());
        let (head, _) = whole.ok_or(HeadError::Syntax)?;
        let known = Known::again(with_length(&head, None, said)?);
        // What the link does not remember does not come again.
        if Rc::strong_count(&said.bytes) > 1 {
            let remembered = Remembered {
                bytes: Rc::clone(&said.bytes),
                set: set.cloned(),
                length: said.length,
                known: Rc::clone(&known),
            };
            match self.all.get_mut(self.at) {
                Some(place) => *place = remembered,
                None => self.all.push(remembered),
            }
            self.at = (self.at + 1) % HEADS_REMEMBERED;
        }
        Ok(known)
    }
}

/// A head with the length that is said beside its fields, in place of the one that was.
fn with_length(head: &Head, before: Option<u32>, said: &asking::Head) -> Result<Head, HeadError> {
    let of_fields = head.length.filter(|_| before.is_none());
    let length = match (of_fields, said.length) {
        (Some(_), Some(_)) => return Err(HeadError::Length),
        (of_fields, said) => of_fields.or(said.map(u64::from)),
    };
    Ok(Head {
        length,
        ..head.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_buf::Buffer;

    fn said(bytes: &Rc<[u8]>, length: Option<u32>) -> asking::Head {
        asking::Head {
            bytes: Rc::clone(bytes),
            length,
        }
    }

    #[test]
    fn one_that_comes_again_is_parsed_once() {
        let mut heads = Heads::default();
        let bytes: Rc<[u8]> = b"Status: 404\r\nA: b\r\nX-Set: c\r\n\r\n"[..].into();
        let first = heads.parse(&said(&bytes, Some(7)), None).unwrap();
        assert_eq!((first.head.code, first.head.length), (404, Some(7)));
        let again = heads.parse(&said(&bytes, Some(7)), None).unwrap();
        assert!(Rc::ptr_eq(&first, &again) && first.status == Some(Status::NotFound));
        // Of another length it is another, and of none.
        for length in [Some(8), None, Some(7)] {
            let other = heads.parse(&said(&bytes, length), None).unwrap();
            assert!(!Rc::ptr_eq(&first, &other));
            assert_eq!(other.head.length, length.map(u64::from));
        }
        // A rule that sets a field makes it another, too.
        let set = Buffer::from(b"x-set: d\r\n".to_vec()).whole();
        let without = heads.parse(&said(&bytes, Some(7)), Some(&set)).unwrap();
        assert_eq!(without.head.fields, b"A: b\r\n");
        let with = heads.parse(&said(&bytes, Some(7)), None).unwrap();
        assert_eq!(with.head.fields, b"A: b\r\nX-Set: c\r\n");
    }

    #[test]
    fn those_that_come_once_are_not_remembered_and_others_have_few_places() {
        let mut heads = Heads::default();
        let head = |n: usize| Rc::<[u8]>::from(format!("A: {n}\r\n\r\n").into_bytes());
        for n in 0..10 {
            let (bytes, length) = (head(n), None);
            heads.parse(&asking::Head { bytes, length }, None).unwrap();
        }
        assert!(heads.all.is_empty());
        let many: Vec<Rc<[u8]>> = (0..3 * HEADS_REMEMBERED).map(head).collect();
        for bytes in &many {
            let known = heads.parse(&said(bytes, None), None).unwrap();
            assert_eq!(known.head.fields, bytes[..bytes.len() - 2]);
        }
        assert_eq!(heads.all.len(), HEADS_REMEMBERED);
    }

    #[test]
    fn what_is_no_head_is_none_each_time() {
        let mut heads = Heads::default();
        let length: Rc<[u8]> = b"Content-Length: 7\r\n\r\n"[..].into();
        for (text, length, wanted) in [
            (&b""[..], None, HeadError::Syntax),
            (b"A: b\r\n\r\nbehind", None, HeadError::Syntax),
            (b"Content-Length: 7\r\n\r\n", Some(7), HeadError::Length),
        ] {
            let bytes: Rc<[u8]> = text.into();
            for _ in 0..2 {
                let refused = heads.parse(&said(&bytes, length), None);
                assert_eq!(refused.err(), Some(wanted));
            }
        }
        // Also where it was good alone.
        assert!(heads.parse(&said(&length, None), None).is_ok());
        let twice = heads.parse(&said(&length, Some(7)), None);
        assert_eq!(twice.err(), Some(HeadError::Length));
    }
}
