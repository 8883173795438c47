//! What the command line and a configuration say of the status pages.

use exos::Error;
use exos::wire::Prefix;
use exos_host::netlink::Netlink;

use super::allowed::Allowed;
use super::pages::StatusPages;
use crate::site::rules::access::networks::parse_network;

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

/// A path that status pages may have: `/` and names of letters, digits, `-`, `_` and `.`, none of them empty or of dots
/// alone, so that no encoding of it is another.
///
/// # Errors
///
/// What it should look like.
pub fn parse_path(text: &str) -> Result<String, String> {
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = |name: &str| name.chars().all(usual) && !matches!(name, "" | "." | "..");
    match text.strip_prefix('/') {
        Some(names) if names.split('/').all(is_name) => Ok(text.to_owned()),
        _ => Err("it begins with a slash and has names of letters, digits, -, _ and dots: for example /.exos".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_one_form() {
        for path in ["/.exos", "/a/b-c_d.1"] {
            assert_eq!(parse_path(path).as_deref(), Ok(path));
        }
        for path in [
            "", "/", "a", "/a/", "//a", "/a/../b", "/./a", "/a b", "/%41", "/a?b",
        ] {
            parse_path(path).expect_err(path);
        }
    }
}
