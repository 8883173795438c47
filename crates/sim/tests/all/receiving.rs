//! How the receive window follows the path and the program.

use exos_inet::tcp::ListenOptions;
use exos_sim::prelude::*;

const MIB: usize = 1 << 20;

/// A transfer of `len` bytes to a server 50 ms away that reads as told and was opened with `options`; both ends.
fn transfer(len: usize, reading: Reading, options: Options) -> (Sim, Conn, Conn) {
    let mut sim = Sim::new(Seed(5)).latency(ms(50));
    let plan = Plan {
        reading,
        ..Plan::MANUAL
    };
    let listen = ListenOptions {
        connection: options,
        ..ListenOptions::default()
    };
    sim.server.listen_with(80, plan, listen);
    let client = sim.client.connect(sim.server.addr());
    sim.run_for(secs(1));
    let server = sim.server.nth(0);
    sim.client.send_pattern(client, len);
    (sim, client, server)
}

fn buffer(sim: &Sim, server: Conn) -> usize {
    sim.server.info(server).expect("it stands").receive_buffer as usize
}

/// 100 ms between sending and hearing of it: a window of 256 KiB lets 2.6 MB through in a second, and 32 MiB
/// in 13 seconds. The simulated hosts do 10 MB a second; the window is ahead of them after one.
#[test]
fn the_window_grows_for_a_program_that_reads() {
    let (mut sim, _, server) = transfer(32 * MIB, Reading::Promptly, Options::default());
    assert_eq!(buffer(&sim, server), 256 << 10);
    let began = sim.now();
    sim.run_until(
        |s| s.server.endpoint(server).received.len() == 32 * MIB,
        at_most(secs(60)),
    );
    assert!(sim.server.endpoint(server).received_pattern());
    assert!(buffer(&sim, server) > 5 * MIB);
    let took = sim.now() - began;
    assert!(took < ms(4500), "{took:?} for 32 MiB");
    let info = sim.server.info(server).expect("it stands");
    let rtt = info.receive_rtt.expect("timestamps tell");
    assert!(rtt >= ms(95) && rtt < ms(200), "{rtt:?}");
}

/// Nor does it grow beyond what the path needs: 10 Mbit/s times 100 ms are 125 kB.
#[test]
fn the_window_is_as_wide_as_the_path_needs() {
    let options = Options {
        receive_buffer_bytes: 32 << 10,
        ..Options::default()
    };
    let (mut sim, client, server) = transfer(MIB, Reading::Promptly, options);
    // The sender gives what it has in pieces, 100 kB in each round trip.
    for _ in 0..40 {
        sim.run_for(ms(100));
        sim.client.send_pattern(client, 100_000);
    }
    sim.run_until(
        |s| s.server.endpoint(server).received.len() >= MIB,
        at_most(secs(60)),
    );
    let grown = buffer(&sim, server);
    assert!((200_000..6 * MIB).contains(&grown), "{grown}");
}

/// A program that reads slowly has no use for a wider window, and pays for none.
#[test]
fn the_window_does_not_grow_for_a_slow_program() {
    let slowly = Reading::Slowly {
        bytes: 20_000,
        every: ms(100),
    };
    let (mut sim, _, server) = transfer(32 * MIB, slowly, Options::default());
    sim.run_for(secs(20));
    assert_eq!(buffer(&sim, server), 256 << 10);
    assert!(sim.server.stack.tcp.memory().used <= 2 * (256 << 10));
}

/// What a program fixes stays, and what it sets later is told as the scale allows.
#[test]
fn the_window_of_a_fixed_buffer_stays() {
    let fixed = Options::with_receive_buffer(100_000);
    let (mut sim, _, server) = transfer(8 * MIB, Reading::Promptly, fixed);
    sim.run_for(secs(2));
    assert_eq!(buffer(&sim, server), 100_000);
    let id = sim.server.id(server);
    sim.server.stack.tcp.set_receive_buffer(id, 1 << 30);
    sim.run_for(secs(1));
    assert_eq!(buffer(&sim, server), 65_535 << 1);
    sim.server.stack.tcp.set_receive_buffer(id, 20_000);
    let before = sim.server.endpoint(server).received.len();
    sim.run_for(secs(2));
    let rate = (sim.server.endpoint(server).received.len() - before) / 20;
    assert!(rate <= 20_000 + 6554, "{rate} bytes in a round trip");
}
