//! A program's sockets for others to look at: the memory by which they ask, and the form of a socket in it.
//!
//! Each stack has some ([`exos_host::user_memory`]). A program that may look into the process writes a request, a number that is not
//! the one before, and the place to go on from; the program, which looks once a turn and sleeps for a second at most, writes the
//! sockets behind that place, as many as fit, and the place where it stopped.
//!
//! ```text
//! words   0  magic, flags, interface's name, program's name, request, answer; one page
//!       512  SOCKETS times: one socket
//! ```
//!
//! Each side takes what the other one wrote for input: an asker gets nonsense or an error, and a program that is asked again and again
//! answers its own user.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use exos_inet::tcp::{Info, State};

use super::holders::{HOLDERS, Holder};
use super::layout::{self, word_of};

/// What the memory is called.
pub(super) const NAME: &str = "exos-sockets";

/// The first word: another layout has another one.
pub(super) const MAGIC: u64 = u64::from_be_bytes(*b"exossoc2");

/// Sockets of one answer: about a millisecond's work. More need several.
pub(super) const SOCKETS: usize = 4096;

/// Where things are in the first page, behind whose it is.
pub(super) mod head {
    /// The asker's: a number above, and a place.
    pub const REQUEST: usize = 32;
    /// The program's: the request that it answers, last of all.
    pub const ANSWERED: usize = 33;
    /// The program's: how many sockets there are, and from which place there are more; zero for none.
    pub const COUNT: usize = 34;
    pub const NEXT: usize = 35;
    pub const WORDS: usize = 512;
}

/// Behind what there is of a socket itself: its holders.
const FIRST_HOLDER: usize = 17;

/// The words of a socket.
pub(super) const SOCKET_WORDS: usize = FIRST_HOLDER + HOLDERS;
pub(super) const MEMORY_WORDS: usize = head::WORDS + SOCKETS * SOCKET_WORDS;
const _: () = assert!(layout::head::PROGRAM + layout::NAME_BYTES / 8 <= head::REQUEST);

/// The words of the socket in place `n` of an answer.
pub(super) fn socket_words(memory: &[AtomicU64], n: usize) -> &[AtomicU64] {
    &memory[head::WORDS + n * SOCKET_WORDS..][..SOCKET_WORDS]
}

/// Which protocol a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A socket of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Which protocol it speaks.
    pub protocol: Protocol,
    /// Its state; of datagrams `Established` for one that is connected and `Closed` for one that is not.
    pub state: State,
    /// Its own address; `None` for all of the stack's.
    pub address: Option<IpAddr>,
    /// Its own port.
    pub port: u16,
    /// The peer.
    pub peer: Option<SocketAddr>,
    /// Bytes that the program has not taken; of a listener connections that were begun and do not stand.
    pub receive_queue: u32,
    /// Bytes that the peer has not acknowledged; of a listener how many connections may be so.
    pub send_queue: u32,
    /// What TCP knows of a connection.
    pub tcp: Option<Known>,
    /// Who has it, of a program that has sockets for others: four at most. Without any it is the program's own.
    pub holders: Vec<Holder>,
}

/// What TCP knows of a connection. Windows and amounts are bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The congestion control's name.
    pub congestion: String,
    /// Smoothed round-trip time; zero before the first.
    pub rtt: Duration,
    /// Its variation.
    pub rtt_variation: Duration,
    /// The retransmission timeout.
    pub retransmission_timeout: Duration,
    /// Largest payload of a segment that we send.
    pub mss: u16,
    /// That of the peer's, as far as seen.
    pub receive_mss: u16,
    /// Congestion window.
    pub congestion_window: u32,
    /// Slow-start threshold, `u32::MAX` before the first loss.
    pub slow_start_threshold: u32,
    /// Sent, not acknowledged.
    pub in_flight: u32,
    /// Selectively acknowledged.
    pub sacked: u32,
    /// Believed lost and not sent again.
    pub lost: u32,
    /// Timeouts in a row for what is waited for.
    pub retransmits: u8,
    /// The shifts of the peer's windows and of ours, where both sides scale.
    pub window_scales: Option<(u8, u8)>,
    /// Acknowledged by the peer since the SYN, modulo 2^32.
    pub bytes_acked: u32,
    /// Received in order since the SYN, modulo 2^32.
    pub bytes_received: u32,
    /// The peer's window.
    pub send_window: u32,
    /// Our window as the peer knows it.
    pub receive_window: u32,
    /// Bytes a second at which data leaves, zero where it is not paced.
    pub pacing_rate: u64,
    /// The last delivery rate measured, bytes a second, zero before the first.
    pub delivery_rate: u64,
    /// Since something with a sequence number was sent.
    pub since_sent: Duration,
    /// Since the peer was heard.
    pub since_heard: Duration,
    /// Timestamps were agreed on.
    pub timestamps: bool,
    /// Selective acknowledgements were agreed on.
    pub sack: bool,
    /// Explicit congestion notification was agreed on.
    pub ecn: bool,
    /// A loss is being repaired.
    pub in_recovery: bool,
}

impl Known {
    /// Of what a stack says of a connection now.
    pub(super) fn of(info: &Info, now: exos_inet::Instant) -> Self {
        Self {
            congestion: info.congestion.to_owned(),
            rtt: info.rtt.unwrap_or_default(),
            rtt_variation: info.rtt_variation,
            retransmission_timeout: info.retransmission_timeout,
            mss: info.mss,
            receive_mss: info.receive_mss,
            congestion_window: info.congestion_window,
            slow_start_threshold: info.slow_start_threshold,
            in_flight: info.in_flight,
            sacked: info.sacked,
            lost: info.lost,
            retransmits: info.retransmits,
            window_scales: info.window_scales,
            bytes_acked: info.bytes_acked,
            bytes_received: info.bytes_received,
            send_window: info.send_window,
            receive_window: info.receive_window,
            pacing_rate: info.pacing_rate,
            delivery_rate: info.delivery_rate,
            since_sent: now - info.last_sent,
            since_heard: now - info.last_heard,
            timestamps: info.timestamps,
            sack: info.sack,
            ecn: info.ecn,
            in_recovery: info.in_recovery,
        }
    }
}

/// What holds of a socket, in its first word.
mod flag {
    pub const UDP: u64 = 1;
    pub const HAS_ADDRESS: u64 = 2;
    pub const HAS_PEER: u64 = 4;
    pub const HAS_TCP: u64 = 8;
    pub const TIMESTAMPS: u64 = 16;
    pub const SACK: u64 = 32;
    pub const ECN: u64 = 64;
    pub const IN_RECOVERY: u64 = 128;
    pub const SCALES: u64 = 256;
}

/// Two numbers in a word, the first below.
fn both(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn address_words(ip: Option<IpAddr>) -> [u64; 2] {
    let ip = match ip {
        Some(IpAddr::V4(ip)) => ip.to_ipv6_mapped(),
        Some(IpAddr::V6(ip)) => ip,
        None => Ipv6Addr::UNSPECIFIED,
    };
    let n = u128::from(ip);
    [(n >> 64) as u64, n as u64]
}

fn address_of(words: [u64; 2]) -> IpAddr {
    let ip = Ipv6Addr::from(u128::from(words[0]) << 64 | u128::from(words[1]));
    ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4)
}

impl Socket {
    /// Writes it into its words.
    pub(super) fn put(&self, words: &[AtomicU64]) {
        let on = |holds: bool, bit| if holds { bit } else { 0 };
        let state = State::ALL.iter().position(|s| *s == self.state);
        let known = self.tcp.clone().unwrap_or_default();
        let flags = on(self.protocol == Protocol::Udp, flag::UDP)
            | on(self.address.is_some(), flag::HAS_ADDRESS)
            | on(self.peer.is_some(), flag::HAS_PEER)
            | on(self.tcp.is_some(), flag::HAS_TCP)
            | on(known.timestamps, flag::TIMESTAMPS)
            | on(known.sack, flag::SACK)
            | on(known.ecn, flag::ECN)
            | on(known.in_recovery, flag::IN_RECOVERY)
            | on(known.window_scales.is_some(), flag::SCALES);
        let ports = u64::from(self.port) | u64::from(self.peer.map_or(0, |p| p.port())) << 16;
        let scales = known.window_scales.unwrap_or_default();
        let small = [known.retransmits, scales.0, scales.1, 0];
        let [local, more_local] = address_words(self.address);
        let [remote, more_remote] = address_words(self.peer.map(|peer| peer.ip()));
        let mss = u32::from(known.mss) | u32::from(known.receive_mss) << 16;
        let all: [u64; FIRST_HOLDER] = [
            flags | (state.unwrap_or(0) as u64) << 16 | ports << 32,
            local,
            more_local,
            remote,
            more_remote,
            both(self.receive_queue, self.send_queue),
            both(micros(known.rtt), micros(known.rtt_variation)),
            both(micros(known.retransmission_timeout), mss),
            both(known.congestion_window, known.slow_start_threshold),
            both(known.in_flight, known.sacked),
            both(known.lost, u32::from_le_bytes(small)),
            both(known.bytes_acked, known.bytes_received),
            both(known.send_window, known.receive_window),
            known.pacing_rate,
            known.delivery_rate,
            word_of(&known.congestion.as_bytes()[..known.congestion.len().min(8)]),
            both(millis(known.since_sent), millis(known.since_heard)),
        ];
        let holders: [u64; HOLDERS] =
            std::array::from_fn(|n| self.holders.get(n).map_or(0, |holder| holder.word()));
        for (word, value) in words.iter().zip(all.into_iter().chain(holders)) {
            word.store(value, Relaxed);
        }
    }

    /// Reads one out of its words; `None` when no program of ours has written it.
    pub(super) fn get(words: &[AtomicU64]) -> Option<Self> {
        let mut all = [0; SOCKET_WORDS];
        for (value, word) in all.iter_mut().zip(words) {
            *value = word.load(Relaxed);
        }
        let flags = all[0];
        let has = |bit| flags & bit != 0;
        let (port, peer_port) = ((flags >> 32) as u16, (flags >> 48) as u16);
        let peer = SocketAddr::new(address_of([all[3], all[4]]), peer_port);
        let (receive_queue, send_queue) = halves(all[5]);
        Some(Self {
            protocol: match has(flag::UDP) {
                true => Protocol::Udp,
                false => Protocol::Tcp,
            },
            state: *State::ALL.get((flags >> 16 & 0xffff) as usize)?,
            address: has(flag::HAS_ADDRESS).then(|| address_of([all[1], all[2]])),
            port,
            peer: has(flag::HAS_PEER).then_some(peer),
            receive_queue,
            send_queue,
            tcp: has(flag::HAS_TCP).then(|| known(&all)),
            holders: all[FIRST_HOLDER..]
                .iter()
                .copied()
                .filter_map(Holder::of_word)
                .collect(),
        })
    }
}

/// What TCP knows, of the words of a socket.
fn known(all: &[u64; SOCKET_WORDS]) -> Known {
    let has = |bit| all[0] & bit != 0;
    let time = |us: u32| Duration::from_micros(us.into());
    let ms = |ms: u32| Duration::from_millis(ms.into());
    let (rtt, rtt_variation) = halves(all[6]);
    let (timeout, mss) = halves(all[7]);
    let (congestion_window, slow_start_threshold) = halves(all[8]);
    let (in_flight, sacked) = halves(all[9]);
    let (lost, small) = halves(all[10]);
    let [retransmits, theirs, ours, _] = small.to_le_bytes();
    let (bytes_acked, bytes_received) = halves(all[11]);
    let (send_window, receive_window) = halves(all[12]);
    let (since_sent, since_heard) = halves(all[16]);
    let name = all[15].to_ne_bytes().into_iter();
    let name = name.take_while(u8::is_ascii_alphanumeric).map(char::from);
    Known {
        congestion: name.collect(),
        rtt: time(rtt),
        rtt_variation: time(rtt_variation),
        retransmission_timeout: time(timeout),
        mss: mss as u16,
        receive_mss: (mss >> 16) as u16,
        congestion_window,
        slow_start_threshold,
        in_flight,
        sacked,
        lost,
        retransmits,
        window_scales: has(flag::SCALES).then_some((theirs, ours)),
        bytes_acked,
        bytes_received,
        send_window,
        receive_window,
        pacing_rate: all[13],
        delivery_rate: all[14],
        since_sent: ms(since_sent),
        since_heard: ms(since_heard),
        timestamps: has(flag::TIMESTAMPS),
        sack: has(flag::SACK),
        ecn: has(flag::ECN),
        in_recovery: has(flag::IN_RECOVERY),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words() -> [AtomicU64; SOCKET_WORDS] {
        [const { AtomicU64::new(0) }; SOCKET_WORDS]
    }

    #[test]
    fn a_socket_is_what_was_put() {
        let known = Known {
            congestion: "cubic".to_owned(),
            rtt: Duration::from_micros(1234),
            rtt_variation: Duration::from_micros(56),
            retransmission_timeout: Duration::from_millis(204),
            mss: 1448,
            receive_mss: 536,
            slow_start_threshold: u32::MAX,
            retransmits: 3,
            window_scales: Some((7, 10)),
            lost: 9,
            delivery_rate: u64::MAX,
            since_heard: Duration::from_secs(5),
            ecn: true,
            ..Known::default()
        };
        let socket = Socket {
            protocol: Protocol::Tcp,
            state: State::FinWait2,
            address: Some("192.0.2.7".parse().expect("an address")),
            port: 80,
            peer: Some("[2001:db8::7]:65535".parse().expect("an address")),
            receive_queue: 5,
            send_queue: u32::MAX,
            tcp: Some(known),
            holders: vec![Holder::Process(7), Holder::UnixSocket(1 << 40)],
        };
        let listener = Socket {
            state: State::Listen,
            address: None,
            peer: None,
            tcp: None,
            ..socket.clone()
        };
        for socket in [socket, listener] {
            let words = words();
            socket.put(&words);
            assert_eq!(Socket::get(&words), Some(socket));
        }
    }

    proptest! {
        /// Another process may have written anything: it is a socket or none.
        #[test]
        fn any_words_will_do(values in prop::array::uniform21(any::<u64>())) {
            let words = values.map(AtomicU64::new);
            if let Some(socket) = Socket::get(&words) {
                let name = socket.tcp.map(|tcp| tcp.congestion).unwrap_or_default();
                prop_assert!(name.len() <= 8 && !name.contains(|c: char| c.is_control()));
            }
        }
    }
}
