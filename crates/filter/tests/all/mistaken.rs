//! What a processor does by wrong predictions of jumps (Spectre, variant 1), in programs that read what a user wrote: executed by an
//! interpreter, with jumps wrong, without the kernel and without privilege.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use exos_filter::gate::maps::{MapSpec, SECRET_LEN, SPECS};
use exos_filter::gate::{Origin, live, metadata};
use exos_filter::transmit::BEGINNING_LEN;
use exos_testing::ebpf::{Map, Program, disassemble};

fn words(bytes: usize) -> Vec<AtomicU64> {
    (0..bytes / 8).map(|_| AtomicU64::new(0)).collect()
}

const SLOT: u32 = 5;
const SECRET: [u8; SECRET_LEN] = [7; SECRET_LEN];

/// Whether the program for live frames looks, on some way with three wrong jumps at most, for frames of another slot than 0, or for a
/// secret that no slot has. Only [`SLOT`] has one.
fn looks_for_others(code: &[u64], fds: &[(i32, MapSpec)], metadata: &[u8]) -> bool {
    let secrets = words(SPECS.secrets.value_size * SPECS.secrets.entries as usize);
    let at = SPECS.secrets.value_size * SLOT as usize / 8;
    for word in &secrets[at..][..SECRET_LEN / 8] {
        word.store(u64::from_ne_bytes([7; 8]), Relaxed);
    }
    let first = words(8);
    let maps = fds.iter().map(|(fd, spec)| {
        let array = |words, value_len| Map::Array { words, value_len };
        let map = match spec {
            spec if *spec == SPECS.secrets => array(&secrets[..], spec.value_size),
            spec if [SPECS.queues, SPECS.frames].contains(spec) => array(&first[..], 8),
            _ => Map::Programs,
        };
        (*fd, map)
    });
    let program = Program::new(code, maps.collect());
    let looks = |wrong: &[usize]| {
        let ahead = program.ahead_with(metadata, &[0; BEGINNING_LEN], 0, wrong);
        !ahead.beyond.is_empty()
    };
    let all = 0..12;
    all.clone()
        .any(|a| (a..12).any(|b| (b..12).any(|c| looks(&[a, b, c]))))
}

#[test]
fn who_does_not_know_a_slots_secret_has_none_of_its_frames_read() {
    let mut fds = Vec::new();
    let maps = SPECS.map(|spec| {
        fds.push((fds.len() as i32, *spec));
        fds.len() as i32 - 1
    });
    let origin = Origin::from_layout(1, |_, _| Some(64)).unwrap();
    let code = live(&maps, &origin).words();
    let others = |slot, secret| looks_for_others(&code, &fds, &metadata(slot, secret));
    assert!(others(SLOT, SECRET), "it does not see its own");
    for differs in [0, 7, 8, 15] {
        for bit in [1, 0x80] {
            let mut secret = SECRET;
            secret[differs] ^= bit;
            assert!(!others(SLOT, secret), "{}", disassemble(&code));
        }
    }
    assert!(!others(SLOT + 1, SECRET));
    for slot in [SPECS.secrets.entries, 1 << 20, u32::MAX] {
        assert!(!others(slot, SECRET), "slot {slot}");
    }
}
