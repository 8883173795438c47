//! TCP options: layouts that peers send, and lists that are wrong in each way that there is.

use exos_wire::SeqNumber;
use exos_wire::tcp::options::BadOption;
use exos_wire::tcp::{
    FastOpenCookie, RawOption, RawOptions, SackBlocks, TcpOptions, Timestamps, options_len,
};

const NONE: TcpOptions = TcpOptions::NONE;
const MALFORMED: TcpOptions = TcpOptions {
    malformed: true,
    ..NONE
};

fn blocks(list: &[(u32, u32)]) -> SackBlocks {
    let mut sack = SackBlocks::NONE;
    for (left, right) in list {
        assert!(sack.push(SeqNumber(*left), SeqNumber(*right)));
    }
    sack
}

fn emitted(options: &TcpOptions) -> Vec<u8> {
    let mut out = [0xa5; 40];
    let len = options.emit(&mut out);
    assert_eq!(len, options_len(options));
    out[..len].to_vec()
}

/// A SYN of Linux: what we send must look the same, byte for byte.
#[test]
fn linux_syn() {
    let bytes = [
        2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let options = TcpOptions {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 1, echo: 0 }),
        ..NONE
    };
    assert_eq!(TcpOptions::parse(&bytes), options);
    assert_eq!(TcpOptions::parse(&emitted(&options)), options);
    assert_eq!(emitted(&options), bytes);
}

/// Windows and macOS order and pad differently.
#[test]
fn other_syns() {
    let windows = [2, 4, 5, 180, 1, 3, 3, 8, 1, 1, 4, 2];
    let expected = TcpOptions {
        mss: Some(1460),
        window_scale: Some(8),
        sack_permitted: true,
        ..NONE
    };
    assert_eq!(TcpOptions::parse(&windows), expected);
    let macos = [
        2, 4, 5, 180, 1, 3, 3, 6, 1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 4, 2, 0, 0,
    ];
    let expected = TcpOptions {
        window_scale: Some(6),
        timestamps: Some(Timestamps { value: 9, echo: 0 }),
        ..expected
    };
    assert_eq!(TcpOptions::parse(&macos), expected);
}

#[test]
fn timestamps_aligned_and_not() {
    let options = TcpOptions::with_timestamps(0x0102_0304, 0x0506_0708);
    let aligned = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(emitted(&options), aligned);
    assert_eq!(TcpOptions::parse(&aligned), options);
    for other in [
        [8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1],
        [1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 0],
    ] {
        assert_eq!(TcpOptions::parse(&other), options);
    }
}

#[test]
fn sack_of_one_to_four_blocks() {
    let list = [(10, 20), (30, 40), (0xffff_fff0, 5), (50, 60)];
    for count in 1..=4 {
        let options = TcpOptions {
            sack: blocks(&list[..count]),
            ..NONE
        };
        assert_eq!(emitted(&options).len(), 4 + 8 * count);
        let again = TcpOptions::parse(&emitted(&options));
        assert_eq!(again, options);
        assert_eq!(
            again
                .sack
                .iter()
                .map(|(l, r)| (l.0, r.0))
                .collect::<Vec<_>>(),
            list[..count]
        );
    }
    let mut full = blocks(&list);
    assert!(!full.push(SeqNumber(1), SeqNumber(2)));
    assert_eq!(full.len(), 4);
}

#[test]
fn three_sack_blocks_fit_beside_timestamps_and_four_do_not() {
    let with = |list: &[_]| TcpOptions {
        sack: blocks(list),
        ..TcpOptions::with_timestamps(1, 2)
    };
    assert_eq!(emitted(&with(&[(1, 2), (3, 4), (5, 6)])).len(), 40);
    assert_eq!(options_len(&with(&[(1, 2), (3, 4), (5, 6), (7, 8)])), 48);
}

#[test]
#[should_panic(expected = "48 bytes of TCP options do not fit")]
fn too_many_options_are_a_bug() {
    let sack = blocks(&[(1, 2), (3, 4), (5, 6), (7, 8)]);
    TcpOptions {
        sack,
        ..TcpOptions::with_timestamps(1, 2)
    }
    .emit(&mut [0; 60]);
}

/// RFC 7323 §2.3: a larger shift is used as 14.
#[test]
fn window_shift_is_bounded() {
    for (sent, read) in [(0, 0), (14, 14), (15, 14), (255, 14)] {
        assert_eq!(TcpOptions::parse(&[3, 3, sent, 0]).window_scale, Some(read));
    }
}

#[test]
fn fast_open_cookies() {
    let request = TcpOptions {
        fast_open: Some(FastOpenCookie::REQUEST),
        ..NONE
    };
    assert_eq!(emitted(&request), [34, 2, 0, 0]);
    assert!(
        TcpOptions::parse(&[34, 2, 1, 1])
            .fast_open
            .unwrap()
            .as_slice()
            .is_empty()
    );
    let allowed = [0, 4, 6, 8, 10, 12, 14, 16];
    for len in 0..=18 {
        let bytes = vec![0x5a; len];
        let cookie = FastOpenCookie::new(&bytes);
        assert_eq!(cookie.is_some(), allowed.contains(&len), "{len}");
        let mut option = vec![34, 2 + len as u8];
        option.extend(&bytes);
        let parsed = TcpOptions::parse(&option);
        assert_eq!(
            (parsed.fast_open, parsed.malformed),
            (cookie, cookie.is_none()),
            "{len}"
        );
        if let Some(cookie) = cookie {
            assert_eq!(cookie.as_slice(), bytes);
            let options = TcpOptions {
                fast_open: Some(cookie),
                ..NONE
            };
            assert_eq!(TcpOptions::parse(&emitted(&options)), options);
        }
    }
}

#[test]
fn padding_and_ends() {
    assert_eq!(TcpOptions::parse(&[]), NONE);
    assert_eq!(TcpOptions::parse(&[1; 40]), NONE);
    assert_eq!(TcpOptions::parse(&[0; 40]), NONE);
    // Behind the end of the list nothing counts.
    assert_eq!(TcpOptions::parse(&[0, 2, 4, 5, 180, 9]), NONE);
    assert!(emitted(&NONE).is_empty());
}

/// RFC 9293 §3.1, MUST-6: unknown options are ignored, whatever they hold.
#[test]
fn unknown_options_are_skipped() {
    let md5_then_mss = [&[19, 18][..], &[7; 16], &[254, 3, 9, 2, 4, 2, 24]].concat();
    assert_eq!(
        TcpOptions::parse(&md5_then_mss),
        TcpOptions {
            mss: Some(536),
            ..NONE
        }
    );
}

#[test]
fn the_later_of_two_counts() {
    assert_eq!(
        TcpOptions::parse(&[2, 4, 1, 1, 2, 4, 2, 2]).mss,
        Some(0x0202)
    );
}

/// What stands before the damage is kept, and after a wrong length of a known option one goes on.
#[test]
fn damaged_lists() {
    let mss = TcpOptions {
        mss: Some(536),
        ..MALFORMED
    };
    let table: [(&[u8], TcpOptions); 13] = [
        (&[2], MALFORMED),
        (&[2, 0], MALFORMED),
        (&[2, 1], MALFORMED),
        (&[9, 0, 2, 4, 2, 24], MALFORMED),
        (&[2, 4, 2], MALFORMED),
        (&[2, 4, 2, 24, 8], mss),
        (&[2, 4, 2, 24, 8, 255], mss),
        (&[8, 9, 0, 0, 0, 0, 0, 0, 0, 2, 4, 2, 24], mss),
        (&[3, 2, 2, 4, 2, 24], mss),
        (&[4, 3, 0, 2, 4, 2, 24], mss),
        (&[5, 2, 2, 4, 2, 24], mss),
        (&[5, 9, 0, 0, 0, 0, 0, 0, 0, 2, 4, 2, 24], mss),
        (&[34, 5, 1, 2, 3, 2, 4, 2, 24], mss),
    ];
    for (bytes, options) in table {
        assert_eq!(TcpOptions::parse(bytes), options, "{bytes:?}");
    }
    // Five blocks do not fit into a header, but may be in what claims to be options.
    let five = [&[5, 42][..], &[0; 40]].concat();
    assert_eq!(TcpOptions::parse(&five), MALFORMED);
}

#[test]
fn raw_options_show_what_stands_there() {
    let bytes = [1, 3, 3, 200, 1, 1, 254, 4, 8, 9, 5, 1];
    let shown: Vec<_> = RawOptions::new(&bytes).collect();
    let expected = [
        Ok(RawOption {
            kind: 3,
            data: &[200],
        }),
        Ok(RawOption {
            kind: 254,
            data: &[8, 9],
        }),
        Err(BadOption { kind: 5 }),
    ];
    assert_eq!(shown, expected);
}

/// The layout of Linux's SYNs is read in one piece: the same as option by option, whatever its values.
#[test]
fn the_usual_syn_reads_as_option_by_option() {
    let syn = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7,
    ];
    let read = TcpOptions::parse(&syn);
    assert_eq!((read.mss, read.window_scale), (Some(1460), Some(7)));
    assert!(read.sack_permitted && !read.malformed);
    // Every byte of it with every value; four no-operations more make it another layout.
    for at in 0..syn.len() {
        for value in 0..=255 {
            let mut bytes = syn;
            bytes[at] = value;
            let longer = [&[1; 4], &bytes[..]].concat();
            assert_eq!(
                TcpOptions::parse(&bytes),
                TcpOptions::parse(&longer),
                "{bytes:02x?}"
            );
        }
    }
}
