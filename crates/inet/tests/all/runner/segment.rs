//! A segment as a script writes it: `S. seq 0 ack 1 win 65535 mss 1460`.
//!
//! These words describe what arrives and what is expected to leave. Numbers count from the SYN of
//! their direction. In an arriving segment a word that is missing means the field's natural value;
//! in an expected one it means that the field is zero or absent, except for the window, which is then
//! not looked at, and for the options when the line ends with `...`.

use super::value::Value;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;
pub const ECE: u8 = 64;
pub const CWR: u8 = 128;

/// tcpdump's letters, from the lowest bit.
const LETTERS: [(char, u8); 8] = [
    ('F', FIN),
    ('S', SYN),
    ('R', RST),
    ('P', PSH),
    ('.', ACK),
    ('U', URG),
    ('E', ECE),
    ('W', CWR),
];

/// One option.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Opt {
    /// `mss N`.
    Mss(Value),
    /// `wscale N`.
    Scale(Value),
    /// `sackok`.
    SackPermitted,
    /// `sack 5:7,9:11`.
    Sack(Vec<(Value, Value)>),
    /// `ts VALUE ECHO`.
    Timestamps(Value, Value),
    /// `nop`: padding in the middle. Never expected: padding is not compared.
    Nop,
    /// `eol`: the end of the options, whatever follows.
    Eol,
    /// `opt HEX`: these bytes as they are.
    Raw(Vec<u8>),
}

/// A segment.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Which connection, from 1.
    pub flow: usize,
    pub flags: u8,
    pub seq: Value,
    pub ack: Option<Value>,
    pub len: Value,
    pub window: Option<Value>,
    pub urgent: Option<Value>,
    pub options: Vec<Opt>,
    /// `...`: further options are fine.
    pub more_options: bool,
    /// The two ECN bits of the IP header.
    pub ecn: u8,
    /// `x10`: ten of them, one behind the other.
    pub repeat: usize,
    /// `every 0.010`: time between repetitions.
    pub every: f64,
    /// `by 500`: how far the sequence number moves with each; else by the length.
    pub step: Option<i64>,
    /// `forged`: the data is not the stream's.
    pub forged: bool,
    /// `badsum`: the TCP checksum is wrong.
    pub bad_checksum: bool,
}

/// The words of a line, taken one after the other.
pub struct Words<'a> {
    words: std::vec::IntoIter<&'a str>,
    pub ipv6: bool,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str, ipv6: bool) -> Self {
        let words: Vec<_> = text.split_whitespace().collect();
        Self {
            words: words.into_iter(),
            ipv6,
        }
    }

    pub fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    pub fn peek(&self) -> Option<&'a str> {
        self.words.as_slice().first().copied()
    }

    /// The word that must follow `after`.
    pub fn after(&mut self, after: &str) -> Result<&'a str, String> {
        self.next()
            .ok_or_else(|| format!("something must follow `{after}`"))
    }

    pub fn value(&mut self, after: &str) -> Result<Value, String> {
        Value::parse(self.after(after)?, self.ipv6)
    }

    pub fn number(&mut self, after: &str) -> Result<i64, String> {
        let word = self.after(after)?;
        Value::parse(word, self.ipv6)?
            .number()
            .ok_or_else(|| format!("`{word}`: one number must follow `{after}`"))
    }

    pub fn seconds(&mut self, after: &str) -> Result<f64, String> {
        let word = self.after(after)?;
        word.parse()
            .map_err(|_| format!("`{word}` is no time in seconds"))
    }

    /// `#2`, or 1.
    pub fn flow(&mut self) -> Result<usize, String> {
        let Some(name) = self.peek().and_then(|w| w.strip_prefix('#')) else {
            return Ok(1);
        };
        self.next();
        name.parse()
            .ok()
            .filter(|&n| n > 0)
            .ok_or_else(|| format!("`#{name}`: connections are numbered from 1"))
    }

    pub fn rest(self) -> String {
        self.words.collect::<Vec<_>>().join(" ")
    }
}

impl Spec {
    fn empty(flow: usize) -> Self {
        Self {
            flow,
            flags: 0,
            seq: Value::Any,
            ack: None,
            len: Value::Is(0),
            window: None,
            urgent: None,
            options: Vec::new(),
            more_options: false,
            ecn: 0,
            repeat: 1,
            every: 0.0,
            step: None,
            forged: false,
            bad_checksum: false,
        }
    }

    /// Options and window only, as the commands that make a handshake take them.
    pub fn parse_options(words: &mut Words<'_>, flow: usize) -> Result<Self, String> {
        let mut spec = Self::empty(flow);
        while let Some(word) = words.peek() {
            if word == "rtt" {
                break;
            }
            words.next();
            spec.word(word, words)?;
        }
        Ok(spec)
    }

    /// Read a segment from the words behind `<` or `>`.
    pub fn parse(words: &mut Words<'_>, arrives: bool) -> Result<Self, String> {
        let mut spec = Self::empty(words.flow()?);
        spec.flags = parse_flags(words.after("the direction")?)?;
        let mut has_seq = false;
        while let Some(word) = words.next() {
            has_seq |= word == "seq";
            spec.word(word, words)?;
        }
        if !has_seq {
            return Err("a segment has a `seq`".into());
        }
        if (spec.flags & ACK != 0) != spec.ack.is_some() && !(arrives && spec.ack.is_some()) {
            return Err("`ack N` goes with the flag `.`, and only with it".into());
        }
        if arrives && (spec.seq.number().is_none() || spec.len.number().is_none()) {
            return Err("a segment that arrives has one `seq` and one `len`".into());
        }
        if arrives && spec.more_options {
            return Err("`...` is for expected segments".into());
        }
        Ok(spec)
    }

    fn word(&mut self, word: &str, words: &mut Words<'_>) -> Result<(), String> {
        match word {
            "seq" => self.seq = words.value(word)?,
            "ack" => self.ack = Some(words.value(word)?),
            "len" => self.len = words.value(word)?,
            "win" => self.window = Some(words.value(word)?),
            "urg" => self.urgent = Some(words.value(word)?),
            "ect0" => self.ecn = 2,
            "ect1" => self.ecn = 1,
            "ce" => self.ecn = 3,
            // In the commands that make a handshake: the peer asks for ECN, or grants it.
            "ecn" => self.flags |= ECE | CWR,
            "..." => self.more_options = true,
            "forged" => self.forged = true,
            "badsum" => self.bad_checksum = true,
            "every" => self.every = words.seconds(word)?,
            "by" => self.step = Some(words.number(word)?),
            _ => match word.strip_prefix('x').and_then(|n| n.parse().ok()) {
                Some(times) => self.repeat = times,
                None => self.options.push(parse_option(word, words)?),
            },
        }
        Ok(())
    }

    /// Sequence numbers that it takes.
    pub fn seq_len(&self) -> i64 {
        let controls = (self.flags & (SYN | FIN)).count_ones();
        self.len.number().unwrap_or(0) + i64::from(controls)
    }
}

fn parse_flags(word: &str) -> Result<u8, String> {
    if word == "none" {
        return Ok(0);
    }
    word.chars().try_fold(0, |flags, letter| {
        LETTERS
            .iter()
            .find(|(l, _)| *l == letter)
            .map(|(_, bit)| flags | bit)
            .ok_or_else(|| {
                format!("`{word}` are no flags: letters are F S R P U E W and `.` for ACK")
            })
    })
}

pub fn flags_text(flags: u8) -> String {
    if flags == 0 {
        return "none".into();
    }
    LETTERS
        .iter()
        .filter(|(_, bit)| flags & bit != 0)
        .map(|(letter, _)| *letter)
        .collect()
}

fn parse_option(word: &str, words: &mut Words<'_>) -> Result<Opt, String> {
    Ok(match word {
        "mss" => Opt::Mss(words.value(word)?),
        "wscale" => Opt::Scale(words.value(word)?),
        "sackok" => Opt::SackPermitted,
        "ts" => Opt::Timestamps(words.value(word)?, words.value("the timestamp's value")?),
        "sack" => Opt::Sack(parse_blocks(words.after(word)?, words.ipv6)?),
        "nop" => Opt::Nop,
        "eol" => Opt::Eol,
        "opt" => Opt::Raw(parse_hex(words.after(word)?)?),
        _ => {
            return Err(format!(
                "`{word}` is no field of a segment: seq ack len win urg, mss wscale sackok sack ts \
                 nop eol opt, ect0 ect1 ce, xN every by, forged badsum ..."
            ));
        }
    })
}

fn parse_blocks(word: &str, ipv6: bool) -> Result<Vec<(Value, Value)>, String> {
    word.split(',')
        .map(|block| {
            let (left, right) = block
                .split_once(':')
                .ok_or_else(|| format!("`{block}` is no block: LEFT:RIGHT"))?;
            Ok((Value::parse(left, ipv6)?, Value::parse(right, ipv6)?))
        })
        .collect()
}

fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("`{text}` are no bytes in hexadecimal");
    if !text.len().is_multiple_of(2) {
        return Err(bad());
    }
    (0..text.len())
        .step_by(2)
        .map(|at| {
            let byte = text.get(at..at + 2).ok_or_else(bad)?;
            u8::from_str_radix(byte, 16).map_err(|_| bad())
        })
        .collect()
}
