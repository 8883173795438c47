//! For programs that forward packets: they look at each frame first, change it, and say what becomes of it.

use exos_host::error::{Error, ErrorKind};
use exos_host::ethtool::STOP_MERGING;
use exos_host::passing::Passing;
use exos_inet::{Instant, RxChecksum, Stack};
use exos_link::{Link, Merging, Relay, RxMeta, TxMeta};

use crate::early::Early;
use crate::node::{Exos, RELAY_FRAMES};
use crate::watch::Direction;

/// What becomes of a frame that a program has looked at ([`Exos::relay`]).
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Passage {
    /// It leaves by the link as it is now.
    Onward,
    /// It is for the stack.
    Stack,
    /// It is done with.
    Done,
}

impl Exos {
    /// Whether packets can be sent on one by one, as they come.
    ///
    /// # Errors
    ///
    /// The interface's device merges packets, and cannot be told to stop: those are longer than the interface sends.
    pub fn check_relaying(&self) -> Result<(), Error> {
        match &self.link {
            Link::Xdp(link) if link.merging() != Merging::No => Err(Error::new(format!(
                "the device of {} merges packets, and cannot be told to stop: they cannot be sent on as they come",
                link.name()
            ))
            .mend(STOP_MERGING)
            .of_kind(ErrorKind::Unsupported)),
            _ => Ok(()),
        }
    }

    /// Takes in what has passed to the host and was for us.
    pub(crate) fn take_passed(&mut self, mut passing: Passing) -> Result<(), Error> {
        // What comes from now on the link brings, and what is there has an end.
        passing.stop()?;
        // What is longer, a kernel has put together of several: it is sent again.
        let mut frame = vec![0; exos_wire::ethernet::LEN + self.stack.config().mtu];
        let is_ours = |frame: &[u8]| {
            self.kept
                .rules
                .iter()
                .any(|rule| rule.filter.matches(frame))
        };
        let mut passed = Vec::new();
        while let Some(frame) = passing.next(&mut frame) {
            if is_ours(frame) {
                passed.push(frame.to_vec());
            }
        }
        self.early = Early {
            frames: passed,
            lost: passing.take_lost(),
        };
        Ok(())
    }

    /// Frames that came for us before the link was there and are lost: there was no room to keep them, or they were too long.
    pub fn passed_lost(&self) -> u64 {
        self.early.lost
    }

    /// Shows the frames that the next [`relay`](Self::relay) takes in first, for a program that does for all of them at once
    /// what can be done before. There may be more by then; a link that cannot show any shows none.
    pub fn look(&mut self, mut each: impl FnMut(&[u8])) {
        self.link.look(RELAY_FRAMES as u32, &mut each);
    }

    /// [`receive`](Self::receive) for a program that forwards packets itself: `take` sees each frame first, may change it, and says
    /// what becomes of it. What is to leave is queued at once, and leaves with [`send`](Self::send). On several cores what is for the
    /// stack is for whichever stack knows it, as with `receive`; `take` sees each frame once, on the core that it came to.
    ///
    /// Not for a program that has requests answered in the kernel ([`answer_requests_in_kernel`](Exos::answer_requests_in_kernel)): before each
    /// frame `receive` has the stack take on what was handed up, and take in what came in fragments, which is lost here.
    pub fn relay(
        &mut self,
        mut take: impl FnMut(&mut Stack, Instant, &mut [u8], RxMeta) -> Passage,
    ) -> usize {
        let now = self.begin_turn();
        let stack = &mut self.stack;
        let mut handoff = self.handoff.as_mut();
        let mut count = match &mut handoff {
            Some(handoff) => handoff.receive(stack, now, |_| {}),
            None => 0,
        };
        let mut offer = self.offer.as_mut().filter(|offer| offer.is_watched());
        let mut show = |direction, frame: &[u8]| {
            if let Some(offer) = &mut offer {
                offer.copy(direction, frame, &[]);
            }
        };
        let mut for_stack = |stack: &mut Stack, frame: &[u8], checksum| match &mut handoff {
            None => stack.handle_frame(now, frame, checksum),
            Some(handoff) => handoff.take_in(stack, now, frame, checksum),
        };
        count += self.early.frames.len();
        for mut frame in std::mem::take(&mut self.early.frames) {
            show(Direction::In, &frame);
            // A host on a virtual link may have left its checksum unfinished.
            let meta = RxMeta {
                checksum: RxChecksum::MaybePartial,
                ..RxMeta::default()
            };
            match take(stack, now, &mut frame, meta) {
                Passage::Onward => {
                    self.link.transmit(&frame, &[], TxMeta::default());
                }
                Passage::Stack => for_stack(stack, &frame, meta.checksum),
                Passage::Done => {}
            }
        }
        let most = count + RELAY_FRAMES;
        while count < most {
            let batch = self.link.relay(|frame, meta| {
                show(Direction::In, frame);
                match take(stack, now, frame, meta) {
                    Passage::Onward => {
                        show(Direction::Out, frame);
                        return Relay::Onward;
                    }
                    Passage::Stack => for_stack(stack, frame, meta.checksum),
                    Passage::Done => {}
                }
                Relay::Done
            });
            count += batch;
            if batch < exos_link::RX_BATCH_MIN as usize {
                break;
            }
        }
        self.stack.handle_timeout(now);
        self.worked = count > 0;
        count
    }

    /// Queues a complete frame of the program's own; one for which the link has no room it counts.
    pub fn transmit(&mut self, frame: &[u8]) {
        self.transmit_undone(frame, TxMeta::default());
    }

    /// [`transmit`](Self::transmit) of a frame that came by another link, with what was left undone there. The link has to be of the
    /// same kind.
    pub fn transmit_undone(&mut self, frame: &[u8], meta: TxMeta) {
        let queued = self.link.transmit(frame, &[], meta);
        let offer = self.offer.as_mut().filter(|offer| offer.is_watched());
        if let Some(offer) = offer.filter(|_| queued) {
            offer.copy(Direction::Out, frame, &[]);
        }
    }
}
