//! A short session on the real kernel. Without root it says SKIPPED and passes.

use crate::common::{
    Missing, OF_CELLS_REFUSED, Session, assert_refused, assert_unwritable_files_are_told,
    briefly_or_long, is_installed,
};
use exos_bench::ash::{AshArgs, measure, run};

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_made() {
    assert_refused(measure, &OF_CELLS_REFUSED);
    assert_unwritable_files_are_told(run);
}

/// No speed is looked at.
#[test]
fn handlers_are_measured_beside_programs_and_nothing_is_left() {
    briefly_or_long(handlers);
}

fn handlers(duration: &str) -> Missing {
    let mut missing = Missing::default();
    let Some(session) = Session::begin("bash-t", &[]) else {
        return missing;
    };
    let only = [
        "roundtrip",
        "crowd/1",
        "receive",
        "stream",
        "sandbox",
        "places",
        "layers",
        "pipes/64",
        "get",
        "download",
    ];
    let only: Vec<&str> = only.iter().flat_map(|name| ["--only", name]).collect();
    let args: AshArgs = session.args(&[&only[..], &["--quick", "--duration", duration]].concat());
    let Some(report) = missing.measured(measure(&args)) else {
        return missing;
    };
    session.assert_nothing_is_left();
    let figure = |name: &str| report.figures.iter().find(|figure| figure.name == name);
    let notes = &report.environment.notes;
    // Where one run of several has no time of the server's side, which is noted, another may have.
    let is_told = !notes.iter().any(|note| {
        note.contains("capacity is not told") || note.contains("in neither server-side")
    });
    let always = [
        ("roundtrip/handler", false),
        ("roundtrip/polling/p99", false),
        ("roundtrip/sleeping", false),
        ("roundtrip/kernel-polling", false),
        ("roundtrip/handler/kernel-sleeping", true),
        ("roundtrip/handler-daemon", false),
        ("roundtrip/handler-daemon/kernel-sleeping", true),
        ("crowd/1/handler-daemon", false),
        ("crowd/1/handler-daemon/alone", true),
        ("stream/in-place", false),
        ("stream/copied/no-checksum", false),
        ("sandbox/ratio", true),
        ("places/compiled", false),
        ("places/stack", false),
        ("layers/three", false),
        ("download/in-force", true),
        ("download/first", true),
        ("download/handler-daemon/first", true),
    ];
    let of_caches = [
        ("get/udp/rate", true),
        ("get/tcp/rate", false),
        ("get/tcp/handler/roundtrip", false),
        ("get/udp/handler-daemon/rate", true),
        ("get/tcp/handler-daemon/rate", false),
        ("get/tcp/handler-daemon/roundtrip", false),
    ];
    let of_times = [("get/udp/memcached/server-side", false)];
    let has_memcached = is_installed("memcached");
    let has_times = figure(of_times[0].0).is_some();
    assert!(has_memcached || !has_times, "{:?}", report.figures);
    assert!(has_times || !(has_memcached && is_told), "{notes:?}");
    let of_vectors = [
        ("pipes/64/cache/copy", false),
        ("pipes/64/memory/sum/ratio", true),
    ];
    for (is_there, names) in [
        (true, &always[..]),
        (has_memcached, &of_caches),
        (has_times, &of_times),
        (has_vectors(), &of_vectors),
    ] {
        for (name, has_goal) in names {
            let figure = figure(name);
            // Of a moment that ends before the handler is in force, or has answered, there is none.
            let came = figure.is_some() || !name.starts_with("download/");
            if !missing.unless(came, name) {
                continue;
            }
            assert_eq!(figure.is_some(), is_there, "{name}: {:?}", report.figures);
            if let Some(figure) = figure {
                missing.unless(figure.value > 0.0, figure);
                assert_eq!(figure.goal.is_some(), *has_goal, "{figure:?}");
            }
        }
    }
    // The kernel answered over TCP, too.
    for handler in ["handler", "handler-daemon"] {
        let given_up = figure(&format!("get/tcp/{handler}/given-up"));
        assert!(
            given_up.is_none_or(|part| (0.0..1.0).contains(&part.value)),
            "{given_up:?}"
        );
    }
    // Whatever came is whole messages, and no more than was sent.
    for way in RECEIVING {
        for name in [
            format!("receive/1472/{way}"),
            format!("receive/1472/{way}/no-checksum"),
        ] {
            let of = |what: &str| figure(&format!("{name}{what}")).expect("each way").value;
            if !missing.unless(of("/rate") > 0.0, &name) {
                continue;
            }
            let bytes = 1e6 * of("") / of("/rate");
            assert!((bytes - 1472.0).abs() < 0.01, "{name}: {bytes}");
            assert!((0.0..1.0).contains(&of("/lost")), "{name}: {}", of("/lost"));
        }
    }
    // Without a gap, however slow the machine: what waits for the program for long is asked again, and counts as lost.
    for way in ["", "handler-daemon/"] {
        let lost = figure(&format!("download/{way}lost"));
        assert!(lost.is_some_and(|lost| lost.goal.is_some()));
    }
    missing
}

/// Who receives.
const RECEIVING: [&str; 8] = [
    "handler-copied",
    "handler-in-place",
    "handler-daemon-copied",
    "handler-daemon-in-place",
    "stack-copied",
    "stack-in-place",
    "socket",
    "kernel",
];

/// Without vectors nothing is compared with pipes.
fn has_vectors() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
