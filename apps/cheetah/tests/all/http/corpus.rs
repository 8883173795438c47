//! Replays the fuzzer's corpora with a stable compiler; requests also with every byte removed.
//!
//! What is checked of each input stands in `fuzz/bodies/web/http.rs`, which the fuzz target includes
//! too. A failure names its input.

#[path = "../../../../../fuzz/bodies/web/fastcgi.rs"]
pub mod fastcgi;

#[path = "../../../../../fuzz/bodies/web/proxy.rs"]
pub mod proxy;

#[path = "../../../../../fuzz/bodies/web/caching.rs"]
pub mod caching;

#[path = "../../../../../fuzz/bodies/web/http.rs"]
pub mod bodies;

use exos_testing::{Random, corpus, replay, run};

#[test]
fn requests() {
    for (name, input) in corpus("http_request") {
        run(&name, &input, bodies::request);
        for at in (0..input.len()).step_by(1 + input.len() / 300) {
            let mut damaged = input.clone();
            damaged.remove(at);
            run(
                &format!("{name} without byte {at}"),
                &damaged,
                bodies::request,
            );
        }
    }
}

#[test]
fn mutations() {
    for (name, input) in corpus("http_mutations") {
        run(&name, &input, bodies::mutations);
    }
    for seed in 0..300 {
        let input = Random(seed).bytes(120);
        run(&format!("seed {seed}"), &input, bodies::mutations);
    }
}

#[test]
fn records_of_applications() {
    replay(corpus("fastcgi_records"), 3000, fastcgi::records);
}

#[test]
fn chunked_bodies() {
    replay(corpus("fastcgi_chunks"), 3000, fastcgi::chunks);
}

#[test]
fn answers_of_upstreams() {
    replay(corpus("proxy_answers"), 3000, proxy::answers);
}

#[test]
fn requests_for_upstreams() {
    replay(corpus("proxy_requests"), 3000, proxy::requests);
}

#[test]
fn headers_of_proxies() {
    replay(corpus("proxy_headers"), 3000, proxy::headers);
}

#[test]
fn words_about_caching() {
    replay(corpus("proxy_caching"), 3000, caching::caching);
}
