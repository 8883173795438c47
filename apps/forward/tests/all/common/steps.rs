//! A forwarder of TCP and UDP over both families, and packets that are given to it one by one.

use std::net::{IpAddr, SocketAddr};

use etherparse::PacketBuilder;
use exos_forward::forwarder::{Forwarder, Verdict};
use exos_forward::packets::packet::{Packet, Transport};
use exos_forward::packets::reach::Reach;
use exos_forward::service::{Listen, Services};
use exos_inet::{Instant, RxChecksum};
use exos_wire::Mac;
use exos_wire::tcp::TcpFlags;

use super::{Ends, Shape, build};

pub const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
pub const VIP: &str = "10.0.0.20:80";
pub const VIP6: &str = "[fd00::20]:80";
/// Other addresses of ours.
pub const OURS: &str = "10.0.0.19";
pub const OURS6: &str = "fd00::19";
pub const SERVER: &str = "10.0.0.11:8080";
pub const SERVER6: &str = "[fd00::11]:8080";
pub const CLIENT: &str = "10.0.0.1:40000";
pub const CLIENT6: &str = "[fd00::1]:40000";
pub const START: Instant = Instant::from_millis(5_000_000);

pub const SYN: u8 = TcpFlags::SYN.0;
pub const ACK: u8 = TcpFlags::ACK.0;
pub const FIN: u8 = TcpFlags::FIN.0;
pub const RST: u8 = TcpFlags::RST.0;
/// The sequence number of every server's SYN.
pub const ISN: u32 = 7000;

pub fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// TCP and UDP over both families, with a server each.
pub fn wanted() -> Vec<Listen> {
    wanted_by(Reach::Nat)
}

/// TCP and UDP over both families by this reach; where ports stay as they are, the server has the listener's.
pub fn wanted_by(reach: Reach) -> Vec<Listen> {
    let mut wanted = Vec::new();
    for transport in [Transport::Tcp, Transport::Udp] {
        for (vip, server) in [(VIP, SERVER), (VIP6, SERVER6)] {
            wanted.push(Listen {
                transport,
                at: at(vip),
                reach,
                to: vec![(server_by(reach, server), 1, ours_by(reach, vip))],
            });
        }
    }
    wanted
}

/// A server's end by this reach.
pub fn server_by(reach: Reach, server: &str) -> SocketAddr {
    match reach.may_change_port() {
        true => at(server),
        false => SocketAddr::new(at(server).ip(), at(VIP).port()),
    }
}

/// From where a server is spoken to: the listener's address, which servers that have it too would not hear.
pub fn ours_by(reach: Reach, vip: &str) -> IpAddr {
    match (reach.hears_servers(), at(vip).ip()) {
        (true, ip) => ip,
        (false, IpAddr::V4(_)) => OURS.parse().unwrap(),
        (false, IpAddr::V6(_)) => OURS6.parse().unwrap(),
    }
}

/// A forwarder of these.
pub fn forwarder(flows: u32) -> Forwarder {
    forwarder_by(Reach::Nat, flows)
}

/// One by another reach.
pub fn forwarder_by(reach: Reach, flows: u32) -> Forwarder {
    Forwarder::new(Services::new(&wanted_by(reach)).unwrap(), MAC, flows, 1)
}

/// The sequence number of every client's SYN.
pub const CLIENT_ISN: u32 = 100;

/// A segment with the number that its sender has after the handshake.
pub fn tcp(src: SocketAddr, dst: SocketAddr, flags: u8, ack: u32) -> Vec<u8> {
    let is_server = matches!(src.port(), 53 | 80 | 8080);
    let isn = if is_server { ISN } else { CLIENT_ISN };
    tcp_at(src, dst, flags, ack, isn + u32::from(flags & SYN == 0))
}

/// A segment with this number.
pub fn tcp_at(src: SocketAddr, dst: SocketAddr, flags: u8, ack: u32, seq: u32) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], MAC.0);
    let builder = match (src.ip(), dst.ip()) {
        (IpAddr::V4(s), IpAddr::V4(d)) => builder.ipv4(s.octets(), d.octets(), 64),
        (IpAddr::V6(s), IpAddr::V6(d)) => builder.ipv6(s.octets(), d.octets(), 64),
        _ => unreachable!(),
    };
    let mut builder = builder.tcp(src.port(), dst.port(), seq, 1000);
    for (flag, which) in [(SYN, 0), (FIN, 1), (RST, 2)] {
        builder = match which {
            _ if flags & flag == 0 => builder,
            0 => builder.syn(),
            1 => builder.fin(),
            _ => builder.rst(),
        };
    }
    if flags & ACK != 0 {
        builder = builder.ack(ack);
    }
    let mut frame = Vec::new();
    builder.write(&mut frame, &[]).unwrap();
    frame
}

pub fn udp(src: &str, dst: SocketAddr, payload: Vec<u8>) -> Vec<u8> {
    let shape = Shape {
        transport: Transport::Udp,
        payload,
        hops: 64,
        options: 0,
        padding: 0,
    };
    let ends = Ends { src: at(src), dst };
    build(MAC, &ends, &shape)
}

pub fn ends_of(frame: &[u8]) -> (SocketAddr, SocketAddr) {
    let (_, src, dst) = Packet::read(frame, MAC).unwrap().ends().unwrap();
    (src.into(), dst.into())
}

/// Gives a frame to the forwarder: how it went on, or what else became of it.
pub fn give(forwarder: &mut Forwarder, now: Instant, frame: Vec<u8>) -> Result<Vec<u8>, Verdict> {
    let (to, frame) = give_to(forwarder, now, frame)?;
    let packet = Packet::read(&frame, MAC).unwrap();
    assert_eq!(IpAddr::from(packet.dst), to);
    Ok(frame)
}

/// Gives a frame to the forwarder: how it went on and to which host, whatever the packet says.
pub fn give_to(
    forwarder: &mut Forwarder,
    now: Instant,
    mut frame: Vec<u8>,
) -> Result<(IpAddr, Vec<u8>), Verdict> {
    let before = frame.clone();
    // Whatever comes may be read ahead, and nothing changes by it.
    forwarder.look(&frame);
    forwarder.read_ahead(now);
    match forwarder.handle_frame(now, &mut frame, RxChecksum::Unknown) {
        Verdict::Onward(to) => Ok((to, frame)),
        verdict => {
            assert_eq!(frame, before, "what does not go on is as it was");
            Err(verdict)
        }
    }
}

/// Gives a frame to the forwarder: all that leaves because of it, with the host that each goes to.
pub fn give_any(
    forwarder: &mut Forwarder,
    now: Instant,
    mut frame: Vec<u8>,
) -> Result<Vec<(IpAddr, Vec<u8>)>, Verdict> {
    match forwarder.handle_frame(now, &mut frame, RxChecksum::Unknown) {
        Verdict::Onward(to) => Ok(vec![(to, frame)]),
        Verdict::Generated | Verdict::Answered => {
            Ok(std::iter::from_fn(|| forwarder.poll_made()).collect())
        }
        verdict => Err(verdict),
    }
}

/// A handshake of this client; the end of ours that the server sees.
pub fn open(forwarder: &mut Forwarder, now: Instant, client: SocketAddr, vip: &str) -> SocketAddr {
    let syn = give(forwarder, now, tcp(client, at(vip), SYN, 0)).expect("to the server");
    let (ours, server) = ends_of(&syn);
    give(forwarder, now, tcp(server, ours, SYN | ACK, 101)).expect("to the client");
    give(forwarder, now, tcp(client, at(vip), ACK, ISN + 1)).expect("to the server");
    ours
}

/// Has a packet go no further than this many hops. Of IPv4 without options the header's checksum follows.
pub fn set_hops(frame: &mut [u8], hops: u8) {
    if frame[12..14] == [0x86, 0xdd] {
        frame[21] = hops;
        return;
    }
    frame[22] = hops;
    frame[24..26].fill(0);
    let sum = exos_wire::Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// How many flows there are of each class.
pub fn count(forwarder: &Forwarder, class: exos_forward::flow::Class) -> u32 {
    forwarder.flows().count(class)
}

pub fn secs(count: u64) -> std::time::Duration {
    std::time::Duration::from_secs(count)
}

pub fn client(n: u32) -> SocketAddr {
    let [a, b, c, d] = (0x0a01_0000 + n / 50_000).to_be_bytes();
    SocketAddr::from(([a, b, c, d], (n % 50_000) as u16 + 1024))
}
