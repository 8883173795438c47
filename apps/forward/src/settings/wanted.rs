//! What a forwarder is to do, whether the command line says it or a file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use exos::Error;
use exos_program::{LinkArgs, UserArgs};

use crate::config;
use crate::forwarder::NoServer;
use crate::health::HealthArgs;
use crate::names::{Named, To};
use crate::options::{ForwardArgs, ListenAddress, Weighted};
use crate::reach::Reach;
use crate::service::{Affinity, Balance};

/// Where clients come to, and the servers there: those of each listener's family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub listen: Vec<ListenAddress>,
    pub reach: Reach,
    /// Servers by their addresses.
    pub to: Vec<Weighted>,
    /// Servers by their names.
    pub named: Vec<Named>,
}

impl Service {
    /// A service with servers as they are written.
    pub fn new(
        listen: Vec<ListenAddress>,
        reach: Reach,
        written: impl Iterator<Item = To>,
    ) -> Self {
        let (mut to, mut named) = (Vec::new(), Vec::new());
        for server in written {
            match server {
                To::At(server) => to.push(server),
                To::Named(server) => named.push(server),
            }
        }
        Self {
            listen,
            reach,
            to,
            named,
        }
    }
}

/// All that a forwarder is told.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub user: UserArgs,
    pub link: LinkArgs,
    pub flows: u32,
    pub keep: Option<PathBuf>,
    pub control: Option<PathBuf>,
    pub in_kernel: bool,
    pub balance: Balance,
    pub affinity: Affinity,
    pub metrics: Option<SocketAddr>,
    pub no_server: NoServer,
    pub health: HealthArgs,
    /// How often names are resolved; zero for at the start alone.
    pub resolve: Duration,
    pub services: Vec<Service>,
}

impl Wanted {
    /// What the options say, or the file that they name. Of the link, an option comes before the file.
    ///
    /// # Errors
    ///
    /// The file cannot stand, with all that is wrong with it.
    pub fn of(args: &ForwardArgs) -> Result<Self, Error> {
        if let Some(file) = &args.config {
            if let Some(Some(_)) = &args.health.check {
                return Err(Error::new("the file says how servers are checked")
                    .mend("write it under [check] there; --check alone checks the file"));
            }
            let wanted = config::read(file).map_err(|errors| Error::new(errors.to_string()))?;
            return Ok(wanted.beside(args));
        }
        Ok(Self {
            user: args.user.clone(),
            link: args.link.clone(),
            flows: args.flows,
            keep: args.keep.clone(),
            control: args.control.clone(),
            in_kernel: args.in_kernel,
            balance: args.balance,
            affinity: args.affinity,
            metrics: args.metrics,
            no_server: args.no_server,
            health: args.health.clone(),
            resolve: args.resolve,
            services: vec![Service::new(
                args.listen.clone(),
                args.reach,
                args.to.iter().cloned(),
            )],
        })
    }

    /// What a file and these options say.
    #[must_use]
    pub fn beside(self, args: &ForwardArgs) -> Self {
        Self {
            user: args.user.clone().or(self.user),
            link: args.link.clone().or(self.link),
            // Of the options beside a file this one says only yes.
            in_kernel: args.in_kernel || self.in_kernel,
            ..self
        }
    }

    /// The names of servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let named = self.services.iter().flat_map(|service| &service.named);
        named.map(|named| named.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ForwardArgs,
    }

    /// An option of the link beside a file takes effect, also where it does not name the link.
    #[test]
    fn options_of_the_link_come_before_the_file() {
        let file = std::env::temp_dir().join(format!("wanted-{}.toml", std::process::id()));
        let text = "[link]\nname = \"xdp:eth0\"\naddresses = [\"10.0.0.1/24\"]\ngateways = [\"10.0.0.254\"]\n\
                    [[service]]\nlisten = [\"10.0.0.1:80\"]\nto = [\"10.0.0.2\"]\n";
        std::fs::write(&file, text).unwrap();
        let of = |more: &[&str]| {
            let words = ["forward", "--config", file.to_str().unwrap()];
            let line = Line::try_parse_from(words.iter().chain(more)).unwrap();
            Wanted::of(&line.args).unwrap().link
        };
        let (plain, changed) = (of(&[]), of(&["--address", "10.0.0.9/24", "--core", "1"]));
        assert_eq!(changed.address, ["10.0.0.9/24".parse().unwrap()]);
        assert_eq!(changed.core, [1]);
        assert_eq!((changed.link, changed.gateway), (plain.link, plain.gateway));
        let other = of(&["--link", "xdp:eth1"]);
        assert_eq!(other.link, Some("xdp:eth1".parse().unwrap()));
        assert_eq!(other.address, plain.address);
        std::fs::remove_file(&file).unwrap();
    }
}
