//! Connecting a socket of TCP that nothing was done to since its program made it, as the library says: what would be asked of the kernel
//! about it is asked once, of one that is as new.

use std::cell::OnceCell;
use std::io;
use std::net::SocketAddr;

use exos::Options;
use exos::inet::tcp::IpFields;
use exos::net::TcpStream;
use exos_host::intercept::Call;
use exos_preload::memory::{Socket, Untouched, options};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::opening::{attempt, copy_options};
use super::sockets::SharedSockets;
use crate::context::Context;
use crate::target::Descriptor;
use crate::waiting::Patience;

mod touched;

pub(super) use self::touched::Touched;

/// New sockets of the kernel's, for IPv4 and for IPv6: their options, which the host's administrator may have changed (sysctl(8)).
#[derive(Default)]
pub(super) struct Templates([OnceCell<Box<Socket>>; 2]);

impl Templates {
    fn of(&self, family: AddressFamily) -> io::Result<&Socket> {
        let place = &self.0[usize::from(family == AddressFamily::INET6)];
        if let Some(template) = place.get() {
            return Ok(template);
        }
        let descriptor = Descriptor {
            fd: socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?,
            inode: 0,
            user: 0,
            nonblocking: false,
        };
        let template = Box::<Socket>::default();
        copy_options(&descriptor, family, &template)?;
        Ok(place.get_or_init(|| template))
    }
}

impl SharedSockets {
    /// Whether it is known how new sockets of that kind are: the kernel may have none to ask.
    pub fn knows(&self, said: Untouched) -> bool {
        self.templates.of(family_of(said)).is_ok()
    }

    /// Shares a connection that is being opened, of a socket that is as it was made; the call waits where the socket's calls do.
    pub fn connect_untouched(
        &mut self,
        cx: &Context,
        call: &Call,
        said: Untouched,
        to: SocketAddr,
    ) -> io::Result<()> {
        let family = family_of(said);
        let headers = self.templates.of(family)?.headers(to.is_ipv6());
        let options = Options {
            ip: IpFields {
                hop_limit: headers.hops().max(1),
                dscp: headers.class() >> 2,
            },
            ..Options::default()
        };
        let stream = TcpStream::open(&cx.net, to, None, &options)?;
        let number = self.table.insert(attempt(family, stream, to)?, 0);
        let number = number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOBUFS))?;
        let socket = self.memory.socket(number);
        let template = self.templates.of(family)?;
        socket.take_options_of(template);
        socket.set_option(options::NONBLOCK, said.nonblocking);
        self.put(cx, (call, said.part), number, said.close_on_exec)
            .inspect_err(|_| drop(self.table.remove(number)))?;
        self.untouched += 1;
        let patience = (!said.nonblocking).then(|| Patience::connecting(None, false));
        self.await_attempt(cx, call, number, patience)
    }
}

fn family_of(said: Untouched) -> AddressFamily {
    match said.is_v6 {
        true => AddressFamily::INET6,
        false => AddressFamily::INET,
    }
}
