//! The servers: what each is, where it answers, and whether it is there.

use crate::stage::process::{self, Available, find_program, output_of, version};
use exos_host::{Error, Result};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

/// A server to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Server {
    /// exos serve on the interface itself.
    Exos,
    /// exos serve with SYNs answered in the kernel; only for the client packets, because wrk's end of the wire has no
    /// XDP program
    Handlers,
    /// exos serve with short documents answered in the kernel; only for the client packets, as exos-handlers is
    Kernel,
    /// exos serve without privilege, on a virtual interface from the daemon.
    Xokd,
    /// exos serve on kernel sockets.
    Sockets,
    /// nginx, unmodified, by exos run, which shares its sockets.
    Run,
    /// nginx, unmodified, by exos run, which intercepts its calls.
    RunIntercept,
    /// nginx.
    Nginx,
    /// h2o.
    H2o,
    /// lighttpd.
    Lighttpd,
    /// caddy; only over HTTP/3, which nginx and HAProxy do not speak, and h2o from 2.3 on.
    Caddy,
    /// HAProxy; only over TLS and HTTP/2 with short documents, and before an upstream, because it has no files.
    Haproxy,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Server::Exos => "exos",
            Server::Handlers => "exos-handlers",
            Server::Kernel => "exos-kernel",
            Server::Xokd => "exos-xokd",
            Server::Sockets => "exos-sockets",
            Server::Run => "exos-run",
            Server::RunIntercept => "exos-run-intercept",
            Server::Nginx => "nginx",
            Server::H2o => "h2o",
            Server::Lighttpd => "lighttpd",
            Server::Caddy => "caddy",
            Server::Haproxy => "haproxy",
        })
    }
}

/// The kernel's address on side a.
pub(super) const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
/// An address there that the kernel does not have, and so does not answer for.
pub(super) const EXOS: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 10);
pub(super) const PORT: u16 = 80;
const TLS_PORT: u16 = 443;
/// Where nginx speaks HTTP/2 in plain text.
const NGINX_HTTP2_PORT: u16 = 81;

impl Server {
    /// A web server of ours.
    pub fn is_ours(self) -> bool {
        self.has_stack() || self == Self::Sockets
    }

    /// A web server on our stack.
    fn has_stack(self) -> bool {
        matches!(
            self,
            Self::Exos | Self::Handlers | Self::Kernel | Self::Xokd
        )
    }

    /// Whether clients on sockets can load it: what a handler answers arrives only where a program of XDP receives.
    pub(crate) fn is_for_sockets(self) -> bool {
        !matches!(self, Self::Handlers | Self::Kernel)
    }

    /// Whether it looks for packets while it waits, and says for how long it had something to do.
    pub(crate) fn polls(self) -> bool {
        self.is_ours() && self != Self::Kernel
    }

    /// Whether it serves files over HTTP/1.1 in plain text.
    pub(crate) fn serves_files(self) -> bool {
        !matches!(self, Self::Caddy | Self::Haproxy)
    }

    /// Whether it is measured before an upstream.
    pub(crate) fn has_upstreams(self) -> bool {
        matches!(
            self,
            Self::Exos | Self::Sockets | Self::Nginx | Self::Haproxy
        )
    }

    /// Another's program on our stack.
    pub(super) fn is_run(self) -> bool {
        matches!(self, Self::Run | Self::RunIntercept)
    }

    /// Where it answers.
    pub(crate) fn address(self) -> SocketAddrV4 {
        let has_stack = self.has_stack() || self.is_run();
        SocketAddrV4::new(if has_stack { EXOS } else { KERNEL }, PORT)
    }

    /// Where it speaks HTTP/2, over TLS or by prior knowledge.
    pub(crate) fn http2_address(self, is_tls: bool) -> SocketAddrV4 {
        match (is_tls, self) {
            (true, _) => self.tls_address(),
            (false, Server::Nginx) => SocketAddrV4::new(*self.address().ip(), NGINX_HTTP2_PORT),
            (false, _) => self.address(),
        }
    }

    /// Whether it is measured over HTTP/2.
    pub(crate) fn has_http2(self) -> bool {
        self.has_tls() || self == Server::H2o
    }

    /// Whether it is measured over HTTP/3, by what it calls itself; an error where another release of it would be.
    pub(crate) fn has_http3(self, version: &str) -> Result<bool> {
        match self {
            Server::Exos | Server::Sockets | Server::Caddy => Ok(true),
            Server::H2o if h2o_has_http3(version) => Ok(true),
            Server::H2o => {
                let what = format!("{version} has no HTTP/3, which h2o has from 2.3 on");
                Err(Error::new(what).mend("put one in front of it in PATH, built from its sources"))
            }
            _ => Ok(false),
        }
    }

    /// Where it answers over TLS.
    pub(crate) fn tls_address(self) -> SocketAddrV4 {
        SocketAddrV4::new(*self.address().ip(), TLS_PORT)
    }

    /// Whether it is measured over TLS.
    pub(crate) fn has_tls(self) -> bool {
        matches!(
            self,
            Server::Exos | Server::Xokd | Server::Sockets | Server::Nginx | Server::Haproxy
        )
    }

    /// Its program; an error that says how to install it when it is not there.
    pub(super) fn program(self, exos: &Path) -> Result<PathBuf> {
        match self {
            Server::Nginx | Server::Run | Server::RunIntercept => find_program("nginx", "nginx"),
            Server::H2o => find_program("h2o", "h2o"),
            Server::Lighttpd => find_program("lighttpd", "lighttpd"),
            Server::Caddy => find_program("caddy", "caddy"),
            Server::Haproxy => find_program("haproxy", "haproxy"),
            _ => Ok(exos.to_owned()),
        }
    }

    /// What the program calls itself, for the report.
    pub(super) fn version(self, exos: &Path) -> Result<String> {
        if self == Self::Sockets && !output_of(exos, &["serve", "--help"])?.contains("--sockets") {
            return Err(Error::new(format!(
                "{self}: this exos has no `serve --sockets`"
            )));
        }
        let option = match self {
            Self::Caddy => "version",
            _ if self.is_ours() => "--version",
            _ => "-v",
        };
        let of_program = version(&self.program(exos)?, option)?;
        match self.is_run() {
            true => Ok(format!("{of_program} by {}", version(exos, "--version")?)),
            false => Ok(of_program),
        }
    }
}

/// By what it calls itself: `h2o version 2.3.0`.
fn h2o_has_http3(version: &str) -> bool {
    let number = version.strip_prefix("h2o version ").unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse::<u32>().ok());
    let release = [(); 2].map(|()| parts.next().unwrap_or_default());
    release >= [2, 3]
}

/// What is to be measured of what was asked for, with what each calls itself, and why the others are left out.
pub(crate) fn available(servers: &[Server], exos: &Path) -> Result<Available<Server>> {
    process::available(servers, |server| server.version(exos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_exos_cannot_do_is_left_out_with_a_reason() {
        let (there, left_out) = available(&[Server::Exos, Server::Sockets], Path::new("/bin/echo"))
            .expect("it says something");
        let there: Vec<Server> = there.into_iter().map(|(server, _)| server).collect();
        assert_eq!(there, [Server::Exos]);
        assert!(left_out[0].contains("--sockets"), "{left_out:?}");
    }

    #[test]
    fn h2o_has_http3_from_2_3_on() {
        for (version, has) in [
            ("h2o version 2.2.5", false),
            ("h2o version 2.3.0-DEV", true),
            ("h2o version 2.10.0", true),
            ("h2o version 3.0", true),
            ("something else", false),
        ] {
            let said = Server::H2o.has_http3(version);
            assert_eq!(said.as_ref().is_ok_and(|has| *has), has, "{version}");
            assert!(said.is_ok() || said.is_err_and(|e| e.to_string().contains("in PATH")));
        }
        assert!(Server::Caddy.has_http3("v2.6.2").expect("it has"));
        assert!(
            !Server::Nginx
                .has_http3("nginx/1.22.1")
                .expect("no release has")
        );
    }
}
