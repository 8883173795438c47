//! What goes beside a datagram's bytes (recvmsg(2), cmsg(3)): by which of our addresses it came, or is to go.

use std::sync::atomic::Ordering;

use crate::addresses::is_loopback;
use crate::datagrams::Came;
use crate::memory::Address;
use crate::memory::options::{
    IPV6, PKTINFO, PKTINFO_V6, RECEIVE_CLASS, RECEIVE_HOPS, RECEIVE_TOS, RECEIVE_TTL,
};
use crate::options::{class_of, hops_of};
use crate::process::Found;
use crate::sockets::put_address;
use crate::system::*;

/// The interface by which this host reaches itself (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;

/// Bytes of a piece's head: its length with it, level, kind.
const HEAD: usize = 16;

/// The pieces that a message holds: level, kind, and where their bytes lie.
///
/// # Safety
///
/// They can be read.
pub unsafe fn pieces(message: &Message) -> Vec<(i32, i32, *const u8, usize)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while !message.control.is_null() && at + HEAD <= message.control_len {
        // SAFETY: within the program's message.
        unsafe {
            let head = message.control.add(at);
            let len = head.cast::<usize>().read_unaligned();
            let level = head.add(8).cast::<i32>().read_unaligned();
            let kind = head.add(12).cast::<i32>().read_unaligned();
            if len < HEAD || len > message.control_len - at {
                break;
            }
            pieces.push((level, kind, head.add(HEAD).cast_const(), len - HEAD));
            at += len.next_multiple_of(8);
        }
    }
    pieces
}

/// Whether a connection takes what a message says beside its bytes: of sockets, what there is, and pieces that are whole. Nothing is changed
/// by it.
///
/// # Safety
///
/// As above.
pub unsafe fn is_known(message: &Message) -> bool {
    // SAFETY: the caller's promise.
    let pieces = unsafe { pieces(message) };
    let lens = pieces
        .iter()
        .map(|(.., len)| (HEAD + len).next_multiple_of(8));
    let is_whole = message.control.is_null() || message.control_len < lens.sum::<usize>() + HEAD;
    is_whole
        && pieces
            .iter()
            .all(|(level, kind, ..)| *level != SOL_SOCKET || is_of_sockets(*kind))
}

/// Pieces of sockets' level that are taken, and change nothing.
fn is_of_sockets(kind: i32) -> bool {
    [
        SCM_RIGHTS,
        SCM_CREDENTIALS,
        SO_PRIORITY,
        SO_MARK,
        SO_TIMESTAMPING,
        SO_TXTIME,
        SO_TIMESTAMPING_NEW,
    ]
    .contains(&kind)
}

/// How a message is to be sent.
#[derive(Copy, Clone, Default)]
pub struct Wishes {
    /// From which address (`IP_PKTINFO`, `IPV6_PKTINFO`); of no length where that is not said.
    pub source: Address,
    /// Cut into datagrams of this length (`UDP_SEGMENT`; zero: not cut), where that is said.
    pub segment: Option<u16>,
    /// How many hops it may take, and its class, of IPv4 and of IPv6, where that is said.
    pub headers: [(Option<u8>, Option<u8>); 2],
}

impl Wishes {
    /// Takes what a piece says of a header.
    fn take_header(&mut self, level: i32, kind: i32, value: &[u8]) -> Result<(), i32> {
        let number = match (level, kind, value) {
            (IPPROTO_IP, IP_TOS, &[class]) => class.into(),
            (_, _, &[a, b, c, d]) => i32::from_ne_bytes([a, b, c, d]),
            _ => return Err(EINVAL),
        };
        match (level, kind) {
            (IPPROTO_IP, IP_TTL) if number > 0 => self.headers[0].0 = hops_of(1, number)?,
            (IPPROTO_IP, IP_TOS) if number >= 0 => self.headers[0].1 = Some(class_of(number)?),
            (IPPROTO_IPV6, IPV6_TCLASS) => self.headers[1].1 = Some(class_of(number)?),
            (IPPROTO_IPV6, _) => self.headers[1].0 = hops_of(0, number)?,
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}

/// What a message of a socket of IPv6, or of IPv4, says of how it is to be sent.
///
/// # Errors
///
/// A piece is of a kind that the kernel's sockets do not know.
///
/// # Safety
///
/// The message can be read.
pub unsafe fn wishes(message: &Message, is_v6: bool) -> Result<Wishes, i32> {
    let mut wishes = Wishes::default();
    // SAFETY: the caller's promise.
    for (level, kind, at, len) in unsafe { pieces(message) } {
        let (family, skip, size, to) = match (level, kind) {
            (IPPROTO_IP, IP_PKTINFO) if len >= 12 => (AF_INET, 4, 4, 4),
            (IPPROTO_IPV6, IPV6_PKTINFO) if len >= 20 => (AF_INET6, 0, 16, 8),
            (IPPROTO_IP, IP_PKTINFO) | (IPPROTO_IPV6, IPV6_PKTINFO) => return Err(EINVAL),
            // Taken, and nothing is changed by them.
            (IPPROTO_IP, IP_PROTOCOL) | (IPPROTO_IPV6, IPV6_FLOWINFO | IPV6_DONTFRAG) => continue,
            (SOL_SOCKET, kind) if is_of_sockets(kind) => continue,
            (IPPROTO_IP, IP_TTL | IP_TOS)
            | (IPPROTO_IPV6, IPV6_HOPLIMIT | IPV6_2292HOPLIMIT | IPV6_TCLASS) => {
                // SAFETY: the piece is as long as it says.
                let value = unsafe { std::slice::from_raw_parts(at, len) };
                wishes.take_header(level, kind, value)?;
                continue;
            }
            (IPPROTO_UDP, UDP_SEGMENT) if len == 2 => {
                // SAFETY: the piece is long enough.
                wishes.segment = Some(unsafe { at.cast::<u16>().read_unaligned() });
                continue;
            }
            // What nobody knows.
            (IPPROTO_UDP | SOL_SOCKET, _) => return Err(EINVAL),
            (IPPROTO_IP, _) if !is_v6 => return Err(EINVAL),
            (IPPROTO_IPV6, _) if is_v6 => return Err(EINVAL),
            _ => continue,
        };
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        // SAFETY: the piece is long enough.
        unsafe {
            at.add(skip)
                .copy_to_nonoverlapping(bytes[to..].as_mut_ptr(), size)
        };
        if bytes[to..to + size].iter().any(|byte| *byte != 0) {
            let len = if family == AF_INET { 16 } else { 28 };
            wishes.source = Address { bytes, len };
        }
    }
    Ok(wishes)
}

/// Writes pieces into a message, cut to the room that there is.
struct Writer {
    at: *mut u8,
    room: usize,
    used: usize,
    flags: i32,
}

impl Writer {
    unsafe fn put(&mut self, level: i32, kind: i32, bytes: &[u8]) {
        let room = self.room - self.used;
        if self.at.is_null() || room < HEAD {
            self.flags |= MSG_CTRUNC;
            return;
        }
        let mut len = HEAD + bytes.len();
        if room < len {
            self.flags |= MSG_CTRUNC;
            len = room;
        }
        // SAFETY: the caller's promise: there is room for `len`.
        unsafe {
            let head = self.at.add(self.used);
            head.cast::<usize>().write_unaligned(len);
            head.add(8).cast::<i32>().write_unaligned(level);
            head.add(12).cast::<i32>().write_unaligned(kind);
            head.add(HEAD)
                .copy_from_nonoverlapping(bytes.as_ptr(), len - HEAD);
        }
        self.used += len.next_multiple_of(8).min(room);
    }
}

impl Found {
    /// Reads a datagram, with who sent it, and what the program wants to know besides.
    ///
    /// # Safety
    ///
    /// The stretches of memory, and what the message says, can be written.
    pub unsafe fn receive_message(
        self,
        message: &mut Message,
        parts: &[Iovec],
        flags: i32,
    ) -> Result<usize, i32> {
        // SAFETY: the caller's promise, of all of these.
        unsafe {
            let came = self.receive_datagram(parts, flags)?;
            // What room there is for it is looked at with the message.
            let _ = put_address(came.from, message.name, &raw mut message.name_len);
            let mut writer = Writer {
                at: message.control,
                room: message.control_len,
                used: 0,
                flags: came.flags(),
            };
            self.tell_of(&came, &mut writer);
            message.control_len = writer.used;
            message.flags = writer.flags;
            Ok(came.count(flags))
        }
    }

    /// Says to which address a datagram came.
    unsafe fn tell_of(self, came: &Came, writer: &mut Writer) {
        let socket = self.socket();
        // It came from nobody.
        if came.to.len == 0 {
            return;
        }
        let interface = match is_loopback(came.to) {
            true => LOOPBACK,
            false => self.here.shared.interface().load(Ordering::Relaxed),
        };
        let interface = interface.to_ne_bytes();
        let is_v6 = socket.has(IPV6);
        let bytes = &came.to.bytes;
        if is_v6 && socket.has(PKTINFO_V6) {
            let info = [&bytes[8..24], &interface].concat();
            // SAFETY: the caller's promise.
            unsafe { writer.put(IPPROTO_IPV6, IPV6_PKTINFO, &info) };
        }
        let v4 = match is_v6 {
            false => Some(&bytes[4..8]),
            true if bytes[8..18] == [0; 10] && bytes[18..20] == [0xff; 2] => Some(&bytes[20..24]),
            true => None,
        };
        if let Some(v4) = v4.filter(|_| socket.has(PKTINFO)) {
            let info = [&interface, v4, v4].concat();
            // SAFETY: the caller's promise.
            unsafe { writer.put(IPPROTO_IP, IP_PKTINFO, &info) };
        }
        let hops = i32::from(came.hops).to_ne_bytes();
        let class = i32::from(came.class).to_ne_bytes();
        let pieces: [(u32, i32, i32, &[u8]); 2] = match v4 {
            Some(_) => [
                (RECEIVE_TTL, IPPROTO_IP, IP_TTL, &hops),
                (RECEIVE_TOS, IPPROTO_IP, IP_TOS, &[came.class]),
            ],
            None => [
                (RECEIVE_HOPS, IPPROTO_IPV6, IPV6_HOPLIMIT, &hops),
                (RECEIVE_CLASS, IPPROTO_IPV6, IPV6_TCLASS, &class),
            ],
        };
        for (_, level, kind, bytes) in pieces.into_iter().filter(|(bit, ..)| socket.has(*bit)) {
            // SAFETY: as above.
            unsafe { writer.put(level, kind, bytes) };
        }
    }
}
