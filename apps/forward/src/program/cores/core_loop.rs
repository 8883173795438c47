//! One core's turns: it takes in what its queues have, sends it on, and sees to what is due.
//!
//! Each frame is shown to the forwarder first, where it lies in the link's memory. One that goes on gets the link address
//! of its next hop and leaves from where it is; only while a neighbour is asked for is it copied, to wait.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use exos::{Error, Exos, Passage};
use exos_inet::Instant;
use exos_program::Idle;

use super::table::{Shared, Table, Turn};
use super::worker::{Asks, Row, Worker};
use crate::limits::{LAST_PAUSE, LAST_TURNS_MAX};
use crate::packets::onward::send_on;
use crate::program::busy_poll::BusyPoll;
use crate::program::links::Links;
use crate::program::seeking::Seeking;

/// A core that forwards.
pub struct CoreLoop {
    /// Its share of each link.
    pub links: Links,
    pub worker: Worker,
    busy_poll: BusyPoll,
    seeking: Seeking,
    /// Frames that the forwarder has made in this turn, each with the link by which it leaves.
    made: Vec<(usize, Vec<u8>)>,
    /// When something of the table is due, as far as this core knows: others see to what they have begun themselves.
    due: Option<Instant>,
    /// Of which routes of the links' stacks the forwarder has been told.
    routes: Vec<u64>,
    /// Frames are shown before they are handled.
    reads_ahead: bool,
    /// Turns in which another core had the table first.
    turns_waited: u64,
    /// For how long this one had it.
    table_time: Duration,
}

impl CoreLoop {
    /// A core that has these links.
    pub fn new(links: Links, idle: Idle, worker: Worker) -> Self {
        Self {
            links,
            worker,
            busy_poll: BusyPoll::new(idle),
            seeking: Seeking::default(),
            made: Vec::new(),
            due: Some(Instant::START),
            routes: Vec::new(),
            reads_ahead: false,
            turns_waited: 0,
            table_time: Duration::ZERO,
        }
    }

    /// Takes in what there is, sends it on, and sees to what is due. Where there is anything to do with the table, or it is the time
    /// `due`, `also` does what else is done with it. What is to leave does so with [`Links::send`].
    pub fn turn(
        &mut self,
        shared: &Shared,
        due: Option<Instant>,
        also: impl FnOnce(&mut Self, &mut Table),
    ) {
        let mut turn = shared.begin_turn();
        self.tell_routes(&mut turn);
        let count = self.forward(&mut turn);
        let now = self.links.now();
        self.busy_poll.note(now, count);
        let due = due.into_iter().chain(self.due).min();
        let is_due = due.is_some_and(|due| due <= now);
        if is_due || count > 0 || turn.is_held() {
            let table = turn.table();
            table.handle_timeout(now);
            also(self, table);
            self.done_with(table);
        }
        self.turns_waited += u64::from(turn.has_waited());
        self.table_time += turn.end();
    }

    /// The lock is given back after this.
    pub fn done_with(&mut self, table: &mut Table) {
        let now = self.links.now();
        table.tell_of_changes(now, &mut self.links);
        if let Some(kernel) = table.kernel.as_mut().filter(|_| !self.worker.is_first())
            && kernel.hand_neighbours_over()
        {
            self.worker.tell_first(Asks::NEIGHBOURS);
        }
        let due = [table.forwarder.poll_timeout(), self.seeking.poll_timeout()];
        self.due = due.into_iter().flatten().min();
        self.reads_ahead = table.forwarder.reads_ahead();
    }

    /// The next turn sees to what follows from a change.
    pub fn see_to_changes(&mut self) {
        self.due = Some(Instant::START);
    }

    /// Has the forwarder know where routes lead, where they have changed. The stacks of all cores have the same.
    fn tell_routes(&mut self, turn: &mut Turn<'_>) {
        let links = self.links.all().iter();
        let routes = links.map(|exos| exos.stack.routes().0);
        if !routes.clone().eq(self.routes.iter().copied()) {
            self.routes = routes.collect();
            self.links.tell_routes(&mut turn.table().forwarder);
        }
    }

    /// Takes in what there is, and sends it on; how many frames.
    fn forward(&mut self, turn: &mut Turn<'_>) -> usize {
        let links = 0..self.links.all().len();
        links.map(|link| self.forward_from(link, turn)).sum()
    }

    /// Takes in what there is on a link.
    fn forward_from(&mut self, link: usize, turn: &mut Turn<'_>) -> usize {
        let made = &mut self.made;
        let (exos, mut others) = self.links.apart(link);
        let mut has_begun = false;
        if self.reads_ahead {
            exos.look(|frame| {
                let forwarder = &mut turn.table().forwarder;
                if !std::mem::replace(&mut has_begun, true) {
                    forwarder.frames_come_by(link);
                }
                forwarder.look(frame);
            });
            if has_begun {
                turn.table().forwarder.read_ahead(exos.now());
            }
        }
        let count = exos.relay(|stack, now, frame, meta| {
            let table = turn.table();
            let time = table.time(now);
            let forwarder = &mut table.forwarder;
            if !std::mem::replace(&mut has_begun, true) {
                forwarder.frames_come_by(link);
                forwarder.read_ahead(time);
            }
            let verdict = forwarder.handle_frame(time, frame, meta.checksum);
            // What has waited for this frame goes behind it, also where both wait for a neighbour.
            let passage = match others.send_on(forwarder, verdict, now, (frame, meta)) {
                true => Passage::Done,
                false => send_on(forwarder, verdict, stack, now, (frame, meta)),
            };
            if forwarder.has_made() {
                others.address_made(forwarder, stack, now, made);
            }
            passage
        });
        for (link, frame) in self.made.drain(..) {
            self.links.all_mut()[link].transmit(&frame);
        }
        count
    }

    /// The last turns of a forwarder that hands over: what comes passes by from now on, and what came before goes on.
    ///
    /// # Errors
    ///
    /// An interface has gone.
    pub fn forward_the_last(&mut self, shared: &Shared) -> Result<(), Error> {
        for _ in 0..LAST_TURNS_MAX {
            // For what the driver has in its hands.
            std::thread::sleep(LAST_PAUSE);
            let mut turn = shared.begin_turn();
            let count = self.forward(&mut turn);
            if turn.is_held() {
                self.done_with(turn.table());
            }
            drop(turn);
            self.links.send()?;
            if count == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Asks where servers are that have come; those of which nobody has answered in time, once each.
    pub fn seek_servers(&mut self, table: &Table) -> Vec<IpAddr> {
        let (now, links) = (self.links.now(), &mut self.links);
        let mut find = |server| links.stack_to(server).link_address(now, server);
        let services = table.forwarder.services();
        self.seeking.turn(now, &mut find, services)
    }

    /// Until there is something to do, or something is due.
    ///
    /// # Errors
    ///
    /// The kernel does not let us wait.
    pub fn wait(&mut self, due: Option<Instant>, fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let mut fds = fds.to_vec();
        if self.worker.count() > 1 {
            fds.push(self.worker.fd());
        }
        if self.busy_poll.goes_on(self.links.now()) {
            return self.links.look_on(&fds);
        }
        let due = due.into_iter().chain(self.due).min();
        self.links.wait(due, &fds)
    }

    /// What it has counted.
    pub fn row(&self) -> Row {
        let links = self.links.all();
        let of = |exos: &Exos| (exos.link().name().to_owned(), exos.counters());
        let lost = links.iter().map(Exos::passed_lost).sum();
        let mut own = vec![("drop_take_over".to_owned(), lost)];
        if self.worker.count() > 1 {
            let table_micros = self.table_time.as_micros() as u64;
            own.push(("cores_turns_waited".to_owned(), self.turns_waited));
            own.push(("cores_table_micros".to_owned(), table_micros));
        }
        Row {
            core: self.worker.core(),
            links: links.iter().map(of).collect(),
            own,
        }
    }
}
