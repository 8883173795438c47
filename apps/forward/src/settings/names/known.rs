//! What is known of names: the addresses that each has, or had when it could last be resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use exos::Error;
use exos::names::Family;

use crate::packets::reach::Reach;
use crate::settings::wanted::{Service, Wanted};
use crate::settings::written::{Named, Weighted, is_host};

/// A name, and what the resolver says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub name: String,
    pub addresses: Result<Vec<IpAddr>, String>,
    /// The family of which nobody could say whether it has addresses, and why, where it has some of the other.
    pub failed: Option<(Family, String)>,
    /// Why addresses are left out that it has.
    pub left_out: Option<String>,
}

impl Answer {
    /// Without the addresses at which these services cannot have servers, as this says of each. An answer that leaves one of
    /// them without servers by this name is an error.
    pub fn fitting(
        mut self,
        services: &[Service],
        unfit: impl Fn(IpAddr, Reach) -> Option<String>,
    ) -> Self {
        let services = services.iter().filter(|s| s.has_name(&self.name));
        let Ok(all) = &mut self.addresses else {
            return self;
        };
        all.retain(|ip| {
            let ip = ip.to_canonical();
            let mut hearing = services.clone().filter(|s| s.hears(Family::of(ip)));
            let why = hearing.find_map(|service| unfit(ip, service.reach));
            let is_fit = why.is_none();
            self.left_out = self.left_out.take().or(why);
            is_fit
        });
        let failed = self.failed.as_ref().map(|(family, _)| *family);
        let families = all.iter().map(|ip| Family::of(ip.to_canonical()));
        let families: Vec<Family> = families.chain(failed).collect();
        let has_servers = |s: &Service| families.iter().any(|family| s.hears(*family));
        if !services.clone().all(has_servers) {
            let other = || "it has no address of a listener's family".to_owned();
            self.addresses = Err(self.left_out.take().unwrap_or_else(other));
        }
        self
    }

    /// One that says all of a name.
    #[cfg(test)]
    pub fn whole(name: &str, addresses: Result<Vec<IpAddr>, String>) -> Self {
        Self {
            name: name.to_owned(),
            addresses,
            failed: None,
            left_out: None,
        }
    }
}

/// What a person is told of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It has these addresses now.
    Good(String),
    /// It cannot be resolved.
    Bad(String),
}

/// The addresses of names.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// In order: that of an answer means nothing.
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Names that could not be resolved, or not wholly, when they were last asked for, and why.
    failures: BTreeMap<String, String>,
}

impl Known {
    /// Takes an answer in. What it says is news when it is not what was said before.
    pub fn note(&mut self, answer: Answer) -> Option<News> {
        let Answer {
            name,
            addresses,
            failed,
            left_out,
        } = answer;
        let addresses = addresses.map(|all| {
            let all = all.into_iter().map(|ip| ip.to_canonical());
            all.filter(is_host).collect::<BTreeSet<IpAddr>>()
        });
        let mut addresses = match addresses {
            Ok(addresses) if !addresses.is_empty() => addresses,
            Ok(_) => return self.fail(name, "it has no address".into()),
            Err(error) => return self.fail(name, error),
        };
        let half = failed.map(|(family, why)| {
            let before = self.addresses.get(&name).into_iter().flatten();
            addresses.extend(before.filter(|ip| Family::of(**ip) == family));
            format!("of {family}, {why}")
        });
        let left_out = left_out.map(|why| format!("left out: {why}"));
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        let is_new = self.addresses.get(&name) != Some(&addresses);
        let all: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let stands_for = format!("{name} stands for {}", all.join(", "));
        self.addresses.insert(name.clone(), addresses);
        match half.or(left_out) {
            Some(why) => {
                let said = format!("{stands_for}; but {why}");
                let is_told = self.failures.insert(name, why).is_some();
                (is_new || !is_told).then_some(News::Bad(said))
            }
            None => {
                let was_gone = self.failures.remove(&name).is_some();
                (was_gone || is_new).then_some(News::Good(stands_for))
            }
        }
    }

    fn fail(&mut self, name: String, why: String) -> Option<News> {
        let kept = match self.is_known(&name) {
            true => "; its servers stay as they are",
            false => "",
        };
        let said = format!("the name {name} cannot be resolved: {why}{kept}");
        let is_new = self.failures.insert(name, why).is_none();
        is_new.then_some(News::Bad(said))
    }

    /// Forgets names that are not wanted: nobody follows them.
    pub fn keep(&mut self, wanted: &Wanted) {
        let names: BTreeSet<&str> = wanted.names().collect();
        self.addresses
            .retain(|name, _| names.contains(name.as_str()));
        self.failures
            .retain(|name, _| names.contains(name.as_str()));
    }

    /// What could not be resolved so far may be by now.
    pub fn forget_failures(&mut self) {
        let addresses = &self.addresses;
        self.failures.retain(|name, _| addresses.contains_key(name));
    }

    /// Names that could not be resolved wholly the last time, and why.
    pub fn failures(&self) -> &BTreeMap<String, String> {
        &self.failures
    }

    fn is_known(&self, name: &str) -> bool {
        self.addresses.contains_key(name)
    }

    /// Why it has no address, as a sentence; `None` when it has, or was not tried.
    pub fn why_not(&self, name: &str) -> Option<String> {
        let why = self.failures.get(name).filter(|_| !self.is_known(name))?;
        Some(format!("the name {name} cannot be resolved: {why}"))
    }

    /// The first of the names whose addresses are not known.
    pub fn first_unknown<'a>(&self, wanted: &'a Wanted) -> Option<&'a Named> {
        let mut named = wanted.services.iter().flat_map(|service| &service.named);
        named.find(|named| !self.is_known(&named.name))
    }

    /// What is told of a name that cannot be resolved, with the place where it is written.
    pub fn unresolved(&self, named: &Named, file: Option<&Path>) -> Error {
        let Named { name, line, .. } = named;
        let place = match file {
            Some(file) => format!("{}:{line}", file.display()),
            None if *line > 0 => format!("line {line} of the file"),
            None => "--to".to_owned(),
        };
        let why = self.why_not(name).unwrap_or_default();
        Error::new(format!("{place}: {why}"))
            .mend("correct it, see what /etc/hosts and the name servers of /etc/resolv.conf say, or write addresses")
    }

    /// What is wanted, with all addresses that its names have now. One that is there already is not there twice.
    ///
    /// # Errors
    ///
    /// A name has no address of a family that is listened for.
    pub fn filled(&self, wanted: &Wanted) -> Result<Wanted, Error> {
        let mut filled = wanted.clone();
        for service in &mut filled.services {
            for named in std::mem::take(&mut service.named) {
                self.fill(service, &named)?;
            }
        }
        Ok(filled)
    }

    fn fill(&self, service: &mut Service, named: &Named) -> Result<(), Error> {
        let Named {
            name, port, weight, ..
        } = named;
        let is_heard = |ip: &&IpAddr| service.hears(Family::of(**ip));
        let all = self.addresses.get(name).map_or(&[][..], Vec::as_slice);
        let fitting: Vec<IpAddr> = all.iter().filter(is_heard).copied().collect();
        if fitting.is_empty() {
            let what = format!(
                "nothing is forwarded to {name}, of whose addresses none is of a listener's family"
            );
            return Err(
                Error::new(what).mend("listen at an address of that family too, or leave it out")
            );
        }
        for ip in fitting {
            let (port, weight) = (*port, *weight);
            let server = Weighted { ip, port, weight };
            let is_there = service.listen.iter().any(|place| {
                let end = |s: &Weighted| (s.ip, s.port.unwrap_or(place.at.port()));
                service.to.iter().any(|other| end(other) == end(&server))
            });
            if !is_there {
                service.to.push(server);
            }
        }
        Ok(())
    }

    /// The name of each address that has one.
    pub fn by_address(&self) -> impl Iterator<Item = (IpAddr, &str)> {
        let all = self.addresses.iter();
        all.flat_map(|(name, all)| all.iter().map(|ip| (*ip, name.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::config;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn answer(name: &str, texts: &[&str]) -> Answer {
        Answer::whole(name, Ok(ips(texts)))
    }

    fn wanted(service: &str) -> Wanted {
        config::of_text(&format!("[[service]]\n{service}")).unwrap()
    }

    /// The order of an answer, and what is in it twice, says nothing.
    #[test]
    fn only_another_set_is_news() {
        let mut known = Known::default();
        let good = |text: &str| Some(News::Good(text.into()));
        let first = known.note(answer("web", &["10.0.0.3", "10.0.0.2"]));
        assert_eq!(first, good("web stands for 10.0.0.2, 10.0.0.3"));
        assert_eq!(
            known.note(answer("web", &["10.0.0.2", "10.0.0.3", "::ffff:10.0.0.2"])),
            None
        );
        let less = known.note(answer("web", &["10.0.0.3", "0.0.0.0"]));
        assert_eq!(less, good("web stands for 10.0.0.3"));
    }

    /// Who cannot be resolved for a while keeps its addresses, and is told once.
    #[test]
    fn failures_are_told_once_and_change_nothing() {
        let mut known = Known::default();
        let gone = || Answer::whole("web", Err("no such name".to_owned()));
        known.note(answer("web", &["10.0.0.2"]));
        let said = known.note(gone());
        assert!(
            matches!(&said, Some(News::Bad(text)) if text.contains("no such name; its servers stay")),
            "{said:?}"
        );
        assert_eq!(known.note(gone()), None);
        assert_eq!(known.note(answer("web", &[])), None);
        assert_eq!(
            known.by_address().collect::<Vec<_>>(),
            [(ips(&["10.0.0.2"])[0], "web")]
        );
        assert!(
            known.note(answer("web", &["10.0.0.2"])).is_some(),
            "it is back"
        );
        assert!(known.note(gone()).is_some());
    }

    /// A family that cannot be asked for keeps its addresses while the other is followed.
    #[test]
    fn a_family_that_fails_keeps_its_addresses() {
        let mut known = Known::default();
        let half = |texts: &[&str]| Answer {
            failed: Some((Family::Ipv6, "nobody answered".to_owned())),
            ..answer("web", texts)
        };
        let all = |known: &Known| known.by_address().map(|(ip, _)| ip).collect::<Vec<_>>();
        known.note(answer("web", &["10.0.0.2", "fd00::2"]));
        let Some(News::Bad(said)) = known.note(half(&["10.0.0.3"])) else {
            panic!("it is told");
        };
        let wanted = "web stands for 10.0.0.3, fd00::2; but of IPv6, nobody answered";
        assert_eq!(said, wanted);
        assert_eq!(all(&known), ips(&["10.0.0.3", "fd00::2"]));
        assert_eq!(known.failures()["web"], "of IPv6, nobody answered");
        assert_eq!(known.note(half(&["10.0.0.3"])), None, "it is told once");
        known.note(answer("web", &["10.0.0.3"]));
        assert_eq!(all(&known), ips(&["10.0.0.3"]));
        assert!(known.failures().is_empty());
    }

    /// What cannot be a server of a service is left out; a service without a server by a name is left as it is.
    #[test]
    fn addresses_that_do_not_fit_are_left_out() {
        let text = "listen = [\"10.0.0.9:80\"]\nto = [\"web\"]";
        let services = wanted(text).services;
        let fitting = |texts: &[&str]| {
            let unfit = |ip: IpAddr, _| {
                (ip.is_ipv6() || ip == ips(&["10.0.0.9"])[0]).then(|| format!("{ip} is ours"))
            };
            answer("web", texts).fitting(&services, unfit)
        };
        let mut known = Known::default();
        let said = known.note(fitting(&["10.0.0.2", "fd00::2"]));
        assert!(
            matches!(said, Some(News::Good(_))),
            "nobody listens for that"
        );
        let said = known.note(fitting(&["::ffff:10.0.0.9", "10.0.0.3"]));
        let wanted = "web stands for 10.0.0.3; but left out: 10.0.0.9 is ours";
        assert_eq!(said, Some(News::Bad(wanted.to_owned())));
        for (texts, why) in [
            (&["10.0.0.9", "fd00::2"][..], "10.0.0.9 is ours"),
            (&["fd00::2"], "it has no address of a listener's family"),
        ] {
            known.note(fitting(texts));
            assert_eq!(known.failures()["web"], why);
            let all: Vec<IpAddr> = known.by_address().map(|(ip, _)| ip).collect();
            assert_eq!(all, ips(&["10.0.0.3"]));
        }
        let other = answer("other", &["10.0.0.9"]);
        assert_eq!(other.clone().fitting(&services, |_, _| None), other);
    }

    #[test]
    fn names_become_servers_of_the_families_that_are_listened_for() {
        let text = "listen = [\"10.0.0.9:80\"]\nto = [\"10.0.0.1:80\", \"web,3\", \"other\"]";
        let wanted = wanted(text);
        let mut known = Known::default();
        assert_eq!(
            known
                .first_unknown(&wanted)
                .map(|n| (n.name.as_str(), n.line)),
            Some(("web", 3))
        );
        known.note(answer("web", &["fd00::2", "10.0.0.2", "10.0.0.1"]));
        known.note(answer("other", &["10.0.0.2", "10.0.0.4"]));
        let filled = known.filled(&wanted).unwrap();
        let to: Vec<_> = filled.services[0]
            .to
            .iter()
            .map(|s| (s.ip, s.weight))
            .collect();
        let all = ips(&["10.0.0.1", "10.0.0.2", "10.0.0.4"]);
        assert_eq!(to, [(all[0], 1), (all[1], 3), (all[2], 1)]);
        known.note(answer("gone", &["10.0.0.9"]));
        known.keep(&wanted);
        assert!(known.by_address().all(|(_, name)| name != "gone"));
        known.note(answer("other", &["fd00::4"]));
        let refused = known.filled(&wanted).unwrap_err().to_string();
        assert!(
            refused.contains("nothing is forwarded to other"),
            "{refused}"
        );
    }

    #[test]
    fn who_cannot_be_resolved_is_told_with_its_place() {
        let wanted = wanted("listen = [\"10.0.0.9:80\"]\nto = [\"web\"]");
        let mut known = Known::default();
        known.note(Answer::whole("web", Err("no such name".into())));
        let named = known.first_unknown(&wanted).unwrap();
        let said = known
            .unresolved(named, Some(Path::new("f.toml")))
            .to_string();
        assert!(
            said.starts_with("f.toml:3: the name web cannot be resolved: no such name"),
            "{said}"
        );
    }
}
