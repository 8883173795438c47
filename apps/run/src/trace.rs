//! Intercepted calls as strace(1) has them: their names, their arguments, and what they were answered.

use std::io;
use std::net::{IpAddr, SocketAddr};

use exos_host::intercept::{self, Call};

use crate::answer::errno;
use crate::target::decode;

/// Constants of libc, each with its name.
macro_rules! named {
    ($($name:ident),* $(,)?) => { &[$((libc::$name, stringify!($name))),*] };
}

const OF_SOCKETS: &[(i32, &str)] = named![
    SO_ACCEPTCONN,
    SO_BINDTODEVICE,
    SO_BROADCAST,
    SO_DOMAIN,
    SO_DONTROUTE,
    SO_ERROR,
    SO_INCOMING_CPU,
    SO_KEEPALIVE,
    SO_LINGER,
    SO_MARK,
    SO_OOBINLINE,
    SO_PRIORITY,
    SO_PROTOCOL,
    SO_RCVBUF,
    SO_RCVLOWAT,
    SO_RCVTIMEO,
    SO_REUSEADDR,
    SO_REUSEPORT,
    SO_SNDBUF,
    SO_SNDTIMEO,
    SO_TIMESTAMP,
    SO_TYPE,
];
const OF_TCP: &[(i32, &str)] = named![
    TCP_CONGESTION,
    TCP_CORK,
    TCP_DEFER_ACCEPT,
    TCP_FASTOPEN,
    TCP_FASTOPEN_CONNECT,
    TCP_INFO,
    TCP_KEEPCNT,
    TCP_KEEPIDLE,
    TCP_KEEPINTVL,
    TCP_MAXSEG,
    TCP_NODELAY,
    TCP_NOTSENT_LOWAT,
    TCP_QUICKACK,
    TCP_SYNCNT,
    TCP_ULP,
    TCP_USER_TIMEOUT,
    TCP_WINDOW_CLAMP,
];
const OF_IPV4: &[(i32, &str)] = named![
    IP_BIND_ADDRESS_NO_PORT,
    IP_FREEBIND,
    IP_MTU,
    IP_MTU_DISCOVER,
    IP_OPTIONS,
    IP_PKTINFO,
    IP_RECVERR,
    IP_RECVTOS,
    IP_RECVTTL,
    IP_TOS,
    IP_TRANSPARENT,
    IP_TTL,
];
const OF_IPV6: &[(i32, &str)] = named![
    IPV6_MTU,
    IPV6_MTU_DISCOVER,
    IPV6_RECVERR,
    IPV6_RECVPKTINFO,
    IPV6_RECVTCLASS,
    IPV6_TCLASS,
    IPV6_UNICAST_HOPS,
    IPV6_V6ONLY,
];
const ERRORS: &[(i32, &str)] = named![
    EACCES,
    EADDRINUSE,
    EADDRNOTAVAIL,
    EAFNOSUPPORT,
    EAGAIN,
    EALREADY,
    EBADF,
    ECONNABORTED,
    ECONNREFUSED,
    ECONNRESET,
    EFAULT,
    EHOSTUNREACH,
    EINPROGRESS,
    EINTR,
    EINVAL,
    EIO,
    EISCONN,
    EMFILE,
    EMSGSIZE,
    ENETUNREACH,
    ENOBUFS,
    ENOENT,
    ENOMEM,
    ENOPROTOOPT,
    ENOSYS,
    ENOTCONN,
    ENOTSOCK,
    EOPNOTSUPP,
    EPERM,
    EPIPE,
    ESRCH,
    ETIMEDOUT,
];

/// A call and its arguments. What the program is given is known once it is written, where the call has not failed.
pub(crate) fn call(call: &Call, has_failed: bool) -> String {
    let [fd, a, b, c, d, _] = call.args;
    let number = |value: u64| (value as i32).to_string();
    let given = || match has_failed {
        true => [pointer(a), pointer(b)],
        false => [address_at(call, a, 28), length_at(call, b)],
    };
    let (name, arguments) = match call.number {
        libc::SYS_bind => ("bind", vec![address_at(call, a, b), number(b)]),
        libc::SYS_connect => ("connect", vec![address_at(call, a, b), number(b)]),
        libc::SYS_listen => ("listen", vec![number(a)]),
        libc::SYS_accept => ("accept", given().into()),
        libc::SYS_accept4 => (
            "accept4",
            [&given()[..], &[accept_flags(c as i32)]].concat(),
        ),
        libc::SYS_getsockname => ("getsockname", given().into()),
        libc::SYS_getpeername => ("getpeername", given().into()),
        libc::SYS_io_uring_setup => ("io_uring_setup", vec![pointer(a)]),
        number_of_call => {
            let sets = number_of_call == libc::SYS_setsockopt;
            let (level, option) = (a as i32, b as i32);
            let (name, len) = match sets {
                true => ("setsockopt", number(d)),
                false if has_failed => ("getsockopt", pointer(d)),
                false => ("getsockopt", length_at(call, d)),
            };
            let value = match !sets && has_failed {
                true => pointer(c),
                false => value_at(call, (level, option), c),
            };
            (
                name,
                vec![level_name(level), option_name(level, option), value, len],
            )
        }
    };
    format!("{name}({}, {})", fd as i32, arguments.join(", "))
}

/// What a call was answered.
pub(crate) fn result(result: &io::Result<i64>) -> String {
    let error = match result {
        Ok(value) => return value.to_string(),
        Err(error) => errno(error),
    };
    let says = io::Error::from_raw_os_error(error).to_string();
    let says = says.split(" (os error").next().unwrap_or_default();
    format!("-1 {} ({says})", name_of(ERRORS, error))
}

fn name_of(names: &[(i32, &str)], value: i32) -> String {
    let name = names.iter().find(|(named, _)| *named == value);
    name.map_or_else(|| value.to_string(), |(_, name)| (*name).to_owned())
}

fn level_name(level: i32) -> String {
    let names = [
        (libc::SOL_SOCKET, "SOL_SOCKET"),
        (libc::IPPROTO_TCP, "SOL_TCP"),
        (libc::IPPROTO_IP, "SOL_IP"),
        (libc::IPPROTO_IPV6, "SOL_IPV6"),
    ];
    name_of(&names, level)
}

fn option_name(level: i32, option: i32) -> String {
    let names = match level {
        libc::SOL_SOCKET => OF_SOCKETS,
        libc::IPPROTO_TCP => OF_TCP,
        libc::IPPROTO_IP => OF_IPV4,
        libc::IPPROTO_IPV6 => OF_IPV6,
        _ => &[],
    };
    name_of(names, option)
}

fn accept_flags(flags: i32) -> String {
    let known = [
        (libc::SOCK_CLOEXEC, "SOCK_CLOEXEC"),
        (libc::SOCK_NONBLOCK, "SOCK_NONBLOCK"),
    ];
    let set: Vec<&str> = known
        .iter()
        .filter(|(flag, _)| flags & flag != 0)
        .map(|(_, name)| *name)
        .collect();
    match set.is_empty() {
        true => flags.to_string(),
        false => set.join("|"),
    }
}

fn pointer(at: u64) -> String {
    match at {
        0 => "NULL".to_owned(),
        at => format!("{at:#x}"),
    }
}

/// The caller's memory, as much as there is.
fn memory<const N: usize>(call: &Call, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let count = intercept::read_memory(call.thread, at, &mut bytes).ok()?;
    (at != 0 && count == N).then_some(bytes)
}

fn word_at(call: &Call, at: u64) -> Option<i32> {
    memory(call, at).map(i32::from_ne_bytes)
}

fn length_at(call: &Call, at: u64) -> String {
    word_at(call, at).map_or_else(|| pointer(at), |len| format!("[{len}]"))
}

fn address_at(call: &Call, at: u64, len: u64) -> String {
    let mut bytes = [0; 28];
    let room = bytes.len().min(len as usize);
    let read = intercept::read_memory(call.thread, at, &mut bytes[..room]);
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    match read
        .ok()
        .filter(|_| at != 0)
        .map(|count| decode(&bytes[..count]))
    {
        None => pointer(at),
        Some(None) => format!("{{sa_family={family}}}"),
        Some(Some(address)) => address_text(address, i32::from(family) == libc::AF_INET6),
    }
}

fn address_text(address: SocketAddr, is_v6: bool) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) if !is_v6 => {
            format!("{{sa_family=AF_INET, sin_port=htons({port}), sin_addr=inet_addr(\"{ip}\")}}")
        }
        ip => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            format!(
                "{{sa_family=AF_INET6, sin6_port=htons({port}), inet_pton(AF_INET6, \"{ip}\", &sin6_addr)}}"
            )
        }
    }
}

/// The value of an option: a number, but for those that have parts; of longer ones where it lies.
fn value_at(call: &Call, option: (i32, i32), at: u64) -> String {
    let pair = || {
        memory::<8>(call, at).map(|bytes| {
            [0, 4].map(|from| i32::from_ne_bytes(bytes[from..from + 4].try_into().expect("four")))
        })
    };
    let times = || {
        memory::<16>(call, at).map(|bytes| {
            [0, 8].map(|from| i64::from_ne_bytes(bytes[from..from + 8].try_into().expect("eight")))
        })
    };
    let text = match option {
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            pair().map(|[on, seconds]| format!("{{l_onoff={on}, l_linger={seconds}}}"))
        }
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => {
            times().map(|[seconds, micros]| format!("{{tv_sec={seconds}, tv_usec={micros}}}"))
        }
        (libc::IPPROTO_TCP, libc::TCP_INFO | libc::TCP_CONGESTION | libc::TCP_ULP)
        | (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => None,
        _ => word_at(call, at).map(|value| format!("[{value}]")),
    };
    text.unwrap_or_else(|| pointer(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::encode;
    use rustix::net::AddressFamily;

    fn of(number: i64, args: [u64; 6]) -> Call {
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        Call {
            id: 0,
            thread,
            number,
            args,
        }
    }

    fn at<T: ?Sized>(value: &T) -> u64 {
        (&raw const *value).cast::<u8>().expose_provenance() as u64
    }

    #[test]
    fn calls_are_written_as_strace_has_them() {
        let v4 = encode("10.10.0.2:80".parse().unwrap(), AddressFamily::INET);
        let v6 = encode("[fd10::2]:80".parse().unwrap(), AddressFamily::INET6);
        let (one, len) = (1_i32.to_ne_bytes(), 16_i32.to_ne_bytes());
        let linger = [1_i32, 5].map(i32::to_ne_bytes).concat();
        let time = [2_i64, 500].map(i64::to_ne_bytes).concat();
        let (sol, tcp) = (libc::SOL_SOCKET as u64, libc::IPPROTO_TCP as u64);
        let cases = [
            (
                of(libc::SYS_connect, [5, at(&v4[..]), 16, 0, 0, 0]),
                false,
                "connect(5, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"10.10.0.2\")}, 16)",
            ),
            (
                of(libc::SYS_bind, [5, at(&v6[..]), 28, 0, 0, 0]),
                true,
                "bind(5, {sa_family=AF_INET6, sin6_port=htons(80), inet_pton(AF_INET6, \"fd10::2\", &sin6_addr)}, 28)",
            ),
            (
                of(libc::SYS_bind, [5, 1, 16, 0, 0, 0]),
                true,
                "bind(5, 0x1, 16)",
            ),
            (
                of(libc::SYS_listen, [3, 128, 0, 0, 0, 0]),
                false,
                "listen(3, 128)",
            ),
            (
                of(libc::SYS_accept4, [3, 0, 0, 0o2004000, 0, 0]),
                false,
                "accept4(3, NULL, NULL, SOCK_CLOEXEC|SOCK_NONBLOCK)",
            ),
            (
                of(libc::SYS_accept, [3, 0x10, 0x20, 0, 0, 0]),
                true,
                "accept(3, 0x10, 0x20)",
            ),
            (
                of(libc::SYS_getpeername, [3, at(&v4[..]), at(&len), 0, 0, 0]),
                false,
                "getpeername(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"10.10.0.2\")}, [16])",
            ),
            (
                of(
                    libc::SYS_setsockopt,
                    [3, tcp, libc::TCP_NODELAY as u64, at(&one), 4, 0],
                ),
                false,
                "setsockopt(3, SOL_TCP, TCP_NODELAY, [1], 4)",
            ),
            (
                of(
                    libc::SYS_setsockopt,
                    [3, sol, libc::SO_LINGER as u64, at(&linger[..]), 8, 0],
                ),
                false,
                "setsockopt(3, SOL_SOCKET, SO_LINGER, {l_onoff=1, l_linger=5}, 8)",
            ),
            (
                of(
                    libc::SYS_setsockopt,
                    [3, sol, libc::SO_RCVTIMEO as u64, at(&time[..]), 16, 0],
                ),
                false,
                "setsockopt(3, SOL_SOCKET, SO_RCVTIMEO, {tv_sec=2, tv_usec=500}, 16)",
            ),
            (
                of(libc::SYS_getsockopt, [3, sol, 9999, at(&one), at(&len), 0]),
                false,
                "getsockopt(3, SOL_SOCKET, 9999, [1], [16])",
            ),
        ];
        for (made, has_failed, text) in cases {
            assert_eq!(call(&made, has_failed), text);
        }
    }

    #[test]
    fn results_have_the_errors_name() {
        assert_eq!(result(&Ok(7)), "7");
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(
            result(&Err(refused)),
            "-1 ECONNREFUSED (Connection refused)"
        );
    }
}
