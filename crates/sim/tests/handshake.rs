//! Opening and closing connections, frame by frame.

use exos_sim::prelude::*;

/// A lost SYN is sent again after 1 s, then after 2 s more (RFC 6298 §2.1, §5.5).
#[test]
fn syn_lost_twice_then_connects() {
    let mut sim = Sim::new(Seed(7)).latency(ms(10));
    sim.server.listen(80, Plan::LISTEN);
    sim.link().drop_next(2);
    let conn = sim.client.connect(sim.server.addr());
    sim.run_until(|s| s.client.is_established(conn), at_most(secs(4)));
    sim.expect_trace(
        "
        0.000  client > server  S   seq 0        (dropped)
        1.000  client > server  S   seq 0        (dropped)
        3.000  client > server  S   seq 0
        3.010  server > client  S.  seq 0 ack 1
        3.020  client > server  .   seq 1 ack 1
        ",
    );
}
