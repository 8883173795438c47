//! DPDK's testpmd over the wire, with its drivers that need no card of its own: one end sends what it makes, the other counts.
//!
//! Its ends poll, as ours do. What is measured is what it says of itself, once a second and at its end; all of its threads
//! are on one core.

use super::send_outcome::SendRun;
use super::session::Session;
use super::way::Way;
use crate::report::median;
use crate::stage::process::{find_program, version};
use crate::stage::{Started, mac_of};
use exos_host::{Error, Result};
use exos_lab::{INTERFACE, Side};
use std::time::Duration;

const PROGRAM: (&str, &str) = ("dpdk-testpmd", "dpdk-dev");

/// Beyond the time that is measured: seconds in which an end was not busy all the time.
const EDGE_SECONDS: f64 = 3.0;

/// Frames that have left arrive within this time.
const ON_THE_WAY: Duration = Duration::from_millis(300);

/// Packets that it has room for: the default is for cards with many queues, and takes 340 MB.
const PACKETS: u32 = 16384;
const MEGABYTES: u32 = 256;

/// Its drivers: of packet sockets with shared rings, and of AF_XDP.
fn driver(way: Way) -> &'static str {
    match way {
        Way::DpdkXdp => "net_af_xdp0",
        _ => "net_af_packet0",
    }
}

/// What it calls itself; an error where it is not installed.
pub(super) fn available() -> Result<String> {
    version(&find_program(PROGRAM.0, PROGRAM.1)?, "--version")
}

/// It sends frames from side a to side b, `batch` at a time.
pub(super) fn run(session: &Session, way: Way, frame_len: usize, batch: usize) -> Result<SendRun> {
    let mut receiver = start(session, way, Side::B, &["--forward-mode=rxonly".into()])?;
    session.await_said(&mut receiver, "Rx-pps")?;
    let to = mac_of(&session.lab, Side::B)?;
    let sending = [
        "--forward-mode=txonly".into(),
        format!("--txpkts={frame_len}"),
        format!("--burst={batch}"),
        format!("--eth-peer=0,{to}"),
    ];
    let mut sender = start(session, way, Side::A, &sending)?;
    session.await_said(&mut sender, "Tx-pps")?;
    session.pause(Duration::from_secs_f64(
        session.seconds.ceil() + EDGE_SECONDS,
    ))?;
    let sent = sender.stop_said()?;
    session.pause(ON_THE_WAY)?;
    read(&sent, &receiver.stop_said()?)
}

fn start(session: &Session, way: Way, side: Side, more: &[String]) -> Result<Started> {
    let mut command = session
        .lab
        .command(side, &find_program(PROGRAM.0, PROGRAM.1)?)?;
    let core = session.cores[side as usize];
    // The first thread shows statistics, the second forwards.
    command.arg(format!("--lcores=0@{core},1@{core}"));
    command.args(["--no-huge", "--no-pci", "--no-shconf", "--no-telemetry"]);
    command.args(["-m", &MEGABYTES.to_string()]);
    command.arg(format!("--vdev={},iface={INTERFACE}", driver(way)));
    command.args(["--", "--auto-start", "--stats-period=1", "--no-flush-rx"]);
    command.args([
        "--record-core-cycles",
        &format!("--total-num-mbufs={PACKETS}"),
    ]);
    command.args(more);
    session.start(PROGRAM.0, command, core)
}

/// What both ends say: each second how many frames, and at the end how many in all and what each cost.
fn read(sent: &str, received: &str) -> Result<SendRun> {
    let wrong = |what: &str| Error::new(format!("{} did not say {what}", PROGRAM.0));
    let total = |said: &str, name: &str| {
        let last = numbers(said, name).last().copied();
        last.ok_or_else(|| wrong(name))
    };
    let ns_per_frame = |said: &str| {
        let cycles = total(said, "CPU cycles/packet=")?;
        Ok::<_, Error>(1000.0 * cycles / total(said, ") at ")?)
    };
    // The first and the last second with frames are not whole.
    let rates = numbers(received, "Rx-pps:");
    let mut rates: Vec<f64> = rates.into_iter().filter(|rate| *rate > 0.0).collect();
    if rates.len() < 3 {
        return Err(wrong("what it received in a second"));
    }
    rates.pop();
    rates.remove(0);
    let (there, here) = (
        total(sent, "TX-packets:")?.max(1.0),
        total(received, "RX-packets:")?,
    );
    Ok(SendRun {
        frames_per_sec: median(rates),
        sender_ns_per_frame: ns_per_frame(sent)?,
        receiver_ns_per_frame: ns_per_frame(received)?,
        lost_share: (1.0 - here / there).max(0.0),
        live_share: 0.0,
    })
}

/// The numbers that follow a word, wherever it stands.
fn numbers(said: &str, word: &str) -> Vec<f64> {
    let after = said.split(word).skip(1);
    let number = |text: &str| {
        let text = text.trim_start();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        text[..end.unwrap_or(text.len())].parse().ok()
    };
    after.filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_testpmd_says_of_itself() {
        let sent = "  Tx-pps:      0  Tx-bps: 0\n  Tx-pps:  200  Tx-bps: 9\n\
            TX-packets: 900  TX-dropped: 0  TX-total: 900\n\
            TX-packets: 1000  TX-dropped: 0  TX-total: 1000\n\
            CPU cycles/packet=1300.50 (total cycles=13 / total txonly packets=1000) at 2600 MHz Clock\n";
        let received = "  Rx-pps:  0 Rx-bps: 0\n  Rx-pps:  7 Rx-bps: 0\n  Rx-pps: 300 Rx-bps: 0\n  Rx-pps: 200 Rx-bps: 0\n\
              Rx-pps: 250 Rx-bps: 0\n  Rx-pps: 3 Rx-bps: 0\n  Rx-pps: 0 Rx-bps: 0\n\
            RX-packets: 750  RX-dropped: 250  RX-total: 1000\n\
            CPU cycles/packet=260.00 (total cycles=13 / total rxonly packets=750) at 2600 MHz Clock\n";
        let run = read(sent, received).expect("complete");
        assert_eq!((run.frames_per_sec, run.lost_share), (250.0, 0.25));
        assert!((run.sender_ns_per_frame - 500.19).abs() < 0.01, "{run:?}");
        assert!((run.receiver_ns_per_frame - 100.0).abs() < 1e-9, "{run:?}");
        assert!(read(sent, "EAL: Error").is_err());
    }
}
