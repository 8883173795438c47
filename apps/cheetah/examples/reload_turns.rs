//! Measures how long a reload keeps a turn of the event loop: reads a directory, reads it again, and times
//! each turn's part of the work, from the thread's result to the end of the old tables.
//!
//! `cargo run --release -p exos-cheetah --example reload_turns DIR`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exos_cheetah::config::{Config, Root};
use exos_cheetah::serve::content::exchange::{Exchange, Step};
use exos_cheetah::serve::content::reload::Reload;
use exos_cheetah::serve::content::sites::Fresh;
use exos_cheetah::{Server, serve};

fn main() {
    let directory = std::env::args_os().nth(1).expect("the directory to read");
    let config = Config::of(Root::Directory(PathBuf::from(directory)));
    let sites = serve::content::sites::load(&config).unwrap_or_else(|errors| panic!("{errors:?}"));
    println!("{} documents", sites.get(0).document_count());
    let mut server = Server::new(sites, 0);
    let read = Arc::new(move || Fresh::read(config.clone(), false));
    let cores = exos_host::affinity::allowed().expect("the cores of this process");
    let mut reload = Reload::new(read, cores).expect("a descriptor");
    for _ in 0..5 {
        reload.request();
        measure(&mut reload, &mut server);
    }
}

/// One reload, from the request to the end of the old tables.
fn measure(reload: &mut Reload, server: &mut Server) {
    let (begun, mut turns) = (Instant::now(), Vec::new());
    let (mut exchange, mut is_exchanged) = (Exchange::default(), false);
    while !is_exchanged || exchange.is_busy() {
        let is_busy = exchange.is_busy();
        let begun = Instant::now();
        if let Some(outcome) = reload.turn() {
            let (fresh, _) = outcome.unwrap_or_else(|errors| panic!("{errors:?}"));
            exchange.begin(fresh);
        }
        is_exchanged |= exchange.turn(server) == Some(Step::Exchanged);
        let took = begun.elapsed();
        if is_busy || took > Duration::from_micros(50) {
            turns.push(took);
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    turns.sort_unstable();
    let at = |share: usize| turns[(turns.len() - 1) * share / 100];
    println!(
        "{:?} in all; {} turns with work: median {:?}, 99 % {:?}, longest {:?}",
        begun.elapsed(),
        turns.len(),
        at(50),
        at(99),
        at(100)
    );
}
