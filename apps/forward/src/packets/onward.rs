//! The last step before a frame leaves: the link addresses of its next hop.

use exos::Passage;
use exos_inet::{Instant, RxChecksum, Stack};

use crate::forwarder::{Forwarder, Verdict};
use crate::packets::rewrite::finish;
use crate::program::links::Others;

/// Puts the link addresses on what goes on.
#[inline]
pub fn send_on(
    forwarder: &mut Forwarder,
    verdict: Verdict,
    stack: &mut Stack,
    now: Instant,
    frame: &mut [u8],
    checksum: RxChecksum,
) -> Passage {
    let to = match verdict {
        Verdict::Onward(to) => to,
        Verdict::Stack => return Passage::Stack,
        Verdict::Drop | Verdict::Generated | Verdict::Answered | Verdict::Held => {
            return Passage::Done;
        }
    };
    let Some(mac) = stack.link_address(now, to) else {
        // It waits as a copy, which is all that is known of it then.
        if checksum == RxChecksum::Partial && !finish(frame, stack.config().mtu) {
            forwarder.note_uncut();
            return Passage::Done;
        }
        forwarder.note_late();
        stack.pass(now, to, frame.to_vec());
        return Passage::Done;
    };
    frame[..6].copy_from_slice(&mac.0);
    frame[6..12].copy_from_slice(&stack.config().mac.0);
    Passage::Onward
}

/// Puts the link addresses on frames that were made, and says by which link each leaves; those to a neighbour who has to be
/// asked for wait with the stack. `own` is that of the link by which frames come now, and `others` are the links beside it.
#[inline(never)]
pub fn address_made(
    forwarder: &mut Forwarder,
    own: &mut Stack,
    others: &mut Others<'_>,
    now: Instant,
    made: &mut Vec<(usize, Vec<u8>)>,
) {
    while let Some((to, mut frame)) = forwarder.poll_made() {
        let link = forwarder.link_to(to);
        let stack = match others.get(link) {
            Some(other) => &mut other.stack,
            None => &mut *own,
        };
        let Some(mac) = stack.link_address(now, to) else {
            forwarder.note_late();
            stack.pass(now, to, frame);
            continue;
        };
        frame[..6].copy_from_slice(&mac.0);
        frame[6..12].copy_from_slice(&stack.config().mac.0);
        made.push((link, frame));
    }
}
