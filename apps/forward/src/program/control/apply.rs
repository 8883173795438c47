//! What a request does.

use std::net::{IpAddr, SocketAddr};

use super::request::{Kind, Request};
use crate::forwarder::Forwarder;
use crate::limits::WEIGHT_MAX;
use crate::packets::reach::Reach;
use crate::service::{Listener, Misfit, Server, Services, Standing};
use crate::settings::written::{ListenAddress, Weighted};

/// The address of ours that a server would see by a reach, or why there is none.
pub type Source<'a> = &'a dyn Fn(IpAddr, Reach) -> Result<IpAddr, String>;

/// Does what is asked, but for the status, and names the listeners behind which a server was changed. What cannot be done as
/// a whole is not done.
///
/// # Errors
///
/// Why it cannot be, and what to ask instead.
pub fn apply(
    forwarder: &mut Forwarder,
    request: &Request,
    source: Source<'_>,
) -> Result<Vec<String>, String> {
    let asked = ServerRequest::of(request)?;
    let changed = match request.request {
        Kind::Status | Kind::Reload | Kind::HandOver => {
            unreachable!("the program does that itself")
        }
        Kind::Add => asked.add(forwarder.services_mut(), source)?,
        Kind::Remove => asked.remove(forwarder, request.now)?,
        Kind::Drain => asked.each(forwarder, |services, listener, server| {
            services.set_draining(listener, server, true)
        })?,
        Kind::Resume => asked.each(forwarder, |services, listener, server| {
            services.set_draining(listener, server, false)
        })?,
        Kind::Weigh => {
            let weight = request.weight.filter(|weight| *weight <= WEIGHT_MAX);
            let weight = weight.ok_or_else(|| format!("give a weight from 0 to {WEIGHT_MAX}"))?;
            asked.each(forwarder, |services, listener, server| {
                services.set_weight(listener, server, weight)
            })?
        }
    };
    let name = |place: &u16| name(&forwarder.services().listeners[usize::from(*place)]);
    Ok(changed.iter().map(name).collect())
}

/// A listener as it is named in requests and answers.
fn name(listener: &Listener) -> String {
    format!(
        "{}:{}",
        listener.transport.name(),
        SocketAddr::from(listener.at)
    )
}

/// Names are resolved for what the forwarder is told at its start or by its file.
fn with_hint(error: String) -> String {
    format!(
        "{error}; names are for --to and the file, and the status says which addresses they have"
    )
}

/// A server, and behind which listener.
struct ServerRequest {
    server: Weighted,
    listener: Option<ListenAddress>,
}

impl ServerRequest {
    fn of(request: &Request) -> Result<Self, String> {
        let server = request.server.as_deref();
        let server = server.ok_or("say which server: \"server\":\"192.0.2.8:80\"")?;
        if request.request != Kind::Add && server.contains(',') {
            return Err(format!("{server:?} has a weight; name the server without"));
        }
        let listener = request.listener.as_deref().map(str::parse).transpose()?;
        Ok(Self {
            server: server.parse().map_err(with_hint)?,
            listener,
        })
    }

    fn end(&self, listener: &Listener) -> SocketAddr {
        let port = self.server.port.unwrap_or(listener.at.port);
        SocketAddr::new(self.server.ip, port)
    }

    /// The listeners that are meant, each with the server's end there.
    fn meant(&self, services: &Services) -> Result<Vec<(u16, SocketAddr)>, String> {
        let is_meant = |listener: &Listener| match &self.listener {
            Some(at) => listener.transport == at.transport && listener.at == at.at.into(),
            None => listener.at.address.is_ipv6() == self.server.ip.is_ipv6(),
        };
        let open = services.open_listeners();
        let open = open.filter(|(_, l)| l.standing == Standing::InUse && is_meant(l));
        let all: Vec<_> = open.map(|(place, l)| (place, self.end(l))).collect();
        match &self.listener {
            _ if !all.is_empty() => Ok(all),
            Some(at) => Err(format!(
                "nothing listens at {}:{}; ask for the status to see where",
                at.transport.name(),
                at.at
            )),
            None => Err(format!(
                "nothing listens for the family of {}; name a server of the other",
                self.server.ip
            )),
        }
    }

    fn add(&self, services: &mut Services, source: Source<'_>) -> Result<Vec<u16>, String> {
        let mut done: Vec<(u16, SocketAddr)> = Vec::new();
        for (listener, end) in self.meant(services)? {
            let ours = source(self.server.ip, services.reach(listener));
            let added = ours.and_then(|ours| {
                let added = services.add_server(listener, end, self.server.weight, ours);
                added.map_err(|misfit| misfit.to_string())
            });
            if let Err(error) = added {
                for (listener, end) in done {
                    let undone = services.remove_server(listener, end);
                    undone.expect("it has just been added");
                }
                return Err(error);
            }
            done.push((listener, end));
        }
        Ok(done.into_iter().map(|(listener, _)| listener).collect())
    }

    fn remove(&self, forwarder: &mut Forwarder, now: bool) -> Result<Vec<u16>, String> {
        let leaving = match now {
            true => self.leaving(forwarder.services())?,
            false => Vec::new(),
        };
        let mut removed = leaving.clone();
        let changed = self.each(forwarder, |services, listener, server| {
            let place = services.remove_server(listener, server)?;
            removed.push((listener, place));
            Ok(())
        });
        let mut changed = match changed {
            Err(_) if !leaving.is_empty() => Vec::new(),
            changed => changed?,
        };
        changed.extend(leaving.iter().map(|(listener, _)| listener));
        for (listener, place) in removed.into_iter().filter(|_| now) {
            forwarder.end_flows(listener, place);
        }
        Ok(changed)
    }

    /// Listeners from which the server was taken away, but that may have flows of it yet; each with the server's place.
    fn leaving(&self, services: &Services) -> Result<Vec<(u16, u16)>, String> {
        let mut leaving = Vec::new();
        for (place, end) in self.meant(services)? {
            let listener = &services.listeners[usize::from(place)];
            let is_it =
                |server: &Server| server.transport == listener.transport && server.at == end.into();
            let present = services.present().filter(|(_, server)| is_it(server));
            let gone = present.filter(|(server, _)| listener.member(*server).is_none());
            leaving.extend(gone.map(|(server, _)| (place, server)));
        }
        Ok(leaving)
    }

    /// Changes the server behind each listener that is meant and has it.
    fn each(
        &self,
        forwarder: &mut Forwarder,
        mut change: impl FnMut(&mut Services, u16, SocketAddr) -> Result<(), Misfit>,
    ) -> Result<Vec<u16>, String> {
        let services = forwarder.services_mut();
        let mut changed = Vec::new();
        let mut missing = None;
        for (listener, end) in self.meant(services)? {
            match change(services, listener, end) {
                Ok(()) => changed.push(listener),
                Err(misfit) => missing = Some(misfit),
            }
        }
        match missing {
            Some(misfit) if changed.is_empty() => Err(misfit.to_string()),
            _ => Ok(changed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::packet::Transport;
    use crate::service::Listen;
    use exos_wire::Mac;

    fn forwarder() -> Forwarder {
        let listen = |transport, at: &str, server: &str| {
            let at: SocketAddr = at.parse().unwrap();
            Listen {
                transport,
                at,
                reach: Reach::Nat,
                to: vec![(server.parse().unwrap(), 1, at.ip())],
            }
        };
        let wanted = [
            listen(Transport::Tcp, "10.0.0.20:80", "10.0.0.11:80"),
            listen(Transport::Udp, "10.0.0.20:53", "10.0.0.11:53"),
            listen(Transport::Tcp, "[fd00::20]:80", "[fd00::11]:80"),
        ];
        let services = Services::new(&wanted).unwrap();
        Forwarder::new(services, Mac([2, 0, 0, 0, 0, 9]), 10, 1)
    }

    fn ask(forwarder: &mut Forwarder, line: &str) -> Result<Vec<String>, String> {
        let source = |ip: IpAddr, _| match ip.is_ipv6() {
            false => Ok([10, 0, 0, 20].into()),
            true => Ok("fd00::20".parse().unwrap()),
        };
        let request = Request::parse(line.as_bytes())?;
        apply(forwarder, &request, &source)
    }

    fn members(forwarder: &Forwarder, listener: usize) -> Vec<(SocketAddr, u16, bool)> {
        let services = forwarder.services();
        let members = services.listeners[listener].members().iter();
        members
            .map(|m| {
                let at = services.servers[usize::from(m.server)].at.into();
                (at, m.weight, m.is_draining)
            })
            .collect()
    }

    #[test]
    fn servers_change_behind_all_listeners_or_one() {
        let mut forwarder = forwarder();
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let both = ["tcp:10.0.0.20:80", "udp:10.0.0.20:53"];
        let asked = r#"{"request":"add","server":"10.0.0.12,3"}"#;
        assert_eq!(ask(&mut forwarder, asked).unwrap(), both);
        assert_eq!(
            members(&forwarder, 1),
            [
                (end("10.0.0.11:53"), 1, false),
                (end("10.0.0.12:53"), 3, false)
            ]
        );
        let asked = r#"{"request":"weigh","server":"10.0.0.12:80","weight":7}"#;
        assert_eq!(ask(&mut forwarder, asked).unwrap(), both[..1]);
        let asked = r#"{"request":"drain","server":"10.0.0.12","listener":"udp:10.0.0.20:53"}"#;
        assert_eq!(ask(&mut forwarder, asked).unwrap(), both[1..]);
        assert_eq!(members(&forwarder, 0)[1], (end("10.0.0.12:80"), 7, false));
        assert_eq!(members(&forwarder, 1)[1], (end("10.0.0.12:53"), 3, true));
        let asked = r#"{"request":"resume","server":"10.0.0.12"}"#;
        assert_eq!(ask(&mut forwarder, asked).unwrap(), both);
        assert!(!members(&forwarder, 1)[1].2);
        let asked = r#"{"request":"remove","server":"10.0.0.12","now":true}"#;
        assert_eq!(ask(&mut forwarder, asked).unwrap(), both);
        assert_eq!(members(&forwarder, 0).len(), 1);
    }

    /// What was removed without --now can still be removed with it, while it is leaving.
    #[test]
    fn flows_of_a_server_that_leaves_can_be_ended() {
        let mut forwarder = forwarder();
        let now = exos_inet::Instant::from_millis(1_000_000);
        let mut frame = Vec::new();
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 9]);
        let builder = builder.ipv4([10, 0, 0, 1], [10, 0, 0, 20], 9).udp(1000, 53);
        builder.write(&mut frame, b"?").unwrap();
        forwarder.handle_frame(now, &mut frame, exos_inet::RxChecksum::Unknown);
        let remove = r#"{"request":"remove","server":"10.0.0.11","listener":"udp:10.0.0.20:53"}"#;
        let at_once = remove.replace('}', ",\"now\":true}");
        let udp = ["udp:10.0.0.20:53"];
        assert_eq!(ask(&mut forwarder, remove).unwrap(), udp);
        assert!(ask(&mut forwarder, remove).is_err());
        assert_eq!(forwarder.flows().len(), 1);
        assert_eq!(ask(&mut forwarder, &at_once).unwrap(), udp);
        while forwarder.poll_timeout() == Some(exos_inet::Instant::START) {
            forwarder.handle_timeout(now);
        }
        assert_eq!(forwarder.flows().len(), 0);
        assert!(ask(&mut forwarder, &at_once).is_err(), "it has gone");
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_remedy_and_changes_nothing() {
        let mut forwarder = forwarder();
        // Behind the second listener it is there already: so it is not added to the first.
        ask(
            &mut forwarder,
            r#"{"request":"add","server":"10.0.0.12:53","listener":"udp:10.0.0.20:53"}"#,
        )
        .unwrap();
        for (line, said) in [
            ("", "this is no request"),
            ("[]", "this is no request"),
            (r#"{"request":"explode"}"#, "unknown variant"),
            (r#"{"request":"status","colour":1}"#, "unknown field"),
            (r#"{"request":"drain"}"#, "say which server"),
            (r#"{"request":"drain","server":"web"}"#, "write for example"),
            (r#"{"request":"drain","server":"10.0.0.11,2"}"#, "without"),
            (
                r#"{"request":"drain","server":"10.0.0.99"}"#,
                "is no server of",
            ),
            (
                r#"{"request":"drain","server":"10.0.0.11","listener":"tcp:10.0.0.20:81"}"#,
                "nothing listens at",
            ),
            (
                r#"{"request":"weigh","server":"10.0.0.11"}"#,
                "from 0 to 1000",
            ),
            (
                r#"{"request":"weigh","server":"10.0.0.11","weight":1001}"#,
                "from 0 to 1000",
            ),
            (
                r#"{"request":"add","server":"10.0.0.12:53"}"#,
                "named twice",
            ),
            (r#"{"request":"add","server":"10.0.0.20:9"}"#, "a loop"),
        ] {
            let refused = ask(&mut forwarder, line).unwrap_err();
            assert!(refused.contains(said), "{line}: {refused}");
        }
        assert_eq!(members(&forwarder, 0).len(), 1);
        assert_eq!(forwarder.services().present().count(), 4);
    }
}
