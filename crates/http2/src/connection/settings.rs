//! What both sides say of themselves (RFC 9113 §6.5).

use super::Connection;
use crate::error::Fault;
use crate::frame::{
    FrameHead, flag, payload, push_settings, push_settings_ack, push_window_update, setting,
};
use crate::limits::{
    CONNECTION_WINDOW, DEFAULT_WINDOW, FIELDS_LEN_MAX, FRAME_LEN_MAX, SETTINGS, STREAM_WINDOW,
    STREAMS_MAX, WINDOW_MAX,
};

/// What the peer has said of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerSettings {
    pub(super) window: u32,
    pub(super) frame_len_max: u32,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            window: DEFAULT_WINDOW,
            frame_len_max: FRAME_LEN_MAX as u32,
        }
    }
}

/// What we say first.
pub(super) fn push_first(out: &mut Vec<u8>) {
    let ours = [
        (setting::MAX_CONCURRENT_STREAMS, STREAMS_MAX),
        (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW),
        (setting::MAX_HEADER_LIST_SIZE, FIELDS_LEN_MAX as u32),
        (setting::ENABLE_CONNECT_PROTOCOL, 1),
        (setting::NO_RFC7540_PRIORITIES, 1),
    ];
    push_settings(out, &ours);
    push_window_update(out, 0, CONNECTION_WINDOW - DEFAULT_WINDOW);
}

impl Connection {
    /// SETTINGS have come; true when they are not an acknowledgement.
    pub(super) fn handle_settings(
        &mut self,
        head: &FrameHead,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        if head.stream != 0 {
            return Err(Fault::StreamNumber);
        }
        if !self.allowances.settings.take(SETTINGS, self.now) {
            return Err(Fault::SettingsFlood);
        }
        if head.has(flag::ACK) {
            return match bytes {
                [] => Ok(false),
                _ => Err(Fault::FrameLength),
            };
        }
        for (id, value) in payload::settings(bytes)? {
            self.apply(id, value)?;
        }
        push_settings_ack(out);
        Ok(true)
    }

    fn apply(&mut self, id: u16, value: u32) -> Result<(), Fault> {
        match (id, value) {
            (
                setting::ENABLE_PUSH
                | setting::ENABLE_CONNECT_PROTOCOL
                | setting::NO_RFC7540_PRIORITIES,
                2..,
            ) => return Err(Fault::Settings),
            (setting::HEADER_TABLE_SIZE, value) => self.encoder.set_len_max(value as usize),
            (setting::INITIAL_WINDOW_SIZE, value) => {
                if value > WINDOW_MAX {
                    return Err(Fault::SettingsWindow);
                }
                let by = i64::from(value) - i64::from(self.peer.window);
                self.peer.window = value;
                if !self.streams.change_windows(by) {
                    return Err(Fault::SettingsWindow);
                }
            }
            (setting::MAX_FRAME_SIZE, value) => {
                if !(16_384..=16_777_215).contains(&value) {
                    return Err(Fault::Settings);
                }
                self.peer.frame_len_max = value;
            }
            _ => {}
        }
        Ok(())
    }
}
