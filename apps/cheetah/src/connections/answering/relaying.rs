//! Bytes between a client and an application: the body there, the answer back, each as far as the other side takes it.

use std::mem::take;
use std::rc::Rc;

use exos_buf::Buffer;
use exos_program::Timed as _;

use super::failure::Failure;
use super::heard::{Part, next_part};
use super::kept::said_of;
use super::{Answering, Begun, Stage, Upload};
use crate::applications::chunks::BodyError;
use crate::applications::heads::Known;
use crate::applications::pool::Upstream;
use crate::applications::reply::{Content, Framing, ReplyError};
use crate::caching::fetch::Heard;
use crate::connections::connection::{Connection, Turn};
use crate::connections::shared::Shared;
use crate::connections::streaming::queue_wanted;
use crate::connections::transport::Transport;
use crate::connections::wait::Wait;
use crate::http::Use;
use crate::http::asking::Said;
use crate::limits::{BODY_BEGUN_LEN, CHUNKED_BODY_LEN_MAX, JOINED_LEN_MAX, REACH_MIN};
use crate::message::Version;
use crate::message::http2::{interim_blocks, push_lines};

impl Connection {
    /// Collects what of the body has to be there before anybody is asked; true when it is.
    pub(super) fn collect<T: Transport>(
        &mut self,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Result<bool, BodyError> {
        let bytes = turn.transport.readable(self.id());
        match &mut answering.upload {
            Upload::Over | Upload::Whole(..) | Upload::Flowing(_) | Upload::Tunnel => Ok(true),
            Upload::Length(len) => {
                let is_enough = bytes.len() as u64 >= (*len).min(BODY_BEGUN_LEN);
                if answering.body_pace.has_grown_to(bytes.len()) {
                    self.wait_for_body(answering, turn);
                }
                Ok(is_enough)
            }
            Upload::Chunked(body) => {
                let before = body.content.len();
                let count = body.take(bytes, CHUNKED_BODY_LEN_MAX as usize + 1)?;
                let grown = body.content.len() - before;
                let peer = answering.asking.peer();
                if !turn.shared.applications.collect(peer, grown) {
                    return Err(BodyError::NoRoom);
                }
                answering.collected += grown;
                turn.transport.consume(self.id(), count);
                let is_over = body.is_over();
                let is_long = body.content.len() as u64 > CHUNKED_BODY_LEN_MAX;
                if count > 0 {
                    answering.body_pace.came(count);
                    self.wait_for_body(answering, turn);
                }
                if is_over {
                    answering.keep_trailers(turn.shared);
                } else if is_long {
                    answering.flow(&turn.shared.applications)?;
                }
                Ok(is_over || is_long)
            }
        }
    }

    /// Hands on what has come of a body that goes on as it comes, as far as the application takes it; true when there is more to come
    /// from the client.
    pub(super) fn upload<T: Transport>(
        &mut self,
        upstream: Upstream,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Result<bool, BodyError> {
        match answering.upload {
            Upload::Length(left) => Ok(self.upload_length(upstream, left, answering, turn)),
            Upload::Flowing(_) => self.upload_chunks(upstream, answering, turn),
            Upload::Tunnel => {
                self.upload_tunnel(upstream, answering, turn);
                Ok(false)
            }
            Upload::Chunked(_) | Upload::Whole(..) | Upload::Over => Ok(false),
        }
    }

    /// Hands on what has come of a body of which `left` is still to come, in the same way.
    fn upload_length<T: Transport>(
        &mut self,
        upstream: Upstream,
        left: u64,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> bool {
        let applications = &mut turn.shared.applications;
        let is_ended = applications.carriers().end_of(upstream).is_some();
        let room = applications.body_room(upstream);
        let bytes = turn.transport.readable(self.id());
        let count = bytes
            .len()
            .min(room)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        if count == 0 || is_ended {
            let is_the_clients = room > 0 && !is_ended;
            if is_the_clients && matches!(self.waits_for(), Wait::Application | Wait::Upstream) {
                answering.body_pace.begin(turn.now);
                self.wait_for_body(answering, turn);
            }
            return is_the_clients;
        }
        let left = left - count as u64;
        let is_over = left == 0;
        applications
            .carriers()
            .send_body(upstream, &bytes[..count], is_over);
        turn.transport.consume(self.id(), count);
        answering.body_pace.came(count);
        answering.upload = match is_over {
            true => Upload::Over,
            false => Upload::Length(left),
        };
        if is_over || applications.body_room(upstream) == 0 {
            self.wait_for_application(answering, applications, turn.now);
        } else {
            self.wait_for_body(answering, turn);
        }
        !is_over
    }

    /// Hands on what a client says in another protocol, as far as it is taken, and its end.
    pub(super) fn upload_tunnel<T: Transport>(
        &mut self,
        upstream: Upstream,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) {
        let applications = &mut turn.shared.applications;
        let bytes = turn.transport.readable(self.id());
        let (is_all, room) = (bytes.is_empty(), applications.body_room(upstream));
        let part = &bytes[..bytes.len().min(room)];
        if !part.is_empty() {
            applications.carriers().send_body(upstream, part, false);
            turn.transport.consume(self.id(), part.len());
            self.wait_for_application(answering, applications, turn.now);
        } else if is_all && self.has_client_finished() {
            applications.carriers().finish(upstream);
            answering.upload = Upload::Over;
        }
    }

    /// Hands on what was collected of a body, as far as the application takes it. It counts as collected until all of it has been.
    pub(super) fn hand_on<T: Transport>(
        &mut self,
        upstream: Upstream,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) {
        let Upload::Whole(content, at) = &mut answering.upload else {
            return;
        };
        let applications = &mut turn.shared.applications;
        let room = applications.body_room(upstream);
        let part = &content[*at..];
        let part = &part[..part.len().min(room)];
        let is_last = *at + part.len() == content.len();
        if part.is_empty() && !is_last || applications.carriers().end_of(upstream).is_some() {
            return;
        }
        applications.carriers().send_body(upstream, part, is_last);
        *at += part.len();
        if is_last {
            applications.uncollect(answering.asking.peer(), take(&mut answering.collected));
            answering.upload = Upload::Over;
        }
        self.wait_for_application(answering, applications, turn.now);
    }

    /// More of the body is to come from the client, in its time, and as fast as clients have to send.
    pub(super) fn wait_for_body<T: Transport>(
        &mut self,
        answering: &Answering,
        turn: &Turn<'_, T>,
    ) {
        let pace = &answering.body_pace;
        let least = pace.until(&turn.shared.bounds);
        let silent_until = turn.now + Wait::Body.time();
        self.wait_until(
            Wait::Body,
            least.map_or(silent_until, |at| at.min(silent_until)),
        );
    }

    /// Takes what has come of the answer, as far as its client does; true when it is queued whole.
    pub(super) fn download<T: Transport>(
        &mut self,
        upstream: Upstream,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Result<bool, Failure> {
        let id = self.id();
        if turn.transport.unacknowledged(id) == 0 {
            self.begin_pace(turn.now);
        }
        let mut has_come = false;
        let is_whole = loop {
            let queued = turn.transport.unacknowledged(id);
            if queued >= queue_wanted(queued - turn.transport.unsent(id), REACH_MIN) {
                break false;
            }
            let next = next_part(upstream, answering, turn.shared, turn.now)?;
            let Some(Part {
                interim,
                head,
                mut content,
                trailers,
            }) = next
            else {
                break false;
            };
            has_come = true;
            // A client of HTTP/1.0 knows of no answers before the last one.
            let is_told = answering.asking.version == Version::Http11;
            if self.is_stream() {
                let blocks = interim_blocks(&interim);
                blocks
                    .iter()
                    .for_each(|block| turn.transport.send_interim(id, block));
            }
            let mut before = if is_told { interim } else { Vec::new() };
            let mut behind = Vec::new();
            if let Some(mut known) = head {
                if answering.asking.asked.application.proxy.is_some() {
                    let head = Rc::make_mut(&mut known.head);
                    let judged = answering.asking.judge_upgrade(head);
                    judged.map_err(|error| Failure::Reply(ReplyError::Answer(error)))?;
                    answering.asking.lead_here(head, answering.address());
                    let server = &mut turn.shared.server;
                    let heard = server.hear_answer(&mut answering.asking, head, turn.now);
                    if let Heard::Use(kept) = heard {
                        if head.code == 304 {
                            turn.shared.applications.end_rest(answering.address());
                        }
                        let said = said_of(head.code);
                        self.send_kept(&kept, &said, answering, turn);
                        return Ok(true);
                    }
                }
                self.begin_answer(&known, &content, &mut before, answering, turn);
            }
            let is_over = answering.hearing.is_over();
            if let (Use::Fetch(fetch), Content::Bytes(bytes)) =
                (&mut answering.asking.keeps, &content)
            {
                fetch.gather(bytes, turn.shared.server.answers_mut(), turn.now);
            }
            let (trailers, left_out) = answering.trailers_of_answer(&trailers, self.is_stream());
            turn.shared.counters.trailers_left_out += left_out;
            let mut is_short = Ok(());
            if let Some(begun) = &mut answering.begun {
                let is_all = begun.framing.frame(&mut content, &mut before, &mut behind);
                begun.is_too_long |= !is_all;
                if is_over {
                    is_short = begun.framing.end(&trailers, &mut behind);
                }
                begun.said.len += before.len() + content.len() + behind.len();
            }
            self.send_part(before, content, behind, turn.transport);
            is_short.map_err(Failure::Reply)?;
            if self.is_stream() && !trailers.is_empty() {
                let mut block = Vec::new();
                push_lines(&mut block, &trailers);
                turn.transport.send_trailers(id, &block);
            }
            if is_over && let Use::Fetch(fetch) = &mut answering.asking.keeps {
                fetch.keep(turn.shared.server.answers_mut());
            }
            if is_over || answering.begun.is_some_and(|begun| begun.has_all()) {
                break true;
            }
        };
        if !is_whole && has_come {
            self.wait_on_answering(answering, turn);
        }
        Ok(is_whole)
    }

    /// The head of the application's answer is whole: it goes, or is put behind `before` where content is to go with it.
    fn begin_answer<T: Transport>(
        &mut self,
        known: &Known,
        content: &Content,
        before: &mut Vec<u8>,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) {
        let (framing, persistent) = begin(known, answering, turn.shared);
        let (server, asking) = (&mut turn.shared.server, &answering.asking);
        let (mut head_len, mut len) = (0, 0);
        if self.is_stream() {
            let block = server.application_head(asking, known, framing, persistent, 0);
            head_len = self.send_head(&[Buffer::sent_once(block).whole()], turn.transport);
            len = head_len;
        } else if before.is_empty()
            && let Some(ready) = server.ready_head(asking, known, persistent)
        {
            for slice in ready {
                head_len += slice.len();
                self.send(slice, turn.transport);
            }
            len = head_len;
        } else {
            let joined = match content {
                Content::Bytes(bytes) if bytes.len() <= JOINED_LEN_MAX => bytes.len(),
                Content::Bytes(_) | Content::Slice(_) => 0,
            };
            let bytes = server.application_head(asking, known, framing, persistent, joined);
            head_len = bytes.len();
            match before.is_empty() {
                true => *before = bytes,
                false => before.extend_from_slice(&bytes),
            }
        }
        answering.begun = Some(Begun {
            framing,
            persistent,
            said: Said {
                code: answering.asking.told(known.head.code),
                head_len,
                len,
            },
            is_too_long: false,
        });
    }

    /// Sends a part of the answer: long content as it is, short content in one buffer with what comes before it.
    fn send_part(
        &mut self,
        mut before: Vec<u8>,
        content: Content,
        mut behind: Vec<u8>,
        transport: &mut impl Transport,
    ) {
        let mut slice = None;
        match content {
            content if content.is_empty() => before.append(&mut behind),
            Content::Slice(content) => slice = Some(content),
            Content::Bytes(content)
                if content.len() <= JOINED_LEN_MAX && !(before.is_empty() && behind.is_empty()) =>
            {
                before.extend_from_slice(&content);
                before.append(&mut behind);
            }
            Content::Bytes(mut content) => {
                content.append(&mut behind);
                slice = Some(Buffer::sent_once(content).whole());
            }
        }
        let of = |bytes: Vec<u8>| (!bytes.is_empty()).then(|| Buffer::sent_once(bytes).whole());
        for slice in [of(before), slice, of(behind)].into_iter().flatten() {
            self.send(slice, transport);
        }
    }

    /// Something has come of an answer, of which there is more.
    pub(super) fn wait_on_answering<T: Transport>(
        &mut self,
        answering: &Answering,
        turn: &Turn<'_, T>,
    ) {
        if turn.transport.unacknowledged(self.id()) > 0 {
            self.wait(turn.now, Wait::Sending);
        } else if !matches!(
            answering.upload,
            Upload::Length(_) | Upload::Chunked(_) | Upload::Flowing(_)
        ) {
            self.wait_for_application(answering, &turn.shared.applications, turn.now);
        }
    }
}

/// How a client knows where the answer with this head ends, and whether another may follow on its connection.
fn begin(known: &Known, answering: &mut Answering, shared: &mut Shared) -> (Framing, bool) {
    let framing = answering.asking.framing(known);
    let is_tunnel = framing == Framing::Tunnel;
    let is_last = framing == Framing::Close || is_tunnel || shared.stopping;
    let persistent = !is_last && answering.skip().is_some();
    if answering.asking.asked.application.proxy.is_some() {
        let is_old = answering.hearing.is_old();
        shared
            .applications
            .has_answered(answering.address(), is_old);
    }
    if is_tunnel {
        answering.upload = Upload::Tunnel;
        shared.counters.tunnels += 1;
        if let Stage::Asked { upstream, .. } = answering.stage {
            let (address, peer) = (answering.address().clone(), answering.asking.peer());
            let applications = &mut shared.applications;
            applications.begin_tunnel(upstream, &address, peer);
        }
    }
    (framing, persistent)
}
