//! Claims of programs: what policy and the ledger say, what the host has of it, and what is left at the end.

use std::net::IpAddr;

use exos_xok::message::{Answer, GrantId, PortWish, Refusal, Secret};
use exos_xok::{Claim, Endpoint, Protocol};

use super::requests::{Answered, Refused, plain, refuse};
use super::{Daemon, now, random};
use crate::ledger::{Change, SlotId, TicketKind};
use crate::limits::EPHEMERAL_ATTEMPTS;
use crate::policy::Who;

impl Daemon {
    pub(super) fn claim(
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
    pub(super) fn reserve(&mut self, slot: SlotId, change: &Change) -> Result<(), Refused> {
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

    pub(super) fn granted(&mut self, change: &Change) -> Answered {
        self.apply(change);
        plain(Answer::Granted {
            grant: change.grant,
            claim: change.claim,
        })
    }

    pub(super) fn release(&mut self, slot: SlotId, grant: GrantId) -> Answered {
        if let Some(change) = self.ledger.release(slot, grant, now())? {
            self.apply(&change);
        }
        plain(Answer::Done)
    }

    /// Connections in TIME-WAIT of a grant of the asker's, for which slot 0 answers once the grant is gone.
    pub(super) fn keep_time_wait(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        entries: &[u8],
    ) -> Answered {
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

    pub(super) fn ticket(&mut self, slot: SlotId, grant: GrantId, kind: TicketKind) -> Answered {
        let secret = Secret(random());
        self.ledger.write_ticket(slot, grant, kind, secret, now())?;
        plain(Answer::Ticket(secret))
    }
}
