//! Tickets: a browser's EventSource can't send a token, so who has one gets a ticket with it and puts that into the address.
//!
//! A ticket opens one subscription, once, within a minute, with the rights of who asked for it. Addresses end up in logs of proxies: by
//! then it is used, or its time is over. They are in memory only, so a ticket is good at the host that gave it.

use std::collections::HashMap;
use std::sync::Arc;

use http::Uri;
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use waybill_core::ids::Tenant;

use crate::auth::{Principal, Tenants};
use crate::limits::{TICKET_TIME, TICKETS_MAX};
use crate::places::{Full, Place, Places, Sharer};
use crate::secret::secret;

/// Tickets that were given and not used.
pub(crate) struct Tickets {
    /// By their hash, so that what is compared with what a stranger sends tells nothing.
    given: Mutex<HashMap<[u8; 32], Given>>,
    places: Places,
}

struct Given {
    principal: Arc<Principal>,
    selector: String,
    until: Instant,
    _place: Place,
}

/// What a subscription's address says that matters here.
#[derive(Deserialize)]
struct Shown {
    ticket: Option<String>,
    selector: Option<String>,
}

impl Tickets {
    pub(crate) fn new() -> Self {
        Self { given: Mutex::default(), places: Places::new(TICKETS_MAX) }
    }

    /// A ticket for a subscription of a tenant with this selector.
    pub(crate) fn give(
        &self,
        principal: &Principal,
        tenant: &Tenant,
        selector: &str,
        sharers: &[Sharer],
    ) -> Result<String, Full> {
        let now = Instant::now();
        let mut given = self.given.lock();
        given.retain(|_, ticket| ticket.until > now);
        let place = self.places.take(sharers)?;
        let text = secret();
        // With it nothing is reached but what it is for.
        let principal = Principal { tenants: Tenants::Only(vec![tenant.clone()]), ..principal.clone() };
        let ticket = Given {
            principal: Arc::new(principal),
            selector: selector.to_owned(),
            until: now + TICKET_TIME,
            _place: place,
        };
        given.insert(hash(&text), ticket);
        Ok(text)
    }

    /// Who has the ticket that an address shows; none = it shows none that is good for it. It is used up either way.
    pub(crate) fn used(&self, uri: &Uri) -> Option<Arc<Principal>> {
        let shown: Shown = axum::extract::Query::try_from_uri(uri).ok()?.0;
        let ticket = self.given.lock().remove(&hash(&shown.ticket?))?;
        let is_good = ticket.until > Instant::now() && shown.selector.as_deref() == Some(ticket.selector.as_str());
        is_good.then_some(ticket.principal)
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant() -> Tenant {
        Tenant::new("acme").unwrap()
    }

    fn given(tickets: &Tickets) -> String {
        tickets.give(&Principal::local(), &tenant(), "prefix:a", &[]).ok().unwrap()
    }

    fn used(tickets: &Tickets, ticket: &str, selector: &str) -> Option<Arc<Principal>> {
        tickets.used(&format!("/v1/subscribe?selector={selector}&ticket={ticket}").parse().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_opens_one_subscription_once_and_within_its_time() {
        let tickets = Tickets::new();
        let ticket = given(&tickets);
        let principal = used(&tickets, &ticket, "prefix:a").unwrap();
        assert_eq!(principal.tenants, Tenants::Only(vec![tenant()]));
        assert!(used(&tickets, &ticket, "prefix:a").is_none(), "it was used");
        let other = given(&tickets);
        assert!(used(&tickets, &other, "prefix:b").is_none(), "it is for another selector");
        assert!(used(&tickets, &other, "prefix:a").is_none(), "a wrong use uses it up");
        let late = given(&tickets);
        tokio::time::advance(TICKET_TIME).await;
        assert!(used(&tickets, &late, "prefix:a").is_none(), "its time is over");
        assert!(used(&tickets, "", "prefix:a").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn tickets_are_bounded_and_those_that_are_over_give_their_places_back() {
        let tickets = Tickets::new();
        for _ in 0..TICKETS_MAX {
            given(&tickets);
        }
        assert!(tickets.give(&Principal::local(), &tenant(), "prefix:a", &[]).is_err());
        tokio::time::advance(TICKET_TIME).await;
        let next = given(&tickets);
        assert!(used(&tickets, &next, "prefix:a").is_some());
    }
}
