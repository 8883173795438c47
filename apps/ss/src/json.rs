//! Sockets as JSON.

use exos::watch::{Known, Socket};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ask::{Found, Row, User};
use crate::states::name;
use crate::table::{local, protocol};

/// The sockets of programs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report<'a> {
    /// `exos.ss/1`.
    schema: &'static str,
    /// All that were asked for, those of a process together.
    sockets: Vec<OneSocket<'a>>,
    /// Programs that have not said all in time, each with its process.
    silent: &'a [String],
}

/// A socket.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OneSocket<'a> {
    /// The program's name, of its own choosing; that of an unmodified one begins with `run:`.
    program: &'a str,
    /// Its process; of an unmodified program that of `exos run`.
    pid: u32,
    /// The processes that have it, as `-p` tells them.
    users: &'a [User],
    /// The interface's name, in the program's network namespace.
    interface: &'a str,
    /// `tcp` or `udp`.
    protocol: &'static str,
    /// As in the table: `LISTEN`, `ESTAB` and so on; of datagrams `ESTAB` or `UNCONN`.
    state: &'static str,
    /// Its own address and port; `*` for all addresses of both families.
    local: String,
    /// The peer's address and port.
    peer: Option<String>,
    /// Bytes that came and were not taken by the program; of a listener connections that were begun and do not stand.
    receive_queue: u32,
    /// Bytes that the peer has not acknowledged; of a listener how many connections may be begun at once.
    send_queue: u32,
    /// What TCP knows of a connection.
    tcp: Option<Tcp<'a>>,
}

/// What TCP knows of a connection.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tcp<'a> {
    /// The congestion control.
    congestion: &'a str,
    /// Smoothed round-trip time, zero before the first.
    rtt_us: u64,
    /// Its variation.
    rtt_variation_us: u64,
    /// The retransmission timeout.
    retransmission_timeout_us: u64,
    /// Largest payload of a segment that it sends.
    mss_bytes: u16,
    /// That of the peer's, as far as seen.
    receive_mss_bytes: u16,
    /// Congestion window.
    congestion_window_bytes: u32,
    /// Slow-start threshold; nothing before the first loss.
    slow_start_threshold_bytes: Option<u32>,
    /// Sent, not acknowledged.
    in_flight_bytes: u32,
    /// Selectively acknowledged.
    sacked_bytes: u32,
    /// Believed lost and not sent again.
    lost_bytes: u32,
    /// A loss is being repaired.
    in_recovery: bool,
    /// Timeouts in a row for what is waited for.
    retransmits: u8,
    /// Shifts of the peer's windows and of its own, where both sides scale.
    window_scales: Option<(u8, u8)>,
    /// Acknowledged by the peer, modulo 2^32.
    acked_bytes: u32,
    /// Received in order, modulo 2^32.
    received_bytes: u32,
    /// The peer's window.
    send_window_bytes: u32,
    /// Its own window, as the peer knows it.
    receive_window_bytes: u32,
    /// Rate at which data leaves, zero where it is not paced.
    pacing_bytes_per_second: u64,
    /// The last delivery rate measured, zero before the first.
    delivery_bytes_per_second: u64,
    /// Since something was sent.
    since_sent_ms: u64,
    /// Since the peer was heard.
    since_heard_ms: u64,
    /// Timestamps were agreed on.
    timestamps: bool,
    /// Selective acknowledgements were agreed on.
    sack: bool,
    /// Explicit congestion notification was agreed on.
    ecn: bool,
}

impl<'a> From<&'a Row> for OneSocket<'a> {
    fn from(row: &'a Row) -> Self {
        let (owner, socket): (_, &Socket) = (&row.owner, &row.socket);
        Self {
            program: &owner.program,
            pid: owner.pid,
            users: &row.users,
            interface: &owner.interface,
            protocol: protocol(socket),
            state: name(socket.state),
            local: local(socket),
            peer: socket.peer.map(|peer| peer.to_string()),
            receive_queue: socket.receive_queue,
            send_queue: socket.send_queue,
            tcp: socket.tcp.as_ref().map(Tcp::from),
        }
    }
}

impl<'a> From<&'a Known> for Tcp<'a> {
    fn from(tcp: &'a Known) -> Self {
        let us = |time: std::time::Duration| time.as_micros() as u64;
        let ms = |time: std::time::Duration| time.as_millis() as u64;
        let threshold = tcp.slow_start_threshold;
        Self {
            congestion: &tcp.congestion,
            rtt_us: us(tcp.rtt),
            rtt_variation_us: us(tcp.rtt_variation),
            retransmission_timeout_us: us(tcp.retransmission_timeout),
            mss_bytes: tcp.mss,
            receive_mss_bytes: tcp.receive_mss,
            congestion_window_bytes: tcp.congestion_window,
            slow_start_threshold_bytes: (threshold != u32::MAX).then_some(threshold),
            in_flight_bytes: tcp.in_flight,
            sacked_bytes: tcp.sacked,
            lost_bytes: tcp.lost,
            in_recovery: tcp.in_recovery,
            retransmits: tcp.retransmits,
            window_scales: tcp.window_scales,
            acked_bytes: tcp.bytes_acked,
            received_bytes: tcp.bytes_received,
            send_window_bytes: tcp.send_window,
            receive_window_bytes: tcp.receive_window,
            pacing_bytes_per_second: tcp.pacing_rate,
            delivery_bytes_per_second: tcp.delivery_rate,
            since_sent_ms: ms(tcp.since_sent),
            since_heard_ms: ms(tcp.since_heard),
            timestamps: tcp.timestamps,
            sack: tcp.sack,
            ecn: tcp.ecn,
        }
    }
}

/// All that was found, on a line.
pub(crate) fn report(found: &Found) -> String {
    let report = Report {
        schema: "exos.ss/1",
        sockets: found.rows.iter().map(OneSocket::from).collect(),
        silent: &found.silent,
    };
    let text = serde_json::to_string(&report).expect("it has no maps with keys that are no text");
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::rows;

    #[test]
    fn json_says_what_the_table_does() {
        let found = Found {
            rows: rows(),
            silent: vec!["load (process 9)".to_owned()],
            is_cut: false,
        };
        let value: serde_json::Value = serde_json::from_str(&report(&found)).expect("JSON");
        assert_eq!(value["schema"], "exos.ss/1");
        assert_eq!(value["silent"][0], "load (process 9)");
        let connection = &value["sockets"][1];
        assert_eq!(connection["program"], "run:nginx");
        assert_eq!(connection["users"][0]["pid"], 9);
        assert_eq!(connection["local"], "192.0.2.7:80");
        assert_eq!(connection["tcp"]["rtt_us"], 1500);
        assert!(connection["tcp"]["slow_start_threshold_bytes"].is_null());
        assert!(value["sockets"][0]["tcp"].is_null());
    }
}
