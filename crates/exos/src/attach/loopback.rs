//! What listens on the host's loopback addresses alone, reached over a pair of our own.

use std::net::Ipv4Addr;

use exos_host::Error;
use exos_inet::RouteTo;

use crate::node::Exos;

impl Exos {
    /// Let connections over our own pair reach what listens on the host's IPv4 loopback addresses alone. The host takes
    /// packets for these from no interface but the pair's, and the setting goes with it. IPv6 knows no such thing.
    ///
    /// # Errors
    ///
    /// There is no pair of our own, nothing is reached on the host's loopback interface, or its settings cannot be written.
    pub fn reach_loopback(&mut self) -> Result<(), Error> {
        let pair = self.pair.as_ref();
        let pair = pair.ok_or_else(|| Error::new("there is no interface pair of our own"))?;
        if !pair.netlink.link_by_name("lo")?.up {
            return Err(
                Error::new("the host's loopback interface is down").mend("ip link set lo up")
            );
        }
        let setting = format!("/proc/sys/net/ipv4/conf/{}/route_localnet", pair.host_name);
        std::fs::write(&setting, "1").map_err(|e| Error::io(format!("cannot set {setting}"), e))?;
        let [host, _] = pair.host_addresses;
        let config = self.stack.config();
        let (mut routes, gateways) = (config.routes.clone(), config.gateways.clone());
        routes.push(RouteTo {
            network: Ipv4Addr::new(127, 0, 0, 0).into(),
            prefix: 8,
            gateway: Some(host.ip),
        });
        let taken = self.stack.set_routes(routes, gateways);
        taken.map_err(|e| Error::new(format!("no route to the host's loopback addresses: {e}")))
    }
}
