//! Writing datagrams into a ring, whole or cut into several (`UDP_SEGMENT`, udp(7)).

use std::sync::atomic::Ordering;

use crate::addresses::{ipv4_of, is_broadcast, is_ipv4, is_loopback, is_other_host};
use crate::ask::ask;
use crate::control::Wishes;
use crate::memory::options::{BROADCAST, IPV6, V6_ONLY};
use crate::memory::state::{NO_IPV4, NO_IPV6, NO_WRITES, STANDS};
use crate::memory::{Address, Ask, DATAGRAM_HEAD, DATAGRAM_MAX, DatagramHead, SEGMENTS_MAX};
use crate::process::Found;
use crate::ring::Ring;
use crate::system::{self, *};
use crate::wait::Patience;

mod corking;

/// The longest datagram over IPv4, whose packet has its header in the 16 bits of its length, too.
const IPV4_MAX: usize = DATAGRAM_MAX - 20;

impl Found {
    /// Sends these stretches of memory to an address, or to the peer: as one datagram, unless the program wishes that they are cut.
    ///
    /// # Safety
    ///
    /// They can be read.
    pub unsafe fn transmit_datagram(
        self,
        from: &[Iovec],
        flags: i32,
        to: Option<Address>,
        wishes: Wishes,
    ) -> Result<usize, i32> {
        self.take_port()?;
        let len = from
            .iter()
            .fold(0_usize, |sum, part| sum.saturating_add(part.len));
        if len > usize::from(u16::MAX) {
            let has_peer = to.is_some() || self.socket().is(STANDS) || self.is_corked();
            self.forget_begun_of_v6()?;
            // Of IPv6 that it goes nowhere is told first.
            return Err(match self.socket().has(IPV6) && !has_peer {
                true => EDESTADDRREQ,
                false => EMSGSIZE,
            });
        }
        if flags & MSG_OOB != 0 {
            return Err(EOPNOTSUPP);
        }
        let socket = self.socket();
        if self.is_corked() {
            let _one = self.here.lock(&socket.writes);
            self.check()?;
            // SAFETY: the caller's promise.
            if let Some(added) = unsafe { self.append(from, len, self.is_more(flags)) } {
                return added.map(|()| len);
            }
        }
        let connected = || socket.is(STANDS).then(|| socket.peer.get());
        let peer = to.or_else(connected).ok_or(EDESTADDRREQ)?;
        self.can_reach(peer, wishes.source)?;
        let most = if is_ipv4(peer) {
            IPV4_MAX
        } else {
            DATAGRAM_MAX
        };
        if len > most {
            return Err(EMSGSIZE);
        }
        self.can_send_from(wishes.source, peer)?;
        let is_v6 = !is_ipv4(peer);
        let (wished, headers) = (wishes.headers[usize::from(is_v6)], socket.headers(is_v6));
        let head = DatagramHead {
            len: len as u32,
            hops: wished.0.unwrap_or_else(|| headers.hops()),
            class: wished.1.unwrap_or_else(|| headers.class()),
            peer,
            local: wishes.source,
        };
        // SAFETY: the caller's promise.
        unsafe { self.put_datagrams(&head, from, wishes.segment, flags)? };
        Ok(len)
    }

    /// Sends a part of a file (sendfile(2)) as one datagram.
    pub fn transmit_file_whole(
        self,
        file: i32,
        offset: Option<i64>,
        wanted: usize,
    ) -> Result<usize, i32> {
        // What is longer than the longest datagram is refused.
        let mut bytes = vec![0; wanted.min(usize::from(u16::MAX) + 1)];
        // SAFETY: a descriptor of this process, and a buffer as long as it says.
        let (at, read) = unsafe {
            let at = offset.unwrap_or_else(|| system::lseek64(file, 0, SEEK_CUR));
            (
                at,
                system::pread64(file, bytes.as_mut_ptr(), bytes.len(), at),
            )
        };
        match usize::try_from(read) {
            Err(_) => return Err(system::errno()),
            Ok(0) => return Ok(0),
            Ok(read) => bytes.truncate(read),
        }
        let part = Iovec {
            base: bytes.as_mut_ptr(),
            len: bytes.len(),
        };
        // SAFETY: it is as long as it says.
        let sent = unsafe { self.transmit_datagram(&[part], 0, None, Wishes::default())? };
        if offset.is_none() {
            // SAFETY: as above.
            unsafe { system::lseek64(file, at + sent as i64, SEEK_SET) };
        }
        Ok(sent)
    }

    /// Into how long datagrams this many bytes are cut, where that is to be done at all (`UDP_SEGMENT`).
    fn segment(self, segment: usize, len: usize, is_v4: bool) -> Result<usize, i32> {
        if segment == 0 {
            return Ok(len.max(1));
        }
        let heads = if is_v4 { 28 } else { 48 };
        let mtu = self.here.shared.mtu().load(Ordering::Relaxed) as usize;
        match heads + len.min(segment) > mtu {
            true => Err(EMSGSIZE),
            false if len > segment * SEGMENTS_MAX => Err(EINVAL),
            false => Ok(segment),
        }
    }

    /// Whether an address that the program wishes to send from is the stack's, or this host's by which it reaches itself alone.
    fn can_send_from(self, source: Address, peer: Address) -> Result<(), i32> {
        let last = &self.socket().source;
        if is_loopback(source) && is_other_host(peer) {
            return Err(EINVAL);
        }
        if source.len == 0 || source == last.get() {
            return Ok(());
        }
        let at = source.bytes.as_ptr().expose_provenance();
        if ask(self.number as i32, Ask::Source, at) >= 0 {
            last.set(source);
            return Ok(());
        }
        // Of IPv4 the kernel finds no route from there, unless no host can have the address.
        match ipv4_of(source) {
            None | Some([127 | 224..=239, ..] | [255, 255, 255, 255]) => Err(EINVAL),
            Some(_) => Err(ENETUNREACH),
        }
    }

    unsafe fn put_datagrams(
        self,
        head: &DatagramHead,
        from: &[Iovec],
        segment: Option<u16>,
        flags: i32,
    ) -> Result<(), i32> {
        let socket = self.socket();
        let of_socket = || socket.segment.load(Ordering::Relaxed) as usize;
        let segment = segment.map_or_else(of_socket, usize::from);
        let (len, is_v4) = (head.len as usize, is_ipv4(head.peer));
        let patience = Patience::new(self, flags, &socket.send_timeout);
        loop {
            self.take_error()?;
            if socket.is(NO_WRITES) {
                return Err(EPIPE);
            }
            let is_put = {
                let _one = self.here.lock(&socket.writes);
                self.check()?;
                let ring = self.here.shared.outward(self.number);
                let is_more = self.is_more(flags);
                // SAFETY: the caller's promise.
                if let Some(added) = unsafe { self.append(from, len, is_more) } {
                    return added;
                }
                // SAFETY: as above.
                unsafe {
                    match is_more {
                        true => self.begin(&ring, head, from, segment),
                        false => push_cut(&ring, head, from, self.segment(segment, len, is_v4)?),
                    }
                }
            };
            if is_put {
                self.here.submit(self.number);
                return Ok(());
            }
            let ready = || self.is_writable();
            match patience.wait(self, (&socket.left, &socket.writers), ready) {
                // Its program hears when there is room, unless there is by now.
                Err(EAGAIN) if !patience.may_wait() && self.is_writable() => {}
                waited => waited?,
            }
        }
    }

    /// Whether there is a way to an address, as far as that can be said at once.
    fn can_reach(self, to: Address, source: Address) -> Result<(), i32> {
        let socket = self.socket();
        let local = socket.local.get();
        // This host is reached by one that is at all addresses, or is connected to it.
        let has_none = match (is_other_host(to), is_ipv4(to)) {
            (_, true) if socket.has(V6_ONLY) => true,
            (false, _) => is_other_host(local),
            (true, true) => socket.is(NO_IPV4),
            (true, false) => socket.is(NO_IPV6),
        };
        if has_none {
            return Err(ENETUNREACH);
        }
        if is_other_host(to) && is_loopback(local) && source.len == 0 {
            return Err(EINVAL);
        }
        // One that is at an address of IPv4 has no other.
        if !is_ipv4(to) && is_ipv4(local) && is_other_host(local) {
            return Err(EAFNOSUPPORT);
        }
        match is_broadcast(to) && !socket.has(BROADCAST) {
            true => Err(EACCES),
            false => Ok(()),
        }
    }
}

/// Writes stretches of memory into a ring, as datagrams of this length and a last one; false where there is no room for all.
///
/// # Safety
///
/// They can be read.
unsafe fn push_cut(ring: &Ring<'_>, head: &DatagramHead, from: &[Iovec], segment: usize) -> bool {
    let mut left = head.len as usize;
    if ring.free() < left.div_ceil(segment).max(1) * DATAGRAM_HEAD + left {
        return false;
    }
    let mut stretches = from.iter().map(|part| (part.base.cast_const(), part.len));
    let mut stretch = (std::ptr::null(), 0);
    let mut parts = Vec::with_capacity(from.len() + 1);
    loop {
        let len = left.min(segment);
        let bytes = DatagramHead {
            len: len as u32,
            ..*head
        }
        .to_bytes();
        parts.clear();
        parts.push((bytes.as_ptr(), bytes.len()));
        let mut wanted = len;
        while wanted > 0 {
            if stretch.1 == 0 {
                // Another thread may make them shorter meanwhile.
                let Some(next) = stretches.next() else { break };
                stretch = next;
            }
            let now = stretch.1.min(wanted);
            parts.push((stretch.0, now));
            stretch = (stretch.0.wrapping_add(now), stretch.1 - now);
            wanted -= now;
        }
        // SAFETY: the caller's promise.
        if !unsafe { ring.push_whole(&parts) } {
            return false;
        }
        left -= len;
        if left == 0 {
            return true;
        }
    }
}
