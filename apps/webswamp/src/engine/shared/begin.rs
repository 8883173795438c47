//! Connections that are opened, and requests that are asked on them.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::super::clients::Engine;
use super::super::slot;
use super::connections::{Spoken, Stage};
use crate::statistics::ErrorKind;
use crate::transport::Transport;

impl Engine {
    /// A slot has a request, which is asked as soon as there is a stream for it.
    pub(in super::super) fn enlist(
        &mut self,
        slot: u32,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let shared = self.shared();
        let group = shared.group_of(slot);
        let of_group = shared.of_group(group);
        if of_group.is_some() {
            // Of the newcomers of a group, only the one that opens the connection keeps others from opening theirs.
            self.has_opened(slot);
        }
        let Some(at) = of_group.or_else(|| self.open_shared(group, now, transport)) else {
            return self.fail(slot, ErrorKind::NoConnection, now, transport);
        };
        self.slots[slot as usize].stage = slot::Stage::Connecting;
        let shared = self.shared();
        shared.set_slot(slot, at);
        shared.get_mut(at).waiting.push_back(slot);
        shared.touch(at);
    }

    fn open_shared(
        &mut self,
        group: u32,
        now: Instant,
        transport: &mut impl Transport,
    ) -> Option<u32> {
        let (at, token) = self.shared().reserve(group, now);
        match transport.open(token) {
            Ok(id) => {
                self.shared().opens(at, id);
                self.connections += 1;
                Some(at)
            }
            Err(_) => {
                self.shared().remove(at);
                None
            }
        }
    }

    /// A connection stands.
    pub(super) fn shared_stands(
        &mut self,
        at: u32,
        id: ConnectionId,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let it = self.shared().get_mut(at);
        let begun = it.begun;
        if transport.is_secured() {
            it.stage = Stage::Securing;
        }
        self.statistics.connected(begun, now);
        if transport.is_secured() {
            return;
        }
        if !self.behaviour.merging {
            transport.acknowledge(id);
        }
        self.open_for_requests(at, Spoken::Http2(Box::default()));
    }

    /// Requests may be asked on a connection from now on.
    pub(super) fn open_for_requests(&mut self, at: u32, spoken: Spoken) {
        let it = self.shared().get_mut(at);
        it.stage = Stage::Open(spoken);
        let waiting: Vec<u32> = it.waiting.iter().copied().collect();
        self.shared().touch(at);
        for slot in waiting {
            self.has_opened(slot);
        }
    }

    /// Does what is to be done for connections at the end of a turn: asks what can be, sends, and ends those that are done.
    pub(in super::super) fn settle_shared(&mut self, now: Instant, transport: &mut impl Transport) {
        while let Some(at) = self
            .shared
            .as_mut()
            .and_then(|shared| shared.poll_touched())
        {
            self.settle(at, now, transport);
        }
    }

    /// Does it for one of them.
    pub(super) fn settle(&mut self, at: u32, now: Instant, transport: &mut impl Transport) {
        let is_used_up = self.ask_waiting(at, transport);
        let it = self.shared().get_mut(at);
        if is_used_up && !it.is_retired {
            for slot in self.shared().retire(at) {
                self.enlist(slot, now, transport);
            }
        }
        let it = self.shared().get_mut(at);
        let is_done = it.is_done(transport);
        let Some(id) = it.id else { return };
        if let Some(http) = it.http2() {
            if is_done {
                http.go_away(exos_http2::ErrorCode::NO_ERROR);
            }
            for slice in http.poll_out() {
                transport.send(id, &slice);
            }
        }
        if is_done {
            self.leave_shared(at, transport);
        }
    }

    /// Asks those that wait, as far as there are streams. True when nothing more can be asked on the connection.
    fn ask_waiting(&mut self, at: u32, transport: &mut impl Transport) -> bool {
        let most = self.behaviour.requests_per_connection;
        let shared = self.shared.as_mut().expect("there are connections");
        let streams = shared.streams();
        let it = shared.get_mut(at);
        let mut waiting = std::mem::take(&mut it.waiting);
        let (mut used, is_early) = (it.used, it.is_early);
        let Some(requests) = it.requests(transport) else {
            it.waiting = waiting;
            return false;
        };
        while used < most
            && !waiting.is_empty()
            && requests.room(streams) > 0
            && let Some(&slot) = waiting.front()
        {
            let its = &mut self.slots[slot as usize];
            let request = &self.driver.requests()[its.request as usize];
            if is_early && !request.is_safe() {
                break; // RFC 8470 §3.
            }
            waiting.pop_front();
            requests.ask(slot, request);
            its.stage = slot::Stage::Head;
            its.used = 1;
            used += 1;
        }
        let is_used_up = used >= most || requests.is_used_up();
        (it.waiting, it.used) = (waiting, used);
        is_used_up
    }
}
