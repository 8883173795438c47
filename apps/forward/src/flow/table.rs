//! All flows: an array, an index by hash, and lists by age.

use std::time::Duration;

use exos_host::memory;
use exos_inet::siphash::SipKey;
use strum::VariantArray as _;

use super::entry::{Begun, Flow, FlowId, Key, Marks, Tick};
use super::index::Index;
use super::numbers::End;
use super::state::{Class, State};
use crate::limits::FLOWS_MAX;
use crate::packets::endpoint::Endpoint;
use crate::packets::reach::Reach;

/// No flow.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
    len: u32,
}

/// All flows.
pub struct FlowTable {
    pub(super) flows: Vec<Flow>,
    pub(super) capacity: u32,
    free: u32,
    pub(super) index: Index,
    /// By client and server: flows whose servers see their clients. Made with the first.
    pub(super) back: Option<Index>,
    lists: [List; Class::VARIANTS.len()],
    key: SipKey,
    /// Places of which the flows have begun, changed how they stand, or ended; kept where somebody looks at them.
    changed: Option<Vec<u32>>,
}

impl FlowTable {
    /// A table for this many flows. `seed` must be secret, or clients choose keys that collide. Memory is taken as flows come.
    ///
    /// # Panics
    ///
    /// If the capacity is zero or above [`FLOWS_MAX`].
    pub fn new(capacity: u32, seed: u64) -> Self {
        assert!((1..=FLOWS_MAX).contains(&capacity), "{capacity} flows");
        let mut flows = Vec::with_capacity(capacity as usize);
        memory::prefer_large_pages(flows.spare_capacity_mut());
        let empty = List {
            oldest: NONE,
            newest: NONE,
            len: 0,
        };
        Self {
            flows,
            capacity,
            free: NONE,
            index: Index::new(capacity),
            back: None,
            lists: [empty; Class::VARIANTS.len()],
            key: SipKey::from_seed(seed),
            changed: None,
        }
    }

    /// Remembers from now on which flows change, for [`poll_changed`](Self::poll_changed).
    pub fn watch(&mut self) {
        self.changed.get_or_insert_default();
    }

    /// A place of which the flow has begun, changed how it stands, or ended.
    pub fn poll_changed(&mut self) -> Option<FlowId> {
        self.changed.as_mut()?.pop().map(FlowId)
    }

    #[inline]
    fn note_change(&mut self, place: u32) {
        if let Some(changed) = &mut self.changed {
            changed.push(place);
        }
    }

    /// The flow of a client.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<FlowId> {
        self.find_hashed(key, self.hash(key))
    }

    /// The flow of a client, whose key's hash is at hand.
    #[inline]
    pub fn find_hashed(&self, key: &Key, hash: u32) -> Option<FlowId> {
        let is_it = |place: u32| self.flows[place as usize].key == *key;
        self.index.find(hash, is_it).map(FlowId)
    }

    /// The hash of a client's key, for [`likely`](Self::likely) and [`find_hashed`](Self::find_hashed).
    #[inline]
    pub fn hash_of(&self, key: &Key) -> u32 {
        self.hash(key)
    }

    /// Has fetched what [`likely`](Self::likely) will read.
    #[inline]
    pub fn prefetch_likely(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Where a flow with this hash is: that of the key, or one of few others. Reads no flow.
    #[inline]
    pub fn likely(&self, hash: u32) -> Option<FlowId> {
        self.index.find(hash, |_| true).map(FlowId)
    }

    /// A flow.
    ///
    /// # Panics
    ///
    /// If it was removed and its place never used again; ids are not to be kept beyond that.
    #[inline]
    pub fn get(&self, id: FlowId) -> &Flow {
        &self.flows[id.0 as usize]
    }

    /// Flows of a class.
    pub fn count(&self, class: Class) -> u32 {
        self.lists[class as usize].len
    }

    /// All flows.
    pub fn len(&self) -> u32 {
        self.lists.iter().map(|list| list.len).sum()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many there may be.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Where the next flow will be; `None` when the table is full.
    pub fn next_place(&self) -> Option<FlowId> {
        match self.free {
            NONE if self.flows.len() < self.capacity as usize => {
                Some(FlowId(self.flows.len() as u32))
            }
            NONE => None,
            free => Some(FlowId(free)),
        }
    }

    /// Takes a new flow in, at [`next_place`](Self::next_place).
    ///
    /// # Panics
    ///
    /// If the table is full.
    pub fn insert(&mut self, now: Tick, begun: Begun, state: State) -> FlowId {
        let Begun {
            key,
            server,
            our_port,
            reach,
        } = begun;
        let id = self.next_place().expect("the caller has made room");
        let flow = Flow {
            key,
            server,
            our_port,
            reach,
            state,
            server_isn: 0,
            expected: [0; 2],
            marks: Marks::default(),
            seen: now,
            is_there: true,
            older: NONE,
            newer: NONE,
        };
        match self.flows.get_mut(id.0 as usize) {
            Some(place) => {
                self.free = place.older;
                *place = flow;
            }
            None => self.flows.push(flow),
        }
        self.index.insert(self.hash(&key), id.0);
        if reach == Reach::Transparent {
            self.insert_back(id, key.client, server);
        }
        self.append(id.0, state.class());
        self.note_change(id.0);
        id
    }

    /// A packet of a flow has come, which now stands so.
    #[inline]
    pub fn see(&mut self, now: Tick, id: FlowId, state: State) {
        let flow = &mut self.flows[id.0 as usize];
        let before = flow.state;
        if flow.seen == now && before == state {
            return;
        }
        let is_listed = before == state && flow.is_listed_at(now);
        flow.seen = now;
        if is_listed {
            return;
        }
        flow.state = state;
        self.unlink(id.0, before.class());
        self.append(id.0, state.class());
        if before != state {
            self.note_change(id.0);
        }
    }

    /// Has the flow fetched that is at a place.
    #[inline]
    pub fn prefetch(&self, id: FlowId) {
        memory::prefetch(&self.flows[id.place()]);
    }

    /// Has fetched what [`see`](Self::see) will change beside the flow itself.
    #[inline]
    pub fn prefetch_neighbours(&self, now: Tick, id: FlowId) {
        let flow = &self.flows[id.place()];
        if flow.is_listed_at(now) {
            return;
        }
        for place in [flow.older, flow.newer] {
            self.flows
                .get(place as usize)
                .inspect(|flow| memory::prefetch(*flow));
        }
    }

    /// Notes the sequence number of the server's SYN.
    pub fn set_server_isn(&mut self, id: FlowId, isn: u32) {
        self.flows[id.0 as usize].set_answered(isn);
        self.note_change(id.0);
    }

    /// Notes the sequence number that an end expects next.
    #[inline]
    pub fn note_expected(&mut self, id: FlowId, by: End, number: u32) {
        let flow = &mut self.flows[id.0 as usize];
        // Most packets of a transfer change one way alone, and a line that is not written need not be brought back to memory.
        if flow.expects(by) != Some(number) {
            flow.note_expected(by, number);
        }
    }

    /// Notes a sequence number of a client that alone is heard.
    #[inline]
    pub fn note_own(&mut self, id: FlowId, number: u32) {
        self.flows[id.0 as usize].note_own(number);
    }

    /// Notes whether this end has reset the connection by the exact number.
    pub fn set_has_reset(&mut self, id: FlowId, by: End, has: bool) {
        self.flows[id.0 as usize].set_has_reset(by, has);
    }

    /// Notes that the flow has failed to begin.
    pub fn set_failed(&mut self, id: FlowId) {
        self.flows[id.0 as usize].set_failed();
    }

    /// Notes that a flow has come from another server, which has refused it or did not answer.
    pub fn set_moved(&mut self, id: FlowId, before: &Flow, is_refused: bool) {
        self.flows[id.0 as usize].set_moved(before, is_refused);
    }

    /// Forgets what is known of sequence numbers: another connection begins.
    pub fn forget_numbers(&mut self, id: FlowId) {
        self.flows[id.0 as usize].forget_numbers();
    }

    /// Flows of datagrams.
    pub fn datagrams(&self) -> u32 {
        Class::DATAGRAMS
            .iter()
            .map(|class| self.count(*class))
            .sum()
    }

    /// Forgets a flow.
    pub fn remove(&mut self, id: FlowId) -> Flow {
        let flow = self.flows[id.0 as usize];
        self.index.remove(self.hash(&flow.key), id.0);
        if flow.reach == Reach::Transparent {
            self.remove_back(id, flow.key.client, flow.server);
        }
        self.unlink(id.0, flow.state.class());
        let place = &mut self.flows[id.0 as usize];
        (place.older, place.is_there) = (self.free, false);
        self.free = id.0;
        self.note_change(id.0);
        flow
    }

    /// The flow of a class that was not seen for longest, or was seen at most a period after that one.
    pub fn oldest(&self, class: Class) -> Option<FlowId> {
        let oldest = self.lists[class as usize].oldest;
        (oldest != NONE).then_some(FlowId(oldest))
    }

    /// A flow that was silent for longer than its class may be: found within a period of that.
    pub fn expired(&self, now: Tick) -> Option<FlowId> {
        let is_over = |class: &Class| {
            let id = self.oldest(*class)?;
            let silent = now.saturating_sub(self.get(id).seen);
            (silent > ticks(class.time())).then_some(id)
        };
        Class::VARIANTS.iter().find_map(is_over)
    }

    /// When the first flow will be silent for too long.
    pub fn next_expiry(&self) -> Option<Tick> {
        let expiry = |class: &Class| {
            let seen = self.get(self.oldest(*class)?).seen;
            Some(seen.saturating_add(ticks(class.time())).saturating_add(1))
        };
        Class::VARIANTS.iter().filter_map(expiry).min()
    }

    #[inline]
    fn hash(&self, key: &Key) -> u32 {
        self.hash_of_end(key.client, key.listener)
    }

    #[inline]
    pub(super) fn hash_of_end(&self, client: Endpoint, with: u16) -> u32 {
        let Endpoint { address, port } = client;
        let rest = u32::from(port) << 16 | u32::from(with);
        self.key.hash_and_half(address.words(), rest) as u32
    }

    #[inline]
    fn append(&mut self, place: u32, class: Class) {
        let list = &mut self.lists[class as usize];
        let newest = std::mem::replace(&mut list.newest, place);
        list.len += 1;
        if newest == NONE {
            list.oldest = place;
        } else {
            self.flows[newest as usize].newer = place;
        }
        let flow = &mut self.flows[place as usize];
        (flow.older, flow.newer) = (newest, NONE);
    }

    #[inline]
    fn unlink(&mut self, place: u32, class: Class) {
        let Flow { older, newer, .. } = self.flows[place as usize];
        let list = &mut self.lists[class as usize];
        list.len -= 1;
        if older == NONE {
            list.oldest = newer;
        } else {
            self.flows[older as usize].newer = newer;
        }
        if newer == NONE {
            self.lists[class as usize].newest = older;
        } else {
            self.flows[newer as usize].older = older;
        }
    }
}

pub(super) fn ticks(time: Duration) -> Tick {
    time.as_secs() as Tick
}
