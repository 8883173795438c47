//! The flows that the kernel has been given: two entries for each, one for each way, and the hops that they name.
//!
//! Invariants: a flow is in both entries or in none, and names both its hops as long as it is there.

use exos::Error;
use exos_filter::handler::forward::Shape;
use exos_filter::handler::forward::layout::{Ends, OneWay};
use exos_inet::{Instant, Stack};

use super::hops::Hops;
use super::maps::Maps;
use super::tallies::Tallies;
use crate::endpoint::Endpoint;
use crate::flow::{Class, Flow, FlowId, Key, Tick};
use crate::forwarder::Forwarder;
use crate::limits::SWEEP_STEP;
use crate::service::Services;

/// The flows in the kernel.
pub(super) struct Table {
    pub(super) maps: Maps,
    hops: Hops,
    pub(super) tallies: Tallies,
    /// By their places in the forwarder's table.
    installed: Vec<Option<Installed>>,
    /// How many there are.
    pub(super) count: u32,
    /// Flows that were given to the kernel, and those that it did not take.
    pub(super) begun: u64,
    pub(super) refused: u64,
}

/// What a flow in the kernel was made of, by which it is found again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Route {
    key: Key,
    server: u16,
    our_port: u16,
}

#[derive(Clone, Copy)]
struct Installed {
    route: Route,
    /// Towards the server, and towards the client.
    hops: [u32; 2],
}

impl Table {
    /// Room for so many flows, of packets that look like these.
    pub(super) fn new(capacity: u32, shapes: &[Shape]) -> Result<Self, Error> {
        Ok(Self {
            maps: Maps::new(capacity, shapes)?,
            hops: Hops::default(),
            tallies: Tallies::default(),
            installed: Vec::new(),
            count: 0,
            begun: 0,
            refused: 0,
        })
    }

    /// A flow has begun, changed how it stands, or ended: tells the kernel what that is for it.
    pub(super) fn follow(
        &mut self,
        now: Instant,
        forwarder: &Forwarder,
        stack: &mut Stack,
        id: FlowId,
    ) {
        let flow = forwarder.flows().get(id);
        let stands = matches!(flow.state.class(), Class::Established | Class::Talking);
        let route = (flow.is_there && stands).then(|| Route::of(flow));
        let place = id.place();
        if self.installed.len() <= place {
            self.installed.resize(place + 1, None);
        }
        if self.installed[place].map(|installed| installed.route) == route {
            return;
        }
        if let Some(before) = self.installed[place].take() {
            self.remove(forwarder.services(), &before);
        }
        let Some(route) = route else {
            return;
        };
        match self.install(now, forwarder.services(), stack, id, route) {
            Some(installed) => {
                self.installed[place] = Some(installed);
                self.count += 1;
                self.begun += 1;
            }
            None => self.refused += 1,
        }
    }

    /// Both ways of a flow, or none.
    fn install(
        &mut self,
        now: Instant,
        services: &Services,
        stack: &mut Stack,
        id: FlowId,
        route: Route,
    ) -> Option<Installed> {
        let tallies = self.tallies.of(route.key.listener, route.server)?;
        let ways = route.ways(services);
        let to_server = self
            .hops
            .take(now, stack, &self.maps, ways[0].to.dst.ip())?;
        let Some(to_client) = self.hops.take(now, stack, &self.maps, ways[1].to.dst.ip()) else {
            self.hops.give(&self.maps, to_server);
            return None;
        };
        let hops = [to_server, to_client];
        let seen_ns = now.micros() * 1000;
        for (n, way) in ways.into_iter().enumerate() {
            let way = OneWay {
                place: id.place() as u32,
                hop: hops[n],
                tally: tallies[n],
                ..way
            };
            if self.maps.insert(&way, seen_ns).is_err() {
                ways[..n].iter().for_each(|way| self.maps.remove(way));
                hops.iter().for_each(|hop| self.hops.give(&self.maps, *hop));
                return None;
            }
        }
        Some(Installed { route, hops })
    }

    fn remove(&mut self, services: &Services, before: &Installed) {
        for way in &before.route.ways(services) {
            self.maps.remove(way);
        }
        for hop in before.hops {
            self.hops.give(&self.maps, hop);
        }
        self.count -= 1;
    }

    /// When the kernel last saw a packet of a flow; `None` where it does not have it.
    pub(super) fn seen(&self, services: &Services, id: FlowId) -> Option<Tick> {
        let installed = self.installed.get(id.place())?.as_ref()?;
        let ways = installed.route.ways(services);
        ways.iter().filter_map(|way| self.maps.seen(way)).max()
    }

    /// Writes the link addresses that have changed.
    pub(super) fn refresh(&mut self, now: Instant, stack: &mut Stack) {
        self.hops.refresh(now, stack, &self.maps);
    }

    /// Tells what was forwarded since the last time.
    pub(super) fn read_tallies(&mut self, forwarder: &mut Forwarder) {
        self.tallies.read(&self.maps, |course, since| {
            forwarder.note_forwarded(course, since.packets, since.bytes);
        });
    }

    /// Reads when some of the flows were last seen; true when these were the last of all.
    pub(super) fn sweep(&mut self, forwarder: &mut Forwarder) -> bool {
        let installed = &self.installed;
        self.maps.sweep(SWEEP_STEP, |place, seen| {
            if installed.get(place as usize).is_some_and(Option::is_some) {
                forwarder.note_seen(FlowId(place), seen);
            }
        })
    }
}

impl Route {
    pub(super) fn of(flow: &Flow) -> Self {
        Self {
            key: flow.key,
            server: flow.server,
            our_port: flow.our_port,
        }
    }

    /// Towards the server, and towards the client; hops and tallies are for others to say.
    pub(super) fn ways(&self, services: &Services) -> [OneWay; 2] {
        let listener = &services.listeners[usize::from(self.key.listener)];
        let server = &services.servers[usize::from(self.server)];
        let ours = Endpoint {
            address: server.ours,
            port: self.our_port,
        };
        let ends = |src: Endpoint, dst: Endpoint| Ends {
            src: src.into(),
            dst: dst.into(),
        };
        let way = |from, to| OneWay {
            protocol: listener.transport.number(),
            from,
            to,
            place: 0,
            hop: 0,
            tally: 0,
        };
        [
            way(ends(self.key.client, listener.at), ends(ours, server.at)),
            way(ends(server.at, ours), ends(listener.at, self.key.client)),
        ]
    }
}
