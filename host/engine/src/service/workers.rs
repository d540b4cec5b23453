//! Workers outside: claims and settlements.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use waybill_api::instant::Instant as WallInstant;
use waybill_api::messages::{LeaseView, MessageService};
use waybill_api::workers::{
    ClaimRequest, ClaimedMessage, FirstDeliveryView, SettleAnswer, SettleItem, SettleRequest, WorkerService,
};
use waybill_core::code::Code;
use waybill_core::ids::{Seq, ShardId, Tenant};
use waybill_core::outbox::owner::{Claim, Claimed};
use waybill_core::port::dedup::{DedupEnd, DedupKey};
use waybill_core::port::missing::Missing;
use waybill_core::port::query::Found;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::{Fault, Receipt};
use waybill_core::port::workers::{EXTERNAL, FlushResult, SettleWish};

use super::Outbox;
use crate::shard::{OutsideAsk, OutsideDone, OwnerQuery, ShardHandle, dedup};

/// A claim that finds nothing looks again after this, and then after twice as long each time.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two looks.
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(160);
/// Messages that nobody asked for lately get this long to be read.
const READ_PAUSE: Duration = Duration::from_millis(50);
/// A claim that finds none of them waits for one at least so long.
const READ_PATIENCE: Duration = Duration::from_secs(1);

#[async_trait]
impl WorkerService for Outbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<ClaimedMessage>, ServiceError> {
        self.require_external()?;
        let claim = Claim {
            worker: Arc::from(request.worker.as_str()),
            time: request.lease,
            messages: request.limit,
            bytes: self.context.live().config.batch_bytes as usize,
            tenants: request.tenants,
            topic: request.topic,
        };
        let mut until = Instant::now() + request.wait;
        if self.expect_workers().await {
            until = until.max(Instant::now() + READ_PATIENCE);
            tokio::time::sleep(READ_PAUSE).await;
        }
        let mut pause = LOOK_PAUSE_MIN;
        loop {
            let claimed = self.claim_once(&claim).await;
            if !claimed.is_empty() {
                return Ok(self.hand_out(claimed, &request.worker).await);
            }
            let now = Instant::now();
            if now >= until || self.draining.load(Ordering::Acquire) {
                return Ok(Vec::new());
            }
            tokio::time::sleep_until(until.min(now + pause)).await;
            pause = (pause * 2).min(LOOK_PAUSE_MAX);
        }
    }

    async fn settle(&self, request: SettleRequest) -> Result<Vec<SettleAnswer>, ServiceError> {
        self.require_external()?;
        let answers = request.items.iter().map(|item| self.settle_item(&request, item));
        Ok(futures::future::join_all(answers).await)
    }

    async fn check_dedup(
        &self,
        tenant: &Tenant,
        target: &str,
        sha256: &str,
    ) -> Result<Option<FirstDeliveryView>, ServiceError> {
        self.require_external()?;
        let key = DedupKey {
            tenant: tenant.clone(),
            transport: EXTERNAL.to_owned(),
            target: target.to_owned(),
            sha256: sha256.to_owned(),
        };
        let found = self.context.stores.dedup.delivered(&key, self.now()).await?;
        if found.is_some() {
            self.context.meter.dedup_hit();
        }
        Ok(found.map(Into::into))
    }
}

impl Outbox {
    fn require_external(&self) -> Result<(), ServiceError> {
        match self.context.live().routing.external {
            Some(_) => Ok(()),
            None => Err(ServiceError::NotFound { what: Missing::ExternalRoute, id: EXTERNAL.to_owned() }),
        }
    }

    /// Tells every shard of this host that a worker asks. True when messages may have to be read first.
    async fn expect_workers(&self) -> bool {
        futures::future::join_all(self.shards.iter().map(ShardHandle::expect_workers)).await.contains(&true)
    }

    /// Asks every shard of this host once, beginning with another one each time.
    async fn claim_once(&self, claim: &Claim) -> Vec<(u64, Claimed)> {
        let count = self.shards.len().max(1);
        let first = usize::try_from(self.spread.fetch_add(1, Ordering::Relaxed)).unwrap_or(0) % count;
        let (mut all, mut bytes) = (Vec::new(), claim.bytes);
        for shard in self.shards.iter().cycle().skip(first).take(self.shards.len()) {
            let messages = claim.messages.saturating_sub(all.len());
            if messages == 0 || (bytes == 0 && !all.is_empty()) {
                break;
            }
            let ask = Claim { messages, bytes, ..claim.clone() };
            if let Some((token, claimed)) = shard.claim(ask, rand::random()).await {
                let given: usize = claimed.iter().map(|one| one.row.message.payload.len().max(1)).sum();
                bytes = bytes.saturating_sub(given);
                all.extend(claimed.into_iter().map(|claimed| (token, claimed)));
            }
        }
        all
    }

    async fn hand_out(&self, claimed: Vec<(u64, Claimed)>, worker: &str) -> Vec<ClaimedMessage> {
        let mut out = Vec::with_capacity(claimed.len());
        for (token, Claimed { place, nonce, until, attempt, claims, row }) in claimed {
            let token = Token { shard: place.shard, seq: place.seq(), owner: token, nonce };
            let (message, is_fresh) = (Arc::clone(&row.message), row.attempts == 0);
            let mut view = self.view(&Found::Parked(Arc::new(row)));
            view.lease = Some(LeaseView { worker: worker.to_owned(), until: until.into() });
            if is_fresh {
                view.not_before = None;
            }
            let target = message.topic.subject().to_owned();
            let id = view.id.clone();
            let wish = match self.with_payload(view, &message).await {
                Ok(message) if message.bytes.is_some() => {
                    let (token, lease_until) = (token.to_string(), until.into());
                    let retry_count = attempt.saturating_sub(1);
                    out.push(ClaimedMessage { message, token, lease_until, attempt, retry_count, claims, target });
                    continue;
                }
                Ok(_) => SettleWish::Dead {
                    fault: Fault::new(Code::STORAGE_CORRUPT, "its payload isn't in the store any more"),
                },
                Err(error) => {
                    tracing::warn!(code = error.code().as_str(), %error, id, "can't read the payload of a claimed message");
                    SettleWish::Release { not_before: None }
                }
            };
            // Nobody waits for what becomes of it.
            let _later = self.settle_one(&token, &id, None, wish).await;
        }
        out
    }

    async fn settle_item(&self, request: &SettleRequest, item: &SettleItem) -> SettleAnswer {
        let done = match Token::parse(&item.token) {
            None => Ok(OutsideDone { result: FlushResult::Conflict, at: None }),
            Some(token) => {
                let tenants = settled_tenants(request, item);
                self.note_delivery(&token, tenants.as_deref(), item).await;
                self.settle_one(&token, &item.id, tenants, item.wish.clone()).await
            }
        };
        let answer = SettleAnswer {
            id: item.id.clone(),
            applied: true,
            result: FlushResult::Conflict,
            code: None,
            reason: None,
            state: None,
            next_attempt_at: None,
            lease_until: None,
        };
        match done {
            Ok(OutsideDone { result: FlushResult::Conflict, .. }) => self.conflict(request, item, answer).await,
            Ok(OutsideDone { result: FlushResult::Renewed, at }) => {
                SettleAnswer { result: FlushResult::Renewed, lease_until: at.map(WallInstant), ..answer }
            }
            Ok(OutsideDone { result, at }) => SettleAnswer { result, next_attempt_at: at.map(WallInstant), ..answer },
            Err(error) => SettleAnswer {
                applied: false,
                result: match error {
                    ServiceError::OutcomeUnknown(_) | ServiceError::Unavailable(_) => FlushResult::DbTimeout,
                    _ => FlushResult::DbError,
                },
                code: Some(error.code().into()),
                reason: Some(error.to_string()),
                ..answer
            },
        }
    }

    /// Notes a worker's delivery where its route wants payload dedup, before the settlement is told.
    async fn note_delivery(&self, token: &Token, tenants: Option<&[Tenant]>, item: &SettleItem) {
        let SettleWish::Ack { receipt } = &item.wish else { return };
        let is_wanted = self.context.live().find(EXTERNAL).is_some_and(|(_, entry)| entry.dedup);
        let Some(shard) = self.shards.get(usize::from(token.shard.0)).filter(|_| is_wanted) else { return };
        let Token { seq, owner: lender, nonce, .. } = *token;
        let message = shard.query(|reply| OwnerQuery::Leased { seq, lender, nonce, reply });
        let Some(message) = message.await.flatten().filter(|message| message.id.as_str() == item.id) else { return };
        if tenants.is_some_and(|allowed| !allowed.contains(&message.tenant)) {
            return;
        }
        if let Some(ask) = dedup::ask_of(&self.context.live(), &message) {
            let receipt = Receipt { broker_ref: receipt.clone(), ..Receipt::default() };
            dedup::conclude(&self.context, &[DedupEnd { ask, receipt: Some(receipt) }]).await;
        }
    }

    async fn settle_one(
        &self,
        token: &Token,
        id: &str,
        tenants: Option<Vec<Tenant>>,
        wish: SettleWish,
    ) -> Result<OutsideDone, ServiceError> {
        let Some(shard) = self.shards.get(usize::from(token.shard.0)) else {
            return Ok(OutsideDone { result: FlushResult::Conflict, at: None });
        };
        let (reply, answer) = tokio::sync::oneshot::channel();
        shard.settle_outside(OutsideAsk {
            seq: token.seq,
            owner: token.owner,
            nonce: token.nonce,
            id: id.to_owned(),
            tenants,
            wish,
            decision: None,
            reply,
        })?;
        answer.await.unwrap_or_else(|_| {
            let gone = "the shard's owner ended before it could say".to_owned();
            Err(ServiceError::OutcomeUnknown(StoreError::Unavailable(gone)))
        })
    }

    /// The token is worth nothing: nothing changed, and everybody can see that somebody tried.
    async fn conflict(&self, request: &SettleRequest, item: &SettleItem, answer: SettleAnswer) -> SettleAnswer {
        let state = match self.message(&item.tenant, &item.id).await {
            Ok(view) => Some(view.state),
            Err(error) => {
                tracing::debug!(code = error.code().as_str(), %error, "the state of a message in conflict isn't known");
                None
            }
        };
        self.context.meter.lease_lost();
        let detail = serde_json::json!({
            "worker": request.worker,
            "wanted": item.wish.word(),
            "state": state,
        });
        let tenant = Some(item.tenant.as_str());
        self.audit_event(self.event("outbox_flush_conflict", &request.actor, tenant, &item.id, detail)).await;
        let reason = "the token isn't the message's current one: somebody else has it, it is settled, or the shard changed \
                      hands";
        SettleAnswer {
            applied: false,
            result: FlushResult::Conflict,
            code: Some(Code::TX_LEASE_LOST.into()),
            reason: Some(reason.to_owned()),
            state,
            ..answer
        }
    }
}

/// Whose message an item may settle: the tenant's that it names. `default` also stands for none named, so there it is
/// what the credential allows.
fn settled_tenants(request: &SettleRequest, item: &SettleItem) -> Option<Vec<Tenant>> {
    if item.tenant == Tenant::unnamed() {
        return request.tenants.clone();
    }
    let is_allowed = request.tenants.as_ref().is_none_or(|allowed| allowed.contains(&item.tenant));
    Some(is_allowed.then(|| item.tenant.clone()).into_iter().collect())
}

/// A lease as workers name it: where the message lies, which ownership lent it, and a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token {
    shard: ShardId,
    seq: Seq,
    owner: u64,
    nonce: u64,
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}{:016x}{:016x}{:016x}", self.shard.0, self.seq.0, self.owner, self.nonce)
    }
}

impl Token {
    fn parse(text: &str) -> Option<Self> {
        if text.len() != 52 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let number = |from: usize, to: usize| u64::from_str_radix(text.get(from..to)?, 16).ok();
        Some(Self {
            shard: ShardId(u16::from_str_radix(text.get(..4)?, 16).ok()?),
            seq: Seq(number(4, 20)?),
            owner: number(20, 36)?,
            nonce: number(36, 52)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_nothing_else_is_one() {
        let token = Token { shard: ShardId(3), seq: Seq(7), owner: 5, nonce: u64::MAX };
        assert_eq!(Token::parse(&token.to_string()), Some(token));
        let text = token.to_string();
        for wrong in ["", "x", &text[1..], &format!("{text}0"), &text.replace('3', "+"), &text.replace('3', "ü")] {
            assert_eq!(Token::parse(wrong), None, "{wrong}");
        }
    }
}
