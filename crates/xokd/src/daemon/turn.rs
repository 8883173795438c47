//! One turn of the daemon's loop.

use std::os::fd::BorrowedFd;

use exos_host::Error;
use exos_host::error::Result;
use exos_xok::message::Notice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Daemon;
use super::bounds::House;
use crate::clock::{Now, now};
use crate::limits::COUNTERS_EVERY;
use crate::server::{ConnectionId, Cut, Heard, Turn, User, goes_on};

/// Whose descriptor is ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Newcomer,
    Program(ConnectionId),
    Other,
}

impl Daemon {
    /// Waits for something to do, and does it. `signals` ends the wait too.
    pub fn turn(&mut self, signals: BorrowedFd<'_>) -> Result<()> {
        let ready = self.wait(signals)?;
        let now = now();
        if ready.contains(&Ready::Newcomer) {
            self.let_in();
        }
        self.hear_everybody(&ready);
        self.serve_worker();
        self.serve_interfaces(now)?;
        self.serve_host(now)?;
        self.end_what_is_due(now);
        self.count(now);
        self.serve_worker();
        self.removals.go_on();
        self.save_passed_on(now);
        self.tell_changes();
        Ok(())
    }

    /// Which descriptors are ready, or none when it is time.
    fn wait(&mut self, signals: BorrowedFd<'_>) -> Result<Vec<Ready>> {
        let now = now();
        let timeout = self.next_deadline(now).saturating_sub(now);
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut whose = Vec::new();
        let mut fds = vec![
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
            PollFd::new(&self.host, PollFlags::IN),
            PollFd::new(&self.worker, PollFlags::IN),
            PollFd::new(&self.removals, PollFlags::IN),
        ];
        for interface in &self.interfaces {
            let link = interface.neighbours.responder_ref().and_then(|r| r.fd());
            fds.extend(link.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        whose.resize(fds.len(), Ready::Other);
        for (id, fd, flags) in self.server.interest(now) {
            whose.push(id.map_or(Ready::Newcomer, Ready::Program));
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Error::io("cannot wait for something to do", e)),
        }
        let ready = whose.into_iter().zip(&fds);
        let mut ready: Vec<Ready> = ready
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(whose, _)| whose)
            .collect();
        ready.dedup(); // A connection and its process are one.
        Ok(ready)
    }

    fn next_deadline(&mut self, now: Now) -> Now {
        let mut next = self.counted + COUNTERS_EVERY;
        next = self.saves_at().map_or(next, |at| next.min(at));
        next = self.renewals.values().copied().fold(next, Now::min);
        next = self.ledger.awaited_until().map_or(next, |at| next.min(at));
        for attachment in self.attachments.values() {
            let due = attachment.revoked.deadline().into_iter();
            next = due.chain(attachment.ends).fold(next, Now::min);
        }
        for interface in &mut self.interfaces {
            let responder = interface.neighbours.responder();
            next = next.min(responder.and_then(|r| r.poll_timeout(now)).unwrap_or(next));
        }
        next
    }

    fn let_in(&mut self) {
        let house = House {
            policy: &self.config.policy,
            attachments: &self.attachments,
            taps: &self.taps,
        };
        self.server.accept(now, &house);
    }

    /// Hears who has something to say, each user as long as their turn lasts, and those of a standing together.
    fn hear_everybody(&mut self, ready: &[Ready]) {
        let user = |ready: &Ready| match *ready {
            Ready::Program(id) => {
                let connection = self.server.connection(id)?;
                Some((connection.user(), id))
            }
            _ => None,
        };
        let order = self.turns.order(ready.iter().filter_map(user));
        for alike in order.chunk_by(|(one, _), (next, _)| one.0 == next.0) {
            let begun = now();
            for (user, ids) in alike {
                self.hear_user(*user, ids);
                if !goes_on(user.0, begun, now()) {
                    break;
                }
            }
        }
    }

    /// Hears a user as long as their turn lasts.
    fn hear_user(&mut self, user: User, ids: &[ConnectionId]) {
        let mut turn = Turn::begin(now());
        for id in ids {
            self.turns.heard(user, *id);
            if !self.hear(*id, &mut turn) {
                break;
            }
        }
    }

    /// Hears one connection until it says nothing more; false when its user's turn is over before. What is not heard
    /// then stays in the socket, which is ready again when the others have been heard.
    fn hear(&mut self, id: ConnectionId, turn: &mut Turn) -> bool {
        self.server.end_with_process(id);
        self.server.flush(id);
        loop {
            let heard = self.server.receive(id, now());
            let more = heard.is_some();
            if let Some(Heard::Request(tag, request)) = heard {
                self.handle(id, tag, request);
            }
            self.forget_cut();
            let goes_on = turn.goes_on(now());
            if !more || !goes_on {
                return goes_on;
            }
        }
    }

    /// Connections that ended, and wherever it was noticed: while they were heard, answered or told something.
    pub(super) fn forget_cut(&mut self) {
        for id in self.server.take_ended() {
            self.forget(id);
        }
    }

    /// The connection is gone: so is what it held.
    fn forget(&mut self, id: ConnectionId) {
        self.forget_taps(id);
        if let Some(slot) = self.slot_of(id) {
            self.remove_slot(slot);
        }
    }

    fn serve_interfaces(&mut self, now: Now) -> Result<()> {
        for interface in &mut self.interfaces {
            let Some(responder) = interface.neighbours.responder() else {
                continue;
            };
            responder.serve(now)?;
            let (known, gone) = responder.news(now);
            let index = interface.link.index;
            for neighbour in known {
                self.tables.set_neighbour(&neighbour);
            }
            for ip in gone {
                self.tables.remove_neighbour(index, ip);
            }
        }
        Ok(())
    }

    /// What the host says of its neighbours, addresses and routes, where they are shared.
    pub(super) fn serve_host(&mut self, now: Now) -> Result<()> {
        let interfaces = &self.interfaces;
        self.host
            .serve(now, &self.netlink, interfaces, &mut self.tables)
    }

    fn end_what_is_due(&mut self, now: Now) {
        for id in self.server.silent(now) {
            self.server.cut(id, Cut::Silent);
        }
        self.forget_cut();
        self.renew_due_filters(now);
        self.take_revoked(now);
        self.end_awaited(now);
        // One in a turn: others may have come back meanwhile.
        let due = |end: Option<Now>| end.is_some_and(|end| end <= now);
        let first = self
            .attachments
            .iter()
            .find(|(_, attachment)| due(attachment.ends));
        if let Some(slot) = first.map(|(slot, _)| *slot) {
            self.remove_slot(slot);
        }
    }

    fn count(&mut self, now: Now) {
        if now < self.counted + COUNTERS_EVERY {
            return;
        }
        self.counted = now;
        self.leftovers.sweep(&self.netlink);
        self.sweep_handler_memory();
        self.removals.retry(now);
        for interface in &mut self.interfaces {
            interface.gate.look_at_device();
        }
        for slot in self.attachments.keys().copied().collect::<Vec<_>>() {
            self.write_slot(slot);
        }
    }

    fn tell_changes(&mut self) {
        let Some(generation) = self.tables.publish() else {
            return;
        };
        let notice = Notice::Changed { generation }.encode();
        let attached: Vec<_> = self
            .attachments
            .values()
            .filter_map(|s| s.connection)
            .collect();
        for id in attached {
            self.server.mention(id, &notice);
        }
    }
}
