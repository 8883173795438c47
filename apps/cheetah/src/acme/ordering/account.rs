//! The account with an authority (RFC 8555 §7.3), and what that was told of its owner.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use exos_tls::certificate::UnixSecs;
use http::{Method, Request};
use instant_acme::{
    Account, BodyWrapper, BytesResponse, Error as AcmeError, HttpClient, NewAccount,
};

use super::order::Authority;
use crate::acme::budget::Asked;
use crate::acme::client::Client;
use crate::acme::obstacle::Obstacle;
use crate::acme::problem::{is_about_account, text};
use crate::acme::schedule::now;
use crate::acme::store::{Contact, Store};

/// Counts an account before it is asked for: its answer may be lost. An authority that is not reached for its directory was asked for none.
struct Counting {
    client: Client,
    store: Store,
    is_counted: AtomicBool,
}

impl HttpClient for Counting {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, AcmeError>> + Send>> {
        // The account is the first that is posted; orders are, later.
        let is_account =
            *request.method() == Method::POST && !self.is_counted.swap(true, Ordering::Relaxed);
        if is_account && let Err(error) = self.store.spend(Asked::Account, now()) {
            return Box::pin(std::future::ready(Err(AcmeError::Other(Box::new(error)))));
        }
        self.client.request(request)
    }
}

impl Authority<'_> {
    /// The account that there is, or another one.
    pub(super) async fn account(&self, client: &Client) -> Result<Account, Obstacle> {
        let builder = Account::builder_with_http(Box::new(client.clone()));
        let contact = self.config.contact.iter();
        let contact: Vec<String> = contact.map(|mail| format!("mailto:{mail}")).collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        if let Some(credentials) = self.store.account().map_err(Obstacle::of_folder)? {
            let account = builder.from_credentials(credentials).await?;
            self.tell_contact(&account, &contact).await?;
            return Ok(account);
        }
        if self.store.budget().wait(Asked::Account, now()) > 0 {
            return Err(Obstacle::Accounts);
        }
        let account = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let directory = self.config.directory.clone();
        let counting = Counting {
            client: client.clone(),
            store: self.store.clone(),
            is_counted: AtomicBool::new(false),
        };
        let builder = Account::builder_with_http(Box::new(counting));
        let (account, credentials) = builder.create(&account, directory, None).await?;
        let kept = self.store.set_account(&credentials);
        kept.map_err(Obstacle::of_folder)?;
        self.keep_contact(Some(now()), false)?;
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
        self.store
            .set_contact(&contact)
            .map_err(Obstacle::of_folder)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use exos_tls::client::Trust;

    use super::*;
    use crate::acme::state::Acme;
    use crate::acme::wanted::Wanted;
    use crate::config::Config;
    use crate::limits::ACME_ACCOUNTS_MAX;

    /// An account counts whose answer is lost, once; an authority that is not reached is tried as often as it takes.
    #[test]
    fn accounts_that_are_asked_for_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let url = "https://127.0.0.1:1/dir";
        let text = format!(
            "[acme]\nstate = \"state\"\ndirectory = \"{url}\"\n[[site]]\nroot = \"a\"\nnames = [\"a.test\"]"
        );
        let config = Config::parse(&folder.path().join("serve.toml"), &text).unwrap();
        let acme = Acme::of(&config, false).unwrap().unwrap();
        let wanted = Wanted::of(&config).unwrap();
        let authority = Authority::of(&acme, &wanted);
        let client = Client::new(Trust::Anybody, Arc::default());
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let account = || runtime.block_on(authority.account(&client));
        for _ in 0..2 * ACME_ACCOUNTS_MAX {
            assert!(matches!(account(), Err(Obstacle::Acme(_))));
        }
        for count in 0..ACME_ACCOUNTS_MAX {
            assert_eq!(
                wanted.store.budget().wait(Asked::Account, now()),
                0,
                "{count}"
            );
            let counting = Counting {
                client: client.clone(),
                store: wanted.store.clone(),
                is_counted: AtomicBool::new(false),
            };
            for method in [Method::HEAD, Method::POST, Method::POST] {
                let request = Request::builder().method(method).uri(url);
                let request = request.body(BodyWrapper::from(Vec::new())).unwrap();
                assert!(runtime.block_on(counting.request(request)).is_err());
            }
        }
        assert!(matches!(account(), Err(Obstacle::Accounts)));
    }
}
