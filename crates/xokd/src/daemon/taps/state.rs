//! The taps that there are, those whose rings somebody may have still, and who waits for copies.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use exos_filter::Filter;
use exos_filter::gate::SlotSet;
use exos_host::bpf::{Map, map_exists};
use exos_xok::message::Refusal;

use crate::daemon::answers::{Refused, RequestId, refuse};
use crate::ledger::SlotId;
use crate::limits::{TAPS, TAPS_PER_USER_MAX};
use crate::policy::Who;
use crate::pool::Standing;
use crate::server::ConnectionId;

/// The taps that there are, by number.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Taps {
    pub(super) taps: BTreeMap<u32, Tap>,
    pub(super) last: u32,
    /// Of taps that have ended: rings that somebody may have still.
    pub(super) ended: Vec<Ended>,
    pub(super) arrivals: Vec<Arrival>,
}

/// A program whose copies are not made yet.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) request_id: RequestId,
    pub(super) slot: SlotId,
    pub(super) fds: Vec<Rc<OwnedFd>>,
}

#[derive(Debug)]
pub(super) struct Ended {
    pub(super) who: Who,
    pub(super) standing: Standing,
    /// The ring's number in the kernel.
    pub(super) ring: u32,
}

#[derive(Debug)]
pub(super) struct Tap {
    pub(super) connection: ConnectionId,
    pub(super) who: Who,
    pub(super) standing: Standing,
    /// Its place in the gates.
    pub(super) index: u32,
    /// The interfaces, by index.
    pub(super) interfaces: Vec<u32>,
    pub(super) text: String,
    /// What that says, when it has been read.
    pub(super) filter: Option<Arc<Filter>>,
    pub(super) snap_len: u32,
    pub(super) all: bool,
    /// The slots that its programs copy, and that those copy that are being made.
    pub(super) copied: SlotSet,
    pub(super) making: Option<SlotSet>,
    pub(super) ring: Arc<Map>,
    /// The ring's number in the kernel.
    pub(super) ring_id: u32,
}

impl Taps {
    /// Whether packets are copied for a connection.
    pub(in crate::daemon) fn are_shown_to(&self, id: ConnectionId) -> bool {
        self.taps.values().any(|tap| tap.connection == id)
    }

    /// Whether anybody is shown the packets of a slot as one of their own.
    pub(in crate::daemon) fn show(&self, slot: SlotId) -> bool {
        let taps = self.taps.values();
        let mut slots = taps
            .flat_map(|tap| [Some(tap.copied), tap.making])
            .flatten();
        slots.any(|slots| slots.has(slot))
    }

    /// Whether all copies that a user has of their own show a slot.
    pub(in crate::daemon) fn show_all_of(&self, uid: u32, slot: SlotId) -> bool {
        let own = |tap: &&Tap| !tap.all && tap.who.uid == uid;
        let mut own = self.taps.values().filter(own);
        own.all(|tap| tap.copied.has(slot))
    }

    /// Keeps the answer to a program until its copies are made.
    pub(in crate::daemon) fn await_copies(
        &mut self,
        request_id: RequestId,
        slot: SlotId,
        fds: Vec<Rc<OwnedFd>>,
    ) {
        self.arrivals.push(Arrival {
            request_id,
            slot,
            fds,
        });
    }

    /// Looks again how well the policy knows everybody, those included whose taps have ended.
    pub(in crate::daemon) fn set_standings(&mut self, standing: impl Fn(&Who) -> Standing) {
        let living = self.taps.values_mut();
        let living = living.map(|tap| (&tap.who, &mut tap.standing));
        let ended = self.ended.iter_mut();
        let ended = ended.map(|ended| (&ended.who, &mut ended.standing));
        for (who, known) in living.chain(ended) {
            *known = standing(who);
        }
    }

    /// Whether somebody may have one more. What the kernel does not say of an ended one's ring is taken for kept.
    pub(super) fn check(&mut self, uid: u32, standing: Standing) -> Result<(), Refused> {
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
