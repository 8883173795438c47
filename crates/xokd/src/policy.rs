//! Who may do what: the policy file.
//!
//! TOML with two kinds of tables. `[[interface]]` names what the daemon serves; `[[allow]]` lets somebody do
//! something, and what no `[[allow]]` lets is refused. Rules only add: the order does not matter, and everything
//! that one program does must be allowed by one rule alone, so that a rule can be read by itself.
//!
//! An error names the file and the line and says what to write there; a refusal names the rule that would be
//! needed. Nothing here looks at the machine except for the names of users and groups.

pub mod file;
mod restart;
mod standing;

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::Path;

use exos_filter::Filter;
use exos_host::accounts;
use exos_wire::Prefix;
use exos_xok::{Claim, Protocol};
use serde::{Deserialize, Serialize};

use crate::limits::{
    COMPARISON_STEPS_MAX, HANDLER_STEPS_PER_SEC, MEMORY_PER_USER, PROGRAMS_PER_USER,
    UNPRIVILEGED_PORT,
};

/// What the file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Policy {
    /// What to serve.
    pub interfaces: Vec<Interface>,
    /// Who may do what.
    pub rules: Vec<Rule>,
    /// Where it was read, for messages.
    pub source: String,
}

/// An interface to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// What it carries in bytes per second; `None` for what the device says.
    pub rate: Option<u64>,
    /// Addresses that are ours alone, with prefix lengths.
    pub addresses: Vec<Prefix>,
    /// Default routers, for those.
    pub gateways: Vec<IpAddr>,
    /// Programs may use the host's own addresses of this interface.
    pub share_address: bool,
}

/// Whom a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// This user.
    User(u32),
    /// Members of this group.
    Group(u32),
    /// Everybody.
    Anyone,
}

/// What somebody may do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Who.
    pub subject: Subject,
    /// On which interface; `None` is any.
    pub interface: Option<String>,
    /// With which local addresses; `None` is any of the interface's.
    pub addresses: Option<Vec<IpAddr>>,
    /// Which protocols.
    pub protocols: Vec<Protocol>,
    /// Which local ports.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Which packets may be claimed by a filter: those of filters that lie in one of these.
    pub filters: Vec<(String, Filter)>,
    /// What a program may be attached by; the first is what one gets that does not ask.
    pub modes: Vec<Mode>,
    /// Which queues of the interface may be lent directly; `None` is any.
    pub queues: Option<Vec<RangeInclusive<u32>>>,
    /// The share when the link is contended.
    pub weight: u32,
    /// Never more than this, in bytes per second.
    pub rate_max: Option<u64>,
    /// Packet memory of all of the user's programs, in bytes.
    pub memory_max: u64,
    /// Programs of the user at once.
    pub programs_max: usize,
    /// Steps that the handlers of each program may take in a second, together; 0: none may be downloaded.
    pub handler_steps: u64,
    /// Whose packets may be looked at.
    pub dump: Dump,
    /// The line at which it begins.
    pub line: usize,
}

/// How a program's packets come and go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// By a virtual interface of its own: what it sends is checked.
    Shared,
    /// By a queue of the interface itself: what it sends is not checked.
    Direct,
}

impl Mode {
    /// Its name in policies and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Direct => "direct",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Shared, Self::Direct]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// Whose packets may be looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dump {
    /// Nobody's.
    None,
    /// Those of the same user's programs.
    Own,
    /// Everybody's, the host's included.
    All,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject {
            Subject::User(uid) => write!(f, "user {} may", accounts::user_name(uid))?,
            Subject::Group(gid) => write!(f, "group {gid} may")?,
            Subject::Anyone => f.write_str("everybody may")?,
        }
        let protocols: Vec<&str> = self.protocols.iter().map(|p| p.name()).collect();
        let range = |r: &RangeInclusive<u16>| match (r.start(), r.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let ports: Vec<String> = self.ports.iter().map(range).collect();
        write!(
            f,
            " claim {} ports {}",
            protocols.join("/"),
            ports.join(",")
        )?;
        if let Some(name) = &self.interface {
            write!(f, " on {name}")?;
        }
        for (text, _) in &self.filters {
            write!(f, ", filters within {text:?}")?;
        }
        if self.modes.contains(&Mode::Direct) {
            f.write_str(", unchecked on queues of the interface itself")?;
        }
        f.write_str(match self.dump {
            Dump::None => ", and see no packets",
            Dump::Own => ", and see own packets",
            Dump::All => ", and see all packets",
        })
    }
}

impl Rule {
    /// Everything above the system's ports.
    pub fn everything(subject: Subject) -> Self {
        Self {
            subject,
            interface: None,
            addresses: None,
            protocols: Protocol::ALL.to_vec(),
            ports: vec![UNPRIVILEGED_PORT..=u16::MAX],
            filters: Vec::new(),
            modes: vec![Mode::Shared],
            queues: None,
            weight: 1,
            rate_max: None,
            memory_max: MEMORY_PER_USER,
            programs_max: PROGRAMS_PER_USER,
            handler_steps: HANDLER_STEPS_PER_SEC,
            dump: Dump::Own,
            line: 0,
        }
    }
}

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Who {
    /// The user.
    pub uid: u32,
    /// The groups, the first one included.
    #[serde(default)]
    pub groups: Vec<u32>,
}

impl Who {
    fn is(&self, subject: Subject) -> bool {
        match subject {
            Subject::User(uid) => self.uid == uid,
            Subject::Group(gid) => self.groups.contains(&gid),
            Subject::Anyone => true,
        }
    }
}

/// What policy does not allow, with the rule that would.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAllowed(pub String);

impl fmt::Display for NotAllowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Policy {
    /// The rules about somebody on an interface.
    fn rules_for(&self, who: &Who, interface: &str) -> impl Iterator<Item = &Rule> {
        let on = move |rule: &&Rule| rule.interface.as_deref().is_none_or(|i| i == interface);
        self.rules
            .iter()
            .filter(on)
            .filter(move |rule| who.is(rule.subject))
    }

    /// The rule by which somebody may have a slot, on a queue of the interface itself when one is given: of several
    /// the one with the greatest weight.
    pub fn attach(
        &self,
        who: &Who,
        interface: &str,
        queue: Option<u32>,
    ) -> Result<&Rule, NotAllowed> {
        let found = self.rules_for(who, interface);
        let found = found.filter(|rule| rule.attaches(queue));
        found.max_by_key(|rule| rule.weight).ok_or_else(|| {
            let line = match queue {
                None => "modes = [\"shared\"]".to_owned(),
                Some(queue) => format!("modes = [\"direct\"], queues = [\"{queue}\"]"),
            };
            self.refusal(who, interface, &line)
        })
    }

    /// Programs that a user may have by one of the rules, on any interface; of one whose groups are not known, by any group's.
    pub fn programs_max(&self, uid: u32, groups: Option<&[u32]>) -> usize {
        let is_theirs = |rule: &&Rule| match rule.subject {
            Subject::User(user) => user == uid,
            Subject::Group(group) => groups.is_none_or(|groups| groups.contains(&group)),
            Subject::Anyone => true,
        };
        let rules = self.rules.iter().filter(is_theirs);
        rules.map(|rule| rule.programs_max).max().unwrap_or(0)
    }

    /// Where a rule is written.
    pub fn origin(&self, rule: &Rule) -> String {
        match rule.line {
            0 => "the daemon's command line".to_owned(),
            line => format!("{}:{line}", self.source),
        }
    }

    /// Whether somebody gets a queue of the interface itself without asking for one: a rule names that mode first.
    pub fn prefers_direct(&self, who: &Who, interface: &str) -> bool {
        let mut rules = self.rules_for(who, interface);
        rules.any(|rule| rule.modes.first() == Some(&Mode::Direct))
    }

    /// Whether somebody may have a claim.
    pub fn claim(&self, who: &Who, interface: &str, claim: &Claim) -> Result<(), NotAllowed> {
        if self.allows(who, interface, claim) {
            return Ok(());
        }
        let ports = match claim.port {
            0 => "1-65535".to_owned(),
            port => port.to_string(),
        };
        Err(self.refusal(who, interface, &needed(claim, &ports)))
    }

    /// Whether somebody may have a claim, for whom no reason is wanted.
    pub fn allows(&self, who: &Who, interface: &str, claim: &Claim) -> bool {
        let mut rules = self.rules_for(who, interface);
        rules.any(|rule| rule.allows(claim))
    }

    /// The ports, some of `of`, that somebody may have for such a claim, whatever port it names.
    pub fn ports(
        &self,
        who: &Who,
        interface: &str,
        claim: &Claim,
        of: &RangeInclusive<u16>,
    ) -> Result<Vec<RangeInclusive<u16>>, NotAllowed> {
        let rules = self.rules_for(who, interface);
        let rules = rules.filter(|rule| rule.covers(claim));
        let ports = rules.flat_map(|rule| match claim.is_echo() {
            true => vec![of.clone()],
            false => rule.ports.clone(),
        });
        let meets = |r: &RangeInclusive<u16>| r.start() <= of.end() && of.start() <= r.end();
        let ports: Vec<_> = ports.filter(meets).collect();
        if ports.is_empty() {
            let range = format!("{}-{}", of.start(), of.end());
            return Err(self.refusal(who, interface, &needed(claim, &range)));
        }
        Ok(ports)
    }

    /// The rule by which somebody may claim what a filter matches.
    pub fn general(
        &self,
        who: &Who,
        interface: &str,
        text: &str,
        filter: &Filter,
    ) -> Result<&Rule, NotAllowed> {
        let within = |(_, allowed): &(String, Filter)| {
            filter.is_subset_within(allowed, COMPARISON_STEPS_MAX)
        };
        let mut rules = self.rules_for(who, interface);
        let found = rules.find(|rule| rule.filters.iter().any(within));
        found.ok_or_else(|| self.refusal(who, interface, &format!("filters = [{text:?}]")))
    }

    /// How many steps in a second the handlers of each program of somebody's may take, together.
    pub fn handler_steps(&self, who: &Who, interface: &str) -> Result<u64, NotAllowed> {
        let rules = self.rules_for(who, interface);
        let most = rules.map(|rule| rule.handler_steps).max().unwrap_or(0);
        match most {
            0 => {
                let line = format!("handler_steps = {HANDLER_STEPS_PER_SEC}");
                Err(self.refusal(who, interface, &line))
            }
            steps => Ok(steps),
        }
    }

    /// Whose packets somebody may look at. Root sees all of the machine anyway.
    pub fn dump(&self, who: &Who, interface: &str) -> Dump {
        if who.uid == 0 {
            return Dump::All;
        }
        let rules = self.rules_for(who, interface);
        rules.map(|rule| rule.dump).max().unwrap_or(Dump::None)
    }

    fn refusal(&self, who: &Who, interface: &str, line: &str) -> NotAllowed {
        let user = accounts::user_name(who.uid);
        NotAllowed(format!(
            "policy does not allow it to {user}; an [[allow]] with user = \"{user}\", interface = \"{interface}\", {line} in {} would",
            self.source
        ))
    }
}

/// What a rule needs for a claim.
fn needed(claim: &Claim, ports: &str) -> String {
    let (local, protocol) = (claim.local, claim.protocol.name());
    format!("addresses = [\"{local}\"], protocols = [\"{protocol}\"], ports = [\"{ports}\"]")
}

impl Rule {
    fn attaches(&self, queue: Option<u32>) -> bool {
        let Some(queue) = queue else {
            return self.modes.contains(&Mode::Shared);
        };
        let within = |ranges: &Vec<RangeInclusive<u32>>| ranges.iter().any(|r| r.contains(&queue));
        self.modes.contains(&Mode::Direct) && self.queues.as_ref().is_none_or(within)
    }

    fn allows(&self, claim: &Claim) -> bool {
        // All ports or identifiers of a protocol, and all protocols of an address, are more than any list of ports but
        // the whole.
        let (first, last) = match claim.port {
            0 => (1, u16::MAX),
            port => (port, port),
        };
        let within = |range: &RangeInclusive<u16>| range.contains(&first) && range.contains(&last);
        self.covers(claim) && (claim.is_echo() || self.ports.iter().any(within))
    }

    /// Whether it is about such claims, ports apart.
    fn covers(&self, claim: &Claim) -> bool {
        let addresses = self.addresses.as_ref();
        self.protocols.contains(&claim.protocol)
            && addresses.is_none_or(|all| all.contains(&claim.local))
    }
}

/// The policy for when there is no file: root and one user may do everything above the system's ports. Others' packets
/// are root's alone to see, as are queues of the interface itself.
pub fn without_file(interface: Interface, user: u32) -> Policy {
    let mut rules = vec![Rule {
        modes: vec![Mode::Shared, Mode::Direct],
        dump: Dump::All,
        ..Rule::everything(Subject::User(0))
    }];
    if user != 0 {
        rules.push(Rule::everything(Subject::User(user)));
    }
    Policy {
        interfaces: vec![interface],
        rules,
        source: "a policy file (--policy FILE)".to_owned(),
    }
}

/// Why a policy file cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyError {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 when it is not about one.
    pub line: usize,
    /// What is wrong, and what to write.
    pub what: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

impl std::error::Error for PolicyError {}

impl PolicyError {
    fn new(file: &Path, line: usize, what: impl Into<String>) -> Self {
        Self {
            file: file.display().to_string(),
            line,
            what: what.into(),
        }
    }
}

#[cfg(test)]
mod tests;
