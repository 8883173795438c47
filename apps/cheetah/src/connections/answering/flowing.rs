//! Chunked bodies that are longer than what is collected: an upstream gets them as they come, in chunks of this server's.
//!
//! The chunks are read and made again, so what an upstream reads never depends on how a client has written them. Nothing leaves before
//! the upstream's connection stands: until then another may be asked, with what was collected.

use std::mem::{replace, take};

use exos_program::Timed as _;

use super::trailers::going_on;
use super::{Answering, Upload};
use crate::applications::Applications;
use crate::applications::chunks::BodyError;
use crate::applications::pool::Upstream;
use crate::applications::trailers::push_last_chunk;
use crate::applications::upload::Flowing;
use crate::connections::connection::{Connection, Turn};
use crate::connections::transport::Transport;
use crate::connections::wait::Wait;

impl Answering {
    /// As much is collected as may be, and there is more: it goes on as it comes, where chunks may be sent.
    pub(super) fn flow(&mut self, applications: &Applications) -> Result<(), BodyError> {
        if !applications.takes_chunks(&self.asking.asked.application) {
            return Err(BodyError::WithoutLength);
        }
        self.upload = match replace(&mut self.upload, Upload::Over) {
            Upload::Chunked(body) => Upload::Flowing(Flowing::of(body)),
            upload => upload,
        };
        self.is_chunked = true;
        Ok(())
    }
}

impl Connection {
    /// Hands on what has come of such a body, as far as the upstream takes it; true when there is more to come from the client.
    pub(super) fn upload_chunks<T: Transport>(
        &mut self,
        upstream: Upstream,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Result<bool, BodyError> {
        let carriers = turn.shared.applications.carriers();
        if carriers.end_of(upstream).is_some() {
            return Ok(false);
        }
        let mut has_moved = false;
        while self.upload_chunk(upstream, answering, turn)? {
            has_moved = true;
        }
        let is_over = matches!(answering.upload, Upload::Over);
        let applications = &turn.shared.applications;
        if is_over || applications.body_room(upstream) == 0 {
            if has_moved {
                self.wait_for_application(answering, applications, turn.now);
            }
            return Ok(false);
        }
        if has_moved {
            self.wait_for_body(answering, turn);
        } else if matches!(self.waits_for(), Wait::Application | Wait::Upstream) {
            answering.body_pace.begin(turn.now);
            self.wait_for_body(answering, turn);
        }
        Ok(true)
    }

    /// Hands on a part; false where nothing is there, or nothing is taken now.
    fn upload_chunk<T: Transport>(
        &mut self,
        upstream: Upstream,
        answering: &mut Answering,
        turn: &mut Turn<'_, T>,
    ) -> Result<bool, BodyError> {
        let room = turn.shared.applications.body_room(upstream);
        let Upload::Flowing(body) = &mut answering.upload else {
            return Ok(false);
        };
        if room == 0 {
            return Ok(false);
        }
        let mut came = 0;
        if body.is_empty() {
            came = body.take(turn.transport.readable(self.id()), room)?;
            turn.transport.consume(self.id(), came);
            answering.body_pace.came(came);
        }
        let mut part = body.next_chunk(room);
        let is_all = body.is_empty();
        let is_last = is_all && body.is_over();
        if is_last {
            let lines = body.take_trailers();
            let lines = going_on(&lines, &answering.asking, turn.shared);
            push_last_chunk(&mut part, &lines);
            answering.upload = Upload::Over;
        }
        let applications = &mut turn.shared.applications;
        if is_all {
            applications.uncollect(answering.asking.peer(), take(&mut answering.collected));
        }
        let has_part = !part.is_empty();
        if has_part {
            applications.carriers().send_body(upstream, &part, is_last);
        }
        Ok(has_part || came > 0)
    }
}
