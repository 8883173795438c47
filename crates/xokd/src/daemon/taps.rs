//! Copies of packets for dump clients.
//!
//! A tap belongs to a connection and goes with it. It has one place, the same on all of its interfaces, and one ring
//! buffer, whose descriptor the client gets: with it the client can harm nobody's copies but its own. A client that
//! may see only its own programs' packets has that compiled into its programs, which are made anew when one of its
//! programs comes or goes.
//!
//! The descriptor can be kept, or passed on, when the tap has ended. Its memory goes on counting as a tap of the user's
//! until nobody has it: the ring's number in the kernel then leads nowhere ([`map_exists`]).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use exos_filter::Filter;
use exos_filter::gate;
use exos_filter::gate::limits::{SNAP_LEN_MAX, TAPS_MAX};
use exos_host::bpf::{Map, map_exists};
use exos_host::error::Context as _;
use exos_xok::message::{Answer, Refusal};
use serde_json::{Value, json};

use super::Daemon;
use super::requests::{Answered, Refused, refuse};
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
    filter: Filter,
    snap_len: u32,
    all: bool,
    ring: Map,
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

    /// How many interfaces copies are made anew on when a program of this user comes or goes.
    pub(super) fn made_anew_for(&self, uid: u32) -> u32 {
        let own = self
            .taps
            .values()
            .filter(|tap| !tap.all && tap.who.uid == uid);
        own.map(|tap| tap.interfaces.len() as u32).sum()
    }

    /// Looks anew how well the policy knows everybody, those included whose taps have ended.
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

/// Whether there may be one more tap of a user, and of all users of his standing, beside these.
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
    /// Begins to make copies.
    pub(super) fn tap(&mut self, id: ConnectionId, who: &Who, wanted: Wanted) -> Answered {
        let interfaces = self.tapped_interfaces(who, &wanted)?;
        let standing = self.standing(who);
        // First: who waits for room asks again and again.
        self.taps.check(who.uid, standing)?;
        self.count_filter(who)?;
        let filter = match wanted.filter.trim() {
            "" => Filter::everything(),
            text => Filter::parse(text).map_err(|e| refuse(Refusal::BadRequest, e))?,
        };
        let free = (0..TAPS_MAX).find(|at| self.taps.taps.values().all(|tap| tap.index != *at));
        let index = free.expect("there are as many places as there may be taps");
        let ring = Map::ringbuf("exos_tap", TAP_RING_BYTES)?;
        let fd = ring.as_fd().try_clone_to_owned();
        let fd = fd.context(|| "cannot pass the ring of packets")?;
        let ring_id = ring.id()?;
        self.taps.last += 1;
        let number = self.taps.last;
        let tap = Tap {
            connection: id,
            who: who.clone(),
            standing,
            index,
            interfaces,
            text: wanted.filter,
            filter,
            snap_len: wanted.snap.clamp(1, SNAP_LEN_MAX),
            all: wanted.all,
            ring,
            ring_id,
        };
        self.taps.taps.insert(number, tap);
        if let Err(error) = self.put_tap(number) {
            self.remove_tap(number);
            return Err(error);
        }
        Ok((Answer::Tapped { tap: number }, vec![fd.into()]))
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

    /// Puts a tap's programs on its interfaces, made for the programs that its user has now.
    fn put_tap(&mut self, number: u32) -> Result<(), Refused> {
        let tap = &self.taps.taps[&number];
        let slots = (!tap.all).then(|| self.slots_of(tap.who.uid));
        let programs = gate::Tap {
            index: tap.index,
            filter: tap.filter.clone(),
            slots,
            snap_len: tap.snap_len,
            ring_fd: tap.ring.as_fd().as_raw_fd(),
        };
        for interface in &mut self.interfaces {
            if tap.interfaces.contains(&interface.link.index) {
                interface.gate.put_tap(&programs)?;
            }
        }
        Ok(())
    }

    /// A user's slots, a bit for each.
    fn slots_of(&self, uid: u32) -> [u64; 4] {
        let mut slots = [0; 4];
        for record in self.seats.values().map(|seat| &seat.record) {
            if record.uid == uid {
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
                // What cannot be taken out goes on copying to whoever has the ring still, until another takes its place.
                let _ = interface.gate.take_tap(tap.index);
            }
        }
        self.taps.ended.push(Ended {
            who: tap.who,
            standing: tap.standing,
            ring: tap.ring_id,
        });
    }

    /// A program of this user came or went: what he may see is another. A slot's number is given away again, so that this
    /// is done before its next holder gets a packet.
    pub(super) fn retell_taps(&mut self, uid: u32) {
        let own = |(number, tap): (&u32, &Tap)| (!tap.all && tap.who.uid == uid).then_some(*number);
        let numbers: Vec<u32> = self.taps.taps.iter().filter_map(own).collect();
        for number in numbers {
            if self.put_tap(number).is_err() {
                // Rather no copies than copies of somebody else's packets.
                self.remove_tap(number);
            }
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
