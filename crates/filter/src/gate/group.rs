//! Groups: slots among which the flows of one port are divided, as the maps hold them.
//!
//! A grant that several slots hold together leads to a group ([`group_of`]), not to a slot. A flow has a bucket by a keyed
//! hash of its other end, and each bucket is one member's. Which buckets are whose changes when members come and go; so of a
//! TCP connection it is remembered which member its SYN went to ([`MemberFlow`]), and later segments go there as long as that
//! slot has stayed a member since. The programs' part of it is `member`.
//!
//! ```text
//! Group 1296      seed 8 | grant 4 | zero 4 | members 64 × Member 16 | buckets 256
//! Member 16       slot 4 | zero 4 | since 8
//! MemberFlow 16   place 4 | ended 4 | since 8
//! ```

mod member;

use super::limits::{GROUPS_MAX, SLOTS};
use super::record::{Field, record};

/// In the place of a slot's number: what follows is a group's.
pub const GROUP: u32 = 1 << 31;

/// Members of one group: four times as many programs as a user may have unless policy says otherwise.
pub const MEMBERS_MAX: usize = 64;

/// Into how many parts flows are divided: of up to 25 members each has what is due to it to a tenth.
pub const BUCKETS: usize = 256;

/// The slot that is always empty: what goes there is dropped.
pub const NO_MEMBER: u32 = SLOTS - 1;

const _: () = assert!(MEMBERS_MAX.is_power_of_two() && BUCKETS == 256);
const _: () = assert!(GROUPS_MAX.is_power_of_two() && SLOTS <= GROUP);

/// The group that a grant leads to, by what stands there for a slot; `None` when it is a slot.
pub const fn group_of(slot: u32) -> Option<u32> {
    if slot & GROUP == 0 {
        return None;
    }
    Some(slot & (GROUPS_MAX - 1))
}

/// A slot in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The slot; [`NO_MEMBER`] where nobody is.
    pub slot: u32,
    /// A number that no member of any place has had before; 0 where nobody is.
    pub since: u64,
}

record!(Member, 16 { slot + 4, since });

impl Member {
    /// Nobody.
    pub const NOBODY: Self = Self {
        slot: NO_MEMBER,
        since: 0,
    };

    /// Whether somebody is there.
    pub const fn is_there(&self) -> bool {
        self.since != 0
    }
}

/// What the flows of one port are divided by: the value in `groups`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Makes the hash unforeseeable.
    pub seed: u64,
    /// The daemon's number of the grant; 0 where there is no group.
    pub grant: u32,
    /// Who is in it. A member keeps its place as long as it is one.
    pub members: [Member; MEMBERS_MAX],
    /// Whose each bucket is: a place among the members.
    pub buckets: [u8; BUCKETS],
}

record!(Group, 1296 { seed, grant + 4, members, buckets });

impl Default for Group {
    fn default() -> Self {
        Self {
            seed: 0,
            grant: 0,
            members: [Member::NOBODY; MEMBERS_MAX],
            buckets: [0; BUCKETS],
        }
    }
}

impl Field for [Member; MEMBERS_MAX] {
    fn put(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|member| member.put(bytes));
    }

    fn take(bytes: &mut &[u8]) -> Self {
        std::array::from_fn(|_| Member::take(bytes))
    }
}

/// Which member a TCP connection is with: the value in `member_flows`, by the connection's [`super::FlowKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemberFlow {
    /// The member's place.
    pub place: u32,
    /// 1: the member has sent its FIN or RST, so that the next SYN is another connection's.
    pub ended: u32,
    /// The member's number; with another one in its place the connection is nobody's.
    pub since: u64,
}

record!(MemberFlow, 16 { place, ended, since });

/// Offsets in [`Group`], for the programs.
const SEED: i16 = 0;
const MEMBERS: i16 = 16;
const BUCKET: i16 = MEMBERS + (MEMBERS_MAX * Member::LEN) as i16;
/// Offset in [`Member`].
const SINCE: i16 = 8;
/// Bytes of a [`Member`], as a power of two.
const MEMBER_SHIFT: i32 = 4;
/// Offsets in [`MemberFlow`].
const FLOW_ENDED: i16 = 4;
const FLOW_SINCE: i16 = 8;

/// Multiplies what is hashed: 2^64 divided by the golden ratio, odd.
pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

const _: () = assert!(Member::LEN == 1 << MEMBER_SHIFT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_back_and_lie_where_the_programs_look() {
        let mut group = Group {
            seed: 0x0102_0304_0506_0708,
            grant: 9,
            ..Group::default()
        };
        group.members[63] = Member { slot: 5, since: 77 };
        (group.buckets[0], group.buckets[255]) = (63, 7);
        let bytes = group.to_bytes();
        assert_eq!(Group::from_bytes(&bytes).as_ref(), Some(&group));
        let at = |offset: i16| &bytes[offset as usize..];
        assert_eq!(at(SEED)[..8], group.seed.to_ne_bytes());
        let last = MEMBERS + (63 << MEMBER_SHIFT);
        assert_eq!(at(last)[..4], 5_u32.to_ne_bytes());
        assert_eq!(at(last + SINCE)[..8], 77_u64.to_ne_bytes());
        assert_eq!((at(BUCKET)[0], at(BUCKET)[255]), (63, 7));
        let flow = MemberFlow {
            place: 63,
            ended: 1,
            since: 77,
        };
        let bytes = flow.to_bytes();
        assert_eq!(MemberFlow::from_bytes(&bytes), Some(flow));
        assert_eq!(bytes[FLOW_ENDED as usize], 1_u32.to_ne_bytes()[0]);
        assert_eq!(bytes[FLOW_SINCE as usize..], 77_u64.to_ne_bytes());
    }

    #[test]
    fn a_group_is_told_from_a_slot() {
        assert_eq!(group_of(SLOTS - 1), None);
        assert_eq!(group_of(GROUP | 3), Some(3));
    }
}
