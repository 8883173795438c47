//! The pages, made of the newest snapshot when they are asked for.

use std::net::IpAddr;

use exos_inet::Instant;
use exos_program::exposition;

use super::allowed::Allowed;
use super::snapshot::{History, Snapshot};
use super::{metrics, page};
use crate::limits::STATUS_TIME;
use crate::site::Document;

/// Which of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Page,
    Metrics,
    Json,
}

/// The pages, and what they show.
#[derive(Debug)]
pub struct StatusPages {
    /// As a target is resolved, without a slash at its end.
    path: Box<[u8]>,
    allowed: Allowed,
    snapshot: Snapshot,
    history: History,
    due: Option<Instant>,
    /// Those made of the present snapshot.
    made: [Option<Document>; 3],
}

impl StatusPages {
    /// Pages at a path, which begins with `/` and does not end so.
    pub fn new(path: &str, allowed: Allowed) -> StatusPages {
        StatusPages {
            path: path.as_bytes().into(),
            allowed,
            snapshot: Snapshot::default(),
            history: History::default(),
            due: None,
            made: [None, None, None],
        }
    }

    /// True when there is news to be had.
    pub fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|at| at <= now)
    }

    /// What is shown from now on.
    pub fn update(&mut self, now: Instant, mut snapshot: Snapshot) {
        snapshot.rates = self.history.rates(now, &snapshot);
        self.snapshot = snapshot;
        self.made = [None, None, None];
        self.due = Some(now + STATUS_TIME);
    }

    /// The page at a resolved path, if there is one that `peer` may see.
    pub fn find(&mut self, path: &[u8], peer: IpAddr) -> Option<&Document> {
        let kind = match path.strip_prefix(&*self.path)? {
            b"" | b"/" => Kind::Page,
            b"/metrics" => Kind::Metrics,
            b"/status.json" => Kind::Json,
            _ => return None,
        };
        if !self.allowed.contains(peer) {
            return None;
        }
        let snapshot = &self.snapshot;
        let made = &mut self.made[kind as usize];
        let path = &self.path;
        Some(made.get_or_insert_with(|| make(kind, snapshot, path)))
    }
}

fn make(kind: Kind, snapshot: &Snapshot, path: &[u8]) -> Document {
    let (media_type, text) = match kind {
        Kind::Page => (
            "text/html; charset=utf-8",
            page::html(snapshot, &String::from_utf8_lossy(path)),
        ),
        Kind::Metrics => (exposition::MEDIA_TYPE, metrics::text(snapshot)),
        Kind::Json => ("application/json", snapshot.json().to_string() + "\n"),
    };
    Document::made(media_type, "Cache-Control: no-store\r\n", text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn text(pages: &mut StatusPages, path: &str) -> Option<String> {
        let page = pages.find(path.as_bytes(), OWN)?;
        Some(String::from_utf8(page.whole().as_bytes().to_vec()).expect("text"))
    }

    #[test]
    fn each_path_has_its_kind_and_others_nothing() {
        let mut pages = StatusPages::new("/.exos", Allowed::default());
        for (path, media_type) in [
            ("/.exos", "text/html; charset=utf-8"),
            ("/.exos/", "text/html; charset=utf-8"),
            ("/.exos/metrics", "text/plain; version=0.0.4"),
            ("/.exos/status.json", "application/json"),
        ] {
            let text = text(&mut pages, path).expect(path);
            let field = format!("Content-Type: {media_type}\r\n");
            assert!(text.starts_with(&field), "{text}");
            assert!(text.contains("\r\nCache-Control: no-store\r\n"), "{text}");
        }
        for path in ["/", "/.exo", "/.exosa", "/.exos/other", "/.exos/metrics/"] {
            assert_eq!(text(&mut pages, path), None, "{path}");
        }
        let stranger = "192.0.2.1".parse().expect("an address");
        assert!(pages.find(b"/.exos", stranger).is_none());
    }

    #[test]
    fn pages_show_the_newest_snapshot() {
        let mut pages = StatusPages::new("/s", Allowed::default());
        let now = Instant::from_millis(1);
        assert!(pages.is_due(now));
        for (connections, now) in [(3, now), (4, now + STATUS_TIME)] {
            assert!(pages.is_due(now));
            let snapshot = Snapshot {
                connections,
                ..Snapshot::default()
            };
            pages.update(now, snapshot);
            assert!(!pages.is_due(now));
            let text = text(&mut pages, "/s/metrics").expect("it is there");
            let line = format!("\nexos_serve_connections {connections}\n");
            assert!(text.contains(&line), "{text}");
        }
    }
}
