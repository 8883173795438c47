//! Heads that come again, and those that do not.

use super::*;

fn again(bytes: &Rc<[u8]>, length: Option<u32>) -> asking::Head {
    asking::Head {
        bytes: Rc::clone(bytes),
        is_again: true,
        length,
    }
}

fn once(bytes: &[u8]) -> asking::Head {
    asking::Head {
        bytes: bytes.into(),
        is_again: false,
        length: None,
    }
}

/// What is ready, whether that is new or not.
fn ready(heads: &mut Heads, said: &asking::Head) -> Option<Slice> {
    let known = heads.parse(said, None).unwrap();
    known.ready.map(|(_, lines)| lines)
}

#[test]
fn one_that_comes_again_is_parsed_once() {
    let mut heads = Heads::default();
    let bytes: Rc<[u8]> = b"Status: 404\r\nA: b\r\nX-Set: c\r\n\r\n"[..].into();
    let first = heads.parse(&again(&bytes, Some(7)), None).unwrap();
    assert_eq!((first.head.code, first.length), (404, Some(7)));
    for length in [Some(8), None, Some(7)] {
        let other = heads.parse(&again(&bytes, length), None).unwrap();
        assert!(Rc::ptr_eq(&first.head, &other.head));
        assert_eq!(other.length, length.map(u64::from));
    }
    // A rule that sets a field makes it another.
    let set = Buffer::from(b"x-set: d\r\n".to_vec()).whole();
    let without = heads.parse(&again(&bytes, Some(7)), Some(&set)).unwrap();
    assert_eq!(without.head.fields, b"A: b\r\n");
    let with = heads.parse(&again(&bytes, Some(7)), None).unwrap();
    assert_eq!(with.head.fields, b"A: b\r\nX-Set: c\r\n");
}

#[test]
fn what_is_ready_is_made_once_and_where_lengths_are_alike_alone() {
    let mut heads = Heads::default();
    let bytes: Rc<[u8]> = b"A: b\r\n\r\n"[..].into();
    // Pages of two lengths in turn.
    for n in 0..100 {
        assert!(ready(&mut heads, &again(&bytes, Some(1000 + n % 2))).is_none());
    }
    let mut last = None;
    for _ in 0..=LENGTHS_ALIKE {
        last = ready(&mut heads, &again(&bytes, Some(5)));
    }
    let last = last.expect("it is ready");
    assert_eq!(last.as_bytes(), b"A: b\r\nContent-Length: 5\r\n\r\n");
    // Others between do not displace it.
    for n in 0..100 {
        assert!(ready(&mut heads, &again(&bytes, Some(1000 + n))).is_none());
        let other = ready(&mut heads, &again(&bytes, Some(5))).expect("it is ready");
        assert!(other.buffer().same(last.buffer()));
    }
    // Nor is anything ready without a length.
    let without: Vec<_> = (0..2 * LENGTHS_ALIKE)
        .filter_map(|_| ready(&mut heads, &again(&bytes, None)))
        .collect();
    assert!(without.is_empty());
}

#[test]
fn those_that_come_once_are_not_remembered_and_others_have_few_places() {
    let mut heads = Heads::default();
    let head = |n: usize| Rc::<[u8]>::from(format!("A: {n}\r\n\r\n").into_bytes());
    let often = head(7);
    let first = heads.parse(&again(&often, None), None).unwrap();
    for n in 0..3 * HEADS_REMEMBERED {
        assert!(heads.parse(&once(&head(n)), None).is_ok());
    }
    assert_eq!(heads.all.len(), 1);
    let many: Vec<Rc<[u8]>> = (0..3 * HEADS_REMEMBERED).map(head).collect();
    for bytes in &many {
        let known = heads.parse(&again(bytes, None), None).unwrap();
        assert_eq!(known.head.fields, bytes[..bytes.len() - 2]);
        let known = heads.parse(&again(&often, None), None).unwrap();
        assert!(Rc::ptr_eq(&known.head, &first.head));
    }
    assert_eq!(heads.all.len(), HEADS_REMEMBERED);
}

#[test]
fn what_is_no_head_is_none_each_time() {
    let mut heads = Heads::default();
    let length: Rc<[u8]> = b"Content-Length: 7\r\n\r\n"[..].into();
    for (text, length, wanted) in [
        (&b""[..], None, HeadError::Syntax),
        (b"A: b\r\n\r\nbehind", None, HeadError::Syntax),
        (b"Content-Length: 7\r\n\r\n", Some(7), HeadError::Length),
    ] {
        let bytes: Rc<[u8]> = text.into();
        for is_again in [false, true, true] {
            let said = asking::Head {
                is_again,
                ..again(&bytes, length)
            };
            assert_eq!(heads.parse(&said, None).err(), Some(wanted));
        }
    }
    // Also where it was good alone.
    assert!(heads.parse(&again(&length, None), None).is_ok());
    let twice = heads.parse(&again(&length, Some(7)), None);
    assert_eq!(twice.err(), Some(HeadError::Length));
}
