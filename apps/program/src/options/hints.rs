//! Which options mend an error of the library, which itself knows nothing of options.

use exos::{Error, ErrorKind};

/// The error, with the options that do what it says.
#[must_use]
pub fn with_options(error: Error) -> Error {
    let cores;
    let options = match error.kind {
        ErrorKind::AddressOfHost => "--share-address",
        ErrorKind::NeedsInterface => "--link xdp:INTERFACE",
        ErrorKind::NoAddress | ErrorKind::TooFewPorts => "--address",
        ErrorKind::NoDaemon => "exos daemon --interface NAME; --xokd SOCKET; --via none",
        ErrorKind::DaemonEnded => "exos daemon --interface NAME; exos daemon --clean",
        ErrorKind::NotTheDaemon => "--xokd SOCKET",
        ErrorKind::TooFewQueues { queues } => {
            cores = format!("--cores {queues}");
            &cores
        }
        _ => return error,
    };
    match &error.mend {
        Some(mend) => {
            let mend = format!("{mend} ({options})");
            error.mend(mend)
        }
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_where_they_mend() {
        let error = Error::new("no daemon").of_kind(ErrorKind::NoDaemon);
        assert_eq!(with_options(error).to_string(), "no daemon");
        let error = Error::new("no daemon").mend("do without it");
        assert_eq!(with_options(error).to_string(), "no daemon; do without it");
        let error = Error::new("no daemon").mend("do without it");
        let said = with_options(error.of_kind(ErrorKind::NoDaemon)).to_string();
        assert!(
            said.starts_with("no daemon; do without it (exos daemon"),
            "{said}"
        );
        assert!(said.ends_with("--via none)"), "{said}");
        let error = Error::new("few queues").mend("run on 2 core(s)");
        let said = with_options(error.of_kind(ErrorKind::TooFewQueues { queues: 2 })).to_string();
        assert_eq!(said, "few queues; run on 2 core(s) (--cores 2)");
    }
}
