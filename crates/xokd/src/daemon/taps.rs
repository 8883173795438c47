//! Copies of packets for dump clients.
//!
//! A tap belongs to a connection and goes with it. It has one place, the same on all of its interfaces, and one ring
//! buffer, whose descriptor the client gets: with it the client can harm nobody's copies but its own. A client that
//! may see only its own programs' packets has that compiled into its programs, which are made anew when one of its
//! programs comes or goes.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use exos_filter::Filter;
use exos_filter::gate;
use exos_filter::gate::limits::{SNAP_LEN_MAX, TAPS_MAX};
use exos_host::bpf::Map;
use exos_host::error::Context as _;
use exos_xok::message::{Answer, Refusal};
use serde_json::{Value, json};

use super::Daemon;
use super::requests::{Answered, Refused, refuse};
use crate::limits::{TAP_RING_BYTES, TAPS, TAPS_PER_USER_MAX};
use crate::policy::{Dump, Who};
use crate::server::{Connection, ConnectionId, Cut};

/// The taps that there are, by number.
#[derive(Debug, Default)]
pub(super) struct Taps {
    taps: BTreeMap<u32, Tap>,
    last: u32,
}

#[derive(Debug)]
struct Tap {
    connection: ConnectionId,
    uid: u32,
    /// Its place in the gates.
    index: u32,
    /// The interfaces, by index.
    interfaces: Vec<u32>,
    text: String,
    filter: Filter,
    snap_len: u32,
    all: bool,
    ring: Map,
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
}

impl Daemon {
    /// Begins to make copies.
    pub(super) fn tap(&mut self, id: ConnectionId, who: &Who, wanted: Wanted) -> Answered {
        let interfaces = self.tapped_interfaces(who, &wanted)?;
        self.count_filter(who.uid)?;
        let filter = match wanted.filter.trim() {
            "" => Filter::everything(),
            text => Filter::parse(text).map_err(|e| refuse(Refusal::BadRequest, e))?,
        };
        let of_user = self
            .taps
            .taps
            .values()
            .filter(|tap| tap.uid == who.uid)
            .count();
        let free = (0..TAPS_MAX).find(|at| self.taps.taps.values().all(|tap| tap.index != *at));
        if of_user >= TAPS_PER_USER_MAX {
            let text = format!(
                "there are as many copies made as may be: {TAPS_PER_USER_MAX} for a user; end another"
            );
            return Err(refuse(Refusal::Limit, text));
        }
        let taken = self.taps.taps.values();
        let taken = taken.filter_map(|tap| self.server.connection(tap.connection));
        let taken = taken.map(|connection| (connection.standing, 1));
        let room = TAPS.check(self.standing(who), "copies of packets", taken);
        room.map_err(|text| refuse(Refusal::Limit, text))?;
        let index = free.expect("there are as many places as there may be taps");
        let ring = Map::ringbuf("exos_tap", TAP_RING_BYTES)?;
        let fd = ring.as_fd().try_clone_to_owned();
        let fd = fd.context(|| "cannot pass the ring of packets")?;
        self.taps.last += 1;
        let number = self.taps.last;
        let tap = Tap {
            connection: id,
            uid: who.uid,
            index,
            interfaces,
            text: wanted.filter,
            filter,
            snap_len: wanted.snap.clamp(1, SNAP_LEN_MAX),
            all: wanted.all,
            ring,
        };
        self.taps.taps.insert(number, tap);
        if let Err(error) = self.put_tap(number) {
            self.remove_tap(number);
            return Err(error);
        }
        Ok((Answer::Tapped { tap: number }, vec![fd]))
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
        let slots = (!tap.all).then(|| self.slots_of(tap.uid));
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
                // What cannot be taken out copies into a ring that nobody reads.
                let _ = interface.gate.take_tap(tap.index);
            }
        }
    }

    /// A program of this user came or went: what he may see is another. A slot's number is given away again, so that this
    /// is done before its next holder gets a packet.
    pub(super) fn retell_taps(&mut self, uid: u32) {
        let own = |(number, tap): (&u32, &Tap)| (!tap.all && tap.uid == uid).then_some(*number);
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
                "uid": tap.uid,
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
