//! Nothing to do costs nothing: how often stacks without traffic want to be woken.

use exos_sim::prelude::*;

/// Wake-ups of both hosts in this much virtual time.
fn wakeups(sim: &mut Sim, time: Duration) -> usize {
    let end = sim.now() + time;
    let mut count = 0;
    while let Some(at) = sim.next_event().filter(|&at| at <= end) {
        count += 1;
        sim.run_for(at - sim.now());
    }
    sim.run_for(end - sim.now());
    count
}

/// An hour with open and silent connections: the neighbours go stale and are forgotten, nothing
/// else happens.
#[test]
fn idle_connections_wake_nobody() {
    let mut sim = Sim::new(Seed(1)).latency(ms(1));
    sim.server.listen(80, Plan::ECHO);
    let conns: Vec<_> = (0..100)
        .map(|_| sim.client.connect(sim.server.addr()))
        .collect();
    sim.run_for(secs(1));
    for &conn in &conns {
        sim.client.send(conn, b"hello");
    }
    sim.run_for(secs(10));
    assert!(
        conns
            .iter()
            .all(|&conn| sim.client.endpoint(conn).received == b"hello")
    );
    let count = wakeups(&mut sim, secs(3600));
    assert!(count < 20, "{count} wake-ups in an idle hour");
    assert!(conns.iter().all(|&conn| sim.client.closed(conn).is_none()));
}

/// A stack without connections and neighbours wants nothing ever.
#[test]
fn an_unused_stack_sleeps() {
    let mut sim = Sim::new(Seed(1));
    sim.server.listen(80, Plan::ECHO);
    wakeups(&mut sim, secs(3600));
    assert_eq!(sim.next_event(), None);
}

/// After many short connections nothing is left, and nobody is woken once for each of them.
#[test]
fn finished_connections_leave_nothing() {
    let mut sim = Sim::new(Seed(1)).latency(ms(1));
    sim.server.listen(80, Plan::serve(100));
    for _ in 0..20 {
        for _ in 0..50 {
            sim.client
                .connect_with(sim.server.addr(), Plan::fetch(), &Options::default());
        }
        sim.run_for(ms(100));
    }
    assert_eq!(sim.server.stack.tcp.time_wait_connections(), 1000);
    let count = wakeups(&mut sim, secs(3600));
    assert!(
        count < 100,
        "{count} wake-ups for 1000 entries of TIME-WAIT"
    );
    assert_eq!(sim.next_event(), None);
    for host in [&sim.client, &sim.server] {
        assert_eq!(
            (
                host.stack.tcp.connections(),
                host.stack.tcp.time_wait_connections()
            ),
            (0, 0)
        );
    }
}
