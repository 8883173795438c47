//! Certificates that come by themselves: what is configured, and what an authority is answered.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use exos_cheetah::acme::Acme;
use exos_cheetah::acme::challenges::{Challenge, Kind};
use exos_cheetah::config::{Config, Managed};
use exos_program::UserArgs;

use super::access::ANN;
use super::{Folder, body, get, status, values};

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(Path::new("/etc/exos/serve.toml"), text).map_err(|errors| errors.to_string())
}

#[test]
fn sites_without_certificates_of_their_own_get_some() {
    let text = "[acme]\ncontact = [\"admin@example.org\"]\n\
                [[site]]\nroot = \"a\"\nnames = [\"A.test\", \"www.a.test\"]\nhttps_only = true\n\
                [[site]]\nroot = \"b\"\nnames = [\"*.b.test\"]\n\
                [[site.certificate]]\nfile = \"b.pem\"\nkey = \"b.key\"\n\
                [[site]]\nroot = \"c\"\nnames = [\"intranet\"]\nacme = false\n";
    let config = parse(text).unwrap();
    let acme = config.acme.as_ref().unwrap();
    assert_eq!(
        acme.directory,
        "https://acme-v02.api.letsencrypt.org/directory"
    );
    assert_eq!((acme.challenge, acme.first), (None, Kind::Http));
    assert_eq!(config.tls.as_ref().unwrap().port, 443, "there is HTTPS");
    let folder = "/var/lib/exos/acme/acme-v02.api.letsencrypt.org-directory/certificates";
    let wanted = ["a.test", "www.a.test"].map(|name| Managed {
        name: name.to_owned(),
        file: format!("{folder}/{name}.pem").into(),
    });
    assert_eq!(config.managed().cloned().collect::<Vec<_>>(), wanted);
}

/// The authority asks at 80 or 443, whatever our ports are; behind others something leads there.
#[test]
fn ports_say_how_to_be_asked() {
    let site = "[[site]]\nroot = \"a\"\nnames = [\"a.test\"]";
    for (ports, first) in [
        ("", Kind::Http),
        ("port = 8080\n", Kind::TlsAlpn),
        ("port = 8080\n[tls]\nport = 8443\n", Kind::Http),
        ("[tls]\nport = 8443\n", Kind::Http),
    ] {
        let config = parse(&format!("{ports}[acme]\nstaging = true\n{site}")).unwrap();
        let acme = config.acme.unwrap();
        assert_eq!(acme.first, first, "{ports}");
        assert!(acme.directory.contains("staging"));
    }
    // An authority that asks by a handshake shows no certificate.
    let clients = |line: &str| format!("[tls]\nclient_ca = \"ca.pem\"\n[acme]\n{line}\n{site}");
    let acme = parse(&format!("port = 81\n{}", clients(""))).unwrap().acme;
    assert_eq!(acme.unwrap().challenge, Some(Kind::Http));
    let said = parse(&clients("challenge = \"tls-alpn-01\"")).unwrap_err();
    assert!(said.contains("write \"http-01\""), "{said}");
    let text = format!("[acme]\nchallenge = \"tls-alpn-01\"\nstate = \"acme\"\n{site}");
    let acme = parse(&text).unwrap().acme.unwrap();
    assert_eq!(acme.challenge, Some(Kind::TlsAlpn));
    assert_eq!(acme.state, Path::new("/etc/exos/acme"));
}

/// With a program that answers in DNS the authority asks for nothing else, and names may begin with a star.
#[test]
fn answers_in_dns_take_a_program() {
    for line in ["", "challenge = \"dns-01\"\n"] {
        let text = format!(
            "[tls]\nclient_ca = \"ca.pem\"\n[acme]\nstate = \"/acme\"\ndns_hook = \"/bin/sh\"\n{line}\
             [[site]]\nroot = \"a\"\nnames = [\"a.test\", \"*.a.test\"]"
        );
        let config = parse(&text).unwrap();
        let acme = config.acme.as_ref().unwrap();
        assert_eq!(acme.challenge, Some(Kind::Dns));
        assert_eq!(acme.dns_hook.as_deref(), Some(Path::new("/bin/sh")));
        let files: Vec<_> = config.managed().map(|it| it.file.file_name()).collect();
        assert_eq!(
            files,
            [Some("a.test.pem".as_ref()), Some("_.a.test.pem".as_ref())]
        );
    }
}

/// The program is started by the user who serves, whatever the one may who starts the server.
#[test]
fn answers_in_dns_are_the_serving_users() {
    let folder = tempfile::tempdir().unwrap();
    let hook = folder.path().join("hook");
    std::fs::write(&hook, "#!/bin/sh\n").unwrap();
    let text = format!(
        "[acme]\ndns_hook = \"{}\"\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]",
        hook.display()
    );
    let mode = |file: &Path, mode| {
        std::fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    };
    mode(&hook, 0o700);
    let acme = parse(&text).unwrap().acme.unwrap();
    acme.check_hook(&UserArgs::default()).unwrap();
    if !rustix::process::geteuid().is_root() {
        return; // Who may not become another starts it as itself.
    }
    let nobody = UserArgs {
        user: Some("65534:65534".parse().unwrap()),
    };
    for (of_folder, of_hook, is_good) in [
        (0o700, 0o755, false),
        (0o755, 0o700, false),
        (0o755, 0o755, true),
    ] {
        mode(folder.path(), of_folder);
        mode(&hook, of_hook);
        let checked = acme.check_hook(&nobody);
        assert_eq!(checked.is_ok(), is_good, "{of_folder:o} {of_hook:o}");
        if let Err(error) = checked {
            let said = error.to_string();
            assert!(said.contains("cannot start /"), "{said}");
        }
    }
}

#[test]
fn what_no_certificate_can_come_for_is_said() {
    let site = |names: &str| format!("[acme]\n[[site]]\nroot = \"a\"\nnames = [{names}]");
    let acme = |line: &str| format!("[acme]\n{line}\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]");
    for (text, says) in [
        (site("\"*.a.test\""), "takes an answer in DNS"),
        (site("\"192.0.2.7\""), "it is an address"),
        (site("\"[2001:db8::7]\""), "it is an address"),
        (site("\"intranet\""), "has a point in it"),
        (site("\"a_b.test\""), "no underline"),
        (site(""), "no site has a name"),
        (acme("contact = [\"admin\"]"), "is no mail address"),
        (
            acme("contact = [\"a@b.test,c@d.test\"]"),
            "is no mail address",
        ),
        (acme("directory = \"http://ca.test/dir\""), "with https://"),
        (acme("directory = \"https:///x\""), "with https://"),
        (acme("challenge = \"dns\""), "\"tls-alpn-01\" or \"dns-01\""),
        (acme("challenge = \"dns-01\""), "name it by dns_hook"),
        (
            acme("challenge = \"http-01\"\ndns_hook = \"/bin/sh\""),
            "leave one out",
        ),
        (acme("dns_hook = \"/bin\""), "is no program"),
        (acme("dns_hook = \"/etc/passwd\""), "chmod +x"),
        (
            acme("dns_hook = \"none\""),
            "cannot find the program /etc/exos/none",
        ),
        (
            acme("staging = true\ndirectory = \"https://ca.test/dir\""),
            "leave one out",
        ),
    ] {
        let said = parse(&text).expect_err(&text);
        assert!(said.contains(says), "{text}: {said}");
    }
}

#[test]
fn an_authority_is_answered_before_rules_and_redirects() {
    let state = tempfile::tempdir().unwrap();
    let text = format!(
        "[acme]\nstate = \"{}\"\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]",
        state.path().join("acme").display()
    );
    let acme = Acme::of(&parse(&text).unwrap(), false).unwrap().unwrap();
    acme.challenges().set(vec![Challenge {
        kind: Kind::Http,
        name: "a.test".to_owned(),
        token: "token".to_owned(),
        key_authorization: "token.thumb".to_owned(),
    }]);
    let folder = Folder::new(&[("www/index.html", "home"), ("users", ANN)]);
    let mut server = folder.server(
        "[[site]]\nroot = \"www\"\n[[site.access]]\npath = \"*\"\nusers = \"users\"\n\
         [[site.redirect]]\nfrom = \"/*\"\nto = \"https://b.test/\"",
    );
    server.set_acme(acme.clone());
    let path = "/.well-known/acme-challenge/token";
    let answer = get(&mut server, "a.test", path);
    assert_eq!((status(&answer), body(&answer)), ("200", "token.thumb"));
    assert_eq!(values(&answer, "Content-Type"), ["text/plain"]);
    // By whatever name: the authority may have been redirected.
    assert_eq!(body(&get(&mut server, "www.a.test", path)), "token.thumb");
    // Nobody else's answer is kept for others.
    let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(server.render(request.as_bytes(), 4096).is_none());
    let other = get(&mut server, "a.test", "/.well-known/acme-challenge/other");
    assert_eq!(status(&other), "401", "rules are for all else");
    acme.challenges().set(Vec::new());
    assert_eq!(status(&get(&mut server, "a.test", path)), "401");
    assert_eq!(acme.challenges().answered(), 3, "one of them for render");
}
