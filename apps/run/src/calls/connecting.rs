//! What `connect` does: whose a socket is from then on, and which way it goes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use exos::inet::tcp::IpFields;
use exos::net::TcpStream;
use exos::via::Protocol;
use exos::{Options, net};
use exos_host::intercept::Call;
use exos_preload::memory::MARKED;
use rustix::net::{AddressFamily, sockopt};

use super::Sockets;
use crate::answer::{Answer, fails};
use crate::context::Context;
use crate::datagram_socket::DatagramSocket;
use crate::target::{
    Descriptor, decode, header_options, is_to_none, keepalive_options, read_name, user_timeout,
};

impl Sockets {
    pub(super) fn connect(&mut self, cx: &Context, call: &Call) -> io::Result<Answer> {
        let name = read_name(&cx.calls, call, call.args[1], call.args[2])?;
        let to = decode(&name);
        if let Some((shared, number)) = self.shared_datagrams(call) {
            shared.connect_datagrams(cx, number, to)?;
            return Ok(Answer::Value(0));
        }
        if let Some(answer) = self.unix.connect_datagrams(cx, call, to)? {
            return Ok(answer);
        }
        // By the library what has ended so is told by itself.
        if let Some(sharing) = self.sharing.as_ref().filter(|_| call.args[3] != MARKED)
            && is_to_none(&name)
        {
            return sharing.disconnect_kernels(call);
        }
        if let Some(answer) = self.connect_untouched(cx, call, to)? {
            return Ok(answer);
        }
        if let Some((shared, part)) = self.shared_for(call)
            && let Some(answer) = shared.connect_again(cx, call, part)
        {
            return answer;
        }
        // What is this host's own stays the kernel's; and so does what ends a connection of datagrams.
        let Some(to) = to.filter(is_elsewhere) else {
            return Ok(Answer::Pass);
        };
        let (descriptor, key) = self.unix.descriptor(call)?;
        if let Some(key) = key {
            return self.unix.connect_again(cx, call, key, &descriptor);
        }
        match descriptor.tcp_family() {
            Some(family) => self.connect_stream(cx, call, (&descriptor, family), to),
            None => self.connect_kernels_datagrams(cx, call, &descriptor, to),
        }
    }

    /// A socket of TCP that nothing was done to before is connected to another host; none of another.
    fn connect_untouched(
        &mut self,
        cx: &Context,
        call: &Call,
        to: Option<SocketAddr>,
    ) -> io::Result<Option<Answer>> {
        let sharing = self.sharing.as_mut();
        let Some(to) = to.filter(is_elsewhere) else {
            return Ok(None);
        };
        let Some((shared, said)) = sharing.and_then(|sharing| sharing.untouched_for(call)) else {
            return Ok(None);
        };
        if to.is_ipv6() && !said.is_v6 || cx.is_hosts(to, Protocol::Tcp) || !shared.knows(said) {
            return Ok(None);
        }
        shared.connect_untouched(cx, call, said, to)?;
        match said.nonblocking {
            true => fails(libc::EINPROGRESS),
            false => Ok(Some(Answer::Later)),
        }
    }

    fn connect_stream(
        &mut self,
        cx: &Context,
        call: &Call,
        (descriptor, family): (&Descriptor, AddressFamily),
        to: SocketAddr,
    ) -> io::Result<Answer> {
        if cx.is_hosts(to, Protocol::Tcp) {
            return Ok(Answer::Pass);
        }
        let bound = self.ports.bound(descriptor.inode);
        let from = bound.and_then(|bound| {
            let ip = match bound.ip().is_unspecified() {
                true => cx.net.with(|exos| exos.stack.source_for(to.ip()))?,
                false => bound.ip(),
            };
            Some(SocketAddr::new(ip, bound.port()))
        });
        let (hops, class) = header_options(descriptor, to.is_ipv6())?;
        let options = Options {
            ip: IpFields {
                hop_limit: hops.max(1),
                dscp: class >> 2,
            },
            ..Options::default()
        };
        let stream = TcpStream::open(&cx.net, to, from, &options)?;
        if sockopt::socket_keepalive(&descriptor.fd)? {
            stream.set_keepalive(Some(keepalive_options(descriptor)));
        }
        stream.set_user_timeout(user_timeout(descriptor));
        if sockopt::socket_linger(&descriptor.fd)? == Some(Duration::ZERO) {
            stream.set_linger(Some(Duration::ZERO))?;
        }
        let of = (descriptor, family);
        match self.shared_for(call) {
            Some((shared, part)) => shared.share_attempt(cx, (call, part), of, stream, to)?,
            None => self.unix.connect(cx, call, of, stream, to)?,
        }
        self.ports.forget(descriptor.inode);
        match descriptor.nonblocking {
            true => fails(libc::EINPROGRESS),
            false => Ok(Answer::Later),
        }
    }

    /// A socket of the kernel's for datagrams is connected to another host: where sockets are shared it is ours from now on. Calls that
    /// the library does not see (the C library's own, when it looks names up) get a Unix socket.
    fn connect_kernels_datagrams(
        &mut self,
        cx: &Context,
        call: &Call,
        descriptor: &Descriptor,
        to: SocketAddr,
    ) -> io::Result<Answer> {
        let family = descriptor.udp_family();
        let Some(family) = family.filter(|_| self.sharing.is_some()) else {
            return Ok(Answer::Pass);
        };
        let is_kernels = descriptor.is_bound() || to.ip().is_multicast();
        if is_kernels || cx.is_hosts(to, Protocol::Udp) {
            return Ok(Answer::Pass);
        }
        let Some(source) = cx.source_for(to.ip()) else {
            return fails(libc::ENETUNREACH);
        };
        if let Some((shared, part)) = self.shared_for(call) {
            let number = shared.share_datagrams(cx, (call, part), descriptor, family)?;
            shared.connect_datagrams(cx, number, Some(to))?;
            return Ok(Answer::Value(0));
        }
        let socket = net::UdpSocket::bind(&cx.net, SocketAddr::new(source, 0))?;
        let mut socket = DatagramSocket::of(socket)?;
        socket.connect(cx, to)?;
        self.unix
            .open_datagrams(cx, call, (descriptor, family), socket, to)?;
        Ok(Answer::Value(0))
    }
}

/// Whether an address may be another host's.
fn is_elsewhere(to: &SocketAddr) -> bool {
    !to.ip().is_loopback() && !to.ip().is_unspecified()
}
