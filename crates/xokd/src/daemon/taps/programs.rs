//! The programs of taps: made beside the loop, put in their places, and who waits for that.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;

use exos_filter::Filter;
use exos_filter::gate::{self, SlotSet};
use exos_host::error::{Context as _, Error};
use exos_xok::message::{Answer, Refusal};

use super::state::Arrival;
use crate::daemon::answers::{Refused, RequestId, refuse};
use crate::daemon::grants::check_words;
use crate::daemon::{Daemon, End};
use crate::gate::taps::TapPrograms;
use crate::interface::Interface;

impl Daemon {
    /// Has a tap's programs made for the programs that its user has now: for a client that is to be told, or again.
    pub(super) fn make_tap(&mut self, number: u32, request_id: Option<RequestId>) {
        let tap = &self.taps.taps[&number];
        let slots = if tap.all {
            SlotSet::default()
        } else {
            self.slots_of(tap.who.uid)
        };
        let tapped = |i: &&Interface| tap.interfaces.contains(&i.link.index);
        let interfaces = self.interfaces.iter().filter(tapped);
        let works: Vec<_> = interfaces
            .map(|i| (i.link.index, i.gate.tap_work()))
            .collect();
        let (text, known) = (tap.text.clone(), tap.filter.clone());
        let (index, snap_len, all) = (tap.index, tap.snap_len, tap.all);
        let ring = Arc::clone(&tap.ring);
        let make = move || {
            let filter = known.map_or_else(|| read(&text).map(Arc::new), Ok)?;
            let programs = gate::Tap {
                index,
                filter: Filter::clone(&filter),
                slots: (!all).then_some(slots),
                snap_len,
                ring_fd: ring.as_fd().as_raw_fd(),
            };
            let made = works
                .iter()
                .map(|(interface, work)| Ok((*interface, work.make(&programs)?)));
            Ok((filter, made.collect::<Result<Vec<_>, Error>>()?))
        };
        let job = move || -> End {
            let made = make();
            Box::new(move |daemon| daemon.put_tap(number, request_id, made))
        };
        let user = (tap.standing, tap.who.uid);
        self.taps.taps.get_mut(&number).expect("it is there").making = Some(slots);
        match request_id {
            Some(_) => self.work_for_filter(Some(user), job),
            None => self.work_beside(user, Box::new(job)),
        }
    }

    /// Puts a tap's programs on its interfaces, when they are made.
    fn put_tap(
        &mut self,
        number: u32,
        request_id: Option<RequestId>,
        made: Result<TapMade, Refused>,
    ) {
        let Some(tap) = self.taps.taps.get_mut(&number) else {
            return; // It has ended.
        };
        let put = made.and_then(|(filter, programs)| {
            tap.filter = Some(filter);
            for (index, programs) in &programs {
                let mut interfaces = self.interfaces.iter_mut();
                if let Some(interface) = interfaces.find(|i| i.link.index == *index) {
                    interface.gate.put_tap(tap.index, programs)?;
                }
            }
            tap.copied = tap.making.take().unwrap_or_default();
            let fd = tap.ring.as_fd().try_clone_to_owned();
            Ok(fd.context(|| "cannot pass the ring of packets")?)
        });
        let answered = put.map(|fd| (Answer::Tapped { tap: number }, vec![fd.into()]));
        if answered.is_err() {
            // Rather no copies than copies of somebody else's packets.
            self.remove_tap(number);
        }
        if let Some(request_id) = request_id {
            self.reply(request_id, answered);
        }
        self.make_outdated_tap(number);
        self.answer_arrivals();
    }

    /// Has a tap's programs made again, if its user has other programs by now.
    pub(super) fn make_outdated_tap(&mut self, number: u32) {
        let tap = self
            .taps
            .taps
            .get(&number)
            .filter(|tap| !tap.all && tap.making.is_none());
        if tap.is_some_and(|tap| tap.copied != self.slots_of(tap.who.uid)) {
            self.make_tap(number, None);
        }
    }

    /// Answers the programs whose copies are made.
    pub(super) fn answer_arrivals(&mut self) {
        let (attachments, taps) = (&self.attachments, &mut self.taps);
        let (mut ready, mut waiting) = (Vec::new(), Vec::new());
        for arrival in std::mem::take(&mut taps.arrivals) {
            let uid = attachments
                .get(&arrival.slot)
                .map(|attachment| attachment.record.who.uid);
            match uid.is_none_or(|uid| taps.show_all_of(uid, arrival.slot)) {
                true => ready.push(arrival),
                false => waiting.push(arrival),
            }
        }
        taps.arrivals = waiting;
        for Arrival {
            request_id,
            slot,
            fds,
        } in ready
        {
            // One that has gone meanwhile has no slot any more.
            if self.slot_of(request_id.connection) == Some(slot) {
                self.reply(request_id, Ok((self.attached(slot), fds)));
            }
        }
    }
}

/// A tap's programs, by interface, and the filter that they were made of.
type TapMade = (Arc<Filter>, Vec<(u32, TapPrograms)>);

/// What a client's words say.
fn read(text: &str) -> Result<Filter, Refused> {
    let filter = match text.trim() {
        "" => Filter::everything(),
        text => Filter::parse(text).map_err(|e| refuse(Refusal::BadRequest, e))?,
    };
    check_words(&filter)?;
    Ok(filter)
}
