//! What is seen and what keys do, on a terminal in memory.

use exos_program::status::Status;
use exos_top::daemon::app::{App, Column};
use exos_top::daemon::view::draw;
use exos_top::keys::Next;
use ratatui::crossterm::event::KeyCode;
use serde_json::json;

use crate::screen;

/// A daemon with two programs and itself; everything counts up with the seconds.
fn report(second: u64, hog_pid: u32) -> Status {
    let counters = |rx: u64, tx: u64, bad: u64| {
        json!({
            "rx_packets": rx * second, "rx_bytes": rx * second * 1000,
            "tx_packets": tx * second, "tx_bytes": tx * second * 500,
            "tx_bad_source": bad * second, "no_ring": 0, "pass_to_host": 7 * second,
        })
    };
    let slot = |slot: u16, program: &str, pid: u32, counters| {
        json!({
            "slot": slot, "program": program, "pid": pid, "uid": 1000, "mode": "shared", "weight": 1,
            "memory_bytes": 4 << 20,
            "grants": [{"id": 3, "claim": "tcp 192.0.2.7 port 80", "holders": 3, "shared": true, "retired": true},
                {"id": 4, "claim": "tcp 192.0.2.8", "holders": 1, "successor_ms": 2500}],
            "counters": counters,
        })
    };
    let report = json!({
        "schema": "exos.daemon.status/1", "pid": 77, "uptime_ms": 3_700_000 + second * 1000,
        "time_ns": 5_000_000_000 + second * 1_000_000_000,
        "interfaces": [{
            "name": "eth0", "ifindex": 2, "mac": "02:00:00:00:00:01", "mtu": 1500,
            "rate_bits_per_sec": 1_000_000_000, "addresses": ["192.0.2.7/24"],
            "host": counters(1, 1, 0),
            "slots": [
                slot(1, "serve", 101, counters(12_345, 6_000, 0)),
                slot(2, "hog\u{1b}[31m", hog_pid, counters(10, 90_000, 250)),
            ],
        }],
        "taps": [],
    });
    Status::parse(&report.to_string()).expect("a report")
}

fn app() -> App {
    let mut app = App::default();
    app.handle_status(report(1, 102));
    app.handle_status(report(3, 102));
    app
}

fn seen(app: &App) -> String {
    screen::seen((110, 16), |frame| draw(app, frame))
}

fn press(app: &mut App, code: KeyCode) -> Next {
    app.programs.handle_key(screen::key(code))
}

#[test]
fn programs_by_what_they_receive() {
    let expected = "\
exos top  daemon 77, up 1 h 1 min
eth0       1.00Gbit/s  rx 12.4k pkt/s 98.8Mbit/s  tx 96.0k pkt/s 384Mbit/s  drops 250/s  192.0.2.7/24

IFACE      SLOT PROGRAM          PID      UID    MODE   RX pkt  RX bitv TX pkt  TX bit  DROPS
eth0       1    serve            101      1000   shared 12.3k   98.8M   6.00k   24.0M   0
eth0       2    hog?[31m         102      1000   shared 10      80.0k   90.0k   360M    250
eth0       0    (host)           -        -      -      1       8.00k   1       4.00k   0
";
    let shown = seen(&app());
    assert!(shown.starts_with(expected), "{shown}");
    assert!(
        shown.ends_with("q quit  ? keys  enter look into  left/right sort  r reverse  p pause\n"),
        "{shown}"
    );
}

/// The chosen program stays chosen when rows change places, and what is dropped of it is below.
#[test]
fn keys_sort_and_choose() {
    let mut app = app();
    press(&mut app, KeyCode::Down);
    assert_eq!(app.programs.chosen_row().expect("a row").slot.slot, 2);
    press(&mut app, KeyCode::Right);
    assert_eq!(app.programs.column, Column::Tx);
    assert_eq!(app.programs.chosen_at(), Some(0));
    assert!(
        seen(&app).contains("tx_bad_source            750      250/s"),
        "{}",
        seen(&app)
    );
    press(&mut app, KeyCode::Char('r'));
    assert_eq!(app.programs.chosen_at(), Some(2));
    press(&mut app, KeyCode::Char('r'));
    for _ in 0..3 {
        press(&mut app, KeyCode::Left);
    }
    assert_eq!(app.programs.column, Column::Slot);
    let order: Vec<u16> = app.programs.rows.iter().map(|row| row.slot.slot).collect();
    assert_eq!(order, [0, 1, 2]);
    press(&mut app, KeyCode::Down);
    assert_eq!(
        app.programs.chosen_at(),
        Some(2),
        "there is nothing further down"
    );
}

#[test]
fn inside_one_program() {
    let mut app = app();
    press(&mut app, KeyCode::Enter);
    let shown = seen(&app);
    for line in [
        "serve on eth0, slot 1",
        "pid 101  uid 1000  mode shared  weight 1  memory 4 MiB",
        "rx 12.3k pkt/s 98.8Mbit/s  tx 6.00k pkt/s 24.0Mbit/s  drops 0/s",
        "    3  tcp 192.0.2.7 port 80 (shared by 3), no new flows",
        "    4  tcp 192.0.2.8 (then 2.5 s for a successor)",
        "rx_packets                  37035",
    ] {
        assert!(shown.contains(line), "{line:?} in\n{shown}");
    }
    assert_eq!(press(&mut app, KeyCode::Esc), Next::Stay);
    assert!(seen(&app).contains("PROGRAM"));
    assert_eq!(press(&mut app, KeyCode::Esc), Next::Quit);
}

/// Another program in a slot, another daemon, and numbers that went backwards: there is no rate.
#[test]
fn what_cannot_be_compared_has_no_rate() {
    let mut app = app();
    app.handle_status(report(4, 555));
    let rates = |app: &App, slot| {
        app.programs
            .rows
            .iter()
            .find(|row| row.slot.slot == slot)
            .expect("there")
            .rates
    };
    assert_eq!(rates(&app, 2), None);
    assert!(rates(&app, 1).is_some());
    let mut other = report(5, 555);
    other.pid = Some(78);
    app.handle_status(other);
    assert_eq!(rates(&app, 1), None);
    let mut backwards = report(2, 555);
    (backwards.pid, backwards.time_ns) = (Some(78), Some(99_000_000_000));
    app.handle_status(backwards);
    assert_eq!(rates(&app, 1), None);
    assert!(
        seen(&app).contains("-       -       -       -       -"),
        "{}",
        seen(&app)
    );
}

#[test]
fn without_a_daemon_the_last_report_stays_and_the_reason_is_said() {
    let mut app = app();
    app.handle_trouble("there is no daemon".to_owned());
    let shown = seen(&app);
    assert!(
        shown
            .lines()
            .next()
            .expect("a line")
            .ends_with("there is no daemon"),
        "{shown}"
    );
    assert!(shown.contains("serve"));
    app.handle_status(report(4, 102));
    assert!(!seen(&app).contains("there is no daemon"));
}

/// Windows of any size, also none, and reports with nothing in them.
#[test]
fn any_window_will_do() {
    let mut apps = [App::default(), app(), app(), app()];
    press(&mut apps[2], KeyCode::Enter);
    press(&mut apps[3], KeyCode::Char('?'));
    for app in &apps {
        screen::draw_on_all_sizes(|frame| draw(app, frame));
    }
}
