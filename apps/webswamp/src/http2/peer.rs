//! What the server has said of itself (RFC 9113 §6.5.2).

use exos_http2::Fault;
use exos_http2::frame::payload;
use exos_http2::frame::setting;
use exos_http2::limits;

/// Its settings, as far as a client has to mind them.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// Its first settings have come.
    pub(super) is_known: bool,
    /// Streams that may be open at once.
    pub(super) streams: u32,
    /// What may be sent on a new stream.
    pub(super) window: u32,
    /// The longest payload of a frame.
    pub(super) frame_len: usize,
    /// It has always kept a table as large as there is before anything is said, for header blocks of ours.
    pub(super) has_table: bool,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            is_known: false,
            // Without a word there is no limit (RFC 9113 §6.5.2). Before it, one request shows nobody's limit wrong.
            streams: 1,
            window: limits::DEFAULT_WINDOW,
            frame_len: limits::FRAME_LEN_MAX,
            has_table: true,
        }
    }
}

impl Peer {
    /// Takes its settings: by how much windows of streams change.
    ///
    /// # Errors
    ///
    /// One of them has a value that it may not have.
    pub(super) fn take(&mut self, payload: &[u8]) -> Result<i64, Fault> {
        let pairs = payload::settings(payload)?;
        if !self.is_known {
            self.is_known = true;
            self.streams = u32::MAX;
        }
        let before = i64::from(self.window);
        for (id, value) in pairs {
            match id {
                setting::HEADER_TABLE_SIZE => {
                    // A table that was smaller once has lost what was in it (RFC 7541 §4.3).
                    self.has_table &= value as usize >= limits::HEADER_TABLE_LEN;
                }
                setting::ENABLE_PUSH if value > 1 => return Err(Fault::Settings),
                setting::MAX_CONCURRENT_STREAMS => self.streams = value,
                setting::INITIAL_WINDOW_SIZE if value > limits::WINDOW_MAX => {
                    return Err(Fault::SettingsWindow);
                }
                setting::INITIAL_WINDOW_SIZE => self.window = value,
                setting::MAX_FRAME_SIZE => {
                    let allowed = limits::FRAME_LEN_MAX..1 << 24;
                    if !allowed.contains(&(value as usize)) {
                        return Err(Fault::Settings);
                    }
                    self.frame_len = value as usize;
                }
                // Others are for other sides, or for later times (§6.5.2).
                _ => (),
            }
        }
        Ok(i64::from(self.window) - before)
    }
}
