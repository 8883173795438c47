//! Which sockets are shown: protocols, families, and states as ss(8) has them.

use exos::Error;
use exos::inet::tcp::State;
use exos::watch::{Protocol, Socket};

/// The name of a state in ss's table.
pub(crate) const fn name(state: State) -> &'static str {
    match state {
        State::Closed => "UNCONN",
        State::Listen => "LISTEN",
        State::SynSent => "SYN-SENT",
        State::SynReceived => "SYN-RECV",
        State::Established => "ESTAB",
        State::FinWait1 => "FIN-WAIT-1",
        State::FinWait2 => "FIN-WAIT-2",
        State::CloseWait => "CLOSE-WAIT",
        State::Closing => "CLOSING",
        State::LastAck => "LAST-ACK",
        State::TimeWait => "TIME-WAIT",
    }
}

/// A set of states, a bit for each by its place in [`State::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct States(u16);

impl States {
    pub const ALL: Self = Self((1 << State::ALL.len()) - 1);
    pub const NONE: Self = Self(0);

    fn of(states: &[State]) -> Self {
        let bit = |state: &State| 1 << State::ALL.iter().position(|s| s == state).unwrap_or(0);
        Self(states.iter().map(bit).fold(0, |all, bit: u16| all | bit))
    }

    fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub fn has(self, state: State) -> bool {
        self.0 & Self::of(&[state]).0 != 0
    }

    /// Those that wait for connections or datagrams of anybody.
    pub fn listening() -> Self {
        Self::of(&[State::Listen, State::Closed])
    }

    /// What is shown when nothing is said: connections that stand, or are being opened or closed by us.
    pub fn usual() -> Self {
        let small = Self::of(&[State::SynReceived, State::TimeWait]);
        Self::ALL.without(Self::listening()).without(small)
    }

    /// By a name of ss's.
    fn named(name: &str) -> Option<Self> {
        let connected = Self::ALL.without(Self::listening());
        Some(match name {
            "all" => Self::ALL,
            "connected" => connected,
            "synchronized" => connected.without(Self::of(&[State::SynSent])),
            "bucket" => Self::of(&[State::SynReceived, State::TimeWait]),
            "big" => Self::ALL.without(Self::of(&[State::SynReceived, State::TimeWait])),
            "established" => Self::of(&[State::Established]),
            "listening" => Self::of(&[State::Listen]),
            "closed" | "unconnected" => Self::of(&[State::Closed]),
            "syn-sent" => Self::of(&[State::SynSent]),
            "syn-recv" => Self::of(&[State::SynReceived]),
            "fin-wait-1" => Self::of(&[State::FinWait1]),
            "fin-wait-2" => Self::of(&[State::FinWait2]),
            "close-wait" => Self::of(&[State::CloseWait]),
            "closing" => Self::of(&[State::Closing]),
            "last-ack" => Self::of(&[State::LastAck]),
            "time-wait" => Self::of(&[State::TimeWait]),
            _ => return None,
        })
    }

    /// What the words of a filter leave of these: `state NAME` and `exclude NAME`, as often as one likes.
    ///
    /// # Errors
    ///
    /// They are no filter.
    pub fn filtered(self, words: &[String]) -> Result<Self, Error> {
        let mend = "filters are: state NAME, exclude NAME, with all, connected, synchronized, bucket, big, established, listening, \
            unconnected, syn-sent, syn-recv, fin-wait-1, fin-wait-2, close-wait, closing, last-ack or time-wait";
        let (mut only, mut states) = (Self::NONE, self);
        for pair in words.chunks(2) {
            let named = pair
                .get(1)
                .and_then(|name| Self::named(&name.to_lowercase()));
            match (pair[0].as_str(), named) {
                ("state", Some(named)) => {
                    only = only.with(named);
                    states = only;
                }
                ("exclude", Some(named)) => states = states.without(named),
                _ => {
                    let words = words.join(" ");
                    return Err(Error::new(format!("this is no filter: {words}")).mend(mend));
                }
            }
        }
        Ok(states)
    }
}

/// Which sockets are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub states: States,
    pub tcp: bool,
    pub udp: bool,
    pub ipv4: bool,
    pub ipv6: bool,
}

impl Wanted {
    pub fn has(&self, socket: &Socket) -> bool {
        let is_protocol = match socket.protocol {
            Protocol::Tcp => self.tcp,
            Protocol::Udp => self.udp,
        };
        let is_family = match socket.address {
            Some(ip) if ip.is_ipv4() => self.ipv4,
            Some(_) => self.ipv6,
            // Of both families.
            None => true,
        };
        is_protocol && is_family && self.states.has(socket.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(words: &str) -> Result<States, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let filtered = States::usual().filtered(&words);
        filtered.map_err(|error| error.to_string())
    }

    #[test]
    fn filters_choose_states() {
        let only = |states: &[State]| Ok(States::of(states));
        assert_eq!(filtered(""), Ok(States::usual()));
        assert_eq!(filtered("state established"), only(&[State::Established]));
        assert_eq!(filtered("state TIME-WAIT"), only(&[State::TimeWait]));
        assert_eq!(
            filtered("state listening state syn-recv"),
            only(&[State::Listen, State::SynReceived])
        );
        assert_eq!(
            filtered("state bucket exclude time-wait"),
            only(&[State::SynReceived])
        );
        assert!(
            !filtered("exclude established")
                .expect("one")
                .has(State::Established)
        );
        for strange in [
            "state",
            "state open",
            "sport = 80",
            "established",
            "exclude",
        ] {
            let error = filtered(strange).expect_err("no filter");
            assert!(error.starts_with("this is no filter"), "{error}");
        }
    }

    #[test]
    fn the_usual_states_are_those_of_ss() {
        let usual = State::ALL
            .into_iter()
            .filter(|state| States::usual().has(*state));
        let names: Vec<_> = usual.map(name).collect();
        assert_eq!(
            names,
            [
                "SYN-SENT",
                "ESTAB",
                "FIN-WAIT-1",
                "FIN-WAIT-2",
                "CLOSE-WAIT",
                "CLOSING",
                "LAST-ACK"
            ]
        );
        for state in State::ALL {
            assert!(States::ALL.has(state) && !States::NONE.has(state));
        }
    }
}
