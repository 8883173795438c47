//! Options of TCP (tcp(7)), and `IPV6_V6ONLY` of sockets for it.

use std::sync::atomic::Ordering;

use super::value::number_at;
use crate::ask::ask;
use crate::memory::options::{IPV6, NODELAY, V6_ONLY};
use crate::memory::state::NO_WRITES;
use crate::memory::{Ask, LivenessOptions};
use crate::process::Found;
use crate::system::*;

/// Numbers of states (`tcpi_state`).
const ESTABLISHED: u8 = 1;
const FIN_WAIT_1: u8 = 4;
const CLOSED: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const LISTEN: u8 = 10;

/// What a segment holds of a socket that is not connected.
const NO_SEGMENT: i32 = 536;

/// The congestion control of `exos run`'s stack: what `exos_inet` has by default.
pub(super) const CONGESTION: [u8; 16] = *b"cubic\0\0\0\0\0\0\0\0\0\0\0";

impl Found {
    /// The value of one of these options; `None` for others.
    pub fn tcp_option(self, option: (i32, i32)) -> Option<Result<i32, i32>> {
        let socket = self.socket();
        let liveness = &socket.liveness;
        Some(Ok(match option {
            (IPPROTO_TCP, TCP_NODELAY) => socket.has(NODELAY).into(),
            (IPPROTO_TCP, TCP_KEEPIDLE) => liveness.idle_seconds() as i32,
            (IPPROTO_TCP, TCP_KEEPINTVL) => liveness.interval_seconds() as i32,
            (IPPROTO_TCP, TCP_KEEPCNT) => liveness.count().into(),
            (IPPROTO_TCP, TCP_USER_TIMEOUT) => {
                liveness.user_timeout_ms.load(Ordering::Relaxed) as i32
            }
            (IPPROTO_TCP, TCP_MAXSEG) => return Some(self.segment_size()),
            (IPPROTO_IPV6, IPV6_V6ONLY) if socket.has(IPV6) => socket.has(V6_ONLY).into(),
            _ => return None,
        }))
    }

    /// Sets one; `None` for others.
    pub fn set_tcp_option(self, option: (i32, i32), value: &[u8]) -> Option<Result<(), i32>> {
        let socket = self.socket();
        let LivenessOptions {
            idle_seconds,
            interval_seconds,
            count,
            user_timeout_ms,
        } = &socket.liveness;
        let (word, least, most) = match option {
            (IPPROTO_TCP, TCP_KEEPIDLE) => (idle_seconds, 1, LivenessOptions::SECONDS_MAX),
            (IPPROTO_TCP, TCP_KEEPINTVL) => (interval_seconds, 1, LivenessOptions::SECONDS_MAX),
            (IPPROTO_TCP, TCP_KEEPCNT) => (count, 1, LivenessOptions::COUNT_MAX),
            (IPPROTO_TCP, TCP_USER_TIMEOUT) => (user_timeout_ms, 0, i32::MAX as u32),
            (IPPROTO_TCP, TCP_CONGESTION) => {
                let name = value.split(|byte| *byte == 0).next();
                let is_ours = name == CONGESTION.split(|byte| *byte == 0).next();
                return Some(if is_ours { Ok(()) } else { Err(ENOENT) });
            }
            // It has a port.
            (IPPROTO_IPV6, IPV6_V6ONLY) if socket.has(IPV6) => {
                return Some(number_at(value, 0).and(Err(EINVAL)));
            }
            _ => return None,
        };
        Some(number_at(value, 0).and_then(|number| {
            let number = u32::try_from(number).map_err(|_| EINVAL)?;
            if !(least..=most).contains(&number) {
                return Err(EINVAL);
            }
            word.store(number, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// What its segments hold (`TCP_MAXSEG`).
    fn segment_size(self) -> Result<i32, i32> {
        match self.tcp_info()?[16..20] {
            [0, 0, 0, 0] => Ok(NO_SEGMENT),
            [a, b, c, d] => Ok(i32::from_ne_bytes([a, b, c, d])),
            _ => Err(ENOTCONN),
        }
    }

    /// What the stack knows of the connection (`struct tcp_info`, its first 104 bytes).
    pub(super) fn tcp_info(self) -> Result<[u8; 104], i32> {
        let mut info = [0; 104];
        let at = info.as_mut_ptr().expose_provenance();
        if ask(self.number as i32, Ask::Info, at) < 0 {
            return Err(ENOTCONN);
        }
        // The stack may not have heard yet of an end that waits behind what was written, nor of a listener that is shut down.
        info[0] = match info[0] {
            ESTABLISHED if self.socket().is(NO_WRITES) => FIN_WAIT_1,
            CLOSE_WAIT if self.socket().is(NO_WRITES) => LAST_ACK,
            LISTEN if !self.listens() => CLOSED,
            state => state,
        };
        Ok(info)
    }
}
