//! Clients with one request under way each, on one stack of ours: what a key-value store answers, and how soon.
//!
//! The request is always the same, and so is its answer, which is compared byte by byte.

use crate::limits::{POLL_INTERVAL, START_TIMEOUT};
use crate::report::percentile;
use crate::stage::helper::{Helper, say_ready};
use crate::stage::link::interface_with;
use exos::net::{Events, Interest, Net, Poll, TcpStream, Token, Trigger};
use exos_host::{Error, Result, error::Context as _};
use serde::{Deserialize, Serialize};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The server, what it is asked for, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Requests {
    pub to: SocketAddr,
    /// The clients' address, which the kernel does not have.
    pub from: IpAddr,
    pub connections: u32,
    /// What all of them ask in a turn leaves by one call; otherwise each request by its own, at once.
    pub gathers: bool,
    pub seconds: f64,
    /// Asked once, before all others.
    pub first: Exchange,
    pub then: Exchange,
}

/// A request, and its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub request: String,
    pub answer: String,
}

/// What the clients saw.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub per_sec: f64,
    /// How long an answer took, the median and the 99th percentile; where the client says.
    pub took_us: Option<[f64; 2]>,
}

/// Whose protocol clients speak.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Store {
    Redis,
    Memcached,
}

/// Bytes of a value.
const VALUE_LEN: usize = 100;

impl Store {
    /// What it is asked first, and then again and again, to `set` a value or to `get` it.
    pub(crate) fn exchanges(self, job: &str) -> [Exchange; 2] {
        let [set, get] = self.set_and_get();
        match job {
            "set" => [set.clone(), set],
            _ => [set, get],
        }
    }

    fn set_and_get(self) -> [Exchange; 2] {
        let value = "x".repeat(VALUE_LEN);
        let exchange = |request: String, answer: String| Exchange { request, answer };
        match self {
            Self::Memcached => [
                exchange(
                    format!("set key 0 0 {VALUE_LEN}\r\n{value}\r\n"),
                    "STORED\r\n".into(),
                ),
                exchange(
                    "get key\r\n".into(),
                    format!("VALUE key 0 {VALUE_LEN}\r\n{value}\r\nEND\r\n"),
                ),
            ],
            Self::Redis => [
                exchange(
                    format!("*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n${VALUE_LEN}\r\n{value}\r\n"),
                    "+OK\r\n".into(),
                ),
                exchange(
                    "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n".into(),
                    format!("${VALUE_LEN}\r\n{value}\r\n"),
                ),
            ],
        }
    }
}

/// A connection, when its request left, and what has come of the answer.
struct Client {
    stream: TcpStream,
    asked: Instant,
    came: Vec<u8>,
}

impl Helper for Requests {
    const NAME: &'static str = "requests";
    type Measured = Seen;

    fn run(self) -> Result<Seen> {
        let net = Net::attach(interface_with(self.from)?)?;
        let mut first = Client::connect(&net, self.to)?;
        first.ask(&self.first)?;
        while !first.has_answer(&self.first)? {}
        let clients = (0..self.connections).map(|_| Client::connect(&net, self.to));
        let mut clients = clients.collect::<Result<Vec<_>>>()?;
        say_ready()?;
        self.load(&net, &mut clients)
    }
}

impl Requests {
    fn load(&self, net: &Net, clients: &mut [Client]) -> Result<Seen> {
        let what = || "cannot wait for answers";
        let poll = Poll::new(net).context(what)?;
        for (number, client) in clients.iter_mut().enumerate() {
            let (token, level) = (Token(number), Trigger::Level);
            let registered = poll.register(&client.stream, token, Interest::READABLE, level);
            registered.context(what)?;
            // What a socket that waits writes leaves at once.
            client.stream.set_nonblocking(self.gathers).context(what)?;
            client.ask(&self.then)?;
        }
        let (begin, length) = (Instant::now(), Duration::from_secs_f64(self.seconds));
        let mut took_us = Vec::new();
        let mut events = Events::default();
        while begin.elapsed() < length {
            poll.wait(&mut events, Some(POLL_INTERVAL)).context(what)?;
            for event in events.iter() {
                let client = &mut clients[event.token.0];
                if client.has_answer(&self.then)? {
                    took_us.push(client.asked.elapsed().as_secs_f64() * 1e6);
                    client.ask(&self.then)?;
                }
            }
        }
        let per_sec = took_us.len() as f64 / begin.elapsed().as_secs_f64();
        if took_us.is_empty() {
            return Err(Error::new("not a single request was answered"));
        }
        Ok(Seen {
            per_sec,
            took_us: Some([0.5, 0.99].map(|share| percentile(&mut took_us, share))),
        })
    }
}

impl Client {
    /// Connects to a server that may be about to start.
    fn connect(net: &Net, to: SocketAddr) -> Result<Self> {
        let end = Instant::now() + START_TIMEOUT;
        let stream = loop {
            match TcpStream::connect_timeout(net, &to, START_TIMEOUT) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
                Err(error) => return Err(error).context(|| format!("cannot connect to {to}")),
            }
        };
        let what = || "cannot set up a connection";
        stream.set_nodelay(true).context(what)?;
        stream.set_read_timeout(Some(START_TIMEOUT)).context(what)?;
        Ok(Self {
            stream,
            asked: Instant::now(),
            came: Vec::new(),
        })
    }

    fn ask(&mut self, exchange: &Exchange) -> Result<()> {
        self.asked = Instant::now();
        self.came.clear();
        let sent = self.stream.write_all(exchange.request.as_bytes());
        sent.context(|| "cannot send a request")
    }

    /// Reads once; whether the answer is there.
    fn has_answer(&mut self, exchange: &Exchange) -> Result<bool> {
        let mut bytes = [0; 4096];
        let read = self.stream.read(&mut bytes);
        let read = read.context(|| "cannot read an answer")?;
        self.came.extend_from_slice(&bytes[..read]);
        match read {
            0 => Err(Error::new("a connection ended")),
            _ => is_answer(&self.came, exchange.answer.as_bytes()),
        }
    }
}

/// Whether all of an answer has come; an error where it is another.
fn is_answer(came: &[u8], answer: &[u8]) -> Result<bool> {
    if !answer.starts_with(came) {
        let came = String::from_utf8_lossy(came);
        return Err(Error::new(format!("a wrong answer: {came:?}")));
    }
    Ok(came.len() == answer.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_as_long_as_is_said() {
        for store in [Store::Redis, Store::Memcached] {
            let [set, get] = store.exchanges("get");
            assert!(set.request.contains(&"x".repeat(VALUE_LEN)), "{store:?}");
            assert!(get.answer.contains(&"x".repeat(VALUE_LEN)), "{store:?}");
            let [first, then] = store.exchanges("set");
            assert_eq!(first.request, then.request);
        }
    }

    #[test]
    fn answers_are_compared_byte_by_byte() {
        assert!(!is_answer(b"+O", b"+OK").expect("its beginning"));
        assert!(is_answer(b"+OK", b"+OK").expect("all of it"));
        for other in [&b"+NO"[..], b"+OK+"] {
            let error = is_answer(other, b"+OK").expect_err("another");
            assert!(error.what.contains("wrong answer"), "{error}");
        }
    }
}
