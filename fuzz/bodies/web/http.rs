//! What the fuzz target of Cheetah's HTTP core checks of any bytes.
//!
//! The file is included by the fuzz target and by `apps/cheetah/tests/all/corpus.rs`, which replays
//! the corpus with a stable compiler; it depends on nothing but `exos_cheetah`, `exos_buf` and `mutations.rs`.

use exos_buf::Slice;
use exos_cheetah::limits::HEAD_LEN_MAX;
use exos_cheetah::site::{Description, Document};
use exos_cheetah::{Next, Server, ServerConnection, Site};

#[path = "mutations.rs"]
pub mod mutations;

/// What a connection has sent, and how it ended.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    output: Vec<u8>,
    closed: bool,
    left: usize,
}

/// Two bytes say where the rest, a stream of requests, is cut. Cut or whole, with much room or
/// little, the answers are the same; each is a response with its status, and every byte is
/// consumed or waits as the start of a request that is not too long.
pub fn request(data: &[u8]) {
    let Some((cut, stream)) = data.split_first_chunk() else {
        return;
    };
    let cut = usize::from(u16::from_le_bytes(*cut)) % (stream.len() + 1);
    let mut server = Server::new(site(), 784_111_777);
    let whole = exchange(&mut server, &[stream], usize::MAX);
    assert!(whole.left < HEAD_LEN_MAX);
    let (one, two) = stream.split_at(cut);
    assert_eq!(exchange(&mut server, &[one, two], usize::MAX), whole);
    let step = cut.clamp(1, 64);
    let pieces: Vec<&[u8]> = stream.chunks(step).collect();
    assert_eq!(exchange(&mut server, &pieces, 1), whole);
    assert!(!whole.output.windows(6).any(|window| window == b"SECRET"));
}

/// Requests that are nearly right, made by the decisions in the bytes, are answered alike when cut in two at every byte.
pub fn mutations(data: &[u8]) {
    let stream = mutations::stream(data);
    let mut server = Server::new(site(), 784_111_777);
    let whole = exchange(&mut server, &[&stream], usize::MAX);
    for cut in 0..stream.len() {
        let (one, two) = stream.split_at(cut);
        assert_eq!(
            exchange(&mut server, &[one, two], usize::MAX),
            whole,
            "cut at {cut}"
        );
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(exchange(&mut server, &bytes, 1), whole, "byte by byte");
}

fn site() -> Site {
    let mut site = Site::new();
    for (path, content) in [
        ("/index.html", "<p>start"),
        ("/a.txt", "a"),
        ("/dir/index.html", "<p>dir"),
        ("/dir/with space.txt", "b"),
    ] {
        let document = Document::new(
            content.as_bytes(),
            &Description::plain("text/plain", 784_108_800),
        );
        site.insert(path.as_bytes(), document);
    }
    site.insert_forbidden(b"/SECRET");
    site
}

/// Presents the pieces as TCP would: what is not consumed comes again, with more.
fn exchange(server: &mut Server, pieces: &[&[u8]], room: usize) -> Outcome {
    let mut connection = ServerConnection::new();
    let mut outcome = Outcome {
        output: Vec::new(),
        closed: false,
        left: 0,
    };
    let mut received = Vec::new();
    for piece in pieces {
        received.extend_from_slice(piece);
        loop {
            let mut out = Vec::new();
            let handled = connection.handle_bytes(server, &received, room, &mut out);
            received.drain(..handled.consumed);
            check_responses(&out, handled.responses);
            out.iter()
                .for_each(|slice| outcome.output.extend_from_slice(slice.as_bytes()));
            outcome.closed |= matches!(handled.next, Next::Close);
            if !matches!(handled.next, Next::Send) {
                break;
            }
            assert!(handled.responses > 0, "room was given and nothing done");
        }
    }
    outcome.left = received.len();
    outcome
}

/// A response is an opening, and after it fields with perhaps content, in one slice or in several.
fn check_responses(out: &[Slice], responses: usize) {
    let opens = |slice: &Slice| slice.as_bytes().starts_with(b"HTTP/1.1 ");
    assert_eq!(out.iter().filter(|slice| opens(slice)).count(), responses);
    assert!(out.first().is_none_or(opens));
    for response in out.chunk_by(|_, next| !opens(next)) {
        let (opening, rest) = response.split_first().expect("chunks are not empty");
        assert!(opening.as_bytes().ends_with(b"\r\n"));
        let rest: Vec<&[u8]> = rest.iter().map(Slice::as_bytes).collect();
        let rest = rest.concat();
        assert!(rest.windows(4).any(|window| window == b"\r\n\r\n"));
    }
}
