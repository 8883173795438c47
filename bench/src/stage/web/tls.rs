//! HTTPS of the servers: one certificate for all of them, and how each is told.

use super::server::Server;
use super::stage::WebStage;
use crate::stage::process::{find_program, output_of};
use exos_host::Result;
use exos_host::error::Context as _;
use std::net::SocketAddrV4;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;

/// What all clients offer, each alone, and so all servers have: a key exchange by ML-KEM beside, say, would take more of one side's time.
pub(crate) const SUITE: &str = "TLS_AES_128_GCM_SHA256";
/// See [`SUITE`].
pub(crate) const GROUP: &str = "X25519";
/// What is agreed upon then, as clients report it.
pub(crate) const AGREED: &str = "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519";

/// Certificate and key in files.
pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    /// A key of ECDSA with P-256 and a certificate of its own, made once for a stage.
    pub fn of(stage: &WebStage) -> Result<Files> {
        let folder = stage.scratch.directory("tls")?;
        let files = Files {
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
        };
        if !files.certificate.exists() {
            let made = [&files.key, &files.certificate].map(|file| file.to_string_lossy());
            let asked = ["req", "-x509", "-newkey", "ec", "-nodes", "-days", "30"];
            let key = ["-pkeyopt", "ec_paramgen_curve:prime256v1"];
            let rest = [
                "-subj",
                "/CN=exos bench",
                "-keyout",
                &made[0],
                "-out",
                &made[1],
            ];
            let openssl = find_program("openssl", "openssl")?;
            output_of(&openssl, &[&asked[..], &key, &rest].concat())?;
            // The daemon's user has to read it, and nobody else but root does.
            chown(&files.key, Some(stage.args.uid), None)
                .context(|| format!("cannot give away {}", files.key.display()))?;
        }
        Ok(files)
    }

    /// Both in one file.
    pub fn in_one(&self, stage: &WebStage) -> Result<PathBuf> {
        let read = |file: &PathBuf| {
            std::fs::read(file).context(|| format!("cannot read {}", file.display()))
        };
        let text = [read(&self.certificate)?, read(&self.key)?].concat();
        stage.scratch.write("tls/both.pem", text)
    }

    /// What a configuration of `exos serve` says in a site.
    pub fn of_ours(&self) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        format!("[[site.certificate]]\nfile = \"{certificate}\"\nkey = \"{key}\"\n")
    }

    /// The options of `exos serve`.
    pub fn tell_ours(&self, command: &mut Command) {
        command.arg("--tls-cert").arg(&self.certificate);
        command.arg("--tls-key").arg(&self.key);
    }

    /// What nginx's configuration of a server says: as its documentation advises, with sessions resumed by tickets, which ours has,
    /// too. Who asks offers one [suite](SUITE) alone.
    pub fn of_nginx(&self, server: Server, http2: bool) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let at = server.tls_address();
        // What nginx takes as HTTP/2 at a port it does not take as anything else there.
        let (plain, word) = match http2 {
            true => (
                format!(
                    "listen {} http2 backlog=4096; ",
                    server.http2_address(false)
                ),
                " http2",
            ),
            false => (String::new(), ""),
        };
        format!(
            "{plain}listen {at} ssl{word} backlog=4096; ssl_certificate {certificate}; ssl_certificate_key {key}; \
             ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:tls:10m; ssl_session_tickets on;"
        )
    }
}

impl Files {
    /// What caddy's configuration says.
    pub fn of_caddy(&self, at: SocketAddrV4, documents: &str) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        format!(
            "https://{at} {{\n\ttls {certificate} {key}\n\troot * {documents}\n\tfile_server\n}}"
        )
    }

    /// What h2o's configuration says. Of QUIC what it does by itself is best: datagrams leave by segmentation offload, and unpaced.
    pub fn of_h2o(&self, at: SocketAddrV4, http3: bool) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let (host, port) = (at.ip(), at.port());
        let listen = |more| {
            format!(
                "listen:\n  host: {host}\n  port: {port}\n{more}  ssl:\n    certificate-file: {certificate}\n    key-file: {key}\n"
            )
        };
        match http3 {
            true => listen("") + &listen("  type: quic\n"),
            false => listen(""),
        }
    }
}
