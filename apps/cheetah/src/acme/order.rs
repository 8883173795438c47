//! One certificate, from the account to its chain (RFC 8555 §7).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use exos_program::UserArgs;
use exos_tls::certificate::UnixSecs;
use exos_tls::client::Trust;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error as AcmeError,
    Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use zeroize::Zeroizing;

use super::advice::{Advised, identifier};
use super::answer::check;
use super::calls::Ways;
use super::challenges::{Challenge, Challenges, Kind};
use super::client::Client;
use super::hook::{self, Act};
use super::orders::Turn;
use super::problem::{is, is_about_account, is_about_replacing, not_shown, text};
use super::schedule::Failure;
use super::store::{Contact, Lock, Store};
use crate::config::AcmeConfig;
use crate::limits::{ACME_CHALLENGES_MAX, ACME_ORDER_TIME, ACME_PUBLISH_TIME};

/// Why there is no certificate.
#[derive(Debug)]
pub(super) struct Failed {
    /// For people.
    pub(super) what: String,
    pub(super) failure: Failure,
    /// How long the authority has said to wait.
    pub(super) wait: Option<Duration>,
}

impl Failed {
    /// By what is wrong on this host.
    pub(super) fn here(what: String) -> Failed {
        Failed {
            what,
            failure: Failure::Unreached,
            wait: None,
        }
    }
}

/// What an order is made with.
pub(super) struct Shop<'a> {
    pub(super) config: &'a AcmeConfig,
    pub(super) store: &'a Store,
    pub(super) challenges: &'a Challenges,
    /// By which the authority is asked.
    pub(super) ways: &'a Arc<Ways>,
    pub(super) turn: Turn<'a>,
}

/// What stands in the way of an order.
enum Obstacle {
    Acme(AcmeError),
    /// The authority did not find this server at the name.
    NotShown(Kind, Option<Problem>),
    /// The authority does not ask in this way.
    NotAsked(Kind),
    Here(String),
    /// The program that answers in DNS has failed.
    Hook(String),
    /// It may have signed a certificate, which did not come.
    Unfinished(AcmeError),
    /// What the authority sent is not what was asked for.
    Wrong(String),
}

impl From<AcmeError> for Obstacle {
    fn from(error: AcmeError) -> Obstacle {
        Obstacle::Acme(error)
    }
}

impl Shop<'_> {
    /// Gets a certificate for a name, and keeps it, while no other process orders. The authority is told of the one that there is that
    /// this one takes its place, where it gives advice (RFC 9773 §5). It `is_alone` where this process has no other under way.
    pub(super) fn order(
        &self,
        name: &str,
        kind: Kind,
        is_alone: bool,
        _lock: &Lock,
    ) -> Result<(), Failed> {
        let here = Failed::here;
        // Authorities count orders that come to nothing, too.
        let hook = self.config.check_hook(&UserArgs::default());
        hook.map_err(|e| here(e.to_string()))?;
        // One that cannot be kept is not ordered: authorities count what they sign, a few of a name in a week.
        let room = self.store.make_room(name);
        room.map_err(|e| here(format!("nothing is ordered that cannot be kept: {e}")))?;
        if is_alone {
            self.take_records_away(|_| true); // Those of a process that was killed.
        }
        let client = self.client();
        let replaces = identifier(&self.store.certificate(name));
        let got = self.wait(self.get(&client, name, kind, replaces));
        // Whatever has come of it, nobody asks any more.
        self.take_records_away(|of| of == name);
        let nothing = || self.store.clear_challenges().map(|()| Vec::new());
        if let Err(error) = self.challenges.take_up(nothing) {
            exos_program::warn!("exos serve: cannot remove old challenges: {error}");
            self.challenges.set(Vec::new());
        }
        let pem = match got {
            Ok(pem) => pem,
            Err(obstacle) => {
                self.store.give_room_back(name);
                return Err(self.failed(name, obstacle, &client));
            }
        };
        let kept = self.store.set_certificate(name, pem.as_bytes());
        kept.map_err(|e| Failed {
            what: format!("cannot keep the certificate: {e}"),
            failure: Failure::Refused,
            wait: None,
        })
    }

    /// Has the records of dns-01 go that were set for these names. One that the program cannot take away is tried again with the next order, unless there are
    /// too many of them, or no program any more.
    fn take_records_away(&self, is_for: impl Fn(&str) -> bool) {
        let all = self.store.challenges().unwrap_or_default();
        let is_full = all.len() == ACME_CHALLENGES_MAX;
        let records = all.iter().filter(|it| it.kind == Kind::Dns);
        for challenge in records.filter(|it| is_for(&it.name)) {
            let cleared = match &self.config.dns_hook {
                Some(hook) => self.turn.aside(|| hook::call(hook, Act::Clear, challenge)),
                None => Err("there is no dns_hook any more that takes it away".to_owned()),
            };
            if let Err(error) = &cleared {
                exos_program::warn!(
                    "exos serve: a record for {} may stay in DNS, where it does no harm: {error}",
                    challenge.name
                );
            }
            if (cleared.is_ok() || self.config.dns_hook.is_none() || is_full)
                && let Err(error) = self.store.remove_challenge(challenge)
            {
                exos_program::warn!("exos serve: cannot remove an old challenge: {error}");
            }
        }
    }

    /// When the authority advises to renew the certificate of a name.
    pub(super) fn advice(&self, name: &str) -> Advised {
        let Some(identifier) = identifier(&self.store.certificate(name)) else {
            return Advised::Nothing;
        };
        let client = self.client();
        let ask = async {
            // Who has no account has no certificate of it either.
            let Some(credentials) = self.store.account().map_err(of_folder)? else {
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
        Client::new(trust, self.ways.clone())
    }

    /// Waits for what is asked of an authority, on this thread.
    fn wait<T>(&self, asked: impl Future<Output = Result<T, Obstacle>>) -> Result<T, Obstacle> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build();
        let fail = |e| Obstacle::Here(format!("cannot wait for an authority: {e}"));
        runtime.map_err(fail)?.block_on(asked)
    }

    async fn get(
        &self,
        client: &Client,
        name: &str,
        kind: Kind,
        replaces: Option<CertificateIdentifier<'_>>,
    ) -> Result<Zeroizing<String>, Obstacle> {
        let account = self.account(client).await?;
        let names = [Identifier::Dns(name.to_owned())];
        let plain = NewOrder::new(&names);
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
                self.store.put_account_aside().map_err(of_folder)?;
                let account = self.account(client).await?;
                account.new_order(&plain).await?
            }
            order => order?,
        };
        self.show(&mut order, name, kind).await?;
        let key = order.finalize().await.map_err(Obstacle::Unfinished)?;
        let key = Zeroizing::new(key);
        let chain = order.poll_certificate(&patience()).await;
        let chain = chain.map_err(Obstacle::Unfinished)?;
        let now = exos::clock::unix_secs() as UnixSecs;
        check(name, &key, &chain, now).map_err(Obstacle::Wrong)?;
        // In one piece at once: a string that grows leaves copies of the key behind.
        let mut pem = Zeroizing::new(String::with_capacity(key.len() + chain.len()));
        pem.push_str(&key);
        pem.push_str(&chain);
        Ok(pem)
    }

    /// The account that there is, or another one.
    async fn account(&self, client: &Client) -> Result<Account, Obstacle> {
        let builder = Account::builder_with_http(Box::new(client.clone()));
        let contact = self.config.contact.iter();
        let contact: Vec<String> = contact.map(|mail| format!("mailto:{mail}")).collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        if let Some(credentials) = self.store.account().map_err(of_folder)? {
            let account = builder.from_credentials(credentials).await?;
            self.tell_contact(&account, &contact).await?;
            return Ok(account);
        }
        let account = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.config.directory.clone();
        let (account, credentials) = builder.create(&account, directory, None).await?;
        self.store.set_account(&credentials).map_err(of_folder)?;
        self.keep_contact(Some(exos::clock::unix_secs() as UnixSecs), false)?;
        exos_program::info!(
            "exos serve: an account at {}, whose terms of service are agreed to by asking for certificates there",
            self.config.directory
        );
        Ok(account)
    }

    /// Tells the authority whom it may write to, where that is another than it was told. Whatever it says: certificates come without.
    async fn tell_contact(&self, account: &Account, contact: &[&str]) -> Result<(), Obstacle> {
        let told = self.store.contact();
        if told
            .as_ref()
            .is_some_and(|it| it.mail == self.config.contact)
        {
            return Ok(());
        }
        match account.update_contacts(contact).await {
            Ok(()) => self.keep_contact(told.and_then(|it| it.agreed_at), false),
            // The order says so, too, and there another account is made.
            Err(error) if is_about_account(&error) => Ok(()),
            Err(AcmeError::Api(problem)) => {
                exos_program::warn!(
                    "exos serve: {} does not take the contact {}: {}; certificates come nevertheless",
                    self.config.directory,
                    self.config.contact.join(", "),
                    text(&problem)
                );
                // It is not told again with each order.
                self.keep_contact(told.and_then(|it| it.agreed_at), true)
            }
            Err(error) => {
                exos_program::warn!(
                    "exos serve: cannot tell {} the contact, and tries again with the next order: {error}",
                    self.config.directory
                );
                Ok(())
            }
        }
    }

    fn keep_contact(&self, agreed_at: Option<UnixSecs>, is_refused: bool) -> Result<(), Obstacle> {
        let contact = Contact {
            mail: self.config.contact.clone(),
            agreed_at,
            is_refused,
        };
        self.store.set_contact(&contact).map_err(of_folder)
    }

    /// Shows the authority that the name leads here.
    async fn show(&self, order: &mut Order, name: &str, kind: Kind) -> Result<(), Obstacle> {
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
            let add = || {
                self.store
                    .add_challenge(&answer)
                    .map(|()| vec![answer.clone()])
            };
            self.challenges.take_up(add).map_err(of_folder)?;
            match (kind, &self.config.dns_hook) {
                (Kind::Dns, Some(hook)) => {
                    let set = self.turn.aside(|| hook::call(hook, Act::Set, &answer));
                    set.map_err(Obstacle::Hook)?;
                }
                (Kind::Dns, None) => {
                    let what = "dns-01 takes a program that sets records; name it by dns_hook";
                    return Err(Obstacle::Here(what.to_owned()));
                }
                (Kind::Http | Kind::TlsAlpn, _) => tokio::time::sleep(ACME_PUBLISH_TIME).await,
            }
            challenge.set_ready().await?;
        }
        match order.poll_ready(&patience()).await {
            Ok(OrderStatus::Ready) => Ok(()),
            Ok(_) => Err(Obstacle::NotShown(kind, why(order, &wanted).await)),
            Err(AcmeError::Api(problem)) => {
                let more = why(order, &wanted).await;
                Err(Obstacle::NotShown(kind, more.or(Some(problem))))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What an obstacle means, for people and for what is done next.
    fn failed(&self, name: &str, obstacle: Obstacle, client: &Client) -> Failed {
        let directory = &self.config.directory;
        let wait = client.retry_after();
        let (what, failure) = match obstacle {
            Obstacle::Here(what) => (what, Failure::Unreached),
            // Authorities bound the orders that are begun, too.
            Obstacle::Wrong(what) | Obstacle::Hook(what) => (what, Failure::Refused),
            Obstacle::NotShown(kind, problem) => {
                (not_shown(name, kind, problem), Failure::NotFound)
            }
            Obstacle::NotAsked(kind) => {
                let what = format!("{directory} does not ask by {}", kind.name());
                (what, Failure::NotFound)
            }
            Obstacle::Acme(AcmeError::Api(problem))
            | Obstacle::Unfinished(AcmeError::Api(problem)) => {
                let failure = match is(&problem, "rateLimited") {
                    true => Failure::RateLimited,
                    false => Failure::Refused,
                };
                (format!("{directory} refuses: {}", text(&problem)), failure)
            }
            Obstacle::Acme(AcmeError::Timeout(_)) | Obstacle::Unfinished(AcmeError::Timeout(_)) => {
                (
                    format!("{directory} has not decided in time"),
                    Failure::Refused,
                )
            }
            // Soon again would be one more that it counts.
            Obstacle::Unfinished(error) => (
                format!("{directory} was to sign, and no certificate came: {error}"),
                Failure::Refused,
            ),
            Obstacle::Acme(error) => (
                format!(
                    "cannot ask {directory}: {error}; look whether this host reaches it, and whether its certificate is one that is trusted (--acme-ca)"
                ),
                Failure::Unreached,
            ),
        };
        Failed {
            what,
            failure,
            wait,
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

fn of_folder(error: io::Error) -> Obstacle {
    Obstacle::Here(format!("cannot use the folder of certificates: {error}"))
}

fn patience() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(Duration::from_millis(500))
        .backoff(1.5)
        .timeout(ACME_ORDER_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    use crate::acme::problem::tests::problem;
    use crate::config::Config;

    /// An authority counts what it signs, whether that comes here or not.
    #[test]
    fn what_may_have_been_signed_is_not_ordered_again_at_once() {
        let text = "[acme]\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]";
        let config = Config::parse("/x/serve.toml".as_ref(), text).unwrap();
        let config = config.acme.unwrap();
        let turns = Mutex::new(());
        let shop = Shop {
            config: &config,
            store: &config.store(),
            challenges: &Challenges::default(),
            ways: &Arc::default(),
            turn: Turn::of(&turns),
        };
        let client = shop.client();
        let cut = || AcmeError::Str("cut off");
        for (obstacle, wanted) in [
            (Obstacle::Acme(cut()), Failure::Unreached),
            (Obstacle::Unfinished(cut()), Failure::Refused),
            (Obstacle::NotAsked(Kind::Http), Failure::NotFound),
            (
                Obstacle::Hook("exit status: 7".to_owned()),
                Failure::Refused,
            ),
            (
                Obstacle::Unfinished(AcmeError::Api(problem("rateLimited", "often"))),
                Failure::RateLimited,
            ),
        ] {
            let failed = shop.failed("a.test", obstacle, &client);
            assert_eq!(failed.failure, wanted, "{}", failed.what);
        }
    }

    /// A record that could not be taken away is tried again, one that could is not, and none is known of when there is no program any more.
    #[test]
    fn records_are_taken_away_once() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[acme]\nstate = \"state\"\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]";
        let config = Config::parse(&folder.path().join("serve.toml"), text).unwrap();
        let mut config = config.acme.unwrap();
        let store = config.store();
        store.make(&UserArgs::default()).unwrap();
        let turns = Mutex::new(());
        let record = Challenge {
            kind: Kind::Dns,
            name: "a.test".to_owned(),
            token: "token".to_owned(),
            key_authorization: "value".to_owned(),
        };
        for (program, is_left) in [
            (Some("/bin/true"), false),
            (Some("/bin/false"), true),
            (None, false),
        ] {
            store.add_challenge(&record).unwrap();
            config.dns_hook = program.map(Into::into);
            let shop = Shop {
                config: &config,
                store: &store,
                challenges: &Challenges::default(),
                ways: &Arc::default(),
                turn: Turn::of(&turns),
            };
            shop.take_records_away(|name| name != "a.test");
            assert_eq!(store.challenges().unwrap().len(), 1, "another's");
            shop.take_records_away(|_| true);
            store.clear_challenges().unwrap();
            let left = !store.challenges().unwrap().is_empty();
            assert_eq!(left, is_left, "{program:?}");
        }
    }
}
