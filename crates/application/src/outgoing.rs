//! Records on their way into a pipe: headers and short bytes are put together in a draft, long bytes go by reference.

use crate::limits::{
    DRAFT_LEN, GATHERED_LEN_MAX, KEPT_LEN_MIN, NUMBERED_PIECE_LEN_MAX, PIECES_MAX,
};
use crate::record::Header;
use exos_iolite::limits::INLINE_LEN_MAX;
use exos_iolite::{Aggregate, Error, Identity, Pool, Result, Sender, Slice};

/// What a side has to say.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pool: Pool,
    /// Behind what is in `ready`.
    bytes: Vec<u8>,
    ready: Aggregate,
    /// Pieces that are kept and were sent with numbers, from 1 on: one for each place of such.
    pieces: [Option<Identity>; PIECES_MAX],
    /// No buffer was left for what is in front.
    is_short: bool,
}

impl Outgoing {
    pub fn new(pool: Pool) -> Self {
        Self {
            pool,
            bytes: Vec::new(),
            ready: Aggregate::new(),
            pieces: [None; PIECES_MAX],
            is_short: false,
        }
    }

    /// All was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.ready.is_empty()
    }

    /// Bytes that were not written.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.ready.len()
    }

    /// A record whose bytes, one part behind the other, are copied.
    pub fn push(&mut self, header: Header, parts: &[&[u8]]) {
        self.bytes.extend_from_slice(&header.bytes());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        if self.bytes.len() >= DRAFT_LEN {
            self.seal();
        }
    }

    /// A record whose bytes go by reference, unless they are few and not kept, or a piece that was sent with a number.
    pub fn pass(&mut self, mut header: Header, bytes: Aggregate) {
        if !header.is_kept && bytes.len() < GATHERED_LEN_MAX {
            return self.push(header, &[&bytes.to_vec()]);
        }
        let may_have_number =
            header.is_kept && (KEPT_LEN_MIN..=NUMBERED_PIECE_LEN_MAX).contains(&bytes.len());
        let whole = bytes
            .first()
            .filter(|it| may_have_number && it.len() == bytes.len());
        if let Some(piece) = whole.and_then(Slice::identity) {
            let place = piece.place() % PIECES_MAX;
            header = header.of_piece(place as u16 + 1);
            if self.pieces[place] == Some(piece) {
                return self.push(Header { len: 0, ..header }, &[]);
            }
            self.pieces[place] = Some(piece);
        }
        self.bytes.extend_from_slice(&header.bytes());
        self.seal();
        self.ready.concatenate(bytes);
    }

    /// What was put together goes.
    fn seal(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        if let Some(few) = Slice::of_few(&self.bytes) {
            self.ready.append(few);
        } else {
            match self.pool.copy(&self.bytes) {
                Ok(copy) => self.ready.concatenate(copy),
                // No buffer is left: heads go all the same, in the pipe's own memory.
                Err(_) => {
                    let few = self.bytes.chunks(INLINE_LEN_MAX);
                    let few = few.filter_map(Slice::of_few);
                    few.for_each(|few| self.ready.append(few));
                }
            }
        }
        // What follows is as long, so its memory stays; a body's is not kept.
        self.bytes.clear();
        self.bytes.shrink_to(2 * DRAFT_LEN);
    }

    /// Writes as much as there is room for; how many bytes that were. It is not an error where no buffer is left: that passes.
    pub fn write(&mut self, sender: &mut Sender) -> Result<usize> {
        self.seal();
        self.is_short = false;
        if self.ready.is_empty() {
            return Ok(0);
        }
        match sender.write(&mut self.ready) {
            Err(Error::Exhausted { .. } | Error::ShareExceeded { .. }) => {
                self.is_short = true;
                Ok(0)
            }
            written => written,
        }
    }

    /// Nothing was written though the pipe had room, since buffers are missing: nobody tells when there are some.
    pub fn is_short(&self) -> bool {
        self.is_short
    }
}
