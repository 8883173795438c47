//! Everything that a session measured: medians for people, all of it for programs (docs/json.md).

use super::Case;
use crate::report::{Named, Results, Setting};
use serde::Serialize;

/// Everything that a session measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The schema's name.
    pub schema: &'static str,
    /// Where and how it measured.
    #[serde(flatten)]
    pub setting: Setting,
    /// The core of the server.
    pub server_core: usize,
    /// The core of the generator.
    pub generator_core: usize,
    /// The generators, in the order of the results.
    pub generators: Vec<Named>,
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

    pub(in crate::experiment::load) fn report() -> Report {
        Report {
            schema: "exos.bench.load/1",
            setting: Setting {
                left_out: vec!["httperf is not installed".into()],
                ..setting(&[("exos", "exos 1 <x>".into())])
            },
            server_core: 0,
            generator_core: 1,
            generators: Named::all(&["exos", "wrk"].map(|name| (name, format!("{name} 1")))),
            cases: vec![super::super::outcome::tests::case()],
        }
    }

    #[test]
    fn the_json_has_what_is_documented() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).expect("valid");
        assert_eq!(json["schema"], "exos.bench.load/1");
        let case = &json["cases"][0];
        assert_eq!(case["name"], "exos/new/100");
        assert_eq!(case["connection"], "new");
        assert_eq!(case["rate_ratios"][0]["theirs"], "wrk");
        assert_eq!(case["capacity_ratios"][0]["theirs"], "wrk");
        assert_eq!(case["results"][1]["runs"][2]["requests_per_sec"], 25_000.0);
    }
}
