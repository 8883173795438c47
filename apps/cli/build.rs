//! How the program is linked for tests.

fn main() {
    // To be loaded anywhere it has a quarter of a million addresses adapted at each start, which is half of what a start costs, and
    // scripts start it some ten thousand times. What is released is loaded anywhere.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
