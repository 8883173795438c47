//! Heads that an application has given numbers: it sends the bytes of each once, and its number from then on.

use super::asked::Head;
use crate::limits::{HEADS_MAX, NUMBERED_LEN_MAX};
use crate::record::Header;
use exos_iolite::{Error, Result};
use std::rc::Rc;

/// Those with numbers, from 1 on.
#[derive(Debug, Default)]
pub(super) struct Heads([Option<Rc<[u8]>>; HEADS_MAX]);

impl Heads {
    /// The head of a record with these bytes.
    ///
    /// # Errors
    ///
    /// It has a number that stands for none, or is too long for one.
    pub fn of(&mut self, header: &Header, bytes: &[u8]) -> Result<Head> {
        let length = header.is_sized.then_some(header.value);
        let place = usize::from(header.number).checked_sub(1);
        let Some(place) = place.and_then(|place| self.0.get_mut(place)) else {
            let (bytes, is_again) = (bytes.into(), false);
            return Ok(Head {
                bytes,
                is_again,
                length,
            });
        };
        if header.len as usize > NUMBERED_LEN_MAX {
            return Err(Error::PeerFault("it gives a long head a number"));
        }
        if header.len > 0 {
            *place = Some(bytes.into());
        }
        match place {
            Some(bytes) => Ok(Head {
                bytes: Rc::clone(bytes),
                is_again: header.len == 0,
                length,
            }),
            None => Err(Error::PeerFault("it names a head that it has not sent")),
        }
    }
}
