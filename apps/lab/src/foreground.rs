//! `exos lab up --foreground`: a lab that lives as long as the command, its emulator in this process.

use crate::build::emulate;
use crate::emulator::Statistics;
use crate::limits::SIGNAL_INTERVAL;
use crate::options::UpArgs;
use crate::report;
use exos_host::{Result, error::Context as _, say};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// Runs until a signal, or until the lab is taken down from elsewhere.
pub(crate) fn run(args: &UpArgs) -> Result<()> {
    // Before anything is made: what is made is to be removed again.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGUSR1]).context(|| "cannot catch signals")?;
    let settings = args.settings();
    let lab = emulate(&settings)?;
    if !args.json() {
        report::announce(&lab, &settings, "is up until Ctrl-C");
    }
    loop {
        for signal in signals.pending() {
            if signal == SIGUSR1 {
                show(&lab.statistics()?, args.json());
            } else {
                show(&lab.finish()?, args.json());
                return Ok(());
            }
        }
        if lab.is_over() {
            show(&lab.finish()?, args.json());
            return Ok(());
        }
        std::thread::sleep(SIGNAL_INTERVAL);
    }
}

/// As text, or as one line of JSON.
fn show(statistics: &Statistics, json: bool) {
    if json {
        say!(
            "{}",
            serde_json::to_string(statistics).expect("plain data becomes JSON")
        );
    } else {
        say!("{}", report::text(statistics));
    }
}
