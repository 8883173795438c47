//! What is to be had, by the configuration.

use std::io;
use std::sync::Arc;

use super::store::{Lock, Store};
use crate::config::{AcmeConfig, Config, Managed};

/// What is to be had, by the configuration.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(super) config: AcmeConfig,
    pub(super) names: Vec<Managed>,
    pub(super) store: Store,
}

impl Wanted {
    pub(super) fn of(config: &Config) -> Option<Wanted> {
        let acme = config.acme.clone()?;
        Some(Wanted {
            names: config.managed().cloned().collect(),
            store: acme.store(),
            config: acme,
        })
    }

    /// A certificate of this name is, in this folder.
    pub(super) fn has(&self, store: &Store, name: &str) -> bool {
        self.store == *store && self.names.iter().any(|it| it.name == name)
    }

    /// Has no other process order in the folder; nothing where one does.
    pub(super) fn lock(&self) -> io::Result<Option<Arc<Lock>>> {
        Ok(self.store.lock()?.map(Arc::new))
    }
}
