//! Pieces that an application keeps, as buffers of ours: one that comes again is neither copied nor summed.
//!
//! A piece is known by pool, buffer, generation and place. One that is made of a buffer that was used again is of another generation, so
//! nothing that is remembered is taken for other bytes.

use crate::limits::{KEPT_COST, KEPT_LEN_MIN, KEPT_TOTAL_MAX, NUMBERED_PIECE_LEN_MAX, PIECES_MAX};
use crate::record::{Bytes, Piece};
use exos_buf::Buffer;
use exos_iolite::{Error, Identity, Result, Slice};
use std::collections::HashMap;

/// Pieces that are remembered. One without a number is forgotten when others of [`KEPT_TOTAL_MAX`] were asked for since it was, at the latest, and of
/// half as much at the earliest.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Those with numbers, from 1 on.
    numbered: [Option<exos_buf::Slice>; PIECES_MAX],
    /// Those that were asked for lately, and those before.
    young: HashMap<Identity, exos_buf::Slice>,
    old: HashMap<Identity, exos_buf::Slice>,
    young_len: usize,
    hits: u64,
}

impl Kept {
    /// The piece of a record that has a number, when it is whole: what has come of it before, since what is read is cut anywhere, is in `begun`.
    /// Where nobody wants it, only its number stands for it.
    ///
    /// # Errors
    ///
    /// The number stands for no piece, or for one that is too short or too long.
    pub fn numbered(
        &mut self,
        piece: &Piece<'_>,
        begun: &mut Vec<u8>,
        is_wanted: bool,
    ) -> Result<Option<exos_buf::Slice>> {
        let (header, len) = (&piece.header, piece.header.len as usize);
        let place = usize::from(header.number) - 1;
        if len == 0 {
            self.hits += 1;
            let known = self.numbered[place].clone();
            let unknown = Error::PeerFault("it names a piece that it has not sent");
            return known.map(Some).ok_or(unknown);
        }
        // A record without bytes that stands for few would cost more than the room that they take.
        if !(KEPT_LEN_MIN..=NUMBERED_PIECE_LEN_MAX).contains(&len) {
            let fault = "it gives a piece a number that is too short or too long for one";
            return Err(Error::PeerFault(fault));
        }
        let local = match &piece.bytes {
            Bytes::Passed(slice) if slice.len() == len => match is_wanted {
                true => self.local(slice),
                false => slice.to_local(),
            },
            part => {
                part.append_to(begun, len);
                if !piece.is_end {
                    return Ok(None);
                }
                Buffer::from(std::mem::take(begun)).into()
            }
        };
        self.numbered[place] = Some(local.clone());
        Ok(Some(local))
    }

    /// The bytes of a piece, in memory of ours.
    pub fn local(&mut self, slice: &Slice) -> exos_buf::Slice {
        match slice.identity() {
            Some(identity) => self.find(identity, slice),
            None => slice.to_local(),
        }
    }

    fn find(&mut self, identity: Identity, slice: &Slice) -> exos_buf::Slice {
        if let Some(known) = self.young.get(&identity) {
            self.hits += 1;
            return known.clone();
        }
        let local = match self.old.remove(&identity) {
            Some(known) => {
                self.hits += 1;
                known
            }
            None => slice.to_local(),
        };
        self.young_len += local.len() + KEPT_COST;
        self.young.insert(identity, local.clone());
        if self.young_len >= KEPT_TOTAL_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.young_len = 0;
        }
        local
    }

    /// How often a piece was known.
    pub fn hits(&self) -> u64 {
        self.hits
    }
}
