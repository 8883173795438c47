//! The text of a file, as scripts: `docs/internals/scripts.md` describes the format.

use super::segment::{Spec, Words};
use super::value::Value;

/// A named script, parsed for one family.
#[derive(Debug)]
pub struct Script {
    pub name: String,
    /// Line of its heading, from 1.
    pub line: usize,
    pub setup: Setup,
    pub steps: Vec<Step>,
}

/// How the stack is made.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The families that it runs over: IPv4, IPv6.
    pub families: [bool; 2],
    /// `with KEY VALUE` and `with KEY`.
    pub settings: Vec<(String, Option<Value>)>,
}

impl Setup {
    pub fn get(&self, key: &str) -> Option<i64> {
        let (_, value) = self.settings.iter().find(|(k, _)| k == key)?;
        Some(value.and_then(Value::number).unwrap_or(1))
    }

    pub fn has(&self, key: &str) -> bool {
        self.settings.iter().any(|(k, _)| k == key)
    }
}

/// One line.
#[derive(Debug)]
pub struct Step {
    pub line: usize,
    pub text: String,
    pub at: At,
    pub what: What,
}

/// When.
#[derive(Copy, Clone, Debug)]
pub enum At {
    /// At the time of the line before.
    Then,
    /// Seconds since the script began, and by how much it may be missed.
    Absolute(f64, Option<f64>),
    /// Seconds after the line before.
    Later(f64, Option<f64>),
}

/// What a line does or asks for.
#[derive(Debug)]
pub enum What {
    /// `<`: a segment arrives.
    Arrives(Spec),
    /// `< icmp`: an ICMP error about a segment of ours arrives.
    Icmp(IcmpSpec),
    /// `>`: a segment must leave.
    Leaves(Spec),
    /// `> nothing`.
    Silence,
    /// `> anything`: whatever waits to leave is fine.
    Anything,
    /// The program does something.
    Command(Command),
    /// `=`: all of this must be so.
    Expect(Vec<Expect>),
}

/// An ICMP error, and which segment of ours it quotes.
#[derive(Debug)]
pub struct IcmpSpec {
    pub flow: usize,
    pub kind: String,
    pub mtu: i64,
    pub seq: i64,
}

/// What a program does.
#[derive(Debug)]
pub enum Command {
    Listen {
        fails: Option<String>,
    },
    CloseListener,
    Connect {
        flow: usize,
        fails: Option<String>,
    },
    /// A whole handshake that the peer begins, or that we begin.
    Handshake {
        spec: Spec,
        active: bool,
        rtt: f64,
    },
    Send {
        flow: usize,
        bytes: usize,
        refused: bool,
    },
    /// `None` is all there is.
    Read {
        flow: usize,
        bytes: Option<usize>,
    },
    /// `finish`, `abort`, `discard`, `acknowledge`, and what the stack's other commands are called.
    Simple {
        flow: usize,
        name: String,
    },
}

/// Something that must be so: a word, and what it is compared with.
#[derive(Debug)]
pub struct Expect {
    pub flow: usize,
    pub what: String,
    pub word: Option<String>,
    pub value: Option<Value>,
}

/// A mistake in the text.
#[derive(Debug)]
pub struct Mistake {
    pub line: usize,
    pub what: String,
}

/// All scripts of a file, in order.
pub fn parse(text: &str, ipv6: bool) -> Result<Vec<Script>, Mistake> {
    let mut scripts: Vec<Script> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let mistake = |what| Mistake { line, what };
        let text = raw.split("  #").next().unwrap_or("").trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if let Some(name) = text.strip_prefix("script ") {
            let name = parse_name(name, &scripts).map_err(mistake)?;
            scripts.push(Script {
                name,
                line,
                setup: Setup {
                    families: [true; 2],
                    settings: Vec::new(),
                },
                steps: Vec::new(),
            });
            continue;
        }
        let script = scripts
            .last_mut()
            .ok_or_else(|| mistake("a file begins with `script NAME`".into()))?;
        parse_line(script, line, text, ipv6).map_err(mistake)?;
    }
    Ok(scripts)
}

fn parse_name(name: &str, others: &[Script]) -> Result<String, String> {
    let name = name.trim();
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.chars().all(fine) {
        return Err(format!(
            "`{name}`: a name is of small letters, digits and hyphens"
        ));
    }
    if others.iter().any(|s| s.name == name) {
        return Err(format!("there is a script `{name}` in this file already"));
    }
    Ok(name.into())
}

fn parse_line(script: &mut Script, line: usize, text: &str, ipv6: bool) -> Result<(), String> {
    let mut words = Words::new(text, ipv6);
    match words.peek() {
        Some("about") => Ok(()),
        Some("only") => {
            words.next();
            script.setup.families = match words.after("only")? {
                "ipv4" => [true, false],
                "ipv6" => [false, true],
                other => return Err(format!("`only {other}`: ipv4 or ipv6")),
            };
            Ok(())
        }
        Some("with") => {
            words.next();
            while let Some(key) = words.next() {
                let number = words.peek().and_then(|w| Value::parse(w, ipv6).ok());
                if number.is_some() {
                    words.next();
                }
                script.setup.settings.push((key.into(), number));
            }
            Ok(())
        }
        _ => {
            let at = parse_time(&mut words)?;
            let what = parse_what(words)?;
            script.steps.push(Step {
                line,
                text: text.into(),
                at,
                what,
            });
            Ok(())
        }
    }
}

fn parse_time(words: &mut Words<'_>) -> Result<At, String> {
    let Some(word) = words
        .peek()
        .filter(|w| w.starts_with(|c: char| c.is_ascii_digit() || c == '+'))
    else {
        return Ok(At::Then);
    };
    words.next();
    let (time, tolerance) = match word.split_once('~') {
        Some((time, tolerance)) => (time, Some(tolerance)),
        None => (word, None),
    };
    let seconds = |s: &str| {
        s.parse::<f64>()
            .map_err(|_| format!("`{word}` is no time in seconds"))
    };
    let tolerance = tolerance.map(seconds).transpose()?;
    Ok(match time.strip_prefix('+') {
        Some(later) => At::Later(seconds(later)?, tolerance),
        None => At::Absolute(seconds(time)?, tolerance),
    })
}

fn parse_what(mut words: Words<'_>) -> Result<What, String> {
    let verb = words.after("the time")?;
    match verb {
        "<" if words.peek() == Some("icmp") => Ok(What::Icmp(parse_icmp(words)?)),
        "<" => Ok(What::Arrives(Spec::parse(&mut words, true)?)),
        ">" if words.peek() == Some("nothing") => Ok(What::Silence),
        ">" if words.peek() == Some("anything") => Ok(What::Anything),
        ">" => Ok(What::Leaves(Spec::parse(&mut words, false)?)),
        "=" => parse_expectations(words),
        _ => parse_command(verb, words).map(What::Command),
    }
}

fn parse_icmp(mut words: Words<'_>) -> Result<IcmpSpec, String> {
    words.next();
    let mut icmp = IcmpSpec {
        flow: words.flow()?,
        kind: words.after("icmp")?.into(),
        mtu: 0,
        seq: 0,
    };
    let mut has_seq = false;
    while let Some(word) = words.next() {
        match word {
            "mtu" => icmp.mtu = words.number(word)?,
            "seq" => {
                icmp.seq = words.number(word)?;
                has_seq = true;
            }
            _ => return Err(format!("`{word}`: an ICMP error has `mtu` and `seq`")),
        }
    }
    if has_seq {
        Ok(icmp)
    } else {
        Err("an ICMP error quotes a segment of ours: `seq N`".into())
    }
}

fn parse_command(verb: &str, mut words: Words<'_>) -> Result<Command, String> {
    let flow = words.flow()?;
    let command = match verb {
        "listen" => Command::Listen {
            fails: parse_fails(&mut words)?,
        },
        "close-listener" => Command::CloseListener,
        "connect" => Command::Connect {
            flow,
            fails: parse_fails(&mut words)?,
        },
        "accept" | "open" => {
            let spec = Spec::parse_options(&mut words, flow)?;
            let rtt = match words.next() {
                Some("rtt") => words.seconds("rtt")?,
                _ => 0.0,
            };
            Command::Handshake {
                spec,
                active: verb == "open",
                rtt,
            }
        }
        "send" => Command::Send {
            flow,
            bytes: words.number(verb)? as usize,
            refused: words.peek() == Some("refused") && words.next().is_some(),
        },
        "read" => Command::Read {
            flow,
            bytes: match words.peek() {
                Some("all") => words.next().and(None),
                _ => Some(words.number(verb)? as usize),
            },
        },
        name => Command::Simple {
            flow,
            name: name.into(),
        },
    };
    match words.next() {
        None => Ok(command),
        Some(word) => Err(format!("`{word}` is too much behind `{verb}`")),
    }
}

fn parse_fails(words: &mut Words<'_>) -> Result<Option<String>, String> {
    match words.peek() {
        Some("fails") => {
            words.next();
            Ok(Some(words.after("fails")?.into()))
        }
        _ => Ok(None),
    }
}

/// `= #2 accepted, readable 100, state established`.
fn parse_expectations(mut words: Words<'_>) -> Result<What, String> {
    let (flow, ipv6) = (words.flow()?, words.ipv6);
    let rest = words.rest();
    let expectation = |part: &str| {
        let mut words = Words::new(part, ipv6);
        let what = words.after("=")?.to_owned();
        let mut expect = Expect {
            flow,
            what,
            word: None,
            value: None,
        };
        while let Some(word) = words.next() {
            match Value::parse(word, ipv6) {
                Ok(value) => expect.value = Some(value),
                Err(_) => expect.word = Some(word.into()),
            }
        }
        Ok(expect)
    };
    rest.split(',')
        .map(expectation)
        .collect::<Result<_, String>>()
        .map(What::Expect)
}
