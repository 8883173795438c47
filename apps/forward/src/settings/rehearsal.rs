//! What would keep a successor from forwarding, found while the forwarder before it still forwards.
//!
//! A predecessor that was asked to hand over does not come back. So what can be known without having what it has is looked at before:
//! routes, servers, the kept flows, and where files and sockets are to be made. What is left is what only having the link shows.

use std::fs::OpenOptions;
use std::path::Path;

use exos::Error;

use crate::program::exporter::Exporter;
use crate::program::keeper;
use crate::service::Services;
use crate::settings::setup::{attachments, listens, trial_stacks};
use crate::settings::wanted::Wanted;

/// Refuses what a start would be refused for once the one before has gone.
///
/// # Errors
///
/// The first of that.
pub fn rehearse(wanted: &Wanted) -> Result<(), Error> {
    let attachments = attachments(wanted)?;
    if wanted.in_kernel {
        let names = attachments.iter().filter_map(|a| a.link.interface());
        exos::handlers::check_ways_out(&names.collect::<Vec<_>>())?;
    }
    let stacks = match wanted.links.first().is_lent()? {
        // What the daemon lends it alone knows.
        true => Vec::new(),
        false => trial_stacks(wanted),
    };
    let stacks: Vec<_> = stacks.iter().collect();
    let listens = listens(&wanted.services, &stacks)?;
    Services::new(&listens)?;
    wanted.metrics.map_or(Ok(()), Exporter::check)?;
    wanted.user.as_user(|| look_at_files(wanted))
}

fn look_at_files(wanted: &Wanted) -> Result<(), Error> {
    if let Some(path) = &wanted.keep {
        keeper::check(path)?;
        try_to_make(path)?;
    }
    wanted.control.as_deref().map_or(Ok(()), try_to_make)
}

/// Makes a file beside a path and removes it: rights, and file systems that are full or read-only, are found by nothing less.
fn try_to_make(path: &Path) -> Result<(), Error> {
    let mut beside = path.to_owned().into_os_string();
    beside.push(format!(".trial-{}", std::process::id()));
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside);
    made.and_then(|_| std::fs::remove_file(&beside))
        .map_err(|error| {
            Error::io(format!("cannot make {}", path.display()), error)
                .mend("name a file in a directory that can be written")
        })
}
