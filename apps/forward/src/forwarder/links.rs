//! What is known of the links: who may send, by which of them a packet leaves, and how long it may be there.
//!
//! With one link nothing is looked up: what came by it fits it.

use std::net::IpAddr;

use exos_inet::route::Routes;
use exos_wire::Mac;

/// Of links with these routes that by which packets to a host leave: that with the route that matches best.
pub fn link_to<'a>(links: impl Iterator<Item = &'a Routes>, host: IpAddr) -> usize {
    let mut best = (0, None);
    for (link, routes) in links.enumerate() {
        let matched = routes.matched_len(host);
        if matched > best.1 {
            best = (link, matched);
        }
    }
    best.0
}

/// The links of a forwarder, one at least, each by its place.
pub(super) struct Links {
    all: Vec<Link>,
    /// A packet of no more bytes than this, from the IP header on, fits every link.
    fits_all: u64,
}

struct Link {
    mac: Mac,
    mtu: usize,
    routes: Routes,
    /// Of the routes.
    generation: u64,
}

impl Links {
    /// Links with these link addresses, each with how long packets may be there.
    pub(super) fn new(links: &[(Mac, usize)]) -> Self {
        let link = |&(mac, mtu): &(Mac, usize)| Link {
            mac,
            mtu,
            routes: Routes::default(),
            generation: 0,
        };
        let mtus = || links.iter().map(|(_, mtu)| *mtu as u64);
        let (shortest, longest) = (mtus().min(), mtus().max());
        Self {
            all: links.iter().map(link).collect(),
            fits_all: match shortest == longest {
                true => u64::MAX,
                false => shortest.expect("a forwarder has a link"),
            },
        }
    }

    /// The link address of one.
    pub(super) fn mac(&self, link: usize) -> Mac {
        self.all[link].mac
    }

    /// The longest packet of any.
    pub(super) fn mtu_max(&self) -> usize {
        let mtus = self.all.iter().map(|link| link.mtu);
        mtus.max().expect("a forwarder has a link")
    }

    /// Where the routes of a link lead. Costs nothing where the generation is that of before.
    pub(super) fn set_routes(&mut self, link: usize, generation: u64, routes: &Routes) {
        let link = &mut self.all[link];
        if link.generation != generation {
            (link.generation, link.routes) = (generation, routes.clone());
        }
    }

    /// False for what can be nobody's address on any link.
    pub(super) fn may_send(&self, ip: IpAddr) -> bool {
        self.all.iter().all(|link| link.routes.may_send(ip))
    }

    /// The link by which packets to this host leave.
    #[inline]
    pub(super) fn to(&self, ip: IpAddr) -> usize {
        match self.all.len() {
            1 => 0,
            _ => link_to(self.all.iter().map(|link| &link.routes), ip),
        }
    }

    /// How long packets to this host may be on the link by which they leave.
    pub(super) fn mtu_to(&self, ip: IpAddr) -> usize {
        self.all[self.to(ip)].mtu
    }

    /// How long a packet to this host may be, where one of this length is too long.
    #[inline]
    pub(super) fn exceeded(&self, len: u64, to: impl Into<IpAddr>) -> Option<usize> {
        if len <= self.fits_all {
            return None;
        }
        let mtu = self.mtu_to(to.into());
        (len > mtu as u64).then_some(mtu)
    }
}
