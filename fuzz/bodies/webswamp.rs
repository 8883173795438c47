//! What is checked of `exos-webswamp`: what servers send, and files that a person gives.
//!
//! Included by the fuzz targets and by `apps/webswamp/tests/all/corpus.rs`.

use exos_http2::frame::{FrameHead, PREFACE, kind};
use exos_webswamp::driver::log_line::LogLine;
use exos_webswamp::driver::replay::Log;
use exos_webswamp::driver::surge::documents::Documents;
use exos_webswamp::driver::weighted::List;
use exos_webswamp::http2::Connection;
use exos_webswamp::multiplexed::{Multiplexed as _, News};
use exos_webswamp::report::{Comparison, Results, merge};
use exos_webswamp::request::{Content, Request, Version};
use exos_webswamp::response::{Body, Head, Heads, Malformed};

/// Responses of a stream, with their content.
type Responses = Vec<(u16, Vec<u8>)>;

/// A connection's responses as the engine takes them: what has come and is not taken waits, and is looked at again.
struct Reader {
    heads: Heads,
    of_head: bool,
    waiting: Vec<u8>,
    body: Option<(Head, Body, Vec<u8>)>,
    done: Responses,
}

impl Reader {
    fn new(of_head: bool) -> Self {
        Self {
            heads: Heads::default(),
            of_head,
            waiting: Vec::new(),
            body: None,
            done: Vec::new(),
        }
    }

    fn come(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.waiting.extend(bytes);
        while !self.waiting.is_empty() && self.step()? {}
        Ok(())
    }

    /// Takes a head, or some of a body; false when nothing could be taken.
    fn step(&mut self) -> Result<bool, Malformed> {
        let Some((head, body, content)) = &mut self.body else {
            let Some(head) = self.heads.take(&self.waiting)? else {
                return Ok(false);
            };
            // What is known of the last head is what is read in this one.
            assert_eq!(Heads::default().take(&self.waiting), Ok(Some(head)));
            assert!(head.len > 0 && head.len <= self.waiting.len());
            self.waiting.drain(..head.len);
            if !head.is_interim() {
                self.body = Some((head, head.body(self.of_head), Vec::new()));
                self.end_of_body();
            }
            return Ok(true);
        };
        let _ = head;
        let before = content.len();
        let taken = body.take(&self.waiting, |some| content.extend(some))?;
        assert!(taken.bytes <= self.waiting.len() && taken.content <= taken.bytes as u64);
        assert_eq!(taken.content, (content.len() - before) as u64);
        self.waiting.drain(..taken.bytes);
        let is_done = self.end_of_body();
        Ok(taken.bytes > 0 || is_done)
    }

    fn end_of_body(&mut self) -> bool {
        let is_done = self
            .body
            .as_ref()
            .is_some_and(|(_, body, _)| body.is_done());
        if is_done && let Some((head, _, content)) = self.body.take() {
            self.done.push((head.status, content));
        }
        is_done
    }
}

/// All that can be told of a stream.
fn read(parts: &[&[u8]], of_head: bool) -> (Responses, Option<Vec<u8>>, Option<Malformed>) {
    let mut reader = Reader::new(of_head);
    let mut error = None;
    for part in parts {
        error = reader.come(part).err();
        if error.is_some() {
            break;
        }
    }
    let open = reader.body.map(|(_, _, content)| content);
    (reader.done, open.filter(|_| error.is_none()), error)
}

/// A stream of responses is the same however it is cut: as a whole, in two, and byte by byte.
pub fn response(data: &[u8]) {
    let Some((&how, stream)) = data.split_first() else {
        return;
    };
    let of_head = how & 1 == 1;
    let whole = read(&[stream], of_head);
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(read(&bytes, of_head), whole);
    let at = usize::from(how >> 1) * stream.len() / 128;
    let (first, second) = stream.split_at(at);
    assert_eq!(read(&[first, second], of_head), whole);
}

/// An access log: each line is a request, empty, or left out; what is asked for can be asked for.
pub fn log(data: &[u8]) {
    for line in data.split(|&b| b == b'\n') {
        let Ok(line) = LogLine::parse(line.trim_ascii_end()) else {
            continue;
        };
        assert!(!line.method.is_empty() && line.method.bytes().all(|b| b.is_ascii_graphic()));
        assert!(
            line.target.starts_with('/') || line.target == "*",
            "{}",
            line.target
        );
        let is_clean = |b: u8| b > b' ' && b != 0x7f;
        assert!(line.target.bytes().all(is_clean), "{:?}", line.target);
    }
    let Ok(mut log) = Log::read(data) else {
        return;
    };
    let lines = data.split(|&b| b == b'\n');
    let lines = lines.filter(|line| !line.trim_ascii().is_empty());
    assert_eq!(
        log.extent().requests + log.extent().left_out_all(),
        lines.count() as u64
    );
    assert_eq!(
        log.first_left_out.is_some(),
        log.extent().left_out_all() > 0
    );
    log.sort();
    if let Ok(beats) = log.beats() {
        let count: u64 = beats.iter().map(|beat| u64::from(beat.count)).sum();
        assert_eq!(count, log.lines.len() as u64);
        assert!(beats.is_sorted_by(|a, b| a.second < b.second));
    }
}

/// A list of documents: refused with the line that is wrong, or the same when it is written and read again.
pub fn list(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(list) = List::parse(text, None) else {
        return;
    };
    assert!(!list.entries.is_empty());
    let line = |entry: &exos_webswamp::driver::weighted::Entry| {
        assert!(entry.weight > 0.0 && entry.weight.is_finite());
        format!(
            "{} http://{}{}\n",
            entry.weight, list.authority, entry.target
        )
    };
    let again: String = list.entries.iter().map(line).collect();
    assert_eq!(List::parse(&again, None), Ok(list));
}

/// SURGE's list of documents: the same.
pub fn documents(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(set) = Documents::parse(text) else {
        return;
    };
    assert!(set.files() >= set.pages().len() && set.pages().iter().all(|page| !page.is_empty()));
    assert!(set.bytes() >= set.pages()[0][0]);
    assert_eq!(set.requests().len(), set.pages().len());
    assert_eq!(Documents::parse(&set.list()), Ok(set));
}

/// Writes them, and reads them again: all is the same but for the last bits of fractions, which serde_json does not keep.
fn is_kept(results: &Results) {
    let mut again = Results::from_json(&results.json()).expect("what we write we read");
    let keep = |read: &mut f64, written: f64| {
        assert!(
            (*read - written).abs() <= 1e-12 * written.abs(),
            "{read} {written}"
        );
        *read = written;
    };
    keep(&mut again.started_unix_secs, results.started_unix_secs);
    keep(&mut again.warm_up_secs, results.warm_up_secs);
    keep(&mut again.measured_secs, results.measured_secs);
    assert_eq!(again.generators.len(), results.generators.len());
    for (read, written) in again.generators.iter_mut().zip(&results.generators) {
        keep(&mut read.started_unix_secs, written.started_unix_secs);
        keep(&mut read.busy_share, written.busy_share);
        keep(&mut read.processor_secs, written.processor_secs);
        read.parameters.clone_from(&written.parameters);
    }
    assert_eq!(&again, results);
}

/// Saved results: refused, or the same when they are written and read again; all can be said of them that is said of results.
pub fn results(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(results) = Results::from_json(text) else {
        return;
    };
    is_kept(&results);
    let page = results.html();
    assert!(!page.contains("NaN") && !page.contains(">inf"));
    assert!(!results.text().contains("NaN"));
    let _ = Comparison::new(&results, &results).text();
    let both = merge(vec![results.clone(), results.clone()]);
    // What was not measured at all did not run while another did.
    if let Ok(both) = both {
        assert_eq!(both.requests(), 2 * results.requests());
        is_kept(&both);
    }
}

/// What a client of HTTP/2 has heard, and what it says.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    /// Of each slot: what came, and how it ended.
    slots: [(Option<u16>, Vec<u8>, u64, u8); 3],
    gone: Vec<(Option<&'static str>, Vec<u32>)>,
    fault: Option<exos_http2::Fault>,
    left: Vec<u8>,
}

fn hear(parts: &[&[u8]]) -> Heard {
    let content = |method: &str, body: Option<usize>| Content {
        method: method.to_owned(),
        body: body.map(|len| vec![b'x'; len]),
        version: Version::Http2,
        ..Content::get(&"http://h/a".parse().expect("a URL"))
    };
    let mut connection = Connection::new();
    let requests = [
        content("GET", None),
        content("HEAD", None),
        content("POST", Some(70_000)),
    ];
    for (slot, content) in (0..).zip(&requests) {
        connection.ask(slot, &Request::new(content));
    }
    let (mut heard, mut waiting) = (Heard::default(), Vec::new());
    let leave = |connection: &mut Connection| {
        connection
            .poll_out()
            .flat_map(|it| it.as_bytes().to_vec())
            .collect::<Vec<u8>>()
    };
    'all: for part in parts {
        waiting.extend_from_slice(part);
        loop {
            let taken = match connection.take(&waiting) {
                Ok(None) => break,
                Ok(Some((taken, news))) => {
                    note(&mut heard, news);
                    taken
                }
                Err(fault) => {
                    heard.fault = Some(fault);
                    break 'all;
                }
            };
            assert!(0 < taken && taken <= waiting.len());
            waiting.drain(..taken);
            heard.left.extend(leave(&mut connection));
        }
        // A frame waits at most, which it takes whole.
        assert!(waiting.len() < 9 + 16_384);
    }
    heard.left.extend(leave(&mut connection));
    assert!(connection.streams() <= requests.len());
    heard
}

fn note(heard: &mut Heard, news: News<'_>) {
    match news {
        News::Nothing => (),
        News::Part(part) => {
            let slot = &mut heard.slots[part.slot as usize];
            assert_eq!(slot.3, 0, "nothing comes behind the end");
            assert!(part.status.is_none() || slot.0.is_none());
            slot.0 = slot.0.or(part.status);
            slot.1.extend_from_slice(part.content);
            slot.2 += part.framing;
            slot.3 = u8::from(part.is_end);
        }
        // What came before the fault may have been told or not.
        News::Lost { slot, .. } => heard.slots[slot as usize] = (None, Vec::new(), 0, 2),
        News::GoingAway { code, unasked, .. } => {
            for slot in &unasked {
                heard.slots[*slot as usize].3 = 3;
            }
            heard.gone.push((code.name, unasked));
        }
    }
}

/// Frames of a server are the same however they are cut, what is sent is whole frames, and of a body no more than there is room for.
pub fn http2(data: &[u8]) {
    let whole = hear(&[data]);
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(hear(&bytes), whole);
    let (first, second) = data.split_at(data.len() / 2);
    assert_eq!(hear(&[first, second]), whole);
    let mut rest = whole.left.strip_prefix(PREFACE).expect("it comes first");
    let mut content = 0;
    while let Some(head) = FrameHead::parse(rest) {
        content += if head.kind == kind::DATA { head.len } else { 0 };
        rest = &rest[9 + head.len..];
    }
    assert!(rest.is_empty() && content <= 70_000);
}
