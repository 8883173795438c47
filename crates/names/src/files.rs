//! Reads the files that say how names are looked up. The only part of this crate that performs I/O; nothing else calls it.

use crate::config::Config;
use crate::limits::FILE_BYTES_MAX;
use crate::name::Name;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// When each of the two files was last changed, and how long it is, for it may change again within a tick of its clock; `None` for
/// one that is not there.
pub type Modified = [Option<(SystemTime, u64)>; 2];

/// The two files, and the state in which they were last read.
#[derive(Clone, Debug)]
pub struct Files {
    resolv_conf: PathBuf,
    hosts: PathBuf,
    read: Option<Modified>,
}

impl Files {
    /// `/etc/resolv.conf` and `/etc/hosts`.
    pub fn of_system() -> Self {
        Self::new("/etc/resolv.conf", "/etc/hosts")
    }

    /// Files of the same kinds elsewhere.
    pub fn new(resolv_conf: impl Into<PathBuf>, hosts: impl Into<PathBuf>) -> Self {
        let (resolv_conf, hosts) = (resolv_conf.into(), hosts.into());
        Self {
            resolv_conf,
            hosts,
            read: None,
        }
    }

    /// When they were changed, for [`read_if_changed`](Self::read_if_changed). Two system calls: once a second is enough.
    pub fn modified(&self) -> Modified {
        [&self.resolv_conf, &self.hosts].map(|path| {
            let of = fs::metadata(path).ok()?;
            Some((of.modified().ok()?, of.len()))
        })
    }

    /// Reads both where they were changed since this was last called, and on the first call. A file that is not there is
    /// read as an empty one. On an error nothing counts as read.
    pub fn read_if_changed(&mut self, modified: Modified) -> io::Result<Option<Config>> {
        if self.read == Some(modified) {
            return Ok(None);
        }
        let (resolv_conf, hosts) = (read(&self.resolv_conf)?, read(&self.hosts)?);
        let mut config = Config::parse(&resolv_conf, &hosts, &interface_index);
        if !names_domains(&resolv_conf) {
            config.search.extend(local_domain());
        }
        self.read = Some(modified);
        Ok(Some(config))
    }
}

fn read(path: &Path) -> io::Result<String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn names_domains(resolv_conf: &str) -> bool {
    let keyword = |line: &str| line.split([' ', '\t']).next().unwrap_or("").to_owned();
    resolv_conf
        .lines()
        .any(|line| matches!(&*keyword(line), "search" | "domain"))
}

/// resolv.conf(5): without a line about it, the domain to search is what follows the first dot in the host's own name.
fn local_domain() -> Option<Name> {
    let hostname = read(Path::new("/proc/sys/kernel/hostname")).ok()?;
    let (_, domain) = hostname.trim().split_once('.')?;
    Name::new(domain).ok()
}

fn interface_index(name: &str) -> Option<u32> {
    // Names of interfaces have no slash, so that this stays in its folder.
    if name.contains('/') || name.starts_with('.') {
        return None;
    }
    let index = read(&Path::new("/sys/class/net").join(name).join("ifindex")).ok()?;
    index.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn files_are_read_again_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let (resolv_conf, hosts) = (
            folder.path().join("resolv.conf"),
            folder.path().join("hosts"),
        );
        let mut files = Files::new(&resolv_conf, &hosts);
        let none = files.read_if_changed(files.modified()).unwrap().unwrap();
        assert!(none.servers.is_empty());
        assert_eq!(files.read_if_changed(files.modified()).unwrap(), None);

        fs::write(&resolv_conf, b"nameserver fe80::1%lo\nsearch example\xff\n").unwrap();
        fs::write(&hosts, b"192.0.2.1 host \xff\n").unwrap();
        let config = files.read_if_changed(files.modified()).unwrap().unwrap();
        assert_eq!(config.servers, ["[fe80::1%1]:53".parse().unwrap()]);
        assert!(config.hosts.get(&Name::new("host").unwrap()).is_some());
        assert!(config.search.is_empty());

        let later = files
            .modified()
            .map(|of| of.map(|(at, len)| (at + Duration::from_secs(1), len)));
        assert!(files.read_if_changed(later).unwrap().is_some());
        assert_eq!(files.read_if_changed(later).unwrap(), None);
    }

    #[test]
    fn an_interface_is_not_a_path() {
        assert_eq!(interface_index("lo"), Some(1));
        assert_eq!(interface_index("../net/lo"), None);
        assert_eq!(interface_index(".."), None);
    }
}
