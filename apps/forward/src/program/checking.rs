//! Has servers checked by the stack of the link, and tells the forwarder and a person what came of it.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use exos_inet::Instant;

use crate::forwarder::Forwarder;
use crate::health::{Outcome, Prober, Rule, Target};
use crate::packets::packet::Transport;
use crate::program::links::Links;
use crate::service::{Server, Services, Standing};

/// The checks of all servers that are to have flows.
pub struct Checking {
    /// On each link, by its stack.
    probers: Vec<Prober>,
    /// Of which state of the services the targets are.
    known: Option<u64>,
}

impl Checking {
    /// Checks by this rule, on this many links.
    pub fn new(rule: Rule, links: usize) -> Self {
        let prober = || Prober::new(rule.clone());
        Self {
            probers: std::iter::repeat_with(prober).take(links).collect(),
            known: None,
        }
    }

    /// Does what is due.
    pub fn turn(&mut self, links: &mut Links, forwarder: &mut Forwarder) {
        let now = links.now();
        let changes = forwarder.services().changes();
        if self.known != Some(changes) {
            self.known = Some(changes);
            let targets = targets(forwarder.services(), self.rule());
            forget_others(forwarder.services_mut(), &targets);
            self.set_targets(links, &targets);
        }
        for (prober, exos) in self.probers.iter_mut().zip(links.all_mut()) {
            prober.turn(now, &mut exos.stack);
            while let Some(outcome) = prober.poll_outcome() {
                let services = forwarder.services_mut();
                services.checked(&outcome);
                tell(services, &outcome);
            }
        }
    }

    /// Checks these from now on, each by the link that leads there.
    fn set_targets(&mut self, links: &mut Links, targets: &[Target]) {
        let now = links.now();
        for (place, prober) in self.probers.iter_mut().enumerate() {
            let here = |target: &&Target| links.place_to(target.end.ip()) == place;
            let targets: Vec<Target> = targets.iter().filter(here).cloned().collect();
            prober.set_targets(now, &mut links.all_mut()[place].stack, &targets);
        }
    }

    /// How servers are checked.
    pub fn rule(&self) -> &Rule {
        self.probers[0].rule()
    }

    /// Gives up what is under way.
    pub fn stop(&mut self, links: &mut Links) {
        self.set_targets(links, &[]);
    }

    /// When something is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let all = self.probers.iter().filter_map(Prober::poll_timeout);
        all.min()
    }
}

/// The servers that are checked: connections say nothing of servers of datagrams, unless a port is named for that.
fn targets(services: &Services, rule: &Rule) -> Vec<Target> {
    let is_checked = |server: &Server| {
        let has_port = server.transport == Transport::Tcp || rule.port.is_some();
        server.standing == Standing::InUse && has_port
    };
    let target = |(place, server): (u16, &Server)| Target {
        server: place,
        end: SocketAddr::new(
            server.at.address.into(),
            rule.port.unwrap_or(server.at.port),
        ),
        ours: IpAddr::from(server.ours),
        is_well: !server.health.has_failed,
    };
    let all = services.present().filter(|(_, server)| is_checked(server));
    all.map(target).collect()
}

/// A server that is not checked any more, as servers of UDP without a port for that, is not taken for what it was.
fn forget_others(services: &mut Services, targets: &[Target]) {
    let targets: HashSet<u16> = targets.iter().map(|target| target.server).collect();
    let servers = services.present();
    let failed = servers.filter(|(_, server)| server.health.has_failed);
    let others = failed.filter(|(place, _)| !targets.contains(place));
    let others: Vec<u16> = others.map(|(place, _)| place).collect();
    others
        .into_iter()
        .for_each(|server| services.forget_checks_of(server));
}

fn tell(services: &Services, outcome: &Outcome) {
    let server = &services.servers[usize::from(outcome.server)];
    let (protocol, at) = (server.transport.name(), services.in_words(server.at));
    match (outcome.is_well, outcome.result) {
        (Some(true), _) => exos_program::info!("exos forward: {protocol}:{at} is well again"),
        (Some(false), Err(failure)) => {
            exos_program::warn!(
                "exos forward: {protocol}:{at} gets no new connections: it {failure}"
            );
        }
        (Some(false), Ok(())) | (None, _) => {}
    }
}
