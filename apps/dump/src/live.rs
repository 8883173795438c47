//! Packets from the daemon, as they come.

use std::process::ExitCode;

use exos_host::Error;

use crate::cli::DumpArgs;
use crate::run::Dump;

pub(crate) fn run(args: &DumpArgs, mut dump: Dump) -> Result<ExitCode, Error> {
    let _ = dump.flush()?;
    let what = match &args.interface {
        Some(name) => format!("no daemon serves {name}"),
        None => "there is no daemon".to_owned(),
    };
    let mend = "read a file with -r; what passes the host's own stack is seen by tcpdump";
    Err(Error::new(what).mend(mend))
}
