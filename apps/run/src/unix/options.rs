//! getsockopt(2) and setsockopt(2) of sockets that go by intercepted calls.

use std::io;
use std::time::Duration;

use exos::inet::limits::HOP_LIMIT;
use exos::inet::tcp::{Info, Keepalive};
use exos::net::TcpStream;
use exos_host::intercept::Call;
use exos_preload::memory::LivenessOptions;
use rustix::net::sockopt;

use super::sockets::{Kind, Socket, UnixSockets};
use crate::answer::{Answer, errno, fails};
use crate::context::Context;
use crate::target::{Descriptor, read_option, tcp_info, write_option, write_value};

/// What a segment holds of a socket that is not connected (`TCP_MAXSEG`), as by the kernel.
const NO_SEGMENT: i32 = 536;

/// The value of an option.
enum Told {
    Number(i32),
    Bytes(Vec<u8>),
    /// What the program's Unix socket says.
    AsUnix,
}

impl UnixSockets {
    pub fn get_option(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        let (descriptor, key) = self.descriptor(call)?;
        let option = (call.args[1] as i32, call.args[2] as i32);
        let told = match (key, option) {
            (Some(key), _) => self.all[key].option(option)?,
            (None, (libc::SOL_SOCKET, libc::SO_ERROR)) => {
                let error = self.take_error(descriptor.inode);
                error.map_or(Told::AsUnix, |error| Told::Number(errno(&error)))
            }
            (None, _) => Told::AsUnix,
        };
        let to = [call.args[3], call.args[4]];
        match told {
            Told::Number(value) => write_option(&cx.calls, call, to, value)?,
            Told::Bytes(bytes) => write_value(&cx.calls, call, to, &bytes)?,
            Told::AsUnix => return Ok(Answer::Pass),
        }
        Ok(Answer::Value(0))
    }

    pub fn set_option(
        &mut self,
        cx: &Context,
        call: &Call,
        key: usize,
        descriptor: &Descriptor,
    ) -> io::Result<Answer> {
        let Socket {
            kind, keepalive, ..
        } = &mut self.all[key];
        let stream = stream(kind);
        match (call.args[1] as i32, call.args[2] as i32, stream) {
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, Some(stream)) => {
                stream.set_nodelay(read_option(&cx.calls, call, call.args[3])? != 0)?;
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, Some(stream)) => {
                let on = read_option(&cx.calls, call, call.args[3])? != 0;
                stream.set_keepalive(on.then_some(*keepalive));
                return Ok(Answer::Pass);
            }
            (libc::IPPROTO_TCP, option, Some(stream)) if is_of_keepalive(option) => {
                let value = read_option(&cx.calls, call, call.args[3])?;
                set_time(keepalive, option, value)?;
                if sockopt::socket_keepalive(&descriptor.fd)? {
                    stream.set_keepalive(Some(*keepalive));
                }
            }
            (libc::SOL_SOCKET, libc::SO_LINGER, Some(stream)) => {
                // struct linger: whether, and for how many seconds. Closing never waits here.
                let on = read_option(&cx.calls, call, call.args[3])? != 0;
                let reset = on && read_option(&cx.calls, call, call.args[3] + 4)? == 0;
                stream.set_linger(reset.then_some(Duration::ZERO))?;
                return Ok(Answer::Pass);
            }
            (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT, _) => {}
            (libc::SOL_SOCKET, ..) => return Ok(Answer::Pass),
            (level @ libc::IPPROTO_IP, option @ (libc::IP_TTL | libc::IP_TOS), _)
            | (
                level @ libc::IPPROTO_IPV6,
                option @ (libc::IPV6_UNICAST_HOPS | libc::IPV6_TCLASS),
                _,
            ) => {
                let value = read_option(&cx.calls, call, call.args[3])?;
                set_header(of_family(kind, level), (level, option), value)?;
            }
            // Those that say how packets are sent are taken, and left to our TCP.
            (libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6, ..) => {}
            _ => return fails(libc::ENOPROTOOPT),
        }
        Ok(Answer::Value(0))
    }
}

impl Socket {
    fn option(&mut self, option: (i32, i32)) -> io::Result<Told> {
        let (kind, error, keepalive) = (&self.kind, &mut self.error, &self.keepalive);
        let is_datagrams = matches!(kind, Kind::Datagrams(_));
        let listens = matches!(kind, Kind::Listening(_));
        Ok(Told::Number(match option {
            (libc::SOL_SOCKET, libc::SO_ERROR) => error.take().map_or(0, |error| errno(&error)),
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => self.family.as_raw().into(),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) if is_datagrams => libc::IPPROTO_UDP,
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_TCP,
            (libc::SOL_SOCKET, libc::SO_TYPE) if is_datagrams => libc::SOCK_DGRAM,
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => listens.into(),
            (libc::SOL_SOCKET, _) => return Ok(Told::AsUnix),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => match kind {
                Kind::Flowing(flow) => flow.stream.nodelay()?.into(),
                _ => 0,
            },
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => keepalive.idle.as_secs() as i32,
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => keepalive.interval.as_secs() as i32,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => keepalive.count.into(),
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                info(kind).map_or(NO_SEGMENT, |info| info.mss.into())
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                let ttl = of_family(kind, option.0).map(TcpStream::ttl);
                ttl.transpose()?.map_or(HOP_LIMIT.into(), |ttl| ttl as i32)
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let tos = of_family(kind, option.0).map(TcpStream::tos);
                tos.transpose()?.unwrap_or(0).into()
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                return Ok(Told::Bytes(tcp_info(info(kind).as_ref(), listens).to_vec()));
            }
            // A packet has none: nothing, and not a number.
            (libc::IPPROTO_IP, libc::IP_OPTIONS) => return Ok(Told::Bytes(Vec::new())),
            (libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => 0,
            _ => return fails(libc::ENOPROTOOPT),
        }))
    }
}

fn is_of_keepalive(option: i32) -> bool {
    matches!(
        option,
        libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT
    )
}

/// Sets one of the times of keep-alive, within the kernel's bounds.
fn set_time(times: &mut Keepalive, option: i32, value: i32) -> io::Result<()> {
    const MOST_SECONDS: i32 = LivenessOptions::SECONDS_MAX as i32;
    const MOST: i32 = LivenessOptions::COUNT_MAX as i32;
    let seconds = Duration::from_secs(value.max(0) as u64);
    match (option, value) {
        (libc::TCP_KEEPIDLE, 1..=MOST_SECONDS) => times.idle = seconds,
        (libc::TCP_KEEPINTVL, 1..=MOST_SECONDS) => times.interval = seconds,
        (libc::TCP_KEEPCNT, 1..=MOST) => times.count = value as u8,
        _ => return fails(libc::EINVAL),
    }
    Ok(())
}

fn stream(kind: &Kind) -> Option<&TcpStream> {
    match kind {
        Kind::Flowing(flow) => Some(&flow.stream),
        Kind::Connecting(connecting) => Some(&connecting.stream),
        Kind::Listening(_) | Kind::Datagrams(_) | Kind::Failed => None,
    }
}

/// A connection whose packets an option of this level is about.
fn of_family(kind: &Kind, level: i32) -> Option<&TcpStream> {
    let is_v6 = level == libc::IPPROTO_IPV6;
    stream(kind).filter(|stream| stream.peer_addr().is_ok_and(|peer| peer.is_ipv6() == is_v6))
}

/// Has packets say of hops and class what a program wants, as the kernel takes that.
fn set_header(of: Option<&TcpStream>, option: (i32, i32), value: i32) -> io::Result<()> {
    let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
    let is_v4 = option.0 == libc::IPPROTO_IP;
    let byte = match (option.1, value) {
        (libc::IP_TOS, _) if is_v4 => value as u8,
        (libc::IPV6_TCLASS, -1) if !is_v4 => 0,
        (_, -1) => HOP_LIMIT,
        (_, 0) if is_v4 => return Err(invalid()),
        _ => u8::try_from(value).map_err(|_| invalid())?,
    };
    match (of, option) {
        (Some(stream), (libc::IPPROTO_IP, libc::IP_TTL) | (_, libc::IPV6_UNICAST_HOPS)) => {
            stream.set_ttl(byte.max(1).into())
        }
        (Some(stream), _) => stream.set_tos(byte),
        (None, _) => Ok(()),
    }
}

/// What is known of a connection.
fn info(kind: &Kind) -> Option<Info> {
    match kind {
        Kind::Flowing(flow) => flow.stream.info(),
        _ => None,
    }
}
