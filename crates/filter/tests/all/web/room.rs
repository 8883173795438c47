//! Room for connections: what stands here and what went up has it, and nothing else.

use std::collections::BTreeSet;

use super::*;

/// Connections of several peers, of which any comes next, with anything.
struct Crowd {
    bench: Bench,
    clients: Vec<Client>,
    state: u64,
}

impl Crowd {
    fn new(bench: Bench, count: u16) -> Self {
        let open = |number: u16| Client::opened_by(&bench, end(&bench, number), true, 1000);
        let clients = (0..count).map(|number| open(number).expect("a cookie"));
        let clients = clients.collect();
        Self {
            bench,
            clients,
            state: 1,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        let factor = 6_364_136_223_846_793_005;
        self.state = self.state.wrapping_mul(factor).wrapping_add(1);
        (self.state >> 33) % below
    }

    /// One of them says something, and hears the answer.
    fn turn(&mut self) {
        let number = self.draw(self.clients.len() as u64) as usize;
        let act = self.draw(16);
        let (bench, client) = (&self.bench, &mut self.clients[number]);
        let (flags, data): (u8, &[u8]) = match act {
            0..7 => (ACK | PSH, REQUEST),
            7 => (ACK | FIN, &[]),
            8 => (ACK, &[]),
            9 => (RST, &[]),
            10 => (ACK | PSH, b"POST /"),
            11 => (ACK | PSH, &[b'x'; 900]),
            12 => (ACK | FIN, REQUEST),
            _ => {
                let seq = client.seq.wrapping_add(100_000);
                if let Some(again) = Client::opened_by(bench, end(bench, number as u16), true, seq)
                {
                    *client = again;
                }
                return;
            }
        };
        if let Ok(got) = client.says(bench, flags, data) {
            client.seq = got.ack;
            let fin = u32::from(got.flags & FIN);
            client.ack = got.seq.wrapping_add(got.data.len() as u32 + fin);
        }
    }

    /// As after some seconds.
    fn open_slots(&self) {
        for client in &self.clients {
            self.bench.set(self.bench.slot(client) + slot::CLOSED, 0);
        }
    }

    /// Connections that stand in slots.
    fn standing(&self) -> u64 {
        let slots = self.clients.iter().map(|client| self.bench.slot(client));
        let slots: BTreeSet<u64> = slots.collect();
        let states = slots
            .into_iter()
            .map(|at| self.bench.get(at + slot::STATE) as i32);
        let stands = |state: &i32| (slot::OPEN..=slot::LAST_ACK).contains(state);
        states.filter(stands).count() as u64
    }
}

/// Of several peers, with several connections each.
fn end(bench: &Bench, number: u16) -> (IpAddr, u16) {
    let (host, port) = (number % 5, 4000 + number);
    let peer = match bench.ipv6 {
        false => IpAddr::from([10, 1, 200, 10 + host as u8]),
        true => IpAddr::from([0xfd10, 1, 0, host, 9, 8, 200, 7]),
    };
    (peer, port)
}

/// Whatever comes, room is neither lost nor had twice, and there are never more connections than there is room for.
#[test]
fn room_is_what_no_connection_has() {
    const ROOM: u64 = 7;
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        bench.set(layout::ROOM, ROOM);
        let mut crowd = Crowd::new(bench, 30);
        let mut most = 0;
        for turn in 0..4000 {
            crowd.bench.enter(REQUEST, RESPONSE, turn % 3 == 0);
            crowd.turn();
            let (standing, room) = (crowd.standing(), crowd.bench.get(layout::ROOM));
            let handed_up = crowd.bench.get(layout::HANDED);
            assert_eq!(standing + room + handed_up, ROOM, "turn {turn}");
            most = most.max(standing);
            // The server takes them on, and they end.
            if handed_up == layout::RING_COUNT || turn % 50 == 0 {
                crowd.bench.set(layout::ROOM, room + handed_up);
                crowd.bench.set(layout::HANDED, 0);
                crowd.open_slots();
            }
        }
        assert_eq!(most, ROOM, "all of it is had");
    }
}
