//! One socket, as both sides see it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::WATCHERS;
use crate::ring::Positions;

/// What a socket is; bits of [`Socket::state`].
pub mod state {
    /// It takes connections: their numbers come in its ring, 4 bytes each.
    pub const LISTENS: u32 = 1;
    /// The handshake is complete.
    pub const STANDS: u32 = 2;
    /// The peer has finished; what is in the ring is all.
    pub const FINISHED: u32 = 4;
    /// Nothing goes either way any more.
    pub const OVER: u32 = 8;
    /// It is shared no more: its descriptors are to be Unix sockets ([`Ask::Unshare`](super::super::Ask::Unshare)).
    pub const UNSHARED: u32 = 16;
    /// The program writes no more (`shutdown`, or by closing it).
    pub const NO_WRITES: u32 = 32;
    /// The program awaits nothing more to read.
    pub const NO_READS: u32 = 64;
    /// The program waits for room in the ring out.
    pub const WANTS_ROOM: u32 = 128;
    /// More has come than the ring in had room for.
    pub const HAS_MORE: u32 = 256;
    /// The program has changed options.
    pub const OPTIONS: u32 = 512;
    /// A process has it, or had: without a descriptor it is closed.
    pub const TAKEN: u32 = 1024;
    /// It is for datagrams: what its rings hold ([`DatagramHead`](super::super::DatagramHead)). It stands while it is connected.
    pub const DATAGRAMS: u32 = 2048;
    /// Of datagrams: it has a port.
    pub const HAS_PORT: u32 = 4096;
    /// Of datagrams: no address of this family can be reached.
    pub const NO_IPV4: u32 = 8192;
    /// As above.
    pub const NO_IPV6: u32 = 16384;
}

/// Options of a socket; bits of [`Socket::options`].
pub mod options {
    /// Calls do not wait.
    pub const NONBLOCK: u32 = 1;
    /// `TCP_NODELAY`.
    pub const NODELAY: u32 = 2;
    /// `SO_KEEPALIVE`.
    pub const KEEPALIVE: u32 = 4;
    /// `SO_LINGER` is on.
    pub const LINGER: u32 = 8;
    /// `SO_REUSEADDR`.
    pub const REUSE: u32 = 16;
    /// Its addresses are of IPv6.
    pub const IPV6: u32 = 32;
    /// The program has not heard that it stands: `connect` tells it once.
    pub const UNHEARD: u32 = 64;
    /// `IP_PKTINFO`.
    pub const PKTINFO: u32 = 128;
    /// `IPV6_RECVPKTINFO`.
    pub const PKTINFO_V6: u32 = 256;
    /// `IPV6_V6ONLY`.
    pub const V6_ONLY: u32 = 512;
    /// `SO_BROADCAST`.
    pub const BROADCAST: u32 = 1024;
    /// `SO_REUSEPORT`.
    pub const REUSE_PORT: u32 = 2048;
    /// `UDP_GRO`.
    pub const GRO: u32 = 4096;
    /// `UDP_CORK`.
    pub const CORK: u32 = 8192;
    /// `IP_RECVTTL`.
    pub const RECEIVE_TTL: u32 = 1 << 14;
    /// `IP_RECVTOS`.
    pub const RECEIVE_TOS: u32 = 1 << 15;
    /// `IPV6_RECVHOPLIMIT`.
    pub const RECEIVE_HOPS: u32 = 1 << 16;
    /// `IPV6_RECVTCLASS`.
    pub const RECEIVE_CLASS: u32 = 1 << 17;
}

/// An address in the kernel's form (ip(7), ipv6(7)), and how long that is.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub struct Address {
    /// Its bytes, behind which there are zeroes.
    pub bytes: [u8; 28],
    /// How many they are.
    pub len: u32,
}

/// An address that one side sets before the other sees its socket, or before it is said to stand.
#[repr(C, align(8))]
#[derive(Default)]
pub struct SharedAddress([AtomicU64; 4]);

impl SharedAddress {
    /// Sets it.
    pub fn set(&self, address: Address) {
        let mut bytes = [0; 32];
        bytes[..28].copy_from_slice(&address.bytes);
        bytes[28..].copy_from_slice(&address.len.to_ne_bytes());
        for (word, eight) in self.0.iter().zip(bytes.chunks_exact(8)) {
            word.store(
                u64::from_ne_bytes(eight.try_into().expect("eight")),
                Ordering::Relaxed,
            );
        }
    }

    /// The address; nonsense while it is being set.
    pub fn get(&self) -> Address {
        let mut bytes = [0; 32];
        for (word, eight) in self.0.iter().zip(bytes.chunks_exact_mut(8)) {
            eight.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        let (address, len) = bytes.split_at(28);
        let len = u32::from_ne_bytes(len.try_into().expect("four"));
        Address {
            bytes: address.try_into().expect("28"),
            len: len.min(28),
        }
    }
}

/// What a program wants the headers of a family's packets to say.
#[repr(C)]
#[derive(Default)]
pub struct HeaderOptions {
    /// One more than `IP_TTL` or `IPV6_UNICAST_HOPS`; zero: it has said nothing.
    pub hops: AtomicU32,
    /// `IP_TOS`, or `IPV6_TCLASS`.
    pub class: AtomicU32,
}

/// How many hops packets may take of which a program says nothing, as by the kernel.
const HOPS: u8 = 64;

impl HeaderOptions {
    /// The number of hops.
    pub fn hops(&self) -> u8 {
        let hops = self.hops.load(Ordering::Relaxed);
        hops.checked_sub(1).map_or(HOPS, |hops| hops as u8)
    }

    /// The type-of-service byte, or traffic class.
    pub fn class(&self) -> u8 {
        self.class.load(Ordering::Relaxed) as u8
    }

    /// Sets the number of hops; `None` for the stack's own.
    pub fn set_hops(&self, hops: Option<u8>) {
        let hops = hops.map_or(0, |hops| u32::from(hops) + 1);
        self.hops.store(hops, Ordering::Relaxed);
    }

    /// Sets the type-of-service byte, or traffic class.
    pub fn set_class(&self, class: u8) {
        self.class.store(class.into(), Ordering::Relaxed);
    }
}

/// When a program wants TCP to give a silent peer up (tcp(7)); zero: it has said nothing.
#[repr(C)]
#[derive(Default)]
pub struct LivenessOptions {
    /// `TCP_KEEPIDLE`.
    pub idle_seconds: AtomicU32,
    /// `TCP_KEEPINTVL`.
    pub interval_seconds: AtomicU32,
    /// `TCP_KEEPCNT`.
    pub count: AtomicU32,
    /// `TCP_USER_TIMEOUT`.
    pub user_timeout_ms: AtomicU32,
}

impl LivenessOptions {
    /// What the kernel takes of seconds.
    pub const SECONDS_MAX: u32 = 32_767;
    /// What it takes of questions.
    pub const COUNT_MAX: u32 = 127;

    /// Silence before the first question (RFC 1122 §4.2.3.6: two hours).
    pub fn idle_seconds(&self) -> u32 {
        or_else(&self.idle_seconds, 7200).min(Self::SECONDS_MAX)
    }

    /// Between questions.
    pub fn interval_seconds(&self) -> u32 {
        or_else(&self.interval_seconds, 75).min(Self::SECONDS_MAX)
    }

    /// Questions without an answer after which the connection is given up.
    pub fn count(&self) -> u8 {
        or_else(&self.count, 9).min(Self::COUNT_MAX) as u8
    }

    fn words(&self) -> [&AtomicU32; 4] {
        [
            &self.idle_seconds,
            &self.interval_seconds,
            &self.count,
            &self.user_timeout_ms,
        ]
    }
}

/// A number that a program has given, or what holds without.
fn or_else(word: &AtomicU32, otherwise: u32) -> u32 {
    match word.load(Ordering::Relaxed) {
        0 => otherwise,
        given => given,
    }
}

/// A socket.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Socket {
    /// See [`state`].
    pub state: AtomicU32,
    /// Descriptors of all processes that refer to it.
    pub refs: AtomicU32,
    /// An error that the program has not heard of (errno(3)).
    pub error: AtomicU32,
    /// See [`options`].
    pub options: AtomicU32,
    /// Seconds of `SO_LINGER`.
    pub linger: AtomicU32,
    /// Milliseconds of `SO_RCVTIMEO`; zero for none.
    pub receive_timeout: AtomicU32,
    /// Those of `SO_SNDTIMEO`.
    pub send_timeout: AtomicU32,
    /// Bytes of `SO_RCVBUF`, as the program was told.
    pub receive_buffer: AtomicU32,
    /// Those of `SO_SNDBUF`.
    pub send_buffer: AtomicU32,
    /// Bytes of `SO_RCVLOWAT`; zero: the program has said nothing.
    pub low_water: AtomicU32,
    /// Of datagrams: bytes of each into which what is written is cut (`UDP_SEGMENT`); zero: it is not.
    pub segment: AtomicU32,
    /// Of datagrams: one more than the bytes of one that waits for more (`MSG_MORE`, `UDP_CORK`); zero: none does.
    pub corked: AtomicU32,
    /// What the program wants packets of IPv4 to say, and those of IPv6.
    pub headers: [HeaderOptions; 2],
    /// When TCP gives the peer up.
    pub liveness: LivenessOptions,
    /// Counted up when it is closed: its number may be another's then.
    pub generation: AtomicU32,
    /// One thread reads at a time: the process of the one that does ([`Shared::lock`]).
    pub reads: AtomicU32,
    /// One thread writes at a time.
    pub writes: AtomicU32,
    /// Counted up when something has come to read, for those that wait for that (futex(2)).
    pub came: AtomicU32,
    /// Counted up when there is room to write.
    pub left: AtomicU32,
    /// How many threads wait for something to read.
    pub readers: AtomicU32,
    /// How many wait for room.
    pub writers: AtomicU32,
    /// Which watchers are told of it.
    pub watchers: [AtomicU64; WATCHERS / 64],
    /// Calls that it has answered: reads, writes, accepts.
    pub calls: AtomicU64,
    /// Its own address.
    pub local: SharedAddress,
    /// The peer's.
    pub peer: SharedAddress,
    /// Of datagrams: the address that one was sent from last at the program's wish.
    pub source: SharedAddress,
    pub(super) into: Positions,
    pub(super) out: Positions,
}

impl Socket {
    /// Whether one of these bits of its state is set.
    pub fn is(&self, bits: u32) -> bool {
        self.state.load(Ordering::Acquire) & bits != 0
    }

    /// Sets bits of its state.
    pub fn add(&self, bits: u32) {
        self.state.fetch_or(bits, Ordering::AcqRel);
    }

    /// Clears bits of its state; true if one of them was set.
    pub fn clear(&self, bits: u32) -> bool {
        self.state.fetch_and(!bits, Ordering::AcqRel) & bits != 0
    }

    /// It was a program's, and no descriptor refers to it any more.
    pub fn is_closed(&self) -> bool {
        self.is(state::TAKEN) && self.refs.load(Ordering::Acquire) == 0
    }

    /// What its packets to an address of this family are to say.
    pub fn headers(&self, is_v6: bool) -> &HeaderOptions {
        &self.headers[usize::from(is_v6)]
    }

    /// A connection has the options of its listener, as by the kernel. True where one of them is not what the stack does by itself.
    pub fn take_options_of(&self, listener: &Self) -> bool {
        use options::{KEEPALIVE, LINGER, NODELAY, REUSE, REUSE_PORT, V6_ONLY};
        const OF_STACK: u32 = KEEPALIVE | LINGER;
        const INHERITED: u32 = OF_STACK | NODELAY | REUSE | REUSE_PORT | V6_ONLY;
        let options = listener.options.load(Ordering::Relaxed) & INHERITED;
        self.options.fetch_or(options, Ordering::Relaxed);
        for (to, from) in self.inherited().into_iter().zip(listener.inherited()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let user_timeout = self.liveness.user_timeout_ms.load(Ordering::Relaxed);
        let mut differs = options & OF_STACK != 0 || user_timeout != 0;
        for (to, from) in self.headers.iter().zip(&listener.headers) {
            to.set_hops(Some(from.hops()));
            to.set_class(from.class());
            differs |= (from.hops(), from.class()) != (HOPS, 0);
        }
        differs
    }

    fn inherited(&self) -> [&AtomicU32; 10] {
        let [idle, interval, count, user_timeout] = self.liveness.words();
        [
            &self.linger,
            &self.receive_timeout,
            &self.send_timeout,
            &self.receive_buffer,
            &self.send_buffer,
            &self.low_water,
            idle,
            interval,
            count,
            user_timeout,
        ]
    }

    /// Whether an option is on.
    pub fn has(&self, option: u32) -> bool {
        self.options.load(Ordering::Relaxed) & option != 0
    }

    /// Turns an option on or off.
    pub fn set_option(&self, option: u32, on: bool) {
        match on {
            true => self.options.fetch_or(option, Ordering::Relaxed),
            false => self.options.fetch_and(!option, Ordering::Relaxed),
        };
    }

    /// As new, but for those who wait: they find another generation.
    pub(super) fn reset(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        for word in [
            &self.refs,
            &self.error,
            &self.options,
            &self.segment,
            &self.corked,
            &self.headers[0].hops,
            &self.headers[0].class,
            &self.headers[1].hops,
            &self.headers[1].class,
            &self.state,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for word in self.inherited() {
            word.store(0, Ordering::Relaxed);
        }
        for word in &self.watchers {
            word.store(0, Ordering::Relaxed);
        }
        self.calls.store(0, Ordering::Relaxed);
        self.into.reset();
        self.out.reset();
    }
}
