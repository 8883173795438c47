//! Long files over the simulator's wires, with memory for very few chunks: every response is whole, whatever is lost,
//! doubled or late on the way.

use crate::common;
use crate::common::browser;

use browser::{CONNECTIONS, Visit};
use common::folder::Folder;
use exos_cheetah::limits::CHUNK_LEN;
use exos_cheetah::site::Limits;
use exos_cheetah::stream::Streams;
use exos_cheetah::stream::disk::Disk;
use exos_sim::random::{Random, Seed};
use exos_sim::wire::Conditions;

const FILES: u64 = 5;
/// Fewer than there are connections.
const CHUNKS: usize = 4;

/// Files of up to four chunks, at whose borders they may end.
fn content(random: &mut Random) -> Vec<u8> {
    let len = match random.below(3) {
        0 => CHUNK_LEN * (1 + random.below(4) as usize),
        _ => 2000 + random.below(4 * CHUNK_LEN as u64) as usize,
    };
    let mut content = Vec::with_capacity(len + 8);
    while content.len() < len {
        content.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    content.truncate(len);
    content
}

fn visit(seed: u64, conditions: Conditions, fetches: usize) {
    let mut random = Random::new(Seed(seed), 3);
    let folder = Folder::new();
    let contents: Vec<Vec<u8>> = (0..FILES).map(|_| content(&mut random)).collect();
    for (n, content) in contents.iter().enumerate() {
        folder.write(&format!("{n}.bin"), content);
    }
    let limits = Limits {
        memory_len: 1000,
        ..Limits::default()
    };
    let mut visit = Visit::new(seed, conditions, folder.load_within(limits));
    let streams = Streams::new(Disk::here(), (CHUNKS * CHUNK_LEN) as u64);
    visit.cheetah.set_streams(streams);
    for _ in 0..CONNECTIONS {
        let paths = (0..fetches).map(|_| format!("/{}.bin", random.below(FILES)));
        visit.fetch(paths.collect());
    }
    assert!(visit.run(), "seed {seed}: not done after four hours");
    for response in visit.fetches.iter().flat_map(|fetch| &fetch.responses) {
        let number: usize = response.path[1..2].parse().unwrap();
        let is_whole = response.body == contents[number];
        assert!(is_whole, "seed {seed}: {} is not its file", response.path);
    }
    let streams = visit.cheetah.streams();
    assert!(streams.memory_len() <= CHUNKS * CHUNK_LEN, "seed {seed}");
    let counters = visit.cheetah.counters();
    assert!(counters.contains(&("http_broken_off", 0)), "seed {seed}");
}

fn seeds() -> u64 {
    exos_testing::cases(8)
}

#[test]
fn long_files_arrive_whole_over_the_worst_wire() {
    (0..seeds()).for_each(|seed| visit(seed, Conditions::WORST, 3));
}

#[test]
fn long_files_arrive_whole_over_a_perfect_wire() {
    (0..seeds()).for_each(|seed| visit(seed, Conditions::PERFECT, 10));
}
