//! The upstream of servers that pass requests on, and HAProxy, which is one of them.

use super::check::await_document;
use super::setup::NGINX_CONF;
use super::stage::WebStage;
use super::tls::Files;
use crate::stage::process::find_program;
use crate::stage::request::Size;
use crate::stage::scratch::{fill, write};
use crate::stage::session::Started;
use exos_host::{Result, error::Context as _};
use exos_lab::{Lab, Side};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};

pub(super) const HAPROXY_CFG: &str = include_str!("../../../haproxy/http.cfg");
pub(super) const NGINX_PROXY_CONF: &str = include_str!("../../../nginx/proxy.conf");

/// Where it answers, in the servers' namespace.
pub(super) const UPSTREAM: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8081);

/// Documents that HAProxy has itself are no longer: an answer of its own has to fit in a buffer of 16 KiB.
const HAPROXY_LEN_MAX: u64 = 8 << 10;

/// Whether HAProxy can have such a document itself.
pub(crate) fn haproxy_has(size: Size) -> bool {
    size.bytes() <= HAPROXY_LEN_MAX
}

impl WebStage {
    /// Starts nginx with the documents, on the servers' core, and waits until it answers with one of this size.
    pub fn start_upstream(&self, lab: &Lab, size: Size) -> Result<Started> {
        let prefix = self.scratch.directory("upstream")?;
        let documents = self.scratch.directory("documents")?;
        let values = [
            ("@ADDRESS@", UPSTREAM.to_string()),
            ("@DOCUMENTS@", documents.to_string_lossy().into_owned()),
            ("@PREFIX@", prefix.to_string_lossy().into_owned()),
            ("@TLS@", String::new()),
            ("@AIO@", "off".to_owned()),
        ];
        let file = prefix.join("configuration");
        write(&file, fill(NGINX_CONF, &values))?;
        let mut command = lab.command(Side::A, find_program("nginx", "nginx")?)?;
        command.arg("-p").arg(&prefix).arg("-c").arg(file);
        let mut started = self.start("the upstream", command, self.cores[0])?;
        let who = ("the upstream", UPSTREAM);
        await_document(self, lab.netns(Side::A), who, size, || {
            started.running.check()
        })?;
        Ok(started)
    }
}

/// What HAProxy's configuration says of short documents: an answer of its own for each.
pub(super) fn of_haproxy(stage: &WebStage) -> Result<String> {
    let folder = stage.scratch.directory("documents")?;
    let unreadable = || format!("cannot read {}", folder.display());
    let mut said = String::new();
    for entry in std::fs::read_dir(&folder).context(unreadable)? {
        let entry = entry.context(unreadable)?;
        if entry.metadata().context(unreadable)?.len() <= HAPROXY_LEN_MAX {
            let (name, path) = (entry.file_name(), entry.path());
            let _ = writeln!(
                said,
                "http-request return status 200 content-type application/octet-stream file {} if {{ path /{} }}",
                path.display(),
                name.to_string_lossy()
            );
        }
    }
    Ok(said)
}

/// What it says of TLS: certificate and key in one file, HTTP/2 where it is spoken.
pub(super) fn tls_of_haproxy(stage: &WebStage, at: SocketAddrV4, http2: bool) -> Result<String> {
    let file = Files::of(stage)?.in_one(stage)?;
    let alpn = if http2 { "h2,http/1.1" } else { "http/1.1" };
    Ok(format!(
        "bind {at} backlog 4096 ssl crt {} alpn {alpn} ssl-min-ver TLSv1.2",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_have_all_their_places() {
        for (text, marks) in [
            (
                HAPROXY_CFG,
                &["@ADDRESS@", "@TLS@", "@DOCUMENTS@", "@UPSTREAM@"][..],
            ),
            (
                NGINX_PROXY_CONF,
                &[
                    "@ADDRESS@",
                    "@PREFIX@",
                    "@UPSTREAM@",
                    "@CONNECTIONS@",
                    "@TLS@",
                ],
            ),
        ] {
            for mark in marks {
                let used = |line: &str| !line.starts_with('#') && line.contains(mark);
                assert!(text.lines().any(used), "{mark}");
            }
        }
    }

    #[test]
    fn haproxy_has_what_fits_in_its_buffer() {
        assert!(haproxy_has(Size::of_bytes(1 << 10)) && !haproxy_has(Size::of_bytes(10 << 10)));
    }
}
