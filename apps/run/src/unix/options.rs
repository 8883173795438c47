//! getsockopt(2) and setsockopt(2) of sockets that go by intercepted calls.

use std::io;
use std::time::Duration;

use exos::inet::limits::HOP_LIMIT;
use exos::inet::tcp::{Info, Keepalive};
use exos_host::intercept::Call;

use super::sockets::{Kind, UnixSockets};
use crate::answer::{Answer, errno, fails};
use crate::context::Context;
use crate::target::{read_option, tcp_info, write_option, write_value};

/// What a segment holds of a socket that is not connected (`TCP_MAXSEG`), as by the kernel.
const NO_SEGMENT: i32 = 536;

impl UnixSockets {
    pub fn get_option(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        let (descriptor, key) = self.descriptor(call)?;
        let option = (call.args[1] as i32, call.args[2] as i32);
        let Some(key) = key else {
            let over = match option {
                (libc::SOL_SOCKET, libc::SO_ERROR) => self.take_error(descriptor.inode),
                _ => None,
            };
            let Some(error) = over else {
                return Ok(Answer::Pass);
            };
            write_option(&cx.calls, call, [call.args[3], call.args[4]], errno(&error))?;
            return Ok(Answer::Value(0));
        };
        let socket = &mut self.all[key];
        let value = match option {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                socket.error.take().map_or(0, |error| errno(&error))
            }
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => i32::from(socket.family.as_raw()),
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => match socket.kind {
                Kind::Datagrams(_) => libc::IPPROTO_UDP,
                _ => libc::IPPROTO_TCP,
            },
            (libc::SOL_SOCKET, libc::SO_TYPE) if matches!(socket.kind, Kind::Datagrams(_)) => {
                libc::SOCK_DGRAM
            }
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                i32::from(matches!(socket.kind, Kind::Listening(_)))
            }
            (libc::SOL_SOCKET, _) => return Ok(Answer::Pass),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => match &socket.kind {
                Kind::Flowing(flow) => i32::from(flow.stream.nodelay()?),
                _ => 0,
            },
            (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
                info(&socket.kind).map_or(NO_SEGMENT, |info| info.mss.into())
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => {
                HOP_LIMIT.into()
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                write_value(
                    &cx.calls,
                    call,
                    [call.args[3], call.args[4]],
                    &tcp_info(info(&socket.kind).as_ref()),
                )?;
                return Ok(Answer::Value(0));
            }
            // A packet has none: nothing, and not a number.
            (libc::IPPROTO_IP, libc::IP_OPTIONS) => {
                write_value(&cx.calls, call, [call.args[3], call.args[4]], &[])?;
                return Ok(Answer::Value(0));
            }
            (libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6, _) => 0,
            _ => return fails(libc::ENOPROTOOPT),
        };
        write_option(&cx.calls, call, [call.args[3], call.args[4]], value)?;
        Ok(Answer::Value(0))
    }

    pub fn set_option(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        let (_, Some(key)) = self.descriptor(call)? else {
            return Ok(Answer::Pass);
        };
        let stream = match &self.all[key].kind {
            Kind::Flowing(flow) => Some(&flow.stream),
            Kind::Connecting(connecting) => Some(&connecting.stream),
            Kind::Listening(_) | Kind::Datagrams(_) | Kind::Failed => None,
        };
        match (call.args[1] as i32, call.args[2] as i32, stream) {
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, Some(stream)) => {
                stream.set_nodelay(read_option(&cx.calls, call, call.args[3])? != 0)?;
            }
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, Some(stream)) => {
                let on = read_option(&cx.calls, call, call.args[3])? != 0;
                stream.set_keepalive(on.then(Keepalive::default));
                return Ok(Answer::Pass);
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
            // Those that say how packets are sent are taken, and left to our TCP.
            (libc::IPPROTO_TCP | libc::IPPROTO_IP | libc::IPPROTO_IPV6, ..) => {}
            _ => return fails(libc::ENOPROTOOPT),
        }
        Ok(Answer::Value(0))
    }
}

/// What is known of a connection.
fn info(kind: &Kind) -> Option<Info> {
    match kind {
        Kind::Flowing(flow) => flow.stream.info(),
        _ => None,
    }
}
