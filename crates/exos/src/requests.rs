//! Requests answered in the kernel with what the program answered to the same bytes before
//! ([`exos_filter::handler::web`]), and what the program says and hears of that.
//!
//! The program puts requests and their responses into memory that the kernel's part reads ([`Requests::put`]), and sees to them once
//! a second at least ([`Requests::turn`]): without that no connection begins in the kernel. Connections that the kernel's part gives up
//! come to the stack before the segments that they were given up with, and what was sent on them comes along
//! ([`Requests::poll_sent`]); those on which nothing comes for some seconds come, too. So the
//! program's own times and bounds are about them. What became of each answer is reported where that is wanted
//! ([`Requests::poll_report`]).

mod beginning;
mod capacity;
mod connections;
mod lent;
mod looks;
mod memory;
mod own;
mod replaced;
mod reports;
mod room;
mod sent;
mod shared;
mod table;

use std::sync::Arc;

use exos_filter::handler::WebHandler;
use exos_filter::handler::web::layout;
use exos_inet::tcp::ListenerId;
use exos_inet::{Duration, Instant, JoinedSegment, Stack};

pub use capacity::Capacity;
pub use exos_filter::handler::web::lines::{Reduced, reduce};
pub use reports::{Named, Report};
pub use room::{Admission, PeerRoom};
pub use sent::Sent;
pub(crate) use shared::Part;
pub use table::{Answered, Response};

use connections::{Connections, Turn};
use reports::Reports;
use shared::Shared;

/// How long connections may begin without word of the program. Shorter than what closes slots in the kernel (4 s).
const WORD: Duration = Duration::from_secs(2);
/// An entry that nobody has asked for in this many turns of a second goes.
const UNASKED: u32 = 10;
/// One that has been asked for more lately makes no room for another.
const IDLE: u32 = 2;

/// The program's side, on one core.
#[derive(Debug)]
pub struct Requests {
    shared: Arc<Shared>,
    core: usize,
    handler: WebHandler,
    /// When it was looked for the connections that the stack has.
    turned: Instant,
    connections: Connections,
    reports: Reports,
    /// Segments that were dropped beyond the steps of the daemon's policy; and before, of the same slot.
    dropped: u64,
    dropped_before: u64,
}

impl Requests {
    /// The longest response.
    pub const RESPONSE_MAX: usize = layout::RESPONSE_MAX;

    fn new(part: Part, listener: ListenerId, turned: Instant, dropped_before: u64) -> Self {
        let Part {
            shared,
            core,
            handler,
        } = part;
        // The first reads what the kernel reports.
        let has_ring = handler.reports && core == 0;
        Self {
            core,
            turned,
            dropped: 0,
            dropped_before,
            connections: Connections::new(listener, &handler, shared.peer_room(), core),
            reports: Reports::new(handler.entries, has_ring),
            handler,
            shared,
        }
    }

    /// None where the daemon has made it.
    pub(crate) fn handler(&self) -> Option<&WebHandler> {
        (!self.shared.is_lent()).then_some(&self.handler)
    }

    /// The number of the core that this is on, of those of all interfaces.
    pub fn core(&self) -> usize {
        self.core
    }

    /// The longest request that is answered: 1,024 bytes, or where responses are short ([`Capacity::response_max`]) 512 at least.
    pub fn request_max(&self) -> usize {
        self.handler.entries.request_max()
    }

    /// Where connections of each peer are limited, how many each has.
    pub fn peer_room(&self) -> Option<PeerRoom> {
        self.shared.peer_room()
    }

    /// Whether the request is not answered, and could be.
    pub fn has_place_for(&self, now: Instant, request: &[u8]) -> bool {
        self.shared.table().has_place_for(now, request)
    }

    /// Where others are in all places that the request may be in, one of them goes; some seconds later the request has a place.
    pub fn make_room_for(&mut self, now: Instant, request: &[u8]) {
        let Shared {
            memory, capacity, ..
        } = &*self.shared;
        let unasked = if capacity.forgets { IDLE } else { 0 };
        let mut table = self.shared.table();
        table.make_room_for(memory, now, request, unasked);
    }

    /// Whether the request is answered.
    pub fn is_answered(&self, request: &[u8]) -> bool {
        self.shared.table().is_answered(request)
    }

    /// All that are answered.
    pub fn all(&self) -> Vec<Box<[u8]>> {
        self.shared.table().all()
    }

    /// The request is answered with this from now on. Where there is no place, or the one before changed within 10 ms (on a veth 100), it is not answered:
    /// see [`has_place_for`](Self::has_place_for).
    ///
    /// # Panics
    ///
    /// If one of them is longer than may be ([`request_max`](Self::request_max), [`Capacity::response_max`]), or empty.
    pub fn put(&mut self, now: Instant, request: &[u8], response: Response<'_>) {
        let Shared {
            memory, capacity, ..
        } = &*self.shared;
        assert!((1..=self.request_max()).contains(&request.len()));
        assert!((1..=capacity.response_max).contains(&response.bytes.len()));
        self.shared.table().put(memory, now, request, response);
    }

    /// The request is not answered any more.
    pub fn forget(&mut self, now: Instant, request: &[u8]) {
        let Shared { memory, .. } = &*self.shared;
        self.shared.table().forget(memory, now, request);
    }

    /// How often requests were answered since this was last asked.
    pub fn answered(&mut self) -> Vec<Answered> {
        self.shared.table().answered(&self.shared.memory)
    }

    /// What became of the next answer, where that is reported.
    pub fn poll_report(&mut self) -> Option<&Report> {
        self.reports.poll(&self.shared.memory)
    }

    /// The next response that came to the stack with its connection, since this was last asked or within the last second. To be asked
    /// before the events of its connection are.
    pub fn poll_sent(&mut self) -> Option<Sent> {
        self.connections.poll_sent()
    }

    /// How long after a response was replaced there may be reports of it, once [`Exos::see_to_requests`](crate::Exos::see_to_requests) has been called and all was
    /// heard: a response is sent up to four times, and then waited for.
    pub const REPORTED_TIME: Duration =
        Duration::from_micros(5 * sent::FORGOTTEN.as_micros() as u64);

    /// When to ask for reports again.
    pub fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        self.reports.poll_timeout(now)
    }

    /// Takes on what was handed up, and takes in what the frame before has completed of fragments. To be called before each frame, and
    /// behind the last.
    pub(crate) fn take_on(&mut self, now: Instant, stack: &mut Stack) {
        let (connections, mut turn) = self.connections(now, stack);
        connections.take_on(&mut turn);
        if let Some(joined) = turn.stack.take_joined() {
            connections.take_in(&mut turn, joined);
        }
    }

    /// What came in fragments, and the other cores are to be asked about. To be called once in a turn.
    pub(crate) fn take_asked_about(&mut self) -> Vec<JoinedSegment> {
        self.connections.take_asked_about()
    }

    /// Has the stack have what the kernel's part has. True while there may be more, once what that has queued has left.
    #[must_use]
    fn end(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let (connections, mut turn) = self.connections(now, stack);
        connections.end(&mut turn)
    }

    fn connections<'a>(
        &'a mut self,
        now: Instant,
        stack: &'a mut Stack,
    ) -> (&'a mut Connections, Turn<'a>) {
        let turn = Turn {
            memory: &self.shared.memory,
            table: &self.shared.table,
            now,
            stack,
            reports: &mut self.reports,
        };
        (&mut self.connections, turn)
    }

    fn turn(&mut self, now: Instant, stack: &mut Stack) {
        let (connections, mut turn) = self.connections(now, stack);
        connections.turn(&mut turn);
        // After a pause there may be segments that the stack has not seen, of connections whose slots are open again.
        if now - self.turned < WORD {
            let Shared { memory, looks, .. } = &*self.shared;
            looks.allow(memory, self.core, (now + WORD).millis());
        }
        self.turned = now;
        let Shared {
            memory, capacity, ..
        } = &*self.shared;
        if capacity.forgets && self.core == 0 {
            self.shared.table().forget_unasked(memory, now, UNASKED);
        }
    }
}
