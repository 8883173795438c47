//! Requests answered in the kernel with what the program answered to the same bytes before
//! ([`exos_filter::handler::web`]), and what the program says and hears of that.
//!
//! The program puts requests and their responses into memory that the kernel's part reads ([`Requests::put`]), and sees to them once
//! a second at least ([`Requests::turn`]): without that no connection begins in the kernel. Connections that the kernel's part gives up
//! come to the stack before the segments that they were given up with; those on which nothing comes for some seconds come, too. So the
//! program's own times and bounds are about them.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use exos_filter::handler::WebHandler;
use exos_filter::handler::forward::WayOut;
use exos_filter::handler::web::SecondStage;
use exos_filter::handler::web::layout::{self, entry, slot};
use exos_host::bpf::{Map, MappedArray};
use exos_inet::tcp::{BegunConnection, Flow, ListenerId};
use exos_inet::{Duration, Instant, Stack};
use exos_link::Link;
use exos_wire::Sum;
use exos_wire::tcp::cookie::TIMESTAMP_BITS;

use crate::Error;
use crate::handlers::needs_interface;
use crate::node::Exos;

/// How long connections may begin without word of the program. Shorter than what closes slots in the kernel (4 s).
const WORD: Duration = Duration::from_secs(2);
/// How long slots of connections that the stack has stay closed without word of it.
const CLOSED: Duration = Duration::from_secs(4);
/// A connection on which nothing has come for so long becomes the stack's.
const QUIET: Duration = Duration::from_secs(5);
/// A connection whose response nobody has acknowledged for so long is reset.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// What a retired entry has is kept for so long: for responses that are sent again, and processors that are reading it.
const KEPT: Duration = Duration::from_secs(10);
/// A copy that was replaced is not written to before this: processors may be reading it.
const COPY_KEPT: Duration = Duration::from_millis(10);
/// An entry that nobody has asked for in this many turns of a second goes.
const UNASKED: u32 = 10;

/// What a packet with the longest response takes: the headers of IPv4 and TCP, timestamps.
const MTU_MIN: usize = layout::RESPONSE_MAX + 52;

/// A request that the kernel answers.
#[derive(Debug)]
struct Known {
    request: Box<[u8]>,
    response: Box<[u8]>,
    closes: bool,
    hits: u64,
    unasked: u32,
    written: Instant,
}

/// What stands in a place of the table.
#[derive(Debug)]
enum Place {
    /// Nothing, or something that nobody needs any more.
    Free,
    Live(Known),
    /// Not answered with any more, since.
    Retired(Instant),
}

/// How often a request was answered in the kernel since it was last asked.
#[derive(Debug)]
pub struct Answered {
    /// The request.
    pub request: Box<[u8]>,
    /// How often.
    pub count: u64,
    /// What it was answered with, at last.
    pub response: Box<[u8]>,
}

/// The program's side.
#[derive(Debug)]
pub struct Requests {
    memory: MappedArray,
    /// The kernel's part writes to it.
    _scratch: Map,
    listener: ListenerId,
    key: u64,
    taken: u64,
    turned: Instant,
    places: Vec<Place>,
    generation: u64,
    /// Answers of those that were retired meanwhile.
    pending: Vec<Answered>,
}

impl Exos {
    /// Has requests to a listener answered in the kernel from now on, and SYNs over IPv4 with it
    /// ([`answer_syns_in_kernel`](Exos::answer_syns_in_kernel)). Say which with [`requests`](Exos::requests).
    ///
    /// # Errors
    ///
    /// The link is not one of AF_XDP with a program of ours and one core, answers would not arrive (the other end of a veth has neither GRO
    /// nor an XDP program), the interface's MTU is less than 1,412, the listener offers other options than usual, or the kernel refuses the program.
    pub fn answer_requests_in_kernel(&mut self, listener: ListenerId) -> Result<(), Error> {
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
        if link.mtu() < MTU_MIN {
            let mtu = link.mtu();
            let error = format!(
                "an MTU of {mtu} is less than the {MTU_MIN} that responses of the kernel take"
            );
            return Err(needs_interface(&error).mend("have the interface's MTU be larger"));
        }
        let way_out = exos_link::ways_out(&[link])?[0][0];
        let memory = MappedArray::new("exos_web", layout::LEN as usize, 1)?;
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
            memory_fd: memory.raw_fd(),
            scratch_fd: scratch.raw_fd(),
            key,
            second_stage,
        };
        if let Err(e) = self.set_handler(&handler) {
            self.stack.stop_offloading_syns(self.now(), listener);
            return Err(e);
        }
        let places = (0..layout::ENTRY_COUNT).map(|_| Place::Free).collect();
        self.requests = Some(Requests {
            memory,
            _scratch: scratch,
            listener,
            key,
            taken: 0,
            turned: Instant::START,
            places,
            generation: 0,
            pending: Vec::new(),
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
    /// sent is not acknowledged are reset.
    pub fn answer_requests_here(&mut self) {
        let now = self.now();
        let Some(mut requests) = self.requests.take() else {
            return;
        };
        requests.set(layout::UNTIL, 0);
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

    fn get(&self, at: u64) -> u64 {
        self.memory.words()[(at / 8) as usize].load(Acquire)
    }

    fn set(&self, at: u64, value: u64) {
        self.memory.words()[(at / 8) as usize].store(value, Release);
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        for (n, part) in (0..).zip(bytes.chunks(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.set(at + 8 * n, u64::from_ne_bytes(word));
        }
    }

    const fn at(place: usize) -> u64 {
        layout::ENTRIES + place as u64 * layout::ENTRY_LEN
    }

    /// The places that a request may be in.
    fn ways(&self, request: &[u8]) -> std::ops::Range<usize> {
        let first = layout::first_way(layout::hash(self.key, request)) * layout::WAYS;
        first as usize..(first + layout::WAYS) as usize
    }

    fn find(&self, request: &[u8]) -> Option<usize> {
        self.ways(request).find(
            |&place| matches!(&self.places[place], Place::Live(known) if *known.request == *request),
        )
    }

    /// Whether the request is not answered, and could be.
    pub fn has_place_for(&self, now: Instant, request: &[u8]) -> bool {
        self.find(request).is_none() && self.free(now, request).is_some()
    }

    /// A place that the request may be in, and nothing is.
    fn free(&self, now: Instant, request: &[u8]) -> Option<usize> {
        self.ways(request).find(|&place| match &self.places[place] {
            Place::Free => true,
            Place::Retired(since) => now - *since >= KEPT,
            Place::Live(_) => false,
        })
    }

    /// All that are answered.
    pub fn all(&self) -> Vec<Box<[u8]>> {
        let live = self.places.iter().filter_map(|place| match place {
            Place::Live(known) => Some(known.request.clone()),
            _ => None,
        });
        live.collect()
    }

    /// The request is answered with this from now on. Where there is no place, it is not.
    ///
    /// # Panics
    ///
    /// If one of them is longer than may be, or empty.
    pub fn put(&mut self, now: Instant, request: &[u8], response: &[u8], closes: bool) {
        assert!((1..=Self::REQUEST_MAX).contains(&request.len()));
        assert!((1..=Self::RESPONSE_MAX).contains(&response.len()));
        if let Some(place) = self.find(request) {
            if self.renew(now, place, response, closes) {
                return;
            }
            self.retire(now, place);
        }
        if let Some(place) = self.free(now, request) {
            self.enter(now, place, request, response, closes);
        }
    }

    /// The response that is there, with other contents; false when it cannot be without clients that have a part of the one before
    /// noticing.
    fn renew(&mut self, now: Instant, place: usize, response: &[u8], closes: bool) -> bool {
        let Place::Live(known) = &mut self.places[place] else {
            return false;
        };
        if *known.response == *response && known.closes == closes {
            return true;
        }
        let same = known.response.len() == response.len() && known.closes == closes;
        if !same || now - known.written < COPY_KEPT {
            return false;
        }
        known.response = response.into();
        known.written = now;
        let at = Self::at(place);
        let other = 1 - (self.get(at + entry::COPY) & 1);
        self.write_copy(at, other, response);
        self.set(at + entry::COPY, other);
        true
    }

    fn write_copy(&self, at: u64, copy: u64, response: &[u8]) {
        let to = at + entry::COPIES + copy * entry::COPY_LEN;
        self.set(to, u64::from(Sum::of(response).value()));
        self.write(to + 8, response);
    }

    fn enter(&mut self, now: Instant, place: usize, request: &[u8], response: &[u8], closes: bool) {
        self.generation += 1;
        let at = Self::at(place);
        let numbers = [
            (entry::REQUEST_LEN, request.len() as u64),
            (entry::RESPONSE_LEN, response.len() as u64),
            (entry::CLOSES, u64::from(closes)),
            (entry::COPY, 0),
            (entry::GENERATION, self.generation),
        ];
        for (field, value) in numbers {
            self.set(at + field, value);
        }
        self.write(at + entry::REQUEST, request);
        self.write_copy(at, 0, response);
        self.places[place] = Place::Live(Known {
            request: request.into(),
            response: response.into(),
            closes,
            hits: self.get(at + entry::HITS),
            unasked: 0,
            written: now,
        });
        self.set(at + entry::TAG, layout::hash(self.key, request));
    }

    fn retire(&mut self, now: Instant, place: usize) {
        self.set(Self::at(place) + entry::TAG, 0);
        let answered = self.count(place);
        self.pending.extend(answered);
        self.places[place] = Place::Retired(now);
    }

    /// The request is not answered any more.
    pub fn forget(&mut self, now: Instant, request: &[u8]) {
        if let Some(place) = self.find(request) {
            self.retire(now, place);
        }
    }

    /// How often requests were answered since this was last asked.
    pub fn answered(&mut self) -> Vec<Answered> {
        let mut all = std::mem::take(&mut self.pending);
        all.extend((0..self.places.len()).filter_map(|place| self.count(place)));
        all
    }

    fn count(&mut self, place: usize) -> Option<Answered> {
        let hits = self.get(Self::at(place) + entry::HITS);
        let Place::Live(known) = &mut self.places[place] else {
            return None;
        };
        let count = hits.wrapping_sub(known.hits);
        known.hits = hits;
        (count > 0).then(|| {
            known.unasked = 0;
            Answered {
                request: known.request.clone(),
                response: known.response.clone(),
                count,
            }
        })
    }

    /// Takes on what was handed up.
    pub(crate) fn take_on(&mut self, now: Instant, stack: &mut Stack) {
        while self.get(layout::HANDED) != self.taken {
            let at = layout::RING + (self.taken % layout::RING_COUNT) * layout::HANDED_LEN;
            // Its number is given before it is written, on a processor that does nothing else meanwhile.
            while self.get(at) != self.taken + 1 {
                std::hint::spin_loop();
            }
            let begun = self.begun(at + 8, at + 24, [at + 32, at + 40, at + 48]);
            stack.take_on(now, self.listener, &begun);
            self.taken += 1;
            self.set(layout::TAKEN, self.taken);
        }
    }

    /// A connection from where its ends stand, its numbers, and timestamps, what the cookie kept, and window.
    fn begun(&self, ends: u64, numbers: u64, [stamps, kept, window]: [u64; 3]) -> BegunConnection {
        let (addresses, ports) = (self.get(ends), self.get(ends + 8));
        let address = |word: u64| std::net::Ipv4Addr::from_bits(word as u32);
        let local = (address(addresses >> 32), (ports >> 48) as u16);
        let remote = (address(addresses), (ports >> 32) as u16);
        let (rcv_nxt, snd_nxt) = halves(self.get(numbers));
        let (value, echo) = halves(self.get(stamps));
        let kept = self.get(kept);
        let bits = kept as u32 & 0xff;
        BegunConnection {
            flow: Flow::new(local.into(), remote.into()),
            rcv_nxt,
            snd_nxt,
            window: self.get(window) as u16,
            mss_index: (kept >> 8) as u8,
            stamps: (bits <= TIMESTAMP_BITS).then_some((bits, value, echo)),
        }
    }

    fn turn(&mut self, now: Instant, stack: &mut Stack) {
        self.take_on(now, stack);
        self.close_slots(now, stack);
        self.take_quiet(now, stack, QUIET);
        // After a pause there may be segments that the stack has not seen, of connections whose slots are open again.
        if now - self.turned < WORD {
            self.set(layout::UNTIL, (now + WORD).millis());
        }
        self.turned = now;
        for place in 0..self.places.len() {
            if let Place::Live(known) = &mut self.places[place] {
                known.unasked += 1;
                if known.unasked > UNASKED {
                    self.retire(now, place);
                }
            }
        }
    }

    /// No connection begins in the kernel where the stack has one.
    fn close_slots(&self, now: Instant, stack: &Stack) {
        let until = (now + CLOSED).millis();
        let port = |flow: &Flow| !flow.is_ipv6();
        for id in stack.tcp.connections_where(port) {
            let Some(connection) = stack.tcp.connection(id) else {
                continue;
            };
            let (local, remote) = (connection.flow().local(), connection.flow().remote());
            let (std::net::IpAddr::V4(ours), std::net::IpAddr::V4(theirs)) =
                (local.ip(), remote.ip())
            else {
                continue;
            };
            let ends = u64::from(ours.to_bits()) << 32 | u64::from(theirs.to_bits());
            let ports = u64::from(local.port()) << 48 | u64::from(remote.port()) << 32;
            let number = layout::slot_of(self.key, ends, ports);
            let at = layout::SLOTS + number * layout::SLOT_LEN;
            self.set(at + slot::CLOSED, until);
        }
    }

    /// Takes on the connections on which nothing has come for so long, and resets those that were left in the middle.
    fn take_quiet(&self, now: Instant, stack: &mut Stack, quiet: Duration) {
        for number in 0..layout::SLOT_COUNT {
            let at = layout::SLOTS + number * layout::SLOT_LEN;
            if !self.is_to_be_taken(at, quiet) {
                continue;
            }
            let lock = &self.memory.words()[(at / 8) as usize];
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
        let state = self.get(at + slot::STATE);
        let is_ending = [slot::FINISHED, slot::LAST_ACK].contains(&(state as i32));
        let (una, nxt) = self.sent(at);
        state == slot::OPEN as u64 || (quiet.is_zero() && is_ending && una != nxt)
    }

    /// The first number of ours that the peer of a slot has not acknowledged, and the next.
    fn sent(&self, at: u64) -> (u32, u32) {
        let (_, nxt) = halves(self.get(at + slot::RCV));
        let (una, _) = halves(self.get(at + slot::UNA));
        (una, nxt)
    }

    /// The stack cannot send again what the kernel's part has sent: where that is not acknowledged, the peer is reset.
    fn take_if_quiet(&self, now: Instant, stack: &mut Stack, at: u64, quiet: Duration) {
        let (una, nxt) = self.sent(at);
        let since = now.millis().saturating_sub(self.get(at + slot::TIME));
        let bound = match (una == nxt, quiet.is_zero()) {
            (true, _) | (false, true) => quiet,
            (false, false) => FORGOTTEN,
        };
        if u128::from(since) < bound.as_millis() {
            return;
        }
        let numbers = [at + slot::STAMPS, at + slot::KEPT, at + slot::WINDOW];
        let begun = self.begun(at + slot::ENDS, at + slot::RCV, numbers);
        if una == nxt {
            stack.take_on(now, self.listener, &begun);
        } else {
            // It has heard of it, or not.
            stack.reset_begun(begun.flow, una);
            stack.reset_begun(begun.flow, nxt);
        }
        self.set(at + slot::CLOSED, (now + CLOSED).millis());
        self.set(at + slot::STATE, slot::FREE as u64);
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
