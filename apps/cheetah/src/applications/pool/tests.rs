mod at_once;

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use exos::clock;
use exos_inet::Duration;

use super::*;
use crate::applications::Place;
use crate::applications::proxy::Proxy;
use crate::applications::rules::{Rule, Rules, Scope};
use crate::limits::{APPLICATION_WAITING_MAX, CLIENT_SHARE, WARNINGS_MAX};

/// An application that does what a test says.
struct World {
    path: PathBuf,
    listener: UnixListener,
    application: Application,
    applications: Applications,
}

/// What is said is of no matter.
fn nothing() -> Option<Vec<u8>> {
    Some(Vec::new())
}

impl World {
    fn new(name: &str, connections: usize, keep: usize) -> World {
        let name = format!("exos-pool-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let application = Application {
            connections,
            keep,
            ..Application::at(Address::Fastcgi(Place::Unix(path.as_path().into())))
        };
        World {
            path,
            listener,
            application,
            applications: Applications::default(),
        }
    }

    fn ask(&mut self, client: u64, may_be_kept: bool, has_waited: bool) -> Result<Opened, Refusal> {
        self.ask_of("127.0.0.1", client, may_be_kept, has_waited)
    }

    /// Asks for a client at an address.
    fn ask_of(
        &mut self,
        ip: &str,
        client: u64,
        may_be_kept: bool,
        has_waited: bool,
    ) -> Result<Opened, Refusal> {
        let (client, ip) = (ConnectionId::from_bits(client), ip.parse().unwrap());
        let to = To {
            application: &self.application,
            address: &self.application.addresses[0],
            kept_within: may_be_kept.then_some(Duration::MAX),
            may_be_repeated: may_be_kept,
        };
        self.applications
            .open(to, client, ip, has_waited, clock::now(), nothing)
    }

    fn release(&mut self, upstream: Upstream) {
        let applications = &mut self.applications;
        applications.release(upstream, &self.application, clock::now());
    }

    /// A connection for a client, and whether it was kept.
    fn connect(&mut self, client: u64, has_waited: bool) -> (Upstream, bool) {
        match self.ask(client, true, has_waited) {
            Ok(Opened::Connected {
                upstream, was_kept, ..
            }) => (upstream, was_kept),
            other => panic!("{other:?}"),
        }
    }

    fn waits(&mut self, client: u64) {
        assert!(matches!(self.ask(client, true, false), Ok(Opened::Waits)));
    }

    /// The client that is told next, within a time that is long.
    fn told(&mut self) -> u64 {
        let until = clock::now() + Duration::from_secs(60);
        loop {
            self.applications.turn(clock::now());
            if let Some(client) = self.applications.poll() {
                return client.to_bits();
            }
            assert!(clock::now() < until, "nobody is told");
        }
    }

    fn accept(&self) -> UnixStream {
        self.listener.accept().unwrap().0
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[test]
fn requests_beyond_wait_in_order() {
    let mut world = World::new("order", 1, 0);
    let (first, _) = world.connect(1, false);
    for client in [2, 3, 4] {
        world.waits(client);
    }
    world.release(first);
    assert_eq!(world.told(), 2);
    let (second, was_kept) = world.connect(2, true);
    world.waits(5);
    assert!(!was_kept);
    // One that goes gives its place on, before it was told and after.
    let address = world.application.addresses[0].clone();
    (world.applications).forget(ConnectionId::from_bits(3), &address);
    world.applications.close(second);
    (world.applications).forget(ConnectionId::from_bits(4), &address);
    assert_eq!(world.told(), 5);
}

#[test]
fn no_more_wait_than_may() {
    let mut world = World::new("busy", 1, 0);
    world.connect(0, false);
    for client in 1..=APPLICATION_WAITING_MAX as u64 {
        world.waits(client);
    }
    assert_eq!(world.ask(9999, true, false).err(), Some(Refusal::Busy));
}

#[test]
fn connections_are_kept_as_far_as_is_said() {
    let mut world = World::new("kept", 3, 1);
    let (first, second) = (world.connect(1, false).0, world.connect(2, false).0);
    let (mut of_first, mut of_second) = (world.accept(), world.accept());
    let Upstream::Fastcgi(connection) = first else {
        panic!("{first:?}");
    };
    world
        .applications
        .carriers()
        .send_body(first, b"asked", false);
    world.applications.turn(clock::now());
    let mut got = [0; 16];
    of_first.read_exact(&mut got).unwrap();
    of_first.write_all(b"answered").unwrap();
    // That the request was taken is told, too.
    while world
        .applications
        .carriers()
        .readable(connection)
        .is_empty()
    {
        assert_eq!(world.told(), 1);
    }
    assert_eq!(
        world.applications.carriers().readable(connection),
        b"answered"
    );
    world.applications.carriers().consume(connection, 8);
    world.release(first);
    world.release(second);
    assert_eq!(of_second.read(&mut got).unwrap(), 0, "one is kept, no more");
    assert_eq!(world.connect(3, false), (first, true));
    world.release(first);
    // What cannot be asked again is not asked over one that may be closed by now.
    let fresh = world.ask(4, false, false);
    assert!(matches!(
        fresh,
        Ok(Opened::Connected {
            was_kept: false,
            ..
        })
    ));
    assert_eq!(of_first.read(&mut got).unwrap(), 0);
}

#[test]
fn a_kept_connection_that_says_anything_is_closed() {
    let mut world = World::new("closed", 3, 2);
    let (first, _) = world.connect(1, false);
    let mut peer = world.accept();
    world.release(first);
    peer.write_all(b"unasked").unwrap();
    let mut got = [0; 1];
    peer.set_nonblocking(true).unwrap();
    let until = clock::now() + Duration::from_secs(60);
    // Closed with bytes that nobody has read it may be told of as a reset.
    while matches!(peer.read(&mut got), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock) {
        world.applications.turn(clock::now());
        assert_eq!(world.applications.poll(), None);
        assert!(clock::now() < until, "it is closed");
    }
    assert!(!world.connect(2, false).1);
}

#[test]
fn where_nobody_listens_is_said_and_told_once_a_second() {
    let mut world = World::new("nobody", 1, 0);
    std::fs::remove_file(&world.path).unwrap();
    let refused = world.ask(1, true, false).err();
    assert_eq!(refused, Some(Refusal::Failed(Errno::NOENT)));
    let (address, now) = (world.application.addresses[0].clone(), clock::now());
    let secs = |secs| now + Duration::from_secs(secs);
    assert!(world.applications.may_tell(&address, now));
    assert!(!world.applications.may_tell(&address, now));
    assert!(world.applications.may_tell(&address, secs(1)));
    let warned = |applications: &mut Applications, at| {
        let asked = (0..100).filter(|_| applications.may_warn(&address, at));
        asked.count()
    };
    assert_eq!(warned(&mut world.applications, now), WARNINGS_MAX);
    assert_eq!(warned(&mut world.applications, secs(1)), WARNINGS_MAX);
}

/// A reload that names an application no more closes what was kept of it, and keeps none of what is under way.
#[test]
fn connections_that_no_rule_keeps_are_closed() {
    let mut world = World::new("reload", 4, 2);
    let rules = |application: &Application, keep| {
        let application = Application {
            keep,
            ..application.clone()
        };
        Rules::new(vec![Rule {
            scope: Scope::extension(".php").unwrap(),
            application: Arc::new(application),
        }])
    };
    let upstreams = [1, 2, 3].map(|client| world.connect(client, false).0);
    let mut peers = [(); 3].map(|()| world.accept());
    world.release(upstreams[0]);
    world.release(upstreams[1]);
    let keeps_all = rules(&world.application, 2);
    let keeps_one = rules(&world.application, 1);
    world.applications.follow([&keeps_all].into_iter());
    assert_eq!(world.connect(4, false), (upstreams[1], true));
    world.release(upstreams[1]);
    world.applications.follow([&keeps_one].into_iter());
    let mut byte = [0];
    assert_eq!(peers[0].read(&mut byte).unwrap(), 0, "one is kept, no more");
    assert_eq!(world.connect(5, false), (upstreams[1], true), "the newest");
    world.release(upstreams[1]);
    world.applications.follow([&Rules::default()].into_iter());
    assert_eq!(peers[1].read(&mut byte).unwrap(), 0, "none is kept");
    // The request that is under way began when it would have been.
    world.release(upstreams[2]);
    assert_eq!(peers[2].read(&mut byte).unwrap(), 0);
    assert_eq!(world.applications.groups.iter().count(), 1);
    world.applications.follow([&Rules::default()].into_iter());
    assert_eq!(world.applications.groups.iter().count(), 0);
}

/// What else happens to a client that waits gives it no second place, and no other's.
#[test]
fn a_client_waits_in_one_place() {
    let mut world = World::new("place", 1, 0);
    let (first, _) = world.connect(1, false);
    for client in [2, 3] {
        world.waits(client);
    }
    for _ in 0..2 * APPLICATION_WAITING_MAX {
        assert!(matches!(world.ask(3, true, true), Ok(Opened::Waits)));
    }
    world.waits(4);
    world.applications.close(first);
    for client in [2, 3, 4] {
        assert!(matches!(world.ask(client, true, true), Ok(Opened::Waits)));
    }
    for client in [2, 3, 4] {
        assert_eq!(world.told(), client);
        let (upstream, _) = world.connect(client, true);
        world.applications.close(upstream);
    }
    world.applications.turn(clock::now());
    assert_eq!(world.applications.poll(), None);
}

/// The application ends, and those that wait hear so: none is left behind, and who comes later asks at once.
#[test]
fn a_connection_that_fails_is_the_next_ones() {
    let mut world = World::new("restart", 2, 0);
    let upstreams = [1, 2].map(|client| world.connect(client, false).0);
    for client in 3..10 {
        world.waits(client);
    }
    std::fs::remove_file(&world.path).unwrap();
    for upstream in upstreams {
        world.applications.close(upstream);
    }
    for client in 3..10 {
        assert_eq!(world.told(), client);
        let refused = world.ask(client, true, true).err();
        assert_eq!(refused, Some(Refusal::Failed(Errno::NOENT)));
    }
    world.listener = UnixListener::bind(&world.path).unwrap();
    world.connect(10, false);
}

/// A client that was named and does not ask keeps nobody waiting.
#[test]
fn what_a_client_does_not_use_is_the_next_ones() {
    let mut world = World::new("unused", 1, 0);
    let (first, _) = world.connect(1, false);
    for client in [2, 3] {
        world.waits(client);
    }
    world.applications.close(first);
    assert_eq!(world.told(), 2);
    assert_eq!(world.told(), 3);
    world.connect(3, true);
}

#[test]
fn rules_with_one_address_have_each_its_own_bound() {
    let mut world = World::new("rules", 1, 0);
    let (first, _) = world.connect(1, false);
    world.waits(2);
    world.application.connections = 2;
    let (second, _) = world.connect(3, false);
    world.waits(4);
    world.applications.close(first);
    assert_eq!(world.told(), 4, "there is no room for the one before it");
    let (third, _) = world.connect(4, true);
    world.applications.close(second);
    world.applications.close(third);
    assert_eq!(world.told(), 2);
}

/// Those that wait because the application's own queue is full are as many as others, and keep their order.
#[test]
fn an_application_whose_queue_is_full_is_asked_later() {
    let mut world = World::new("full", 4000, 0);
    // Of those that are not accepted there may be one.
    rustix::net::listen(&world.listener, 0).unwrap();
    world.connect(1, false);
    for client in 2..2 + APPLICATION_WAITING_MAX as u64 {
        world.waits(client);
    }
    assert_eq!(world.ask(9999, true, false).err(), Some(Refusal::Busy));
    assert!(world.applications.poll_timeout().is_some());
    // Each time it was asked in vain the first stays the first.
    for client in [2, 2, 2] {
        assert_eq!(world.told(), client);
        assert!(matches!(world.ask(client, true, true), Ok(Opened::Waits)));
    }
    let mut accepted = Vec::new();
    for client in 2..5 {
        assert_eq!(world.told(), client);
        accepted.push(world.accept());
        world.connect(client, true);
    }
}

/// That a connection has ended is seen when it is to be used, whether it was told of or not.
#[test]
fn a_kept_connection_that_has_ended_is_not_used() {
    let mut world = World::new("ended", 3, 2);
    let (first, _) = world.connect(1, false);
    let peer = world.accept();
    world.release(first);
    drop(peer);
    assert!(!world.connect(2, false).1);
    let (second, _) = world.connect(3, false);
    let (_, mut peer) = (world.accept(), world.accept());
    world.release(second);
    peer.write_all(b"unasked").unwrap();
    assert!(!world.connect(4, false).1);
}

/// What was heard when the turn began is enough for a request that may be asked once more, in that turn; else the kernel is asked.
#[test]
fn what_may_be_asked_again_goes_by_what_the_turn_has_heard() {
    for (may_be_repeated, is_in_turn) in [(true, true), (true, false), (false, true)] {
        let mut world = World::new("heard", 3, 2);
        let (first, _) = world.connect(1, false);
        let mut peer = world.accept();
        world.release(first);
        let later = clock::now() + Duration::from_secs(1);
        world.applications.turn(later);
        assert_eq!(world.applications.poll(), None);
        if !is_in_turn {
            world.applications.flush();
        }
        peer.write_all(b"unasked").unwrap();
        let to = To {
            application: &world.application,
            address: &world.application.addresses[0],
            kept_within: Some(Duration::MAX),
            may_be_repeated,
        };
        let (client, ip) = (ConnectionId::from_bits(2), "127.0.0.1".parse().unwrap());
        let opened = (world.applications).open(to, client, ip, false, later, nothing);
        let Ok(Opened::Connected { was_kept, .. }) = opened else {
            panic!("{opened:?}")
        };
        assert_eq!(was_kept, may_be_repeated && is_in_turn);
    }
}

/// One client, however many requests it has under way or waiting, leaves the others theirs.
#[test]
fn a_client_has_its_share_of_connections_and_of_places() {
    let (greedy, other) = ("192.0.2.1", "192.0.2.2");
    let mut world = World::new("share", 2 * CLIENT_SHARE, 1);
    let opened = |opened: Result<Opened, Refusal>| match opened {
        Ok(Opened::Connected { upstream, .. }) => Some(upstream),
        Ok(Opened::Waits) => None,
        Err(refusal) => panic!("{refusal:?}"),
    };
    let first = opened(world.ask_of(greedy, 1, true, false)).unwrap();
    let second = opened(world.ask_of(greedy, 2, true, false)).unwrap();
    let places = (APPLICATION_WAITING_MAX / CLIENT_SHARE) as u64;
    for client in 3..3 + places {
        assert_eq!(opened(world.ask_of(greedy, client, true, false)), None);
    }
    let beyond = world.ask_of(greedy, 9999, true, false);
    assert_eq!(beyond.err(), Some(Refusal::Busy));
    // Those that come later do not wait behind it; on this host somebody asks for many.
    assert!(opened(world.ask_of(other, 10_000, true, false)).is_some());
    for client in 10_001..10_006 {
        let asked = world.ask_of("127.0.0.1", client, true, false);
        assert!(opened(asked).is_some(), "{client}");
    }
    assert_eq!(opened(world.ask_of(other, 10_007, true, false)), None);
    // What it gives back the next may have, and it itself in its turn: kept, closed or never used.
    world.release(first);
    assert_eq!(world.told(), 3);
    let third = opened(world.ask_of(greedy, 3, true, true)).unwrap();
    world.applications.close(second);
    assert_eq!(world.told(), 4);
    let fourth = opened(world.ask_of(greedy, 4, true, true)).unwrap();
    world.applications.close(third);
    world.applications.close(fourth);
    assert_eq!([world.told(), world.told()], [5, 6]);
}

#[test]
fn a_link_that_takes_nothing_ends_and_the_next_request_makes_another() {
    let mut world = World::new("stuck", 4, 0);
    world.application.addresses[0] = Address::Shared(world.path.as_path().into());
    let start = clock::now();
    let open = |world: &mut World, client, now| {
        let (client, ip) = (
            ConnectionId::from_bits(client),
            "127.0.0.1".parse().unwrap(),
        );
        let to = To {
            application: &world.application,
            address: &world.application.addresses[0],
            kept_within: Some(Duration::MAX),
            may_be_repeated: true,
        };
        let opened = (world.applications).open(to, client, ip, false, now, nothing);
        match opened {
            Ok(Opened::Connected {
                upstream, was_kept, ..
            }) => (upstream, was_kept),
            other => panic!("{other:?}"),
        }
    };
    let (first, was_kept) = open(&mut world, 1, start);
    assert!(!was_kept);
    // It may be asked again, if the link fails before the application reads it.
    let (second, was_kept) = open(&mut world, 2, start);
    assert!(was_kept);
    let carriers = world.applications.carriers();
    carriers.begin(first, vec![1; 100], true, false);
    // More than the pipe has room for, which nobody reads.
    (0..400).for_each(|_| carriers.send_body(first, &[2; 1 << 16], false));
    assert_eq!(world.applications.poll(), None);
    world.applications.flush();
    world.applications.turn(start);
    let last = start + world.application.timeout;
    world.applications.turn(start + Duration::from_secs(1));
    assert_eq!(world.applications.carriers().end_of(second), None);
    assert_eq!(world.applications.poll_timeout(), Some(last));
    world.applications.turn(last);
    assert!(world.applications.carriers().end_of(second).is_some());
    let mut told = [world.told(), world.told()];
    told.sort();
    assert_eq!(told, [1, 2]);
    let (third, was_kept) = open(&mut world, 3, last + Duration::from_secs(1));
    assert!(!was_kept && world.applications.carriers().end_of(third).is_none());
}

/// Of several upstreams the one with the fewest requests is asked, of such each in its turn, and one that has failed last.
#[test]
fn upstreams_have_their_turns() {
    let now = clock::now();
    let address = |port: u16| Address::Http(Place::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
    let application = Application::at_any(vec![address(1), address(2), address(3)]);
    let mut applications = Applications::default();
    let mut chosen: Vec<usize> = (0..3)
        .filter_map(|_| applications.choose(&application, 0, now))
        .collect();
    chosen.sort_unstable();
    assert_eq!(chosen, [0, 1, 2]);
    applications.group(&address(2)).open = 1;
    let mut next = |tried, now| {
        let all = (0..6).filter_map(|_| applications.choose(&application, tried, now));
        let mut all: Vec<usize> = all.collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(next(0, now), [0, 2]);
    assert_eq!(next(0b101, now), [1]);
    assert_eq!(next(0b111, now), [0; 0]);
    applications.rest(&address(1), Duration::from_secs(10), now);
    applications.rest(&address(3), Duration::from_secs(10), now);
    let mut next = |tried, now| applications.choose(&application, tried, now);
    assert_eq!(next(0, now), Some(1));
    // Where no other is left it is asked all the same, and later as the others are.
    assert_eq!(next(0b110, now), Some(0));
    // One request tries each when its time is over; the others wait for what comes of that.
    let later = now + Duration::from_secs(10);
    let mut tried = [next(0, later), next(0, later)];
    tried.sort_unstable();
    assert_eq!(tried, [Some(0), Some(2)]);
    assert_eq!([next(0, later), next(0, later)], [Some(1); 2]);
    applications.end_rest(&address(1));
    assert_eq!(applications.choose(&application, 0, now), Some(0));
}

/// A connection is kept for as long as is said.
#[test]
fn a_connection_is_kept_for_its_time() {
    let mut world = World::new("time", 3, 3);
    let place = Place::Unix(world.path.as_path().into());
    world.application.addresses = vec![Address::Http(place)];
    world.application.proxy = Some(Proxy::default());
    let time = Proxy::default().keep_time;
    let (kept, _) = world.connect(1, false);
    let mut peer = world.accept();
    let now = clock::now();
    (world.applications).release(kept, &world.application, now);
    world.applications.turn(now);
    assert_eq!(world.applications.poll(), None);
    assert_eq!(world.applications.poll_timeout(), Some(now + time));
    // What cannot be repeated goes over one alone that was used just now.
    let to = To {
        application: &world.application,
        address: &world.application.addresses[0],
        kept_within: Some(Duration::from_secs(1)),
        may_be_repeated: false,
    };
    let (client, ip) = (ConnectionId::from_bits(2), "127.0.0.1".parse().unwrap());
    let later = now + Duration::from_secs(2);
    let opened = world
        .applications
        .open(to, client, ip, false, later, nothing);
    let Ok(Opened::Connected {
        upstream,
        was_kept: false,
        ..
    }) = opened
    else {
        panic!("{opened:?}");
    };
    // The old one is left for what can.
    let (kept, was_kept) = world.connect(3, false);
    assert!(was_kept);
    world.applications.close(kept);
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    let mut peer = world.accept();
    (world.applications).release(upstream, &world.application, later);
    world.applications.turn(later + time);
    assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0, "its time is over");
    assert!(!world.connect(4, false).1);
}

/// A connection that has changed to another protocol is none of those that requests wait for.
#[test]
fn tunnels_leave_room_for_requests() {
    let mut world = World::new("tunnels", 2, 0);
    let place = Place::Unix(world.path.as_path().into());
    world.application.addresses = vec![Address::Http(place)];
    world.application.proxy = Some(Proxy::default());
    let address = world.application.addresses[0].clone();
    let mut tunnels = Vec::new();
    for client in 1..=8 {
        let (upstream, _) = world.connect(client, false);
        let ip = "192.0.2.1".parse().unwrap();
        world.applications.begin_tunnel(upstream, &address, ip);
        tunnels.push(upstream);
    }
    assert!(
        !world.applications.is_asked_here(),
        "nobody waits for an answer"
    );
    let (first, _) = world.connect(11, false);
    world.connect(12, false);
    world.waits(13);
    assert!(world.applications.is_asked_here());
    for tunnel in tunnels {
        world.applications.close(tunnel);
    }
    world.waits(14);
    world.applications.close(first);
    assert_eq!(world.told(), 13);
}
