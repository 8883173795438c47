//! A program that speaks the daemon's protocol by hand, so that it can also say what no library of ours would.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

use exos_link::{Facts, Link, TxMeta, XdpLink};
use exos_xok::Protocol;
use exos_xok::limits::{MESSAGE_BYTES_MAX, MESSAGE_DESCRIPTORS_MAX};
use exos_xok::message::{Answer, FromDaemon, GrantId, Mode, PortWish, Refusal, Request, Secret};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::attacks::attacker::PATIENCE;

/// The tag of every request that waits for its answer.
const TAG: u32 = 7;

/// Chunks of memory that programs ask for here: 1 MiB.
pub const CHUNKS: u32 = 512;

/// For a slot as the daemon gives it.
pub fn attach_request() -> Request {
    Request::Attach {
        interface: String::new(),
        mode: Mode::Auto,
        chunks: CHUNKS,
        program: "program".to_owned(),
    }
}

/// A connection with the daemon.
pub struct Connection(OwnedFd);

impl Connection {
    /// Connects; waits while the daemon's queue is full.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// Connects if that is possible without waiting.
    pub fn open_now(path: &Path) -> Option<Self> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::NONBLOCK);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).ok()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).ok()?).ok()?;
        Some(Self(socket))
    }

    /// Sends bytes that need not be a message, with descriptors.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let parts = [std::io::IoSlice::new(bytes)];
        rustix::net::sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    }

    /// Sends a request again and again, each when the one before has had time to be answered, and reads nothing.
    /// Returns how often until the daemon ended the connection, at most `most`.
    pub fn send_until_cut(&self, request: &Request, most: usize) -> usize {
        let bytes = request.encode(TAG);
        for sent in 0..most {
            if self.send(&bytes, &[]).is_err() {
                return sent;
            }
            std::thread::sleep(std::time::Duration::from_micros(1500));
        }
        most
    }

    /// The next message with its descriptors; `None` when the daemon has closed the connection.
    pub fn receive(&self) -> Option<(FromDaemon, Vec<OwnedFd>)> {
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [std::mem::MaybeUninit::uninit();
            rustix::cmsg_space!(ScmRights(MESSAGE_DESCRIPTORS_MAX))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [std::io::IoSliceMut::new(&mut buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let len = match rustix::net::recvmsg(&self.0, &mut parts, &mut ancillary, flags) {
            Ok(got) if got.bytes > 0 => got.bytes,
            // Who was stopped goes on here.
            Err(Errno::INTR) => return self.receive(),
            Ok(_) | Err(Errno::CONNRESET) => return None,
            Err(error) => panic!("the daemon says nothing: {error}"),
        };
        let fds = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let fds = fds.collect();
        Some((FromDaemon::decode(&buffer[..len]).expect("sound"), fds))
    }

    /// The answer to a request, and its descriptors. `None` when the connection is closed instead.
    pub fn try_ask(&self, request: &Request) -> Option<(Answer, Vec<OwnedFd>)> {
        match self.send(&request.encode(TAG), &[]) {
            Err(Errno::PIPE | Errno::CONNRESET) => return None,
            sent => sent.expect("room"),
        }
        loop {
            if let (FromDaemon::Answer(TAG, answer), fds) = self.receive()? {
                return Some((answer, fds));
            }
        }
    }

    /// The answer to a request, and its descriptors.
    pub fn ask(&self, request: &Request) -> (Answer, Vec<OwnedFd>) {
        self.try_ask(request).expect("an answer")
    }

    /// Asks for a slot, again as long as the daemon has no time for this user.
    pub fn attach(&self) -> (Answer, Vec<OwnedFd>) {
        self.ask_until_heard(&attach_request())
    }

    /// Sends this request, again as long as the daemon has no time for this user.
    pub fn ask_until_heard(&self, request: &Request) -> (Answer, Vec<OwnedFd>) {
        let until = Instant::now() + PATIENCE;
        loop {
            let (answer, fds) = self.ask(request);
            let code = Refusal::Busy;
            if !matches!(&answer, Answer::Refused { code: c, .. } if *c == code) {
                return (answer, fds);
            }
            assert!(Instant::now() < until, "{answer:?}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Asks for a port of the first address of the family.
    pub fn claim(&self, protocol: Protocol, port: PortWish) -> Answer {
        let (local, remote) = (None, None);
        let request = Request::Claim {
            protocol,
            local,
            port,
            remote,
        };
        self.ask(&request).0
    }

    /// Claims TCP ports of these addresses until it may have no more: how many it has, and why. Many are asked for at
    /// once: there are thousands, and each answer that is waited for costs a slow machine some time.
    pub fn claim_until_refused(&self, addresses: &[&str]) -> (usize, String) {
        const AT_ONCE: usize = 32;
        let (mut granted, mut refused) = (0, None);
        while refused.is_none() {
            for address in addresses.iter().cycle().take(AT_ONCE) {
                let request = Request::Claim {
                    protocol: Protocol::Tcp,
                    local: Some(address.parse().expect("an address")),
                    port: PortWish::Ephemeral,
                    remote: None,
                };
                self.send(&request.encode(TAG), &[]).expect("room");
            }
            let said = std::iter::from_fn(|| self.receive());
            let answers = said.filter(|(said, _)| matches!(said, FromDaemon::Answer(..)));
            for (answer, _) in answers.take(AT_ONCE) {
                match answer {
                    FromDaemon::Answer(_, Answer::Granted { .. }) => granted += 1,
                    FromDaemon::Answer(_, Answer::Refused { code, text }) => {
                        assert_eq!(code, Refusal::Limit, "{text}");
                        refused = Some(text);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        (granted, refused.expect("just so"))
    }

    /// Asks for what a filter matches.
    pub fn claim_filter(&self, filter: &str) -> Answer {
        let filter = filter.to_owned();
        self.ask(&Request::ClaimFilter { filter }).0
    }

    /// Asks for what a filter matches, again as long as the daemon has no time for this user: a filter that cost the
    /// processor more than usual is charged as several.
    pub fn claim_filter_until_heard(&self, filter: &str) -> Answer {
        let filter = filter.to_owned();
        self.ask_until_heard(&Request::ClaimFilter { filter }).0
    }

    /// Is granted what a filter matches.
    pub fn must_claim_filter(&self, filter: &str) -> GrantId {
        match self.claim_filter_until_heard(filter) {
            Answer::GrantedFilter { grant } => grant,
            other => panic!("{filter} is not granted: {other:?}"),
        }
    }

    /// Is granted a UDP port of the first address.
    pub fn must_claim(&self, port: u16) -> GrantId {
        match self.claim(Protocol::Udp, PortWish::Number(port)) {
            Answer::Granted { grant, .. } => grant,
            other => panic!("not granted: {other:?}"),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Why an answer says no.
pub fn refusal(answer: &Answer) -> Refusal {
    match answer {
        Answer::Refused { code, .. } => *code,
        other => panic!("not refused: {other:?}"),
    }
}

/// A token or a ticket in a line.
pub fn secret_to_hex(secret: &Secret) -> String {
    secret.0.map(|byte| format!("{byte:02x}")).concat()
}

/// And back.
pub fn secret_from_hex(text: &str) -> Secret {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..][..2], 16).expect("hexadecimal");
    Secret(std::array::from_fn(byte))
}

/// A program with a slot and its ring.
pub struct Program {
    pub connection: Connection,
    pub link: Link,
    pub slot: u32,
    pub token: Secret,
    /// What the daemon passed: the ring's socket, its memory, the packet socket.
    pub descriptors: Vec<OwnedFd>,
    /// The numbers of its link.
    pub facts: Facts,
}

impl Program {
    /// Takes a slot.
    pub fn attach(connection: Connection) -> Self {
        let (attached, fds) = connection.attach();
        let Answer::Attached {
            slot, token, facts, ..
        } = attached
        else {
            panic!("not attached: {attached:?}")
        };
        let again = fds.iter().map(OwnedFd::try_clone);
        let descriptors = again.collect::<Result<_, _>>().expect("descriptors");
        let facts = Facts::from_bytes(&facts.link);
        let link = XdpLink::adopt("wire", &facts, fds).expect("a ring");
        Self {
            connection,
            link: link.into(),
            slot,
            token,
            descriptors,
            facts,
        }
    }

    /// Sends through the packet socket: a virtio-net header and a frame.
    pub fn send_beside(&self, bytes: &[u8]) {
        let sent = rustix::net::send(&self.descriptors[2], bytes, SendFlags::empty());
        assert_eq!(sent, Ok(bytes.len()));
    }

    /// Sends a frame as it is.
    pub fn send(&mut self, frame: &[u8]) {
        let until = Instant::now() + PATIENCE;
        while !self.link.transmit(frame, &[], TxMeta::default()) {
            assert!(Instant::now() < until, "the ring stays full");
            self.link.flush().expect("the interface is up");
            std::thread::yield_now();
        }
        self.link.flush().expect("the interface is up");
    }

    /// All frames that arrive up to the one that ends with `last`, and that one.
    pub fn receive_up_to(&mut self, last: &[u8]) -> Vec<Vec<u8>> {
        let until = Instant::now() + PATIENCE;
        let mut frames: Vec<Vec<u8>> = Vec::new();
        loop {
            self.link.receive(|frame, _| frames.push(frame.to_vec()));
            if frames.iter().any(|frame| frame.ends_with(last)) {
                return frames;
            }
            assert!(Instant::now() < until, "it does not arrive: {last:?}");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
