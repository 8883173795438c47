//! Reading the policy file: what TOML says, turned into what it means, with the line of every complaint.

use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::str::FromStr;

use exos_filter::gate::limits::RATE_MAX;
use exos_filter::{Filter, ParseError};
use exos_host::units;
use exos_xok::Protocol;
use serde::Deserialize;
use toml::Spanned;

use super::{Dump, Interface, Mode, Policy, PolicyError, Rule, Subject, accounts};
use crate::limits::{HANDLER_STEPS_MIN, POLICY_BYTES_MAX, UNPRIVILEGED_PORT};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    interface: Vec<Spanned<InterfaceTable>>,
    #[serde(default)]
    allow: Vec<Spanned<AllowTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceTable {
    name: Spanned<String>,
    rate: Option<Spanned<String>>,
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    #[serde(default)]
    gateways: Vec<Spanned<String>>,
    #[serde(default)]
    share_address: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowTable {
    user: Option<Spanned<String>>,
    group: Option<Spanned<String>>,
    #[serde(default)]
    anyone: bool,
    interface: Option<Spanned<String>>,
    addresses: Option<Spanned<OneOrMany>>,
    protocols: Option<Vec<Spanned<String>>>,
    ports: Option<Vec<Spanned<String>>>,
    filters: Option<Vec<Spanned<String>>>,
    modes: Option<Vec<Spanned<String>>>,
    queues: Option<Vec<Spanned<String>>>,
    weight: Option<Spanned<u32>>,
    rate_max: Option<Spanned<String>>,
    memory_max: Option<Spanned<String>>,
    programs_max: Option<Spanned<u32>>,
    handler_steps: Option<Spanned<u64>>,
    dump: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

/// Reads and checks a policy file.
pub fn read(file: &Path) -> Result<Policy, PolicyError> {
    let refuse = |what: String| PolicyError::new(file, 0, what);
    let about = std::fs::metadata(file).map_err(|e| refuse(format!("cannot be read: {e}")))?;
    if about.len() > POLICY_BYTES_MAX {
        return Err(refuse(format!("is longer than {POLICY_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|e| refuse(format!("cannot be read: {e}")))?;
    parse(file, &text)
}

/// Checks the text of a policy file.
pub(super) fn parse(file: &Path, text: &str) -> Result<Policy, PolicyError> {
    let source = Source { file, text };
    let tables: File = toml::from_str(text).map_err(|e| {
        let at = e.span().unwrap_or(0..0);
        source.error(&at, e.message())
    })?;
    let interfaces = tables.interface.into_iter().map(|t| source.interface(t));
    let interfaces: Vec<Interface> = interfaces.collect::<Result<_, _>>()?;
    if interfaces.is_empty() {
        return Err(PolicyError::new(
            file,
            0,
            "names no interface; write [[interface]] and name = \"eth0\" below it",
        ));
    }
    let rules = tables
        .allow
        .into_iter()
        .map(|t| source.rule(t, &interfaces));
    Ok(Policy {
        rules: rules.collect::<Result<_, _>>()?,
        interfaces,
        source: file.display().to_string(),
    })
}

struct Source<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        1 + before.matches('\n').count()
    }

    fn error(&self, at: &Range<usize>, what: impl Into<String>) -> PolicyError {
        PolicyError::new(self.file, self.line(at), what)
    }

    /// A text turned into a value, or an error that says what to write.
    fn value<T>(
        &self,
        text: &Spanned<String>,
        write: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, PolicyError> {
        parse(text.get_ref()).ok_or_else(|| {
            let what = format!("{:?} is not understood; {write}", text.get_ref());
            self.error(&text.span(), what)
        })
    }

    fn interface(&self, table: Spanned<InterfaceTable>) -> Result<Interface, PolicyError> {
        let span = table.span();
        let table = table.into_inner();
        let mut addresses = Vec::new();
        for text in &table.addresses {
            let read = |text: &str| text.parse().ok();
            addresses.push(self.value(text, "write for example \"192.0.2.7/24\"", read)?);
        }
        let mut gateways = Vec::new();
        for text in &table.gateways {
            gateways.push(self.value(text, "write an address, as \"192.0.2.1\"", ip)?);
        }
        if addresses.is_empty() && !table.share_address {
            let what = "the interface has no address to give; write addresses = [\"192.0.2.7/24\"] (addresses that nobody has), or share_address = true for the host's own";
            return Err(self.error(&span, what));
        }
        let rate = table.rate.as_ref();
        Ok(Interface {
            rate: rate
                .map(|text| self.value(text, "write for example \"1gbit\"", parse_rate))
                .transpose()?,
            name: table.name.into_inner(),
            addresses,
            gateways,
            share_address: table.share_address,
        })
    }

    fn rule(
        &self,
        table: Spanned<AllowTable>,
        interfaces: &[Interface],
    ) -> Result<Rule, PolicyError> {
        let span = table.span();
        let table = table.into_inner();
        let mut rule = Rule::everything(self.subject(&table, &span)?);
        rule.line = self.line(&span);
        if let Some(name) = &table.interface {
            let known = |name: &str| {
                let found = interfaces.iter().find(|i| i.name == name)?;
                Some(found.name.clone())
            };
            rule.interface = Some(self.value(name, "write the name of an [[interface]]", known)?);
        }
        if let Some(addresses) = &table.addresses {
            rule.addresses = self.addresses(addresses)?;
        }
        if let Some(protocols) = &table.protocols {
            rule.protocols = self.protocols(protocols)?;
        }
        if let Some(ports) = &table.ports {
            let write = "write a port \"80\" or a range \"8000-8999\"";
            let ports = ports.iter().map(|text| {
                let ports = |text: &str| range::<u16>(text).filter(|r| *r.start() > 0);
                self.value(text, write, ports)
            });
            rule.ports = ports.collect::<Result<_, _>>()?;
        }
        for text in table.filters.iter().flatten() {
            rule.filters.push(self.filter(text)?);
        }
        self.modes(&table, &mut rule)?;
        self.bounds(&table, &mut rule)?;
        Ok(rule)
    }

    fn subject(&self, table: &AllowTable, span: &Range<usize>) -> Result<Subject, PolicyError> {
        match (&table.user, &table.group, table.anyone) {
            (Some(user), None, false) => {
                let write = "write the name or number of a user of this machine";
                Ok(Subject::User(self.value(user, write, accounts::user)?))
            }
            (None, Some(group), false) => {
                let write = "write the name or number of a group of this machine";
                Ok(Subject::Group(self.value(group, write, accounts::group)?))
            }
            (None, None, true) => Ok(Subject::Anyone),
            _ => Err(self.error(
                span,
                "a rule is about one of them: write user = \"NAME\", group = \"NAME\" or anyone = true",
            )),
        }
    }

    fn addresses(
        &self,
        addresses: &Spanned<OneOrMany>,
    ) -> Result<Option<Vec<IpAddr>>, PolicyError> {
        let bad = |text: &str| {
            let what = format!("{text:?} is not understood; write [\"192.0.2.7\"] or \"any\"");
            self.error(&addresses.span(), what)
        };
        match addresses.get_ref() {
            OneOrMany::One(text) if text == "any" => Ok(None),
            OneOrMany::One(text) => Err(bad(text)),
            OneOrMany::Many(all) => {
                let all = all.iter().map(|text| ip(text).ok_or_else(|| bad(text)));
                all.collect::<Result<_, _>>().map(Some)
            }
        }
    }

    fn protocols(&self, names: &[Spanned<String>]) -> Result<Vec<Protocol>, PolicyError> {
        let mut all = Vec::new();
        for name in names {
            let write = "write \"tcp\", \"udp\", \"icmp\" or \"ip\" (all of an address)";
            match self.value(name, write, |n| {
                Protocol::ALL.into_iter().find(|p| p.name() == n)
            })? {
                Protocol::Icmp => all.extend([Protocol::Icmp, Protocol::Icmpv6]),
                protocol => all.push(protocol),
            }
        }
        Ok(all)
    }

    fn filter(&self, text: &Spanned<String>) -> Result<(String, Filter), PolicyError> {
        let what = |e: ParseError| format!("{:?}: {}", text.get_ref(), e.message());
        let filter = Filter::parse(text.get_ref());
        let filter = filter.map_err(|e| self.error(&text.span(), what(e)))?;
        Ok((text.get_ref().clone(), filter))
    }

    fn modes(&self, table: &AllowTable, rule: &mut Rule) -> Result<(), PolicyError> {
        if let Some(modes) = &table.modes {
            let write = "write \"shared\" or \"direct\"";
            let modes = modes.iter().map(|m| self.value(m, write, Mode::named));
            rule.modes = modes.collect::<Result<_, _>>()?;
        }
        let Some(queues) = &table.queues else {
            return Ok(());
        };
        if !rule.modes.contains(&Mode::Direct) {
            let at = queues.first().map_or(0..0, Spanned::span);
            let what = "queues are lent by direct rules only; write modes = [\"direct\"] too";
            return Err(self.error(&at, what));
        }
        let write = "write a queue \"0\" or a range \"0-3\"";
        let queues = queues.iter().map(|q| self.value(q, write, range::<u32>));
        rule.queues = Some(queues.collect::<Result<_, _>>()?);
        Ok(())
    }

    fn bounds(&self, table: &AllowTable, rule: &mut Rule) -> Result<(), PolicyError> {
        if let Some(weight) = &table.weight {
            if !(1..=1000).contains(weight.get_ref()) {
                return Err(self.error(&weight.span(), "write a weight from 1 to 1000"));
            }
            rule.weight = *weight.get_ref();
        }
        if let Some(text) = &table.rate_max {
            rule.rate_max = Some(self.value(text, "write for example \"100mbit\"", parse_rate)?);
        }
        if let Some(text) = &table.memory_max {
            rule.memory_max = self.value(text, "write for example \"64MiB\"", parse_size)?;
        }
        if let Some(programs) = &table.programs_max {
            rule.programs_max = *programs.get_ref() as usize;
        }
        if let Some(steps) = &table.handler_steps {
            let steps_per_sec = *steps.get_ref();
            if steps_per_sec != 0 && !(HANDLER_STEPS_MIN..=RATE_MAX).contains(&steps_per_sec) {
                let what = format!(
                    "write steps in a second, {HANDLER_STEPS_MIN} to {RATE_MAX}, or 0 for no handlers"
                );
                return Err(self.error(&steps.span(), what));
            }
            rule.handler_steps = steps_per_sec;
        }
        if let Some(text) = &table.dump {
            let known = |text: &str| match text {
                "none" => Some(Dump::None),
                "own" => Some(Dump::Own),
                "all" => Some(Dump::All),
                _ => None,
            };
            rule.dump = self.value(text, "write \"none\", \"own\" or \"all\"", known)?;
        }
        Ok(())
    }
}

fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

fn range<T: FromStr + PartialOrd>(text: &str) -> Option<RangeInclusive<T>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (T, T) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(first..=last)
}

const _: () = assert!(UNPRIVILEGED_PORT > 0);

/// A rate in bytes per second, from "1gbit" or "125MB": one that the packet path can hold to.
pub fn parse_rate(text: &str) -> Option<u64> {
    let rate = units::parse_byte_rate(text).ok()?;
    (1..=RATE_MAX).contains(&rate).then_some(rate)
}

/// A size in bytes, from "64MiB" or "1GiB"; not none.
fn parse_size(text: &str) -> Option<u64> {
    units::parse_size(text).ok().filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes() {
        assert_eq!(parse_rate("1gbit"), Some(125_000_000));
        assert_eq!(parse_rate("100 Mbit"), Some(12_500_000));
        assert_eq!(parse_rate("3MB"), Some(3_000_000));
        assert_eq!(parse_size("64MiB"), Some(64 << 20));
        for bad in [
            "",
            "gbit",
            "1",
            "1mib",
            "-1gbit",
            "7bit",
            "0gbit",
            "99999999gbit",
        ] {
            assert_eq!(parse_rate(bad), None, "{bad}");
        }
        assert_eq!(parse_size("1gbit"), None);
        assert_eq!(parse_size("0MiB"), None);
        assert_eq!(parse_size("99999999999999999999GiB"), None);
    }
}
