//! Listeners and servers that come, change and go: what is refused, what moves, whose places are used again.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::flow::FlowId;
use crate::limits::{ENTRIES_AT_ONCE, LISTENERS_MAX};
use crate::packets::packet::Transport;
use crate::packets::reach::Reach;
use crate::ports::Found;
use exos_inet::siphash::SipKey;

mod reaches;

fn listen(at: &str, to: &[(&str, u16)]) -> Listen {
    let at: SocketAddr = at.parse().unwrap();
    let server = |(to, weight): &(&str, u16)| (to.parse().unwrap(), *weight, at.ip());
    Listen {
        transport: Transport::Tcp,
        at,
        reach: Reach::Nat,
        to: to.iter().map(server).collect(),
    }
}

#[test]
fn what_does_not_fit_together_is_refused_and_named() {
    let vip = "10.0.0.1:80";
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    let good = listen(vip, &[("10.0.0.2:80", 1)]);
    let cases = [
        (vec![good.clone(), good.clone()], Misfit::Twice(at(vip))),
        (vec![listen(vip, &[])], Misfit::NoServer(at(vip))),
        (
            vec![listen(vip, &[("10.0.0.2:80", 0)])],
            Misfit::NoServer(at(vip)),
        ),
        (
            vec![listen(vip, &[("10.0.0.2:80", 1), ("10.0.0.2:80", 2)])],
            Misfit::SameServer(at("10.0.0.2:80")),
        ),
        (
            vec![listen(vip, &[("10.0.0.1:81", 1)])],
            Misfit::Loop(at("10.0.0.1:81")),
        ),
        (
            vec![listen(vip, &[("[fd00::2]:80", 1)])],
            Misfit::Family(at(vip), at("[fd00::2]:80")),
        ),
        (
            vec![good.clone(); LISTENERS_MAX + 1],
            Misfit::TooManyListeners,
        ),
    ];
    for (wanted, misfit) in cases {
        let said = Services::new(&wanted).err();
        assert_eq!(said, Some(misfit), "{wanted:?}");
    }
    assert!(Services::new(&[good]).is_ok());
}

#[test]
fn a_server_behind_two_listeners_is_one() {
    let two = [
        listen("10.0.0.1:80", &[("10.0.0.2:80", 1)]),
        listen("10.0.0.1:8080", &[("10.0.0.2:80", 1), ("10.0.0.3:80", 1)]),
    ];
    let mut services = Services::new(&two).unwrap();
    assert_eq!(services.servers.len(), 2);
    let found = services.servers[0].ports.find(8080, |_| None);
    assert!(matches!(found, Some(Found::Free(port)) if port != 8080));
}

const VIP: &str = "10.0.0.1:80";

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A listener with this many servers of weight 1.
fn with(servers: u8) -> Services {
    let all: Vec<String> = (0..servers).map(server).collect();
    let to: Vec<(&str, u16)> = all.iter().map(|text| (text.as_str(), 1)).collect();
    Services::new(&[listen(VIP, &to)]).unwrap()
}

fn server(n: u8) -> String {
    format!("10.0.1.{n}:80")
}

/// So many keys that shares are known to a tenth of what is asked.
const KEYS: u64 = 50_000;

/// Which server each key belongs to.
fn choices(services: &mut Services) -> Vec<SocketAddr> {
    let hash = |n: u64| SipKey::from_seed(9).hash(&[n]);
    let chosen: Vec<usize> = (0..KEYS)
        .filter_map(|n| services.choose(0, hash(n)))
        .collect();
    let end = |place: usize| services.servers[place].at.into();
    chosen.into_iter().map(end).collect()
}

fn finish(services: &mut Services) {
    while !services.build(ENTRIES_AT_ONCE) {}
}

/// Begins `count` flows, which stay; how many each server gets.
fn begun(services: &mut Services, count: u64) -> Vec<u32> {
    for n in 0..count {
        let server = services.choose(0, SipKey::from_seed(3).hash(&[n])).unwrap();
        services.servers[server].open += 1;
    }
    services.servers.iter().map(|server| server.open).collect()
}

#[test]
fn who_has_the_fewest_for_his_weight_is_next() {
    let mut services = with(3);
    services.set_balance(Balance::Least);
    services.set_weight(0, at(&server(1)), 4).unwrap();
    assert!(!services.is_building(), "there is no table to be made");
    assert_eq!(begun(&mut services, 600), [100, 400, 100]);
    services.servers[2].open = 0;
    services.set_draining(0, at(&server(1)), true).unwrap();
    assert_eq!(begun(&mut services, 90), [100, 400, 90]);
    // Of those that have as many the hash takes any.
    let mut services = with(4);
    services.set_balance(Balance::Least);
    let hash = |n: u64| SipKey::from_seed(3).hash(&[n]);
    let mut first: Vec<_> = (0..100).map(|n| services.choose(0, hash(n))).collect();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 4);
}

#[test]
fn each_has_its_turns_and_a_heavy_one_s_lie_apart() {
    let mut services = with(3);
    services.set_balance(Balance::RoundRobin);
    services.set_weight(0, at(&server(0)), 3).unwrap();
    let turns: Vec<_> = (0..10).filter_map(|_| services.choose(0, 0)).collect();
    assert_eq!(turns, [0, 1, 0, 2, 0, 0, 1, 0, 2, 0]);
    services.set_draining(0, at(&server(0)), true).unwrap();
    let turns: Vec<_> = (0..4).filter_map(|_| services.choose(0, 0)).collect();
    assert!(turns == [1, 2, 1, 2] || turns == [2, 1, 2, 1], "{turns:?}");
    (1..3).for_each(|n| services.set_weight(0, at(&server(n)), 0).unwrap());
    assert_eq!(services.choose(0, 0), None);
    // Back to hashing, which knows the same servers.
    services.set_draining(0, at(&server(0)), false).unwrap();
    services.set_balance(Balance::Maglev);
    finish(&mut services);
    assert_eq!(services.choose(0, 7), Some(0));
}

fn moved(before: &[SocketAddr], after: &[SocketAddr]) -> f64 {
    let count = before.iter().zip(after).filter(|(a, b)| a != b).count();
    count as f64 / before.len() as f64
}

/// Some of three listeners, each with some of four servers.
fn configuration() -> impl Strategy<Value = Vec<Listen>> {
    let servers = prop::collection::btree_map(0u8..4, 1u16..5, 1..4);
    prop::collection::btree_map(80u16..83, servers, 1..4).prop_map(|listeners| {
        let one = |(port, servers): (u16, std::collections::BTreeMap<u8, u16>)| {
            let all: Vec<_> = servers.into_iter().map(|(n, w)| (server(n), w)).collect();
            let to: Vec<(&str, u16)> = all.iter().map(|(at, w)| (at.as_str(), *w)).collect();
            listen(&format!("10.0.0.1:{port}"), &to)
        };
        listeners.into_iter().map(one).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// From any configuration to any other: then there is what a new forwarder would have, and anyone who stays kept its place.
    #[test]
    fn one_configuration_becomes_another(before in configuration(), after in configuration()) {
        let mut services = Services::new(&before).unwrap();
        let places: Vec<_> = services.servers.iter().map(|s| s.at).collect();
        for server in &mut services.servers {
            server.ports.take(5000, FlowId(1));
            server.flows = 1;
        }
        services.become_these(&after).unwrap();
        finish(&mut services);
        let mut fresh = Services::new(&after).unwrap();
        let behind = |services: &Services, place: u16| {
            let members = services.listeners[usize::from(place)].members().iter();
            let end = |m: &Member| (services.servers[usize::from(m.server)].at, m.weight);
            let mut all: Vec<_> = members.map(end).collect();
            all.sort_by_key(|(end, _)| end.address.words());
            all
        };
        let open = services.open_listeners().count();
        prop_assert_eq!(open, after.len());
        for listen in &after {
            let place = |services: &Services| services.listener(listen.transport, listen.at.into()).unwrap();
            let (here, there) = (place(&services), place(&fresh));
            prop_assert_eq!(behind(&services, here), behind(&fresh, there));
            for n in 0..200 {
                let hash = SipKey::from_seed(5).hash(&[n]);
                let end = |s: &mut Services, place| { let server = s.choose(place, hash).unwrap(); s.servers[server].at };
                prop_assert_eq!(end(&mut services, here), end(&mut fresh, there));
            }
        }
        for (place, at) in places.into_iter().enumerate() {
            prop_assert_eq!(services.servers[place].at, at, "flows stay where they are");
        }
    }

    /// Of N servers one goes, and comes back: at most 1.1/N of the keys move each time, none moves to the one that goes even
    /// before its table is made, and in the end all is as it was.
    #[test]
    fn a_server_takes_few_keys_along(count in 2u8..=16, which in any::<prop::sample::Index>()) {
        let mut services = with(count);
        let gone = at(&server(which.index(count.into()) as u8));
        let before = choices(&mut services);
        services.remove_server(0, gone).unwrap();
        prop_assert!(!choices(&mut services).contains(&gone));
        finish(&mut services);
        let without = choices(&mut services);
        let share = moved(&before, &without);
        prop_assert!(share <= 1.1 / f64::from(count), "{share} of {count}");
        services.add_server(0, gone, 1, [10, 0, 0, 1].into()).unwrap();
        prop_assert_eq!(&choices(&mut services), &without, "the old table until the new one is whole");
        finish(&mut services);
        prop_assert!(choices(&mut services) == before);
    }
}

#[test]
fn few_keys_move_of_sixty_four_servers() {
    let mut services = with(64);
    let before = choices(&mut services);
    services.set_draining(0, at(&server(20)), true).unwrap();
    finish(&mut services);
    let share = moved(&before, &choices(&mut services));
    assert!(share <= 1.1 / 64.0, "{share}");
    services.set_draining(0, at(&server(20)), false).unwrap();
    finish(&mut services);
    assert!(choices(&mut services) == before);
}

#[test]
fn weights_change_while_it_runs() {
    let mut services = with(3);
    services.set_weight(0, at(&server(1)), 6).unwrap();
    finish(&mut services);
    let share = |services: &mut Services, n| {
        let all = choices(services);
        all.iter().filter(|end| **end == at(&server(n))).count()
    };
    assert!((37_000..38_000).contains(&share(&mut services, 1)));
    for n in [0, 2] {
        services.set_weight(0, at(&server(n)), 0).unwrap();
    }
    assert_eq!(share(&mut services, 1), KEYS as usize, "at once");
    services.set_weight(0, at(&server(1)), 0).unwrap();
    assert_eq!(services.choose(0, 7), None);
    services.set_weight(0, at(&server(2)), 5).unwrap();
    assert_eq!(
        share(&mut services, 2),
        KEYS as usize,
        "before there is a table"
    );
}

#[test]
fn changes_that_do_not_fit_are_refused_and_change_nothing() {
    let mut services = with(2);
    let ours = [10, 0, 0, 1].into();
    let add = |services: &mut Services, text: &str| services.add_server(0, at(text), 1, ours);
    assert_eq!(
        add(&mut services, &server(1)),
        Err(Misfit::SameServer(at(&server(1))))
    );
    assert_eq!(
        add(&mut services, "10.0.0.1:9"),
        Err(Misfit::Loop(at("10.0.0.1:9")))
    );
    assert_eq!(
        add(&mut services, "[fd00::2]:80"),
        Err(Misfit::Family(at(VIP), at("[fd00::2]:80")))
    );
    let missing = Misfit::NotBehind(at(VIP), at(&server(7)));
    assert_eq!(
        services.remove_server(0, at(&server(7))),
        Err(missing.clone())
    );
    assert_eq!(services.set_weight(0, at(&server(7)), 2), Err(missing));
    // A listener at a server's address would be a loop too.
    assert_eq!(
        services.add_listener(&listen("10.0.1.1:81", &[("10.0.0.9:1", 1)])),
        Err(Misfit::Loop(at("10.0.1.1:80")))
    );
    services.servers[0].ports.take(8080, FlowId(3));
    assert_eq!(
        services.add_listener(&listen("10.0.0.1:8080", &[("10.0.0.9:1", 1)])),
        Err(Misfit::PortInUse(at("10.0.0.1:8080")))
    );
    assert!(!services.is_building() && services.listeners[0].members().len() == 2);
    assert_eq!((services.servers.len(), services.listeners.len()), (2, 1));
}

/// A wrong configuration leaves the one that is there.
#[test]
fn a_configuration_that_does_not_fit_changes_nothing() {
    let mut services = with(2);
    services.set_draining(0, at(&server(0)), true).unwrap();
    finish(&mut services);
    services.servers[1].ports.take(8080, FlowId(3));
    let good = listen(VIP, &[("10.0.1.0:80", 1), ("10.0.1.1:80", 1)]);
    for (wanted, misfit) in [
        (vec![good.clone(), good.clone()], Misfit::Twice(at(VIP))),
        (
            vec![good.clone(), listen("10.0.0.1:81", &[("10.0.0.1:9", 1)])],
            Misfit::Loop(at("10.0.0.1:9")),
        ),
        (
            vec![listen("10.0.1.1:81", &[("10.0.0.9:9", 1)])],
            Misfit::Loop(at("10.0.1.1:80")),
        ),
        (
            vec![good.clone(), listen("10.0.0.1:8080", &[("10.0.1.0:80", 1)])],
            Misfit::PortInUse(at("10.0.0.1:8080")),
        ),
    ] {
        assert_eq!(services.become_these(&wanted), Err(misfit));
        assert!(!services.is_building() && services.listeners[0].members().len() == 2);
    }
    // The same again changes nothing either, nor what a person has said since.
    assert_eq!(services.become_these(&[good]), Ok(Changes::default()));
    assert!(services.listeners[0].members()[0].is_draining);
}

/// A place is free when its server is behind no listener and has no flow, and not before.
#[test]
fn places_are_used_again() {
    let mut services = with(2);
    let ours = [10, 0, 0, 1].into();
    services.servers[1].flows = 1;
    assert_eq!(services.remove_server(0, at(&server(1))), Ok(1));
    assert_eq!(services.servers[1].standing, Standing::Leaving);
    // The same comes back to its place, with its flow; another gets a place of its own.
    services.add_server(0, at(&server(1)), 1, ours).unwrap();
    assert_eq!(services.servers[1].standing, Standing::InUse);
    services.remove_server(0, at(&server(1))).unwrap();
    services.add_server(0, at(&server(9)), 1, ours).unwrap();
    assert_eq!(services.servers.len(), 3);
    assert_eq!(services.remove_server(0, at(&server(9))), Ok(2));
    assert_eq!(services.servers[2].standing, Standing::Gone);
    let gone = services.server(
        Transport::Tcp,
        at(&server(9)).into(),
        services.servers[2].ours,
        Reach::Nat,
    );
    assert_eq!(gone, None);
    services.add_server(0, at(&server(8)), 1, ours).unwrap();
    assert_eq!(
        (services.servers.len(), services.servers[2].at),
        (3, at(&server(8)).into())
    );
}

#[test]
fn a_listener_goes_and_comes_back() {
    let mut services = with(2);
    services.listeners[0].flows = 1;
    services.remove_listener(0);
    assert_eq!(services.listeners[0].standing, Standing::Leaving);
    assert_eq!(services.choose(0, 7), None);
    assert!(
        services
            .servers
            .iter()
            .all(|s| s.standing == Standing::Gone)
    );
    let again = services.add_listener(&listen(VIP, &[("10.0.1.7:80", 1)]));
    assert_eq!(again, Ok(0));
    finish(&mut services);
    assert!(services.choose(0, 7).is_some());
    services.listeners[0].flows = 0;
    services.remove_listener(0);
    assert_eq!(services.listeners[0].standing, Standing::Gone);
    let gone = services.listener(Transport::Tcp, at(VIP).into());
    assert_eq!(gone, None);
    // Its port may be had by flows again.
    services
        .add_listener(&listen("10.0.0.1:8080", &[("10.0.1.7:80", 1)]))
        .unwrap();
    assert!(!services.servers[0].ports.is_free(8080));
    services
        .add_listener(&listen("10.0.0.1:81", &[("10.0.1.7:80", 1)]))
        .unwrap();
    services.remove_listener(0);
    assert!(services.servers[0].ports.is_free(8080));
}
