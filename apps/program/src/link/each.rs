//! Several links: the options of each by itself, and what must not be on two of them.

use std::net::IpAddr;

use exos::{Attachment, Error, Prefixed};

use super::args::{LinkArgs, NamedLink, Needs};
use super::name::LinkName;

impl LinkArgs {
    /// How many links are named, or one that is chosen.
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The options of each link by itself, the first one first; one where none is named.
    ///
    /// # Errors
    ///
    /// Two links are one interface or have an address in common, one is none by AF_XDP, or none has a use for
    /// `--share-address`.
    pub fn each(&self) -> Result<Vec<Self>, Error> {
        let mut all = self.divided();
        if self.others.is_empty() {
            return Ok(all);
        }
        refuse_twice(&all)?;
        let names = || all.iter().filter_map(|link| link.link.as_ref());
        if !names().all(|name| matches!(name, LinkName::Xdp { .. })) {
            return Err(
                Error::new("a program on several links opens each of them by AF_XDP")
                    .mend("give --link xdp:INTERFACE for each, or run a program on each link"),
            );
        }
        for link in &mut all {
            link.share_address &= link.address.is_empty();
        }
        if self.share_address && all.iter().all(|link| !link.share_address) {
            return Err(
                Error::new("--share-address is for a link without an address of its own").mend(
                    "leave it out, or the --address of the link whose addresses are to be shared",
                ),
            );
        }
        Ok(all)
    }

    /// [`Self::each`], whatever they have in common.
    pub fn divided(&self) -> Vec<Self> {
        let first = Self {
            others: Vec::new(),
            ..self.clone()
        };
        let other = |other: &NamedLink| Self {
            link: Some(other.name.clone()),
            address: other.address.clone(),
            gateway: other.gateway.clone(),
            route: other.route.clone(),
            ..first.clone()
        };
        let others: Vec<Self> = self.others.iter().map(other).collect();
        std::iter::once(first).chain(others).collect()
    }

    /// What is asked of the library for each link, by what the program wants of it.
    ///
    /// # Errors
    ///
    /// As [`each`](Self::each), or the options of a link contradict each other.
    pub fn attachments(&self, needs: &[Needs]) -> Result<Vec<Attachment>, Error> {
        let each = self.each()?;
        let attachment = |(link, needs): (&Self, &Needs)| {
            let wanted = link.attachment(needs);
            match &link.link {
                Some(name) if each.len() > 1 => wanted.map_err(|e| on(name.interface(), e)),
                _ => wanted,
            }
        };
        each.iter().zip(needs).map(attachment).collect()
    }
}

/// Of several links the error says which one it is about.
pub(crate) fn on(interface: &str, error: Error) -> Error {
    Error {
        what: format!("on {interface}: {}", error.what),
        ..error
    }
}

fn refuse_twice(links: &[LinkArgs]) -> Result<(), Error> {
    let interface = |link: &LinkArgs| Some(link.link.as_ref()?.interface().to_owned());
    let interfaces = links.iter().filter_map(interface);
    if let Some(name) = first_double(interfaces) {
        return Err(Error::new(format!("{name} is named twice as a link"))
            .mend("give it once, with all its addresses"));
    }
    let ours = |link: &LinkArgs| link.address.iter().map(ip).collect::<Vec<_>>();
    match first_double(links.iter().flat_map(ours)) {
        None => Ok(()),
        Some(address) => Err(Error::new(format!("{address} is given twice"))
            .mend("an address is on one interface: give each its own")),
    }
}

fn ip(address: &Prefixed) -> IpAddr {
    address.ip
}

/// The first that was there before.
fn first_double<T: PartialEq>(all: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = Vec::new();
    for one in all {
        if seen.contains(&one) {
            return Some(one);
        }
        seen.push(one);
    }
    None
}
