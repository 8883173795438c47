//! A browser's visit over the simulator's worst wire: the page, its style and all its images, by
//! several connections at once, byte for byte, whatever the wire does to the packets.
//!
//! Seeds are tried one after the other; a failing one is named. `EXOS_SEEDS` multiplies how
//! many.

use crate::common::browser;

use browser::{CONNECTIONS, SERVER, Visit};
use exos_cheetah::Site;
use exos_sim::wire::Conditions;

/// The documents of the mosaic page, as the site has them.
fn documents(site: &Site) -> Vec<(String, Vec<u8>)> {
    let tiles = (0..6).flat_map(|y| (0..8).map(move |x| format!("/tiles/{y}{x}.png")));
    let paths = ["/mosaic.html", "/style.css", "/savanna.png"]
        .map(str::to_owned)
        .into_iter()
        .chain(tiles);
    let body = |path: &String| {
        site.find(path.as_bytes())
            .and_then(|e| e.document())
            .map(|d| d.body().as_bytes().to_vec())
    };
    paths
        .filter_map(|path| body(&path).map(|bytes| (path, bytes)))
        .collect()
}

/// One visit; gives how many segments the server had to send again.
fn visit(seed: u64, conditions: Conditions) -> u64 {
    let site = Site::example();
    let wanted = documents(&site);
    assert!(wanted.len() >= 48, "the example site has its images");
    let mut visit = Visit::new(seed, conditions, site);
    for n in 0..CONNECTIONS {
        visit.fetch(
            wanted
                .iter()
                .skip(n)
                .step_by(CONNECTIONS)
                .map(|d| d.0.clone())
                .collect(),
        );
    }
    assert!(visit.run(), "seed {seed}: not done after four hours");
    let again = visit.stacks[SERVER].counters().tcp_segments_retransmitted;
    let responses = visit.fetches.into_iter().flat_map(|f| f.responses);
    let mut got: Vec<_> = responses.map(|r| (r.path, r.body)).collect();
    let mut wanted = wanted;
    got.sort();
    wanted.sort();
    assert!(
        got == wanted,
        "seed {seed}: a document is not as the site has it"
    );
    again
}

#[test]
fn a_page_with_all_its_images_over_the_worst_wire() {
    let seeds = exos_testing::cases(300);
    let again: u64 = (0..seeds).map(|seed| visit(seed, Conditions::WORST)).sum();
    assert!(
        again > 10 * seeds,
        "the wire is not as bad as it should be: {again} segments sent again"
    );
}

#[test]
fn a_page_over_a_perfect_wire_takes_no_retransmission() {
    let site = Site::example();
    let wanted = documents(&site);
    let mut visit = Visit::new(1, Conditions::PERFECT, site);
    visit.fetch(wanted.iter().map(|d| d.0.clone()).collect());
    assert!(visit.run());
    assert_eq!(
        visit.stacks[SERVER].counters().tcp_segments_retransmitted,
        0
    );
    assert_eq!(
        visit.cheetah.server().counters().response_count(),
        wanted.len() as u64
    );
    // The acknowledgement of a request rides on the response: the server sends nothing that carries no data
    // but its side of opening (one SYN-ACK, one ARP answer, its announcement and its question).
    let sent = visit.stacks[SERVER].counters();
    let data: u64 = wanted
        .iter()
        .map(|d| (d.1.len() as u64 + 330).div_ceil(1448))
        .sum();
    assert!(
        sent.tcp_segments_sent <= data + 2,
        "{} segments for {data} of data",
        sent.tcp_segments_sent
    );
}
