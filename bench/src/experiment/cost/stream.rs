//! A stream that our stack receives in memory: how fast, by what its program does with the data and what is known of checksums.

use super::exos::Exos;
use super::role::Role;
use super::scenario::{Family, Link, Scenario};
use super::tape::{self, Tape};

/// Bytes of data in a full segment: an MTU of 1500, and timestamps.
const SEGMENT_BYTES: usize = 1448;

/// Segments of a stream, recorded.
pub(crate) struct Stream(Tape);

impl Stream {
    /// This many segments, after some that warm up.
    pub fn record(segments: u64) -> Self {
        let mut sender = Exos::new(1, Role::ConnectingSource, Family::Ipv4, Link::Verified);
        let plan = Scenario::ReceiveBatch.plan(segments);
        Self(tape::record(
            &mut receiver(Link::Verified),
            &mut sender,
            &plan,
        ))
    }

    /// MB/s of data that a stack takes in, acknowledgements included, and a program looks at where the stack has it, or copies from there.
    pub fn received(&self, link: Link, is_copied: bool) -> f64 {
        let mut receiver = receiver(link);
        if is_copied {
            receiver = receiver.copying();
        }
        let took = self.0.replay(&mut receiver);
        let bytes = self.0.operations as usize * SEGMENT_BYTES;
        bytes as f64 / 1e6 / took.as_secs_f64()
    }
}

fn receiver(link: Link) -> Exos {
    Exos::new(0, Role::Sink, Family::Ipv4, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_takes_all_of_the_stream() {
        let stream = Stream::record(100);
        for (link, is_copied) in [(Link::Unknown, true), (Link::Verified, false)] {
            assert!(stream.received(link, is_copied) > 0.0);
        }
        let mut receiver = receiver(Link::Unknown).copying();
        stream.0.replay(&mut receiver);
        // The document goes on from byte to byte, and begins again.
        let copied = &receiver.copied()[..SEGMENT_BYTES];
        let goes_on = |pair: &&[u8]| pair[1] == (pair[0] + 1) % 251;
        assert!(copied.windows(2).filter(goes_on).count() >= SEGMENT_BYTES - 2);
    }
}
