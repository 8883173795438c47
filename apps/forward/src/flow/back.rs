//! Flows by client and server, for servers that see their clients; and flows by their places.

use std::ops::Range;

use super::entry::FlowId;
use super::index::Index;
use super::table::FlowTable;
use crate::packets::endpoint::Endpoint;

impl FlowTable {
    /// The flow of a server's packet to this client, where servers see their clients.
    #[inline]
    pub fn find_back(&self, client: Endpoint, server: u16) -> Option<FlowId> {
        let is_it = |place: u32| {
            let flow = &self.flows[place as usize];
            flow.key.client == client && flow.server == server
        };
        let back = self.back.as_ref()?;
        back.find(self.hash_back(client, server), is_it).map(FlowId)
    }

    /// The hash of a client and a server, for [`likely_back`](Self::likely_back).
    #[inline]
    pub fn hash_back(&self, client: Endpoint, server: u16) -> u32 {
        self.hash_of_end(client, server)
    }

    /// Has fetched what [`likely_back`](Self::likely_back) will read.
    #[inline]
    pub fn prefetch_likely_back(&self, hash: u32) {
        self.back.iter().for_each(|back| back.prefetch(hash));
    }

    /// Where a flow with this hash of client and server is: that of these, or one of few others. Reads no flow.
    #[inline]
    pub fn likely_back(&self, hash: u32) -> Option<FlowId> {
        self.back.as_ref()?.find(hash, |_| true).map(FlowId)
    }

    pub(super) fn insert_back(&mut self, id: FlowId, client: Endpoint, server: u16) {
        let hash = self.hash_back(client, server);
        let back = self.back.get_or_insert_with(|| Index::new(self.capacity));
        back.insert(hash, id.0);
    }

    pub(super) fn remove_back(&mut self, id: FlowId, client: Endpoint, server: u16) {
        let hash = self.hash_back(client, server);
        let back = self.back.as_mut().expect("made with the first");
        back.remove(hash, id.0);
    }

    /// All flows that there are.
    pub fn ids(&self) -> impl Iterator<Item = FlowId> {
        self.ids_within(0..self.flows.len())
    }

    /// Those of them at these places, of which there may be fewer.
    pub fn ids_within(&self, places: Range<usize>) -> impl Iterator<Item = FlowId> {
        let end = places.end.min(self.flows.len());
        let begin = places.start.min(end);
        let places = (begin as u32..).zip(&self.flows[begin..end]);
        places
            .filter(|(_, flow)| flow.is_there)
            .map(|(place, _)| FlowId(place))
    }

    /// How many places there have been so far, with a flow or without.
    pub fn places(&self) -> usize {
        self.flows.len()
    }
}
