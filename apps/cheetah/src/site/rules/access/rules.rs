//! The rules of a site, and what becomes of a request by them.

use std::net::IpAddr;
use std::sync::Arc;

use exos_inet::Instant;

use super::networks::{self, NetworkRule};
use super::peer::Peer;
use super::rate::Rate;
use super::users::{Login, Users};
use crate::site::path::SitePath;
use crate::site::rules::pattern::Pattern;

/// What a rule says about some paths; `None` where it says nothing.
#[derive(Clone, Debug)]
pub struct AccessRule {
    /// Which paths.
    pub pattern: Pattern,
    /// Which clients may.
    pub networks: Option<Vec<NetworkRule>>,
    /// How often; `Some(None)` as often as they like.
    pub rate: Option<Option<Arc<Rate>>>,
    /// The users and their passwords; with `Some(None)` nobody needs one.
    pub users: Option<Option<Arc<Users>>>,
}

/// All rules of a site.
#[derive(Clone, Debug, Default)]
pub struct AccessRules(Vec<AccessRule>);

/// A request, as far as it is asked about.
#[derive(Debug)]
pub struct Asks<'a> {
    /// The resolved path.
    pub path: &'a [u8],
    /// What else it may be for: the script that it runs, and what that may take it for. Rules about these hold too.
    pub others: &'a [Vec<u8>],
    /// Who asks.
    pub peer: IpAddr,
    /// When.
    pub now: Instant,
    /// It was not asked about before.
    pub is_new: bool,
    /// The value of its Authorization field.
    pub authorization: Option<&'a [u8]>,
}

impl<'a> Asks<'a> {
    fn others(&self) -> impl Iterator<Item = &'a [u8]> {
        self.others.iter().map(Vec::as_slice)
    }
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may pass.
    Pass {
        /// Whose password was right, where the rules want one.
        user: Option<Box<[u8]>>,
    },
    /// Its client may not.
    Denied,
    /// It comes too early by this many seconds.
    Limited(u64),
    /// It needs a password; the field that says so.
    NeedsLogin(String),
    /// Its password has to be verified: what [`AccessRules::verify`] is to be told.
    Verify(SitePath),
}

impl Verdict {
    /// It may pass without a password.
    pub const PASS: Verdict = Verdict::Pass { user: None };
}

/// What is to be verified begins so, and no path does. Behind it stand the number of the rule, whom the client is counted as,
/// and what was sent.
const VERIFY: u8 = 0;

/// Whether something that a request waits for is a password to be verified, and no document.
pub fn is_password(wanted: &SitePath) -> bool {
    wanted.first() == Some(&VERIFY)
}

/// Whom the client of a password to be verified is counted as.
pub(crate) fn client_of(wanted: &SitePath) -> Option<Peer> {
    let (_, rest) = wanted.split_first_chunk::<3>()?;
    rest.first_chunk().map(|bytes| Peer::of_bytes(*bytes))
}

impl AccessRules {
    /// Puts rules in the order in which they decide.
    pub fn new(mut rules: Vec<AccessRule>) -> AccessRules {
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.pattern.precedence()));
        AccessRules(rules)
    }

    /// True when everybody may have everything.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All who have a password.
    pub fn users(&self) -> impl Iterator<Item = &Arc<Users>> {
        self.0
            .iter()
            .filter_map(|rule| rule.users.as_ref()?.as_ref())
    }

    /// What becomes of a request; `index` has the names of documents that directories are answered with.
    pub fn judge(&self, asks: &Asks, index: &[String]) -> Verdict {
        let asked = [asks.path].into_iter().chain(asks.others());
        let paths: Vec<Vec<u8>> = asked.flat_map(|path| paths_of(path, index)).collect();
        if !paths.iter().all(|path| self.allows(path, asks.peer)) {
            return Verdict::Denied;
        }
        if asks.is_new
            && let Some(secs) = self.limits(asks)
        {
            return Verdict::Limited(secs);
        }
        let mut accepted = None;
        for path in &paths {
            match self.login(path, asks) {
                Verdict::Pass { user } => accepted = accepted.or(user),
                refusal => return refusal,
            }
        }
        Verdict::Pass { user: accepted }
    }

    /// Whether everybody may have it as often as they like, so that nothing need be known of a client; `index` has the names of documents
    /// that directories are answered with.
    pub fn lets_all(&self, path: &[u8], index: &[String]) -> bool {
        paths_of(path, index).iter().all(|path| {
            let networks = self.first(path, |rule| rule.networks.as_ref());
            let rate = self.first(path, |rule| rule.rate.as_ref());
            let users = self.first(path, |rule| rule.users.as_ref());
            networks.is_none_or(|(_, rules)| networks::allows_all(rules))
                && rate.is_none_or(|(_, rate)| rate.is_none())
                && users.is_none_or(|(_, users)| users.is_none())
        })
    }

    /// Finds out about a password, as a verdict says. Takes long.
    pub fn verify(&self, wanted: &SitePath) {
        let Some(([VERIFY, low, high], rest)) = wanted.split_first_chunk() else {
            return;
        };
        let Some((_, sent)) = rest.split_first_chunk::<{ Peer::LEN }>() else {
            return;
        };
        let rule = self.0.get(usize::from(u16::from_le_bytes([*low, *high])));
        if let Some(Some(users)) = rule.and_then(|rule| rule.users.as_ref()) {
            users.verify(sent);
        }
    }

    /// What the most specific rule that says something about an aspect says, and its number.
    fn first<T>(
        &self,
        path: &[u8],
        aspect: impl Fn(&AccessRule) -> Option<&T>,
    ) -> Option<(usize, &T)> {
        let rules = self.0.iter().enumerate();
        let mut matching = rules.filter(|(_, rule)| rule.pattern.matches(path));
        matching.find_map(|(at, rule)| Some((at, aspect(rule)?)))
    }

    /// By how many seconds it comes too early, by each rule once.
    fn limits(&self, asks: &Asks) -> Option<u64> {
        let mut counted = Vec::new();
        for path in [asks.path].into_iter().chain(asks.others()) {
            if let Some((at, Some(rate))) = self.first(path, |rule| rule.rate.as_ref())
                && !counted.contains(&at)
            {
                counted.push(at);
                if let Err(secs) = rate.take(asks.peer, asks.now) {
                    return Some(secs);
                }
            }
        }
        None
    }

    fn allows(&self, path: &[u8], peer: IpAddr) -> bool {
        let rules = self.first(path, |rule| rule.networks.as_ref());
        rules.is_none_or(|(_, rules)| networks::allows(rules, peer))
    }

    fn login(&self, path: &[u8], asks: &Asks) -> Verdict {
        let Some((at, Some(users))) = self.first(path, |rule| rule.users.as_ref()) else {
            return Verdict::PASS;
        };
        match users.login(asks.authorization) {
            Login::Right(name) => Verdict::Pass { user: Some(name) },
            Login::Refused => Verdict::NeedsLogin(users.challenge()),
            Login::Unknown(sent) => {
                let [low, high] = (at as u16).to_le_bytes();
                let peer = Peer::of(asks.peer).to_bytes();
                Verdict::Verify([&[VERIFY, low, high][..], &peer, &sent].concat().into())
            }
        }
    }
}

/// The path, and of a directory those of the documents that it may be answered with.
fn paths_of(path: &[u8], index: &[String]) -> Vec<Vec<u8>> {
    let is_directory = path.ends_with(b"/");
    let index = index.iter().filter(|_| is_directory);
    let below = index.map(|name| [path, name.as_bytes()].concat());
    [path.to_vec()].into_iter().chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, networks: Option<&[&str]>, rate: Option<u32>) -> AccessRule {
        let parse = |text: &&str| NetworkRule::parse(text).expect("a rule");
        AccessRule {
            pattern: Pattern::parse(pattern).expect("a pattern"),
            networks: networks.map(|texts| texts.iter().map(parse).collect()),
            rate: rate.map(|rate| (rate > 0).then(|| Arc::new(Rate::new(rate, 0)))),
            users: None,
        }
    }

    fn asks(path: &str) -> Asks<'_> {
        Asks {
            path: path.as_bytes(),
            others: &[],
            peer: "192.0.2.1".parse().expect("an address"),
            now: Instant::from_millis(1),
            is_new: true,
            authorization: None,
        }
    }

    #[test]
    fn the_most_specific_rule_about_each_aspect_decides() {
        let rules = AccessRules::new(vec![
            rule("*", Some(&["deny all"]), Some(1)),
            rule("/open/*", Some(&["allow all"]), None),
            rule("/open/often/*", None, Some(0)),
            rule("/open/dir/index.html", Some(&["deny all"]), None),
        ]);
        let judge = |path| rules.judge(&asks(path), &["index.html".to_owned()]);
        assert_eq!(judge("/a"), Verdict::Denied);
        assert_eq!(judge("/open/a"), Verdict::PASS);
        assert_eq!(
            judge("/open/b"),
            Verdict::Limited(1),
            "the rate is that of all"
        );
        assert_eq!(judge("/open/often/a"), Verdict::PASS);
        assert_eq!(judge("/open/dir/"), Verdict::Denied, "its document is");
        let again = Asks {
            is_new: false,
            ..asks("/open/b")
        };
        assert_eq!(rules.judge(&again, &[]), Verdict::PASS, "it was counted");
    }

    /// `/admin.php/anything` runs `/admin.php`.
    #[test]
    fn what_holds_for_a_script_holds_for_what_is_behind_it() {
        let rules = AccessRules::new(vec![
            rule("/admin.php", Some(&["deny all"]), None),
            rule("/slow.php", None, Some(1)),
            rule("/all.php*", None, Some(1)),
        ]);
        let judge = |path, script: &str| {
            let others = [script.as_bytes().to_vec()];
            let asks = Asks {
                others: &others,
                ..asks(path)
            };
            rules.judge(&asks, &[])
        };
        assert_eq!(judge("/admin.php/x", "/admin.php"), Verdict::Denied);
        assert_eq!(judge("/other.php/x", "/other.php"), Verdict::PASS);
        assert_eq!(judge("/slow.php/x", "/slow.php"), Verdict::PASS);
        assert_eq!(judge("/slow.php/y", "/slow.php"), Verdict::Limited(1));
        let counted_once = judge("/all.php/x", "/all.php");
        assert_eq!(counted_once, Verdict::PASS);
    }

    #[test]
    fn all_are_let_where_no_rule_asks_who_it_is() {
        let rules = AccessRules::new(vec![
            rule("/staff/*", Some(&["allow 192.0.2.0/24", "deny all"]), None),
            rule("/staff/open/*", Some(&["allow all"]), None),
            rule("/slow/*", None, Some(1)),
            rule("/slow/often/*", None, Some(0)),
            rule("/dir/index.html", Some(&["deny 192.0.2.1"]), None),
        ]);
        let index = ["index.html".to_owned()];
        let cases = [
            ("/", true),
            ("/a", true),
            ("/staff/a", false),
            ("/staff/open/a", true),
            ("/slow/a", false),
            ("/slow/often/a", true),
            ("/dir/", false),
            ("/dir/a", true),
        ];
        for (path, expected) in cases {
            assert_eq!(rules.lets_all(path.as_bytes(), &index), expected, "{path}");
        }
    }
}
