//! Servers that are checked by the forwarder's own stack, in virtual time: they stop, lie, say nothing, and come back.

use super::*;
use exos_forward::forwarder::NoServer;
use exos_forward::health::{Failure, Kind, Outcome, Prober, Question, Rule, Target};

const SECOND: Duration = Duration::from_secs(1);

/// A network with a forwarder that checks its servers of IPv4 once a second.
struct Checked {
    network: Network,
    prober: Prober,
    outcomes: Vec<Outcome>,
    /// What each server answers.
    answers: [Option<&'static str>; 2],
}

fn rule(kind: Kind) -> Rule {
    Rule {
        kind,
        port: None,
        interval: SECOND,
        timeout: SECOND / 2,
        rise: 2,
        fall: 3,
    }
}

fn http() -> Kind {
    Kind::Http(Question {
        path: "/well".to_owned(),
        host: None,
        status: 200..=200,
        body: Some("very well".to_owned()),
    })
}

const WELL: &str = "HTTP/1.1 200 OK\r\n\r\nvery well";

impl Checked {
    fn new(kind: Kind, lost: u64) -> Self {
        let mut network = Network::new(11, lost);
        let mut prober = Prober::new(rule(kind));
        let target = |server: u16| Target {
            server,
            end: SocketAddr::new(address(SERVERS[usize::from(server)], false), 8080),
            ours: address(FORWARDER, false),
            is_well: true,
        };
        let stack = &mut network.stacks[FORWARDER];
        prober.set_targets(network.now, stack, &[0, 1].map(target));
        Self {
            network,
            prober,
            outcomes: Vec::new(),
            answers: [Some(WELL); 2],
        }
    }

    fn run(&mut self, time: Duration) {
        let until = self.network.now + time;
        while self.network.now < until {
            self.network.step();
            let now = self.network.now;
            self.prober.turn(now, &mut self.network.stacks[FORWARDER]);
            while let Some(outcome) = self.prober.poll_outcome() {
                self.network.forwarder.services_mut().checked(&outcome);
                self.outcomes.push(outcome);
            }
            self.network.forwarder.handle_timeout(now);
            (0..2).for_each(|n| self.answer(n));
        }
    }

    fn answer(&mut self, n: usize) {
        let stack = &mut self.network.stacks[SERVERS[n]];
        while let Some(event) = stack.poll_event() {
            let id = event.connection;
            let asked = stack.tcp.readable(id).len();
            stack.tcp.consume(id, asked);
            if let Some(text) = self.answers[n].filter(|_| asked > 0) {
                stack
                    .tcp
                    .send(id, Buffer::from(text.as_bytes().to_vec()).whole());
                stack.tcp.finish(id);
            }
        }
    }

    /// What a server's last check said, and whether it is well.
    fn last(&self, server: u16) -> (Result<(), Failure>, bool) {
        let all = self.outcomes.iter().rev();
        let result = all.clone().find(|o| o.server == server).unwrap().result;
        let told = all.clone().filter(|o| o.server == server);
        let is_well = told.filter_map(|o| o.is_well).next().unwrap_or(true);
        (result, is_well)
    }

    fn connections(&self) -> usize {
        let all = self.network.stacks.iter();
        all.map(|s| s.tcp.connections() + s.tcp.time_wait_connections())
            .sum()
    }
}

/// Both are well for a while; one stops, gets nothing, and comes back. Nothing is left of the checks on any side.
#[test]
fn a_server_that_stops_and_comes_back() {
    for kind in [Kind::Tcp, http()] {
        let mut checked = Checked::new(kind, 0);
        checked.run(3 * SECOND + SECOND / 4);
        assert_eq!(
            checked.outcomes.len(),
            7,
            "once a second, half a second apart"
        );
        assert!(checked.outcomes.iter().all(|o| o.result.is_ok()));
        assert_eq!(checked.connections(), 0);
        let stopped = checked.network.listeners[0];
        checked.network.stacks[SERVERS[0]]
            .tcp
            .close_listener(stopped);
        checked.run(2 * SECOND);
        assert_eq!(checked.last(0), (Err(Failure::Refused), true));
        checked.run(SECOND);
        assert_eq!(checked.last(0), (Err(Failure::Refused), false));
        assert!(
            checked.network.forwarder.services().servers[0]
                .health
                .has_failed
        );
        for _ in 0..20 {
            let hash = checked.network.random.next();
            let services = checked.network.forwarder.services_mut();
            assert_eq!(services.choose(0, hash), Some(1));
        }
        let tcp = &mut checked.network.stacks[SERVERS[0]].tcp;
        tcp.listen(None, 8080, ListenOptions::default()).unwrap();
        checked.run(2 * SECOND);
        assert_eq!(checked.last(0), (Ok(()), true));
        assert_eq!(checked.last(1), (Ok(()), true));
        assert_eq!(checked.connections(), 0);
        let counters = checked.network.forwarder.counters();
        assert_eq!((counters.unknown_flow, counters.flows_begun), (0, 0));
    }
}

/// Whatever else than the wanted answer is named for what it is.
#[test]
fn answers_that_are_not_the_wanted_one() {
    for (answer, failure) in [
        (Some("HTTP/1.1 503 Busy\r\n\r\n"), Failure::Status(503)),
        (Some("HTTP/1.1 200 OK\r\n\r\nnot so"), Failure::Body),
        (Some("220 ready\r\n"), Failure::NotHttp),
        (None, Failure::Silent),
    ] {
        let mut checked = Checked::new(http(), 0);
        checked.answers[1] = answer;
        checked.run(5 * SECOND);
        assert_eq!(checked.last(1), (Err(failure), false));
        assert_eq!(checked.last(0), (Ok(()), true));
        checked.run(SECOND);
        let health = &checked.network.forwarder.services().servers[1].health;
        assert_eq!((health.passed, health.failure), (0, Some(failure)));
    }
    let mut checked = Checked::new(http(), 0);
    checked.network.cut_off = Some(SERVERS[1]);
    checked.run(6 * SECOND);
    assert!(!checked.last(1).1, "nobody there: {:?}", checked.last(1));
}

/// With a packet in fifty lost, nobody is taken for dead who is not.
#[test]
fn losses_alone_condemn_nobody() {
    let mut checked = Checked::new(http(), 20);
    checked.run(60 * SECOND);
    let changed = checked.outcomes.iter().filter(|o| o.is_well.is_some());
    assert_eq!(changed.count(), 0);
    assert!(
        checked.outcomes.iter().any(|o| o.result.is_err()),
        "some checks fail"
    );
}

/// With nobody well, clients are refused at once, or wait for somebody to come back.
#[test]
fn without_servers_clients_are_refused_or_wait() {
    for (no_server, ended) in [
        (NoServer::Reset, Some(Reason::Refused)),
        (NoServer::Hold, None),
    ] {
        let mut checked = Checked::new(Kind::Tcp, 0);
        checked.network.forwarder.set_no_server(no_server);
        for (server, listener) in SERVERS.into_iter().zip(checked.network.listeners.clone()) {
            checked.network.stacks[server].tcp.close_listener(listener);
        }
        checked.run(4 * SECOND);
        let mut visits = vec![visit(&mut checked.network, 0, 100)];
        for _ in 0..5_000 {
            checked.network.step();
            hear(&mut checked.network, &mut visits);
        }
        assert_eq!(visits[0].ended, ended);
        let counters = checked.network.forwarder.counters();
        let counted = (counters.refused_no_server, counters.drop_no_server);
        assert_eq!(
            (counted.0 > 0, counted.1 > 0),
            match no_server {
                NoServer::Reset => (true, false),
                NoServer::Hold => (false, true),
            }
        );
    }
}
