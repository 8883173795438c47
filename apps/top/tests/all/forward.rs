//! A forwarder on a terminal in memory: what is seen, and what keys do.

use exos_top::forward::app::{App, Column};
use exos_top::forward::status::Status;
use exos_top::forward::view::draw;
use exos_top::keys::Next;
use ratatui::crossterm::event::KeyCode;
use serde_json::{Value, json};

use crate::screen;

/// A forwarder with two listeners and three servers; everything counts up with the seconds.
fn status(second: u64) -> Status {
    let figures = |more: Value, flows: u64, rate: u64| {
        let mut all = json!({
            "flows": flows, "flows_begun": rate * second, "flows_refused": 2 * second,
            "packets_to_servers": 5 * rate * second, "bytes_to_servers": 1000 * rate * second,
            "packets_to_clients": 4 * rate * second, "bytes_to_clients": 8000 * rate * second,
        });
        let fields = more.as_object().expect("an object").clone();
        all.as_object_mut().expect("an object").extend(fields);
        all
    };
    let member = |server: &str, weight: u16, draining: bool| json!({ "server": server, "weight": weight, "draining": draining });
    let server = |server: &str, well: bool, flows, rate| {
        let own = json!({
            "protocol": "tcp", "server": server, "leaving": false, "well": well, "flows_open": flows,
            "checks_passed": 40, "checks_failed": 3, "last_failure": "said \u{1b}[31m 500", "resting": false,
        });
        figures(own, flows, rate)
    };
    let status = json!({
        "schema": "exos.forward.statistics/1", "pid": 77, "uptime_ms": 3_700_000 + second * 1000,
        "time_ns": 5_000_000_000 + second * 1_000_000_000,
        "flows": { "opening": 3, "established": 12_300, "talking": 0, "closing": 42, "capacity": 1 << 20, "in_kernel": 12_000 },
        "listeners": [
            figures(json!({
                "protocol": "tcp", "listener": "10.0.0.7:80", "leaving": false,
                "servers": [member("10.0.0.8:80", 1, false), member("10.0.0.9:80", 3, false)],
            }), 300, 500),
            figures(json!({
                "protocol": "tcp", "listener": "[fd00::7]:80", "leaving": true,
                "servers": [member("[fd00::8]:80", 1, true)],
            }), 7, 1),
        ],
        "servers": [
            server("10.0.0.8:80", true, 100, 120), server("10.0.0.9:80", false, 200, 380), server("[fd00::8]:80", true, 7, 1),
        ],
        "counters": { "drop_hops": 30 * second, "drop_malformed": 0, "unknown_flow": 9, "forwarded_to_servers": 5 },
    });
    serde_json::from_value(status).expect("a status")
}

fn app() -> App {
    let mut app = App::default();
    app.handle_status(status(1));
    app.handle_status(status(3));
    app
}

fn seen(app: &App) -> String {
    screen::seen((120, 20), |frame| draw(app, frame))
}

fn press(app: &mut App, code: KeyCode) -> Next {
    app.servers.handle_key(screen::key(code))
}

#[test]
fn listeners_servers_and_what_is_not_sent_on() {
    let expected = "\
exos top  forwarder 77, up 1 h 1 min
flows 12.3k of 1.05M:  opening 3  established 12.3k  talking 0  closing 42  in kernel 12.0k
";
    let shown = seen(&app());
    assert!(shown.starts_with(expected), "{shown}");
    let words: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    for line in [
        "tcp:10.0.0.7:80 300 500 6 2.50k 4.00M 2.00k 32.0M",
        "tcp:[fd00::7]:80 leaving 7 1 6 5 8.00k 4 64.0k",
        "tcp:10.0.0.8:80 well, 1 100 120 6 600 960k 480 7.68M",
        "tcp:10.0.0.9:80 not well, 3 200 380 6 1.90k 3.04M 1.52k 24.3M",
        "tcp:[fd00::8]:80 draining, 1 7 1 6 5 8.00k 4 64.0k",
        "│drop_hops 90 30/s",
        "│unknown_flow 9 0/s",
    ] {
        let wanted: Vec<&str> = line.split_whitespace().collect();
        assert!(
            words.iter().any(|words| words.starts_with(&wanted)),
            "{line:?} in\n{shown}"
        );
    }
    assert!(
        !shown.contains("drop_malformed") && !shown.contains("forwarded_to_servers"),
        "{shown}"
    );
}

/// The chosen server stays chosen when rows change places, and can be looked into.
#[test]
fn keys_sort_choose_and_look_inside() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    assert_eq!(
        app.servers.chosen_row().expect("a row").name,
        "tcp:10.0.0.9:80"
    );
    for column in [Column::Flows, Column::Begun, Column::In, Column::Out] {
        press(&mut app, KeyCode::Right);
        assert_eq!(
            (app.servers.column, app.servers.chosen_at()),
            (column, Some(0))
        );
    }
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(app.servers.chosen_at(), Some(2));
    press(&mut app, KeyCode::Right);
    assert_eq!(app.servers.column, Column::Server);
    press(&mut app, KeyCode::Enter);
    let shown = seen(&app);
    for line in [
        "tcp:10.0.0.9:80: not well, 3",
        "flows   200 (200 not over), 1140 begun, 6 refused, 0 unanswered",
        "in      5700 packets, 1.14M bytes",
        "checks  40 passed, 3 failed",
        "failed  said ?[31m 500",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    assert_eq!(press(&mut app, KeyCode::Esc), Next::Stay);
    assert!(seen(&app).contains("SERVER^"), "{}", seen(&app));
    assert_eq!(press(&mut app, KeyCode::Char('q')), Next::Quit);
}

/// Another forwarder, a server that has just come, and numbers that went backwards: there is no rate.
#[test]
fn what_cannot_be_compared_has_no_rate() {
    let rates = |app: &App| {
        app.servers
            .rows
            .iter()
            .map(|row| row.rates.is_some())
            .collect::<Vec<_>>()
    };
    let mut app = app();
    let mut less = status(4);
    less.servers[0].figures.flows_begun = 1;
    less.servers.remove(2);
    app.handle_status(less);
    assert_eq!(rates(&app), [false, true]);
    app.handle_status(status(5));
    assert_eq!(rates(&app), [true, true, false]);
    let mut other = status(6);
    other.pid = Some(78);
    app.handle_status(other);
    assert_eq!(rates(&app), [false; 3]);
    assert!(app.reasons.iter().all(|reason| reason.rate.is_none()));
}

#[test]
fn without_a_forwarder_the_last_status_stays_and_the_reason_is_said() {
    let mut app = app();
    app.handle_trouble("nobody answers".to_owned());
    let shown = seen(&app);
    assert!(
        shown
            .lines()
            .next()
            .expect("a line")
            .ends_with("nobody answers"),
        "{shown}"
    );
    assert!(shown.contains("tcp:10.0.0.8:80"));
    app.handle_status(status(4));
    assert!(!seen(&app).contains("nobody answers"));
}

/// Windows of any size, also none, and statuses with nothing in them.
#[test]
fn any_window_will_do() {
    let mut apps = [App::default(), App::default(), app(), app(), app()];
    apps[1].handle_status(Status::default());
    press(&mut apps[3], KeyCode::Enter);
    press(&mut apps[4], KeyCode::Char('?'));
    for app in &apps {
        screen::draw_on_all_sizes(|frame| draw(app, frame));
    }
}
