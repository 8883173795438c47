//! Which address of a name to connect to, and when: Happy Eyeballs, version 2 (RFC 8305), as a state machine.
//!
//! Give it addresses as they are found and the outcomes of attempts; [`Connector::poll_attempt`] says to which address to
//! begin another attempt. The first that is established wins; the caller gives the others up.
//!
//! Families alternate, IPv6 first (§4), and the address that worked the last time comes before all others. Within a family the
//! order is the answer's; addresses are not sorted by RFC 6724.
//!
//! ```
//! use exos_inet::Instant;
//! use exos_names::{Connector, Family};
//!
//! # let (v6, v4) = ("2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap());
//! let mut now = Instant::from_millis(1);
//! let mut connector = Connector::new(None);
//! connector.handle_family(now, Family::Ipv6, &[v6]);
//! connector.handle_family(now, Family::Ipv4, &[v4]);
//! assert_eq!(connector.poll_attempt(now), Some(v6)); // Begin to connect to it.
//! now = connector.poll_timeout().unwrap(); // 250 ms later, if nothing happened.
//! assert_eq!(connector.poll_attempt(now), Some(v4)); // Begin this one, too.
//! assert_eq!(connector.handle_connected(v4), [v6]); // Give the other up.
//! ```

use crate::action::Event;
use crate::family::Family;
use crate::limits::{CONNECTION_ATTEMPT_DELAY, RESOLUTION_DELAY, TRIED_ADDRESSES_MAX};
use exos_inet::Instant;
use std::collections::VecDeque;
use std::net::IpAddr;

/// The addresses of one name, and the attempts to connect to it.
#[derive(Clone, Debug)]
pub struct Connector {
    ipv6: Pending,
    ipv4: Pending,
    worked_before: Option<IpAddr>,
    tried: Vec<IpAddr>,
    under_way: Vec<IpAddr>,
    /// From when on the next attempt may begin; `None` as long as it waits for addresses.
    next: Option<Instant>,
    connected: bool,
}

/// Addresses of one family.
#[derive(Clone, Debug, Default)]
struct Pending {
    addresses: VecDeque<IpAddr>,
    complete: bool,
}

impl Connector {
    /// No address is known yet. `worked_before` is the one by which this name was reached the last time.
    pub fn new(worked_before: Option<IpAddr>) -> Self {
        Self {
            ipv6: Pending::default(),
            ipv4: Pending::default(),
            worked_before,
            tried: Vec::new(),
            under_way: Vec::new(),
            next: None,
            connected: false,
        }
    }

    /// Takes in what became of the lookup of its name, whatever the number of the lookup.
    pub fn handle_event(&mut self, now: Instant, event: &Event) {
        match event {
            Event::Family {
                family, addresses, ..
            } => self.handle_family(now, *family, addresses),
            Event::Done { .. } => self.handle_complete(now),
        }
    }

    /// All addresses of one family are known, perhaps none. The first [`TRIED_ADDRESSES_MAX`] are tried.
    pub fn handle_family(&mut self, now: Instant, family: Family, addresses: &[IpAddr]) {
        let tried = &self.tried;
        let pending = match family {
            Family::Ipv6 => &mut self.ipv6,
            Family::Ipv4 => &mut self.ipv4,
        };
        for address in addresses.iter().take(TRIED_ADDRESSES_MAX) {
            if !pending.addresses.contains(address) && !tried.contains(address) {
                pending.addresses.push_back(*address);
            }
        }
        pending.complete = true;
        self.schedule(now);
    }

    /// No more addresses will come.
    pub fn handle_complete(&mut self, now: Instant) {
        (self.ipv6.complete, self.ipv4.complete) = (true, true);
        self.schedule(now);
    }

    /// An attempt has failed: the next may begin at once.
    pub fn handle_failed(&mut self, now: Instant, address: IpAddr) {
        let count = self.under_way.len();
        self.under_way.retain(|under_way| *under_way != address);
        if self.under_way.len() < count {
            self.next = Some(now);
        }
    }

    /// An attempt is established; returns the others, which are to be given up.
    pub fn handle_connected(&mut self, address: IpAddr) -> Vec<IpAddr> {
        self.connected = true;
        self.under_way.retain(|under_way| *under_way != address);
        std::mem::take(&mut self.under_way)
    }

    /// The address to which to begin an attempt now.
    pub fn poll_attempt(&mut self, now: Instant) -> Option<IpAddr> {
        if self.connected || self.next.is_none_or(|next| next > now) {
            return None;
        }
        let address = self.take_next()?;
        self.tried.push(address);
        self.under_way.push(address);
        self.next = Some(now + CONNECTION_ATTEMPT_DELAY);
        Some(address)
    }

    /// When to poll the next attempt, if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waits = !self.connected && self.has_addresses();
        self.next.filter(|_| waits)
    }

    /// Whether all addresses were tried in vain.
    pub fn has_failed(&self) -> bool {
        let complete = self.ipv6.complete && self.ipv4.complete;
        complete && !self.connected && !self.has_addresses() && self.under_way.is_empty()
    }

    fn has_addresses(&self) -> bool {
        !(self.ipv6.addresses.is_empty() && self.ipv4.addresses.is_empty())
    }

    /// §3: attempts begin with the first IPv6 address, or with IPv4 when IPv6 is known to be lacking or is late.
    fn schedule(&mut self, now: Instant) {
        let first = if self.has_worked_before().is_some()
            || !self.ipv6.addresses.is_empty()
            || self.ipv6.complete
        {
            now
        } else {
            now + RESOLUTION_DELAY
        };
        if self.has_addresses() && self.tried.is_empty() {
            self.next = Some(self.next.map_or(first, |next| next.min(first)));
        } else if self.has_addresses() && self.under_way.is_empty() {
            // All that were known before have failed.
            self.next = Some(now);
        }
    }

    fn has_worked_before(&self) -> Option<IpAddr> {
        let pending = |address: &IpAddr| {
            self.ipv6.addresses.contains(address) || self.ipv4.addresses.contains(address)
        };
        self.worked_before.filter(pending)
    }

    fn take_next(&mut self) -> Option<IpAddr> {
        if let Some(address) = self.has_worked_before() {
            self.ipv6.addresses.retain(|other| *other != address);
            self.ipv4.addresses.retain(|other| *other != address);
            return Some(address);
        }
        let (one, other) = match self.tried.last() {
            Some(IpAddr::V6(_)) => (&mut self.ipv4, &mut self.ipv6),
            Some(IpAddr::V4(_)) | None => (&mut self.ipv6, &mut self.ipv4),
        };
        one.addresses
            .pop_front()
            .or_else(|| other.addresses.pop_front())
    }
}
