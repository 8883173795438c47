//! Addresses that are a program's own on a link, and what belongs to them.
//!
//! [`Addresses`] fit together once they are made: there is one at least, each gateway is of a family that has one, and each
//! pool has an address by which it is found and holds none of the gateways.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use exos_host::error::{Error, ErrorKind};
use exos_inet::route::{Prefix, Routes};
use exos_inet::{Config, RouteTo};
use exos_wire::Mac;

/// An address with its prefix length.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Prefixed {
    /// The address.
    pub ip: IpAddr,
    /// How many leading bits are the network's.
    pub prefix: u8,
}

impl Prefixed {
    /// The address alone, as a network of one.
    pub(crate) fn single(ip: IpAddr) -> Self {
        let prefix = if ip.is_ipv4() { 32 } else { 128 };
        Self { ip, prefix }
    }

    pub(super) fn network(&self) -> Prefix {
        Prefix::new(self.ip, self.prefix).expect("its length was checked when it was read")
    }
}

impl FromStr for Prefixed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write for example 192.0.2.7/24 or 2001:db8::7/64";
        let (ip, prefix) = text
            .split_once('/')
            .ok_or(format!("{text:?} has no prefix length; {help}"))?;
        let ip: IpAddr = ip
            .parse()
            .map_err(|_| format!("{ip:?} is no address; {help}"))?;
        let most = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|p| *p <= most);
        let prefix = prefix.ok_or(format!(
            "the prefix length of {text:?} is not from 0 to {most}; {help}"
        ))?;
        Ok(Self { ip, prefix })
    }
}

impl fmt::Display for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

/// A network that is reached through a router on the link.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Route {
    /// The network.
    pub to: Prefixed,
    /// The router.
    pub gateway: IpAddr,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write NETWORK/PREFIX,GATEWAY, for example 10.8.0.0/16,10.0.0.1";
        let (to, gateway) = text
            .split_once(',')
            .ok_or(format!("{text:?} names no gateway; {help}"))?;
        let to: Prefixed = to.parse()?;
        let gateway = gateway
            .parse()
            .map_err(|_| format!("{gateway:?} is no address; {help}"))?;
        Ok(Self { to, gateway })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.to, self.gateway)
    }
}

/// What a program answers for, and by which routers it reaches others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Addresses {
    ours: Vec<Prefixed>,
    gateways: Vec<IpAddr>,
    further: Vec<Route>,
    pools: Vec<Prefixed>,
}

impl Addresses {
    /// Addresses that nobody else on the link has.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn new(ours: impl Into<Vec<Prefixed>>) -> Result<Self, Error> {
        let ours = ours.into();
        if ours.is_empty() {
            return Err(Error::new("no address to answer for")
                .mend("name one that nobody has, or share the interface's own with the host")
                .of_kind(ErrorKind::Invalid));
        }
        Ok(Self {
            ours,
            gateways: Vec::new(),
            further: Vec::new(),
            pools: Vec::new(),
        })
    }

    /// With these default routers.
    ///
    /// # Errors
    ///
    /// One is of a family without an address, or in a pool.
    pub fn with_gateways(mut self, gateways: impl Into<Vec<IpAddr>>) -> Result<Self, Error> {
        self.gateways = gateways.into();
        for gateway in &self.gateways {
            let of_family = |a: &Prefixed| a.ip.is_ipv4() == gateway.is_ipv4();
            if !self.ours.iter().any(of_family) {
                return Err(Error::new(format!(
                    "the gateway {gateway} is of a family without an address"
                ))
                .mend("name an address of that family too")
                .of_kind(ErrorKind::Invalid));
            }
        }
        self.check_pools()
    }

    /// With these routes beside those that follow from addresses and default routers.
    ///
    /// # Errors
    ///
    /// The router of one is not on the link, or of another family.
    pub fn with_routes(mut self, further: impl Into<Vec<Route>>) -> Result<Self, Error> {
        self.further = further.into();
        let mut routes = self.routes_without_pools();
        for route in &self.further {
            let added = routes.add_gateway(route.to.network(), route.gateway);
            added.map_err(|e| {
                Error::new(format!("the route {route} cannot be: {e}")).of_kind(ErrorKind::Invalid)
            })?;
        }
        Ok(self)
    }

    /// With these prefixes, which are ours with all their addresses, and from which connections are opened: each a part of
    /// the network of an address, or a network that others route to an address. To an interface of our own the host is given
    /// routes.
    ///
    /// # Errors
    ///
    /// One is not to be reached by any address, or holds a gateway.
    pub fn with_pools(mut self, pools: impl Into<Vec<Prefixed>>) -> Result<Self, Error> {
        self.pools = pools.into();
        self.check_pools()
    }

    fn check_pools(self) -> Result<Self, Error> {
        let wrong = |what: String| Error::new(what).of_kind(ErrorKind::Invalid);
        let mut routes = self.routes_without_pools();
        for pool in &self.pools {
            let added = routes.add_pool(pool.network());
            added.map_err(|e| wrong(e.to_string()))?;
        }
        for gateway in &self.gateways {
            if let Some(pool) = self.pool_of(*gateway) {
                let what = format!("the gateway {gateway} is in the pool {pool}");
                return Err(wrong(what).mend("choose a pool of addresses that nobody has"));
            }
        }
        Ok(self)
    }

    /// The addresses and pools as the stack takes them.
    pub(super) fn routes(&self) -> Routes {
        let mut routes = self.routes_without_pools();
        for pool in &self.pools {
            let added = routes.add_pool(pool.network());
            added.expect("pools are checked when they are named");
        }
        routes
    }

    fn routes_without_pools(&self) -> Routes {
        let mut routes = Routes::new();
        for address in &self.ours {
            // What is wrong with an address is said where it is used.
            let _ = routes.add_address(address.ip, address.prefix);
        }
        routes
    }

    /// The pool with this address.
    pub(super) fn pool_of(&self, ip: IpAddr) -> Option<&Prefixed> {
        self.pools.iter().find(|pool| pool.network().contains(ip))
    }

    /// The addresses.
    pub fn ours(&self) -> &[Prefixed] {
        &self.ours
    }

    /// The default routers.
    pub fn gateways(&self) -> &[IpAddr] {
        &self.gateways
    }

    /// The prefixes of which all addresses are ours.
    pub fn pools(&self) -> &[Prefixed] {
        &self.pools
    }

    /// What a stack with these addresses is made of.
    pub fn config(&self, mac: &Mac, mtu: usize) -> Config {
        let pairs = |list: &[Prefixed]| list.iter().map(|a| (a.ip, a.prefix)).collect();
        let route = |route: &Route| RouteTo {
            network: route.to.ip,
            prefix: route.to.prefix,
            gateway: Some(route.gateway),
        };
        Config {
            addresses: pairs(&self.ours),
            pools: pairs(&self.pools),
            gateways: self.gateways.clone(),
            routes: self.further.iter().map(route).collect(),
            ..Config::new(*mac, mtu)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_prefix() {
        let parsed: Prefixed = "fd00::1/64".parse().unwrap();
        assert_eq!(parsed.to_string(), "fd00::1/64");
        for bad in ["10.0.0.1", "10.0.0.1/33", "x/24", "10.0.0.1/", "fd00::/129"] {
            assert!(bad.parse::<Prefixed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn contradictions_are_refused_before_anything_is_made() {
        let address = || Addresses::new(["10.0.0.1/24".parse().unwrap()]).unwrap();
        let refused = |addresses: Result<Addresses, Error>| {
            let error = addresses.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            error.to_string()
        };
        assert!(refused(Addresses::new([])).contains("no address"));
        let other_family = address().with_gateways(["fd00::1".parse().unwrap()]);
        assert!(refused(other_family).contains("family"));
        assert!(
            address()
                .with_gateways(["10.0.0.2".parse().unwrap()])
                .is_ok()
        );
    }

    #[test]
    fn routes_lead_through_a_router_on_the_link() {
        let route = |text: &str| text.parse::<Route>();
        for bad in [
            "10.8.0.0/16",
            "10.8.0.0,10.0.0.1",
            "10.8.0.0/16,",
            "10.8.0.0/16,x",
        ] {
            let said = route(bad).unwrap_err();
            assert!(said.contains("write"), "{bad}: {said}");
        }
        let address = || Addresses::new(["10.0.0.2/24".parse().unwrap()]).unwrap();
        let with = |text: &str| address().with_routes([route(text).unwrap()]);
        for (text, part) in [
            ("10.8.0.0/16,10.0.1.1", "in the prefix of none"),
            ("fd00::/64,10.0.0.1", "family"),
            ("10.8.0.0/16,10.0.0.2", "cannot be"),
        ] {
            let error = with(text).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Invalid);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
        let config = with("10.8.0.0/16,10.0.0.1")
            .unwrap()
            .config(&Mac::ZERO, 1500);
        assert_eq!(config.routes[0].gateway, Some("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn pools_fit_the_addresses_and_gateways() {
        let parse = |pool: &str| -> Prefixed { pool.parse().unwrap() };
        let both = || Addresses::new(["10.0.0.2/24", "fd00::2/64"].map(parse)).unwrap();
        let refusal = |addresses: Result<Addresses, Error>| addresses.unwrap_err().to_string();
        for (pool, part) in [
            ("10.9.0.1/16", "is 10.9.0.0/16"),
            ("10.0.0.0/25", "the network 10.0.0.0/24"),
            ("224.0.0.0/8", "224.0.0.0/3"),
        ] {
            let said = refusal(both().with_pools([parse(pool)]));
            assert!(said.contains(part), "{pool}: {said}");
        }
        let (gateway, pool) = (["10.0.0.65".parse().unwrap()], [parse("10.0.0.64/26")]);
        let pool_last = both()
            .with_gateways(gateway)
            .and_then(|a| a.with_pools(pool));
        let gateway_last = both()
            .with_pools(pool)
            .and_then(|a| a.with_gateways(gateway));
        for wrong in [pool_last, gateway_last] {
            assert!(refusal(wrong).contains("the gateway 10.0.0.65"));
        }
        let alone = Addresses::new([parse("fd00::2/64")]).unwrap();
        let alone = alone.with_pools([parse("10.9.0.0/16")]);
        assert!(refusal(alone).contains("needs an address"));
    }
}
