//! On which cores the server runs, and on which of its links each.

use exos::{Attachment, Error, Role};
use exos_program::Needs;
use exos_program::cores::{self, by_links, choose};

use super::file::Config;

impl Config {
    /// How many cores are to serve.
    fn core_count(&self) -> usize {
        let listed = self.link.core.len().max(1);
        self.cores.map_or(listed, |cores| cores as usize)
    }

    /// HTTP/3 is spoken at the port of HTTPS.
    pub(crate) fn speaks_http3(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.http3)
    }

    /// The ports at which it listens.
    fn ports(&self) -> Vec<u16> {
        let encrypted = self.tls.as_ref().map(|tls| tls.port);
        [self.port].into_iter().chain(encrypted).collect()
    }

    /// What is asked of the library for each link, which has these [places](Self::places).
    ///
    /// # Errors
    ///
    /// The options contradict each other.
    pub(crate) fn attachments(&self, places: &[Vec<usize>]) -> Result<Vec<Attachment>, Error> {
        let needs = places.iter().map(|cores| Needs {
            cores: cores.len().max(1) as u32,
            datagrams: self.speaks_http3(),
            ..Needs::new(Role::Serve(self.ports()))
        });
        self.link.attachments(&needs.collect::<Vec<_>>())
    }

    /// The cores of each link, of those that this process may use; none for one loop that runs anywhere.
    ///
    /// # Errors
    ///
    /// There are not as many, or others are named.
    pub(crate) fn places(&self, allowed: &[usize]) -> Result<Vec<Vec<usize>>, Error> {
        let (links, named) = (self.link.each()?, &self.link.core[..]);
        let count = match self.cores {
            None if named.is_empty() => by_links(links.len(), allowed),
            _ => self.core_count(),
        };
        cores::places(&links, count, named, allowed)
    }

    /// Where a server on the kernel's sockets runs, which has one loop.
    ///
    /// # Errors
    ///
    /// It may not run where it is to run, or several cores are asked for.
    pub(crate) fn place_on_sockets(&self, allowed: &[usize]) -> Result<Vec<usize>, Error> {
        let count = self.core_count();
        if count > 1 {
            return Err(Error::new(format!(
                "{count} cores are to serve, and on sockets the server is one loop"
            ))
            .mend("leave --sockets out; or --cores, and name one --core at most (`cores` and `core` of [link] in the file)"));
        }
        choose(count, &self.link.core, allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_cores() {
        let mut config = Config::of(crate::config::Root::Example);
        let link = |name: &str, address: &str| exos_program::NamedLink {
            name: name.parse().unwrap(),
            address: vec![address.parse().unwrap()],
            gateway: Vec::new(),
            route: Vec::new(),
        };
        let allowed = [1, 2, 5];
        assert_eq!(config.places(&allowed).unwrap(), [Vec::<usize>::new()]);
        config.link.link = Some("xdp:eth0".parse().unwrap());
        config.link.address = vec!["192.0.2.7/24".parse().unwrap()];
        assert_eq!(config.places(&allowed).unwrap(), [Vec::<usize>::new()]);
        config.link.others = vec![link("xdp:eth1", "198.51.100.7/24")];
        let attached = |config: &Config| {
            let places = config.places(&allowed).unwrap();
            (config.attachments(&places).unwrap().len(), places)
        };
        assert_eq!(attached(&config), (2, vec![vec![1], vec![2]]));
        config.cores = Some(1);
        assert_eq!(attached(&config), (2, vec![vec![1], vec![1]]));
        config.cores = Some(3);
        assert_eq!(attached(&config), (2, vec![vec![1, 5], vec![2]]));
        config.cores = None;
        config.link.core = vec![5];
        assert_eq!(attached(&config), (2, vec![vec![5], vec![5]]));
        config.link.others[0] = link("xdp:eth0:1", "198.51.100.7/24");
        let error = config.places(&allowed).unwrap_err().to_string();
        assert!(error.contains("eth0 is named twice"), "{error}");
    }

    #[test]
    fn on_sockets_there_is_one_loop() {
        let mut config = Config::of(crate::config::Root::Example);
        config.syn_handler = true; // Without effect there.
        assert!(config.place_on_sockets(&[1, 2]).unwrap().is_empty());
        config.link.core = vec![2];
        assert_eq!(config.place_on_sockets(&[1, 2]).unwrap(), [2]);
        config.link.core = vec![2, 1];
        let error = config.place_on_sockets(&[1, 2]).unwrap_err().to_string();
        assert!(error.contains("2 cores are to serve"), "{error}");
        config.link.core.clear();
        config.cores = Some(3);
        let error = config.place_on_sockets(&[1, 2]).unwrap_err().to_string();
        assert!(error.contains("3 cores are to serve"), "{error}");
    }
}
