//! What of a policy is read at the start alone: which interfaces are served, and how.
//!
//! A gate and slot 0 are made for an interface as the policy has it then. A policy that is read again has its rules in
//! force at once; what it says of interfaces that is new waits for a daemon that takes over, and a person is told so.

use super::{Interface, Policy};

impl Policy {
    /// What the next policy says of interfaces that takes a restart: each as the words for a sentence that goes on with
    /// "takes a restart". Interfaces are known by their names; the order of a list means nothing.
    pub fn needing_restart(&self, next: &Self) -> Vec<String> {
        let of = |policy: &Self, name: &str| {
            let mut all = policy.interfaces.iter();
            all.find(|interface| interface.name == name).cloned()
        };
        let mut found = Vec::new();
        for interface in &self.interfaces {
            let name = &interface.name;
            match of(next, name).map(|other| keys(interface, &other)) {
                None => found.push(format!("serving {name} no more")),
                Some(keys) if keys.is_empty() => {}
                Some(keys) => found.push(format!("what is new of {name} ({})", keys.join(", "))),
            }
        }
        let new = next.interfaces.iter();
        let new = new.filter(|interface| of(self, &interface.name).is_none());
        found.extend(new.map(|interface| format!("serving {}", interface.name)));
        found
    }
}

/// The keys in which two tables of one interface differ, as the file has them.
fn keys(before: &Interface, after: &Interface) -> Vec<&'static str> {
    let Interface {
        name: _,
        rate,
        addresses,
        gateways,
        share_address,
    } = after;
    let differ = [
        ("rate", before.rate != *rate),
        ("addresses", sorted(&before.addresses) != sorted(addresses)),
        ("gateways", sorted(&before.gateways) != sorted(gateways)),
        ("share_address", before.share_address != *share_address),
    ];
    let differ = differ.into_iter().filter(|(_, differ)| *differ);
    differ.map(|(key, _)| key).collect()
}

fn sorted<T: Ord + Clone>(list: &[T]) -> Vec<T> {
    let mut list = list.to_vec();
    list.sort_unstable();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use exos_wire::Prefix;

    fn wire() -> Interface {
        Interface {
            name: "wire".to_owned(),
            rate: Some(1000),
            addresses: ["10.78.0.7", "10.78.0.8"]
                .map(|ip| Prefix::new(ip.parse().expect("one"), 24).expect("it has 32 bits"))
                .into(),
            gateways: Vec::new(),
            share_address: false,
        }
    }

    fn policy(interfaces: &[Interface]) -> Policy {
        Policy {
            interfaces: interfaces.to_vec(),
            ..Policy::default()
        }
    }

    #[test]
    fn each_key_is_named() {
        let gateway = "10.78.0.1".parse().expect("an address");
        let other = |change: fn(&mut Interface)| {
            let mut other = wire();
            change(&mut other);
            other
        };
        let with_gateway = Interface {
            gateways: vec![gateway],
            ..wire()
        };
        for (next, said) in [
            (wire(), None),
            (other(|w| w.addresses.reverse()), None),
            (other(|w| w.rate = None), Some("rate")),
            (other(|w| w.addresses[0].len = 16), Some("addresses")),
            (with_gateway, Some("gateways")),
            (other(|w| w.share_address = true), Some("share_address")),
            (
                other(|w| (w.rate, w.addresses) = (Some(1), Vec::new())),
                Some("rate, addresses"),
            ),
        ] {
            let needed = policy(&[wire()]).needing_restart(&policy(&[next]));
            let said = said.map(|keys| format!("what is new of wire ({keys})"));
            assert_eq!(needed, Vec::from_iter(said));
        }
    }

    #[test]
    fn interfaces_come_and_go() {
        let other = Interface {
            name: "other".to_owned(),
            ..wire()
        };
        let needed = policy(&[wire()]).needing_restart(&policy(&[other]));
        assert_eq!(needed, ["serving wire no more", "serving other"]);
    }
}
