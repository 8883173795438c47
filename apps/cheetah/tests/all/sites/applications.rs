//! What applications are asked by the rules of `[[site.fastcgi]]` and `[[site.access]]` together, from the text of a configuration to
//! the variables.

use exos_buf::Slice;
use exos_cheetah::http::asking::ToldEnds;
use exos_cheetah::{Next, Server, ServerConnection};

use super::access::{ANN, RIGHT};
use crate::sites::Folder;

/// The Authorization field of `admin:wrong`.
const FORGED: &str = "Authorization: Basic YWRtaW46d3Jvbmc=\r\n";

/// What becomes of a request: the value of a variable that the application is given, or the status of another answer.
fn variable(server: &mut Server, line: &str, fields: &str, name: &str) -> Result<String, String> {
    let request = format!("{line} HTTP/1.1\r\nHost: client.test\r\n{fields}\r\n");
    loop {
        let (mut connection, mut out) = (ServerConnection::new(), Vec::new());
        let handled = connection.handle_bytes(server, request.as_bytes(), 1 << 20, &mut out);
        match handled.next {
            Next::Wait(missing) => {
                let (site, wanted) = missing.document;
                server.sites().get(site).settings().access.verify(&wanted);
            }
            Next::Ask(mut asking) => {
                let end = ([192, 0, 2, 1], 80).into();
                let ends = ToldEnds::new((end, end));
                let variables = asking.variables(&ends, None).unwrap();
                // Also of one that has waited, or is asked once more.
                let again = asking.variables(&ends, None);
                assert_eq!(again.as_ref(), Some(&variables), "{line}");
                return Ok(value(&variables, name));
            }
            _ => {
                let answer: Vec<u8> = out.iter().flat_map(Slice::as_bytes).copied().collect();
                return Err(String::from_utf8_lossy(&answer[9..12]).into_owned());
            }
        }
    }
}

/// The value of a variable, where it is short; `-` where there is none.
fn value(variables: &[u8], name: &str) -> String {
    let mut names = variables.windows(name.len());
    let Some(at) = names.position(|window| window == name.as_bytes()) else {
        return "-".to_owned();
    };
    let value = &variables[at + name.len()..][..usize::from(variables[at - 1])];
    String::from_utf8_lossy(value).into_owned()
}

fn user(server: &mut Server, path: &str, fields: &str) -> Result<String, String> {
    variable(server, &format!("GET {path}"), fields, "REMOTE_USER")
}

#[test]
fn nobody_is_a_user_whose_password_was_not_asked_for() {
    let folder = Folder::new(&[("www/a.txt", ""), ("users", ANN)]);
    let head = "[[site]]\nroot = \"www\"\n[[site.fastcgi]]\npath = \"/app/*\"\nto = \"/run/app\"\n";
    let (ann, refused) = (Ok("ann".to_owned()), Err("401".to_owned()));
    let nobody = Ok("-".to_owned());
    let mut server = folder.server(&format!(
        "{head}[[site.access]]\npath = \"*\"\nusers = \"users\"\n\
         [[site.access]]\npath = \"/app/open/*\"\nusers = \"\"\n"
    ));
    assert_eq!(user(&mut server, "/app/x", RIGHT), ann);
    assert_eq!(user(&mut server, "/app/x", FORGED), refused);
    assert_eq!(user(&mut server, "/app/open/x", FORGED), nobody);
    // A rule about the script's path alone is about nothing below.
    let mut server = folder.server(&format!(
        "{head}[[site.access]]\npath = \"/app\"\nusers = \"users\"\n"
    ));
    assert_eq!(user(&mut server, "/app/x", FORGED), nobody);
}

/// What a framework takes a request for is not reached behind the name of its front.
#[test]
fn a_front_is_no_way_around_a_password() {
    let folder = Folder::new(&[
        ("www/index.php", ""),
        ("www/shop/index.php", ""),
        ("users", ANN),
    ]);
    for directory in ["", "/shop"] {
        let mut server = folder.server(&format!(
            "[[site]]\nroot = \"www\"\n\
             [[site.fastcgi]]\nextension = \".php\"\nto = \"/run/php\"\nfront = \"{directory}/index.php\"\n\
             [[site.access]]\npath = \"{directory}/admin/*\"\nusers = \"users\"\n"
        ));
        for (path, is_open) in [
            ("/admin/x", false),
            ("/index.php/admin/x", false),
            ("/%69ndex.php//admin/./x", false),
            ("/index.php/public", true),
            ("/index.php", true),
            ("/public", true),
        ] {
            let path = format!("{directory}{path}");
            let wanted = match is_open {
                true => Ok("-".to_owned()),
                false => Err("401".to_owned()),
            };
            assert_eq!(user(&mut server, &path, ""), wanted, "{path}");
            let named = if is_open { "-" } else { "ann" };
            let found = user(&mut server, &path, RIGHT);
            assert_eq!(found, Ok(named.to_owned()), "{path}");
        }
    }
}

/// A client that says another host does not change what the site calls itself.
#[test]
fn the_servers_name_is_the_sites_first_without_a_star() {
    let folder = Folder::new(&[("www/a.txt", "")]);
    for (names, wanted) in [
        (
            "[\"*.own.test\", \"own.test\", \"www.own.test\"]",
            "own.test",
        ),
        ("[\"*.own.test\"]", "client.test"),
    ] {
        let mut server = folder.server(&format!(
            "[[site]]\nroot = \"www\"\nnames = {names}\ndefault = true\n\
             [[site.fastcgi]]\npath = \"/*\"\nto = \"/run/app\"\n"
        ));
        let name = variable(&mut server, "GET /", "", "SERVER_NAME");
        assert_eq!(name, Ok(wanted.to_owned()));
    }
}

/// A configuration whose front is not there cannot stand, as one whose error page is not.
#[test]
fn a_front_that_is_not_there_is_an_error() {
    let folder = Folder::new(&[("www/a.txt", ""), ("www/there.php", "")]);
    let load = |front: &str| {
        folder.load(&format!(
            "[[site]]\nroot = \"www\"\n[[site.fastcgi]]\nextension = \".php\"\nto = \"/run/php\"\n{front}"
        ))
    };
    let errors = load("front = \"/index.php\"\n").unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    let is_placed = errors[0].contains("serve.toml:6: there is no script /index.php");
    assert!(is_placed, "{errors:?}");
    assert!(load("front = \"/there.php\"\n").is_ok());
    assert!(load("front = \"/index.php\"\nfiles = false\n").is_ok());
}
