//! Visits, segment by segment.

use super::*;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";
const REQUEST_LEN: usize = 10;
const SYN_ACK: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0);

fn expected() -> Expected {
    Expected::new(b"body".to_vec())
}

fn segment(seq: u32, ack: u32, flags: TcpFlags, data: &[u8]) -> Segment<'_> {
    Segment {
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        timestamp: 7,
        data,
    }
}

/// Our initial sequence number is 100, the server's 500.
fn open(once: bool) -> Connection {
    let mut connection = Connection::new(1000, false, once);
    let syn = connection.open(Tuple(5), 100, 0);
    assert_eq!((syn.seq.0, syn.flags), (100, TcpFlags::SYN));
    let answer = segment(500, 101, SYN_ACK, b"");
    let (news, reply) = connection.handle(answer, &mut expected(), 0);
    assert_eq!((news, reply), (News::Open, None));
    let request = connection.ask(REQUEST_LEN, 0);
    assert_eq!((request.seq.0, request.ack.0, request.echo), (101, 501, 7));
    assert!(request.request);
    connection
}

fn answer() -> Vec<u8> {
    [HEAD, b"body"].concat()
}

fn ack_of(reply: Option<Reply>) -> Option<(u32, TcpFlags)> {
    reply.map(|reply| (reply.ack.0, reply.flags))
}

#[test]
fn a_visit_takes_three_segments_of_ours() {
    let mut connection = open(true);
    let data = answer();
    let (news, reply) = connection.handle(segment(501, 111, FIN_ACK, &data), &mut expected(), 1);
    let reply = reply.expect("our FIN");
    assert_eq!((news, connection.state), (News::Answered, State::Idle));
    let end = 501 + data.len() as u32 + 1;
    assert_eq!((reply.seq.0, reply.ack.0, reply.flags), (111, end, FIN_ACK));
}

#[test]
fn an_answer_whose_fin_comes_later_is_over_with_it() {
    let mut connection = open(true);
    let data = answer();
    let (news, _) = connection.handle(segment(501, 111, ACK, &data), &mut expected(), 1);
    assert_eq!((news, connection.state), (News::None, State::Asked));
    let end = 501 + data.len() as u32;
    let (news, reply) = connection.handle(segment(end, 111, FIN_ACK, b""), &mut expected(), 1);
    assert_eq!((news, reply.is_some()), (News::Answered, true));
}

#[test]
fn standing_connections_ask_again() {
    let mut connection = open(false);
    let mut expected = expected();
    let (data, mut seq) = (answer(), 501);
    for n in 0..3 {
        let ack = 111 + n * REQUEST_LEN as u32;
        let (news, _) = connection.handle(segment(seq, ack, ACK, &data), &mut expected, 1);
        assert_eq!((news, connection.state), (News::Answered, State::Ready));
        seq += data.len() as u32;
        assert_eq!(connection.ask(REQUEST_LEN, 1).ack.0, seq);
    }
    // What nobody asked for.
    connection.handle(segment(seq, 0, ACK, &data), &mut expected, 1);
    let (news, _) = connection.handle(
        segment(seq + data.len() as u32, 0, ACK, b"x"),
        &mut expected,
        1,
    );
    assert_eq!(news, News::Wrong(Fault::Content));
}

#[test]
fn what_is_known_is_answered_at_once_and_changes_nothing() {
    let mut connection = open(true);
    let mut expected = expected();
    let data = answer();
    let first = &data[..HEAD.len() + 1];
    let later = 501 + first.len() as u32;
    let (_, reply) = connection.handle(segment(501, 111, ACK, first), &mut expected, 1);
    assert_eq!(reply, None);
    assert_eq!(connection.acknowledge(2), None);
    assert_eq!(ack_of(connection.acknowledge(1)), Some((later, ACK)));
    let (_, reply) = connection.handle(segment(500, 111, SYN_ACK, b""), &mut expected, 1);
    assert_eq!(ack_of(reply), Some((later, ACK)));
    // The first once more with the second behind it: what is known is left out.
    let (news, _) = connection.handle(segment(501, 111, FIN_ACK, &data), &mut expected, 1);
    assert_eq!(news, News::Answered);
}

#[test]
fn what_is_missing_is_asked_for_at_once_and_what_came_early_is_kept() {
    let data = answer();
    let (first, second) = data.split_at(HEAD.len() + 1);
    let later = 501 + first.len() as u32;
    for is_slow in [false, true] {
        let mut connection = open(true);
        connection.slow = is_slow;
        let mut expected = expected();
        // Nothing is in this one, and what is there later is kept all the same.
        for (flags, data) in [(ACK, &b""[..]), (FIN_ACK, second)] {
            let early = segment(later, 111, flags, data);
            let (news, reply) = connection.handle(early, &mut expected, 1);
            assert_eq!((news, ack_of(reply)), (News::None, Some((501, ACK))));
        }
        let (news, _) = connection.handle(segment(501, 111, ACK, first), &mut expected, 1);
        let thrown_away = if is_slow { News::None } else { News::Answered };
        assert_eq!(news, thrown_away);
    }
}

/// However the segments of an answer are ordered, and whether they come once or twice, nothing has to come again.
#[test]
fn segments_of_an_answer_may_come_in_any_order() {
    let data = answer();
    let head = HEAD.len();
    let cuts = [0, head + 1, head + 2, head + 3, data.len()];
    let pieces: Vec<_> = (0..4).map(|n| (cuts[n], cuts[n + 1])).collect();
    for order in 0..4_usize.pow(4) {
        let order: Vec<_> = (0..4).map(|n| order / 4_usize.pow(n) % 4).collect();
        let is_whole = (0..4).all(|piece| order.contains(&piece));
        let repeated = [&order[..1], &order[..]].concat();
        let mut connection = open(true);
        let mut outcomes = Vec::new();
        for piece in repeated {
            let (from, to) = pieces[piece];
            let flags = if to == data.len() { FIN_ACK } else { ACK };
            let segment = segment(501 + from as u32, 111, flags, &data[from..to]);
            let (news, reply) = connection.handle(segment, &mut expected(), 1);
            outcomes.push((news, reply.map(|reply| reply.ack.0)));
        }
        let end = 501 + data.len() as u32 + 1;
        let answered = (News::Answered, Some(end));
        assert_eq!(outcomes.contains(&answered), is_whole, "{order:?}");
        assert!(
            outcomes
                .iter()
                .all(|(news, _)| [News::None, News::Answered].contains(news)),
            "{order:?}: {outcomes:?}"
        );
    }
}

#[test]
fn what_lies_beyond_the_window_is_not_kept() {
    let mut connection = open(true);
    let mut expected = expected();
    let (first, last) = (answer(), [b'x'; 10]);
    let beyond = 501 + 1000 - last.len() as u32 + 1;
    connection.handle(segment(beyond, 111, ACK, &last), &mut expected, 1);
    assert!(connection.early.take(SeqNumber(beyond)).is_none());
    connection.handle(segment(beyond - 1, 111, ACK, &last), &mut expected, 1);
    assert!(connection.early.take(SeqNumber(beyond)).is_some());
    let (news, _) = connection.handle(segment(501, 111, FIN_ACK, &first), &mut expected, 1);
    assert_eq!(news, News::Answered);
}

#[test]
fn resets_count_when_they_are_next_in_order() {
    let mut connection = open(true);
    let mut expected = expected();
    let (news, reply) = connection.handle(segment(502, 111, TcpFlags::RST, b""), &mut expected, 1);
    assert_eq!((news, reply.is_some()), (News::None, true));
    let (news, _) = connection.handle(segment(501, 111, TcpFlags::RST, b""), &mut expected, 1);
    assert_eq!((news, connection.state), (News::Reset, State::Idle));
}

#[test]
fn an_older_connection_of_the_tuple_is_reset() {
    let mut connection = Connection::new(1000, false, true);
    connection.open(Tuple(5), 100, 0);
    let (news, reply) = connection.handle(segment(9, 77, ACK, b""), &mut expected(), 0);
    let reply = reply.expect("a reset");
    assert_eq!(
        (news, reply.seq.0, reply.flags),
        (News::None, 77, TcpFlags::RST)
    );
    assert_eq!(connection.state, State::Connecting);
}

#[test]
fn silence_is_met_with_repetitions_and_then_given_up() {
    let mut connection = open(true);
    let mut now = RESEND_NS - 1;
    assert!(connection.handle_timeout(REQUEST_LEN, now).is_none());
    for _ in 0..TRIES_MAX {
        now += 60 * RESEND_NS;
        let (news, reply) = connection.handle_timeout(REQUEST_LEN, now).expect("due");
        let reply = reply.expect("the request");
        assert_eq!((news, reply.seq.0, reply.request), (News::None, 101, true));
    }
    now += 60 * RESEND_NS;
    let over = connection.handle_timeout(REQUEST_LEN, now);
    assert_eq!(over, Some((News::TimedOut, None)));
}

#[test]
fn a_slow_reader_takes_no_more_than_its_window() {
    let mut connection = Connection::new(HEAD.len() as u16, true, false);
    connection.open(Tuple(5), 100, 0);
    let mut expected = expected();
    connection.handle(segment(500, 101, SYN_ACK, b""), &mut expected, 0);
    connection.ask(REQUEST_LEN, 0);
    connection.handle(segment(501, 111, ACK, HEAD), &mut expected, 0);
    let next = 501 + HEAD.len() as u32;
    let window_of = |reply: Option<Reply>| reply.map(|r| (r.ack.0, r.window));
    let (_, reply) = connection.handle(segment(next, 111, ACK, b"b"), &mut expected, 0);
    assert_eq!(window_of(reply), Some((next, 0)), "a probe is answered");
    assert_eq!(window_of(Some(connection.read(4, 100))), Some((next, 4)));
    let (news, _) = connection.handle(segment(next, 111, ACK, b"body"), &mut expected, 0);
    assert_eq!(news, News::Answered);
}

#[test]
fn what_comes_for_a_tuple_that_was_given_up_is_answered_without_state() {
    let answer = |flags, data| {
        closing_reply(Tuple(5), segment(600, 111, flags, data)).map(|r| (r.flags, r.seq.0, r.ack.0))
    };
    assert_eq!(answer(FIN_ACK, b"abc"), Some((FIN_ACK, 111, 604)));
    assert_eq!(answer(ACK, b"abc"), Some((TcpFlags::RST, 111, 604)));
    assert_eq!(answer(ACK, b""), None);
    assert_eq!(answer(TcpFlags::RST, b""), None);
}

#[test]
fn a_client_that_ends_resets_what_stands() {
    let mut connection = Connection::new(1000, false, false);
    connection.open(Tuple(5), 10, 0);
    assert_eq!(connection.abort(), None, "no server knows it yet");
    let mut connection = open(false);
    let reset = connection.abort().expect("it stands");
    let flags = TcpFlags(TcpFlags::RST.0 | ACK.0);
    assert_eq!((reset.seq.0, reset.ack.0, reset.flags), (111, 501, flags));
    assert_eq!(connection.abort(), None);
}
