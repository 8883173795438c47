//! How much of a connection's requests waits for the server: their bodies come no faster than they are taken.

use crate::limits::{QUIC_WAITING_LEN_MAX, QUIC_WAITING_LEN_SHARE, RECEIVE_BUFFER_LEN};

/// What waits of all requests of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waiting {
    len: usize,
    /// Some was not read for want of room.
    holds: bool,
}

impl Waiting {
    /// How much more may come of a request of which so much waits. Where that is nothing, it is to be read again when
    /// [`taken`](Self::taken) says so.
    pub(super) fn room(&mut self, len: usize) -> usize {
        let most = match self.len < QUIC_WAITING_LEN_MAX {
            true => RECEIVE_BUFFER_LEN as usize,
            false => QUIC_WAITING_LEN_SHARE,
        };
        let room = most.saturating_sub(len);
        self.holds |= room == 0;
        room
    }

    /// So much has come.
    pub(super) fn came(&mut self, len: usize) {
        self.len += len;
    }

    /// The server has taken so much. True where requests are to be read again that were not for want of room.
    pub(super) fn taken(&mut self, len: usize) -> bool {
        self.left(len);
        std::mem::take(&mut self.holds)
    }

    /// So much does not wait any more, for its request is over. One that was not read has some that waits, and is read when that is taken.
    pub(super) fn left(&mut self, len: usize) {
        self.len -= len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::QUIC_STREAMS_MAX;

    /// However much comes on all streams, in pieces as large as there is room for, it waits up to a bound; and each has its share.
    #[test]
    fn what_waits_of_a_connection_is_bounded() {
        for first in [1, 100, 5000, RECEIVE_BUFFER_LEN as usize] {
            let mut waiting = Waiting::default();
            let mut streams = vec![0; QUIC_STREAMS_MAX as usize];
            for round in 0..200 {
                for len in &mut streams {
                    let room = waiting.room(*len);
                    let came = if round == 0 { room.min(first) } else { room };
                    *len += came;
                    waiting.came(came);
                }
            }
            let bound = QUIC_WAITING_LEN_MAX
                + RECEIVE_BUFFER_LEN as usize
                + streams.len() * QUIC_WAITING_LEN_SHARE;
            assert!(waiting.len <= bound, "{waiting:?}");
            assert!(streams.iter().all(|len| *len >= QUIC_WAITING_LEN_SHARE));
            // Those that were held are read again once.
            assert_eq!((waiting.taken(streams[0]), waiting.taken(0)), (true, false));
        }
    }
}
