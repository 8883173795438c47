//! What becomes of segments is counted: each once, and again what says that it is a part of another count.

use exos_filter::Counter;

use super::*;

impl Bench {
    pub fn counted(&self, counter: Counter) -> u64 {
        self.maps[2].sum_percpu_u64(counter as u32).unwrap()[0]
    }
}

#[test]
fn each_segment_is_counted_as_what_became_of_it() {
    use Counter::*;
    for bench in Bench::both() {
        bench.enter(REQUEST, RESPONSE, false);
        let all = [
            Answered,
            SentAgain,
            Done,
            Left,
            HandedUp,
            DropLocked,
            DropHandUpFull,
            DropUnfit,
        ];
        let before = || all.map(|counter| bench.counted(counter));
        let mut client = Client::opened(&bench, 4000, true);
        // Each says something, and what of these counts that.
        let step = |what: &str, client: &Client, flags: u8, data: &[u8], grown: &[Counter]| {
            let counts = before();
            let _ = client.says(&bench, flags, data);
            for (counter, count) in all.into_iter().zip(counts) {
                let by = u64::from(grown.contains(&counter));
                assert_eq!(bench.counted(counter), count + by, "{what}: {counter:?}");
            }
        };
        step("nothing yet", &client, ACK, &[], &[Done]);
        step("a request", &client, ACK | PSH, REQUEST, &[Answered]);
        step("again", &client, ACK | PSH, REQUEST, &[Answered, SentAgain]);
        client.seq += REQUEST.len() as u32;
        step("an old one", &client, ACK, &[], &[DropUnfit]);
        client.ack = client.ack.wrapping_add(RESPONSE.len() as u32);
        step("all is acknowledged", &client, ACK, &[], &[Done]);
        bench.set(bench.slot(&client) + slot::LOCK, 1);
        step("locked", &client, ACK, &[], &[DropLocked]);
        bench.set(bench.slot(&client) + slot::LOCK, 0);
        bench.set(layout::HANDED, layout::RING_COUNT);
        step("a full ring", &client, ACK, b"GET", &[DropHandUpFull]);
        bench.set(layout::HANDED, 0);
        step("another", &client, ACK, b"GET", &[Left, HandedUp]);
        step("the server's", &client, ACK, b"GET", &[Left]);
        let other = Client::opened(&bench, 4001, true);
        step("its request", &other, ACK | PSH, REQUEST, &[Answered]);
        let mut reset = other.clone();
        reset.seq += REQUEST.len() as u32;
        step("a reset", &reset, RST, &[], &[Done]);
    }
}
