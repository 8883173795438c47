//! The example of a loop of one's own runs.

#[path = "../../examples/own_loop.rs"]
#[allow(dead_code)] // Its `main`.
mod example;

#[test]
fn the_example_of_an_own_loop_gets_its_text_back() {
    assert_eq!(example::run("hello"), "hello");
    let long = "0123456789".repeat(10_000);
    assert_eq!(example::run(&long), long);
}
