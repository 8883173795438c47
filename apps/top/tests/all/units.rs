//! Numbers and times that are read at a glance.

use exos_top::units::{duration, short};

#[test]
fn numbers_have_three_digits_that_count() {
    let shown: Vec<String> = [
        0.0, 0.4, 7.0, 999.4, 999.6, 1234.0, 9996.0, 12_345.0, 99_960.0, 1e6, 45.6e9, 1e15,
    ]
    .map(short)
    .into();
    let expected = [
        "0", "0", "7", "999", "1.00k", "1.23k", "10.0k", "12.3k", "100k", "1.00M", "45.6G", "1P",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn times_have_two_units() {
    let shown = [0, 59_999, 60_000, 3_600_000, 90_061_000].map(duration);
    assert_eq!(shown, ["0 s", "59 s", "1 min 0 s", "1 h 0 min", "1 d 1 h"]);
}
