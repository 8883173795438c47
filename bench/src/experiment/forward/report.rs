//! Everything that a session measured: medians for people, all of it for programs (docs/json.md).

use super::Case;
use crate::report::{Results, Setting};
use serde::Serialize;

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The schema's name.
    pub schema: &'static str,
    /// Where and how it measured; its servers are those who forward.
    #[serde(flatten)]
    pub setting: Setting,
    /// The core of who forwards.
    pub forwarder_core: usize,
    /// The core of client and server.
    pub others_core: usize,
    /// What was measured.
    pub cases: Vec<Case>,
}

impl Results for Report {
    fn table(&self) -> String {
        self.text()
    }

    fn html(&self) -> String {
        self.page()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::setting_of_tests as setting;

    pub(in crate::experiment::forward) fn report() -> Report {
        let names = ["nobody", "exos", "haproxy"].map(|name| (name, format!("{name} <1>")));
        Report {
            schema: "exos.bench.forward/1",
            setting: Setting {
                left_out: vec!["nginx has no stream module".into()],
                ..setting(&names)
            },
            forwarder_core: 0,
            others_core: 1,
            cases: vec![super::super::outcome::tests::case()],
        }
    }

    #[test]
    fn the_json_has_what_is_documented() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
        assert_eq!(json["schema"], "exos.bench.forward/1");
        let case = &json["cases"][0];
        assert_eq!(case["name"], "plain/new/100");
        assert_eq!(case["rate_per_sec"], serde_json::Value::Null);
        assert_eq!(case["rate_ratios"][0]["theirs"], "haproxy");
        assert_eq!(case["capacity_ratios"][0]["ours"], "exos");
        assert_eq!(case["results"][1]["runs"][2]["requests_per_sec"], 25e3);
        assert_eq!(case["results"][2]["added_p50_us"], 50.0);
    }
}
