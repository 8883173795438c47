//! What the command line and a configuration say of the status pages.

use exos::Error;
use exos::wire::Prefix;
use exos_host::netlink::Netlink;

use super::{Allowed, StatusPages, parse_network, parse_path};

/// Where the status pages are, and who may see them.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusArgs {
    /// Show at this path how it goes: a page; below it /metrics for Prometheus and /status.json
    #[arg(long = "status", value_name = "PATH", value_parser = parse_path)]
    pub path: Option<String>,
    /// Who may see them besides this host: addresses that begin so (repeatable)
    #[arg(long = "status-allow", value_name = "PREFIX", value_parser = parse_network)]
    pub allow: Vec<Prefix>,
}

impl StatusArgs {
    /// This, and what a file says where this says nothing.
    #[must_use]
    pub fn or(self, file: Self) -> Self {
        let is_empty = self.allow.is_empty();
        Self {
            path: self.path.or(file.path),
            allow: if is_empty { file.allow } else { self.allow },
        }
    }

    /// The pages, if they are wanted. The host's addresses are those of the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// The kernel does not tell the host's addresses.
    pub fn pages(&self) -> Result<Option<StatusPages>, Error> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        let own = Netlink::new()?.all_addresses()?;
        let own = own.into_iter().map(|address| address.ip).collect();
        let allowed = Allowed::new(own, self.allow.clone());
        Ok(Some(StatusPages::new(path, allowed)))
    }
}
