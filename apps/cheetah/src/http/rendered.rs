//! The response to a request that anyone would get, for others to send: as it is sent, not counted and not logged. With it, where there
//! is a log, the line of those who answer so.

use exos_buf::Slice;

use super::attempt::Attempt;
use super::connection::{Next, ServerConnection};
use super::server::Server;
use crate::log::Line;
use crate::message::Status;

/// A response to a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Rendered {
    /// All of it.
    pub bytes: Vec<u8>,
    /// The connection ends behind it.
    pub closes: bool,
    /// What the log says of it.
    pub line: Option<Line>,
}

impl Server {
    /// What these bytes are answered with now, if they are one whole request, which is answered with a document in memory (or
    /// by what its validators say) in this many bytes at most, and which all clients may ask.
    pub fn render(&mut self, request: &[u8], len_max: usize) -> Option<Rendered> {
        if self.log().is_some_and(|log| !log.has_room()) {
            return None;
        }
        let before = self.counters().clone();
        let mut out = Vec::new();
        let mut connection = ServerConnection::new();
        let attempt = Attempt {
            is_for_all: true,
            ..Attempt::default()
        };
        let handled = connection.handle_again(self, request, usize::MAX, attempt, &mut out);
        let after = self.put_counters_back(before.clone());
        let is_between = connection.is_between_requests();
        let line = connection.end_unlogged(self);
        let is_whole = handled.consumed == request.len() && handled.responses == 1;
        let closes = match handled.next {
            Next::Receive if is_between => false,
            Next::Close => true,
            _ => return None,
        };
        // Of a document, and not of a page that tells of this moment.
        if !is_whole || after.cache_hits != before.cache_hits + 1 {
            return None;
        }
        if out.iter().map(Slice::len).sum::<usize>() > len_max {
            return None;
        }
        let mut bytes = Vec::new();
        out.iter().for_each(|slice| slice.append_to(&mut bytes));
        Some(Rendered {
            bytes,
            closes,
            line,
        })
    }

    /// Others have answered this many requests with what was rendered.
    pub fn count_rendered(&mut self, response: &[u8], count: u64) {
        let code = response.get(9..12);
        let status = Status::ALL
            .into_iter()
            .find(|status| code == Some(status.code().to_string().as_bytes()));
        let counters = self.counters_mut();
        if let Some(status) = status {
            counters.responses[status as usize] += count;
        }
        counters.cache_hits += count;
        counters.response_bytes += count * response.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use exos_testing::Random;

    use super::*;
    use crate::log::{Format, Log, Target};
    use crate::message::Coding;
    use crate::site::{Description, Document, Site, Variants};

    #[test]
    fn what_depends_on_the_request_alone_is_rendered() {
        let mut server = Server::new(Site::example(), 0);
        let get = |server: &mut Server, bytes: &[u8]| server.render(bytes, 4096);
        let whole = get(&mut server, b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        assert!(whole.bytes.starts_with(b"HTTP/1.1 200") && !whole.closes);
        let request = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";
        let len = whole.bytes.len();
        assert_eq!(server.render(request, len).as_ref(), Some(&whole));
        assert_eq!(server.render(request, len - 1), None, "too long");
        let head = get(&mut server, b"HEAD / HTTP/1.0\r\n\r\n").unwrap();
        assert!(head.bytes.ends_with(b"\r\n\r\n") && head.closes);
        for other in [
            &b"GET / HTTP/1.1\r\nHost: here\r\n"[..],
            b"GET /none HTTP/1.1\r\nHost: here\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: here\r\n\r\nGET",
            b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\n",
            b"OPTIONS * HTTP/1.1\r\nHost: here\r\n\r\n",
            b"nonsense\r\n\r\n",
        ] {
            assert_eq!(get(&mut server, other), None, "{other:?}");
        }
        assert_eq!(server.counters().response_count(), 0, "none is counted");
        server.count_rendered(&whole.bytes, 3);
        assert_eq!(server.counters().responses(Status::Ok), 3);
        let bytes = 3 * whole.bytes.len() as u64;
        assert_eq!(server.counters().response_bytes, bytes);
    }

    /// Lines that clients send, and such that an answer depends on.
    const LINES: [&str; 34] = [
        "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0",
        "user-agent: curl/8.17.0",
        "Referer: http://here/other?with=a&query",
        "Accept: text/html,application/xhtml+xml,*/*;q=0.8",
        "Accept-Language: de,en-US;q=0.7,en;q=0.3",
        "Cookie: a=1; session=0123456789abcdef",
        "Upgrade-Insecure-Requests: 1",
        "Sec-Fetch-Dest: document",
        "X-B3-TraceId: 80f198ee56343ba8",
        "Cache-Control: no-cache",
        "Upgrade: websocket",
        "If-Modified-Since: Sun, 06 Nov 2033 08:49:37 GMT",
        "IF-UNMODIFIED-SINCE: Sun, 06 Nov 1994 08:49:37 GMT",
        "if-none-match: *",
        "If-Match: \"another\"",
        "If-Range: \"another\"",
        "Range: bytes=0-3",
        "Connection: close",
        "connection: Keep-Alive",
        "Host: there",
        "Expect: 100-continue",
        "Expect: something else",
        "Content-Length: 0",
        "content-length: 3",
        "Transfer-Encoding: chunked",
        "Accept-Encoding: gzip, br",
        "ACCEPT-ENCODING: identity;q=0",
        "Authorization: Basic YTpi",
        "no colon",
        ": no name",
        "X Y: a space",
        " folded: line",
        "X: a\ttab",
        "X: \u{e4} beyond ASCII",
    ];

    fn request(random: &mut Random) -> Vec<u8> {
        let line = ["GET / HTTP/1.1", "HEAD / HTTP/1.0", "GET /none HTTP/1.1"];
        let mut lines = vec![random.pick(&line)];
        lines.extend(
            ["Host: here", "host: here"]
                .into_iter()
                .filter(|_| random.chance(60)),
        );
        for _ in 0..random.below(8) {
            let among = if random.chance(70) { 12 } else { LINES.len() };
            lines.insert(1 + random.below(lines.len()), LINES[random.below(among)]);
        }
        let mut request = (lines.join("\r\n") + "\r\n\r\n").into_bytes();
        if random.one_in(5) {
            random.mutate(&mut request);
        }
        request
    }

    /// What `/` is answered with depends on Accept-Encoding.
    fn site_with_variants() -> Site {
        let mut site = Site::example();
        let document = |content: &str, coding| {
            let description = Description {
                coding,
                vary: true,
                ..Description::plain("text/html", 700_000_000)
            };
            Document::new(content.as_bytes(), &description)
        };
        let coded = document("coded", Some(Coding::Gzip));
        let variants = Variants::new(
            document("a page as it is", None),
            vec![(Coding::Gzip, coded)],
        );
        site.insert(b"/index.html", variants);
        site
    }

    /// What the kernel answers a request with, which was rendered without noise, and what is logged of that, is what the server says to
    /// the request as it came.
    #[test]
    fn no_answer_depends_on_noise() {
        let mut random = Random(23);
        for format in [Format::Common, Format::Combined, Format::Json] {
            let mut server = Server::new(site_with_variants(), 784_111_777);
            server.set_log(Log::open(Target::Output, format, 0).unwrap());
            let mut rendered = 0;
            for _ in 0..20_000 {
                let whole = request(&mut random);
                let Some(reduced) = exos::requests::reduce(&whole) else {
                    continue;
                };
                let text = whole.escape_ascii();
                let mut of_reduced = server.render(&reduced.request, 4096);
                let of_whole = server.render(&whole, 4096);
                if let Some(of_reduced) = &mut of_reduced {
                    rendered += 1;
                    let log = server.log().unwrap();
                    of_reduced.line = of_reduced
                        .line
                        .take()
                        .map(|line| log.line_like(&line, &reduced.logged));
                }
                assert_eq!(of_reduced, of_whole, "{text}");
            }
            assert!(rendered > 2000, "{rendered}");
        }
    }
}
