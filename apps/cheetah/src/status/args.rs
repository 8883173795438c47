//! What the command line and a configuration say of the status pages.

use exos::Error;
use exos::wire::Prefix;
use exos_host::netlink::Netlink;

use super::{Allowed, StatusPages, parse_network, parse_path};

/// Where the status pages are, and who may see them.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusArgs {
    /// Serve a status page at this path, and below it /metrics for Prometheus and /status.json
    #[arg(long = "status", value_name = "PATH", value_parser = parse_path)]
    pub path: Option<String>,
    /// Clients that may see the status, besides this host: an address or prefix, such as 192.0.2.0/24 (repeatable)
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
