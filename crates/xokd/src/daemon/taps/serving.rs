//! Beginning and ending taps, and what policy says of them.

use std::sync::Arc;

use exos_filter::gate::SlotSet;
use exos_filter::gate::limits::{SNAP_LEN_MAX, TAPS_MAX};
use exos_host::bpf::Map;
use exos_xok::message::{Answer, Refusal};
use serde_json::{Value, json};

use super::state::{Ended, Tap};
use crate::daemon::Daemon;
use crate::daemon::answers::{Answered, Refused, RequestId, refuse};
use crate::limits::TAP_RING_BYTES;
use crate::policy::{Dump, Who};
use crate::server::{Connection, ConnectionId, Cut};

/// What a client asks for.
pub(in crate::daemon) struct Wanted {
    pub(in crate::daemon) interface: String,
    pub(in crate::daemon) filter: String,
    pub(in crate::daemon) snap: u32,
    pub(in crate::daemon) all: bool,
}

impl Daemon {
    /// Begins to make copies. The client is answered when they are made.
    pub(in crate::daemon) fn tap(
        &mut self,
        request_id: RequestId,
        who: &Who,
        wanted: Wanted,
    ) -> Result<(), Refused> {
        let interfaces = self.tapped_interfaces(who, &wanted)?;
        let standing = self.standing(who);
        // First: who waits for room asks again and again.
        self.taps.check(who.uid, standing)?;
        self.rates.count_filter((standing, who.uid))?;
        let free = (0..TAPS_MAX).find(|at| self.taps.taps.values().all(|tap| tap.index != *at));
        let index = free.expect("there are as many places as there may be taps");
        let ring = Map::ringbuf("exos_tap", TAP_RING_BYTES)?;
        let ring_id = ring.id()?;
        self.taps.last += 1;
        let number = self.taps.last;
        let tap = Tap {
            connection: request_id.connection,
            who: who.clone(),
            standing,
            index,
            interfaces,
            text: wanted.filter,
            filter: None,
            snap_len: wanted.snap.clamp(1, SNAP_LEN_MAX),
            all: wanted.all,
            copied: SlotSet::default(),
            making: None,
            ring: Arc::new(ring),
            ring_id,
        };
        self.taps.taps.insert(number, tap);
        self.make_tap(number, Some(request_id));
        Ok(())
    }

    /// Which interfaces, if policy allows it.
    fn tapped_interfaces(&self, who: &Who, wanted: &Wanted) -> Result<Vec<u32>, Refused> {
        let named = |name: &str| wanted.interface.is_empty() || wanted.interface == name;
        let request_id = self.interfaces.iter().filter(|i| named(&i.link.name));
        let needed = if wanted.all { Dump::All } else { Dump::Own };
        let mut allowed = Vec::new();
        let mut asked_any = false;
        for interface in request_id {
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
    pub(super) fn slots_of(&self, uid: u32) -> SlotSet {
        let records = self.attachments.values().map(|a| &a.record);
        let own = records.filter(|record| record.who.uid == uid);
        own.map(|record| record.slot).collect()
    }

    /// Ends a tap of this connection.
    pub(in crate::daemon) fn untap(&mut self, id: ConnectionId, number: u32) -> Answered {
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
    pub(in crate::daemon) fn forget_taps(&mut self, id: ConnectionId) {
        let of_connection = |(number, tap): (&u32, &Tap)| (tap.connection == id).then_some(*number);
        let numbers: Vec<u32> = self.taps.taps.iter().filter_map(of_connection).collect();
        for number in numbers {
            self.remove_tap(number);
        }
        self.taps
            .arrivals
            .retain(|arrival| arrival.request_id.connection != id);
        self.answer_arrivals();
    }

    /// Ends the connections of those who look at what policy does not let them see any more: at once.
    pub(in crate::daemon) fn end_taps_not_allowed(&mut self) {
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

    pub(super) fn remove_tap(&mut self, number: u32) {
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
    pub(in crate::daemon) fn retell_taps(&mut self, uid: u32) {
        let own = |(number, tap): (&u32, &Tap)| (!tap.all && tap.who.uid == uid).then_some(*number);
        let numbers: Vec<u32> = self.taps.taps.iter().filter_map(own).collect();
        for number in numbers {
            self.make_outdated_tap(number);
        }
    }

    /// For the report.
    pub(in crate::daemon) fn report_taps(&self) -> Vec<Value> {
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
