//! The caller of an intercepted call: addresses in its memory, and its descriptors.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use exos::Duration;
use exos::inet::limits::HOP_LIMIT;
use exos::inet::tcp::{Info, Keepalive, State};
use exos_host::intercept::{self, Call, Calls};
use rustix::fs::{OFlags, fcntl_getfl, fstat};
use rustix::net::{AddressFamily, Protocol, SocketType, getsockname, ipproto, sockopt};

/// What a descriptor of the caller's refers to.
pub(crate) struct Descriptor {
    pub fd: OwnedFd,
    /// The number that all copies of it share, in all processes.
    pub inode: u64,
    /// Whose it is.
    pub user: u32,
    pub nonblocking: bool,
}

impl Descriptor {
    /// A copy of the caller's.
    pub fn of(call: &Call, number: i32) -> io::Result<Self> {
        let fd = intercept::descriptor(call.thread, number)?;
        let is = fstat(&fd)?;
        let nonblocking = fcntl_getfl(&fd)?.contains(OFlags::NONBLOCK);
        Ok(Self {
            fd,
            inode: is.st_ino,
            user: is.st_uid,
            nonblocking,
        })
    }

    /// A socket of the kernel's has a port.
    pub fn is_bound(&self) -> bool {
        let address = getsockname(&self.fd)
            .ok()
            .and_then(|name| SocketAddr::try_from(name).ok());
        address.is_some_and(|address| address.port() != 0)
    }

    /// A TCP socket of the kernel's: its family. One of multipath TCP, as Go makes them, is content with TCP (RFC 8684 §3.7).
    pub fn tcp_family(&self) -> Option<AddressFamily> {
        self.family_of(SocketType::STREAM, &[ipproto::TCP, ipproto::MPTCP])
    }

    /// A UDP socket of the kernel's: its family.
    pub fn udp_family(&self) -> Option<AddressFamily> {
        self.family_of(SocketType::DGRAM, &[ipproto::UDP])
    }

    fn family_of(&self, kind: SocketType, protocols: &[Protocol]) -> Option<AddressFamily> {
        let family = sockopt::socket_domain(&self.fd).ok()?;
        let is_ip = matches!(family, AddressFamily::INET | AddressFamily::INET6);
        let is_kind = sockopt::socket_type(&self.fd).ok()? == kind;
        let is_protocol = protocols.contains(&sockopt::socket_protocol(&self.fd).ok()??);
        (is_ip && is_kind && is_protocol).then_some(family)
    }

    /// Another for the same.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            ..*self
        })
    }
}

/// The inode of a socket of ours.
pub(crate) fn inode(fd: &OwnedFd) -> io::Result<u64> {
    Ok(fstat(fd.as_fd())?.st_ino)
}

/// Bytes of the longest that is of an IP family.
pub(crate) const ADDRESS_LEN: usize = 28;

/// More than any address has (`struct sockaddr_storage`).
const ADDRESS_MOST: u64 = 128;

/// The address that an argument of the call points to; `None` for one that is of no IP family.
pub(crate) fn read_address(
    calls: &Calls,
    call: &Call,
    at: u64,
    len: u64,
) -> io::Result<Option<SocketAddr>> {
    Ok(decode(&read_name(calls, call, at, len)?))
}

/// As much as there is of the address that an argument of the call points to, of any family; nothing of one that is longer than any.
pub(crate) fn read_name(calls: &Calls, call: &Call, at: u64, len: u64) -> io::Result<Vec<u8>> {
    if len > ADDRESS_MOST {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; usize::try_from(len).map_or(ADDRESS_LEN, |len| len.min(ADDRESS_LEN))];
    let count = intercept::read_memory(call.thread, at, &mut bytes)?;
    bytes.truncate(count);
    match calls.waits(call) {
        true => Ok(bytes),
        false => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Whether connect(2) to this address has a socket leave its peer (`AF_UNSPEC`).
pub(crate) fn is_to_none(name: &[u8]) -> bool {
    let family = name.first_chunk().map(|family| u16::from_ne_bytes(*family));
    family.map(i32::from) == Some(libc::AF_UNSPEC)
}

/// Whether a socket that is bound to this address is one for IPv6 alone from then on, whatever it was (ipv6(7)).
pub(crate) fn is_of_v6_alone(ip: IpAddr) -> bool {
    ip.is_ipv6() && !ip.is_unspecified()
}

/// An address in the kernel's form (ip(7), ipv6(7)).
pub(crate) fn decode(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match i32::from(family) {
        // What is shorter than the whole is none (`struct sockaddr_in`).
        libc::AF_INET if bytes.len() < 16 => None,
        libc::AF_INET => {
            let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port))
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            let ip = Ipv6Addr::from(ip);
            // A socket of both families speaks of IPv4 addresses so.
            let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
            Some(SocketAddr::new(ip, port))
        }
        _ => None,
    }
}

/// Puts an address where two arguments of the call say, as the kernel does: cut to the room there is, with its whole length.
pub(crate) fn write_address(
    calls: &Calls,
    call: &Call,
    [at, len_at]: [u64; 2],
    address: SocketAddr,
    family: AddressFamily,
) -> io::Result<()> {
    if at == 0 {
        return Ok(());
    }
    let bytes = encode(address, family);
    let room = read_length(calls, call, len_at)?.min(bytes.len());
    write(calls, call, at, &bytes[..room])?;
    write(calls, call, len_at, &(bytes.len() as u32).to_ne_bytes())
}

/// Writes the caller's memory while its call waits: when it does not, the thread's number may be another's. Between the two lies an
/// instant in which the caller can be killed; what it could have written is a result that it had asked for.
pub(crate) fn write(calls: &Calls, call: &Call, at: u64, bytes: &[u8]) -> io::Result<()> {
    if !calls.waits(call) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    intercept::write_memory(call.thread, at, bytes)?;
    Ok(())
}

/// Reads a whole number of the caller's.
fn read_number(calls: &Calls, call: &Call, at: u64) -> io::Result<[u8; 4]> {
    let mut bytes = [0; 4];
    intercept::read_memory(call.thread, at, &mut bytes)?;
    match calls.waits(call) {
        true => Ok(bytes),
        false => Err(io::ErrorKind::Interrupted.into()),
    }
}

fn read_length(calls: &Calls, call: &Call, at: u64) -> io::Result<usize> {
    let len = i32::from_ne_bytes(read_number(calls, call, at)?);
    usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// An address in the kernel's form, of the socket's family.
pub(crate) fn encode(address: SocketAddr, family: AddressFamily) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    let head = |family: i32| [&(family as u16).to_ne_bytes()[..], &port].concat();
    match (address.ip(), family) {
        (IpAddr::V4(ip), AddressFamily::INET) => {
            [&head(libc::AF_INET)[..], &ip.octets(), &[0; 8]].concat()
        }
        (ip, _) => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            [&head(libc::AF_INET6)[..], &[0; 4], &ip.octets(), &[0; 4]].concat()
        }
    }
}

/// Puts the value of an option where two arguments of the call say.
pub(crate) fn write_option(calls: &Calls, call: &Call, to: [u64; 2], value: i32) -> io::Result<()> {
    write_value(calls, call, to, &value.to_ne_bytes())
}

/// Puts bytes where two arguments of the call say, cut to the room there is, with how many these are.
pub(crate) fn write_value(
    calls: &Calls,
    call: &Call,
    [at, len_at]: [u64; 2],
    bytes: &[u8],
) -> io::Result<()> {
    let room = read_length(calls, call, len_at)?.min(bytes.len());
    write(calls, call, at, &bytes[..room])?;
    write(calls, call, len_at, &(room as u32).to_ne_bytes())
}

/// Has a Unix socket wait as long as the one before it.
pub(crate) fn copy_timeouts(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    for which in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        let time = sockopt::socket_timeout(from, which)?;
        sockopt::set_socket_timeout(to, which, time)?;
    }
    Ok(())
}

/// Has a Unix socket say of these options what the one before it did, and wait as long.
pub(crate) fn copy_options(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    copy_timeouts(from, to)?;
    let low_water = intercept::option(from, libc::SOL_SOCKET, libc::SO_RCVLOWAT)?;
    intercept::set_option(to, libc::SOL_SOCKET, libc::SO_RCVLOWAT, low_water)?;
    sockopt::set_socket_keepalive(to, sockopt::socket_keepalive(from)?)?;
    sockopt::set_socket_linger(to, sockopt::socket_linger(from)?)?;
    sockopt::set_socket_reuseaddr(to, sockopt::socket_reuseaddr(from)?)?;
    Ok(())
}

/// The beginning of `struct tcp_info` (include/uapi/linux/tcp.h), to `tcpi_total_retrans`, which every kernel has. What our stack does
/// not count is zero.
pub(crate) fn tcp_info(info: Option<&Info>, listens: bool) -> [u8; 104] {
    let mut bytes = [0; 104];
    let Some(info) = info else {
        bytes[0] = state_number(if listens {
            State::Listen
        } else {
            State::Closed
        });
        return bytes;
    };
    let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let mss = u32::from(info.mss).max(1);
    let (theirs, ours) = info.window_scales.unwrap_or_default();
    let agreed = [
        info.timestamps,
        info.sack,
        info.window_scales.is_some(),
        info.ecn,
    ];
    let agreed = agreed.into_iter().enumerate();
    (bytes[0], bytes[2], bytes[4]) = (state_number(info.state), info.retransmits, info.backoff);
    bytes[5] = agreed.fold(0, |bits, (at, is_on)| bits | u8::from(is_on) << at);
    bytes[6] = theirs | ours << 4;
    for (at, value) in [
        (8, micros(info.retransmission_timeout)),
        (16, mss),
        (20, u32::from(info.receive_mss)),
        (24, info.in_flight.div_ceil(mss)),
        (28, info.sacked.div_ceil(mss)),
        (32, info.lost.div_ceil(mss)),
        (68, info.rtt.map_or(0, micros)),
        (72, micros(info.rtt_variation)),
        (76, info.slow_start_threshold / mss),
        (80, info.congestion_window / mss),
        (96, info.receive_space),
        (100, info.retransmitted.into()),
    ] {
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

/// A state's number (include/net/tcp_states.h). Of one that waits for late segments the kernel has no socket any more.
fn state_number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::Closed | State::TimeWait => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Listen => 10,
        State::Closing => 11,
    }
}

/// The whole number that an argument of the call points to.
pub(crate) fn read_option(calls: &Calls, call: &Call, at: u64) -> io::Result<i32> {
    read_number(calls, call, at).map(i32::from_ne_bytes)
}

/// The sizes of buffers that a program has given a socket of the kernel's, by their options, as they read: twice what was said.
pub(crate) fn buffers_set(of: &OwnedFd) -> impl Iterator<Item = (i32, i32)> {
    /// Which buffers have a size of the program's: to send from, to receive into (`SO_BUF_LOCK`).
    const BUFFERS: libc::c_int = 72;
    let number = move |option| intercept::option(of, libc::SOL_SOCKET, option).ok();
    let set = number(BUFFERS).unwrap_or(0);
    let sizes = [(1, libc::SO_SNDBUF), (2, libc::SO_RCVBUF)].into_iter();
    sizes
        .filter(move |(bit, _)| set & bit != 0)
        .filter_map(move |(_, option)| Some((option, number(option)?)))
}

/// How many hops packets of a socket of the kernel's may take, and their class of service.
pub(crate) fn header_options(of: &Descriptor, is_v6: bool) -> io::Result<(u8, u8)> {
    let (level, hops, class) = match is_v6 {
        true => (
            libc::IPPROTO_IPV6,
            libc::IPV6_UNICAST_HOPS,
            libc::IPV6_TCLASS,
        ),
        false => (libc::IPPROTO_IP, libc::IP_TTL, libc::IP_TOS),
    };
    let byte = |option, otherwise| match intercept::option(&of.fd, level, option) {
        // Sockets of Multipath TCP do not say.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(otherwise),
        value => value.map(|value| value as u8),
    };
    Ok((byte(hops, HOP_LIMIT)?, byte(class, 0)?))
}

/// When a peer is asked whether it is still there, as a socket of the kernel's was told.
pub(crate) fn keepalive_options(of: &Descriptor) -> Keepalive {
    let ours = Keepalive::default();
    let seconds = |option| tcp_option(of, option).map(|value| Duration::from_secs(value.into()));
    Keepalive {
        idle: seconds(libc::TCP_KEEPIDLE).unwrap_or(ours.idle),
        interval: seconds(libc::TCP_KEEPINTVL).unwrap_or(ours.interval),
        count: tcp_option(of, libc::TCP_KEEPCNT).map_or(ours.count, |count| count as u8),
    }
}

/// How long what is sent may stay unacknowledged; `None` where the program has said nothing.
pub(crate) fn user_timeout(of: &Descriptor) -> Option<Duration> {
    let ms = tcp_option(of, libc::TCP_USER_TIMEOUT)?;
    (ms > 0).then(|| Duration::from_millis(ms.into()))
}

/// Sockets of Multipath TCP do not say all.
fn tcp_option(of: &Descriptor, option: libc::c_int) -> Option<u32> {
    let value = intercept::option(&of.fd, libc::IPPROTO_TCP, option);
    value.ok().and_then(|value| u32::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_kernel() {
        for text in ["192.0.2.7:80", "[2001:db8::7]:443"] {
            let address: SocketAddr = text.parse().expect("an address");
            let family = match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            };
            let bytes = encode(address, family);
            assert_eq!(bytes.len(), if address.is_ipv4() { 16 } else { 28 });
            assert_eq!(decode(&bytes), Some(address));
            for short in 0..8 {
                assert_eq!(decode(&bytes[..short]), None);
            }
        }
        let v4: SocketAddr = "192.0.2.7:80".parse().expect("an address");
        let mapped = encode(v4, AddressFamily::INET6);
        assert_eq!((mapped.len(), decode(&mapped)), (28, Some(v4)));
        assert_eq!(decode(&[1, 0, b'/', b'x']), None, "a Unix socket's");
    }
}
