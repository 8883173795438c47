//! What the kernel answers on connections: a request of its own for each key ([`exos::requests`]).
//!
//! Commands note whose items they looked at or changed; before their answers leave the kernel is told. So a client that has heard of a
//! change is answered with it, wherever it asks.

use std::collections::HashSet;

use exos::inet::tcp::ListenerId;
use exos::requests::{Capacity, Requests, Response};
use exos::{Duration, Error, Exos, Instant};

use super::answers::Shape;
use super::item::{Item, answer, invalid};

/// How often the kernel's part hears of the program.
const TURN: Duration = Duration::from_millis(500);
/// Half as many as requests ([`Capacity`]).
const ANSWERS_MAX: u32 = 1 << 15;
/// Keys that are noted one by one; beyond that all that the kernel answers are looked at.
const NOTED_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Connections {
    bytes_max: usize,
    /// Keys whose answers may be others than the kernel's, or missing there.
    noted: HashSet<Vec<u8>>,
    turned: Option<Instant>,
    hits: u64,
}

impl Connections {
    pub(super) fn answer(
        exos: &mut Exos,
        listener: ListenerId,
        shape: Shape,
    ) -> Result<Self, Error> {
        if shape.answers > ANSWERS_MAX {
            return Err(invalid(
                "over TCP the kernel's part of a cache has 32768 answers at most",
            ));
        }
        let capacity = Capacity {
            // Half as many keys as places: hardly one finds none.
            requests: shape.answers.saturating_mul(2),
            response_max: shape.bytes as usize,
            forgets: false,
            http: false,
            connections: exos.stack.tcp.connections_max() as u32,
            ..Capacity::DOCUMENTS
        };
        exos.answer_requests_in_kernel(listener, capacity, false)?;
        Ok(Self {
            bytes_max: shape.bytes as usize,
            noted: HashSet::new(),
            turned: None,
            hits: 0,
        })
    }

    pub(super) fn note(&mut self, key: &[u8]) {
        if self.noted.len() <= NOTED_MAX && !self.noted.contains(key) {
            self.noted.insert(key.to_vec());
        }
    }

    /// How many `get`s the kernel has answered.
    pub(super) const fn hits(&self) -> u64 {
        self.hits
    }

    /// Has the kernel answer with what there is under each key.
    pub(super) fn tell<'a>(&mut self, exos: &mut Exos, item: impl Fn(&[u8]) -> Option<&'a Item>) {
        let now = exos.now();
        let Some(requests) = exos.requests() else {
            return;
        };
        if self.noted.len() > NOTED_MAX {
            let key = |request: Box<[u8]>| request[GET.len()..request.len() - END.len()].to_vec();
            self.noted.extend(requests.all().into_iter().map(key));
        }
        for key in self.noted.drain() {
            tell(requests, now, &key, item(&key), self.bytes_max);
        }
        if self.turned.is_none_or(|turned| now - turned >= TURN) {
            self.turned = Some(now);
            let answered = requests.answered();
            self.hits += answered.iter().map(|one| one.count).sum::<u64>();
            exos.see_to_requests();
        }
    }
}

const GET: &[u8] = b"get ";
const END: &[u8] = b"\r\n";

fn tell(requests: &mut Requests, now: Instant, key: &[u8], item: Option<&Item>, bytes_max: usize) {
    let request = [GET, key, END].concat();
    match item.and_then(|item| answer(key, item, bytes_max)) {
        Some(answer) => {
            requests.make_room_for(now, &request);
            let response = Response {
                bytes: &answer,
                closes: false,
                note: 0,
            };
            requests.put(now, &request, response);
        }
        None => requests.forget(now, &request),
    }
}
