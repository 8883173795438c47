//! What programs ask, and what is answered.
//!
//! Each request is looked at in this order: is it in place here (greeted, has a slot), does policy allow it, does the
//! ledger. Only then is anything changed, and the packet path is told before the program is.

use std::fmt::Display;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use exos_host::shared::sealed_text;
use exos_xok::message::{Answer, GrantId, Mode, PortWish, Refusal, Request, Secret, VERSION};
use exos_xok::{Claim, Endpoint, Protocol};

use super::seats::Wanted;
use super::taps::Wanted as TapWanted;
use super::{Daemon, now, random};
use crate::ledger::{Change, Denied, SlotId, TicketKind};
use crate::limits::{EPHEMERAL_ATTEMPTS, RESOLVES_PER_SECOND};
use crate::policy::Who;
use crate::server::ConnectionId;

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) code: Refusal,
    pub(super) text: String,
}

pub(super) fn refuse(code: Refusal, text: impl Display) -> Refused {
    Refused {
        code,
        text: text.to_string(),
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        refuse(denied.code(), denied)
    }
}

impl From<exos_host::Error> for Refused {
    fn from(error: exos_host::Error) -> Self {
        refuse(Refusal::System, error)
    }
}

/// An answer and the descriptors with it.
pub(super) type Answered = Result<(Answer, Vec<OwnedFd>), Refused>;

fn plain(answer: Answer) -> Answered {
    Ok((answer, Vec::new()))
}

impl Daemon {
    /// Does what a program asks, and answers.
    pub(super) fn handle(&mut self, id: ConnectionId, tag: u32, request: Request) {
        let (answer, fds) = self.answer(id, request).unwrap_or_else(|refused| {
            *self.refusals.entry(refused.code.name()).or_default() += 1;
            let Refused { code, text } = refused;
            (Answer::Refused { code, text }, Vec::new())
        });
        let granted = matches!(answer, Answer::Granted { .. } | Answer::Done);
        if !self.server.say(id, answer.encode(tag), fds) {
            self.forget(id);
        }
        if granted && let Some(slot) = self.slot_of(id) {
            self.write_slot(slot);
        }
    }

    fn answer(&mut self, id: ConnectionId, request: Request) -> Answered {
        let connection = self.server.connection(id);
        let connection = connection.ok_or_else(|| refuse(Refusal::NotFound, "gone"))?;
        let (who, pid) = (connection.who(), connection.peer.pid);
        match request {
            Request::Hello { version } => self.hello(version),
            Request::Attach {
                interface,
                mode,
                chunks,
                program,
            } => {
                let wanted = Wanted {
                    interface,
                    mode,
                    chunks,
                    program,
                };
                self.attach(id, &who, pid, wanted)
            }
            Request::Reattach { token } => self.reattach(id, &who, &token),
            Request::Claim {
                protocol,
                local,
                port,
                remote,
            } => self.claim(self.slot(id)?, &who, protocol, local, port, remote),
            Request::Narrow {
                grant,
                remote,
                port,
            } => {
                let slot = self.slot(id)?;
                let change = self.ledger.narrow(slot, grant, remote, port)?;
                self.reserve(slot, &change)?;
                self.granted(&change)
            }
            Request::Release { grant } => self.release(self.slot(id)?, grant),
            Request::Export { grant } => self.ticket(self.slot(id)?, grant, TicketKind::Move),
            Request::Share { grant } => self.ticket(self.slot(id)?, grant, TicketKind::Share),
            Request::Import { ticket } => {
                let slot = self.slot(id)?;
                let change = self.ledger.present(slot, &ticket, now())?;
                self.granted(&change)
            }
            Request::Resolve { ip } => self.resolve(self.slot(id)?, ip),
            Request::Status if connection.is_behind() => {
                let text = "read the answers that wait before asking for another report";
                Err(refuse(Refusal::Limit, text))
            }
            Request::Status => {
                let text = self.report().to_string();
                let bytes = text.len() as u32;
                let fd = sealed_text("exos-report", text.as_bytes())?;
                Ok((Answer::Report { bytes }, vec![fd]))
            }
            Request::StepAside => {
                if who.uid != rustix::process::geteuid().as_raw() {
                    let text = "only the user that the daemon runs as may replace it";
                    return Err(refuse(Refusal::NotAllowed, text));
                }
                self.replaced = true;
                plain(Answer::Done)
            }
            Request::Tap {
                interface,
                filter,
                snap,
                all,
            } => {
                let wanted = TapWanted {
                    interface,
                    filter,
                    snap,
                    all,
                };
                self.tap(id, &who, wanted)
            }
            Request::Untap { tap } => self.untap(id, tap),
            Request::TimeWait { grant, entries } => {
                self.keep_time_wait(self.slot(id)?, grant, &entries)
            }
        }
    }

    fn hello(&self, version: u16) -> Answered {
        if version != VERSION {
            let text = format!(
                "this daemon speaks version {VERSION} and the program {version}; use programs and a daemon of one version"
            );
            return Err(refuse(Refusal::Version, text));
        }
        let info = |i: &crate::interface::Interface| {
            let routes = i.routes(&self.netlink).unwrap_or_default();
            let gateways = routes.iter().filter(|r| r.prefix == 0);
            let gateways = gateways.filter_map(|r| r.gateway);
            i.info(gateways.take(exos_xok::limits::GATEWAYS_MAX).collect())
        };
        let welcome = Answer::Welcome {
            version: VERSION,
            pid: std::process::id(),
            interfaces: self.interfaces.iter().map(info).collect(),
        };
        Ok((welcome, vec![self.tables.descriptor()?]))
    }

    fn attach(&mut self, id: ConnectionId, who: &Who, pid: u32, wanted: Wanted) -> Answered {
        self.check_seatless(id)?;
        let wanted = Wanted {
            mode: match wanted.mode {
                Mode::Auto => Mode::Shared,
                mode => mode,
            },
            ..wanted
        };
        let (slot, fds) = self.add_seat(id, who, pid, wanted)?;
        let seat = &self.seats[&slot];
        let attached = Answer::Attached {
            slot,
            token: seat.token,
            facts: seat.facts,
            grants: Vec::new(),
        };
        Ok((attached, fds))
    }

    fn reattach(&mut self, id: ConnectionId, who: &Who, token: &Secret) -> Answered {
        // Two slots on a connection, and the second would outlive it.
        self.check_seatless(id)?;
        let found = self.seats.iter_mut().find(|(_, seat)| seat.token == *token);
        let owner = |slot| self.ledger.owner(slot).is_some_and(|o| o.uid == who.uid);
        let none = || {
            refuse(
                Refusal::NotFound,
                "there is no such slot any more; attach anew",
            )
        };
        let (slot, seat) = found.filter(|(slot, _)| owner(**slot)).ok_or_else(none)?;
        if seat.connection.is_some() {
            let text = "the slot is held by another connection";
            return Err(refuse(Refusal::Held, text));
        }
        seat.connection = Some(id);
        seat.ends = None;
        let held = self.ledger.held_by(*slot);
        let attached = Answer::Attached {
            slot: *slot,
            token: seat.token,
            facts: seat.facts,
            grants: held.map(|(grant, g)| (grant, g.claim)).collect(),
        };
        plain(attached)
    }

    fn claim(
        &mut self,
        slot: SlotId,
        who: &Who,
        protocol: Protocol,
        local: Option<IpAddr>,
        port: PortWish,
        remote: Option<Endpoint>,
    ) -> Answered {
        let interface = self.seats[&slot].interface;
        let (number, ephemeral) = match port {
            PortWish::All => (0, false),
            // Policy is asked with the first port that could be chosen, and again with the one that was.
            PortWish::Ephemeral => (*crate::limits::EPHEMERAL_PORTS.start(), true),
            PortWish::Number(port) => (port, false),
        };
        let claim = |local| Claim {
            interface,
            protocol,
            local,
            port: number,
            remote,
        };
        let wanted = claim(self.local_address(interface, protocol, local, remote)?);
        wanted.check().map_err(|e| refuse(Refusal::BadRequest, e))?;
        let seated = self.interface(interface).expect("a seat's interface");
        let name = seated.link.name.clone();
        let allowed = self.config.policy.claim(who, &name, &wanted);
        allowed.map_err(|e| refuse(Refusal::NotAllowed, e))?;
        if ephemeral {
            return self.claim_ephemeral(slot, who, &name, wanted);
        }
        let change = self.ledger.claim(slot, wanted)?;
        self.reserve(slot, &change)?;
        self.granted(&change)
    }

    /// A port that neither a program has nor the host. One that the host has rests in the ledger like one that was
    /// used, so the next attempt gets another.
    fn claim_ephemeral(
        &mut self,
        slot: SlotId,
        who: &Who,
        interface: &str,
        wanted: Claim,
    ) -> Answered {
        let mut attempt = 1;
        loop {
            let policy = &self.config.policy;
            let allowed = |chosen: &Claim| policy.allows(who, interface, chosen);
            let change = self.ledger.claim_ephemeral(slot, wanted, now(), allowed)?;
            match self.reserve(slot, &change) {
                Ok(()) => return self.granted(&change),
                Err(refused) if attempt == EPHEMERAL_ATTEMPTS => return Err(refused),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Keeps the host from the port of a new grant where the address is the host's, too; else takes it back.
    fn reserve(&mut self, slot: SlotId, change: &Change) -> Result<(), Refused> {
        if !self.is_shared(&change.claim) {
            return Ok(());
        }
        let held = self.reservations.hold(change.grant, &change.claim);
        held.map_err(|error| {
            let taken = self.ledger.release(slot, change.grant, now());
            debug_assert!(taken.is_ok(), "it was granted just now: {taken:?}");
            refuse(Refusal::Held, error)
        })
    }

    /// Whether the host's own stack has the address of a claim.
    pub(super) fn is_shared(&self, claim: &Claim) -> bool {
        let interface = self.interface(claim.interface);
        let mut addresses = interface.iter().flat_map(|i| &i.addresses);
        addresses.any(|a| a.ip == claim.local && !a.ours_alone)
    }

    /// The address that is meant: one of the interface's, the first of the right family when it is left to us.
    fn local_address(
        &self,
        interface: u32,
        protocol: Protocol,
        local: Option<IpAddr>,
        remote: Option<Endpoint>,
    ) -> Result<IpAddr, Refused> {
        let interface = self.interface(interface).expect("a seat's interface");
        let all = || interface.addresses.iter().map(|a| a.ip);
        let suits = |ip: &IpAddr| {
            protocol.suits(*ip) && remote.is_none_or(|r| r.ip.is_ipv4() == ip.is_ipv4())
        };
        let found = match local {
            Some(local) => all().find(|ip| *ip == local),
            None => all().find(suits),
        };
        found.ok_or_else(|| {
            let names: Vec<String> = all().map(|ip| ip.to_string()).collect();
            let asked = local.map_or("none of that family".to_owned(), |ip| format!("not {ip}"));
            let text = format!(
                "{} has the addresses {}, {asked}",
                interface.link.name,
                names.join(", ")
            );
            refuse(Refusal::NotFound, text)
        })
    }

    fn granted(&mut self, change: &Change) -> Answered {
        self.apply(change);
        plain(Answer::Granted {
            grant: change.grant,
            claim: change.claim,
        })
    }

    fn release(&mut self, slot: SlotId, grant: GrantId) -> Answered {
        if let Some(change) = self.ledger.release(slot, grant, now())? {
            self.apply(&change);
        }
        plain(Answer::Done)
    }

    /// Connections in TIME-WAIT of a grant of the asker's, for which slot 0 answers once the grant is gone.
    fn keep_time_wait(&mut self, slot: SlotId, grant: GrantId, entries: &[u8]) -> Answered {
        let held = self.ledger.grant(grant).filter(|g| g.slot() == slot);
        let claim =
            held.ok_or_else(|| refuse(Refusal::NotFound, "there is no such grant of yours"))?;
        let (claim, index) = (claim.claim, claim.claim.interface);
        let interface = self.interfaces.iter_mut().find(|i| i.link.index == index);
        let Some(responder) = interface.and_then(|i| i.neighbours.responder()) else {
            let text = "the host's own stack answers for its addresses";
            return Err(refuse(Refusal::Unsupported, text));
        };
        responder.keep_time_wait(now(), entries, &claim);
        plain(Answer::Done)
    }

    fn ticket(&mut self, slot: SlotId, grant: GrantId, kind: TicketKind) -> Answered {
        let secret = Secret(random());
        self.ledger.write_ticket(slot, grant, kind, secret, now())?;
        plain(Answer::Ticket(secret))
    }

    fn resolve(&mut self, slot: SlotId, ip: IpAddr) -> Answered {
        let seat = self.seats.get_mut(&slot).expect("the slot has a seat");
        if now() - seat.resolves.0 >= std::time::Duration::from_secs(1) {
            seat.resolves = (now(), 0);
        }
        seat.resolves.1 += 1;
        if seat.resolves.1 > RESOLVES_PER_SECOND {
            let text = format!("more than {RESOLVES_PER_SECOND} neighbours asked for in a second");
            return Err(refuse(Refusal::Limit, text));
        }
        let index = seat.interface;
        let (netlink, tables) = (&self.netlink, &mut self.tables);
        if let Some(interface) = self.interfaces.iter_mut().find(|i| i.link.index == index)
            && let Some(known) = interface.neighbours.resolve(netlink, now(), ip)?
            && tables.write_quietly(|w| w.set_neighbour(&known))
        {
            tables.news();
        }
        plain(Answer::Done)
    }

    pub(super) fn slot_of(&self, id: ConnectionId) -> Option<SlotId> {
        let seat = self.seats.iter().find(|(_, s)| s.connection == Some(id));
        seat.map(|(slot, _)| *slot)
    }

    fn check_seatless(&self, id: ConnectionId) -> Result<(), Refused> {
        if self.slot_of(id).is_some() {
            let text = "this connection has a slot already; connect again for another";
            return Err(refuse(Refusal::BadRequest, text));
        }
        Ok(())
    }

    fn slot(&self, id: ConnectionId) -> Result<SlotId, Refused> {
        let none = || refuse(Refusal::BadRequest, "attach first");
        self.slot_of(id).ok_or_else(none)
    }
}
