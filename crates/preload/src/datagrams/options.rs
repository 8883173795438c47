//! Options of sockets for datagrams (ip(7), ipv6(7), udp(7)).

use std::sync::atomic::Ordering;

use crate::addresses::{is_ipv4, is_loopback};
use crate::memory::options::{BROADCAST, CORK, GRO, IPV6, PKTINFO, PKTINFO_V6, V6_ONLY};
use crate::memory::state::{HAS_PORT, STANDS};
use crate::options::{option_number, told_bit};
use crate::process::Found;
use crate::system::*;

impl Found {
    /// The value of an option that these sockets have for themselves; `None` for the others.
    pub fn datagram_option(self, option: (i32, i32)) -> Option<Result<i32, i32>> {
        let socket = self.socket();
        if option.0 == IPPROTO_IPV6 && !socket.has(IPV6) {
            return Some(Err(EOPNOTSUPP));
        }
        if let Some(bit) = bit_of(option) {
            return Some(Ok(i32::from(socket.has(bit))));
        }
        Some(Ok(match option {
            (IPPROTO_IP, IP_MTU) | (IPPROTO_IPV6, IPV6_MTU) => return Some(self.mtu()),
            (SOL_SOCKET, SO_TYPE) => SOCK_DGRAM,
            (SOL_SOCKET, SO_PROTOCOL) => IPPROTO_UDP,
            (SOL_SOCKET, SO_ACCEPTCONN) => 0,
            (IPPROTO_UDP, UDP_SEGMENT) => socket.segment.load(Ordering::Relaxed) as i32,
            (IPPROTO_UDP, _) => 0,
            // As the level beneath says, which is one of IPv6 or IPv4.
            (IPPROTO_TCP, _) if socket.has(IPV6) => return Some(Err(ENOPROTOOPT)),
            (IPPROTO_TCP, _) => return Some(Err(EOPNOTSUPP)),
            _ => return None,
        }))
    }

    /// How long packets to its peer can be.
    fn mtu(self) -> Result<i32, i32> {
        /// What loopback has; of IPv4 the kernel tells no more than a packet can have.
        const LOOPBACK: i32 = 65_536;
        const LOOPBACK_V4: i32 = 65_535;
        let socket = self.socket();
        match socket.is(STANDS) {
            true if is_loopback(socket.peer.get()) => Ok(match is_ipv4(socket.peer.get()) {
                true => LOOPBACK_V4,
                false => LOOPBACK,
            }),
            true => Ok(self.here.shared.mtu().load(Ordering::Relaxed) as i32),
            false => Err(ENOTCONN),
        }
    }

    /// Sets one; `None` for the others.
    pub fn set_datagram_option(self, option: (i32, i32), value: &[u8]) -> Option<Result<(), i32>> {
        const JOIN: [i32; 4] = [35, 39, 42, 46];
        const JOIN_V6: [i32; 3] = [20, 42, 46];
        let socket = self.socket();
        let number = || option_number(option.0, value);
        if option.0 == IPPROTO_IPV6 && !socket.has(IPV6) {
            return Some(Err(ENOPROTOOPT));
        }
        if let Some(bit) = bit_of(option) {
            if bit == V6_ONLY && socket.is(HAS_PORT) {
                return Some(Err(EINVAL));
            }
            return Some(number().map(|value| {
                socket.set_option(bit, value != 0);
                if (bit, value) == (CORK, 0) {
                    self.uncork();
                }
            }));
        }
        if !is_known(option) || option == (IPPROTO_IP, IP_MTU) {
            return Some(Err(ENOPROTOOPT));
        }
        Some(match option {
            // Groups are not heard.
            (IPPROTO_IP, name) if JOIN.contains(&name) => Err(EOPNOTSUPP),
            (IPPROTO_IPV6, name) if JOIN_V6.contains(&name) => Err(EOPNOTSUPP),
            (IPPROTO_UDP, UDP_SEGMENT) => number().and_then(|size| {
                let size = u16::try_from(size).map_err(|_| EINVAL)?;
                socket.segment.store(size.into(), Ordering::Relaxed);
                Ok(())
            }),
            (IPPROTO_UDP | IPPROTO_TCP, _) => Err(ENOPROTOOPT),
            _ => return None,
        })
    }
}

/// Whether the kernel has an option of this name (linux/in.h, linux/in6.h).
fn is_known((level, name): (i32, i32)) -> bool {
    match level {
        IPPROTO_IP => matches!(name, 1..=8 | 10..=26 | 32..=52),
        IPPROTO_IPV6 => matches!(name, 1..=11 | 16..=36 | 42..=62 | 66..=70 | 72..=78),
        _ => true,
    }
}

/// The bit of an option that is on or off.
fn bit_of(option: (i32, i32)) -> Option<u32> {
    Some(match option {
        (SOL_SOCKET, SO_BROADCAST) => BROADCAST,
        (IPPROTO_IP, IP_PKTINFO) => PKTINFO,
        (IPPROTO_IPV6, IPV6_RECVPKTINFO) => PKTINFO_V6,
        (IPPROTO_IPV6, IPV6_V6ONLY) => V6_ONLY,
        (IPPROTO_UDP, UDP_CORK) => CORK,
        // That several may be read as one; they never are.
        (IPPROTO_UDP, UDP_GRO) => GRO,
        _ => return told_bit(option),
    })
}
