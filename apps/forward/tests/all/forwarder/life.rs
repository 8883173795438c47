//! Clients of a day: the packets of their lives, over both families, and how sure they may be of their flows.

use super::*;
use exos_testing::Random;

/// What happens next to a client.
#[derive(Clone, Copy, PartialEq)]
pub enum Step {
    /// A segment of the client's: its flags, and what is acknowledged.
    Client(u8, u32),
    /// One of the server's.
    Server(u8, u32),
    /// A datagram of the client's.
    Question,
    /// One of the server's.
    Answer,
    /// Nothing, for up to this many minutes.
    Silence(u64),
}

use Step::{Answer, Client, Question, Server, Silence};

pub const HANDSHAKE: [Step; 3] = [Client(SYN, 0), Server(SYN | ACK, 101), Client(ACK, ISN + 1)];
const EXCHANGE: [Step; 2] = [Client(ACK, ISN + 1), Server(ACK, 101)];
const ENDING: [Step; 3] = [
    Client(ACK | FIN, ISN + 1),
    Server(ACK | FIN, 102),
    Client(ACK, ISN + 2),
];
/// A minute less than those may be silent who talk by datagrams.
const PAUSE_MINUTES: u64 = 4;

/// The life of a connection: of a hundred, 70 are short, and the others long ones, some that are refused, reset or left for
/// dead, and SYNs of nobody.
pub fn connection(random: &mut Random) -> Vec<Step> {
    let mut steps = HANDSHAKE.to_vec();
    match random.below(100) {
        0..70 => steps.extend(EXCHANGE.iter().chain(&ENDING)),
        70..75 => steps.extend([EXCHANGE[0], Server(RST, 0)]),
        75..80 => steps.extend([EXCHANGE[0], EXCHANGE[1], Client(RST, 0)]),
        80..85 => steps = vec![HANDSHAKE[0], Server(RST | ACK, 101)],
        85..90 => steps.truncate(1),
        90..93 => {}
        _ => {
            for _ in 0..=random.below(8) {
                steps.extend([Silence(110), EXCHANGE[0], EXCHANGE[1]]);
            }
            steps.extend(ENDING);
        }
    }
    steps
}

/// Who talks by datagrams: of ten, seven have one question, one is not answered, and two go on.
pub fn datagrams(random: &mut Random) -> Vec<Step> {
    let mut steps = vec![Question, Answer];
    match random.below(10) {
        0..7 => {}
        7 => steps.truncate(1),
        _ => {
            steps.extend([Question, Answer]);
            for _ in 0..random.below(20) {
                steps.extend([Silence(PAUSE_MINUTES), Question, Answer]);
            }
        }
    }
    steps
}

/// A client: one of four over IPv6.
pub fn somebody(random: &mut Random) -> SocketAddr {
    let client = client(random.below(60_000) as u32);
    match (client.ip(), random.one_in(4)) {
        (IpAddr::V4(ip), true) => SocketAddr::new(
            std::net::Ipv6Addr::from(0xfd01 << 112 | u128::from(u32::from(ip))).into(),
            client.port(),
        ),
        _ => client,
    }
}

/// A client that has begun.
pub struct Life {
    pub client: SocketAddr,
    /// Its end of ours and its server, once the first packet has gone on.
    known: Option<(SocketAddr, SocketAddr)>,
    steps: std::vec::IntoIter<Step>,
    /// Of a connection: the client has acknowledged the server's SYN. Of datagrams: it has asked again, and was answered.
    has_shown: bool,
    questions: u32,
    fins: u32,
    pub is_tcp: bool,
}

impl Life {
    pub fn new(client: SocketAddr, steps: Vec<Step>) -> Self {
        Self {
            client,
            known: None,
            has_shown: false,
            questions: 0,
            fins: 0,
            is_tcp: matches!(steps[0], Client(..)),
            steps: steps.into_iter(),
        }
    }

    pub fn next(&mut self) -> Option<Step> {
        self.steps.next()
    }

    /// Both ends are there: nobody may take its flow from it.
    pub fn is_protected(&self) -> bool {
        self.has_shown && self.fins < 2
    }

    /// Nobody was sure of it yet.
    pub fn is_young(&self) -> bool {
        !self.has_shown
    }

    /// Another server has its SYN.
    pub fn went_elsewhere(&mut self, ends: (SocketAddr, SocketAddr)) {
        self.known = Some(ends);
    }

    /// The listener that it asks.
    pub fn vip(&self) -> SocketAddr {
        at(if self.client.is_ipv4() { VIP } else { VIP6 })
    }

    /// The packet of a step.
    pub fn packet(&self, step: Step) -> Vec<u8> {
        let known = self.known;
        match step {
            Client(flags, ack) => tcp(self.client, self.vip(), flags, ack),
            Question => udp(&self.client.to_string(), self.vip(), vec![1]),
            Server(..) | Answer => {
                let (ours, server) = known.expect("the client begins");
                match step {
                    Server(flags, ack) => tcp(server, ours, flags, ack),
                    _ => udp(&server.to_string(), ours, vec![2]),
                }
            }
            Silence(_) => unreachable!("nothing is sent"),
        }
    }

    /// A step's packet has gone on, between these ends.
    pub fn passed(&mut self, step: Step, ends: (SocketAddr, SocketAddr)) {
        match step {
            // A client that has asked once may be forgotten, and begin again.
            Question if !self.has_shown => self.known = Some(ends),
            Client(..) | Question => {
                assert_eq!(
                    *self.known.get_or_insert(ends),
                    ends,
                    "its server has changed"
                );
            }
            Server(..) | Answer => assert_eq!(ends, (self.vip(), self.client)),
            Silence(_) => {}
        }
        match step {
            Client(flags, _) => {
                self.has_shown |= flags & ACK != 0;
                self.fins += u32::from(flags & FIN != 0);
            }
            Server(flags, _) => self.fins += u32::from(flags & FIN != 0),
            Question => self.questions += 1,
            Answer => self.has_shown |= self.questions >= 2,
            Silence(_) => {}
        }
    }

    /// A packet that a stranger sends in the client's name, who knows its address and port and sees nothing; and what its
    /// receiver answers. A reset is one that the server drops, or that it does not believe and says so (RFC 5961 §3.2).
    pub fn forged(&self, random: &mut Random) -> (Vec<u8>, Option<Vec<u8>>) {
        if !self.is_tcp {
            return (self.packet(Question), None);
        }
        let flags = [0, ACK, SYN, SYN | ACK, FIN | ACK, RST, RST | ACK][random.below(7)];
        let ack = random.below(1 << 32) as u32;
        let expected = CLIENT_ISN + 1;
        let is_near = random.one_in(2);
        let beyond = match is_near {
            true => 1 + random.below(60_000) as u32,
            false => (1 << 30) + random.below(1 << 31) as u32,
        };
        let frame = tcp_at(self.client, self.vip(), flags, ack, expected + beyond);
        let challenge = is_near && flags & RST != 0;
        (frame, challenge.then(|| self.packet(EXCHANGE[1])))
    }
}
