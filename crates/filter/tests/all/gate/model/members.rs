//! Which member of a group a flow is with.

use super::{FlowKey, MemberFlow, Model, Packet};
use exos_filter::gate::group::{BUCKETS, FACTOR, group_of};
use exos_wire::protocol::TCP;

/// RFC 9293 §3.1.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

impl Model {
    /// The slot that a grant leads to: itself, or of a group the member that the flow is with. `sender`: who claims to be
    /// that one; None where the packet is for it.
    pub(super) fn member(
        &mut self,
        slot: u32,
        flow: &FlowKey,
        packet: &Packet,
        sender: Option<u32>,
    ) -> u32 {
        let Some(number) = group_of(slot) else {
            return slot;
        };
        let group = self.groups.entry(number).or_default();
        let known = self.member_flows.get_mut(flow);
        let known = known.filter(|known| {
            packet.protocol == TCP && group.members[known.place as usize].since == known.since
        });
        // A SYN begins another connection than the one that its member has ended.
        let begins = packet.flags & (SYN | ACK) == SYN;
        if let Some(known) = known
            && (sender.is_some() || known.ended == 0 || !begins)
        {
            let slot = group.members[known.place as usize].slot;
            if sender == Some(slot) && packet.flags & (FIN | RST) != 0 {
                known.ended = 1;
            }
            return slot;
        }
        let place = group.buckets[bucket(group.seed, flow)];
        let member = group.members[usize::from(place)];
        if sender.is_none() && begins && member.is_there() {
            let flow_of = MemberFlow {
                place: place.into(),
                ended: 0,
                since: member.since,
            };
            self.member_flows.insert(*flow, flow_of);
        }
        member.slot
    }
}

/// The bucket of a flow, by its other end and the ports.
pub fn bucket(seed: u64, flow: &FlowKey) -> usize {
    let bytes = flow.to_bytes();
    let mut hash = seed;
    for word in bytes[16..].as_chunks::<8>().0 {
        hash = (hash ^ u64::from_ne_bytes(*word)).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    hash as usize % BUCKETS
}
