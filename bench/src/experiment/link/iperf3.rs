//! iperf3 with UDP: what people measure a link with. It sends and receives datagrams one by one.

use super::send_outcome::SendRun;
use super::session::Session;
use super::socket::TO;
use crate::stage::process::{find_program, version};
use exos_host::{Error, Result};
use exos_lab::Side;

/// Bytes of a datagram: the most that iperf3 holds for safe with a path's usual MTU.
pub(super) const DATA_LEN: usize = 1470;

/// What it calls itself; an error where it is not installed.
pub(super) fn available() -> Result<String> {
    version(&find_program("iperf3", "iperf3")?, "--version")
}

/// It sends from side a to side b.
pub(super) fn run(session: &Session) -> Result<SendRun> {
    let program = find_program("iperf3", "iperf3")?;
    let port = TO.port().to_string();
    let mut server = session.lab.command(Side::B, &program)?;
    server.args(["-s", "-1", "--forceflush", "-p", &port]);
    let mut server = session.start("iperf3", server, session.cores[1])?;
    session.await_said(&mut server, "listening")?;
    // It knows whole seconds only.
    let seconds = session.seconds.ceil().max(1.0);
    let mut client = session.lab.command(Side::A, &program)?;
    client.args(["-c", &TO.ip().to_string(), "-p", &port, "-u", "-b", "0"]);
    client.args([
        "-l",
        &DATA_LEN.to_string(),
        "-t",
        &seconds.to_string(),
        "-J",
    ]);
    let client = session.start("iperf3", client, session.cores[0])?;
    let said = session.output_of(client, seconds)?;
    server.stop()?;
    read(&said)
}

/// What the client says. Its frames are those that left; what came of them is the server's word.
fn read(said: &str) -> Result<SendRun> {
    let wrong = |what: &str| Error::new(format!("iperf3 did not say {what}: {said}"));
    let json: serde_json::Value = serde_json::from_str(said).map_err(|_| wrong("JSON"))?;
    let end = &json["end"];
    let number = |of: &str, name: &str| {
        let value = end[of][name].as_f64();
        value.ok_or_else(|| wrong(&format!("{of}.{name}")))
    };
    let sent = number("sum_sent", "packets")?.max(1.0);
    let received = (number("sum_received", "bytes")? / DATA_LEN as f64).clamp(1.0, sent);
    let seconds = number("sum_received", "seconds")?;
    let core_ns = |end: &str| {
        let percent = number("cpu_utilization_percent", end)?;
        Ok::<_, Error>(percent / 100.0 * seconds * 1e9)
    };
    Ok(SendRun {
        frames_per_sec: received / seconds,
        sender_ns_per_frame: core_ns("host_total")? / sent,
        receiver_ns_per_frame: core_ns("remote_total")? / received,
        lost_share: 1.0 - received / sent,
        live_share: 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf3_says_in_units() {
        let said = r#"{"end": {"sum_sent": {"packets": 1000},
            "sum_received": {"bytes": 1323000, "seconds": 2.0, "packets": 998, "lost_packets": 98},
            "cpu_utilization_percent": {"host_total": 50.0, "remote_total": 25.0}}}"#;
        let run = read(said).expect("complete");
        assert_eq!((run.frames_per_sec, run.lost_share), (450.0, 1.0 - 0.9));
        assert_eq!(run.sender_ns_per_frame, 1e6);
        assert!((run.receiver_ns_per_frame - 0.5e9 / 900.0).abs() < 1e-6);
        let error = read(r#"{"error": "unable to connect"}"#).expect_err("nothing in it");
        assert!(error.what.contains("unable to connect"), "{error}");
    }
}
