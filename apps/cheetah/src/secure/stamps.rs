//! Whether the files of certificates and keys have changed since they were read.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::config::{Config, TlsConfig};

/// The files of a configuration, as they were.
#[derive(Clone, Debug)]
pub(super) struct Stamps(Vec<(PathBuf, Stamp)>);

/// How a file was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stamp {
    /// When it was changed, which it is, how long it is.
    There(i64, i64, u64, u64),
    Missing,
    /// It is for others to look at: root could when the program was started, and its user cannot.
    Unknown,
}

impl Stamps {
    /// Of all files that are read for TLS.
    pub(super) fn of(config: &Config, tls: &TlsConfig) -> Stamps {
        let stamp = |file: &PathBuf| (file.clone(), Stamp::of(file));
        Stamps(files(config, tls).map(stamp).collect())
    }

    /// Some file is another now. Where nobody can tell, it is not.
    pub(super) fn have_changed(&self) -> bool {
        self.0.iter().any(|(file, before)| {
            let now = Stamp::of(file);
            ![now, *before].contains(&Stamp::Unknown) && now != *before
        })
    }
}

impl Stamp {
    fn of(file: &Path) -> Stamp {
        match file.metadata() {
            Ok(it) => Stamp::There(it.ctime(), it.ctime_nsec(), it.ino(), it.len()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Stamp::Unknown,
            Err(_) => Stamp::Missing,
        }
    }
}

/// All files that are read for TLS.
pub(super) fn files<'a>(
    config: &'a Config,
    tls: &'a TlsConfig,
) -> impl Iterator<Item = &'a PathBuf> {
    let of_sites = config.sites.iter().flat_map(|site| &site.certificates);
    let all = tls.certificates.iter().chain(of_sites);
    let all = all.flat_map(|one| {
        let ocsp = one.ocsp.as_ref();
        [&one.certificate, &one.key].into_iter().chain(ocsp)
    });
    let managed = config.managed().map(|it| &it.file);
    let clients = tls.clients.iter();
    let clients = clients.flat_map(|it| std::iter::once(&it.authorities).chain(&it.revoked));
    all.chain(managed).chain(clients)
}
