//! smoltcp's stack as a side of the wire, used as its documentation recommends and as sparingly as possible.
//!
//! One socket; each turn calls `poll_ingress_single` for each frame that is there, lets the program work, then `poll_egress`
//! until it has nothing more.
//! Timestamps are on, because they are on in ours and in every host's; congestion control is off, its default.
//! smoltcp copies the program's bytes into the socket's buffer and from there into the frame, and sums them on
//! the way: that is its design, and counted. The frame itself is memory of the device, for which nothing is paid.

use super::exos::{address, mac};
use super::role::{MESSAGE_BYTES, PORT, Role};
use super::scenario::{Family, Link};
use super::tape::{START, Side, Sink};
use exos_inet::Instant;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{
    Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken,
};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

/// Bytes of the socket's buffer in each direction: our receive buffer's size.
const SOCKET_BUFFER_BYTES: usize = exos_inet::limits::RECEIVE_BUFFER_BYTES as usize;

/// Bytes that the program queues at once. The C library copies more than two kilobytes with one repeated
/// instruction, which callgrind counts once a byte: no processor takes so long.
const PIECE_BYTES: usize = 1448;

/// The longest frame, Ethernet header included.
const FRAME_BYTES: usize = 1514;

/// smoltcp with a program.
pub(super) struct Smoltcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    role: Role,
    link: Link,
    frame: Box<[u8; FRAME_BYTES]>,
    document: Vec<u8>,
    /// Where in the document the next bytes to be queued lie.
    position: usize,
    operations: u64,
}

/// The wire's end for one turn.
struct Port<'t, K> {
    arrived: Option<&'t [u8]>,
    link: Link,
    frame: &'t mut [u8; FRAME_BYTES],
    sink: &'t mut K,
}

struct Arrived<'t>(&'t [u8]);

struct Leaving<'a, K> {
    frame: &'a mut [u8; FRAME_BYTES],
    sink: &'a mut K,
}

impl RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl<K: Sink> TxToken for Leaving<'_, K> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let result = f(&mut self.frame[..len]);
        self.sink.frame(&self.frame[..len], &[]);
        result
    }
}

impl<'t, K: Sink> Device for Port<'t, K> {
    type RxToken<'a>
        = Arrived<'t>
    where
        Self: 'a;
    type TxToken<'a>
        = Leaving<'a, K>
    where
        Self: 'a;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES;
        capabilities.checksum = checksums(self.link);
        capabilities
    }

    fn receive(
        &mut self,
        _: smoltcp::time::Instant,
    ) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let frame = self.arrived.take()?;
        let leaving = Leaving {
            frame: self.frame,
            sink: self.sink,
        };
        Some((Arrived(frame), leaving))
    }

    fn transmit(&mut self, _: smoltcp::time::Instant) -> Option<Self::TxToken<'_>> {
        Some(Leaving {
            frame: self.frame,
            sink: self.sink,
        })
    }
}

/// What smoltcp sums: all, or on a link that has verified what arrives, only what leaves. IPv4 headers are summed
/// either way, as ours are.
fn checksums(link: Link) -> ChecksumCapabilities {
    let mut checksums = ChecksumCapabilities::default();
    if link == Link::Verified {
        checksums.tcp = Checksum::Tx;
    }
    checksums
}

fn instant(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(now.micros() as i64)
}

impl Smoltcp {
    /// The side under test, with a program that listens.
    pub fn new(role: Role, link: Link) -> Self {
        let mut frame = Box::new([0; FRAME_BYTES]);
        let mut port = Port {
            arrived: None,
            link,
            frame: &mut frame,
            sink: &mut super::tape::Count::default(),
        };
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac(0).0)));
        config.random_seed = 42;
        let mut interface = Interface::new(config, &mut port, instant(START));
        interface.update_ip_addrs(|list| {
            for (family, prefix) in [(Family::Ipv4, 24), (Family::Ipv6, 64)] {
                let address = IpCidr::new(address(0, family).into(), prefix);
                list.push(address).expect("room for two addresses");
            }
        });
        let buffer = || SocketBuffer::new(vec![0; SOCKET_BUFFER_BYTES]);
        let mut socket = Socket::new(buffer(), buffer());
        // Any clock that moves: its value is not looked at.
        socket.set_tsval_generator(Some(|| 1));
        if role == Role::EagerSink {
            socket.set_ack_delay(None);
        }
        socket.set_nagle_enabled(false);
        socket.listen(PORT).expect("a fresh socket listens");
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let document = if role == Role::Source {
            (0..1 << 20).map(|n: u32| (n % 251) as u8).collect()
        } else {
            vec![b'm'; MESSAGE_BYTES]
        };
        Self {
            interface,
            sockets,
            handle,
            role,
            link,
            frame,
            document,
            position: 0,
            operations: 0,
        }
    }

    #[inline(never)]
    fn transmit_phase(&mut self, now: Instant, sink: &mut impl Sink) {
        let mut port = Port {
            arrived: None,
            link: self.link,
            frame: &mut self.frame,
            sink,
        };
        // A call sends one frame of each socket at most.
        while self
            .interface
            .poll_egress(instant(now), &mut port, &mut self.sockets)
            == PollResult::SocketStateChanged
        {}
    }

    /// A socket in TIME-WAIT may listen again, and forgets the connection; its last acknowledgement has left.
    #[inline]
    fn listen_again(&mut self) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        if socket.state() == State::TimeWait {
            self.operations += 1;
            socket
                .listen(PORT)
                .expect("a socket in TIME-WAIT may listen");
        }
    }

    #[inline]
    fn program(&mut self) {
        let socket = self.sockets.get_mut::<Socket<'_>>(self.handle);
        match self.role {
            Role::Sink | Role::EagerSink => {
                take(socket);
            }
            Role::Source => {
                while socket.can_send() {
                    let piece = &self.document[self.position..];
                    let sent = socket
                        .send_slice(&piece[..piece.len().min(PIECE_BYTES)])
                        .expect("it can send");
                    self.position = (self.position + sent) % self.document.len();
                }
            }
            Role::Server => {
                if take(socket) >= MESSAGE_BYTES {
                    socket.send_slice(&self.document).expect("it stands");
                    self.operations += 1;
                }
            }
            Role::ClosingServer => {
                if take(socket) >= MESSAGE_BYTES {
                    socket.send_slice(&self.document).expect("it stands");
                    socket.close();
                }
            }
            _ => unreachable!("smoltcp is the side under test, which listens"),
        }
    }
}

/// Take what there is to read; returns how much.
#[inline]
fn take(socket: &mut Socket<'_>) -> usize {
    let mut taken = 0;
    while socket.can_recv() {
        taken += socket
            .recv(|bytes| (bytes.len(), bytes.len()))
            .expect("there is something");
    }
    taken
}

impl Side for Smoltcp {
    fn turn(&mut self, now: Instant, frames: &[Vec<u8>], sink: &mut impl Sink) {
        if self.role == Role::ClosingServer {
            self.listen_again();
        }
        let mut port = Port {
            arrived: None,
            link: self.link,
            frame: &mut self.frame,
            sink,
        };
        for frame in frames {
            port.arrived = Some(frame);
            self.interface
                .poll_ingress_single(instant(now), &mut port, &mut self.sockets);
        }
        self.program();
        self.transmit_phase(now, sink);
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some(Instant::from_micros(at.total_micros().max(0) as u64))
    }

    fn operations(&self) -> u64 {
        self.operations
    }
}
