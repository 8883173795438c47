//! Options of what the headers of a socket's packets say (ip(7), ipv6(7)): how many hops they may take, and their class of service.

use super::value::number_at;
use crate::memory::options::{IPV6, RECEIVE_CLASS, RECEIVE_HOPS, RECEIVE_TOS, RECEIVE_TTL};
use crate::process::Found;
use crate::system::*;

/// The bits of ECN in the class, which are TCP's own.
const ECN: u8 = 3;

/// The number that is an option's value. Of those of IPv4 one byte is enough, and none is zero.
pub fn option_number(level: i32, value: &[u8]) -> Result<i32, i32> {
    match number_at(value, 0) {
        Err(_) if level == IPPROTO_IP => Ok(value.first().copied().unwrap_or(0).into()),
        number => number,
    }
}

/// The number of hops that a program says; `None` for the stack's own.
pub fn hops_of(least: i32, number: i32) -> Result<Option<u8>, i32> {
    match number {
        -1 => Ok(None),
        number if number < least => Err(EINVAL),
        number => u8::try_from(number).map(Some).map_err(|_| EINVAL),
    }
}

/// The traffic class that a program says of IPv6.
pub fn class_of(number: i32) -> Result<u8, i32> {
    u8::try_from(number.max(0))
        .ok()
        .filter(|_| number >= -1)
        .ok_or(EINVAL)
}

/// The bit of an option that has what came be told.
pub fn told_bit(option: (i32, i32)) -> Option<u32> {
    Some(match option {
        (IPPROTO_IP, IP_RECVTTL) => RECEIVE_TTL,
        (IPPROTO_IP, IP_RECVTOS) => RECEIVE_TOS,
        (IPPROTO_IPV6, IPV6_RECVHOPLIMIT) => RECEIVE_HOPS,
        (IPPROTO_IPV6, IPV6_RECVTCLASS) => RECEIVE_CLASS,
        _ => return None,
    })
}

impl Found {
    /// The value of one of these options; `None` for others.
    pub fn header_option(self, (level, option): (i32, i32)) -> Option<i32> {
        let socket = self.socket();
        let headers = socket.headers(level == IPPROTO_IPV6);
        if level == IPPROTO_IPV6 && !socket.has(IPV6) {
            return None;
        }
        match (level, option) {
            (IPPROTO_IP, IP_TTL) | (IPPROTO_IPV6, IPV6_UNICAST_HOPS) => Some(headers.hops().into()),
            (IPPROTO_IP, IP_TOS) | (IPPROTO_IPV6, IPV6_TCLASS) => Some(headers.class().into()),
            _ => None,
        }
    }

    /// Sets one; `None` for others.
    pub fn set_header_option(
        self,
        (level, option): (i32, i32),
        value: &[u8],
    ) -> Option<Result<(), i32>> {
        let socket = self.socket();
        if level == IPPROTO_IPV6 && !socket.has(IPV6) {
            return None;
        }
        let headers = socket.headers(level == IPPROTO_IPV6);
        let number = || option_number(level, value);
        let set_class = |class: u8| match self.is_datagrams() {
            true => headers.set_class(class),
            false => headers.set_class(class & !ECN),
        };
        Some(match (level, option) {
            (IPPROTO_IP, IP_TTL) => number()
                .and_then(|number| hops_of(1, number))
                .map(|hops| headers.set_hops(hops)),
            (IPPROTO_IPV6, IPV6_UNICAST_HOPS) => number()
                .and_then(|number| hops_of(0, number))
                .map(|hops| headers.set_hops(hops)),
            (IPPROTO_IP, IP_TOS) => number().map(|number| set_class(number as u8)),
            (IPPROTO_IPV6, IPV6_TCLASS) => number().and_then(class_of).map(set_class),
            _ => return None,
        })
    }
}
