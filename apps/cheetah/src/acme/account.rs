//! The account with an authority (RFC 8555 §7.3), and what that was told of its owner.

use exos_tls::certificate::UnixSecs;
use instant_acme::{Account, Error as AcmeError, NewAccount};

use super::budget::Asked;
use super::client::Client;
use super::known::now;
use super::obstacle::Obstacle;
use super::order::Authority;
use super::problem::{is_about_account, text};
use super::store::Contact;

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
        let (account, credentials) = builder.create(&account, directory, None).await?;
        self.spend(Asked::Account)?;
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
