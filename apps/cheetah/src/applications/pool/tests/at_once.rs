//! How many requests an application has at once, from all loops and clients.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::limits::APPLICATION_AT_ONCE_MIN;

/// A client that waits for its share is no sign that the application could have more.
#[test]
fn an_application_has_few_requests_at_once_until_it_is_slow() {
    let mut world = World::new("few", 400, 0);
    let few = APPLICATION_AT_ONCE_MIN as u64;
    for client in 1..=few {
        world.connect(client, false);
    }
    world.waits(100);
    assert_eq!(world.told(), 100, "nothing is answered");
    let mut world = World::new("share", 60, 0);
    for client in 1..few {
        let asked = world.ask_of("192.0.2.1", client, true, false);
        assert!(matches!(asked, Ok(Opened::Connected { .. })));
    }
    let beyond_share = world.ask_of("192.0.2.1", few, true, false);
    assert!(matches!(beyond_share, Ok(Opened::Waits)));
    for _ in 0..20 {
        world.applications.turn(clock::now());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    world.connect(101, false);
    world.waits(102);
}

/// One that has all that there is at once, and waits for more, is behind those that have less than their share.
#[test]
fn a_client_that_fills_an_application_holds_nobody_up() {
    let mut world = World::new("fills", 400, 0);
    let few = APPLICATION_AT_ONCE_MIN as u64;
    let mut last = None;
    for client in 1..=few {
        match world.ask_of("192.0.2.1", client, true, false) {
            Ok(Opened::Connected { upstream, .. }) => last = Some(upstream),
            other => panic!("{other:?}"),
        }
    }
    for (ip, client) in [("192.0.2.1", 100), ("192.0.2.1", 101), ("192.0.2.2", 200)] {
        let asked = world.ask_of(ip, client, true, false);
        assert!(matches!(asked, Ok(Opened::Waits)));
    }
    world.applications.close(last.unwrap());
    assert_eq!(world.told(), 200);
}

/// However small a loop's part of the permits is, another client's request comes before the second one of a client that has many.
#[test]
fn a_client_with_requests_in_all_loops_holds_nobody_up() {
    let (hog, other) = ("192.0.2.1", "192.0.2.2");
    for loops in [4, APPLICATION_AT_ONCE_MIN] {
        let permits = AllPermits::default();
        let name = format!("hog-{loops}");
        let all = (0..loops).map(|_| World::new(&name, 400, 0));
        let mut all: Vec<World> = all.collect();
        let part = APPLICATION_AT_ONCE_MIN / loops;
        let mut upstreams = Vec::new();
        for (number, world) in all.iter_mut().enumerate() {
            (world.applications).share(permits.clone().of_loop(number, |_| {}));
            for client in 0..part as u64 {
                match world.ask_of(hog, client, true, false) {
                    Ok(Opened::Connected { upstream, .. }) => upstreams.push(upstream),
                    other => panic!("{other:?}"),
                }
            }
        }
        for world in &mut all {
            for client in 100..140 {
                let asked = world.ask_of(hog, client, true, false);
                assert!(matches!(asked, Ok(Opened::Waits)));
            }
        }
        let victim = all[0].ask_of(other, 200, true, false);
        assert!(matches!(victim, Ok(Opened::Waits)));
        // Of a loop with one permit the next may be of the first that waits, which had none from the queue yet.
        all[0].applications.close(upstreams[0]);
        let mut named = all[0].applications.poll().map(ConnectionId::to_bits);
        if part == 1 {
            assert_eq!(named, Some(100));
            let Ok(Opened::Connected { upstream, .. }) = all[0].ask_of(hog, 100, true, true) else {
                panic!("it was named");
            };
            all[0].applications.close(upstream);
            named = all[0].applications.poll().map(ConnectionId::to_bits);
        }
        assert_eq!(named, Some(200), "{loops} loops");
    }
}

#[test]
fn an_application_has_as_many_requests_of_all_loops_as_of_one() {
    let few = APPLICATION_AT_ONCE_MIN as u64;
    let woken = Arc::new(AtomicUsize::new(usize::MAX));
    let permits = AllPermits::default();
    let mut worlds = ["loop", "loop"].map(|name| World::new(name, 40, 1));
    for (number, world) in worlds.iter_mut().enumerate() {
        let woken = woken.clone();
        let wake = move |number| woken.store(number, Ordering::Relaxed);
        (world.applications).share(permits.clone().of_loop(number, wake));
    }
    let [one, other] = &mut worlds;
    let (mut first, _) = one.connect(0, false);
    for client in 1..few {
        one.connect(client, false);
    }
    other.waits(100);
    one.waits(101);
    assert!(other.applications.poll_timeout().is_some());
    // The other is before, for it has none; and the connection that is kept is the first loop's own.
    one.release(first);
    assert_eq!(woken.swap(usize::MAX, Ordering::Relaxed), 1);
    assert!(one.applications.poll().is_none());
    assert_eq!(other.told(), 100);
    let (second, was_kept) = other.connect(100, true);
    assert!(!was_kept);
    other.applications.close(second);
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    assert_eq!(one.told(), 101);
    (first, _) = one.connect(101, true);
    other.waits(102);
    // A loop that ends leaves what it had to others.
    one.applications.close(first);
    one.applications = Applications::default();
    assert_eq!(other.told(), 102);
    other.connect(102, true);
    for client in 103..102 + few {
        other.connect(client, false);
    }
    other.waits(200);
}
