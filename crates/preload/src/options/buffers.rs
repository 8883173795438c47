//! Sizes of buffers, which are kept and told (socket(7)). What waits in a ring is as much as it holds.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::RING;
use crate::options::option_number;
use crate::process::Found;
use crate::system::*;

/// What the kernel's sockets have of a buffer, and what they can have (net.core.rmem_default and _max, by default).
const BUFFER: u32 = 212_992;
/// Half of what they can have by privilege.
const UNLIMITED: u32 = i32::MAX as u32 / 2;
/// The least of a buffer to send from, and of one to receive into.
const SEND_MIN: u32 = 4608;
const RECEIVE_MIN: u32 = 2304;

impl Found {
    /// The size of a buffer; `None` for other options.
    pub fn buffer_option(self, option: (i32, i32)) -> Option<i32> {
        let size = match option {
            (SOL_SOCKET, SO_RCVBUF) => &self.socket().receive_buffer,
            (SOL_SOCKET, SO_SNDBUF) => &self.socket().send_buffer,
            _ => return None,
        };
        Some(match size.load(Ordering::Relaxed) {
            0 if self.is_datagrams() => BUFFER as i32,
            0 => RING as i32,
            size => size as i32,
        })
    }

    /// Those that the program has set, with what it has said of them: the kernel doubles that.
    pub fn buffers_set(self) -> impl Iterator<Item = (i32, u32)> {
        let socket = self.socket();
        let sizes = [
            (SO_SNDBUF, &socket.send_buffer),
            (SO_RCVBUF, &socket.receive_buffer),
        ];
        let said = sizes.map(|(option, size)| (option, size.load(Ordering::Relaxed) / 2));
        said.into_iter().filter(|(_, size)| *size > 0)
    }

    /// Sets it; `None` for other options.
    pub fn set_buffer_option(self, option: (i32, i32), value: &[u8]) -> Option<Result<(), i32>> {
        let socket = self.socket();
        let set = |size: &AtomicU32, least: u32, most: u32| {
            let wanted = option_number(option.0, value)?.max(0) as u32;
            size.store(
                wanted.min(most).saturating_mul(2).max(least),
                Ordering::Relaxed,
            );
            Ok(())
        };
        Some(match option {
            (SOL_SOCKET, SO_SNDBUF) => set(&socket.send_buffer, SEND_MIN, BUFFER),
            (SOL_SOCKET, SO_RCVBUF) => set(&socket.receive_buffer, RECEIVE_MIN, BUFFER),
            (SOL_SOCKET, SO_SNDBUFFORCE) => set(&socket.send_buffer, SEND_MIN, UNLIMITED),
            (SOL_SOCKET, SO_RCVBUFFORCE) => set(&socket.receive_buffer, RECEIVE_MIN, UNLIMITED),
            _ => return None,
        })
    }
}
