//! Frames that are no part of a response: streams that are reset, settings, pings, goodbyes, windows (RFC 9113 §6.4 to §6.9).

use exos_http2::Fault;
use exos_http2::frame::{self, FrameHead, flag, payload};
use exos_http2::limits;

use super::connection::Connection;
use crate::multiplexed::{Loss, News};

impl Connection {
    pub(super) fn reset(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
    ) -> Result<News<'static>, Fault> {
        self.check_opened(head.stream)?;
        let code = payload::reset(payload)?;
        let lost = self.forget(head.stream);
        Ok(lost.map_or(News::Nothing, |stream| News::Lost {
            slot: stream.slot,
            why: Loss::Reset(code.into()),
        }))
    }

    pub(super) fn settings(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
    ) -> Result<News<'static>, Fault> {
        of_connection(head)?;
        if head.has(flag::ACK) {
            let is_empty = payload.is_empty();
            return is_empty.then_some(News::Nothing).ok_or(Fault::FrameLength);
        }
        let more = self.peer.take(payload)?;
        for stream in self.streams.iter_mut() {
            // It may fall below nothing (§6.9.2).
            stream.window += more;
            if stream.window > limits::WINDOW_MAX.into() {
                return Err(Fault::SettingsWindow);
            }
        }
        frame::push_settings_ack(&mut self.out.bytes);
        self.send_bodies();
        Ok(News::Nothing)
    }

    pub(super) fn ping(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
    ) -> Result<News<'static>, Fault> {
        of_connection(head)?;
        let opaque = payload::ping(payload)?;
        if !head.has(flag::ACK) {
            frame::push_ping(&mut self.out.bytes, true, opaque);
        }
        Ok(News::Nothing)
    }

    pub(super) fn going_away(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
    ) -> Result<News<'static>, Fault> {
        of_connection(head)?;
        let (last, code) = payload::go_away(payload)?;
        let is_first = !std::mem::replace(&mut self.is_going_away, true);
        let mut unasked = Vec::new();
        while let Some(stream) = self.streams.pop_above(last) {
            self.uploads -= u32::from(stream.upload.is_some());
            unasked.push(stream.slot);
        }
        unasked.reverse();
        Ok(News::GoingAway {
            code: code.into(),
            is_first,
            has_taken: last > 0,
            unasked,
        })
    }

    pub(super) fn window_update(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
    ) -> Result<News<'static>, Fault> {
        let by = i64::from(payload::window_update(payload)?);
        let most = i64::from(limits::WINDOW_MAX);
        let unreturned = &mut self.unreturned[usize::from(head.stream != 0)];
        if *unreturned > 0 {
            // It has taken some of a body.
            self.idle_frames = 0;
        }
        *unreturned = unreturned.saturating_sub(by as u64);
        if head.stream == 0 {
            self.window += by;
            match self.window {
                _ if by == 0 => return Err(Fault::WindowZero),
                window if window > most => return Err(Fault::WindowOverflow),
                _ => self.send_bodies(),
            }
            return Ok(News::Nothing);
        }
        self.check_opened(head.stream)?;
        let Some(stream) = self.streams.get(head.stream) else {
            return Ok(News::Nothing);
        };
        stream.window += by;
        if by == 0 || stream.window > most {
            return Ok(self.spoil(head.stream));
        }
        self.send_bodies();
        Ok(News::Nothing)
    }
}

/// A frame that is on no stream.
fn of_connection(head: &FrameHead) -> Result<(), Fault> {
    match head.stream {
        0 => Ok(()),
        _ => Err(Fault::StreamNumber),
    }
}
