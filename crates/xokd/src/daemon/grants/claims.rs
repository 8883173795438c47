//! Claims of programs: what policy and the ledger say, what the host has of it, and what is left at the end.

use exos_host::random::random;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use exos_xok::message::{Answer, GrantId, PortWish, Refusal, Secret};
use exos_xok::{Claim, Endpoint, Protocol};

use crate::clock::now;
use crate::daemon::Daemon;
use crate::daemon::answers::{Answered, Refused, plain, refuse};
use crate::interface::Interface;
use crate::ledger::{Change, SlotId};
use crate::limits::{EPHEMERAL_ATTEMPTS, EPHEMERAL_PORTS};
use crate::policy::Who;

/// What a program wants to have.
pub(in crate::daemon) struct Wish {
    pub(in crate::daemon) protocol: Protocol,
    pub(in crate::daemon) local: Option<IpAddr>,
    pub(in crate::daemon) port: PortWish,
    pub(in crate::daemon) remote: Option<Endpoint>,
}

impl Daemon {
    pub(in crate::daemon) fn claim(&mut self, slot: SlotId, who: &Who, wish: &Wish) -> Answered {
        let (wanted, ports) = self.wanted(slot, who, wish)?;
        if wish.port == PortWish::Ephemeral {
            return self.claim_ephemeral(slot, wanted, &ports);
        }
        let is_new = !self.ledger.has(&wanted);
        let change = self.ledger.claim(slot, wanted)?;
        if is_new {
            self.reserve(slot, &change)?;
        }
        self.granted(slot, &change)
    }

    /// A port that is held together with other programs.
    pub(in crate::daemon) fn claim_divided(
        &mut self,
        slot: SlotId,
        who: &Who,
        wish: &Wish,
    ) -> Answered {
        let (wanted, _) = self.wanted(slot, who, wish)?;
        self.check_divisible(slot)?;
        let is_new = !self.ledger.has(&wanted);
        let change = self.ledger.claim_divided(slot, wanted)?;
        if is_new {
            self.reserve(slot, &change)?;
        }
        self.granted(slot, &change)
    }

    /// Which queue of the interface a packet comes by is not the gate's to say.
    fn check_divisible(&self, slot: SlotId) -> Result<(), Refused> {
        if self.attachments[&slot].record.queue.is_none() {
            return Ok(());
        }
        let text = "a program with a queue of the interface itself cannot share a port; start it with --mode shared";
        Err(refuse(Refusal::Unsupported, text))
    }

    /// What a wish means: the claim, and of ports that the daemon chooses those that policy allows.
    fn wanted(
        &self,
        slot: SlotId,
        who: &Who,
        wish: &Wish,
    ) -> Result<(Claim, Vec<RangeInclusive<u16>>), Refused> {
        let interface = self.interface_of(slot);
        let (policy, name) = (&self.config.policy, &interface.link.name);
        let number = match wish.port {
            PortWish::All => 0,
            // In place of the one that will be chosen.
            PortWish::Ephemeral => *EPHEMERAL_PORTS.start(),
            PortWish::Number(port) => port,
        };
        let claims = local_addresses(interface, wish)?
            .into_iter()
            .map(|local| Claim {
                interface: interface.link.index,
                protocol: wish.protocol,
                local,
                port: number,
                remote: wish.remote,
            });
        let claims: Vec<Claim> = claims.collect();
        let may = |claim: &Claim| match wish.port {
            PortWish::Ephemeral => policy.ports(who, name, claim, &EPHEMERAL_PORTS),
            PortWish::All | PortWish::Number(_) => {
                policy.claim(who, name, claim).map(|()| Vec::new())
            }
        };
        let wanted = claims.iter().find(|claim| may(claim).is_ok());
        let wanted = *wanted.unwrap_or(&claims[0]);
        wanted.check().map_err(|e| refuse(Refusal::BadRequest, e))?;
        let ports = may(&wanted).map_err(|e| refuse(Refusal::NotAllowed, e))?;
        Ok((wanted, ports))
    }

    /// A port that neither a program has nor the host. One that the host has rests in the ledger like one that was
    /// used, so the next attempt gets another.
    fn claim_ephemeral(
        &mut self,
        slot: SlotId,
        wanted: Claim,
        allowed: &[RangeInclusive<u16>],
    ) -> Answered {
        let mut attempt = 1;
        loop {
            let change = self.ledger.claim_ephemeral(slot, wanted, now(), allowed)?;
            match self.reserve(slot, &change) {
                Ok(()) => return self.granted(slot, &change),
                Err(refused) if attempt == EPHEMERAL_ATTEMPTS => return Err(refused),
                Err(_) => attempt += 1,
            }
        }
    }

    /// A connection out of what a program holds, while policy allows it: what is asked back is not kept in parts.
    pub(in crate::daemon) fn narrow(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        remote: Endpoint,
        port: u16,
    ) -> Answered {
        let (part, origin) = self.ledger.part_of(slot, grant, remote, port)?;
        self.check_right(slot, &part, &origin)?;
        let is_new = !self.ledger.has(&part);
        let change = self.ledger.narrow(slot, grant, remote, port)?;
        if is_new {
            self.reserve(slot, &change)?;
        }
        self.granted(slot, &change)
    }

    /// Refuses what policy allows neither to the holder of a slot nor to who claimed it first.
    fn check_right(&self, slot: SlotId, claim: &Claim, origin: &Who) -> Result<(), Refused> {
        if self.may_hold(slot, claim, origin) {
            return Ok(());
        }
        let (owner, interface) = (self.owner(slot), self.served(claim.interface));
        let name = &interface.link.name;
        if !interface.has(claim.local) {
            let text = format!("{name} has not the address {} any more", claim.local);
            return Err(refuse(Refusal::NotAllowed, text));
        }
        let allowed = self.config.policy.claim(&owner.who, name, claim);
        allowed.map_err(|e| refuse(Refusal::NotAllowed, e))
    }

    /// Keeps the host from the port of a new grant where the address is the host's, too; else takes it back. Not for what
    /// is held already: that goes on as it is, also where the host took the port while there was no daemon.
    pub(in crate::daemon) fn reserve(
        &mut self,
        slot: SlotId,
        change: &Change,
    ) -> Result<(), Refused> {
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
    pub(in crate::daemon) fn is_shared(&self, claim: &Claim) -> bool {
        let interface = self.interface(claim.interface);
        let mut addresses = interface.iter().flat_map(|i| &i.addresses);
        addresses.any(|a| a.ip == claim.local && !a.ours_alone)
    }

    /// Tells the packet path of a slot's new grant, and then the program. A grant that the kernel has no place for is
    /// taken back.
    fn granted(&mut self, slot: SlotId, change: &Change) -> Answered {
        if let Err(error) = self.enter(change) {
            if let Some(end) = self.ledger.release(slot, change.grant, now())? {
                self.apply(&end);
            }
            return Err(error.into());
        }
        self.tables.grant(&self.ledger, change);
        self.end_awaited_within(&change.claim);
        self.note_passed_on(change.grant);
        plain(Answer::Granted {
            grant: change.grant,
            claim: change.claim,
        })
    }

    /// Others get the new flows of a grant that is shared.
    pub(in crate::daemon) fn retire(&mut self, slot: SlotId, grant: GrantId) -> Answered {
        let change = self.ledger.retire(slot, grant)?;
        self.enter(&change)?;
        plain(Answer::Done)
    }

    pub(in crate::daemon) fn release(&mut self, slot: SlotId, grant: GrantId) -> Answered {
        self.note_passed_on(grant);
        if let Some(change) = self.ledger.release(slot, grant, now())? {
            self.apply(&change);
        }
        plain(Answer::Done)
    }

    /// Connections in TIME-WAIT of a grant of the asker's, for which slot 0 answers once the grant is gone.
    pub(in crate::daemon) fn keep_time_wait(
        &mut self,
        slot: SlotId,
        grant: GrantId,
        entries: &[u8],
    ) -> Answered {
        let held = self.ledger.grant(grant).filter(|g| g.is_received_by(slot));
        let claim =
            held.ok_or_else(|| refuse(Refusal::NotFound, "there is no such grant of yours"))?;
        let (claim, index) = (claim.claim, claim.claim.interface);
        const HOSTS: &str = "the host's own stack answers for its addresses";
        if self.is_shared(&claim) {
            return Err(refuse(Refusal::Unsupported, HOSTS));
        }
        let now = now();
        let (standing, uid) = self.user(&self.attachments[&slot].record.who);
        let room = self.time_waits.room(now, uid, standing);
        let interface = self.interfaces.iter_mut().find(|i| i.link.index == index);
        let Some(responder) = interface.and_then(|i| i.neighbours.responder()) else {
            return Err(refuse(Refusal::Unsupported, HOSTS));
        };
        let kept = responder.keep_time_wait(now, entries, &claim, room);
        self.time_waits.add(now, uid, standing, kept);
        plain(Answer::Done)
    }

    /// Presents a ticket, for what policy allows: what is asked back does not go to another slot instead.
    pub(in crate::daemon) fn import(&mut self, slot: SlotId, ticket: &Secret) -> Answered {
        let now = now();
        if let Some(grant) = self.ledger.grant_of_ticket(ticket, now) {
            self.check_right(slot, &grant.claim, &grant.origin)?;
            if grant.is_divided {
                self.check_divisible(slot)?;
            }
        }
        let change = self.ledger.present(slot, ticket, now)?;
        self.unsaved.insert(change.claim.interface);
        self.granted(slot, &change)
    }

    /// Writes a ticket for another holder.
    pub(in crate::daemon) fn share(&mut self, slot: SlotId, grant: GrantId) -> Answered {
        let secret = Secret(random());
        self.ledger.write_ticket(slot, grant, secret, now())?;
        self.unsaved.insert(self.attachments[&slot].interface);
        plain(Answer::Ticket(secret))
    }

    /// Takes back what was offered of a grant.
    pub(in crate::daemon) fn withdraw(&mut self, slot: SlotId, grant: GrantId) -> Answered {
        self.ledger.withdraw(slot, grant, now())?;
        self.unsaved.insert(self.attachments[&slot].interface);
        plain(Answer::Done)
    }
}

/// The addresses that are meant: the one that is named, or those of the right family when it is left to us. Never none.
fn local_addresses(interface: &Interface, wish: &Wish) -> Result<Vec<IpAddr>, Refused> {
    let all = || interface.addresses.iter().map(|a| a.ip);
    let far = wish.remote.map(|remote| remote.ip);
    let suits = |ip: &IpAddr| match wish.local {
        Some(local) => *ip == local,
        None => wish.protocol.suits(*ip) && far.is_none_or(|far| far.is_ipv4() == ip.is_ipv4()),
    };
    let meant: Vec<IpAddr> = all().filter(suits).collect();
    if meant.is_empty() {
        let names: Vec<String> = all().map(|ip| ip.to_string()).collect();
        let asked = wish
            .local
            .map_or("none of that family".to_owned(), |ip| format!("not {ip}"));
        let (name, all) = (&interface.link.name, names.join(", "));
        let text = format!("{name} has the addresses {all}, {asked}");
        return Err(refuse(Refusal::NotFound, text));
    }
    Ok(meant)
}
