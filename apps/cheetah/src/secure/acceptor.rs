//! What all cores share of TLS: certificates, policy and the keys of tickets. Another configuration may come at any time: new
//! sessions begin with it, others go on with theirs, and tickets stay good unless clients are verified by others.
//!
//! A thread looks whether the files have changed ([`Acceptor::follow`]), and takes them when they belong together: who
//! writes a certificate and its key writes one of them first.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use exos::{Error, ErrorKind};
use exos_host::affinity;
use exos_tls::certificate::UnixSecs;
use rustls::ServerConfig;

use super::reading::{Current, Source, read};
use super::stamps::{self, Stamps};
use crate::acme::Acme;
use crate::config::{Config, TlsConfig};
use crate::limits::{CERTIFICATES_TELL_TIME, CERTIFICATES_TIME};

/// What accepts sessions. All loops have the same one.
#[derive(Debug)]
pub struct Acceptor {
    port: u16,
    /// What reads has this for as long as that takes: one configuration is not overtaken by an older one.
    source: Mutex<Source>,
    current: RwLock<Current>,
    /// What gets certificates, where they come by themselves.
    acme: Option<Arc<Acme>>,
}

impl Acceptor {
    /// Of a configuration, if that wants TLS, and what gets certificates for it. What an operator should know of its certificates is said on standard error.
    ///
    /// # Errors
    ///
    /// What is wrong with certificates and keys.
    pub fn of(config: &Config, acme: Option<Arc<Acme>>) -> Result<Option<Arc<Acceptor>>, Error> {
        let Some(tls) = &config.tls else {
            return Ok(None);
        };
        let stamps = Stamps::of(config, tls);
        let (source, current) = read(config, tls, stamps, None, acme.as_ref())?;
        warn_of_unreadable(config, tls);
        Ok(Some(Arc::new(Acceptor {
            port: tls.port,
            source: Mutex::new(source),
            current: RwLock::new(current),
            acme,
        })))
    }

    /// Sessions begin with this from now on. With what there was before, for as long as this program's user cannot read the files: that
    /// is said on standard error.
    ///
    /// # Errors
    ///
    /// What is wrong with certificates and keys: sessions begin with what there was.
    pub fn reload(&self, config: &Config) -> Result<(), Error> {
        let mut source = self.source();
        let Some(tls) = &config.tls else {
            return Ok(());
        };
        let acme = self.acme.as_deref();
        let wanted = acme.map_or(Ok(None), |acme| acme.prepare(config))?;
        let stamps = Stamps::of(config, tls);
        match self.take(&mut source, config, stamps.clone()) {
            Err(error) if error.kind == ErrorKind::NoPermission => {
                // Sessions begin with it when that is mended: its files are looked at from now on.
                (source.config, source.stamps) = (config.clone(), stamps);
                tell(error, config);
            }
            taken => taken?,
        }
        // What else was wrong would have left orders as they were.
        if let (Some(acme), Some(wanted)) = (acme, wanted) {
            acme.want(wanted);
        }
        Ok(())
    }

    /// Has a thread on these cores look whether the files change, and another get certificates where they come by themselves, for as
    /// long as anybody has this.
    ///
    /// # Errors
    ///
    /// There is no thread to be had.
    pub fn follow(self: &Arc<Self>, cores: &[usize]) -> Result<(), Error> {
        let acceptor = Arc::downgrade(self);
        let follow = move || {
            let mut told = Instant::now();
            loop {
                std::thread::sleep(CERTIFICATES_TIME);
                let Some(acceptor) = acceptor.upgrade() else {
                    return;
                };
                let is_due = told.elapsed() >= CERTIFICATES_TELL_TIME;
                if is_due {
                    told = Instant::now();
                }
                acceptor.look_again(is_due);
            }
        };
        let started = affinity::spawn("certificates", cores, follow);
        let what = "cannot start following certificates";
        started.map_err(|e| Error::io(what, e))?;
        let acceptor = Arc::downgrade(self);
        let take = move || {
            if let Some(acceptor) = acceptor.upgrade() {
                acceptor.look_again(false);
            }
        };
        self.acme
            .as_ref()
            .map_or(Ok(()), |it| it.start(cores, take))
    }

    /// Takes files that have changed, or looks at them in any case: so that it is told when one is about to end. A change that is
    /// of no use is told of once, until they change again.
    pub(crate) fn look_again(&self, in_any_case: bool) {
        let mut source = self.source();
        let has_changed = source.stamps.have_changed();
        if !has_changed && !in_any_case {
            return;
        }
        let config = source.config.clone();
        let Some(tls) = &config.tls else {
            return;
        };
        let stamps = Stamps::of(&config, tls);
        match self.take(&mut source, &config, stamps.clone()) {
            Ok(()) if has_changed => exos_program::info!("exos serve: certificates read again"),
            Ok(()) => {}
            Err(error) => {
                source.stamps = stamps;
                tell(error, &config);
            }
        }
    }

    /// Reads a configuration, whose files are so now.
    fn take(&self, source: &mut Source, config: &Config, stamps: Stamps) -> Result<(), Error> {
        let Some(tls) = &config.tls else {
            return Ok(());
        };
        let (new, current) = read(config, tls, stamps, Some(source), self.acme.as_ref())?;
        *source = new;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(())
    }

    /// What gets certificates, where they come by themselves.
    pub fn acme(&self) -> Option<&Arc<Acme>> {
        self.acme.as_ref()
    }

    /// The port of TLS.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What a session begins with now.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current().config.clone()
    }

    /// When the first of the certificates is not valid any more.
    pub fn expires(&self) -> Option<UnixSecs> {
        self.current().expires
    }

    /// Has sessions begin with this.
    #[cfg(test)]
    pub(super) fn begin_with(&self, config: Arc<ServerConfig>) {
        let expires = None;
        *self.current.write().unwrap() = Current { config, expires };
    }

    fn current(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self) -> MutexGuard<'_, Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was read before stays in use: says why, and what to do.
fn tell(error: Error, config: &Config) {
    let error = match (&config.user.user, error.kind) {
        (Some(user), ErrorKind::NoPermission) => error.mend(format!(
            "have {} read it (chgrp and chmod g+r, or setfacl), or start the program again",
            user.name
        )),
        _ => error,
    };
    exos_program::warn!(
        "exos serve: {error}; what was read before stays in use until that is mended"
    );
}

/// Says so when files are not for the program's user to read: renewed ones will not be taken.
fn warn_of_unreadable(config: &Config, tls: &TlsConfig) {
    let Some(user) = &config.user.user else {
        return;
    };
    let managed = |file: &PathBuf| config.managed().any(|it| it.file == *file);
    for file in stamps::files(config, tls).filter(|it| !managed(it)) {
        let name = file.display();
        let open = || {
            let opened = std::fs::File::open(file);
            opened.map_err(|e| Error::io(format!("cannot read {name}"), e))
        };
        if let Err(error) = config.user.as_user(open) {
            let user = &user.name;
            exos_program::warn!(
                "exos serve: {user} {}: once it is renewed, the program has to be started again; or have {user} read it (chgrp and chmod g+r, or setfacl)",
                error.sentence()
            );
        }
    }
}
