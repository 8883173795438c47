//! Options of sockets (getsockopt(2), setsockopt(2)): those that all have stand here, the others with what they are about.

mod buffers;
mod defaults;
mod headers;
pub mod interfaces;
mod low_water;
mod tcp;
mod timeouts;
mod value;

use std::sync::atomic::Ordering;

use crate::memory::options::{IPV6, KEEPALIVE, LINGER, NODELAY, REUSE, REUSE_PORT};
use crate::memory::state::OPTIONS;
use crate::process::Found;
use crate::system::*;

use defaults::{Said, said_by_default};
pub use headers::{class_of, hops_of, option_number, told_bit};
use value::{number_at, put};

impl Found {
    /// The value of an option, as one or two numbers (getsockopt(2)).
    ///
    /// # Safety
    ///
    /// `len` bytes at `value` can be written.
    pub unsafe fn get_option(
        self,
        (level, option): (i32, i32),
        value: *mut u8,
        len: *mut u32,
    ) -> Result<(), i32> {
        let socket = self.socket();
        let of_datagrams = self
            .is_datagrams()
            .then(|| self.datagram_option((level, option)));
        let number = match (level, option) {
            _ if let Some(Some(value)) = of_datagrams => value?,
            _ if let Some(value) = self.header_option((level, option)) => value,
            _ if let Some(value) = self.number_option((level, option)) => value,
            _ if let Some(value) = self.buffer_option((level, option)) => value,
            (SOL_SOCKET, SO_LINGER) => {
                let is_on = i32::from(socket.has(LINGER));
                let linger = [is_on, socket.linger.load(Ordering::Relaxed) as i32];
                let bytes = linger.map(i32::to_ne_bytes).concat();
                // SAFETY: the caller's promise.
                return unsafe { put(&bytes, value, len) };
            }
            (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW) => {
                let bytes = self.timeout(option).map(i64::to_ne_bytes).concat();
                // SAFETY: the caller's promise.
                return unsafe { put(&bytes, value, len) };
            }
            // SAFETY: the caller's promise.
            (SOL_SOCKET, SO_BINDTODEVICE) => return unsafe { put(&[], value, len) },
            (IPPROTO_TCP, TCP_CONGESTION) => {
                // SAFETY: the caller's promise.
                return unsafe { put(&tcp::CONGESTION, value, len) };
            }
            (IPPROTO_TCP, TCP_INFO) => {
                // SAFETY: the caller's promise.
                return unsafe { put(&self.tcp_info()?, value, len) };
            }
            _ if let Some(value) = self.tcp_option((level, option)) => value?,
            option => match said_by_default(option, self.is_datagrams(), socket.has(IPV6)) {
                Said::Number(number) => number,
                // SAFETY: the caller's promise.
                Said::Nothing => return unsafe { put(&[], value, len) },
                Said::Fails(number) => return Err(number),
            },
        };
        // SAFETY: the caller's promise.
        unsafe { put(&number.to_ne_bytes(), value, len) }
    }

    /// The value of one that is a number and has no other home; `None` for other options.
    fn number_option(self, option: (i32, i32)) -> Option<i32> {
        let socket = self.socket();
        let has = |option| i32::from(socket.has(option));
        Some(match option {
            (SOL_SOCKET, SO_ERROR) => self.take_error().err().unwrap_or(0),
            (SOL_SOCKET, SO_TYPE) => SOCK_STREAM,
            (SOL_SOCKET, SO_DOMAIN) => match socket.has(IPV6) {
                true => AF_INET6,
                false => AF_INET,
            },
            (SOL_SOCKET, SO_PROTOCOL) => IPPROTO_TCP,
            (SOL_SOCKET, SO_ACCEPTCONN) => i32::from(self.listens()),
            (SOL_SOCKET, SO_REUSEADDR) => has(REUSE),
            (SOL_SOCKET, SO_REUSEPORT) => has(REUSE_PORT),
            (SOL_SOCKET, SO_KEEPALIVE) => has(KEEPALIVE),
            (SOL_SOCKET, SO_RCVLOWAT) => self.low_water() as i32,
            (SOL_SOCKET, SO_SNDLOWAT) => 1,
            _ => return None,
        })
    }

    /// Sets an option (setsockopt(2)). Those that say how packets are sent are taken, and left to our TCP.
    pub fn set_option(self, (level, option): (i32, i32), value: &[u8]) -> Result<(), i32> {
        let socket = self.socket();
        let number = |at: usize| number_at(value, at);
        if self.is_datagrams()
            && let Some(set) = self.set_datagram_option((level, option), value)
        {
            return set;
        }
        if let Some(set) = self.set_header_option((level, option), value) {
            set?;
            socket.add(OPTIONS);
            self.here.submit(self.number);
            return Ok(());
        }
        match (level, option) {
            (SOL_SOCKET, SO_REUSEADDR) => socket.set_option(REUSE, number(0)? != 0),
            (SOL_SOCKET, SO_REUSEPORT) => socket.set_option(REUSE_PORT, number(0)? != 0),
            (SOL_SOCKET, SO_KEEPALIVE) => socket.set_option(KEEPALIVE, number(0)? != 0),
            (SOL_SOCKET, SO_LINGER) => {
                socket.linger.store(number(4)? as u32, Ordering::Relaxed);
                socket.set_option(LINGER, number(0)? != 0);
            }
            (SOL_SOCKET, SO_RCVTIMEO | SO_SNDTIMEO | SO_RCVTIMEO_NEW | SO_SNDTIMEO_NEW) => {
                return self.set_timeout(option, value);
            }
            (
                SOL_SOCKET,
                SO_TYPE | SO_ERROR | SO_DOMAIN | SO_PROTOCOL | SO_ACCEPTCONN | SO_SNDLOWAT,
            ) => {
                return Err(ENOPROTOOPT);
            }
            // Where it is lower than before, what is there may be enough: the other side tells of it.
            (SOL_SOCKET, SO_RCVLOWAT) => self.set_low_water(value)?,
            (SOL_SOCKET, SO_BINDTODEVICE) => return has_device(value),
            (SOL_SOCKET, NO_OPTIONS..) => return Err(ENOPROTOOPT),
            _ if let Some(set) = self.set_buffer_option((level, option), value) => return set,
            (IPPROTO_TCP, TCP_NODELAY) => {
                // The other side never waits with what it sends.
                socket.set_option(NODELAY, number(0)? != 0);
                return Ok(());
            }
            _ if let Some(set) = self.set_tcp_option((level, option), value) => set?,
            (SOL_SOCKET, _) => return Ok(()),
            (IPPROTO_TCP | IPPROTO_IP | IPPROTO_IPV6, _) => return Ok(()),
            _ => return Err(ENOPROTOOPT),
        }
        socket.add(OPTIONS);
        self.here.submit(self.number);
        Ok(())
    }
}

/// Whether this host has the device that a socket is to be bound to; no name unbinds it (socket(7)). Its way is the stack's link in any
/// case.
fn has_device(name: &[u8]) -> Result<(), i32> {
    const SIOCGIFINDEX: u64 = 0x8933;
    const NAME: usize = 16;
    /// `struct ifreq`.
    const REQUEST: usize = 40;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    if name.is_empty() {
        return Ok(());
    }
    let mut request = [0_u8; REQUEST];
    let len = name.len().min(NAME - 1);
    request[..len].copy_from_slice(&name[..len]);
    match interfaces::ask(SIOCGIFINDEX, request.as_mut_ptr().expose_provenance()) {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Options of sockets have lower numbers (asm/socket.h).
const NO_OPTIONS: i32 = 90;
