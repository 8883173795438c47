//! A great many clients in little memory: 12 bytes of state each, from which their segments are written.
//!
//! A second stack would need as much memory as the one under test, and would hide its time. These clients say no
//! more than their handshake, requests and acknowledgements need; they never repeat anything, because the wire in
//! memory loses nothing. Each has an address and a port of its own behind one gateway.

use super::role::{MESSAGE_BYTES, PORT};
use super::tape::START;
use exos_inet::tcp::{ConnectionId, ListenOptions};
use exos_inet::{Config, Duration, Instant, Neighbors, RxChecksum, Stack};
use exos_wire::ethernet::{ETHERTYPE_IPV4, EthernetHeader};
use exos_wire::ipv4::{Ipv4Header, LEN as IPV4_LEN};
use exos_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, TcpView, Timestamps};
use exos_wire::{Mac, SeqNumber, protocol};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const SERVER_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const GATEWAY_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

const FIRST_CLIENT: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const ETHERNET_LEN: usize = 14;

/// Ports that one client address uses, from the first that is not privileged.
const PORTS: u32 = 50_000;

/// Room for the longest frame that is written here.
const FRAME_BYTES: usize = ETHERNET_LEN + IPV4_LEN + 20 + 40 + MESSAGE_BYTES;

const ACK: TcpFlags = TcpFlags::ACK;
const FIN_ACK: TcpFlags = TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0);

/// What a client knows of its connection.
#[derive(Copy, Clone)]
struct Client {
    /// Its next sequence number.
    snd_nxt: u32,
    /// The server's next.
    rcv_nxt: u32,
    /// The server's latest timestamp.
    ts_recent: u32,
}

/// The server under test and its clients.
pub(super) struct Crowd {
    /// The stack under test.
    pub stack: Stack,
    pub now: Instant,
    clients: Vec<Client>,
}

/// A frame of a client.
#[derive(Clone)]
pub(super) struct Frame {
    bytes: [u8; FRAME_BYTES],
    len: usize,
}

impl Frame {
    pub const EMPTY: Self = Self {
        bytes: [0; FRAME_BYTES],
        len: 0,
    };

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Crowd {
    /// A listening server, and this many clients: their memory is there before anything is measured.
    pub fn new(clients: u32) -> Self {
        let mut config = Config::new(SERVER_MAC, 1500);
        config.addresses = vec![(SERVER.into(), 24)];
        config.gateways = vec![GATEWAY.into()];
        config.neighbors = Neighbors::External;
        config.connections_max = clients as usize;
        let mut stack = Stack::new(config, 42, START).expect("one address and its gateway");
        stack.set_neighbor(START, IpAddr::V4(GATEWAY), GATEWAY_MAC);
        stack
            .tcp
            .listen(None, PORT, ListenOptions::default())
            .expect("a port of a fresh stack");
        let first = Client {
            snd_nxt: 1,
            rcv_nxt: 0,
            ts_recent: 0,
        };
        Self {
            stack,
            now: START,
            clients: vec![first; clients as usize],
        }
    }

    /// How many clients there are.
    pub fn len(&self) -> u32 {
        self.clients.len() as u32
    }

    /// Open the connection of a client.
    pub fn open(&mut self, client: u32) {
        let mut frame = Frame::EMPTY;
        self.write(client, TcpFlags::SYN, 0, &mut frame);
        self.clients[client as usize].snd_nxt += 1;
        self.deliver(&frame);
        assert_eq!(self.hear(client), 1, "a SYN is answered with a SYN-ACK");
        self.write(client, ACK, 0, &mut frame);
        self.deliver(&frame);
    }

    /// The server's connection to a client.
    #[inline]
    pub fn look_up(&self, client: u32) -> Option<ConnectionId> {
        let (local, remote) = (SocketAddr::new(SERVER.into(), PORT), who(client).into());
        self.stack.tcp.connection_between(local, remote)
    }

    /// The client's acknowledgement of what it has already acknowledged.
    pub fn bare(&self, client: u32, frame: &mut Frame) {
        self.write(client, ACK, 0, frame);
    }

    /// The client's next request.
    pub fn request(&mut self, client: u32, frame: &mut Frame) {
        self.write(client, ACK, MESSAGE_BYTES, frame);
        self.clients[client as usize].snd_nxt += MESSAGE_BYTES as u32;
    }

    /// The client finishes.
    pub fn finish(&mut self, client: u32) {
        let mut frame = Frame::EMPTY;
        self.write(client, FIN_ACK, 0, &mut frame);
        self.clients[client as usize].snd_nxt += 1;
        self.deliver(&frame);
    }

    /// Give the server a frame.
    #[inline]
    pub fn deliver(&mut self, frame: &Frame) {
        self.stack
            .handle_frame(self.now, frame.bytes(), RxChecksum::Verified);
    }

    /// Let time pass in steps, as a program would that sleeps until its next deadline.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.stack.poll_timeout(self.now)
            && at <= end
        {
            self.now = at.max(self.now);
            self.stack.handle_timeout(self.now);
            while self.stack.poll_transmit(self.now).is_some() {}
        }
        self.now = end;
    }

    /// The client takes what the server sends; returns how many frames.
    pub fn hear(&mut self, client: u32) -> usize {
        let mut count = 0;
        while let Some(t) = self.stack.poll_transmit(self.now) {
            let body: usize = t.body.parts().iter().map(|p| p.len()).sum();
            self.clients[client as usize].hear(t.head, body as u32);
            count += 1;
        }
        count
    }

    fn write(&self, client: u32, flags: TcpFlags, data: usize, frame: &mut Frame) {
        let state = &self.clients[client as usize];
        let syn = flags == TcpFlags::SYN;
        let options = TcpOptions {
            mss: syn.then_some(1460),
            window_scale: syn.then_some(7),
            sack_permitted: syn,
            timestamps: Some(Timestamps {
                value: self.now.millis() as u32,
                echo: state.ts_recent,
            }),
            ..TcpOptions::NONE
        };
        let (src, src_port) = who(client);
        let tcp = TcpHeader {
            src_port,
            dst_port: PORT,
            seq: SeqNumber(state.snd_nxt),
            ack: SeqNumber(state.rcv_nxt),
            flags,
            window: 500,
            urgent: 0,
        };
        let out = &mut frame.bytes;
        let ethernet = EthernetHeader {
            dst: SERVER_MAC,
            src: GATEWAY_MAC,
            vlan: None,
            ethertype: ETHERTYPE_IPV4,
        };
        let ip_at = ethernet.emit(out);
        let tcp_at = ip_at + IPV4_LEN;
        let tcp_len = tcp.emit(&options, &mut out[tcp_at..]);
        Ipv4Header::atomic(src, SERVER, protocol::TCP).emit(tcp_len + data, &mut out[ip_at..]);
        frame.len = tcp_at + tcp_len + data;
    }
}

impl Client {
    /// Take in a segment of the server, of which the head is enough.
    fn hear(&mut self, head: &[u8], data: u32) {
        // The head alone is shorter than IP says: TCP's header lies where it always does here.
        let segment = &head[ETHERNET_LEN + IPV4_LEN..];
        let view = TcpView::parse(segment).expect("a segment of our own stack");
        let flags = view.flags();
        let takes = |flag: TcpFlags| u32::from(flags.0 & flag.0 != 0);
        self.rcv_nxt = view
            .seq()
            .0
            .wrapping_add(data + takes(TcpFlags::SYN) + takes(TcpFlags::FIN));
        if let Some(t) = view.options().timestamps {
            self.ts_recent = t.value;
        }
    }
}

/// A client's address and port.
fn who(client: u32) -> (Ipv4Addr, u16) {
    let address = u32::from(FIRST_CLIENT) + client / PORTS;
    (address.into(), (1024 + client % PORTS) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_inet::tcp::EventSet;

    #[test]
    fn every_client_has_an_address_and_port_of_its_own() {
        let all: std::collections::BTreeSet<_> = (0..120_000).map(who).collect();
        assert_eq!(all.len(), 120_000);
        assert!(all.iter().all(|(_, port)| *port >= 1024));
    }

    #[test]
    fn a_client_opens_asks_and_finishes() {
        let mut crowd = Crowd::new(3);
        crowd.open(1);
        let event = crowd.stack.poll_event().expect("news");
        assert!(event.set.contains(EventSet::ACCEPTED));
        let mut frame = Frame::EMPTY;
        crowd.request(1, &mut frame);
        crowd.deliver(&frame);
        let event = crowd.stack.poll_event().expect("a request");
        assert_eq!(
            crowd.stack.tcp.readable(event.connection).len(),
            MESSAGE_BYTES
        );
        crowd.stack.tcp.consume(event.connection, MESSAGE_BYTES);
        crowd.stack.tcp.finish(event.connection);
        assert_eq!(crowd.hear(1), 1);
        crowd.finish(1);
        assert_eq!(crowd.stack.tcp.time_wait_connections(), 1);
        let drops = crowd.stack.counters().list();
        assert!(
            drops
                .iter()
                .all(|(name, n)| !name.starts_with("drop") || *n == 0)
        );
    }
}
