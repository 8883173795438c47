//! One certificate, from the account to its chain (RFC 8555 §7).
//!
//! An order is for a name that the configuration wants of this authority. A reload may change that while it is under way: one that is
//! still wanted goes on as it began; any other ends at its next step, and takes its challenges, its records in DNS and what the
//! authority waits for with it. What the authority has been asked to sign is taken all the same, for it counts that.

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use exos_program::UserArgs;
use exos_tls::client::Trust;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error as AcmeError,
    Identifier, NewOrder, Order, OrderStatus, Problem,
};
use zeroize::Zeroizing;

use super::answer::check;
use super::signing::{Patience, have_signed};
use super::turn::Turn;
use crate::acme::advice::{Advised, identifier};
use crate::acme::budget::Asked;
use crate::acme::challenges::{Challenge, Kind};
use crate::acme::client::Client;
use crate::acme::hook::{self, Act};
use crate::acme::known::validity_of;
use crate::acme::obstacle::{Failed, Obstacle};
use crate::acme::problem::{is, is_about_replacing};
use crate::acme::schedule::{Failure, now};
use crate::acme::state::{Acme, lock};
use crate::acme::store::{Lock, Store};
use crate::acme::wanted::Wanted;
use crate::config::AcmeConfig;
use crate::limits::{
    ACME_ASK_AGAIN_TIME, ACME_HOOK_TIME, ACME_LOOK_TIME, ACME_ORDER_TIME, ACME_PUBLISH_TIME,
};

const PATIENCE: Patience = Patience {
    each: ACME_ASK_AGAIN_TIME,
    all: ACME_ORDER_TIME,
};

/// An authority, for the order whose turn it is to speak with it.
pub(in crate::acme) struct Authority<'a> {
    pub(in crate::acme) acme: &'a Acme,
    pub(in crate::acme) config: &'a AcmeConfig,
    pub(in crate::acme) store: &'a Store,
    pub(in crate::acme) turn: Turn<'a>,
}

impl<'a> Authority<'a> {
    /// The one of a configuration, when it has its turn.
    pub(in crate::acme) fn of(acme: &'a Acme, wanted: &'a Wanted) -> Self {
        Authority {
            acme,
            config: &wanted.config,
            store: &wanted.store,
            turn: Turn::of(&acme.turns),
        }
    }

    /// Gets a certificate for a name, and keeps it, while no other process orders. The authority is told of the one that there is that
    /// this one takes its place, where it gives advice (RFC 9773 §5). `leftovers` are of a process that was killed; they go first, and are none then.
    pub(in crate::acme) fn order(
        &self,
        name: &str,
        kind: Kind,
        leftovers: &Mutex<Vec<Challenge>>,
        _lock: &Lock,
    ) -> Result<(), Failed> {
        let here = Failed::here;
        // Authorities count orders that come to nothing, too.
        let hook = self.config.check_hook(&UserArgs::default());
        hook.map_err(|e| here(e.to_string()))?;
        // One that cannot be kept is not ordered: authorities count what they sign, a few of a name in a week.
        let room = self.store.make_room(name);
        room.map_err(|e| here(format!("nothing is ordered that cannot be kept: {e}")))?;
        let left = lock(leftovers).clone();
        self.end(&left);
        lock(leftovers).clear();
        self.make_room_for_challenge().map_err(Failed::of_folder)?;
        let client = self.client();
        let (before, is_renewal) = (
            self.store.signed(name),
            validity_of(self.store, name).is_some(),
        );
        let replaces = identifier(&self.store.certificate(name));
        let got = self.wait(self.get(&client, name, kind, replaces));
        // Whatever has come of it, nobody asks any more.
        match self.store.challenges() {
            Ok(mut own) => {
                own.retain(|it| it.name == name);
                self.end(&own);
            }
            Err(error) => exos_program::warn!(
                "exos serve: challenges of {name} stay until its next order: {}",
                Failed::of_folder(error).what
            ),
        }
        let pem = match got {
            Ok(pem) => pem,
            Err(obstacle) => {
                self.store.give_room_back(name);
                let (directory, wait) = (&self.config.directory, client.retry_after());
                return Err(obstacle.told(name, directory, wait));
            }
        };
        let kept = self.store.set_certificate(name, pem.as_bytes());
        kept.map_err(|e| Failed {
            what: format!("cannot keep the certificate: {e}"),
            failure: Failure::Refused,
            wait: None,
        })?;
        if is_renewal {
            // A name that keeps what it gets has lost nothing. Where that is not kept, one more is counted than is.
            let _ = self.store.set_signed(name, before);
        }
        Ok(())
    }

    /// Has these challenges go, and the records of dns-01 that were set for them: no others, which may be asked for now. A record that the
    /// program cannot take away is tried again with the next order, unless there is no program any more. What it may take for one record is for all.
    fn end(&self, challenges: &[Challenge]) {
        self.end_within(challenges, ACME_HOOK_TIME);
    }

    fn end_within(&self, challenges: &[Challenge], time: Duration) {
        let until = Instant::now() + time;
        for challenge in challenges {
            let left = until.saturating_duration_since(Instant::now());
            let cleared = match (challenge.kind, &self.config.dns_hook) {
                (Kind::Http | Kind::TlsAlpn, _) => Ok(()),
                (Kind::Dns, Some(_)) if left.is_zero() => {
                    Err("those before it have taken all the time".to_owned())
                }
                (Kind::Dns, Some(hook)) => {
                    let clear = || hook::call(hook, Act::Clear, challenge, (left, || true));
                    self.turn.aside(clear)
                }
                (Kind::Dns, None) => {
                    Err("there is no dns_hook any more that takes it away".to_owned())
                }
            };
            if let Err(error) = &cleared {
                exos_program::warn!(
                    "exos serve: a record for {} may stay in DNS, where it does no harm: {error}",
                    challenge.name
                );
            }
            if (cleared.is_ok() || self.config.dns_hook.is_none())
                && let Err(error) = self.store.remove_challenge(challenge)
            {
                exos_program::warn!("exos serve: cannot remove an old challenge: {error}");
            }
        }
        // What goes on being answered is of no use to anybody.
        let _ = self.acme.hear_challenges();
    }

    /// Has another challenge find room. Those that go for it could not be taken away for long.
    fn make_room_for_challenge(&self) -> io::Result<()> {
        for gone in self.store.make_room_for_challenge()? {
            exos_program::warn!(
                "exos serve: too many challenges are left; that of {} by {} is forgotten, and its record may stay in DNS, where it does no harm",
                gone.name,
                gone.kind.name()
            );
        }
        Ok(())
    }

    /// When the authority advises to renew the certificate of a name.
    pub(in crate::acme) fn advice(&self, name: &str) -> Advised {
        let Some(identifier) = identifier(&self.store.certificate(name)) else {
            return Advised::Nothing;
        };
        let client = self.client();
        let ask = async {
            // Who has no account has no certificate of it either.
            let Some(credentials) = self.store.account().map_err(Obstacle::of_folder)? else {
                return Ok(Advised::Nothing);
            };
            let builder = Account::builder_with_http(Box::new(client.clone()));
            let account = builder.from_credentials(credentials).await?;
            Ok(Advised::of(account.renewal_info(&identifier).await))
        };
        self.wait(ask).unwrap_or(Advised::Unreached)
    }

    fn client(&self) -> Client {
        let trust = match &self.config.authorities {
            Some(file) => Trust::File(file.clone()),
            None => Trust::System,
        };
        Client::new(trust, self.acme.ways.clone())
    }

    /// Waits for what is asked of an authority, on this thread.
    fn wait<T>(&self, asked: impl Future<Output = Result<T, Obstacle>>) -> Result<T, Obstacle> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build();
        let fail = |e| Obstacle::Here(format!("cannot wait for an authority: {e}"));
        runtime.map_err(fail)?.block_on(asked)
    }

    /// Goes on with what is asked, as long as a certificate of this name is wanted: that is looked at whenever it waits.
    async fn while_wanted<T>(
        &self,
        name: &str,
        asked: impl Future<Output = Result<T, Obstacle>>,
    ) -> Result<T, Obstacle> {
        let mut asked = pin!(asked);
        loop {
            match tokio::time::timeout(ACME_LOOK_TIME, asked.as_mut()).await {
                Ok(done) => return done,
                Err(_) if self.wants(name) => {}
                Err(_) => return Err(Obstacle::Unwanted),
            }
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.acme.wants(self.store, name)
    }

    /// Counts what is asked of the authority.
    fn spend(&self, what: Asked) -> Result<(), Obstacle> {
        let spent = self.store.spend(what, now());
        spent.map_err(Obstacle::of_folder)
    }

    async fn get(
        &self,
        client: &Client,
        name: &str,
        kind: Kind,
        replaces: Option<CertificateIdentifier<'_>>,
    ) -> Result<Zeroizing<String>, Obstacle> {
        if !self.wants(name) {
            return Err(Obstacle::Unwanted); // It has waited for its turn.
        }
        let account = self.account(client).await?;
        let names = [Identifier::Dns(name.to_owned())];
        let plain = NewOrder::new(&names);
        self.spend(Asked::Order)?;
        let begun = match replaces {
            Some(replaces) => {
                let order = NewOrder::new(&names).replaces(replaces);
                match account.new_order(&order).await {
                    Err(error) if is_about_replacing(&error) => account.new_order(&plain).await,
                    begun => begun,
                }
            }
            None => account.new_order(&plain).await,
        };
        let mut order = match begun {
            Err(AcmeError::Api(problem)) if is(&problem, "accountDoesNotExist") => {
                self.store
                    .put_account_aside()
                    .map_err(Obstacle::of_folder)?;
                let account = self.account(client).await?;
                account.new_order(&plain).await?
            }
            order => order?,
        };
        let is_asked = Cell::new(false);
        let shown = self.while_wanted(name, self.show(&mut order, (name, kind), &is_asked));
        let shown = shown.await;
        if matches!(shown, Err(Obstacle::Unwanted)) || !self.wants(name) {
            give_up(&mut order).await;
            return Err(match shown {
                Err(Obstacle::Unwanted) if is_asked.get() => Obstacle::Dropped,
                Err(obstacle) if is_asked.get() => obstacle,
                _ => Obstacle::Unwanted,
            });
        }
        shown?;
        let (key, chain) = have_signed(self.store, &mut order, name, PATIENCE).await?;
        check(name, &key, &chain, now()).map_err(Obstacle::Wrong)?;
        // In one piece at once: a string that grows leaves copies of the key behind.
        let mut pem = Zeroizing::new(String::with_capacity(key.len() + chain.len()));
        pem.push_str(&key);
        pem.push_str(&chain);
        Ok(pem)
    }

    /// Shows the authority that the name leads here. From when it `is_asked` to check that on, it counts what fails, whether its answer comes or not.
    async fn show(
        &self,
        order: &mut Order,
        (name, kind): (&str, Kind),
        is_asked: &Cell<bool>,
    ) -> Result<(), Obstacle> {
        if order.state().status == OrderStatus::Ready {
            return Ok(());
        }
        let wanted = match kind {
            Kind::Http => ChallengeType::Http01,
            Kind::TlsAlpn => ChallengeType::TlsAlpn01,
            Kind::Dns => ChallengeType::Dns01,
        };
        let mut all = order.authorizations();
        while let Some(authorization) = all.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue; // It remembers.
            }
            let Some(mut challenge) = authorization.challenge(wanted.clone()) else {
                return Err(Obstacle::NotAsked(kind));
            };
            let said = challenge.key_authorization();
            let answer = Challenge {
                kind,
                name: name.to_owned(),
                token: challenge.token.clone(),
                key_authorization: match kind {
                    Kind::Dns => said.dns_value(),
                    Kind::Http | Kind::TlsAlpn => said.as_str().to_owned(),
                },
            };
            let added = self.store.add_challenge(&answer);
            added.map_err(Obstacle::of_folder)?;
            self.acme.hear_challenges().map_err(Obstacle::of_folder)?;
            match (kind, &self.config.dns_hook) {
                (Kind::Dns, Some(hook)) => {
                    let bounds = (ACME_HOOK_TIME, || self.wants(name));
                    let set = || hook::call(hook, Act::Set, &answer, bounds);
                    self.turn.aside(set).map_err(Obstacle::Hook)?;
                }
                (Kind::Dns, None) => {
                    let what = "dns-01 takes a program that sets records; name it by dns_hook";
                    return Err(Obstacle::Here(what.to_owned()));
                }
                (Kind::Http | Kind::TlsAlpn, _) => tokio::time::sleep(ACME_PUBLISH_TIME).await,
            }
            is_asked.set(true);
            challenge.set_ready().await.map_err(Obstacle::Unfinished)?;
        }
        match order.poll_ready(&PATIENCE.policy()).await {
            Ok(OrderStatus::Ready) => Ok(()),
            Ok(_) => Err(Obstacle::NotShown(kind, why(order, &wanted).await)),
            Err(AcmeError::Api(problem)) => {
                let more = why(order, &wanted).await;
                Err(Obstacle::NotShown(kind, more.or(Some(problem))))
            }
            Err(error) => Err(Obstacle::Unfinished(error)),
        }
    }
}

/// Tells the authority that nobody shows it anything any more (RFC 8555 §7.5.2), so that nothing of the order waits there.
async fn give_up(order: &mut Order) {
    let mut all = order.authorizations();
    while let Some(authorization) = all.next().await {
        let given_up = match authorization {
            Ok(mut it) if it.status == AuthorizationStatus::Pending => {
                it.deactivate().await.map(drop)
            }
            authorization => authorization.map(drop),
        };
        if let Err(error) = given_up {
            exos_program::info!("exos serve: an order stays open until it expires: {error}");
        }
    }
}

/// What the authority says of a challenge that it did not find answered.
async fn why(order: &mut Order, wanted: &ChallengeType) -> Option<Problem> {
    let mut all = order.authorizations();
    while let Some(authorization) = all.next().await {
        let mut authorization = authorization.ok()?;
        let state = authorization.refresh().await.ok()?;
        let mut challenges = state.challenges.iter();
        let found = challenges.find(|it| it.r#type == *wanted);
        if let Some(problem) = found.and_then(|it| it.error.clone()) {
            return Some(problem);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;

    /// What is wanted of a folder: these names, by this program.
    fn config(folder: &std::path::Path, hook: Option<&str>, names: &[&str]) -> Config {
        let hook = hook.map_or(String::new(), |hook| format!("dns_hook = {hook:?}\n"));
        let text =
            format!("[acme]\nstate = \"state\"\n{hook}[[site]]\nroot = \"a\"\nnames = {names:?}");
        Config::parse(&folder.join("serve.toml"), &text).unwrap()
    }

    fn challenge(kind: Kind, name: &str, token: &str) -> Challenge {
        Challenge {
            kind,
            name: name.to_owned(),
            token: token.to_owned(),
            key_authorization: "value".to_owned(),
        }
    }

    fn of(folder: &std::path::Path, hook: Option<&str>, names: &[&str]) -> (Arc<Acme>, Wanted) {
        let config = config(folder, hook, names);
        let acme = Acme::of(&config, false).unwrap().unwrap();
        (acme, Wanted::of(&config).unwrap())
    }

    /// A record that could not be taken away is tried again, one that could is not, and none is known of when there is no program any more.
    #[test]
    fn records_are_taken_away_once() {
        let folder = tempfile::tempdir().unwrap();
        for (program, is_left) in [
            (Some("/bin/true"), false),
            (Some("/bin/false"), true),
            (None, false),
        ] {
            let (acme, wanted) = of(folder.path(), program, &["a.test"]);
            let record = challenge(Kind::Dns, "a.test", "token");
            wanted.store.add_challenge(&record).unwrap();
            Authority::of(&acme, &wanted).end(&[record]);
            let left = wanted.store.challenges().unwrap().len();
            assert_eq!(left == 1, is_left, "{program:?}");
        }
    }

    /// A reload ends an order that it does not want any more, wherever that waits, and no other.
    #[test]
    fn an_order_goes_on_for_as_long_as_it_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let (acme, wanted) = of(folder.path(), None, &["a.test", "b.test"]);
        let authority = Authority::of(&acme, &wanted);
        let wait = |name, is_without_end| {
            authority.wait(authority.while_wanted(name, async {
                tokio::time::sleep(4 * ACME_LOOK_TIME).await;
                acme.want(Wanted::of(&config(folder.path(), None, &["b.test"])).unwrap());
                if is_without_end {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(4 * ACME_LOOK_TIME).await;
                Ok(())
            }))
        };
        assert!(matches!(wait("a.test", true), Err(Obstacle::Unwanted)));
        wait("b.test", false).unwrap();
        // One that has waited for its turn until then asks for nothing.
        let client = authority.client();
        let asked = authority.wait(authority.get(&client, "a.test", Kind::Http, None));
        assert!(matches!(asked, Err(Obstacle::Unwanted)));
    }

    /// A program that hangs has its time once, however many records there are, and what it did not take away stays for another time.
    #[test]
    fn records_have_one_time_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let hook = folder.path().join("hook");
        let write = "printf '#!/bin/sh\\nexec sleep 1000\\n' >\"$1\" && chmod 700 \"$1\"";
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", write, "sh"]).arg(&hook);
        assert!(shell.status().unwrap().success());
        let (acme, wanted) = of(folder.path(), hook.to_str(), &["a.test"]);
        let all = ["1", "2", "3"].map(|token| challenge(Kind::Dns, "a.test", token));
        for record in &all {
            wanted.store.add_challenge(record).unwrap();
        }
        let authority = Authority::of(&acme, &wanted);
        let (begun, time) = (Instant::now(), Duration::from_millis(500));
        authority.end_within(&all, time);
        assert!(begun.elapsed() < 60 * time, "{:?}", begun.elapsed());
        assert_eq!(wanted.store.challenges().unwrap(), all);
    }

    /// The end of an order is no end for what the authority asks of another name meanwhile: in the folder, nor in what is answered.
    #[test]
    fn the_end_of_an_order_leaves_challenges_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let (acme, wanted) = of(folder.path(), None, &["a.test", "b.test"]);
        let old = challenge(Kind::Http, "a.test", "old");
        let new = challenge(Kind::Http, "b.test", "new");
        for asked in [&old, &new] {
            wanted.store.add_challenge(asked).unwrap();
        }
        Authority::of(&acme, &wanted).end(&[old]);
        assert_eq!(wanted.store.challenges().unwrap(), [new]);
        let answer = |token| {
            let path = format!("/.well-known/acme-challenge/{token}");
            acme.challenges().document(path.as_bytes()).is_some()
        };
        assert!(answer("new") && !answer("old"));
    }

    /// What the authority asks is answered by the folder that the configuration has now, also where an order in the one before comes to its end.
    #[test]
    fn the_end_of_an_order_of_before_a_reload_leaves_challenges_of_the_new_authority() {
        let folder = tempfile::tempdir().unwrap();
        let (acme, before) = of(folder.path(), None, &["a.test"]);
        let mut other = config(folder.path(), None, &["a.test"]);
        other.acme.as_mut().unwrap().directory = "https://other.test/dir".to_owned();
        acme.want(acme.prepare(&other).unwrap().unwrap());
        let now = Wanted::of(&other).unwrap();
        let asked = challenge(Kind::TlsAlpn, "a.test", "new");
        now.store.add_challenge(&asked).unwrap();
        let old = challenge(Kind::TlsAlpn, "a.test", "old");
        before.store.add_challenge(&old).unwrap();
        Authority::of(&acme, &before).end(&[old]);
        assert_eq!(before.store.challenges().unwrap(), []);
        assert_eq!(now.store.challenges().unwrap(), [asked]);
        assert!(acme.challenges().certificate("a.test").is_some());
    }
}
