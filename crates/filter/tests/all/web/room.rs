//! Room for connections: what stands here and what went up has it, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use exos_filter::handler::web::layout::peer;

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
            11 => (ACK | PSH, UNREAD),
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

    /// The server takes on what went up, and it ends; some seconds later slots are open.
    fn end_what_went_up(&self) {
        let bench = &self.bench;
        let count = bench.get(layout::HANDED);
        bench.set(layout::ROOM, bench.get(layout::ROOM) + count);
        for number in 0..count {
            let at = word_of(handed_ends(bench, number));
            bench.set(at, bench.get(at) - u64::from(self.is_limited()));
        }
        bench.set(layout::HANDED, 0);
        for client in &self.clients {
            bench.set(bench.slot(client) + slot::CLOSED, 0);
        }
    }

    fn is_limited(&self) -> bool {
        self.bench.handler.peer_connections.is_some()
    }

    /// The words of the peers of connections that stand in slots, or went up.
    fn words_of_all(&self) -> Vec<u64> {
        let (bench, clients) = (&self.bench, &self.clients);
        let slots: BTreeSet<u64> = clients.iter().map(|client| bench.slot(client)).collect();
        let stands = |at: &u64| {
            let state = bench.get(at + slot::STATE) as i32;
            (slot::OPEN..=slot::LAST_ACK).contains(&state)
        };
        let ends = |at: u64| [0, 8, 16, 24].map(|half| bench.get(at + slot::ENDS + half));
        let standing = slots.into_iter().filter(stands).map(ends);
        let up = (0..bench.get(layout::HANDED)).map(|number| handed_ends(bench, number));
        standing.chain(up).map(word_of).collect()
    }

    /// The words of all peers, and what each counts.
    fn counts(&self) -> BTreeMap<u64, u64> {
        let words = self.clients.iter().map(|client| word_of(client.ends().0));
        let counted = words.map(|at| (at, self.bench.get(at) & peer::MOST));
        counted.collect()
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

fn word_of(ends: [u64; 4]) -> u64 {
    layout::peer_of(bench::KEY, ends).0
}

fn handed_ends(bench: &Bench, number: u64) -> [u64; 4] {
    [0, 8, 16, 24].map(|half| bench.handed(number, handed::ENDS + half))
}

/// Whatever comes, room is neither lost nor had twice, and there are never more connections than there is room for, of all or of a peer;
/// but as many.
#[test]
fn room_is_what_no_connection_has() {
    const ROOM: u64 = 7;
    for bench in Bench::both() {
        see_to_room(bench, ROOM, ROOM);
    }
    for (ipv6, cores) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let bench = Bench::limited(ipv6, 2, cores);
        bench.into_iter().for_each(|bench| see_to_room(bench, 8, 2));
    }
}

fn see_to_room(bench: Bench, all: u64, of_peer: u64) {
    bench.enter(REQUEST, RESPONSE, false);
    bench.set(layout::ROOM, all);
    let mut crowd = Crowd::new(bench, 30);
    let (mut most, mut most_of_peer) = (0, 0);
    for turn in 0..4000 {
        crowd.bench.enter(REQUEST, RESPONSE, turn % 3 == 0);
        crowd.turn();
        let (words, room) = (crowd.words_of_all(), crowd.bench.get(layout::ROOM));
        assert_eq!(words.len() as u64 + room, all, "turn {turn}");
        if crowd.is_limited() {
            for (word, counted) in crowd.counts() {
                let has = words.iter().filter(|at| **at == word).count() as u64;
                assert_eq!(counted, has, "turn {turn}");
                most_of_peer = most_of_peer.max(has);
            }
        }
        let up = crowd.bench.get(layout::HANDED);
        most = most.max(words.len() as u64 - up);
        if up == layout::RING_COUNT || turn % 50 == 0 {
            crowd.end_what_went_up();
        }
    }
    assert_eq!(most, all, "all of it is had");
    assert!(!crowd.is_limited() || most_of_peer == of_peer);
}

/// While the word is others', or the server has connections of others with this word, the peer's are the server's.
#[test]
fn peers_with_one_word_do_not_count_for_each_other() {
    for bench in [false, true]
        .into_iter()
        .filter_map(|ipv6| Bench::limited(ipv6, 2, 1))
    {
        bench.enter(REQUEST, RESPONSE, false);
        let client = |port: u16| Client::opened(&bench, port, true);
        let (at, tag) = layout::peer_of(bench::KEY, client(4000).ends().0);
        let [ours, others] = [tag, tag ^ 1].map(|tag| tag << peer::TAG_SHIFT);
        let beside = 1 << peer::BESIDE_SHIFT;
        for (number, (before, after)) in (0..).zip([
            (others | 1, None),
            (ours | beside, None),
            (ours | beside | 1, None),
            (ours | 2, None),
            (others, Some(ours | 1)),
            (ours, Some(ours | 1)),
            (ours | 1, Some(ours | 2)),
        ]) {
            bench.set(at, before);
            let room = bench.get(layout::ROOM);
            let said = client(4000 + number).says(&bench, ACK | PSH, REQUEST);
            assert_eq!(said.is_ok(), after.is_some(), "{before:x}");
            assert_eq!(bench.get(at), after.unwrap_or(before), "{before:x}");
            let taken = u64::from(after.is_some());
            assert_eq!(bench.get(layout::ROOM), room - taken, "{before:x}");
        }
    }
}

/// Data behind a response that closed is the stack's, which resets it, also when it comes again; then nobody has the connection.
#[test]
fn a_connection_that_the_stack_resets_gives_its_room_back() {
    for bench in [false, true]
        .into_iter()
        .filter_map(|ipv6| Bench::limited(ipv6, 1, 1))
    {
        bench.enter(REQUEST, RESPONSE, true);
        let mut client = Client::opened(&bench, 4000, true);
        let (room, first) = (bench.get(layout::ROOM), (client.seq, client.ack));
        let got = client.says(&bench, ACK | PSH, REQUEST).unwrap();
        assert_eq!(bench.get(layout::ROOM), room - 1);
        client.seq = got.ack;
        client.ack = got.seq.wrapping_add(got.data.len() as u32 + 1);
        for data in [&b"POST /"[..], b"POST /", UNREAD] {
            assert_eq!(client.says(&bench, ACK | PSH, data), Err(PASS));
            assert_eq!(bench.get(layout::ROOM), room);
            assert_eq!(bench.get(word_of(client.ends().0)) & peer::MOST, 0);
        }
        assert_eq!(bench.get(layout::HANDED), 0);
        (client.seq, client.ack) = first;
        assert_eq!(client.says(&bench, ACK | PSH, REQUEST), Err(DROP), "late");
        let next = Client::opened(&bench, 4001, true);
        assert!(next.says(&bench, ACK | PSH, REQUEST).is_ok());
    }
}

/// What went up counts on for its peer.
#[test]
fn a_connection_that_went_up_has_the_room_of_its_peers_next() {
    for bench in [false, true]
        .into_iter()
        .filter_map(|ipv6| Bench::limited(ipv6, 1, 1))
    {
        bench.enter(REQUEST, RESPONSE, false);
        let mut first = Client::opened(&bench, 4000, true);
        let got = first.says(&bench, ACK | PSH, REQUEST).unwrap();
        first.seq = got.ack;
        first.ack = got.seq.wrapping_add(got.data.len() as u32);
        let next = |port: u16| {
            let next = Client::opened(&bench, port, true);
            next.says(&bench, ACK | PSH, REQUEST)
        };
        assert_eq!(next(4001), Err(PASS));
        assert_eq!(first.says(&bench, ACK | PSH, b"POST /"), Err(PASS));
        assert_eq!(bench.get(layout::HANDED), 1);
        assert_eq!(next(4002), Err(PASS));
        // The server says that it is over.
        let at = word_of(first.ends().0);
        bench.set(at, bench.get(at) - 1);
        assert!(next(4003).is_ok());
    }
}

/// Peers are told apart by their addresses or networks, in the words that they have and in their tags.
#[test]
fn peers_are_addresses_or_networks() {
    let of = |remote: &str| {
        let ends = layout::ends("10.0.0.1".parse().unwrap(), remote.parse().unwrap());
        layout::peer_of(bench::KEY, ends)
    };
    assert_eq!(of("2001:db8::2"), of("2001:db8::3"));
    let different = |peers: &mut dyn Iterator<Item = String>| {
        let all: Vec<_> = peers.map(|peer| of(&peer)).collect();
        let words: BTreeSet<_> = all.iter().map(|(word, _)| word).collect();
        let tags: BTreeSet<_> = all.iter().map(|(_, tag)| tag).collect();
        (words.len(), tags.len())
    };
    let v4 = different(&mut (0..255).map(|n| format!("10.0.0.{n}")));
    let low = different(&mut (0..255).map(|n| format!("2001:db8:0:{n:x}::1")));
    let high = different(&mut (0..255).map(|n| format!("{:x}:db8::1", 0x2000 + n)));
    for (words, tags) in [v4, low, high] {
        assert!(words > 250 && tags > 250, "{words} {tags}");
    }
}
