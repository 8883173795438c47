//! Passwords that are right and wrong, and files that change.

use super::*;

/// The last two are of `openssl passwd -6 -salt saltstring` and `-5`. Some have comments.
fn users() -> Users {
    let bcrypt = bcrypt::hash("secret", 4).expect("a hash");
    let text = format!(
        "# who may\nann:{bcrypt}:Ann, of the office: first floor\n\nbob:$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1:\n\
         eve:$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5\n"
    );
    let users = Users::of(Path::new("users"), "Staff");
    users.take(&text).expect("users");
    users
}

fn right(name: &str) -> Login {
    Login::Right(name.as_bytes().into())
}

fn field(sent: &str) -> Vec<u8> {
    format!("Basic {}", STANDARD.encode(sent)).into_bytes()
}

#[test]
fn passwords_are_verified_once() {
    let users = users();
    for (sent, want) in [
        ("ann:secret", right("ann")),
        ("ann:Secret", Login::Refused),
        ("ann:", Login::Refused),
        ("bob:Hello world!", right("bob")),
        ("bob:secret", Login::Refused),
        ("eve:Hello world!", right("eve")),
        ("nobody:secret", Login::Refused),
        (":secret", Login::Refused),
    ] {
        let field = field(sent);
        let Login::Unknown(asked) = users.login(Some(&field)) else {
            panic!("{sent} is known before it was verified");
        };
        users.verify(&asked);
        assert_eq!(users.login(Some(&field)), want, "{sent}");
    }
    assert_eq!(
        users.login(Some(&field("ann:secret"))),
        right("ann"),
        "after wrong ones"
    );
}

#[test]
fn what_is_no_password_is_refused_at_once() {
    let users = users();
    for value in [
        "",
        "Basic",
        "Basic ",
        "Basic !!!",
        "Bearer YTpi",
        "Basic bm9jb2xvbg==",
    ] {
        assert_eq!(
            users.login(Some(value.as_bytes())),
            Login::Refused,
            "{value:?}"
        );
    }
    assert_eq!(users.login(None), Login::Refused);
}

#[test]
fn wrong_passwords_take_bounded_memory() {
    let users = Users::of(Path::new("users"), "Staff");
    (0..3 * WRONG_PASSWORDS_MAX).for_each(|n| users.verify(format!("a:{n}").as_bytes()));
    assert!(lock(&users.known).wrong.len() <= WRONG_PASSWORDS_MAX);
}

#[test]
fn files_are_checked() {
    for (text, line) in [
        ("ann", "1: "),
        ("# a\nann:secret", "2: "),
        ("ann::comment", "1: "),
        ("ann:$apr1$salt$K7R2G9Yh4bZbmqYTCUSJV/", "1: "),
        ("ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "1: "),
        (
            "ann:$2y$31$abcdefghijklmnopqrstuu5s0sT0WUvsqXJqZgoz8ZzYcSqBSVYRS",
            "1: ",
        ),
        (
            "ann:$6$rounds=99999999$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
            "1: ",
        ),
    ] {
        let error = users().take(text).expect_err(text);
        assert!(
            error.starts_with(line) && error.contains("htpasswd -B"),
            "{error}"
        );
    }
}

/// A long password would take a hash a hundred times as long.
#[test]
fn long_passwords_are_refused_at_once() {
    let long = field(&format!("ann:{}", "x".repeat(10_000)));
    assert_eq!(users().login(Some(&long)), Login::Refused);
}

/// A user that is taken out of the file is refused, and one that stays need not be verified again.
#[test]
fn a_changed_file_is_read_again() {
    let folder = std::env::temp_dir().join(format!("exos-users-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("users");
    let hash = |password: &str| bcrypt::hash(password, 4).expect("a hash");
    let (ann, bob) = (hash("one"), hash("two"));
    let put = |text: &[u8]| {
        fs::write(&file, text).expect("a file");
        let before = std::time::SystemTime::now() - 2 * PASSWORD_FILE_REST_TIME;
        let written = fs::File::options().append(true).open(&file);
        let written = written.and_then(|file| file.set_modified(before));
        written.expect("a time");
    };
    put(format!("ann:{ann}\nbob:{bob}\n").as_bytes());
    let users = Users::of(&file, "Staff");
    users.read().expect("users");
    let [one, two] = ["ann:one", "bob:two"].map(field);
    for sent in ["ann:one", "bob:two", "ann:three"] {
        users.verify(sent.as_bytes());
    }
    assert_eq!(users.login(Some(&two)), right("bob"));
    // A comment of any encoding.
    put(&[format!("ann:{ann}:").as_bytes(), b"B\xfcro\n"].concat());
    users.follow().expect("users");
    assert_eq!(
        users.login(Some(&one)),
        right("ann"),
        "nothing of it changed"
    );
    assert!(matches!(users.login(Some(&two)), Login::Unknown(_)));
    users.verify(b"bob:two");
    assert_eq!(users.login(Some(&two)), Login::Refused, "it has gone");
    // What cannot be read changes nothing, and is told once.
    put(b"ann\n");
    users.follow().expect_err("no hash");
    users.follow().expect("it was told");
    fs::remove_file(&file).expect("it was there");
    users.follow().expect_err("no file");
    users.follow().expect("it was told");
    assert_eq!(users.login(Some(&one)), right("ann"));
    put(format!("ann:{}\n", hash("three")).as_bytes());
    users.follow().expect("users");
    assert!(matches!(users.login(Some(&one)), Login::Unknown(_)));
    users.verify(b"ann:three");
    assert_eq!(users.login(Some(&field("ann:three"))), right("ann"));
    fs::remove_dir_all(&folder).expect("it was there");
}
