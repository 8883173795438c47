//! Segments from and to the wire, and ARP for our addresses.

use super::connection::Reply;
use super::segment::Segment;
use super::steering::queue;
use super::tuples::{NETWORK, Tuple};
use crate::stage::link;
use exos_host::Result;
use exos_link::{Link, RX_BATCH, RxChecksum, RxMeta, TxMeta};
use exos_wire::arp::{self, ArpPacket, ArpView};
use exos_wire::ethernet::{ETHERTYPE_ARP, ETHERTYPE_IPV4, EthernetHeader, EthernetView};
use exos_wire::ipv4::{Ipv4Header, Ipv4View};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView, Timestamps};
use exos_wire::{Mac, Sum, protocol};
use std::net::SocketAddrV4;

/// Data of a segment: an MTU of 1500 without headers.
const MSS: u16 = 1460;

/// Ethernet, IPv4, TCP with the longest options that are sent.
const HEAD_LEN_MAX: usize = 14 + 20 + 20 + 20;

/// Batches taken in of a queue before anything is sent: as many frames as the ring for sending holds.
const BATCHES: usize = 8;

/// What was wrong with frames, or with the link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Segments with a wrong checksum.
    pub checksum: u64,
    /// Segments that the link had no room for.
    pub no_room: u64,
}

/// A request, with its sum.
pub(super) struct Request {
    bytes: Vec<u8>,
    sum: Sum,
}

impl Request {
    pub fn new(text: String) -> Self {
        let bytes = text.into_bytes();
        Self {
            sum: Sum::of(&bytes),
            bytes,
        }
    }

    /// Its bytes' number.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The wire to a server.
pub(super) struct Wire {
    /// One for each queue.
    links: Vec<Link>,
    ethernet: EthernetHeader,
    server: SocketAddrV4,
    /// Who asked for one of our addresses by ARP.
    asking: Vec<ArpPacket>,
    pub faults: Faults,
}

impl Wire {
    /// The wire to a server at a link address, by this many queues (at least one).
    pub fn open(mac: Mac, server: SocketAddrV4, queues: u32) -> Result<Self> {
        let filter = format!(
            "(tcp src port {} and src host {} and dst net {NETWORK}) or (arp and arp dst net {NETWORK})",
            server.port(),
            server.ip()
        );
        let links = link::open_queues(&filter, queues)?;
        let ethernet = EthernetHeader {
            dst: mac,
            src: links[0].mac(),
            vlan: None,
            ethertype: ETHERTYPE_IPV4,
        };
        Ok(Self {
            links,
            ethernet,
            server,
            asking: Vec::new(),
            faults: Faults::default(),
        })
    }

    /// Takes in what has come from the server, up to a bound; how many frames.
    pub fn receive(&mut self, mut take: impl FnMut(Tuple, Segment<'_>)) -> usize {
        let (faults, asking) = (&mut self.faults, &mut self.asking);
        let mut take = |frame: &[u8], meta: RxMeta| {
            let Ok(frame) = EthernetView::parse(frame) else {
                return;
            };
            if frame.ethertype() == ETHERTYPE_ARP {
                let asked = ArpView::parse(frame.payload());
                let asked = asked.ok().map(|view| view.packet());
                asking.extend(asked.filter(|a| a.operation == arp::REQUEST));
            } else if let Some((to, segment)) = read(frame.payload(), meta.checksum, faults) {
                take(to, segment);
            }
        };
        let mut count = 0;
        for link in &mut self.links {
            for _ in 0..BATCHES {
                let batch = link.receive(&mut take);
                count += batch;
                if batch < RX_BATCH as usize {
                    break;
                }
            }
        }
        count
    }

    /// Sends a segment. What there is no room for is as lost as on any wire.
    pub fn send(&mut self, reply: &Reply, request: &Request, now_ms: u32) {
        let mut head = [0; HEAD_LEN_MAX];
        let (body, sum) = if reply.request {
            (&request.bytes[..], request.sum)
        } else {
            (&[][..], Sum::ZERO)
        };
        let len = self.write(reply, now_ms, (body.len(), sum), &mut head);
        let (address, port) = reply.tuple.local();
        let from = SocketAddrV4::new(address, port);
        let at = queue(from, self.server, self.links.len());
        if !transmit(&mut self.links[at], &head[..len], body) {
            self.faults.no_room += 1;
        }
    }

    fn write(&self, reply: &Reply, now_ms: u32, body: (usize, Sum), head: &mut [u8]) -> usize {
        let (src, src_port) = reply.tuple.local();
        let syn = reply.flags == TcpFlags::SYN;
        let options = TcpOptions {
            mss: syn.then_some(MSS),
            // Neither is used; but all SYNs have them, and servers know them by that.
            sack_permitted: syn,
            window_scale: syn.then_some(0),
            timestamps: Some(Timestamps {
                value: now_ms,
                echo: reply.echo,
            }),
            ..TcpOptions::NONE
        };
        let tcp = TcpHeader {
            src_port,
            dst_port: self.server.port(),
            seq: reply.seq,
            ack: reply.ack,
            flags: reply.flags,
            window: reply.window,
            urgent: 0,
        };
        let tcp_len = exos_wire::tcp::LEN + exos_wire::tcp::options_len(&options);
        let segment_len = tcp_len + body.0;
        let dst = *self.server.ip();
        let pseudo = Sum::pseudo_v4(src, dst, protocol::TCP, segment_len as u32);
        self.ethernet.emit(head);
        Ipv4Header::atomic(src, dst, protocol::TCP).emit(segment_len, &mut head[14..]);
        tcp.emit_with_checksum(&options, pseudo.plus(body.1), &mut head[34..]);
        34 + tcp_len
    }

    /// Answers who asked, and hands everything over.
    pub fn flush(&mut self) -> Result<()> {
        for asked in self.asking.drain(..) {
            if Tuple::has(asked.target_ip) {
                let mut frame = [0; 14 + arp::LEN];
                let header = EthernetHeader {
                    dst: asked.sender_mac,
                    ethertype: ETHERTYPE_ARP,
                    ..self.ethernet
                };
                header.emit(&mut frame);
                let answer = ArpPacket {
                    operation: arp::REPLY,
                    sender_mac: self.ethernet.src,
                    sender_ip: asked.target_ip,
                    target_mac: asked.sender_mac,
                    target_ip: asked.sender_ip,
                };
                answer.emit(&mut frame[14..]);
                transmit(&mut self.links[0], &frame, &[]);
            }
        }
        self.links.iter_mut().try_for_each(link::flush)
    }
}

/// Queues a frame, at the second attempt where the first found no room.
fn transmit(link: &mut Link, head: &[u8], body: &[u8]) -> bool {
    let meta = TxMeta::default();
    link.transmit(head, &[body], meta)
        || (link.flush().is_ok() && link.transmit(head, &[body], meta))
}

/// A segment for one of our tuples, when it is intact.
fn read<'f>(
    packet: &'f [u8],
    checksum: RxChecksum,
    faults: &mut Faults,
) -> Option<(Tuple, Segment<'f>)> {
    let ip = Ipv4View::parse(packet).ok()?;
    let tcp = TcpView::parse(ip.payload()).ok()?;
    let tuple = Tuple::of(ip.dst(), tcp.dst_port())?;
    let len = ip.payload().len() as u32;
    let pseudo = Sum::pseudo_v4(ip.src(), ip.dst(), protocol::TCP, len);
    // A kernel on this machine may leave the sum of the pseudo header alone in the field.
    let unfinished = checksum == RxChecksum::MaybePartial && tcp.checksum() == pseudo.value();
    if !unfinished && !tcp.checksum_ok(pseudo) {
        faults.checksum += 1;
        return None;
    }
    let segment = Segment {
        seq: tcp.seq(),
        ack: tcp.ack(),
        flags: tcp.flags(),
        timestamp: tcp.options().timestamps.map_or(0, |t| t.value),
        data: tcp.payload(),
    };
    Some((tuple, segment))
}
