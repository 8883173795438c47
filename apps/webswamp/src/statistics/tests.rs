use strum::VariantArray as _;

use super::*;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn answered(intended: u64, begun: u64, last: u64) -> Answered {
    Answered {
        intended: at(intended),
        begun: at(begun),
        first: at(last),
        last: at(last),
        status: 200,
        bytes: 110,
        content: 10,
    }
}

/// What is meant to begin in the measured time counts, whenever it ends.
#[test]
fn what_counts() {
    let mut statistics = Statistics::new(at(0), at(1000));
    statistics.answered(&answered(999, 999, 1500));
    statistics.answered(&answered(1000, 1000, 1001));
    statistics.until = at(2000);
    statistics.answered(&answered(1999, 2100, 2999));
    statistics.answered(&answered(2000, 2000, 2001));
    statistics.failed(ErrorKind::Reset, at(1500), at(2500));
    statistics.failed(ErrorKind::Reset, at(2500), at(2501));
    assert_eq!(
        (statistics.responses, statistics.bytes, statistics.content),
        (2, 220, 20)
    );
    assert_eq!(statistics.errors.of(ErrorKind::Reset), 1);
    assert_eq!(statistics.total.max() / 1000, 1000);
    assert_eq!(statistics.service.max() / 1000, 899);
    assert_eq!(statistics.statuses().collect::<Vec<_>>(), [(200, 2)]);
}

#[test]
fn seconds_end_by_themselves() {
    let mut statistics = Statistics::new(at(0), at(0));
    statistics.answered(&answered(0, 0, 500));
    statistics.answered(&answered(2000, 2100, 2600));
    statistics.failed(ErrorKind::Timeout, at(0), at(2700));
    statistics.seconds.advance(at(4100));
    let done = statistics.seconds.done();
    let responses: Vec<u64> = done.iter().map(|s| s.responses).collect();
    assert_eq!(responses, [1, 0, 1, 0]);
    assert_eq!((done[2].errors, done[2].content), (1, 10));
    assert!(done[2].max.abs_diff(600_000) < 6000, "{}", done[2].max);
    let nothing = Some(Vec::new());
    assert_eq!(
        done[3],
        Second {
            times: nothing,
            ..Second::default()
        }
    );
}

#[test]
fn codes_that_are_none_are_counted_apart() {
    let mut statistics = Statistics::new(at(0), at(0));
    for status in [99, 599, 600, 999] {
        statistics.answered(&Answered {
            status,
            ..answered(0, 0, 1)
        });
    }
    let statuses: Vec<_> = statistics.statuses().collect();
    assert_eq!(statuses, [(0, 3), (599, 1)]);
}

#[test]
fn each_kind_of_error_has_its_place_and_name() {
    for &kind in ErrorKind::VARIANTS {
        let mut errors = Errors::default();
        errors.count(kind);
        assert_eq!(errors.list().collect::<Vec<_>>(), [(kind, 1)]);
        assert_eq!(errors.all(), 1);
        let name: &str = kind.into();
        let same = ErrorKind::VARIANTS
            .iter()
            .filter(|k| name == <&str>::from(*k));
        assert_eq!(same.count(), 1);
    }
}
