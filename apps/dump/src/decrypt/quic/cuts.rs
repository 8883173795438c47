//! Where packets with short headers end, of which no length is said (RFC 9000 §12.2): each goes on to the end of its datagram.
//!
//! What a kernel or a device is yet to cut into datagrams, or has put together of several (segmentation offload), is captured as one. All
//! have one length, but for the last. So ends are guessed, and the keys say which guess is right: by the length that was found last, by
//! identifiers and versions in what may follow, and where there are none by trying.

use exos_wire::quic::{VERSION_1, VERSION_2};

use super::names::ALONE_LEN;
use super::{CLIENT_INITIAL_LEN_MIN, LONG, SHORT_LEN_MIN};

/// The most bytes of a datagram on Ethernet, over IPv4: longer ones are likely to be several.
const DATAGRAM_LEN_MAX: usize = 1500 - 20 - 8;
/// Ends that are tried because of what follows.
const SEEN_MAX: usize = 4;
/// Packets of a side, one behind another, of which all ends are tried in vain before no more are: what others forge is not to cost much.
const SEARCHES_MAX: u8 = 8;

/// How what one side sends has been cut.
#[derive(Debug)]
pub(super) struct Cuts {
    datagram_len: Option<u16>,
    searches_left: u8,
}

impl Cuts {
    pub(super) fn new() -> Self {
        Self {
            datagram_len: None,
            searches_left: SEARCHES_MAX,
        }
    }

    /// The lengths that the first packet of these bytes may have, the likely ones first. It goes to `id`; `before` bytes of long headers' packets
    /// are in front of it.
    pub(super) fn lengths<'a>(
        &self,
        before: usize,
        bytes: &'a [u8],
        id: &'a [u8],
    ) -> impl Iterator<Item = usize> + use<'a> {
        let has_room = SHORT_LEN_MIN..bytes.len();
        let known = self.datagram_len.map(usize::from);
        let known = known.map(|len| len - before % len);
        let known = known.filter(|len| has_room.contains(len));
        let seen = has_room.filter(move |at| begins_packet(&bytes[*at..], id));
        // That of several first where it is likely.
        let (first, last) = match bytes.len() > DATAGRAM_LEN_MAX {
            true => (SEEN_MAX, 0),
            false => (0, SEEN_MAX),
        };
        let any = match self.is_searched(bytes, id) {
            true => SHORT_LEN_MIN..bytes.len().min(DATAGRAM_LEN_MAX + 1),
            false => 0..0,
        };
        known
            .into_iter()
            .chain(seen.clone().take(first))
            .chain([bytes.len()])
            .chain(seen.take(last))
            .chain(any.rev())
    }

    fn is_searched(&self, bytes: &[u8], id: &[u8]) -> bool {
        self.searches_left > 0 && id.len() < ALONE_LEN && bytes.len() > CLIENT_INITIAL_LEN_MIN
    }

    /// None of the lengths was right.
    pub(super) fn fail(&mut self, bytes: &[u8], id: &[u8]) {
        self.searches_left -= u8::from(self.is_searched(bytes, id));
    }

    /// The first packet of these bytes has this length.
    pub(super) fn find(&mut self, before: usize, bytes: &[u8], len: usize) {
        let end = before + len;
        let known = self.datagram_len.map_or(0, usize::from);
        if len < bytes.len() && (known == 0 || !end.is_multiple_of(known)) {
            self.datagram_len = u16::try_from(end).ok();
            // A search may have found it: its like is worth one more. What is found without is not, or forged packets between would cost more.
            self.searches_left = SEARCHES_MAX.min(self.searches_left + 1);
        }
    }
}

/// A packet to this identifier seems to begin here.
fn begins_packet(bytes: &[u8], id: &[u8]) -> bool {
    let Some((first, behind)) = bytes.split_first() else {
        return false;
    };
    if first & LONG == 0 {
        return id.len() >= ALONE_LEN && behind.starts_with(id);
    }
    let Some((version, [len, behind @ ..])) = behind.split_first_chunk() else {
        return false;
    };
    let is_known = matches!(u32::from_be_bytes(*version), VERSION_1 | VERSION_2);
    is_known && usize::from(*len) == id.len() && behind.starts_with(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(cuts: &Cuts, before: usize, bytes: &[u8], id: &[u8]) -> Vec<usize> {
        cuts.lengths(before, bytes, id).collect()
    }

    #[test]
    fn likely_lengths_come_first() {
        let id = b"12345678";
        let mut bytes = vec![0; 3000];
        for at in [0, 1000, 2000] {
            bytes[at + 1..][..8].copy_from_slice(id);
        }
        let mut cuts = Cuts::new();
        assert_eq!(lengths(&cuts, 0, &bytes, id), [1000, 2000, 3000]);
        assert_eq!(lengths(&cuts, 0, &bytes[..900], id), [900]);
        assert_eq!(lengths(&cuts, 0, &bytes[..1100], id), [1100, 1000]);
        // As it was before, also behind others in its datagram.
        cuts.find(200, &bytes, 800);
        assert_eq!(lengths(&cuts, 300, &bytes, id)[0], 700);
        assert_eq!(lengths(&cuts, 1300, &bytes, id)[0], 700);
        cuts.find(0, &bytes[..900], 900);
        assert_eq!(cuts.datagram_len, Some(1000), "the last one is shorter");
    }

    #[test]
    fn long_headers_are_seen_behind_short_ones() {
        let long = b"\xe5\0\0\0\x01\0\x04abcd";
        let bytes = [&[0x40; 500][..], long, &[0; 1200]].concat();
        let all = lengths(&Cuts::new(), 0, &bytes, b"");
        assert_eq!(all[..2], [500, bytes.len()]);
        assert_eq!(lengths(&Cuts::new(), 0, &bytes[..1000], b""), [1000, 500]);
    }

    /// Without identifiers all lengths are tried, but not in vain without end.
    #[test]
    fn searches_end() {
        let (mut cuts, bytes) = (Cuts::new(), [0x40; 5000]);
        let all = lengths(&cuts, 0, &bytes, b"");
        assert_eq!(all[0], 5000);
        assert!(
            all[1..]
                .iter()
                .copied()
                .eq((SHORT_LEN_MIN..=DATAGRAM_LEN_MAX).rev())
        );
        for _ in 0..2 * SEARCHES_MAX {
            cuts.fail(&bytes, b"");
        }
        assert_eq!(lengths(&cuts, 0, &bytes, b""), [5000]);
        cuts.find(0, &bytes, 1200);
        let all = lengths(&cuts, 0, &bytes, b"");
        assert_eq!(all[..3], [1200, 5000, DATAGRAM_LEN_MAX]);
        // Honest packets between those that others forge give no more searches.
        let mut searches = 0;
        for _ in 0..100 {
            searches += usize::from(lengths(&cuts, 0, &bytes, b"").len() > 2);
            cuts.fail(&bytes, b"");
            cuts.find(0, &bytes[..100], 100);
            cuts.find(0, &bytes, 1200);
        }
        assert_eq!(searches, 1);
        assert_eq!(lengths(&cuts, 0, &bytes, b"12345678"), [1200, 5000]);
    }
}
