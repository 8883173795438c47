//! The options that say how servers are checked.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args as _, Command, FromArgMatches as _};
use exos::Error;
use exos_program::units::parse_duration;

use super::passive;
use super::rule::{Kind, Question, Rule};
use crate::limits::{CHECK_INTERVAL_MIN, CHECKS_IN_A_ROW_MAX, PASSIVE_DEFAULT};

/// How servers are checked.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub struct HealthArgs {
    /// Check the health of servers; those that fail get no new connections: tcp (connects) or http:/PATH (answers).
    /// With --config and without a value: check the file and exit
    #[arg(long, value_name = "tcp|http:/PATH", num_args = 0..=1)]
    pub(crate) check: Option<Option<Ask>>,
    /// Port to check [default: the server's own]; UDP servers are checked only with this option
    #[arg(long, value_name = "PORT", requires = "check", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) check_port: Option<u16>,
    /// Time between checks of a server
    #[arg(long, value_name = "TIME", requires = "check", default_value = "2s", value_parser = parse_duration)]
    pub(crate) check_interval: Duration,
    /// Time after which a check has failed [default: half the interval]
    #[arg(long, value_name = "TIME", requires = "check", value_parser = parse_duration)]
    pub(crate) check_timeout: Option<Duration>,
    /// Checks in a row that a failed server must pass
    #[arg(long, value_name = "N", requires = "check", default_value_t = 2, value_parser = in_a_row())]
    pub(crate) check_rise: u32,
    /// Checks in a row that a healthy server must fail
    #[arg(long, value_name = "N", requires = "check", default_value_t = 3, value_parser = in_a_row())]
    pub(crate) check_fall: u32,
    /// Host header of http checks [default: the server's address and port]
    #[arg(long, value_name = "NAME", requires = "check", value_parser = word)]
    pub(crate) check_host: Option<String>,
    /// Status codes that pass an http check
    #[arg(
        long,
        value_name = "CODE[-CODE]",
        requires = "check",
        default_value = "200-399"
    )]
    pub(crate) check_status: Codes,
    /// Text that the body must contain to pass an http check
    #[arg(long, value_name = "TEXT", requires = "check", value_parser = text)]
    pub(crate) check_body: Option<String>,
    /// Rest a server (no new connections) after this many connections in a row failed to open there, unless no other
    /// server is left; 0: never
    #[arg(long, value_name = "N", default_value_t = PASSIVE_DEFAULT, value_parser = clap::value_parser!(u32).range(0..=i64::from(CHECKS_IN_A_ROW_MAX)))]
    pub(crate) passive: u32,
    /// Count only connections that began within this time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) passive_window: Duration,
    /// How long such a server rests
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) passive_rest: Duration,
}

/// What the options say when they are left out.
impl Default for HealthArgs {
    fn default() -> Self {
        let command = Self::augment_args(Command::new("forward"));
        let nothing = command.try_get_matches_from(["forward"]);
        let args = nothing.and_then(|nothing| Self::from_arg_matches(&nothing));
        args.expect("what is required has a default")
    }
}

fn in_a_row() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(CHECKS_IN_A_ROW_MAX))
}

/// What is asked of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// To take a connection.
    Tcp,
    /// To answer for this path.
    Http(String),
}

impl FromStr for Ask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usual =
            |path: &&str| path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic());
        match text.split_once(':') {
            None if text == "tcp" => Ok(Self::Tcp),
            Some(("http", path)) if Some(path).filter(usual).is_some() => {
                Ok(Self::Http(path.to_owned()))
            }
            _ => Err(format!("{text:?} is no check; write tcp or http:/PATH")),
        }
    }
}

/// Status codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes(pub RangeInclusive<u16>);

impl FromStr for Codes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let code = |text: &str| text.parse().ok().filter(|code| (100..=599).contains(code));
        match (code(from), code(to)) {
            (Some(from), Some(to)) if from <= to => Ok(Self(from..=to)),
            _ => Err(format!(
                "{text:?} are no status codes; write 200 or 200-399"
            )),
        }
    }
}

/// A host as it is sent.
pub(crate) fn word(text: &str) -> Result<String, String> {
    let usual = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
    let why = || format!("{text:?} is no host; write for example www.example.net");
    usual.then(|| text.to_owned()).ok_or_else(why)
}

/// What is looked for in a body.
pub(crate) fn text(text: &str) -> Result<String, String> {
    let why = || "write the text to look for".to_owned();
    (!text.is_empty()).then(|| text.to_owned()).ok_or_else(why)
}

impl HealthArgs {
    /// How servers are checked, if they are.
    ///
    /// # Errors
    ///
    /// What is said does not fit together.
    pub fn rule(&self) -> Result<Option<Rule>, Error> {
        let ask = match &self.check {
            Some(Some(ask)) => ask,
            Some(None) => {
                return Err(Error::new("it is not said how servers are checked")
                    .mend("give --check tcp or --check http:/PATH; a file is checked by --config FILE --check"));
            }
            None => return Ok(None),
        };
        if self.check_interval < CHECK_INTERVAL_MIN {
            return Err(
                Error::new("servers would be checked without a pause").mend(format!(
                    "give a --check-interval of {CHECK_INTERVAL_MIN:?} at least"
                )),
            );
        }
        let timeout = self.check_timeout.unwrap_or(self.check_interval / 2);
        if timeout.is_zero() || timeout > self.check_interval {
            return Err(Error::new("a check has to end before the next begins")
                .mend("give a --check-timeout above zero and up to --check-interval"));
        }
        let kind = match ask {
            Ask::Tcp if self.check_host.is_some() || self.check_body.is_some() => {
                return Err(Error::new("a check by tcp hears no answer")
                    .mend("give --check http:/PATH, or leave --check-host and --check-body out"));
            }
            Ask::Tcp => Kind::Tcp,
            Ask::Http(path) => Kind::Http(Question {
                path: path.clone(),
                host: self.check_host.clone(),
                status: self.check_status.0.clone(),
                body: self.check_body.clone(),
            }),
        };
        Ok(Some(Rule {
            kind,
            port: self.check_port,
            interval: self.check_interval,
            timeout,
            rise: self.check_rise,
            fall: self.check_fall,
        }))
    }

    /// When servers rest, if ever.
    pub fn passive(&self) -> Option<passive::Rule> {
        let rule = passive::Rule {
            failures: self.passive,
            window: self.passive_window,
            rest: self.passive_rest,
        };
        (self.passive > 0).then_some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        health: HealthArgs,
    }

    fn rule(line: &str) -> Result<Option<Rule>, String> {
        let words = std::iter::once("it").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|e| e.to_string())?;
        line.health.rule().map_err(|e| e.to_string())
    }

    #[test]
    fn what_is_left_out_is_the_default() {
        let line = Line::try_parse_from(["it"]).ok();
        assert_eq!(line.map(|line| line.health), Some(HealthArgs::default()));
        let never = Line::try_parse_from(["it", "--passive", "0"]).unwrap();
        assert!(HealthArgs::default().passive().is_some() && never.health.passive().is_none());
    }

    #[test]
    fn options_are_a_rule_or_say_why_not() {
        assert_eq!(rule(""), Ok(None));
        let tcp = rule("--check tcp --check-interval 500ms --check-fall 1")
            .unwrap()
            .unwrap();
        assert_eq!(
            (tcp.kind, tcp.timeout, tcp.fall),
            (Kind::Tcp, Duration::from_millis(250), 1)
        );
        let http =
            rule("--check http:/well?a=b --check-status 204 --check-body yes --check-host h");
        let Kind::Http(question) = http.unwrap().unwrap().kind else {
            panic!("it is http");
        };
        assert_eq!(
            (question.path.as_str(), question.status),
            ("/well?a=b", 204..=204)
        );
        for (line, said) in [
            ("--check", "--config FILE --check"),
            ("--check udp", "write tcp or http:/PATH"),
            ("--check http:well", "write tcp or http:/PATH"),
            ("--check tcp --check-body x", "hears no answer"),
            ("--check tcp --check-timeout 3s", "before the next begins"),
            ("--check tcp --check-interval 1ms", "without a pause"),
            ("--check http:/ --check-status 20", "200-399"),
            ("--check-fall 3", "--check [<"),
            ("--check tcp --check-rise 0", "0 is not in"),
            ("--passive 1001", "1001 is not in"),
        ] {
            let refused = rule(line).unwrap_err();
            assert!(refused.contains(said), "{line}: {refused}");
        }
    }
}
