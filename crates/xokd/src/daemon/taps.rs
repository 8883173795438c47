//! Copies of packets for dump clients.
//!
//! A tap belongs to a connection and goes with it. It has one place, the same on all of its interfaces, and one ring
//! buffer, whose descriptor the client gets: with it the client can harm nobody's copies but its own.
//!
//! Its programs are compiled and verified beside the loop ([`super::work`]). A client that may see only its own programs'
//! packets has that compiled into them, so they are made again when one of its programs comes or goes. Until they are in
//! their places the old ones go on: a program that comes is told of its slot when it is copied, and a slot that somebody
//! else could have copied is not given to anybody ([`Taps::show`]).
//!
//! The descriptor can be kept, or passed on, when the tap has ended. Its memory goes on counting as a tap of the user's
//! until nobody has it: the ring's number in the kernel then leads nowhere ([`map_exists`]).

mod programs;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use exos_filter::Filter;
use exos_filter::gate::limits::{SNAP_LEN_MAX, TAPS_MAX};
use exos_host::bpf::{Map, map_exists};
use exos_xok::message::{Answer, Refusal};
use serde_json::{Value, json};

use super::Daemon;
use super::requests::{Answered, Asked, Refused, refuse};
use crate::ledger::SlotId;
use crate::limits::{TAP_RING_BYTES, TAPS, TAPS_PER_USER_MAX};
use crate::policy::{Dump, Standing, Who};
use crate::server::{Connection, ConnectionId, Cut};

/// The taps that there are, by number.
#[derive(Debug, Default)]
pub(super) struct Taps {
    taps: BTreeMap<u32, Tap>,
    last: u32,
    /// Of taps that have ended: rings that somebody may have still.
    ended: Vec<Ended>,
    arrivals: Vec<Arrival>,
}

/// A program whose copies are not made yet.
#[derive(Debug)]
struct Arrival {
    asked: Asked,
    slot: SlotId,
    fds: Vec<Rc<OwnedFd>>,
}

/// Slots, a bit for each.
type Slots = [u64; 4];

fn has(slots: &Slots, slot: SlotId) -> bool {
    slots[slot as usize / 64 % 4] >> (slot % 64) & 1 == 1
}

#[derive(Debug)]
struct Ended {
    who: Who,
    standing: Standing,
    /// The ring's number in the kernel.
    ring: u32,
}

#[derive(Debug)]
struct Tap {
    connection: ConnectionId,
    who: Who,
    standing: Standing,
    /// Its place in the gates.
    index: u32,
    /// The interfaces, by index.
    interfaces: Vec<u32>,
    text: String,
    /// What that says, when it has been read.
    filter: Option<Arc<Filter>>,
    snap_len: u32,
    all: bool,
    /// The slots that its programs copy, and that those copy that are being made.
    copied: Slots,
    making: Option<Slots>,
    ring: Arc<Map>,
    /// The ring's number in the kernel.
    ring_id: u32,
}

/// What a client asks for.
pub(super) struct Wanted {
    pub(super) interface: String,
    pub(super) filter: String,
    pub(super) snap: u32,
    pub(super) all: bool,
}

impl Taps {
    /// Whether packets are copied for a connection.
    pub(super) fn are_shown_to(&self, id: ConnectionId) -> bool {
        self.taps.values().any(|tap| tap.connection == id)
    }

    /// Whether anybody is shown the packets of a slot as one of their own.
    pub(super) fn show(&self, slot: SlotId) -> bool {
        let taps = self.taps.values();
        let mut slots = taps
            .flat_map(|tap| [Some(tap.copied), tap.making])
            .flatten();
        slots.any(|slots| has(&slots, slot))
    }

    /// Whether all copies that a user has of their own show a slot.
    pub(super) fn show_all_of(&self, uid: u32, slot: SlotId) -> bool {
        let own = |tap: &&Tap| !tap.all && tap.who.uid == uid;
        let mut own = self.taps.values().filter(own);
        own.all(|tap| has(&tap.copied, slot))
    }

    /// Keeps the answer to a program until its copies are made.
    pub(super) fn await_copies(&mut self, asked: Asked, slot: SlotId, fds: Vec<Rc<OwnedFd>>) {
        self.arrivals.push(Arrival { asked, slot, fds });
    }

    /// Looks again how well the policy knows everybody, those included whose taps have ended.
    pub(super) fn set_standings(&mut self, standing: impl Fn(&Who) -> Standing) {
        let living = self.taps.values_mut();
        let living = living.map(|tap| (&tap.who, &mut tap.standing));
        let ended = self.ended.iter_mut();
        let ended = ended.map(|ended| (&ended.who, &mut ended.standing));
        for (who, known) in living.chain(ended) {
            *known = standing(who);
        }
    }

    /// Whether somebody may have one more. What the kernel does not say of an ended one's ring is taken for kept.
    fn check(&mut self, uid: u32, standing: Standing) -> Result<(), Refused> {
        self.ended
            .retain(|ended| map_exists(ended.ring).unwrap_or(true));
        let living = self.taps.values().map(|tap| (tap.who.uid, tap.standing));
        let living: Vec<(u32, Standing)> = living.collect();
        has_room(&living, uid, standing).map_err(|text| refuse(Refusal::Limit, text))?;
        let ended = self.ended.iter();
        let ended = ended.map(|ended| (ended.who.uid, ended.standing));
        let all: Vec<(u32, Standing)> = living.iter().copied().chain(ended).collect();
        has_room(&all, uid, standing).map_err(|text| {
            let text = format!(
                "{text}; some have ended, and processes keep their rings: try again when these have ended too"
            );
            refuse(Refusal::Busy, text)
        })
    }
}

/// Whether there may be one more tap of a user, and of all users of their standing, beside these.
fn has_room(taps: &[(u32, Standing)], uid: u32, standing: Standing) -> Result<(), String> {
    let of_user = taps.iter().filter(|tap| tap.0 == uid).count();
    if of_user >= TAPS_PER_USER_MAX {
        return Err(format!(
            "there are as many copies made as may be: {TAPS_PER_USER_MAX} for a user; end another"
        ));
    }
    let taken = taps.iter().map(|tap| (tap.1, 1));
    TAPS.check(standing, "copies of packets", taken)
}

impl Daemon {
    /// Begins to make copies. The client is answered when they are made.
    pub(super) fn tap(&mut self, asked: Asked, who: &Who, wanted: Wanted) -> Result<(), Refused> {
        let interfaces = self.tapped_interfaces(who, &wanted)?;
        let standing = self.standing(who);
        // First: who waits for room asks again and again.
        self.taps.check(who.uid, standing)?;
        self.count_filter(who)?;
        let free = (0..TAPS_MAX).find(|at| self.taps.taps.values().all(|tap| tap.index != *at));
        let index = free.expect("there are as many places as there may be taps");
        let ring = Map::ringbuf("exos_tap", TAP_RING_BYTES)?;
        let ring_id = ring.id()?;
        self.taps.last += 1;
        let number = self.taps.last;
        let tap = Tap {
            connection: asked.connection,
            who: who.clone(),
            standing,
            index,
            interfaces,
            text: wanted.filter,
            filter: None,
            snap_len: wanted.snap.clamp(1, SNAP_LEN_MAX),
            all: wanted.all,
            copied: Slots::default(),
            making: None,
            ring: Arc::new(ring),
            ring_id,
        };
        self.taps.taps.insert(number, tap);
        self.make_tap(number, Some(asked));
        Ok(())
    }

    /// Which interfaces, if policy allows it.
    fn tapped_interfaces(&self, who: &Who, wanted: &Wanted) -> Result<Vec<u32>, Refused> {
        let named = |name: &str| wanted.interface.is_empty() || wanted.interface == name;
        let asked = self.interfaces.iter().filter(|i| named(&i.link.name));
        let needed = if wanted.all { Dump::All } else { Dump::Own };
        let mut allowed = Vec::new();
        let mut asked_any = false;
        for interface in asked {
            asked_any = true;
            if self.config.policy.dump(who, &interface.link.name) >= needed {
                allowed.push(interface.link.index);
            }
        }
        if !asked_any {
            let text = format!("no interface {} is served here", wanted.interface);
            return Err(refuse(Refusal::NotFound, text));
        }
        if allowed.is_empty() {
            let line = if wanted.all { "all" } else { "own" };
            let text = format!(
                "policy does not allow it; it needs a line dump = \"{line}\" for this user"
            );
            return Err(refuse(Refusal::NotAllowed, text));
        }
        Ok(allowed)
    }

    /// A user's slots, a bit for each.
    fn slots_of(&self, uid: u32) -> Slots {
        let mut slots = Slots::default();
        for record in self
            .attachments
            .values()
            .map(|attachment| &attachment.record)
        {
            if record.who.uid == uid {
                slots[record.slot as usize / 64 % 4] |= 1 << (record.slot % 64);
            }
        }
        slots
    }

    /// Ends a tap of this connection.
    pub(super) fn untap(&mut self, id: ConnectionId, number: u32) -> Answered {
        match self.taps.taps.get(&number) {
            Some(tap) if tap.connection == id => {
                self.remove_tap(number);
                self.answer_arrivals();
                Ok((Answer::Done, Vec::new()))
            }
            _ => Err(refuse(Refusal::NotFound, "there is no such tap")),
        }
    }

    /// Ends all taps of a connection that has closed.
    pub(super) fn forget_taps(&mut self, id: ConnectionId) {
        let of_connection = |(number, tap): (&u32, &Tap)| (tap.connection == id).then_some(*number);
        let numbers: Vec<u32> = self.taps.taps.iter().filter_map(of_connection).collect();
        for number in numbers {
            self.remove_tap(number);
        }
        self.taps
            .arrivals
            .retain(|arrival| arrival.asked.connection != id);
        self.answer_arrivals();
    }

    /// Ends the connections of those who look at what policy does not let them see any more: at once.
    pub(super) fn end_taps_not_allowed(&mut self) {
        let taps = self.taps.taps.values();
        let refused = taps
            .filter(|tap| !self.may_tap(tap))
            .map(|tap| tap.connection);
        for id in refused.collect::<Vec<_>>() {
            self.server.cut(id, Cut::NotAllowed);
        }
        self.forget_cut();
    }

    fn may_tap(&self, tap: &Tap) -> bool {
        let needed = if tap.all { Dump::All } else { Dump::Own };
        let connection = self.server.connection(tap.connection);
        let who = connection.map(Connection::who);
        let mut interfaces = tap
            .interfaces
            .iter()
            .filter_map(|index| self.interface(*index));
        let policy = &self.config.policy;
        who.is_some_and(|who| interfaces.all(|i| policy.dump(&who, &i.link.name) >= needed))
    }

    fn remove_tap(&mut self, number: u32) {
        let Some(tap) = self.taps.taps.remove(&number) else {
            return;
        };
        for interface in &mut self.interfaces {
            if tap.interfaces.contains(&interface.link.index) {
                // What cannot be taken out goes on copying to the one that has the ring still, until another takes its place.
                let _ = interface.gate.take_tap(tap.index);
            }
        }
        self.taps.ended.push(Ended {
            who: tap.who,
            standing: tap.standing,
            ring: tap.ring_id,
        });
    }

    /// A program of this user came or went: what they may see is another.
    pub(super) fn retell_taps(&mut self, uid: u32) {
        let own = |(number, tap): (&u32, &Tap)| (!tap.all && tap.who.uid == uid).then_some(*number);
        let numbers: Vec<u32> = self.taps.taps.iter().filter_map(own).collect();
        for number in numbers {
            self.make_outdated_tap(number);
        }
    }

    /// For the report.
    pub(super) fn report_taps(&self) -> Vec<Value> {
        let of = |(number, tap): (&u32, &Tap)| {
            let [copied, lost] = self.tap_counts(tap);
            json!({
                "tap": number,
                "uid": tap.who.uid,
                "filter": tap.text,
                "all": tap.all,
                "snap_len": tap.snap_len,
                "copied": copied,
                "lost": lost,
            })
        };
        self.taps.taps.iter().map(of).collect()
    }

    fn tap_counts(&self, tap: &Tap) -> [u64; 2] {
        let mut sum = [0; 2];
        for interface in &self.interfaces {
            if tap.interfaces.contains(&interface.link.index) {
                let counts = interface.gate.tap_counts(tap.index).unwrap_or_default();
                sum = [sum[0] + counts[0], sum[1] + counts[1]];
            }
        }
        sum
    }
}
