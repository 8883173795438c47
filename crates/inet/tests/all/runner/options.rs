//! What a script's `with` lines, commands and expectations mean in the words of the stack's
//! interface. Anyone who adds an option, a command or a figure to the stack adds it here.

use std::time::Duration;

use exos_inet::Config;
use exos_inet::tcp::congestion::Algorithm;
use exos_inet::tcp::{
    EcnMode, EventSet, Info, Keepalive, ListenOptions, OpenError, Options, Reason, State,
    SynCookies,
};

use super::parse::{Command, Expect, Setup};
use super::play::Player;
use super::value::Value;

/// Settings of the whole stack.
pub fn configure(config: &mut Config, setup: &Setup) {
    if let Some(most) = setup.get("connections-max") {
        config.connections_max = most as usize;
    }
    if let Some(bytes) = setup.get("memory") {
        config.tcp_memory_bytes_max = bytes as usize;
    }
}

/// Settings of a connection.
fn options(setup: &Setup) -> Options {
    let mut options = Options {
        nagle: setup.has("nagle"),
        sack: !setup.has("no-sack"),
        ..Options::default()
    };
    if let Some(bytes) = setup.get("rcvbuf") {
        options.receive_buffer_bytes = bytes as u32;
        options.receive_buffer_max_bytes = bytes as u32;
    }
    if let Some(bytes) = setup.get("rcvbuf-max") {
        options.receive_buffer_max_bytes = bytes as u32;
    }
    let seconds = |key| {
        let seconds = setup.get(key)?;
        Some(Duration::from_secs(seconds as u64))
    };
    options.user_timeout = seconds("user-timeout");
    if setup.has("keepalive") || setup.has("keepalive-idle") {
        let usual = Keepalive::default();
        options.keepalive = Some(Keepalive {
            idle: seconds("keepalive-idle").unwrap_or(usual.idle),
            interval: seconds("keepalive-interval").unwrap_or(usual.interval),
            count: setup
                .get("keepalive-count")
                .map_or(usual.count, |n| n as u8),
        });
    }
    if setup.has("newreno") {
        options.congestion = Algorithm::NewReno;
    }
    if setup.has("ecn-off") {
        options.ecn = EcnMode::Off;
    }
    if setup.has("ecn-request") {
        options.ecn = EcnMode::Request;
    }
    options
}

fn listen_options(setup: &Setup) -> ListenOptions {
    let mut listen = ListenOptions {
        connection: options(setup),
        ..ListenOptions::default()
    };
    if let Some(backlog) = setup.get("backlog") {
        listen.backlog = backlog as usize;
    }
    if setup.has("no-cookies") {
        listen.syn_cookies = SynCookies::Never;
    }
    if setup.has("always-cookies") {
        listen.syn_cookies = SynCookies::Always;
    }
    listen
}

/// `set` without `gone`.
pub fn without(set: EventSet, gone: EventSet) -> EventSet {
    EVENTS
        .iter()
        .map(|(_, event)| *event)
        .filter(|&event| set.contains(event) && !gone.contains(event))
        .fold(EventSet::NONE, EventSet::with)
}

const EVENTS: [(&str, EventSet); 6] = [
    ("accepted", EventSet::ACCEPTED),
    ("connected", EventSet::CONNECTED),
    ("readable", EventSet::READABLE),
    ("acknowledged", EventSet::ACKNOWLEDGED),
    ("finished", EventSet::FINISHED),
    ("closed", EventSet::CLOSED),
];

/// `FinWait1` as `fin-wait-1`.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if (c.is_uppercase() || c.is_ascii_digit()) && !out.is_empty() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Figures of `Info` by the names that scripts use.
fn figure(info: &Info, name: &str) -> Option<i64> {
    let us = |d: Duration| d.as_micros() as i64;
    Some(match name {
        "mss" => info.mss.into(),
        "cwnd" => info.congestion_window.into(),
        "ssthresh" => info.slow_start_threshold.into(),
        "send-window" => info.send_window.into(),
        "receive-window" => info.receive_window.into(),
        "in-flight" => info.in_flight.into(),
        "unacknowledged" => info.unacknowledged as i64,
        "receive-buffer" => info.receive_buffer.into(),
        "receive-space" => info.receive_space.into(),
        "receive-rtt-ms" => info.receive_rtt.map_or(0, us) / 1000,
        "receive-mss" => info.receive_mss.into(),
        "out-of-order" => info.out_of_order as i64,
        "unread" => info.unread as i64,
        "in-recovery" => info.in_recovery.into(),
        "rto-ms" => us(info.retransmission_timeout) / 1000,
        "srtt-ms" => info.rtt.map_or(0, us) / 1000,
        "rttvar-ms" => us(info.rtt_variation) / 1000,
        _ => return None,
    })
}

impl Player {
    /// Run a command that the stack's interface has.
    pub fn run(&mut self, command: &Command) -> Result<(), String> {
        match command {
            Command::Listen { fails } => {
                let made = self.stack.tcp.listen(None, 80, listen_options(&self.setup));
                self.listener = made.ok().or(self.listener);
                outcome(made.map(|_| ()), fails.as_deref())
            }
            Command::CloseListener => {
                let id = self.listener.take().ok_or("nothing listens")?;
                self.stack.tcp.close_listener(id);
                Ok(())
            }
            Command::Connect { flow, fails } => self.connect(*flow, fails.as_deref()),
            Command::Simple { flow, name } => self.simple(*flow, name),
            Command::Handshake { .. } | Command::Send { .. } | Command::Read { .. } => {
                unreachable!("the player's own")
            }
        }
    }

    fn connect(&mut self, number: usize, fails: Option<&str>) -> Result<(), String> {
        let options = options(&self.setup);
        let flow = self.flow(number, true);
        let (local, remote) = (flow.local, flow.remote);
        let made = self
            .stack
            .tcp
            .connect(self.now, Some(local), remote, &options);
        let flow = self.flow(number, true);
        if let Ok(id) = made {
            (flow.id, flow.closed) = (Some(id), None);
            (flow.ours, flow.clock) = (None, None);
            (flow.sent, flow.read) = (0, 0);
        }
        outcome(made.map(|_| ()), fails)
    }

    fn simple(&mut self, number: usize, name: &str) -> Result<(), String> {
        let id = self.id(number)?;
        match name {
            "finish" => self.stack.tcp.finish(id),
            "abort" => self.stack.tcp.abort(id),
            "discard" => self.stack.tcp.discard_received(id),
            "acknowledge" => self.stack.tcp.acknowledge_now(id),
            _ => return Err(format!("`{name}` is no command")),
        }
        Ok(())
    }

    /// One expectation.
    pub fn expect(&mut self, expect: &Expect) -> Result<(), String> {
        if let Some((_, event)) = EVENTS.iter().find(|(name, _)| *name == expect.what) {
            return self.expect_event(expect, *event);
        }
        let got = match expect.what.as_str() {
            "state" => return self.expect_state(expect),
            "no-news" => return self.expect_no_news(expect.flow),
            "timer" => return self.expect_timer(expect),
            "counter" => self.counter(expect.word.as_deref().unwrap_or(""))?,
            "connections" => self.stack.tcp.connections() as i64,
            "memory-used" => self.stack.tcp.memory().used as i64,
            "time-wait" => self.stack.tcp.time_wait_connections() as i64,
            name => self.figure(expect.flow, name)?,
        };
        let want = expect.value.ok_or("what must it be?")?;
        if want.admits(got) {
            Ok(())
        } else {
            let name = expect.word.as_ref().unwrap_or(&expect.what);
            Err(format!("{name} is {got}, not {want}"))
        }
    }

    fn expect_event(&mut self, expect: &Expect, event: EventSet) -> Result<(), String> {
        if !self.claim(expect.flow, event) {
            return Err(format!("the program has not heard `{}`", expect.what));
        }
        if let Some(want) = &expect.word {
            let reason = self.flow(expect.flow, false).closed;
            let got = reason.map_or_else(|| "nothing".into(), |r: Reason| kebab(&format!("{r:?}")));
            if got != *want {
                return Err(format!("closed as {got}, not {want}"));
            }
        }
        match expect.value {
            Some(want) if event == EventSet::READABLE => {
                let got = self.figure(expect.flow, "unread")?;
                (want.admits(got))
                    .then_some(())
                    .ok_or_else(|| format!("{got} bytes are readable, not {want}"))
            }
            _ => Ok(()),
        }
    }

    fn expect_no_news(&mut self, number: usize) -> Result<(), String> {
        let heard = self.flow(number, false).heard;
        let names: Vec<_> = EVENTS
            .iter()
            .filter(|(_, event)| heard.contains(*event))
            .map(|(name, _)| *name)
            .collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(format!("the program has heard: {}", names.join(", ")))
        }
    }

    fn expect_state(&mut self, expect: &Expect) -> Result<(), String> {
        let flow = self.flow(expect.flow, false);
        let (id, over) = (flow.id, flow.closed.is_some());
        let connection = id
            .filter(|_| !over)
            .and_then(|id| self.stack.tcp.connection(id));
        let got = match connection {
            Some(c) if c.state() != State::Closed => kebab(&format!("{:?}", c.state())),
            // A half-open connection that its program has not heard of, or one in TIME-WAIT.
            _ if self.stack.tcp.time_wait_connections() > 0 => "time-wait".into(),
            _ if !over && id.is_none() && self.stack.tcp.connections() > 0 => "syn-received".into(),
            _ => "closed".into(),
        };
        let want = expect.word.as_deref().unwrap_or("");
        if got == want {
            Ok(())
        } else {
            Err(format!("the state is {got}, not {want}"))
        }
    }

    /// `timer none`, or `timer` at this many milliseconds from now.
    fn expect_timer(&mut self, expect: &Expect) -> Result<(), String> {
        let id = self.id(expect.flow)?;
        let connection = self
            .stack
            .tcp
            .connection(id)
            .ok_or("the connection is over")?;
        let left = connection
            .next_deadline()
            .map(|at| (at - self.now).as_millis() as i64);
        let want = expect.value.unwrap_or(Value::Any);
        match (left, expect.word.as_deref()) {
            (None, Some("none")) => Ok(()),
            (None, _) => Err("no timer runs".into()),
            (Some(left), Some(_)) => Err(format!("a timer runs, and ends in {left} ms")),
            (Some(left), None) if want.admits(left) => Ok(()),
            (Some(left), None) => Err(format!("the timer ends in {left} ms, not {want}")),
        }
    }

    fn counter(&self, name: &str) -> Result<i64, String> {
        let list = self.stack.counters().list();
        let found = list.iter().find(|(n, _)| *n == name);
        found
            .map(|(_, value)| *value as i64)
            .ok_or_else(|| format!("`{name}` is no counter"))
    }

    fn figure(&mut self, number: usize, name: &str) -> Result<i64, String> {
        let flow = self.flow(number, false);
        if name == "unread" && flow.closed.is_some() {
            return Ok(flow.leftover.len() as i64);
        }
        let id = self.id(number)?;
        let connection = self
            .stack
            .tcp
            .connection(id)
            .ok_or("the connection is over")?;
        figure(&connection.info(), name).ok_or_else(|| format!("`{name}` is nothing to expect"))
    }
}

/// Compare how opening went with how it should.
fn outcome(made: Result<(), OpenError>, fails: Option<&str>) -> Result<(), String> {
    match (made, fails) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(want)) => Err(format!("it worked, and should fail with {want}")),
        (Err(e), Some(want)) if kebab(&format!("{e:?}")) == want => Ok(()),
        (Err(e), _) => Err(format!("it failed: {e:?} ({e})")),
    }
}
