//! Responses whose content is read while it is sent.
//!
//! What follows the slices of such a response is a list of pieces. A connection takes the chunks of the next ones as far
//! ahead as its client is fast: twice what is under way to it, and two chunks; more, where the client has had to wait
//! for the disk. So the send queue is the read-ahead, and a slow reader holds little. A chunk is released when its
//! last byte has been acknowledged. Requests behind the response wait until all of it is queued.
//!
//! A transport that sends files by itself gets the pieces as they are, all at once.

use exos_program::Timed;

use super::connection::{Connection, Outcome, Turn};
use super::stream::Stream;
use super::transport::Transport;
use super::wait::Wait;
use crate::http::{Attempt, Missing, Piece, Tail};
use crate::limits::{CHUNK_LEN, QUEUE_LEN_MAX, REACH_MAX};

impl Connection {
    /// A response follows whose content is to be read; true when all of it is queued at once.
    pub(super) fn begin_stream<T: Transport>(
        &mut self,
        tail: Tail,
        turn: &mut Turn<'_, T>,
    ) -> bool {
        if turn.transport.sends_files(self.id()) {
            self.send_tail(tail, turn);
            return true;
        }
        self.stream.get_or_insert_default().begin(tail);
        self.stream(false, turn)
    }

    /// Queues all that follows the slices of a response.
    fn send_tail<T: Transport>(&mut self, tail: Tail, turn: &mut Turn<'_, T>) {
        for piece in tail.pieces {
            match piece {
                Piece::Bytes(slice) => self.send(slice, turn.transport),
                Piece::File(range) => {
                    self.given += range.end - range.start;
                    turn.transport.send_file(self.id(), &tail.file, range);
                }
            }
        }
        self.wait(turn.now, Wait::Sending);
    }

    /// Goes on with a response, and with the requests behind it when all of it is queued; `is_first` says that it has waited
    /// for memory. Gives what the first of them waits for.
    pub(super) fn send_on<T: Transport>(
        &mut self,
        is_first: bool,
        turn: &mut Turn<'_, T>,
    ) -> Option<Box<Missing>> {
        if is_first && let Some(stream) = &mut self.stream {
            stream.hungry = false;
        }
        if !(self.is_streaming() && self.stream(is_first, turn)) {
            return None;
        }
        let missing = self.serve(Attempt::default(), turn);
        self.finish_if_the_client_has(turn);
        missing
    }

    /// What its client was promised is not there any more: better a response that ends early than one of two versions.
    pub(super) fn break_off<T: Transport>(&mut self, turn: &mut Turn<'_, T>) -> Outcome {
        if !self.is_streaming() {
            return Outcome::GoesOn;
        }
        turn.shared.counters.broken_off += 1;
        Outcome::Broken
    }

    /// Releases the chunks that were acknowledged.
    pub(super) fn release_acknowledged<T: Transport>(&mut self, turn: &mut Turn<'_, T>) {
        let id = self.id();
        let pending = turn.transport.unacknowledged(id);
        if let Some(stream) = &mut self.stream {
            stream.release_until(self.given - pending as u64, &mut turn.shared.streams);
            turn.transport.read_ahead(id, 0, stream.held());
            if !stream.is_under_way() && stream.queued.is_empty() {
                self.stream = None;
            }
        }
    }

    /// What is waited for when its client has taken all that there was: the disk, or on a stream without leave to read, that client.
    pub(super) fn wait_for_chunks(&self) -> Wait {
        let has_chunks = |stream: &Stream| stream.held() > 0 || stream.hungry;
        match self.is_stream() && !self.stream.as_deref().is_some_and(has_chunks) {
            true => Wait::Sending,
            false => Wait::Reading,
        }
    }

    /// Queues what is there and takes what is next; true when all of the response is queued.
    fn stream<T: Transport>(&mut self, is_first: bool, turn: &mut Turn<'_, T>) -> bool {
        let Some(mut stream) = self.stream.take() else {
            return false;
        };
        let (id, before) = (self.id(), self.given);
        let (streams, transport) = (&mut turn.shared.streams, &mut *turn.transport);
        if transport.unacknowledged(id) == 0 {
            self.begin_pace(turn.now);
            if self.waits_for() == Wait::Sending && stream.is_reading(streams) {
                // The client has taken all that there was.
                stream.reach = (2 * stream.reach).min(REACH_MAX);
            }
        }
        loop {
            let queued = transport.unacknowledged(id);
            let wanted = queue_wanted(queued - transport.unsent(id), stream.reach);
            let more = wanted.saturating_sub(queued);
            let more = transport.read_ahead(id, more, stream.held());
            stream.ask(more as u64, id, streams, is_first);
            if queued >= QUEUE_LEN_MAX {
                break;
            }
            let Some(slice) = stream.next(self.given, streams) else {
                break;
            };
            self.send(slice, transport);
        }
        transport.read_ahead(id, 0, stream.held());
        let is_whole = stream.is_whole();
        if is_whole && let Some(plan) = stream.plan.take() {
            streams.put_away(plan.file);
        }
        self.stream = Some(stream);
        let waits = matches!(self.waits_for(), Wait::Sending | Wait::Reading);
        if self.given > before || !waits {
            let is_queued = transport.unacknowledged(id) > 0;
            let wait = if is_queued {
                Wait::Sending
            } else {
                self.wait_for_chunks()
            };
            self.wait(turn.now, wait);
        }
        is_whole
    }
}

/// How many bytes shall be queued on a connection, or be on their way there; it grows with the bytes under way.
pub(super) fn queue_wanted(under_way: usize, reach: usize) -> usize {
    (2 * under_way + reach * CHUNK_LEN).min(QUEUE_LEN_MAX)
}
