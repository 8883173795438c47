//! TLS as far as it is in clear: hellos with the server's name, the protocols above and the version, and alerts.
//!
//! A segment that begins with such a record is recognised on any port; the middle of a stream is not shown. Where more of a hello is in the
//! segments behind, `...` says so, and it is shown whole with the last of them.

use exos_wire::tls::{
    HANDSHAKE, HelloKind, HelloView, RecordView, VERSION_1_2, VERSION_1_3, extensions::Extensions,
};

use super::line::Line;
use super::part::Part;

impl Line<'_> {
    pub(super) fn tls(&mut self, payload: Part<'_>) {
        let Ok(record) = RecordView::parse(payload.bytes()) else {
            return;
        };
        if let Some((level, description)) = record.alert() {
            self.tls_alert(level, description);
        } else if record.content_type() == HANDSHAKE
            && let Ok(hello) = HelloView::parse(record.fragment())
        {
            write!(self, ": ");
            self.tls_hello(&hello);
            if !payload.is_whole() && !record.is_whole() {
                write!(self, " [|tls]");
            } else if !hello.is_whole() {
                write!(self, " ...");
            }
        }
    }

    pub(super) fn tls_alert(&mut self, level: u8, description: u8) {
        let level = if level == 1 { "warning" } else { "fatal" };
        write!(self, ": TLS Alert {level} ");
        self.tls_alert_name(description);
    }

    pub(super) fn tls_alert_name(&mut self, description: u8) {
        match alert_name(description) {
            Some(name) => write!(self, "{name}"),
            None => write!(self, "{description}"),
        }
    }

    pub(super) fn tls_hello(&mut self, hello: &HelloView<'_>) {
        let name = match hello.kind() {
            HelloKind::Client => "ClientHello",
            HelloKind::Server => "ServerHello",
            HelloKind::Retry => "HelloRetryRequest",
        };
        write!(self, "TLS {name}");
        let extensions = hello.extensions();
        if let Some(host) = extensions.server_name() {
            write!(self, " ");
            self.escaped(host);
        }
        self.tls_protocols(&extensions);
        match hello.version() {
            VERSION_1_3 => write!(self, " 1.3"),
            VERSION_1_2 => write!(self, " 1.2"),
            0x0302 => write!(self, " 1.1"),
            0x0301 => write!(self, " 1.0"),
            other => write!(self, " {other:#06x}"),
        }
        if self.style.verbosity > 0 {
            let mut separator = ", suites ";
            for suite in hello.cipher_suites() {
                write!(self, "{separator}{suite:#06x}");
                separator = ",";
            }
        }
    }

    fn tls_protocols(&mut self, extensions: &Extensions<'_>) {
        let mut separator = " ";
        for protocol in extensions.protocols() {
            write!(self, "{separator}");
            self.escaped(protocol);
            separator = ",";
        }
    }
}

/// RFC 8446 §6, and those of earlier versions (RFC 5246 §7.2).
fn alert_name(description: u8) -> Option<&'static str> {
    Some(match description {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => return None,
    })
}
