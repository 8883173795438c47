//! The links of a forwarder that runs, each with a stack of its own, and frames that go from one to another.
//!
//! A frame leaves by the link whose route to its next host matches best. Where that is the one that it came by it leaves from
//! where it lies; otherwise it is copied, once, into the other link's memory.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use exos::{Error, Exos, RxMeta};
use exos_inet::{Instant, Stack};
use exos_wire::{Mac, ethernet};

use crate::forwarder::{Forwarder, Verdict, link_to};
use crate::packets::onward::{undone, wait};

/// What a frame may be longer than its packet: an Ethernet header, and a tag of no VLAN.
const AROUND_PACKET: usize = ethernet::LEN + 4;

/// Links, one at least, each by its place.
pub struct Links(Vec<Exos>);

impl Links {
    /// These links.
    ///
    /// # Panics
    ///
    /// Without any.
    pub fn new(all: Vec<Exos>) -> Self {
        assert!(!all.is_empty(), "a forwarder without a link");
        Self(all)
    }

    /// All of them.
    pub fn all(&self) -> &[Exos] {
        &self.0
    }

    /// All of them, to be used.
    pub fn all_mut(&mut self) -> &mut [Exos] {
        &mut self.0
    }

    /// The first. Where the daemon lends it, it lends all.
    pub fn first_mut(&mut self) -> &mut Exos {
        &mut self.0[0]
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        // In a turn the last one is asked last.
        self.0[self.0.len() - 1].now()
    }

    /// Their stacks.
    pub fn stacks(&self) -> Vec<&Stack> {
        self.0.iter().map(|exos| &exos.stack).collect()
    }

    /// Their stacks, to be used.
    pub fn stacks_mut(&mut self) -> Vec<&mut Stack> {
        self.0.iter_mut().map(|exos| &mut exos.stack).collect()
    }

    /// The place of the link by which packets to this host leave.
    pub fn place_to(&self, host: IpAddr) -> usize {
        link_to(self.0.iter().map(|exos| exos.stack.routes().1), host)
    }

    /// The stack of the link by which packets to this host leave.
    pub fn stack_to(&mut self, host: IpAddr) -> &mut Stack {
        let place = self.place_to(host);
        &mut self.0[place].stack
    }

    /// Their link addresses, and how long packets may be there.
    pub fn facts(&self) -> Vec<(Mac, usize)> {
        let facts = |exos: &Exos| (exos.stack.config().mac, exos.stack.config().mtu);
        self.0.iter().map(facts).collect()
    }

    /// Has the forwarder know where their routes lead.
    pub fn tell_routes(&self, forwarder: &mut Forwarder) {
        for (place, exos) in self.0.iter().enumerate() {
            let (generation, routes) = exos.stack.routes();
            forwarder.set_routes(place, generation, routes);
        }
    }

    /// One, and the others beside it.
    pub fn apart(&mut self, place: usize) -> (&mut Exos, Others<'_>) {
        let (before, rest) = self.0.split_at_mut(place);
        let (one, after) = rest.split_first_mut().expect("a link's place");
        (one, Others { before, after })
    }

    /// Sends what there is to send.
    ///
    /// # Errors
    ///
    /// An interface has gone.
    pub fn send(&mut self) -> Result<(), Error> {
        self.0.iter_mut().try_for_each(|exos| exos.send().map(drop))
    }

    /// Waits for packets of any, as [`Exos::wait`] does.
    ///
    /// # Errors
    ///
    /// As those of `Exos::wait`.
    pub fn wait(&mut self, until: Option<Instant>, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        Exos::wait_for_any(&mut self.0, until, fds)
    }

    /// Looks for packets of any again, as [`Exos::look_on`] does.
    ///
    /// # Errors
    ///
    /// As those of `Exos::look_on`.
    pub fn look_on(&mut self, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        Exos::look_on_any(&mut self.0, None, fds)
    }
}

/// The links beside one of which the frames are handled now.
pub struct Others<'a> {
    before: &'a mut [Exos],
    after: &'a mut [Exos],
}

impl Others<'_> {
    /// That of this place; `None` for the one beside which they are.
    pub fn get(&mut self, place: usize) -> Option<&mut Exos> {
        match place.checked_sub(self.before.len()) {
            None => self.before.get_mut(place),
            Some(0) => None,
            Some(after) => self.after.get_mut(after - 1),
        }
    }

    /// Sends a frame on by one of these, where that leads to its next host; false where it stays with its own link.
    #[inline]
    pub fn send_on(
        &mut self,
        forwarder: &mut Forwarder,
        verdict: Verdict,
        now: Instant,
        (frame, meta): (&mut [u8], RxMeta),
    ) -> bool {
        if self.before.is_empty() && self.after.is_empty() {
            return false;
        }
        let Verdict::Onward(to) = verdict else {
            return false;
        };
        let Some(exos) = self.get(forwarder.link_to(to)) else {
            return false;
        };
        let (stack, len) = (&mut exos.stack, frame.len());
        let Some(mac) = stack.link_address(now, to) else {
            wait(forwarder, stack, now, to, (frame, meta));
            return true;
        };
        // The packet fits, or stands for several that do: what is beyond it is padding of the link that it came by.
        let len = match meta.gso_size {
            Some(_) => len,
            None => len.min(stack.config().mtu + AROUND_PACKET),
        };
        let frame = &mut frame[..len];
        let Some(undone) = undone(frame, meta) else {
            forwarder.note_uncut();
            return true;
        };
        frame[..6].copy_from_slice(&mac.0);
        frame[6..12].copy_from_slice(&stack.config().mac.0);
        exos.transmit_undone(frame, undone);
        true
    }

    /// Puts the link addresses on frames that were made, and says by which link each leaves; those to a neighbour who has to be
    /// asked for wait with the stack. `own` is that of the link by which frames come now.
    #[inline(never)]
    pub fn address_made(
        &mut self,
        forwarder: &mut Forwarder,
        own: &mut Stack,
        now: Instant,
        made: &mut Vec<(usize, Vec<u8>)>,
    ) {
        while let Some((to, mut frame)) = forwarder.poll_made() {
            let link = forwarder.link_to(to);
            let stack = match self.get(link) {
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
}
