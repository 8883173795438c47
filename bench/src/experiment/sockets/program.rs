//! The programs: how each is started, and what it is asked.

use super::requests::Exchange;
use crate::stage::Stage;
use crate::stage::args::shown_as_on_the_command_line;
use crate::stage::process::{find_program, output_of, version};
use crate::stage::scratch::write;
use exos_host::{Error, Result, error::Context as _};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// A program whose sockets are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Program {
    /// redis: one process, one thread
    Redis,
    /// memcached, with one thread
    Memcached,
    /// PostgreSQL: a process for each connection
    Postgresql,
    /// iperf3: one stream
    Iperf3,
}

shown_as_on_the_command_line!(Program);

/// Whom PostgreSQL runs as, for it refuses to be root.
const USER: &str = "postgres";

/// What makes a program this user's, which still ends with us.
const AS_USER: [&str; 8] = [
    "setpriv",
    "--reuid",
    USER,
    "--regid",
    USER,
    "--init-groups",
    "--pdeathsig",
    "TERM",
];

/// What `exos run` needs for an interface of its own.
const CAPABILITIES: &str = "+net_admin,+net_raw,+sys_admin,+bpf,+perfmon,+sys_ptrace,+ipc_lock";

/// Bytes of a value.
const VALUE_LEN: usize = 100;

impl Program {
    /// What it is asked, each measured on its own.
    pub(super) fn jobs(self) -> &'static [&'static str] {
        match self {
            Self::Redis | Self::Memcached => &["set", "get"],
            Self::Postgresql => &["select"],
            Self::Iperf3 => &["receives", "sends"],
        }
    }

    /// The port that it serves.
    pub(super) fn port(self) -> u16 {
        match self {
            Self::Redis => 6379,
            Self::Memcached => 11211,
            Self::Postgresql => 5432,
            Self::Iperf3 => 5201,
        }
    }

    /// What it calls itself; an error where it, or its client, is not installed.
    pub(super) fn version(self) -> Result<String> {
        match self {
            Self::Postgresql => {
                postgresql("pgbench")?;
                output_of("id".as_ref(), &["-u", USER])?;
            }
            Self::Redis | Self::Memcached | Self::Iperf3 => {}
        }
        version(&self.file()?, "--version")
    }

    fn file(self) -> Result<PathBuf> {
        match self {
            Self::Redis => find_program("redis-server", "redis-server"),
            Self::Memcached => find_program("memcached", "memcached"),
            Self::Postgresql => postgresql("postgres"),
            Self::Iperf3 => find_program("iperf3", "iperf3"),
        }
    }

    /// Its command line behind what starts it (`exos run`, or nothing).
    pub(super) fn words(self, stage: &Stage, starter: Vec<OsString>) -> Result<Vec<OsString>> {
        let (before, after): (&[&str], Vec<OsString>) = match self {
            Self::Redis => (&[], words(&["--save", "", "--protected-mode", "no"])),
            Self::Memcached => (&[], words(&["-t", "1", "-u", "root"])),
            Self::Postgresql => {
                let database = vec!["-D".into(), database(stage)?.into()];
                (&AS_USER, database)
            }
            Self::Iperf3 => (&[], words(&["-s", "-1", "--forceflush"])),
        };
        let privileged = ["--inh-caps", CAPABILITIES, "--ambient-caps", CAPABILITIES];
        let privileged = match starter.is_empty() || before.is_empty() {
            true => &[][..],
            false => &privileged[..],
        };
        let mut all = words(before);
        all.extend(words(privileged));
        all.extend(starter);
        all.push(self.file()?.into());
        all.extend(after);
        Ok(all)
    }

    /// What a key-value store is asked first, and then again and again, and what it is to answer.
    pub(crate) fn exchanges(self, job: &str) -> [Exchange; 2] {
        let value = "x".repeat(VALUE_LEN);
        let exchange = |request: String, answer: String| Exchange { request, answer };
        let [set, get] = match self {
            Self::Memcached => [
                exchange(
                    format!("set key 0 0 {VALUE_LEN}\r\n{value}\r\n"),
                    "STORED\r\n".into(),
                ),
                exchange(
                    "get key\r\n".into(),
                    format!("VALUE key 0 {VALUE_LEN}\r\n{value}\r\nEND\r\n"),
                ),
            ],
            _ => [
                exchange(
                    format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${VALUE_LEN}\r\n{value}\r\n"),
                    "+OK\r\n".into(),
                ),
                exchange(
                    "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".into(),
                    format!("${VALUE_LEN}\r\n{value}\r\n"),
                ),
            ],
        };
        match job {
            "set" => [set.clone(), set],
            _ => [set, get],
        }
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

/// A program of PostgreSQL, of the newest version: Debian has them in folders by version.
pub(super) fn postgresql(name: &str) -> Result<PathBuf> {
    const PLACES: &str = "/usr/lib/postgresql";
    let versions = fs::read_dir(PLACES).into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .map(|entry| entry.path())
        .filter_map(|path| Some((version(&path)?, path)))
        .max();
    let found = newest.map(|(_, path)| path.join("bin").join(name));
    match found.filter(|file| file.exists()) {
        Some(file) => Ok(file),
        None => find_program(name, "postgresql"),
    }
}

/// The folder of a database that anybody may use, made when it is asked for first.
fn database(stage: &Stage) -> Result<PathBuf> {
    const SETTINGS: &str = "listen_addresses = '*'\nunix_socket_directories = ''\nfsync = off\n";
    const ACCESS: &str = "host all all 0.0.0.0/0 trust\n";
    let folder = stage.scratch.file("postgresql");
    if folder.exists() {
        return Ok(folder);
    }
    stage.scratch.directory("postgresql")?;
    let user = output_of("id".as_ref(), &["-u", USER])?;
    let user = user.trim().parse();
    let user = user.map_err(|_| Error::new(format!("there is no user {USER}")))?;
    chown(&folder, Some(user), None).context(|| "cannot give a folder to PostgreSQL")?;
    let path = folder.to_string_lossy().into_owned();
    let initdb = postgresql("initdb")?.to_string_lossy().into_owned();
    let arguments = [&AS_USER[1..], &[&initdb, "-D", &path, "-A", "trust"]].concat();
    output_of(AS_USER[0].as_ref(), &arguments)?;
    write(&folder.join("pg_hba.conf"), ACCESS)?;
    write(&folder.join("postgresql.conf"), SETTINGS)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_long_as_is_said() {
        for program in [Program::Redis, Program::Memcached] {
            let [set, get] = program.exchanges("get");
            assert!(set.request.contains(&"x".repeat(VALUE_LEN)), "{program}");
            assert!(get.answer.contains(&"x".repeat(VALUE_LEN)), "{program}");
            let [first, then] = program.exchanges("set");
            assert_eq!(first.request, then.request);
        }
    }
}
