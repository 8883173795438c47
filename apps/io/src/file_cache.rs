//! `exos file-cache`: the service, and what it says of itself.

use crate::limits::MEMORY;
use exos_file_cache::{Client, Options, Service, User, place};
use exos_host::accounts::Account;
use exos_host::caps::CapabilitySet;
use exos_host::privilege;
use exos_host::units::parse_size;
use exos_host::{Error, Result};
use exos_replacement::PolicyName;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Keep files in memory that the programs of a user, or of several, share, each once.
///
/// A program opens a file, and has what it reads of it by reference: exos io cat, wc and grep do. What was read does not change, whatever
/// becomes of the file. It runs until it is ended, which costs programs nothing: they read on by themselves.
#[derive(clap::Args, Debug)]
pub struct FileCacheArgs {
    /// Where programs find it [default: file-cache.sock in $XDG_RUNTIME_DIR/exos, /run/exos-0 or /tmp/exos-UID; with --users in /run/exos]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Memory for files, 8m to 1008m
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = parse_size)]
    memory: u64,
    /// What goes when there is no room: s3-fifo, lru or gds (GreedyDual-Size)
    #[arg(long, value_name = "NAME", default_value_t)]
    policy: PolicyName,
    /// Serve these users, with what all of them may read: names, numbers or `all`, each with what its programs may keep of the memory
    /// (`alice=64m`), a quarter by default. Without it only the user who runs it is served, with all that this user may read
    #[arg(long, value_name = "USER[=SIZE],...", value_delimiter = ',')]
    users: Vec<User>,
    /// With --users: which user it becomes, with CAP_LEASE alone, when its socket is there. Programs of that user can end it [default: exos, if there is
    /// such a user, else nobody]
    #[arg(long, value_name = "USER[:GROUP]", requires = "users")]
    user: Option<Account>,
    /// Print how the one that runs is used, and exit
    #[arg(long, conflicts_with_all = ["memory", "policy", "users", "user"])]
    status: bool,
    /// With --status: as one line of JSON
    #[arg(long, requires = "status")]
    json: bool,
}

/// How the file cache is used, by name: bytes and programs as they are now, the rest since it began.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatisticsReport {
    /// `exos.file-cache/1`.
    pub schema: String,
    /// The numbers.
    pub statistics: BTreeMap<String, u64>,
}

/// The user of a service of several users, where there is one of that name.
const OWN_USER: &str = "exos";

/// The user and group that have no files, by number. Other services are theirs, too.
const NOBODY: &str = "65534:65534";

fn told(error: exos_file_cache::Error) -> Error {
    Error::new(error.to_string())
}

/// Serves, or shows how the one that does is used.
pub fn run(args: &FileCacheArgs) -> Result<ExitCode> {
    if args.status {
        return show(args.socket.as_deref(), args.json);
    }
    let path = args.socket.clone();
    let path = path.unwrap_or_else(|| match args.users.is_empty() {
        true => place::socket(),
        false => PathBuf::from(place::HOST_SOCKET),
    });
    let options = Options {
        memory: args.memory,
        policy: args.policy.policy(),
        users: args.users.clone(),
    };
    let mut service = Service::new(&path, options).map_err(told)?;
    if !args.users.is_empty() {
        // What all may read any user may read; leases are for owners.
        let own = args.user.clone().map_or_else(
            || OWN_USER.parse().or_else(|_| NOBODY.parse()),
            Ok::<_, String>,
        );
        privilege::give_up_but(&own.map_err(Error::new)?, CapabilitySet::LEASE)?;
    }
    exos_host::info!(
        "file cache of {} MiB at {}",
        args.memory >> 20,
        path.display()
    );
    service.run().map_err(told)?;
    Ok(ExitCode::SUCCESS)
}

fn show(path: Option<&Path>, is_json: bool) -> Result<ExitCode> {
    let client = path.map_or_else(Client::find, Client::connect);
    let statistics = client.and_then(|mut client| client.statistics());
    let statistics = statistics.map_err(told)?.by_name();
    if is_json {
        let statistics = statistics.map(|(name, number)| (name.to_owned(), number));
        let report = StatisticsReport {
            schema: "exos.file-cache/1".to_owned(),
            statistics: statistics.into_iter().collect(),
        };
        let line = serde_json::to_string(&report);
        exos_host::say!("{}", line.map_err(|error| Error::new(error.to_string()))?);
        return Ok(ExitCode::SUCCESS);
    }
    for (name, number) in statistics {
        exos_host::say!("{name:16} {number}");
    }
    Ok(ExitCode::SUCCESS)
}
