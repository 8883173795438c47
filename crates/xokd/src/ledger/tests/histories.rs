//! Any history of the books: no packet changes hands unless its owner says so.

use std::collections::BTreeMap;

use super::*;
use crate::ledger::index::{Key, key};
use crate::limits::NOBODY;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

/// One step of a history.
#[derive(Clone, Debug)]
enum Step {
    Claim(SlotId, Claim),
    Divided(SlotId, Claim),
    Filter(SlotId, &'static str),
    Narrow(SlotId, GrantId, u16, u16),
    Release(SlotId, GrantId),
    Ticket(SlotId, GrantId, u8),
    Withdraw(SlotId, GrantId),
    Present(SlotId, u8),
    Remove(SlotId),
    Await(SlotId, GrantId),
    EndAwaited,
}

fn claims() -> impl Strategy<Value = Claim> {
    let protocol = prop::sample::select(vec![Protocol::Any, Protocol::Tcp, Protocol::Udp]);
    (protocol, 7..9_u8, 0..3_u16, 0..3_u16)
        .prop_map(|(protocol, last, port, remote)| Claim {
            protocol,
            local: ip(last),
            remote: (remote != 0).then(|| far(remote)),
            ..tcp(port)
        })
        .prop_filter("a shape", |claim| claim.check().is_ok())
}

/// Filters that meet each other and the claims of [`claims`] in all manners.
const FILTERS: [&str; 9] = [
    "tcp",
    "udp and dst host 192.0.2.7",
    "dst host 192.0.2.8",
    "tcp dst port 1",
    "not tcp dst port 1",
    "src port 2",
    "icmp",
    "src host 192.0.2.99 and not icmp",
    "tcp and not src port 1 and not dst port 2",
];

fn step() -> impl Strategy<Value = Step> {
    let slot = 1..4_u32;
    prop_oneof![
        3 => (slot.clone(), prop::sample::select(FILTERS.to_vec()))
            .prop_map(|(slot, text)| Step::Filter(slot, text)),
        6 => (slot.clone(), claims()).prop_map(|(slot, claim)| Step::Claim(slot, claim)),
        4 => (slot.clone(), claims()).prop_map(|(slot, claim)| Step::Divided(slot, claim)),
        3 => (slot.clone(), 1..9_u32, 1..3_u16, 0..3_u16)
            .prop_map(|(slot, grant, remote, port)| Step::Narrow(slot, grant, remote, port)),
        2 => (slot.clone(), 1..9_u32).prop_map(|(slot, grant)| Step::Release(slot, grant)),
        2 => (slot.clone(), 1..9_u32, 0..3_u8)
            .prop_map(|(slot, grant, secret)| Step::Ticket(slot, grant, secret)),
        1 => (slot.clone(), 1..9_u32).prop_map(|(slot, grant)| Step::Withdraw(slot, grant)),
        2 => (slot.clone(), 0..3_u8).prop_map(|(slot, secret)| Step::Present(slot, secret)),
        2 => slot.clone().prop_map(Step::Remove),
        3 => (slot, 1..9_u32).prop_map(|(slot, grant)| Step::Await(slot, grant)),
        1 => Just(Step::EndAwaited),
    ]
}

/// Every packet of the little world, as the claim that only it matches.
fn packets() -> Vec<Claim> {
    let mut all = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Icmp] {
        for last in 7..9 {
            for port in 1..4 {
                for remote in 1..4 {
                    let packet = Claim {
                        protocol,
                        local: ip(last),
                        ..connection(port, remote)
                    };
                    all.push(packet);
                }
            }
        }
    }
    all
}

/// The slots that may get a packet by an exact grant: several where they share it.
fn sharers(ledger: &Ledger, packet: &Claim) -> Vec<SlotId> {
    let matching = matching(ledger, packet);
    matching.map_or_else(Vec::new, |(_, grant)| match grant.is_divided {
        true => grant.holders.clone(),
        false => vec![grant.slot()],
    })
}

/// The slot of the user for whose program packets are kept that are nobody's now.
fn kept_for(ledger: &Ledger, packet: &Claim) -> Option<SlotId> {
    let (grant, _) = matching(ledger, packet)?;
    let awaited = ledger.successors.awaited(grant)?;
    Some(awaited.owner.who.uid - 1000)
}

/// What the packet path would look like after the changes: the kernel's table.
fn tell(table: &mut BTreeMap<Key, SlotId>, changes: &[Change]) {
    for change in changes {
        match change.slot {
            Some(slot) => table.insert(key(&change.claim), slot),
            None => table.remove(&key(&change.claim)),
        };
    }
}

/// The books, and the packet path as it was told of them.
struct World {
    ledger: Ledger,
    table: BTreeMap<Key, SlotId>,
    packets: Vec<Claim>,
    /// A ticket was presented.
    is_handed_on: bool,
}

/// Of each packet before a step: whose it is, who shares it, and for whom it is kept.
struct Before {
    winner: Vec<Option<SlotId>>,
    sharers: Vec<Vec<SlotId>>,
    kept_for: Vec<Option<SlotId>>,
}

impl World {
    fn new() -> Self {
        Self {
            ledger: ledger(3),
            table: BTreeMap::new(),
            packets: packets(),
            is_handed_on: false,
        }
    }

    fn before(&self) -> Before {
        let (ledger, packets) = (&self.ledger, &self.packets);
        Before {
            winner: packets.iter().map(|p| winner(ledger, p)).collect(),
            sharers: packets.iter().map(|p| sharers(ledger, p)).collect(),
            kept_for: packets.iter().map(|p| kept_for(ledger, p)).collect(),
        }
    }

    /// Takes a step, and tells the packet path: whose packets may go elsewhere by it.
    fn take(&mut self, step: &Step) -> Result<Option<SlotId>, TestCaseError> {
        let ledger = &mut self.ledger;
        let mut from = None;
        let changes: Vec<Change> = match *step {
            Step::Claim(slot, claim) => {
                let change = ledger.claim(slot, claim).ok();
                with_ended(ledger, &claim, change)
            }
            Step::Divided(slot, claim) => {
                let change = ledger.claim_divided(slot, claim).ok();
                with_ended(ledger, &claim, change)
            }
            Step::Await(slot, grant) => {
                let _ = ledger.await_successor(slot, grant, Duration::from_secs(1));
                Vec::new()
            }
            Step::EndAwaited => {
                from = Some(NOBODY);
                ledger.end_awaited(|_, _| true, START)
            }
            Step::Filter(slot, text) => {
                let filter = Filter::parse(text).expect("a filter");
                let _ = ledger.claim_general(slot, text.to_owned(), filter);
                Vec::new()
            }
            Step::Narrow(slot, grant, remote, port) => {
                let whole = ledger.grant(grant).map(|g| g.claim);
                let part = ledger.narrow(slot, grant, far(remote), port);
                if let Ok(change) = &part {
                    prop_assert!(change.claim.is_subset_of(&whole.expect("it was there")));
                }
                part.ok().into_iter().collect()
            }
            Step::Release(slot, grant) => {
                from = Some(slot);
                let filter = ledger.release_general(slot, grant);
                let released = ledger.release(slot, grant, START);
                prop_assert!(
                    filter.is_none() || released.is_err(),
                    "a number is of one grant"
                );
                released.ok().flatten().into_iter().collect()
            }
            Step::Ticket(slot, grant, secret) => {
                let _ = ledger.write_ticket(slot, grant, Secret([secret; 16]), START);
                Vec::new()
            }
            Step::Withdraw(slot, grant) => {
                if ledger.withdraw(slot, grant, START).is_ok() {
                    prop_assert!(!ledger.is_passed_on(grant));
                }
                Vec::new()
            }
            Step::Present(slot, secret) => {
                let secret = Secret([secret; 16]);
                from = ledger.tickets.find(&secret, START).map(|t| t.from);
                let presented = ledger.present(slot, &secret, START);
                self.is_handed_on |= presented.is_ok();
                presented.ok().into_iter().collect()
            }
            Step::Remove(slot) => {
                from = Some(slot);
                let changes = ledger.remove_slot(slot, START);
                ledger.add_slot(slot, owner(slot));
                changes
            }
        };
        tell(&mut self.table, &changes);
        Ok(from)
    }

    /// No packet went to another but from whom its packets may go, or to whom it was kept for.
    fn packets_stay(&self, before: &Before, from: Option<SlotId>) -> TestCaseResult {
        let whose = before.winner.iter().zip(&before.kept_for);
        for (packet, (&before, &kept_for)) in self.packets.iter().zip(whose) {
            let after = winner(&self.ledger, packet);
            let succeeded = before == Some(NOBODY) && after == kept_for;
            let kept = before.is_none() || after == before || before == from || succeeded;
            prop_assert!(kept, "{packet} went from {before:?} to {after:?}");
        }
        Ok(())
    }

    /// A sharer of a packet's flow goes on sharing it, and with others by a ticket only; a holder that gives up a connection of its
    /// own leaves it to those that share the port around it.
    fn shares_stay(&self, before: &Before, from: Option<SlotId>, step: &Step) -> TestCaseResult {
        for (packet, before) in self.packets.iter().zip(&before.sharers) {
            let after = sharers(&self.ledger, packet);
            let stays = |slot: &SlotId| after.contains(slot) || from == Some(*slot);
            let shared = before.len() > 1;
            prop_assert!(
                !shared || before.iter().all(stays),
                "{packet} of {before:?} is of {after:?}"
            );
            let given_up = before.iter().all(|slot| from == Some(*slot));
            let came = !given_up && after.len() > before.len();
            prop_assert!(!came || matches!(step, Step::Present(..)), "{packet}");
        }
        Ok(())
    }

    /// The packet path was told all of it, and the books say of each grant the same wherever they speak of it.
    fn books_agree(&self) -> TestCaseResult {
        let ledger = &self.ledger;
        let expected = ledger.grants().map(|(_, g)| (key(&g.claim), g.slot()));
        let expected: BTreeMap<_, _> = expected.collect();
        prop_assert_eq!(&self.table, &expected);
        for (slot, _) in ledger.slots() {
            let held = ledger.held_by(slot).map(|(id, _)| id);
            let expected = ledger.grants().filter(|(_, g)| g.holders.contains(&slot));
            prop_assert!(held.eq(expected.map(|(id, _)| id)), "slot {slot}");
        }
        let holds = |grant, slot| Some(ledger.grant(grant)?.holders.contains(&slot));
        // What is not held (any more) is handed to nobody.
        for ticket in ledger.tickets() {
            prop_assert_eq!(holds(ticket.grant, ticket.from), Some(true), "{:?}", ticket);
        }
        // What is promised is held, and what is awaited is of no slot.
        for (slot, grant, _) in ledger.promised() {
            prop_assert_eq!(holds(grant, slot), Some(true), "{} of {}", grant, slot);
        }
        let awaited = ledger.awaited().map(|(id, ..)| id);
        let nobodys = ledger.grants().filter(|(_, g)| g.holders == [NOBODY]);
        prop_assert!(awaited.eq(nobodys.map(|(id, _)| id)));
        Ok(())
    }

    /// Two slots whose claims meet, without a ticket: one of the claims is a connection, which wins.
    fn claims_are_apart(&self) -> TestCaseResult {
        let ledger = &self.ledger;
        let of = |id, grant: &Grant| match ledger.successors.awaited(id) {
            Some(awaited) => awaited.owner.who.uid - 1000,
            None => grant.slot(),
        };
        for (a, one) in ledger.grants().filter(|_| !self.is_handed_on) {
            for (b, other) in ledger.grants() {
                let apart =
                    a == b || of(a, one) == of(b, other) || !one.claim.overlaps(&other.claim);
                let one_wins = one.claim.remote.is_some() != other.claim.remote.is_some();
                prop_assert!(apart || one_wins, "{} and {}", one.claim, other.claim);
            }
        }
        Ok(())
    }
}

/// What a claim has changed, and what has ended that was kept within it.
fn with_ended(ledger: &mut Ledger, claim: &Claim, change: Option<Change>) -> Vec<Change> {
    let is_claimed = change.is_some();
    let within = |inner: &Claim, _: &Awaited| is_claimed && inner.is_subset_of(claim);
    let ended = ledger.end_awaited(within, START);
    change.into_iter().chain(ended).collect()
}

proptest! {
    #[test]
    fn no_packet_changes_hands_unless_its_owner_says_so(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            let before = world.before();
            let checked = world.take(&step).and_then(|from| {
                world.packets_stay(&before, from)?;
                world.shares_stay(&before, from, &step)?;
                world.books_agree()?;
                world.claims_are_apart()
            });
            if let Err(TestCaseError::Fail(why)) = checked {
                return Err(TestCaseError::fail(format!("{step:?}: {why}")));
            }
        }
    }
}
