//! Next hops by the host's own tables, for a stack that shares the host's address.
//!
//! The host answers ARP and NDP for the address, so it knows the neighbours; the stack asks it. A
//! neighbour that the host does not know is asked for by the host in its turn, and when the answer
//! is there, the kernel tells us through a netlink subscription.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use exos_host::Error;
use exos_host::netlink::{Change, Neighbour, Netlink, Watch};
use exos_inet::{Instant, RouteTo, Stack};
use exos_wire::Mac;
use rustix::io::Errno;

/// The tables of one interface.
pub struct HostTables {
    netlink: Netlink,
    watch: Watch,
    interface: u32,
    /// When changes were last asked for.
    looked: Instant,
}

/// How often a busy loop asks for changes: a system call a turn would cost more than it is worth,
/// and a neighbour that takes a millisecond longer to be known is nothing beside its answer's way.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl HostTables {
    /// The tables for packets that leave by the interface of this index.
    pub fn new(interface: u32) -> Result<Self, Error> {
        Ok(Self {
            netlink: Netlink::new()?,
            watch: Watch::everything()?,
            interface,
            looked: Instant::START,
        })
    }

    /// Readable when something may have changed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }

    /// The host's routes over the interface: networks on the link, and networks behind routers.
    pub fn routes(&self) -> Result<Vec<RouteTo>, Error> {
        let mut entries = self.netlink.routes()?;
        entries.retain(|r| r.oif == self.interface);
        // Of several to one network the lowest number counts.
        entries.sort_by_key(|r| r.priority);
        let mut routes: Vec<RouteTo> = Vec::new();
        for entry in entries {
            let route = RouteTo {
                network: entry.destination,
                prefix: entry.prefix,
                gateway: entry.gateway,
            };
            if !routes
                .iter()
                .any(|r| (r.network, r.prefix) == (route.network, route.prefix))
            {
                routes.push(route);
            }
        }
        Ok(routes)
    }

    /// Answer what the stack asks, and pass on what has changed.
    pub fn serve(&mut self, now: Instant, stack: &mut Stack) -> Result<(), Error> {
        while let Some(ip) = stack.poll_unresolved() {
            self.resolve(now, ip, stack)?;
        }
        if now - self.looked < LOOK_EVERY {
            return Ok(());
        }
        self.looked = now;
        let mut routes_changed = false;
        while let Some(change) = self.watch.next()? {
            match change {
                Change::Neighbour(n) => self.learn(now, &n, stack),
                Change::Routes | Change::Missed => routes_changed = true,
                Change::NeighbourGone(_)
                | Change::Link(_)
                | Change::LinkGone(_)
                | Change::Addresses => {}
            }
        }
        if routes_changed {
            let routes = self.routes()?;
            // A table that contradicts itself for a moment is looked at again with its next change.
            let _ = stack.set_routes(routes, Vec::new());
            for neighbour in self.netlink.neighbours(self.interface)? {
                self.learn(now, &neighbour, stack);
            }
        }
        Ok(())
    }

    /// What the host knows of a neighbour, or else let it find out.
    fn resolve(&self, now: Instant, ip: IpAddr, stack: &mut Stack) -> Result<(), Error> {
        match self.netlink.neighbour(self.interface, ip)? {
            Some(n) if n.state.is_usable() && n.mac.is_some() => self.learn(now, &n, stack),
            // A neighbour that cannot be asked for is one that does not answer: the stack gives up in time.
            _ => match self.netlink.probe_neighbour(self.interface, ip) {
                Err(error) if error.is(Errno::PERM.raw_os_error()) => self.send_to(ip),
                _ => {}
            },
        }
        Ok(())
    }

    /// Without privilege the host's table cannot be told to ask. But the host asks when it has something to send: an empty
    /// datagram for the port where nobody listens (discard, RFC 863).
    fn send_to(&self, ip: IpAddr) {
        let discard = 9;
        let (from, to): (SocketAddr, SocketAddr) = match ip {
            IpAddr::V4(ip) => ((Ipv4Addr::UNSPECIFIED, 0).into(), (ip, discard).into()),
            IpAddr::V6(ip) => {
                let to = SocketAddrV6::new(ip, discard, 0, self.interface);
                ((Ipv6Addr::UNSPECIFIED, 0).into(), to.into())
            }
        };
        let sent = UdpSocket::bind(from).and_then(|socket| {
            socket.set_nonblocking(true)?;
            socket.send_to(&[], to)
        });
        // A host that cannot send there has nobody to ask.
        drop(sent);
    }

    fn learn(&self, now: Instant, neighbour: &Neighbour, stack: &mut Stack) {
        if let Some(mac) = neighbour.mac
            && neighbour.index == self.interface
            && neighbour.state.is_usable()
        {
            stack.set_neighbor(now, neighbour.ip, Mac(mac));
        }
    }
}
