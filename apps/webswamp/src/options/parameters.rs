//! What made a load, as its results say it: the options by name, and the command line. Nothing of it is secret.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use exos_program::Idle;
use exos_tls::policy::{group_name, suite_name};

use super::load::LoadArgs;

impl LoadArgs {
    /// Options that made the load, by name; values of header fields are left out, because some are secret.
    pub(crate) fn parameters(
        &self,
        duration: Duration,
        idle: Idle,
        cores: u32,
    ) -> Map<String, Value> {
        let behaviour = self.behaviour();
        let names: Vec<&String> = self.header.iter().map(|(name, _)| name).collect();
        let parameters = json!({
            "loop": if self.is_open() { "open" } else { "closed" },
            "connections": behaviour.slots,
            "cores": cores,
            "rate": self.rate,
            "arrivals": self.is_open().then_some(if self.poisson { "poisson" } else { "even" }),
            "duration_secs": duration.as_secs_f64(),
            "warm_up_secs": self.warm_up.as_secs_f64(),
            "requests": self.requests,
            "think_secs": self.think.as_secs_f64(),
            "requests_per_connection": self.requests_per_connection,
            "pipeline": self.pipeline,
            "timeout_secs": behaviour.timeout.as_secs_f64(),
            "method": self.method,
            "headers": names,
            "urls": self.driver.urls.as_ref().map(|path| path.display().to_string()),
            "replay": self.driver.replay.as_ref().map(|path| path.display().to_string()),
            "speed": self.driver.speed,
            "surge": self.driver.surge.as_ref().map(|path| path.display().to_string()),
            "sockets": self.sockets,
            "pools": self.pool.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "body": self.body.as_ref().map(|path| path.display().to_string()),
            "range": self.range,
            "expect_status": self.expect.status,
            "expect_length": self.expect.length,
            "expect_sha256": self.expect.sha256.map(|sum| sum.to_string()),
            "http": self.http.name(),
            "streams": self.http.streams(),
            "tls_resume": self.tls_resume,
            "tls_early": self.tls_early,
            "insecure": self.tls.insecure,
            "cacert": self.tls.cacert.as_ref().map(|path| path.display().to_string()),
            "tls_name": self.tls.tls_name,
            "tls_suite": self.tls.tls_suite.map(|it| suite_name(it.suite())),
            "tls_group": self.tls.tls_group.map(|it| group_name(it.name())),
            "seed": self.seed,
            "merging": behaviour.merging,
            "idle": idle,
            "early_finish": behaviour.early_finish,
            "count_only": (!self.sockets).then_some(behaviour.count_only),
            "verify_checksums": (!self.sockets).then_some(!self.no_verify_checksums),
        });
        match parameters {
            Value::Object(object) => object,
            _ => unreachable!("it is written as an object"),
        }
    }
}

/// The command as a shell takes it, without its path and without values of header fields, because some are secret.
pub(crate) fn command_line(words: impl Iterator<Item = String>) -> String {
    let mut line: Vec<String> = Vec::new();
    let mut is_header = false;
    for (place, word) in words.enumerate() {
        let short = word.starts_with("-H") && word.len() > 2;
        line.push(if place == 0 {
            let file = Path::new(&word).file_name();
            file.map_or(word.clone(), |file| file.to_string_lossy().into_owned())
        } else if is_header || short || word.starts_with("--header=") {
            match word.split_once(':') {
                Some((name, _)) => quoted(&format!("{name}: ...")),
                None => "...".to_owned(),
            }
        } else {
            quoted(&word)
        });
        is_header = !is_header && (word == "-H" || word == "--header");
    }
    line.join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%[]".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: LoadArgs,
    }

    #[test]
    fn what_is_said_and_what_is_not() {
        let line =
            "load http://10.0.0.1/ --rate 5:1s,5-9:2s -H Authorization:secret --pool 10.9.0.0/16";
        let line = Line::parse_from(line.split_whitespace());
        let said = line.args.parameters(Duration::from_secs(3), Idle::Sleep, 1);
        assert_eq!(
            said["rate"][1],
            json!({"from": 5.0, "to": 9.0, "secs": 2.0})
        );
        assert_eq!(
            (&said["loop"], &said["requests"]),
            (&json!("open"), &Value::Null)
        );
        assert_eq!(said["pools"], json!(["10.9.0.0/16"]));
        assert_eq!(said["headers"], json!(["Authorization"]));
        assert!(!serde_json::to_string(&said).unwrap().contains("secret"));
    }

    #[test]
    fn the_command_without_secrets() {
        let words = [
            "/opt/exos",
            "load",
            "http://h/?a=1&b",
            "-H",
            "A: secret",
            "--header",
            "-H",
            "-HB:secret",
            "--header=C: secret",
            "-d",
            "3s",
            "",
            "it's",
        ];
        let line = command_line(words.map(str::to_owned).into_iter());
        assert_eq!(
            line,
            r"exos load 'http://h/?a=1&b' -H 'A: ...' --header ... '-HB: ...' '--header=C: ...' -d 3s '' 'it'\''s'"
        );
    }
}
