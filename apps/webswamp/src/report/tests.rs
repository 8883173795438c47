use super::*;
use crate::statistics::{Answered, ErrorKind, Statistics};
use exos_inet::Instant;
use serde_json::{Map, Value};
use std::path::Path;
use std::time::Duration;

/// What a generator saw that began at this time of day: for ten seconds a hundred requests each, each taking so long.
pub(crate) fn results(started: f64, micros: u64) -> Results {
    let at = Instant::from_millis;
    let mut statistics = Statistics::new(at(5000), at(6000));
    for n in 0..1000 {
        let begun = at(5000 + 10 * n);
        let last = begun + Duration::from_micros(micros + n % 7);
        statistics.connected(begun, begun + Duration::from_micros(40));
        statistics.answered(&Answered {
            intended: begun,
            begun,
            first: last,
            last,
            status: if n % 100 == 99 { 404 } else { 200 },
            bytes: 110,
            content: 10,
        });
    }
    statistics.failed(ErrorKind::Reset, at(7000), at(7001));
    statistics.until = at(15_000);
    statistics.seconds.advance(at(15_200));
    let generator = Generator {
        url: "http://10.0.0.1/a".to_owned(),
        address: "10.0.0.1:80".to_owned(),
        started_unix_secs: started,
        host: "loader".to_owned(),
        command: "exos load http://10.0.0.1/a".to_owned(),
        parameters: Map::new(),
        log: None,
        responses: statistics.responses,
        busy_share: 0.25,
        processor_secs: 2.5,
        cores: vec![OnCore {
            core: None,
            interface: None,
            responses: statistics.responses,
            busy_share: 0.25,
            processor_secs: 2.5,
        }],
    };
    let counters = [("link_tx_frames", 2000), ("tcp_segments_sent", 2000)];
    let counters = counters.map(|(name, count)| (name.to_owned(), count));
    Results::new(generator, &statistics, counters)
}

#[test]
fn what_is_written_is_read_again() {
    let one = results(1e9, 500);
    let text = one.json();
    assert_eq!(Results::from_json(&text).unwrap(), one);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["measured_secs"], 9.0);
    assert_eq!(value["requests_per_second"], 100.0);
    assert_eq!(value["statuses"]["404"], 9);
    assert_eq!(value["errors"]["reset"], 1);
    assert_eq!(value["seconds"][9]["responses"], 100);
    assert_eq!(value["times_us"]["total"]["count"], 900);
    assert_eq!(one.measured_seconds().len(), 9);
}

#[test]
fn what_are_no_results() {
    let good = results(1e9, 500).json();
    let late = good.replace("\"measured_secs\":9.0", "\"measured_secs\":-9.0");
    let much = good.replace("\"404\":9", "\"404\":18446744073709551615");
    let busy = good.replace("\"busy_share\":0.25", "\"busy_share\":1e300");
    let silence = good.replacen("\"secs\":0.0", "\"secs\":-1.0", 1);
    let core = good.replacen("\"core\":null", "\"core\":-1", 1);
    assert!(
        [&late, &much, &busy, &core, &silence]
            .iter()
            .all(|other| **other != good)
    );
    for (text, part) in [
        ("", "EOF"),
        ("[]", "schema"),
        ("{\"schema\":\"exos.load/9\"}", "exos.load/9"),
        ("{\"schema\":\"exos.load/1\"}", "missing field"),
        (&late, "nor when"),
        (&much, "more than a load can"),
        (&busy, "of a generator"),
        (&silence, "nor when"),
        (&core, "invalid value"),
    ] {
        let error = Results::from_json(text).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let error = Results::read(Path::new("/none/of/these")).unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
}

/// A load that a signal ended before it began, or in its warm-up, has measured nothing, and can be told of.
#[test]
fn a_load_that_did_not_begin() {
    let at = Instant::from_millis;
    let mut statistics = Statistics::new(at(5000), at(6000));
    statistics.until = at(1000);
    let generator = results(1.0, 1).generators.remove(0);
    let none = Results::new(generator, &statistics, []);
    assert_eq!(
        (none.measured_secs, none.measured_seconds().len()),
        (0.0, 0)
    );
    assert_eq!(none.per_second(0), 0.0);
    assert_eq!(Results::from_json(&none.json()).unwrap(), none);
    assert!(none.text().starts_with("0 requests/s"));
    assert!(none.text().contains("nothing was measured"));
}
