//! Has servers checked by the stack of the link, and tells the forwarder and a person what came of it.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use exos::Exos;
use exos_inet::Instant;

use crate::forwarder::Forwarder;
use crate::health::{Outcome, Prober, Rule, Target};
use crate::packets::packet::Transport;
use crate::service::{Server, Services, Standing};

/// The checks of all servers that are to have flows.
pub struct Checking {
    prober: Prober,
    /// Of which state of the services the targets are.
    known: Option<u64>,
}

impl Checking {
    /// Checks by this rule.
    pub fn new(rule: Rule) -> Self {
        Self {
            prober: Prober::new(rule),
            known: None,
        }
    }

    /// Does what is due.
    pub fn turn(&mut self, exos: &mut Exos, forwarder: &mut Forwarder) {
        let now = exos.now();
        let changes = forwarder.services().changes();
        if self.known != Some(changes) {
            self.known = Some(changes);
            let targets = targets(forwarder.services(), self.prober.rule());
            forget_others(forwarder.services_mut(), &targets);
            self.prober.set_targets(now, &mut exos.stack, &targets);
        }
        self.prober.turn(now, &mut exos.stack);
        while let Some(outcome) = self.prober.poll_outcome() {
            let services = forwarder.services_mut();
            services.checked(&outcome);
            tell(services, &outcome);
        }
    }

    /// How servers are checked.
    pub fn rule(&self) -> &Rule {
        self.prober.rule()
    }

    /// Gives up what is under way.
    pub fn stop(&mut self, exos: &mut Exos) {
        self.prober.set_targets(exos.now(), &mut exos.stack, &[]);
    }

    /// When something is due next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.prober.poll_timeout()
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
