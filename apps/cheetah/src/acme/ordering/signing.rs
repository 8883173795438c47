//! Has an authority sign what an order was made for (RFC 8555 §7.4), and counts it.
//!
//! The authority counts what it signs, whether its answer comes or not: so it is counted here before it is asked for. Where the request fails, the
//! order tells whether the authority has begun. One that the authority has not answered may still be under way to it: an order that is as it was
//! tells nothing until there has been time for that. Only where the order cannot be read stays counted what may not have been signed.

use std::time::{Duration, Instant};

use instant_acme::{Error as AcmeError, Order, OrderStatus, RetryPolicy};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use zeroize::Zeroizing;

use crate::acme::obstacle::Obstacle;
use crate::acme::schedule::now;
use crate::acme::store::Store;

/// How often an authority is asked again that has not answered, and for how long.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) each: Duration,
    pub(super) all: Duration,
}

impl Patience {
    /// For what the authority takes some time for.
    pub(super) fn policy(self) -> RetryPolicy {
        RetryPolicy::new()
            .initial_delay(Duration::from_millis(500))
            .backoff(1.5)
            .timeout(self.all)
    }
}

/// Has the authority sign a certificate of an order that is ready: a key, and its chain.
pub(super) async fn have_signed(
    store: &Store,
    order: &mut Order,
    name: &str,
    patience: Patience,
) -> Result<(Zeroizing<String>, String), Obstacle> {
    let (key, request) = request(name)?;
    let before = store.signed(name);
    let keep = |signed| store.set_signed(name, signed);
    keep(before.spend(now())).map_err(Obstacle::of_folder)?;
    let chain = chain(order, &request, patience).await;
    let chain = chain.map_err(|(error, is_nothing)| {
        if is_nothing {
            // Where that is not kept, one more is counted than is.
            let _ = keep(before);
        }
        Obstacle::Unfinished(error)
    });
    Ok((key, chain?))
}

/// The chain that is signed by this request; or why it has not come, and whether the order tells that nothing was signed.
async fn chain(
    order: &mut Order,
    request: &[u8],
    patience: Patience,
) -> Result<String, (AcmeError, bool)> {
    if let Err(error) = order.finalize_csr(request).await {
        let is_answered = matches!(error, AcmeError::Api(_));
        match status(order, is_answered, patience).await {
            Some(OrderStatus::Processing | OrderStatus::Valid) => {}
            status => return Err((error, status.is_some())),
        }
    }
    let chain = wait_for_chain(order, patience).await;
    chain.map_err(|error| (error, order.state().status == OrderStatus::Invalid))
}

/// A key for a name (PEM), and the request that it be certified (DER).
fn request(name: &str) -> Result<(Zeroizing<String>, Vec<u8>), Obstacle> {
    let make = || {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        let key = KeyPair::generate()?;
        let request = params.serialize_request(&key)?;
        Ok((Zeroizing::new(key.serialize_pem()), request.der().to_vec()))
    };
    let fail = |e: rcgen::Error| Obstacle::Here(format!("cannot make a key for {name}: {e}"));
    make().map_err(fail)
}

/// What has become of an order, as soon as the authority tells. While the request to sign may be under way, an order that is ready tells nothing.
async fn status(order: &mut Order, is_answered: bool, patience: Patience) -> Option<OrderStatus> {
    let until = Instant::now() + patience.all;
    loop {
        let told = order.refresh().await.ok().map(|state| state.status);
        let is_told = told.is_some_and(|status| is_answered || status != OrderStatus::Ready);
        if is_told || Instant::now() >= until {
            return told;
        }
        tokio::time::sleep(patience.each).await;
    }
}

/// The chain of an order that is being signed, also where the authority fails to answer once.
async fn wait_for_chain(order: &mut Order, patience: Patience) -> Result<String, AcmeError> {
    let until = Instant::now() + patience.all;
    loop {
        let chain = order.poll_certificate(&patience.policy()).await;
        let is_over = order.state().status == OrderStatus::Invalid || Instant::now() >= until;
        if chain.is_ok() || is_over {
            return chain;
        }
        tokio::time::sleep(patience.each).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;
    use exos_program::UserArgs;
    use http::{Request, Response};
    use instant_acme::{
        Account, BodyWrapper, BytesResponse, HttpClient, Identifier, NewAccount, NewOrder,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::acme::budget::Signed;

    /// An answer, or none.
    type Answer = Option<(u16, String)>;

    /// An authority that answers what is asked of an order after another as it is told to, and of anything else as usual.
    #[derive(Clone, Default)]
    struct Played {
        answers: Arc<Mutex<VecDeque<(&'static str, Answer)>>>,
        /// What is kept when it is asked to sign.
        counted: Arc<Mutex<Option<Signed>>>,
        store: Option<Store>,
    }

    impl Played {
        fn answer(&self, path: &str) -> Answer {
            let text = |value: Value| Some((200, value.to_string()));
            match path {
                "/dir" => text(json!({
                    "newNonce": "https://ca.test/nonce", "newAccount": "https://ca.test/account",
                    "newOrder": "https://ca.test/orders",
                })),
                "/nonce" => Some((200, String::new())),
                "/account" => text(json!({"status": "valid"})),
                "/orders" => order("ready"),
                path => {
                    if path == "/finalize" {
                        let store = self.store.as_ref().unwrap();
                        *self.counted.lock().unwrap() = Some(store.signed("a.test"));
                    }
                    let next = self.answers.lock().unwrap().pop_front();
                    let (asked, answer) = next.unwrap_or_else(|| panic!("{path} is asked, too"));
                    assert_eq!(path, asked);
                    answer
                }
            }
        }
    }

    impl HttpClient for Played {
        fn request(
            &self,
            request: Request<BodyWrapper<Bytes>>,
        ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, AcmeError>> + Send>> {
            let answer = self.answer(request.uri().path());
            Box::pin(async move {
                let (status, body) = answer.ok_or(AcmeError::Str("cut off"))?;
                let response = Response::builder()
                    .status(status)
                    .header("replay-nonce", "nonce")
                    .header("location", "https://ca.test/order");
                let (parts, ()) = response.body(()).unwrap().into_parts();
                let body = Box::new(Bytes::from(body));
                Ok(BytesResponse { parts, body })
            })
        }
    }

    fn order(status: &str) -> Answer {
        let order = json!({
            "status": status, "authorizations": [],
            "identifiers": [{"type": "dns", "value": "a.test"}],
            "finalize": "https://ca.test/finalize", "certificate": "https://ca.test/certificate",
        });
        Some((200, order.to_string()))
    }

    fn busy() -> Answer {
        let problem = json!({"type": "urn:ietf:params:acme:error:serverInternal", "status": 503});
        Some((503, problem.to_string()))
    }

    /// What counts is what may have been signed: not what the order shows to be as it was, whatever stood in the way. What was signed after
    /// all comes, with the key that was asked for.
    #[test]
    fn what_counts_is_what_the_order_says() {
        let ready = ("/order", order("ready"));
        let come = ("/certificate", Some((200, "chain".to_owned())));
        let html = Some((502, "<html>Bad gateway</html>".to_owned()));
        let no_status = json!({"type": "urn:ietf:params:acme:error:unauthorized"}).to_string();
        let refused = Some((403, no_status));
        for (what, answers, has_come, is_counted) in [
            ("busy", vec![busy(), ready.1.clone()], false, false),
            ("a gateway", vec![html, ready.1.clone()], false, false),
            ("refused", vec![refused, ready.1.clone()], false, false),
            ("cut off", vec![None, ready.1.clone()], false, false),
            (
                "busy once more",
                vec![busy(), busy(), ready.1.clone()],
                false,
                false,
            ),
            (
                "under way",
                vec![
                    None,
                    ready.1.clone(),
                    ready.1.clone(),
                    order("processing"),
                    order("valid"),
                ],
                true,
                true,
            ),
            ("invalid", vec![busy(), order("invalid")], false, false),
            (
                "invalid later",
                vec![order("processing"), order("invalid")],
                false,
                false,
            ),
            ("nothing", vec![None; 9], false, true),
            (
                "signed after all",
                vec![None, order("processing"), order("valid")],
                true,
                true,
            ),
            (
                "signed",
                vec![order("processing"), order("valid")],
                true,
                true,
            ),
            (
                "signed, busy",
                vec![order("processing"), busy(), order("valid")],
                true,
                true,
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let store = Store::of(folder.path(), "https://ca.test/dir");
            store.make(&UserArgs::default()).unwrap();
            let mut answers = answers.into_iter();
            let finalized = answers.next().map(|it| ("/finalize", it));
            let rest = answers.map(|it| ("/order", it));
            let all = finalized.into_iter().chain(rest).chain([come.clone()]);
            let played = Played {
                answers: Arc::new(Mutex::new(all.collect())),
                store: Some(store.clone()),
                ..Played::default()
            };
            let patience = Patience {
                each: Duration::from_millis(1),
                all: match what {
                    "nothing" | "cut off" | "a gateway" => Duration::ZERO,
                    _ => Duration::from_secs(600),
                },
            };
            let signed = async {
                let client = Box::new(played.clone());
                let account = NewAccount {
                    contact: &[],
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                let directory = "https://ca.test/dir".to_owned();
                let builder = Account::builder_with_http(client);
                let (account, _) = builder.create(&account, directory, None).await.unwrap();
                let names = [Identifier::Dns("a.test".to_owned())];
                let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
                have_signed(&store, &mut order, "a.test", patience).await
            };
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_time().build().unwrap();
            let signed = runtime.block_on(signed);
            assert_eq!(signed.is_ok(), has_come, "{what}: {signed:?}");
            if let Ok((key, chain)) = signed {
                assert!(key.contains("PRIVATE KEY") && chain == "chain", "{what}");
            }
            // Whatever comes of it: it is kept before it is asked for, for a program that ends then.
            let when_asked = played.counted.lock().unwrap().unwrap();
            assert_ne!(when_asked, Signed::default(), "{what}");
            let now_counted = store.signed("a.test") != Signed::default();
            assert_eq!(now_counted, is_counted, "{what}");
        }
    }
}
