//! Connections that are secured before anything is asked on them.

use exos_inet::Instant;

use super::clients::Engine;
use super::slot::{Slot, Stage, of_token};
use crate::statistics::{ErrorKind, Handshake};
use crate::transport::Transport;

impl Engine {
    /// A connection stands that is to be secured.
    pub fn awaits_handshake(&self, token: u64) -> bool {
        if self.shared.is_some() {
            return self.shared_awaits_handshake(token);
        }
        let (slot, generation) = of_token(token);
        let slot = self.slots.get(slot as usize);
        slot.is_some_and(|it| it.generation == generation && it.stage == Stage::Securing)
    }

    /// A connection stands that is not secured yet, and what is asked now leaves with the client's hello: anybody may send it again, so
    /// only what changes nothing does (RFC 8470 §3).
    pub fn handle_early(&mut self, now: Instant, token: u64, transport: &mut impl Transport) {
        if !self.awaits_handshake(token) {
            return;
        }
        if self.shared.is_some() {
            return self.shared_early(now, token, transport);
        }
        let (slot, _) = of_token(token);
        if self.is_safe(slot) {
            self.slots[slot as usize].is_early = true;
            self.send_first(slot, now, transport);
        }
    }

    /// A slot's request changes nothing.
    pub(super) fn is_safe(&self, slot: u32) -> bool {
        let request = self.slots[slot as usize].request;
        self.driver.requests()[request as usize].is_safe()
    }

    /// A connection is secured, or will not be for this reason.
    pub fn handle_handshake(
        &mut self,
        now: Instant,
        token: u64,
        handshake: Result<&Handshake, &'static str>,
        transport: &mut impl Transport,
    ) {
        if self.shared.is_some() {
            return self.shared_handshake(now, token, handshake, transport);
        }
        let (slot, generation) = of_token(token);
        let it = self.slots.get(slot as usize);
        let is_concerned = |it: &Slot| it.generation == generation && it.is_busy();
        match handshake {
            _ if !it.is_some_and(is_concerned) => (),
            Ok(handshake) => {
                self.heard = now;
                self.slots[slot as usize].is_early = false;
                let begun = self.slots[slot as usize].begun;
                self.statistics.secured(begun, handshake);
                if self.awaits_handshake(token) {
                    self.send_first(slot, now, transport);
                }
            }
            Err(reason) => self.not_secured(slot, reason, now, transport),
        }
    }

    /// The request for which a connection was opened has failed with it.
    pub(super) fn not_secured(
        &mut self,
        slot: u32,
        reason: &'static str,
        now: Instant,
        transport: &mut impl Transport,
    ) {
        let it = &mut self.slots[slot as usize];
        it.is_early = false;
        self.statistics.not_secured(it.begun, reason);
        self.fail(slot, ErrorKind::Handshake, now, transport);
    }
}
