//! Handlers that programs download.
//!
//! What a program sends is text ([`exos_ash`]), and how much memory it takes: once the ledger, the policy and the memory have had their
//! say, the text is read and checked beside the loop, and a program for the kernel made of it. The slot may have gone meanwhile. For a
//! handler that answers requests a program sends numbers, which are looked at here.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use exos_ash::kernel::TOO_MANY_WAYS;
use exos_filter::gate::Handled;
use exos_filter::gate::limits::HANDLERS_MAX;
use exos_filter::handler::WebHandler;
use exos_filter::handler::web::layout::Entries;
use exos_host::bpf::{map_exists, prog_exists};
use exos_host::warn;
use exos_xok::Protocol;
use exos_xok::message::{Answer, Answering, Refusal};

use super::super::answers::{Answered, Refused, RequestId, plain, refuse};
use super::super::quotas::Charge;
use super::super::{Daemon, End};
use super::joining::{Lent, whole_pages};
use crate::gate::handlers::{HandlerConfig, Handles, MadeHandler, rings};
use crate::interface::Interface;
use crate::ledger::SlotId;
use crate::limits::MEMBERS_MAX;
use crate::policy::Who;
use crate::state::HandlerMemory;

/// RFC 7323 §2.3.
const SCALE_MAX: u8 = 14;

impl Daemon {
    /// A program wants a handler for the datagrams of a port. It is answered when that is in force, or refused.
    pub(in crate::daemon) fn download(
        &mut self,
        request_id: RequestId,
        who: &Who,
        (port, memory, text): (u16, u32, String),
    ) -> Result<(), Refused> {
        let slot = self.slot(request_id.connection)?;
        self.addresses_of_port(slot, Protocol::Udp, port)?;
        let gate = &self.interface_of(slot).gate;
        if !gate.has_place(slot, Protocol::Udp.number(), port)? {
            let text = format!(
                "this program has handlers of {HANDLERS_MAX} ports in the kernel: remove one before downloading another"
            );
            return Err(refuse(Refusal::Limit, text));
        }
        // Before anything is read of a user who may have none.
        self.count_handler(slot, who)?;
        let lent = Lent {
            bytes: whole_pages(memory.into()),
            cores_left: 0,
        };
        self.make_handler(request_id, (slot, lent), move || read(port, memory, &text))
    }

    /// A program wants requests to a TCP port answered. It is answered when they are, or refused.
    pub(in crate::daemon) fn answer_requests(
        &mut self,
        request_id: RequestId,
        who: &Who,
        answering: Answering,
    ) -> Result<(), Refused> {
        let slot = self.slot(request_id.connection)?;
        let addresses = self.addresses_of_port(slot, Protocol::Tcp, answering.recipe.port)?;
        let mtu = self.interface_of(slot).link.mtu as usize;
        let entries = sizes(&answering, mtu).map_err(|what| refuse(Refusal::BadRequest, what))?;
        let bytes = rings(&answering, entries).memory_len();
        let (core, token) = (answering.core, answering.memory_of);
        let lent = Lent::for_requests(&answering, bytes);
        let handles = move |memory| Handles::Requests {
            answering,
            entries,
            addresses,
            memory,
        };
        let Some(token) = token else {
            self.count_handler(slot, who)?;
            return self.make_handler(request_id, (slot, lent), move || Ok(handles(None)));
        };
        self.steps_per_sec(who, self.interface_of(slot))?;
        let (memory, charge) = self.join((slot, who), token, (core, bytes))?;
        let joins = (slot, Lent::default());
        self.begin_handler(request_id, joins, charge, move || Ok(handles(Some(memory))));
        Ok(())
    }

    /// Of a user who may have handlers, and has not asked for too many lately.
    fn count_handler(&mut self, slot: SlotId, who: &Who) -> Result<(), Refused> {
        self.steps_per_sec(who, self.interface_of(slot))?;
        let owner = self.user(who);
        self.rates.count_filter(owner)
    }

    /// A slot has the handler of a UDP port no more, or none at all.
    pub(in crate::daemon) fn remove_handler(
        &mut self,
        slot: SlotId,
        port: Option<u16>,
    ) -> Answered {
        let its = port.map(|port| (Protocol::Udp.number(), port));
        let goes =
            |handled: &Handled| its.is_none_or(|its| its == (handled.protocol, handled.port));
        self.interface_of(slot).gate.end_handlers(slot, goes)?;
        plain(Answer::Done)
    }

    /// Where the slot gets what comes to a port: at one address at least. What comes for others never leads to its handler.
    fn addresses_of_port(
        &self,
        slot: SlotId,
        protocol: Protocol,
        port: u16,
    ) -> Result<Vec<IpAddr>, Refused> {
        let held = self.ledger.held_by(slot);
        let its = held.filter(|(_, grant)| {
            let claim = &grant.claim;
            claim.has_port(protocol, claim.local, port) && grant.is_received_by(slot)
        });
        let mut addresses: Vec<IpAddr> = its.map(|(_, grant)| grant.claim.local).collect();
        addresses.sort_unstable();
        addresses.dedup();
        if port == 0 || addresses.is_empty() {
            let name = protocol.name().to_uppercase();
            let text = format!(
                "this program does not have {name} port {port}: claim it before downloading a handler for it"
            );
            return Err(refuse(Refusal::NotFound, text));
        }
        Ok(addresses)
    }

    /// Has a handler made of this much memory, if the program may have that.
    fn make_handler(
        &mut self,
        request_id: RequestId,
        (slot, lent): (SlotId, Lent),
        handles: impl FnOnce() -> Result<Handles, Refused> + Send + 'static,
    ) -> Result<(), Refused> {
        self.sweep_handler_memory();
        let attachment = &self.attachments[&slot];
        self.check_more_memory(&attachment.record.who, attachment.interface, lent.bytes)?;
        self.begin_handler(request_id, (slot, lent), Charge::Beyond, handles);
        Ok(())
    }

    /// Has a handler made for which everything was counted.
    fn begin_handler(
        &mut self,
        request_id: RequestId,
        (slot, lent): (SlotId, Lent),
        charge: Charge,
        handles: impl FnOnce() -> Result<Handles, Refused> + Send + 'static,
    ) {
        let attachment = self.attachment_mut(slot);
        attachment.record.memory += lent.bytes;
        let attachment = &self.attachments[&slot];
        let interface = self.served(attachment.interface);
        let work = interface.gate.handler_work(config(interface));
        let user = self.user(&attachment.record.who);
        let job = move || -> End {
            let make = |handles| work.make(&handles).map_err(not_made);
            let made = handles().and_then(make);
            Box::new(move |daemon| daemon.end_download(request_id, (slot, lent), made))
        };
        self.work_charged_as(user, charge, Box::new(job));
    }

    /// The handler is made, and put in its place if its slot is there still.
    fn end_download(
        &mut self,
        request_id: RequestId,
        (slot, lent): (SlotId, Lent),
        made: Result<MadeHandler, Refused>,
    ) {
        if self.slot_of(request_id.connection) != Some(slot) {
            let refused = refuse(Refusal::NotFound, "the slot has gone");
            return self.reply(request_id, Err(refused));
        }
        let answered = made.and_then(|made| self.put_handler(slot, lent, &made));
        if answered.is_err() {
            self.attachment_mut(slot).record.memory -= lent.bytes;
        }
        self.reply(request_id, answered);
    }

    /// A successor has to know of its memory before anything leads to it.
    fn put_handler(&mut self, slot: SlotId, lent: Lent, made: &MadeHandler) -> Answered {
        self.sweep_handler_memory();
        let interface = self.interface_of(slot);
        let steps = self.steps_per_sec(&self.attachments[&slot].record.who, interface)?;
        let code_bytes = whole_pages(made.code_bytes);
        let attachment = &self.attachments[&slot];
        let index = attachment.interface;
        self.check_more_memory(&attachment.record.who, index, code_bytes)?;
        let record = &mut self.attachment_mut(slot).record;
        record.memory += code_bytes;
        record.handlers.push(HandlerMemory {
            map: made.map,
            bytes: lent.bytes,
            code: made.code,
            code_bytes,
            cores_left: lent.cores_left,
        });
        self.save(index);
        match self.interface_of(slot).gate.put_handler(slot, made, steps) {
            Ok(memory) => Ok((Answer::Downloaded, vec![Rc::new(memory)])),
            Err(error) => {
                let record = &mut self.attachment_mut(slot).record;
                record.handlers.pop();
                record.memory -= code_bytes;
                self.save(index);
                Err(error.into())
            }
        }
    }

    /// Memory of handlers that were replaced or removed counts until nobody has it, their code until it has gone.
    pub(in crate::daemon) fn sweep_handler_memory(&mut self) {
        for attachment in self.attachments.values_mut() {
            let record = &mut attachment.record;
            // What the kernel does not say is taken for there.
            record.handlers.retain_mut(|memory| {
                if memory.code_bytes > 0 && !prog_exists(memory.code).unwrap_or(true) {
                    record.memory -= std::mem::take(&mut memory.code_bytes);
                }
                let is_held = map_exists(memory.map).unwrap_or(true);
                if !is_held {
                    record.memory -= memory.bytes + memory.code_bytes;
                }
                // Memory that a slot has joined is counted as another's: here its code alone is.
                is_held && memory.bytes + memory.code_bytes > 0
            });
        }
    }

    /// Has a slot's handlers take as many steps as policy says now, or end.
    pub(in crate::daemon) fn enforce_steps(&mut self, slot: SlotId) {
        let interface = self.interface_of(slot);
        let gate = &interface.gate;
        if !gate.slot(slot).is_ok_and(|slot| slot.has_handlers) {
            return;
        }
        let who = &self.attachments[&slot].record.who;
        let done = match self.steps_per_sec(who, interface) {
            Ok(steps) => gate.set_handler_steps(slot, steps),
            Err(_) => gate.end_handlers(slot, |_| true),
        };
        if let Err(error) = done {
            warn!("slot {slot}: {error}");
        }
    }

    /// Steps that the handlers of each of somebody's programs may take in a second, together.
    fn steps_per_sec(&self, who: &Who, interface: &Interface) -> Result<u64, Refused> {
        let steps = self.config.policy.handler_steps(who, &interface.link.name);
        steps.map_err(|e| refuse(Refusal::NotAllowed, e))
    }
}

/// What a text says, of which the program has said how much memory it takes.
fn read(port: u16, memory: u32, text: &str) -> Result<Handles, Refused> {
    let handler = exos_ash::parse(text).map_err(|e| refuse(Refusal::BadRequest, e))?;
    let handles = Handles::Datagrams { port, handler };
    let takes = handles.memory_len();
    if takes != u64::from(memory) {
        let text = format!(
            "the handler's memory takes {takes} bytes, and the program asks for {memory}; use a program and a daemon of one version"
        );
        return Err(refuse(Refusal::BadRequest, text));
    }
    Ok(handles)
}

fn not_made(error: exos_host::Error) -> Refused {
    match error.is(libc::E2BIG) {
        true => refuse(Refusal::BadRequest, TOO_MANY_WAYS),
        false => error.into(),
    }
}

fn config(interface: &Interface) -> HandlerConfig {
    HandlerConfig {
        interface: interface.link.name.clone(),
        mac: interface.mac,
        addresses: interface.addresses.iter().map(|a| a.ip).collect(),
        broadcasts: broadcasts(interface),
        may_be_partial: exos_link::leads_to_a_local_kernel(&interface.link),
    }
}

/// Entries and slots, where all that a program says makes sense on an interface of this MTU.
fn sizes(answering: &Answering, mtu: usize) -> Result<Entries, String> {
    let entries = Entries {
        count: answering.requests.into(),
        response_max: answering.response_max.into(),
    };
    if !entries.is_valid() {
        return Err("requests are a power of two, and responses fit a segment".to_owned());
    }
    let cores = answering.cores;
    if !(1..=MEMBERS_MAX as u16).contains(&cores) || answering.core >= cores {
        return Err(format!(
            "a program has 1 to {MEMBERS_MAX} cores, counted from 0"
        ));
    }
    let mtu_min = entries.response_max + WebHandler::HEADERS_LEN;
    if mtu < mtu_min {
        return Err(format!(
            "an MTU of {mtu} is less than the {mtu_min} that responses of the kernel take: have the interface's MTU be larger"
        ));
    }
    let recipe = &answering.recipe;
    let is_scale = [recipe.v4, recipe.v6]
        .iter()
        .all(|says| says.scale <= SCALE_MAX);
    if !is_scale || !(1..=i32::MAX as u32).contains(&recipe.epoch_us) {
        return Err(format!(
            "windows are scaled by {SCALE_MAX} at most, and cookies have an epoch"
        ));
    }
    Ok(entries)
}

/// RFC 922: all ones behind the network's prefix.
fn broadcasts(interface: &Interface) -> Vec<Ipv4Addr> {
    let of = interface.addresses.iter();
    let of = of.filter_map(|address| match address.ip {
        IpAddr::V4(ip) if address.prefix < 31 => Some(ip | host_bits(address.prefix)),
        _ => None,
    });
    let mut all: Vec<Ipv4Addr> = of.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn host_bits(prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::MAX.checked_shr(prefix.into()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_filter::handler::web::layout::RESPONSE_MAX;

    #[test]
    fn the_documents_say_how_many_steps_a_segment_takes() {
        let steps = WebHandler::steps(Entries {
            count: 4,
            response_max: RESPONSE_MAX,
        });
        let internals = include_str!("../../../../../docs/internals/handlers.md");
        let said = format!("{steps} with responses");
        assert!(internals.contains(&said), "handlers.md: {said}");
    }
}
