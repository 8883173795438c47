//! Requests answered in the kernel with what the program answered to the same bytes before
//! ([`exos_filter::handler::web`]), and what the program says and hears of that.
//!
//! The program puts requests and their responses into memory that the kernel's part reads ([`Requests::put`]), and sees to them once
//! a second at least ([`Requests::turn`]): without that no connection begins in the kernel. Connections that the kernel's part gives up
//! come to the stack before the segments that they were given up with; those on which nothing comes for some seconds come, too. So the
//! program's own times and bounds are about them.

mod table;

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use exos_filter::handler::WebHandler;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::SecondStage;
use exos_filter::handler::web::layout::{self, Entries, handed, slot};
use exos_host::bpf::{Map, MappedArray};
use exos_inet::tcp::{BegunConnection, Flow, ListenerId};
use exos_inet::{Duration, Instant, Stack};
use exos_link::Link;
use exos_wire::tcp::cookie::TIMESTAMP_BITS;

use crate::handlers::needs_interface;
use crate::node::Exos;
use crate::{Error, ErrorKind};

pub use table::Answered;

use table::{Memory, Response, Table};

/// How long connections may begin without word of the program. Shorter than what closes slots in the kernel (4 s).
const WORD: Duration = Duration::from_secs(2);
/// How long slots of connections that the stack has stay closed without word of it.
const CLOSED: Duration = Duration::from_secs(4);
/// A connection on which nothing has come for so long becomes the stack's.
const QUIET: Duration = Duration::from_secs(5);
/// A connection whose response nobody has acknowledged for so long is reset.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// An entry that nobody has asked for in this many turns of a second goes.
const UNASKED: u32 = 10;

/// Headers of IPv6 and TCP, with timestamps.
const HEADERS: usize = 72;

/// How much the kernel answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Requests: a power of two from 4 to 65,536. Each has four places that it may be in, so with half as many hardly one has none.
    pub requests: u32,
    /// Bytes of a response: a multiple of 8, [`Requests::RESPONSE_MAX`] at most.
    pub response_max: usize,
    /// Requests that nobody has asked for some 10 s go.
    pub forgets: bool,
}

impl Capacity {
    /// Documents, as a web server has them.
    pub const DOCUMENTS: Self = Self {
        requests: 256,
        response_max: Requests::RESPONSE_MAX,
        forgets: true,
    };

    fn entries(self) -> Result<Entries, Error> {
        let fits = (1..=Requests::RESPONSE_MAX).contains(&self.response_max)
            && self.response_max.is_multiple_of(8);
        if !fits || !self.requests.is_power_of_two() || !(4..=1 << 16).contains(&self.requests) {
            let error = Error::new(format!(
                "{} requests with responses of {} bytes cannot be answered in the kernel",
                self.requests, self.response_max
            ));
            let mend = format!(
                "say a power of two from 4 to 65536, and a multiple of 8 to {}",
                Requests::RESPONSE_MAX
            );
            return Err(error.mend(mend).of_kind(ErrorKind::Invalid));
        }
        Ok(Entries {
            count: self.requests.into(),
            response_max: self.response_max,
        })
    }
}

/// The program's side.
#[derive(Debug)]
pub struct Requests {
    memory: Memory,
    /// The kernel's part writes to it.
    _scratch: Map,
    listener: ListenerId,
    handler: WebHandler,
    taken: u64,
    turned: Instant,
    table: Table,
    capacity: Capacity,
}

impl Exos {
    /// Has requests to a listener answered in the kernel from now on, and SYNs with it
    /// ([`answer_syns_in_kernel`](Exos::answer_syns_in_kernel)). Say which with [`requests`](Exos::requests).
    ///
    /// # Errors
    ///
    /// The link is not one of AF_XDP with a program of ours and one core, answers would not arrive (the other end of a veth has neither GRO
    /// nor an XDP program), the interface's MTU is less than a response and 72 bytes, the capacity is not one, the listener offers other options than usual, or the kernel refuses the program.
    pub fn answer_requests_in_kernel(
        &mut self,
        listener: ListenerId,
        capacity: Capacity,
    ) -> Result<(), Error> {
        let entries = capacity.entries()?;
        if self.handoff.is_some() || self.pair.is_some() {
            return Err(needs_interface(
                "requests are answered in the kernel for one core of an interface only",
            ));
        }
        let Link::Xdp(link) = &self.link else {
            return Err(needs_interface(
                "requests can be answered in the kernel on AF_XDP only",
            ));
        };
        let (mtu, mtu_min) = (link.mtu(), capacity.response_max + HEADERS);
        if mtu < mtu_min {
            let error = format!(
                "an MTU of {mtu} is less than the {mtu_min} that responses of the kernel take"
            );
            return Err(needs_interface(&error).mend("have the interface's MTU be larger"));
        }
        let way_out = exos_link::ways_out(&[link])?[0][0];
        let memory = MappedArray::new("exos_web", entries.memory_len() as usize, 1)?;
        let scratch = Map::percpu_array("exos_web_scratch", WebHandler::SCRATCH_LEN, 1)?;
        let mut syn = self.syn_handler(listener)?;
        syn.way_out = way_out;
        let key = random()?;
        let second_stage = match way_out {
            WayOut::Redirect(interface) => Some(SecondStage {
                interface,
                mark: random()?,
            }),
            _ => None,
        };
        let handler = WebHandler {
            syn,
            entries,
            memory_fd: memory.raw_fd(),
            scratch_fd: scratch.raw_fd(),
            key,
            second_stage,
        };
        if let Err(e) = self.set_handler(&handler) {
            self.stack.stop_offloading_syns(self.now(), listener);
            return Err(e);
        }
        self.requests = Some(Requests {
            memory: Memory(memory),
            _scratch: scratch,
            listener,
            handler,
            taken: 0,
            turned: Instant::START,
            table: Table::new(entries, key),
            capacity,
        });
        Ok(())
    }

    /// What is answered in the kernel.
    pub fn requests(&mut self) -> Option<&mut Requests> {
        self.requests.as_mut()
    }

    /// Sees to what is answered in the kernel: once a second at least.
    pub fn see_to_requests(&mut self) {
        let now = self.now();
        if let Some(requests) = &mut self.requests {
            requests.turn(now, &mut self.stack);
        }
    }

    /// All requests and SYNs come to the stack again, and with them the connections that the kernel's part has. Those on which what was
    /// sent is not acknowledged are reset. A handler that was [downloaded](Exos::download) beside it goes, too.
    pub fn answer_requests_here(&mut self) {
        let now = self.now();
        let Some(mut requests) = self.requests.take() else {
            return;
        };
        requests.memory.set(layout::UNTIL, 0);
        if let Link::Xdp(link) = &mut self.link {
            link.remove_handler();
        }
        requests.take_on(now, &mut self.stack);
        requests.take_quiet(now, &mut self.stack, Duration::ZERO);
        self.stack.stop_offloading_syns(now, requests.listener);
    }
}

impl Requests {
    /// The longest request that is answered.
    pub const REQUEST_MAX: usize = layout::REQUEST_MAX;
    /// The longest response.
    pub const RESPONSE_MAX: usize = layout::RESPONSE_MAX;

    pub(crate) const fn handler(&self) -> &WebHandler {
        &self.handler
    }

    /// Whether the request is not answered, and could be.
    pub fn has_place_for(&self, now: Instant, request: &[u8]) -> bool {
        self.table.has_place_for(now, request)
    }

    /// Where others are in all places that the request may be in, one of them goes; some seconds later the request has a place.
    pub fn make_room_for(&mut self, now: Instant, request: &[u8]) {
        self.table.make_room_for(&self.memory, now, request);
    }

    /// All that are answered.
    pub fn all(&self) -> Vec<Box<[u8]>> {
        self.table.all()
    }

    /// The request is answered with this from now on. Where there is no place, or the one before changed within 10 ms, it is not answered:
    /// see [`has_place_for`](Self::has_place_for).
    ///
    /// # Panics
    ///
    /// If one of them is longer than may be, or empty.
    pub fn put(&mut self, now: Instant, request: &[u8], response: &[u8], closes: bool) {
        assert!((1..=Self::REQUEST_MAX).contains(&request.len()));
        assert!((1..=self.capacity.response_max).contains(&response.len()));
        let bytes = response;
        let response = Response { bytes, closes };
        self.table.put(&self.memory, now, request, response);
    }

    /// The request is not answered any more.
    pub fn forget(&mut self, now: Instant, request: &[u8]) {
        self.table.forget(&self.memory, now, request);
    }

    /// How often requests were answered since this was last asked.
    pub fn answered(&mut self) -> Vec<Answered> {
        self.table.answered(&self.memory)
    }

    /// Takes on what was handed up.
    pub(crate) fn take_on(&mut self, now: Instant, stack: &mut Stack) {
        while self.memory.get(layout::HANDED) != self.taken {
            let at = layout::RING + (self.taken % layout::RING_COUNT) * layout::HANDED_LEN;
            // Its number is given before it is written, on a processor that does nothing else meanwhile.
            while self.memory.get(at) != self.taken + 1 {
                std::hint::spin_loop();
            }
            let rest = [handed::NUMBERS, handed::STAMPS, handed::KEPT, handed::FIRST];
            let rest = rest.map(|field| at + field);
            let begun = self.begun(at + handed::ENDS, rest);
            stack.take_on(now, self.listener, &begun);
            self.taken += 1;
            self.memory.set(layout::TAKEN, self.taken);
        }
    }

    /// A connection from where its addresses stand, with the ports behind them; its numbers; timestamps; what the cookie kept, with
    /// the window; and the peer's first number.
    fn begun(&self, ends: u64, [numbers, stamps, kept, first]: [u64; 4]) -> BegunConnection {
        let (ports, _) = halves(self.memory.get(ends + 32));
        let address = |at| {
            let bits = u128::from(self.memory.get(at)) << 64 | u128::from(self.memory.get(at + 8));
            Ipv6Addr::from_bits(bits).to_canonical()
        };
        let local = SocketAddr::new(address(ends), (ports >> 16) as u16);
        let remote = SocketAddr::new(address(ends + 16), ports as u16);
        let (rcv_nxt, snd_nxt) = halves(self.memory.get(numbers));
        let (value, echo) = halves(self.memory.get(stamps));
        let (kept, window) = halves(self.memory.get(kept));
        let bits = kept & 0xff;
        BegunConnection {
            flow: Flow::new(local, remote),
            first: self.number(first),
            rcv_nxt,
            snd_nxt,
            window: window as u16,
            mss_index: (kept >> 8) as u8,
            stamps: (bits <= TIMESTAMP_BITS).then_some((bits, value, echo)),
        }
    }

    /// Four bytes, wherever in a word they stand.
    fn number(&self, at: u64) -> u32 {
        let (first, second) = halves(self.memory.get(at & !7));
        if at & 4 == 0 { first } else { second }
    }

    fn turn(&mut self, now: Instant, stack: &mut Stack) {
        self.take_on(now, stack);
        self.close_slots(now, stack);
        self.take_quiet(now, stack, QUIET);
        // After a pause there may be segments that the stack has not seen, of connections whose slots are open again.
        if now - self.turned < WORD {
            self.memory.set(layout::UNTIL, (now + WORD).millis());
        }
        self.turned = now;
        if self.capacity.forgets {
            self.table.forget_unasked(&self.memory, now, UNASKED);
        }
    }

    /// No connection begins in the kernel where the stack has one.
    fn close_slots(&self, now: Instant, stack: &Stack) {
        let until = (now + CLOSED).millis();
        for id in stack.tcp.connections_where(|_| true) {
            let Some(connection) = stack.tcp.connection(id) else {
                continue;
            };
            let (local, remote) = (connection.flow().local(), connection.flow().remote());
            let ends = layout::ends(local.ip(), remote.ip());
            let ports = u32::from(local.port()) << 16 | u32::from(remote.port());
            let number = layout::slot_of(self.handler.key, ends, ports);
            let at = layout::SLOTS + number * layout::SLOT_LEN;
            self.memory.set(at + slot::CLOSED, until);
        }
    }

    /// Takes on the connections on which nothing has come for so long, and resets those that were left in the middle.
    fn take_quiet(&self, now: Instant, stack: &mut Stack, quiet: Duration) {
        for number in 0..layout::SLOT_COUNT {
            let at = layout::SLOTS + number * layout::SLOT_LEN;
            if !self.is_to_be_taken(at, quiet) {
                continue;
            }
            let lock = &self.memory.0.words()[(at / 8) as usize];
            if lock.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
                continue;
            }
            if self.is_to_be_taken(at, quiet) {
                self.take_if_quiet(now, stack, at, quiet);
            }
            lock.store(0, Release);
        }
    }

    /// The slot has a connection that stands, or, at the end, one that has sent what nobody may have heard.
    fn is_to_be_taken(&self, at: u64, quiet: Duration) -> bool {
        let state = self.memory.get(at + slot::STATE);
        let is_ending = [slot::FINISHED, slot::LAST_ACK].contains(&(state as i32));
        let (una, nxt) = self.sent(at);
        state == slot::OPEN as u64 || (quiet.is_zero() && is_ending && una != nxt)
    }

    /// The first number of ours that the peer of a slot has not acknowledged, and the next.
    fn sent(&self, at: u64) -> (u32, u32) {
        let (_, nxt) = halves(self.memory.get(at + slot::RCV));
        let (una, _) = halves(self.memory.get(at + slot::UNA));
        (una, nxt)
    }

    /// The stack cannot send again what the kernel's part has sent: where that is not acknowledged, the peer is reset.
    fn take_if_quiet(&self, now: Instant, stack: &mut Stack, at: u64, quiet: Duration) {
        let (una, nxt) = self.sent(at);
        let since = now
            .millis()
            .saturating_sub(self.memory.get(at + slot::TIME));
        let bound = match (una == nxt, quiet.is_zero()) {
            (true, _) | (false, true) => quiet,
            (false, false) => FORGOTTEN,
        };
        if u128::from(since) < bound.as_millis() {
            return;
        }
        let rest = [slot::RCV, slot::STAMPS, slot::KEPT, slot::FIRST].map(|field| at + field);
        let begun = self.begun(at + slot::ENDS, rest);
        if una == nxt {
            stack.take_on(now, self.listener, &begun);
        } else {
            // It has heard of it, or not.
            stack.reset_begun(begun.flow, una);
            stack.reset_begun(begun.flow, nxt);
        }
        self.memory.set(at + slot::CLOSED, (now + CLOSED).millis());
        self.memory.set(at + slot::STATE, slot::FREE as u64);
    }
}

fn random() -> Result<u64, Error> {
    let mut drawn = [0; 8];
    rustix::rand::getrandom(&mut drawn, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::io("the kernel has no random numbers", e))?;
    Ok(u64::from_ne_bytes(drawn))
}

/// Two numbers of four bytes that stand in a word, the first at its beginning.
fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (
        u32::from_ne_bytes([a, b, c, d]),
        u32::from_ne_bytes([e, f, g, h]),
    )
}
