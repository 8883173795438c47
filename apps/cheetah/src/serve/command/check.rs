//! `--check`: what would be served, or all that stands in the way, without an interface or a port being taken.

use std::path::Path;
use std::process::ExitCode;

use exos::Error;
use exos_host::netlink::Netlink;
use exos_program::LinkName;
use exos_program::message::results;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::announce::{describe, list};
use crate::config::Config;
use crate::log::Target;
use crate::secure::Acceptor;
use crate::serve::content::sites::{load, tell_all};

/// Says what would be served, or everything that stands in the way.
pub(super) fn check(config: &Config, on_sockets: bool) -> Result<ExitCode, Error> {
    let sites = config
        .user
        .as_user(|| Ok(load(config)))
        .unwrap_or_else(|e| Err(vec![e]));
    let allowed = exos_host::affinity::allowed();
    let places = allowed.and_then(|allowed| match on_sockets {
        true => Ok(vec![config.place_on_sockets(&allowed)?]),
        false => {
            let places = config.places(&allowed)?;
            config.attachments(&places).map(|_| places)
        }
    });
    let links = match on_sockets {
        true => Vec::new(),
        false => interfaces(config),
    };
    // Nothing is made here, a log of keys neither.
    let mut checked = config.clone();
    if let Some(tls) = &mut checked.tls {
        tls.key_log = None;
    }
    let keys = Acceptor::of(&checked, None).err();
    let log = config.user.as_user(|| log(config)).err();
    let acme = config.acme.as_ref();
    let hook = acme.and_then(|acme| acme.check_hook(&config.user).err());
    let others = log.into_iter().chain(keys).chain(hook).chain(links);
    let others = others.chain(places.as_ref().err().map(copy));
    let (sites, wrong) = match sites {
        Ok(sites) => (Some(sites), Vec::new()),
        Err(wrong) => (None, wrong),
    };
    let wrong: Vec<Error> = wrong.into_iter().chain(others).collect();
    let (Some(sites), Ok(places), true) = (sites, places, wrong.is_empty()) else {
        return Err(tell_all(wrong));
    };
    let cores: Vec<usize> = places.concat();
    let cores = (cores.len() > 1).then(|| format!("on cores {}", list(&cores)));
    let encrypted = config.tls.as_ref();
    let encrypted = encrypted.map(|tls| {
        let more = match tls.http3 {
            true => ", and of UDP for HTTP/3",
            false => ", without HTTP/3",
        };
        format!("port {} for HTTPS{more}", tls.port)
    });
    let lines = [format!("port {}", config.port)].into_iter();
    let lines = lines.chain(encrypted).chain(cores);
    let lines = lines.chain([format!("cache {}", config.cache)]);
    let lines = lines.chain(describe(config, &sites));
    // Nobody is told that all is well where that could not be said.
    results(&lines.map(|line| line + "\n").collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn copy(error: &Error) -> Error {
    Error::new(error.to_string())
}

/// The interfaces that are named and not there.
fn interfaces(config: &Config) -> Vec<Error> {
    let others = config.link.others.iter().map(|other| &other.name);
    let names = config.link.link.iter().chain(others);
    let missing = |name: &LinkName| match name {
        LinkName::Tap(_) | LinkName::Xokd(_) => None,
        name => Netlink::new()
            .and_then(|netlink| netlink.link_by_name(name.interface()))
            .err(),
    };
    let lines = &config.lines;
    let missing = names.filter_map(missing);
    missing.map(|e| lines.place(lines.link, e)).collect()
}

/// The log can be written, or be made. That does not make it.
fn log(config: &Config) -> Result<(), Error> {
    let Some(Target::File(file)) = config.log.target() else {
        return Ok(());
    };
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // With the rights to files that the thread has just now, not those of the user that started it.
    let may = |path: &Path, how| accessat(CWD, path, how, AtFlags::EACCESS);
    let may = match file.metadata() {
        Ok(about) if about.is_dir() => Err(rustix::io::Errno::ISDIR),
        Ok(_) => may(&file, Access::WRITE_OK),
        Err(_) => may(folder, Access::WRITE_OK | Access::EXEC_OK),
    };
    let lines = &config.lines;
    may.map_err(|e| {
        let what = format!("cannot open the log {}", file.display());
        let mend = "name a file in a directory that is there and may be written";
        lines.place(lines.log, Error::io(what, e).mend(mend))
    })
}
