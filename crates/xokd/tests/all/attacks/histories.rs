//! Histories that nobody foresaw: requests of every kind, in any order, with the numbers of one's own and of others' things,
//! while the daemon is killed and comes back.

use exos_xok::message::{Answer, GrantId, PortWish, Request, Secret};
use exos_xok::{Endpoint, Protocol};

use crate::attacks::attacker::{Hostile, NOBODY, SOMEBODY};
use crate::attacks::program::{Connection, Program};
use crate::attacks::world::{MARK, OURS, OURS_V6, case, from_us, must_be_clean, to_us, within};
use crate::packets;

const HELD: u16 = 8000;
const LAST: &[u8] = b"this is honest";

/// What a hostile user may have beside.
const WHOLE: &str = r#"
[[allow]]
user = "65534"
addresses = ["fd79::7"]
ports = ["1-65535"]
"#;

/// Requests of one hostile program in each of the daemon's lives.
const REQUESTS: usize = 1500;

/// A program that asks for anything.
struct Player {
    state: u64,
    grants: Vec<GrantId>,
    tickets: Vec<Secret>,
}

impl Player {
    /// One of this many, by SplitMix64.
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as usize % end
    }

    /// A grant, as a rule one's own.
    fn grant(&mut self) -> GrantId {
        match self.grants.len() {
            0 => self.below(64) as GrantId,
            _ if self.below(5) == 0 => self.below(64) as GrantId,
            own => {
                let at = self.below(own);
                self.grants[at]
            }
        }
    }

    fn remote(&mut self) -> Endpoint {
        let ip = ["10.79.0.2", "fd79::2", OURS, "0.0.0.0"][self.below(4)];
        Endpoint {
            ip: ip.parse().expect("an address"),
            port: self.below(3) as u16 * 9,
        }
    }

    fn claim(&mut self) -> Request {
        let local = [OURS, OURS_V6, "10.79.0.8", "10.79.0.2"][self.below(4)];
        Request::Claim {
            protocol: Protocol::ALL[self.below(5)],
            local: (self.below(2) == 0).then(|| local.parse().expect("an address")),
            port: match self.below(4) {
                0 => PortWish::All,
                1 => PortWish::Ephemeral,
                _ => PortWish::Number([HELD, 7000, 7001, 7002, 80][self.below(5)]),
            },
            remote: (self.below(3) == 0).then(|| self.remote()),
        }
    }

    fn request(&mut self) -> Request {
        match self.below(13) {
            0..=2 => self.claim(),
            3 => Request::Narrow {
                grant: self.grant(),
                remote: self.remote(),
                port: self.below(3) as u16 * 7000,
            },
            4 => Request::Release {
                grant: self.grant(),
            },
            5 | 6 => Request::Share {
                grant: self.grant(),
            },
            7 | 8 => Request::Import {
                ticket: match self.tickets.len() {
                    0 => Secret([7; 16]),
                    some => {
                        let at = self.below(some);
                        self.tickets[at]
                    }
                },
            },
            9 => Request::AwaitSuccessor {
                grant: self.grant(),
                ms: [0, 1, 10_000, u32::MAX][self.below(4)],
            },
            10 => {
                let len = [0, 1, 55, 56, 112, 560][self.below(6)];
                let entries = (0..len).map(|_| self.below(256) as u8).collect();
                Request::TimeWait {
                    grant: self.grant(),
                    entries,
                }
            }
            11 => match self.below(4) {
                0 => Request::RemoveHandler {
                    port: [None, Some(HELD), Some(7000)][self.below(3)],
                },
                _ => Request::Download {
                    port: [HELD, 7000, 7001, 80][self.below(4)],
                    memory: [4096, 4096, 0, u32::MAX][self.below(4)],
                    handler: "handler h { words w[512]; need 8; done; }".to_owned(),
                },
            },
            _ => Request::Resolve {
                ip: self.remote().ip,
            },
        }
    }

    /// Plays on two slots, whose things it takes for its own on either, until the daemon has gone or it is done.
    fn play(&mut self, connections: &[&Connection]) {
        for n in 0..REQUESTS {
            let request = self.request();
            match connections[n % connections.len()].try_ask(&request) {
                None => return,
                Some((Answer::Granted { grant, .. }, _)) => self.grants.push(grant),
                Some((Answer::Ticket(ticket), _)) => self.tickets.push(ticket),
                Some(_) => {}
            }
            self.grants.truncate(64);
            if self.tickets.len() > 64 {
                self.tickets.clear();
            }
        }
    }
}

/// The slot of a token, on a connection with the daemon that there is now.
fn come_back(hostile: &Hostile, token: Secret) -> Connection {
    let connection = hostile.connect();
    let (back, _) = connection.ask(&Request::Reattach { token });
    assert!(matches!(back, Answer::Attached { .. }), "{back:?}");
    connection
}

/// Two users with two slots each, and an honest program between them, whose port nobody gets and nobody speaks from.
#[test]
fn of_requests_and_daemons_that_die() {
    case(
        |hostile| {
            let seed = hostile.role.parse().expect("a number");
            let mut programs = [(); 2].map(|()| hostile.attach());
            let mut player = Player {
                state: seed,
                grants: Vec::new(),
                tickets: Vec::new(),
            };
            for _ in 0..3 {
                player.play(&[&programs[0].connection, &programs[1].connection]);
                for program in &mut programs {
                    program.send(&packets::udp(&from_us(OURS, HELD), MARK));
                }
                hostile.say("played");
                hostile.wait_for("go");
                for program in &mut programs {
                    program.connection = come_back(hostile, program.token);
                }
                hostile.say("back");
            }
            assert!(!player.grants.is_empty(), "nothing was granted to it");
        },
        |world| {
            // All of an address can be left to a successor.
            world.set_policy(|policy| format!("{policy}{WHOLE}"));
            let mut holder = world.program();
            let grant = holder.connection.must_claim(HELD);
            let users = [(NOBODY, "1"), (SOMEBODY, "2")];
            let mut players = users.map(|(user, seed)| world.attacker_as(user, seed));
            for _ in 0..3 {
                players
                    .iter_mut()
                    .for_each(|player| player.must_say("played"));
                world.kill();
                world.start();
                let token = holder.token;
                holder.connection = world.connect();
                let (back, _) = holder.connection.ask(&Request::Reattach { token });
                let Answer::Attached { grants, .. } = back else {
                    panic!("{back:?}")
                };
                assert!(grants.iter().any(|(id, _)| *id == grant), "{grants:?}");
                for player in &mut players {
                    player.tell("go");
                }
                for player in &mut players {
                    player.must_say("back");
                }
                has_its_packets(world, &mut holder);
            }
            players.into_iter().for_each(|player| player.finish());
            assert!(within(|| world.slots() == [holder.slot]), "others are left");
            has_its_packets(world, &mut holder);
        },
    );
}

fn has_its_packets(world: &crate::attacks::world::World, holder: &mut Program) {
    world.far.send(&packets::udp(&to_us(OURS, HELD), LAST));
    must_be_clean(&holder.receive_up_to(LAST));
    holder.send(&packets::udp(&from_us(OURS, HELD), LAST));
    must_be_clean(&world.far.seen_up_to(LAST));
}
