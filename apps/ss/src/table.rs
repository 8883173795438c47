//! Sockets as text, in ss's columns.

use std::net::{IpAddr, SocketAddr};

use exos::watch::{Protocol, Socket};

use crate::ask::{Row, User};
use crate::cli::SsArgs;
use crate::details::details;
use crate::states::name;

/// Netid, State, Recv-Q, Send-Q, Local Address:Port, Peer Address:Port, Process.
const COLUMNS: usize = 7;

const HEADINGS: [&str; COLUMNS] = [
    "Netid",
    "State",
    "Recv-Q",
    "Send-Q",
    "Local Address:Port",
    "Peer Address:Port",
    "Process",
];

/// Those with numbers, which end below one another; and the local address, behind which a peer's stands.
const TO_THE_RIGHT: [bool; COLUMNS] = [false, false, true, true, true, false, false];

/// The table, with a line of headings unless that is not wanted.
pub(crate) fn text(rows: &[Row], args: &SsArgs) -> String {
    let cells: Vec<_> = rows.iter().map(|row| cells(row, args.processes)).collect();
    let headings = HEADINGS.map(str::to_owned);
    let headings = (!args.no_header).then_some(&headings);
    let width = |n: usize| {
        let all = cells.iter().chain(headings);
        all.map(|cells| cells[n].chars().count()).max().unwrap_or(0)
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    if let Some(headings) = headings {
        text.push_str(&line(headings, &widths));
    }
    for (row, cells) in rows.iter().zip(&cells) {
        text.push_str(&line(cells, &widths));
        if let Some(tcp) = row.socket.tcp.as_ref().filter(|_| args.info) {
            text.push_str(&format!("\t {}\n", details(tcp)));
        }
    }
    text
}

fn line(cells: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let padded = cells.iter().zip(widths).zip(TO_THE_RIGHT);
    let padded = padded.map(|((cell, width), right)| match right {
        true => format!("{cell:>width$}"),
        false => format!("{cell:<width$}"),
    });
    let line = padded.collect::<Vec<_>>().join(" ");
    format!("{}\n", line.trim_end())
}

fn cells(row: &Row, processes: bool) -> [String; COLUMNS] {
    let socket = &row.socket;
    let process = match processes {
        true => format!("users:({})", users(row)),
        false => String::new(),
    };
    [
        protocol(socket).to_owned(),
        name(socket.state).to_owned(),
        socket.receive_queue.to_string(),
        socket.send_queue.to_string(),
        local(socket),
        peer(socket),
        process,
    ]
}

/// All that have it, as ss has them.
fn users(row: &Row) -> String {
    let user = |user: &User| format!("(\"{}\",pid={})", user.program, user.pid);
    let users: Vec<_> = row.users.iter().map(user).collect();
    users.join(",")
}

pub(crate) const fn protocol(socket: &Socket) -> &'static str {
    match socket.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    }
}

/// Its own address; `*` for all of both families.
pub(crate) fn local(socket: &Socket) -> String {
    match socket.address {
        None => format!("*:{}", socket.port),
        Some(ip) => SocketAddr::new(ip, socket.port).to_string(),
    }
}

/// The peer's address, or that of nobody in particular.
fn peer(socket: &Socket) -> String {
    match (socket.peer, socket.address) {
        (Some(peer), _) => peer.to_string(),
        (None, Some(IpAddr::V4(_))) => "0.0.0.0:*".to_owned(),
        (None, Some(IpAddr::V6(_))) => "[::]:*".to_owned(),
        (None, None) => "*:*".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use clap::Parser as _;
    use exos::inet::tcp::State;
    use exos::watch::Known;

    use super::*;
    use crate::ask::Owner;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: SsArgs,
    }

    pub(crate) fn rows() -> Vec<Row> {
        let owner = Rc::new(Owner {
            program: "run:nginx".to_owned(),
            pid: 7,
            interface: "eth0".to_owned(),
        });
        let listener = Socket {
            protocol: Protocol::Tcp,
            state: State::Listen,
            address: None,
            port: 80,
            peer: None,
            receive_queue: 0,
            send_queue: 511,
            tcp: None,
            holders: Vec::new(),
        };
        let connection = Socket {
            state: State::Established,
            address: Some("192.0.2.7".parse().expect("an address")),
            peer: Some("192.0.2.9:40000".parse().expect("an address")),
            receive_queue: 12,
            send_queue: 0,
            tcp: Some(Known {
                congestion: "cubic".to_owned(),
                rtt: Duration::from_micros(1500),
                rtt_variation: Duration::from_micros(750),
                retransmission_timeout: Duration::from_millis(204),
                mss: 1448,
                receive_mss: 536,
                congestion_window: 14_480,
                slow_start_threshold: u32::MAX,
                window_scales: Some((7, 10)),
                sack: true,
                timestamps: true,
                ..Known::default()
            }),
            ..listener.clone()
        };
        let datagrams = Socket {
            protocol: Protocol::Udp,
            state: State::Closed,
            address: Some("2001:db8::7".parse().expect("an address")),
            port: 53,
            send_queue: 0,
            ..listener.clone()
        };
        let user = |program: &str, pid| User {
            program: program.to_owned(),
            pid,
        };
        let row = |(socket, users)| Row {
            owner: Rc::clone(&owner),
            socket,
            users,
        };
        [
            (listener, vec![user("nginx", 8), user("nginx", 9)]),
            (connection, vec![user("nginx", 9)]),
            (datagrams, vec![user("run:nginx", 7)]),
        ]
        .map(row)
        .into()
    }

    fn shown(words: &str) -> String {
        let line = Line::parse_from(format!("ss {words}").split_whitespace());
        text(&rows(), &line.args)
    }

    #[test]
    fn the_columns_are_those_of_ss() {
        let expected = "\
Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process
tcp   LISTEN      0    511               *:80 *:*               users:((\"nginx\",pid=8),(\"nginx\",pid=9))
tcp   ESTAB      12      0       192.0.2.7:80 192.0.2.9:40000   users:((\"nginx\",pid=9))
udp   UNCONN      0      0   [2001:db8::7]:53 [::]:*            users:((\"run:nginx\",pid=7))
";
        assert_eq!(shown("-anp"), expected);
    }

    #[test]
    fn what_tcp_knows_stands_below_a_connection() {
        let text = shown("-Hi");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let expected = "\t ts sack cubic wscale:7,10 rto:204 rtt:1.5/0.75 mss:1448 rcvmss:536 cwnd:10 bytes_acked:0 bytes_received:0 \
            lastsnd:0 lastrcv:0";
        assert_eq!(lines[2], expected);
    }
}
