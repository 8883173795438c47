//! Responses that come: counted where they lie.

use exos_inet::Instant;
use exos_inet::tcp::ConnectionId;

use super::clients::Engine;
use super::slot::{Stage, token};
use crate::response::{Body, Malformed};
use crate::statistics::{Answered, ErrorKind};
use crate::transport::Transport;

impl Engine {
    /// Takes what has come on a slot's connection, and the server's end of it.
    pub(super) fn take_in(
        &mut self,
        slot: u32,
        generation: u32,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        while self.slots[slot as usize].generation == generation {
            match self.take_some(slot, now, transport) {
                Ok(Took::Nothing) => return self.take_end(slot, now, transport),
                Ok(Took::Some) => (),
                Ok(Took::Whole) => self.answered(slot, now, transport),
                Err(_) => return self.spoilt(slot, now, transport),
            }
        }
    }

    /// A step: a head, or what is there of a body.
    fn take_some(
        &mut self,
        slot: u32,
        now: Instant,
        transport: &mut impl Transport,
    ) -> Result<Took, Malformed> {
        let it = &mut self.slots[slot as usize];
        let Some(id) = it.connection else {
            return Ok(Took::Nothing);
        };
        if it.skipping > 0 {
            return Ok(self.take_counted(slot, id, transport));
        }
        let bytes = transport.readable(id);
        if bytes.is_empty() {
            return Ok(Took::Nothing);
        }
        match &mut it.stage {
            Stage::Head => {
                let Some(head) = self.heads.take(bytes)? else {
                    return Ok(Took::Nothing);
                };
                transport.consume(id, head.len);
                it.framing += head.len as u64;
                if head.is_interim() {
                    return Ok(Took::Some);
                }
                it.first = now;
                it.status = head.status;
                it.is_last |= head.closes;
                let body = head.body(self.driver.requests()[it.request as usize].is_head());
                it.is_last |= body == Body::UntilEnd;
                it.stage = Stage::Body(body);
                it.summing.begin(&self.behaviour.expect);
                Ok(self.took(slot, id, transport))
            }
            Stage::Body(body) => {
                let taken = body.take(bytes, |content| it.summing.add(content))?;
                it.framing += taken.bytes as u64 - taken.content;
                it.content += taken.content;
                transport.consume(id, taken.bytes);
                Ok(self.took(slot, id, transport))
            }
            Stage::Idle | Stage::Connecting | Stage::Securing | Stage::Closing => {
                Err(Malformed::Unasked)
            }
        }
    }

    /// A part of a response was taken. Where nothing needs to look at the rest, it is only counted from now on.
    fn took(&mut self, slot: u32, id: ConnectionId, transport: &mut impl Transport) -> Took {
        let it = &mut self.slots[slot as usize];
        let Stage::Body(body) = it.stage else {
            return Took::Some;
        };
        if body.is_done() {
            return Took::Whole;
        }
        let is_unseen = self.behaviour.count_only && self.behaviour.expect.sha256.is_none();
        // What has come already is at hand, and taken in as it lies.
        if is_unseen && body.countable() > 0 && transport.readable(id).is_empty() {
            it.skipping = transport.skip(id, body.countable());
        }
        Took::Some
    }

    /// What has come of content that is only counted.
    fn take_counted(&mut self, slot: u32, id: ConnectionId, transport: &impl Transport) -> Took {
        let it = &mut self.slots[slot as usize];
        let (Stage::Body(body), Some(left)) = (&mut it.stage, transport.skipping(id)) else {
            return Took::Nothing;
        };
        let came = it.skipping - left;
        it.skipping = left;
        it.content += u64::from(came);
        body.counted(came);
        match left {
            _ if body.is_done() => Took::Whole,
            0 => Took::Some,
            _ => Took::Nothing,
        }
    }

    /// The server has finished, and nothing of what it sent is left.
    fn take_end(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        let it = &self.slots[slot as usize];
        if !it.is_finished {
            return;
        }
        match it.stage {
            Stage::Body(Body::UntilEnd) => {
                self.answered(slot, now, transport);
                self.take_end(slot, now, transport);
            }
            Stage::Head | Stage::Body(_) => self.fail(slot, ErrorKind::Closed, now, transport),
            Stage::Closing if self.behaviour.merging => self.finish(slot, now, transport),
            Stage::Closing => {
                transport.acknowledge(it.connection.expect("it is there until it is closed"));
                self.deferred.push(token(slot, it.generation));
            }
            // A server closes connections that have been idle for long.
            Stage::Idle => self.let_go(slot, transport),
            Stage::Connecting | Stage::Securing => (),
        }
    }

    /// A response is whole.
    fn answered(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        self.count_answer(slot, now);
        // Whether it says so or not, a server that has finished answers no more than what is here.
        let it = &self.slots[slot as usize];
        let is_last = it.is_last || (it.is_finished && it.behind.is_empty());
        if !is_last && self.next_in_line(slot, now, transport) {
            return;
        }
        self.lose_behind(slot, ErrorKind::Closed, now);
        self.is_no_longer_busy(slot);
        if !is_last {
            return self.go_on(slot, now, transport);
        }
        let it = &mut self.slots[slot as usize];
        it.stage = Stage::Closing;
        it.since = now;
        self.closing.push(&mut self.slots, slot);
    }

    /// A response is whole, and as it is to be or not.
    pub(super) fn count_answer(&mut self, slot: u32, now: Instant) {
        let it = &mut self.slots[slot as usize];
        let expect = &self.behaviour.expect;
        if expect.is_met(it.status, it.content, &mut it.summing) {
            self.statistics.answered(&Answered {
                intended: it.intended,
                begun: it.begun,
                first: it.first,
                last: now,
                status: it.status,
                bytes: it.framing + it.content,
                content: it.content,
            });
        } else {
            let kind = ErrorKind::Mismatch;
            self.statistics.failed(kind, it.intended, now);
        }
    }

    /// What came is no response, or nobody asked for it.
    fn spoilt(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        let it = &self.slots[slot as usize];
        if it.is_busy() {
            return self.fail(slot, ErrorKind::Malformed, now, transport);
        }
        // What went before it was answered.
        self.statistics.failed(ErrorKind::Malformed, now, now);
        let was_closing = it.stage == Stage::Closing;
        self.drop_connection(slot, transport);
        if was_closing {
            self.rest(slot, now, transport);
        }
    }

    /// The last response of a connection has come, and its end: ours follows, and the slot goes on without it.
    pub(super) fn finish(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        self.let_go(slot, transport);
        self.rest(slot, now, transport);
    }

    /// The slot's connection ends without it.
    fn let_go(&mut self, slot: u32, transport: &mut impl Transport) {
        let it = &mut self.slots[slot as usize];
        if let Some(id) = it.connection.take() {
            self.connections -= 1;
            it.generation = it.generation.wrapping_add(1);
            it.is_early = false;
            transport.leave(id);
        }
    }

    /// A slot has no connection any more that it would have to close.
    pub(super) fn rest(&mut self, slot: u32, now: Instant, transport: &mut impl Transport) {
        self.closing.remove(&mut self.slots, slot);
        self.slots[slot as usize].stage = Stage::Idle;
        self.go_on(slot, now, transport);
    }
}

/// What a step came to.
enum Took {
    Nothing,
    Some,
    /// The response is whole.
    Whole,
}
