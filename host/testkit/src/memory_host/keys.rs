//! Idempotency keys in every state.

use waybill_api::idempotency::BeginRequest;
use waybill_core::idempotency::{Answer, Begun, EntryKey};
use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash};
use waybill_core::port::idempotency::Hold;

use super::{InMemoryHost, tenant};

impl InMemoryHost {
    /// Begins a key for the request with the hash `9f86d081`; the token of who has it now.
    pub async fn begun_key(&self, of: &str, key: &str) -> HoldToken {
        let request =
            BeginRequest { of: entry(of, key), hash: RequestHash::new("9f86d081").unwrap(), ttl: None, lease: None };
        match self.keys.begin(request).await.unwrap() {
            Begun::New(grant) => grant.token,
            other => panic!("key {key} of {of} isn't free: {other:?}"),
        }
    }

    /// Begins a key and finishes it with this JSON.
    pub async fn finished_key(&self, of: &str, key: &str, result: &str) {
        let hold = self.hold(of, key).await;
        self.keys.finish(hold, Answer::of_json(result.to_owned())).await.unwrap();
    }

    /// Begins a key and fails it for good.
    pub async fn failed_key(&self, of: &str, key: &str, error: &str) {
        let hold = self.hold(of, key).await;
        self.keys.fail(hold, error).await.unwrap();
    }

    async fn hold(&self, of: &str, key: &str) -> Hold {
        let token = self.begun_key(of, key).await;
        Hold { of: entry(of, key), token }
    }
}

fn entry(of: &str, key: &str) -> EntryKey {
    EntryKey { tenant: tenant(of), key: IdempotencyKey::new(key).unwrap() }
}
