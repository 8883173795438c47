//! What TCP knows of a connection, in ss's words (ss -i).

use std::time::Duration;

use exos::watch::Known;

/// One line. Times are milliseconds, windows segments, rates bits a second, all else bytes, as ss has them; what is zero is left out.
pub(crate) fn details(tcp: &Known) -> String {
    let mut words: Vec<String> = [(tcp.timestamps, "ts"), (tcp.sack, "sack"), (tcp.ecn, "ecn")]
        .iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, word)| (*word).to_owned())
        .collect();
    words.push(tcp.congestion.clone());
    if let Some((theirs, ours)) = tcp.window_scales {
        words.push(format!("wscale:{theirs},{ours}"));
    }
    words.push(format!("rto:{}", ms(tcp.retransmission_timeout)));
    if !tcp.rtt.is_zero() {
        words.push(format!("rtt:{}/{}", ms(tcp.rtt), ms(tcp.rtt_variation)));
    }
    let mss = u32::from(tcp.mss).max(1);
    words.push(format!("mss:{}", tcp.mss));
    words.push(format!("rcvmss:{}", tcp.receive_mss));
    words.push(format!("cwnd:{}", tcp.congestion_window / mss));
    if tcp.slow_start_threshold != u32::MAX {
        words.push(format!("ssthresh:{}", tcp.slow_start_threshold / mss));
    }
    words.push(format!("bytes_acked:{}", tcp.bytes_acked));
    words.push(format!("bytes_received:{}", tcp.bytes_received));
    words.push(format!("lastsnd:{}", tcp.since_sent.as_millis()));
    words.push(format!("lastrcv:{}", tcp.since_heard.as_millis()));
    for (name, rate) in [
        ("pacing_rate", tcp.pacing_rate),
        ("delivery_rate", tcp.delivery_rate),
    ] {
        if rate > 0 {
            words.push(format!("{name} {}bps", rate.saturating_mul(8)));
        }
    }
    for (name, segments) in [
        ("unacked", tcp.in_flight.div_ceil(mss)),
        ("retrans", tcp.retransmits.into()),
        ("lost", tcp.lost.div_ceil(mss)),
        ("sacked", tcp.sacked.div_ceil(mss)),
    ] {
        if segments > 0 {
            words.push(format!("{name}:{segments}"));
        }
    }
    words.join(" ")
}

/// Milliseconds, without zeroes at the end.
fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}
