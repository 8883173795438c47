//! Slots that join the memory of another's handler: the other cores of a program that has requests answered.
//!
//! A slot that is lent memory for a number of cores was counted for asking. What the other cores ask is a part of that, once for each: it
//! takes of the user's time what it takes, so a start on many cores does not wait for the rate of downloads. Anything that joins beyond
//! that is counted like a download.

use std::sync::Arc;

use exos_host::bpf::{Map, MapKind};
use exos_xok::message::{Answering, Refusal, Secret};

use super::super::Daemon;
use super::super::answers::{Refused, refuse};
use super::super::quotas::Charge;
use crate::ledger::SlotId;
use crate::policy::Who;

/// What a slot is lent for a handler; nothing where it joins another's memory.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Lent {
    /// Bytes of memory.
    pub bytes: u64,
    /// Cores that may join it, as [`crate::state::HandlerMemory`] has them.
    pub cores_left: u64,
}

impl Lent {
    /// For requests: but for its own, each core may join.
    pub fn for_requests(answering: &Answering, bytes: u64) -> Self {
        let all = u64::MAX >> (u64::BITS - u32::from(answering.cores));
        Self {
            bytes: whole_pages(bytes),
            cores_left: all & !bit_of(answering.core),
        }
    }
}

impl Daemon {
    /// The memory of this length that the slot with the token, of the same user, was lent for its handler, and how the one that joins
    /// it is charged: counted or with time reserved, so that the work has to be begun.
    pub(super) fn join(
        &mut self,
        (slot, who): (SlotId, &Who),
        token: Secret,
        (core, bytes): (u16, u64),
    ) -> Result<(Arc<Map>, Charge), Refused> {
        let user = self.user(who);
        let joined_from = self.attachments[&slot].interface;
        let mut attachments = self.attachments.iter_mut();
        let lender = attachments.find(|(_, attachment)| {
            let record = &attachment.record;
            record.token == token.0 && record.who.uid == who.uid
        });
        let lent = lender.and_then(|(lender, attachment)| {
            let mut lent = attachment.record.handlers.iter_mut().rev();
            let lent = lent.find(|memory| memory.bytes == whole_pages(bytes))?;
            Some((*lender, attachment.interface, lent))
        });
        if lent.as_ref().is_some_and(|(lender, ..)| *lender == slot) {
            let text = "a slot cannot join its own memory: ask without a token to be lent memory, or with the token of another slot to join that one's";
            return Err(refuse(Refusal::BadRequest, text));
        }
        let map = lent
            .as_ref()
            .map(|(.., memory)| Map::open_by_id(memory.map));
        let is_it = |map: &Map| map.is_like(MapKind::Array, 4, bytes as usize, 1);
        let map = map.transpose()?.flatten().filter(is_it);
        let (Some(map), Some((_, lent_on, memory))) = (map, lent) else {
            let text = "no slot of this user has that token and memory for as many requests and cores: have that one's requests answered first";
            return Err(refuse(Refusal::NotFound, text));
        };
        let is_part = memory.cores_left & bit_of(core) != 0;
        let charge = match is_part {
            true => {
                self.rates.reserve_part(user)?;
                memory.cores_left &= !bit_of(core);
                // The joiner's is saved as its handler is put in its place.
                if lent_on != joined_from {
                    self.save(lent_on);
                }
                Charge::Reserved
            }
            false => {
                self.rates.count_filter(user)?;
                Charge::Beyond
            }
        };
        Ok((Arc::new(map), charge))
    }
}

/// Of a core, of [`crate::limits::MEMBERS_MAX`] at most.
fn bit_of(core: u16) -> u64 {
    1 << core
}

const _: () = assert!(crate::limits::MEMBERS_MAX <= u64::BITS as usize);

/// What memory of this length takes.
pub(super) fn whole_pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_wire::tcp::cookie::{Recipe, SynAck};

    #[test]
    fn each_core_but_its_own_may_join() {
        let left = |cores, core| {
            let says = SynAck {
                mss: 1460,
                window: 65_535,
                scale: 7,
                hop_limit: 64,
                class: 0,
            };
            let answering = Answering {
                recipe: Recipe {
                    port: 80,
                    key: [1, 2],
                    cookie_salt: 3,
                    sequence_salt: 4,
                    epoch_us: 64_000_000,
                    v4: says,
                    v6: says,
                },
                key: 1,
                requests: 4,
                response_max: 1360,
                peer_connections: None,
                reports: false,
                http: true,
                cores,
                core,
                memory_of: None,
            };
            Lent::for_requests(&answering, 1).cores_left
        };
        assert_eq!(left(1, 0), 0);
        assert_eq!(left(2, 0), 0b10);
        assert_eq!(left(3, 1), 0b101);
        assert_eq!(left(64, 63), u64::MAX >> 1);
    }
}
