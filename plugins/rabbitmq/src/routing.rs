//! Where a message goes: exchange and routing key by the configuration, with rules for some destinations.

use serde::Deserialize;
use waybill_plugin::transport::{Fault, Message};
use waybill_rabbitmq_wire::name;
use waybill_rabbitmq_wire::wire::SHORT_BYTES_MAX;

/// Attribute of a message: the exchange that it goes to.
const EXCHANGE: &str = "exchange";

/// What becomes of a message that no queue takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Unroutable {
    /// Its destination is blocked until somebody binds a queue.
    Block,
    /// It is a dead letter.
    DeadLetter,
    /// It counts as delivered: nobody wants it.
    Accept,
}

/// A rule as an operator writes it: what is absent is as without the rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Destinations: tokens between dots, `*` is one of them, `**` is the rest.
    #[serde(rename = "match")]
    pub(crate) pattern: String,
    exchange: Option<String>,
    routing_key: Option<String>,
    unroutable: Option<Unroutable>,
}

/// Where one message goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: String,
    pub(crate) unroutable: Unroutable,
}

/// The rules, read once.
#[derive(Debug)]
pub(crate) struct Routing {
    /// The last one takes everything.
    routes: Vec<Route>,
}

#[derive(Debug)]
struct Route {
    pattern: Vec<String>,
    exchange: String,
    routing_key: Vec<Part>,
    unroutable: Unroutable,
}

/// A part of a routing key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Destination,
    Topic,
    Key,
    Tenant,
    EventType,
}

impl Routing {
    /// Reads the rules and what holds without them.
    ///
    /// # Errors
    /// The place in the configuration, and what is wrong there.
    pub(crate) fn new(
        rules: &[Rule],
        exchange: &str,
        routing_key: &str,
        unroutable: Unroutable,
    ) -> Result<Self, (String, &'static str)> {
        let at = |place: &str| {
            let place = place.to_owned();
            move |why| (place, why)
        };
        let mut routes = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            routes.push(Route {
                pattern: pattern(&rule.pattern).map_err(at(&format!("rules[{number}].match")))?,
                exchange: match &rule.exchange {
                    Some(exchange) => name(exchange).map_err(at(&format!("rules[{number}].exchange")))?,
                    None => exchange.to_owned(),
                },
                routing_key: parts(rule.routing_key.as_deref().unwrap_or(routing_key))
                    .map_err(at(&format!("rules[{number}].routing_key")))?,
                unroutable: rule.unroutable.unwrap_or(unroutable),
            });
        }
        routes.push(Route {
            pattern: vec!["**".to_owned()],
            exchange: name(exchange).map_err(at("exchange"))?,
            routing_key: parts(routing_key).map_err(at("routing_key"))?,
            unroutable,
        });
        Ok(Self { routes })
    }

    /// Where this message goes. An exchange that it names itself counts instead of those here.
    ///
    /// # Errors
    /// It lacks what its routing key is made of, or that is too long, or its exchange can't be one.
    pub(crate) fn target<'a>(&'a self, message: &'a Message) -> Result<Target<'a>, Fault> {
        let wrong = |reason: String| Fault::new("RABBITMQ.ROUTING_KEY", reason);
        let exchange = message.attribute(EXCHANGE);
        if let Some(Err(why)) = exchange.map(name) {
            return Err(wrong(format!("the exchange that it names {why}")));
        }
        let route = self.routes.iter().find(|route| matches(&route.pattern, &message.destination));
        let route = route.ok_or_else(|| wrong("no rule takes the destination".to_owned()))?;
        let mut routing_key = String::with_capacity(message.destination.len());
        for part in &route.routing_key {
            routing_key.push_str(match part {
                Part::Text(text) => text,
                Part::Destination => &message.destination,
                Part::Topic => &message.topic,
                Part::Tenant => &message.tenant,
                Part::Key => message
                    .key
                    .as_deref()
                    .ok_or_else(|| wrong("`routing_key` wants the message's key, and it has none".to_owned()))?,
                Part::EventType => message
                    .event_type
                    .as_deref()
                    .ok_or_else(|| wrong("`routing_key` wants the message's event type, and it has none".to_owned()))?,
            });
        }
        if routing_key.len() > SHORT_BYTES_MAX {
            let reason = format!("the routing key has {} bytes, AMQP takes {SHORT_BYTES_MAX}", routing_key.len());
            return Err(wrong(reason));
        }
        let exchange = exchange.unwrap_or(&route.exchange);
        Ok(Target { exchange, routing_key, unroutable: route.unroutable })
    }

    /// The exchange that everything goes to which no rule sends elsewhere.
    pub(crate) fn exchange(&self) -> &str {
        self.routes.last().map_or("", |route| route.exchange.as_str())
    }
}

fn pattern(text: &str) -> Result<Vec<String>, &'static str> {
    let tokens: Vec<String> = text.split('.').map(str::to_owned).collect();
    if tokens.iter().any(String::is_empty) {
        return Err("has an empty token");
    }
    if tokens.iter().rev().skip(1).any(|token| token == "**") {
        return Err("has something behind `**`, which is the rest");
    }
    Ok(tokens)
}

fn matches(pattern: &[String], destination: &str) -> bool {
    let mut rest = destination.split('.');
    for token in pattern {
        match (token.as_str(), rest.next()) {
            ("**", _) => return true,
            (_, None) => return false,
            ("*", Some(_)) => {}
            (token, Some(found)) if token == found => {}
            _ => return false,
        }
    }
    rest.next().is_none()
}

fn parts(template: &str) -> Result<Vec<Part>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((text, behind)) = rest.split_once('{') {
        let (name, behind) = behind.split_once('}').ok_or("has a brace too few")?;
        if !text.is_empty() {
            parts.push(Part::Text(text.to_owned()));
        }
        parts.push(match name {
            "destination" => Part::Destination,
            "topic" => Part::Topic,
            "key" => Part::Key,
            "tenant" => Part::Tenant,
            "event-type" => Part::EventType,
            _ => return Err("knows {destination}, {topic}, {key}, {tenant} and {event-type}"),
        });
        rest = behind;
    }
    if rest.contains('}') {
        return Err("has a brace too many");
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::encode::tests::message;

    fn rule(json: &str) -> Rule {
        waybill_plugin::config::parse(json).unwrap()
    }

    fn routing(rules: &[Rule], key: &str) -> Result<Routing, (String, &'static str)> {
        Routing::new(rules, "amq.topic", key, Unroutable::Block)
    }

    #[test]
    fn the_first_rule_that_takes_a_destination_wins_and_leaves_the_rest_as_it_is() {
        let rules = [
            rule(r#"{"match":"orders.*","exchange":"orders","unroutable":"dead-letter"}"#),
            rule(r#"{"match":"orders.**","routing_key":"deep.{tenant}"}"#),
            rule(r#"{"match":"jobs","exchange":"","routing_key":"queue-of-jobs","unroutable":"accept"}"#),
        ];
        let routing = routing(&rules, "{destination}").unwrap();
        for (destination, exchange, key, unroutable) in [
            ("orders.created", "orders", "orders.created", Unroutable::DeadLetter),
            ("orders.eu.created", "amq.topic", "deep.acme", Unroutable::Block),
            ("orders", "amq.topic", "deep.acme", Unroutable::Block),
            ("jobs", "", "queue-of-jobs", Unroutable::Accept),
            ("invoices", "amq.topic", "invoices", Unroutable::Block),
        ] {
            let message = Message { destination: destination.to_owned(), ..message() };
            let expected = Target { exchange, routing_key: key.to_owned(), unroutable };
            assert_eq!(routing.target(&message).unwrap(), expected, "{destination}");
        }
    }

    #[test]
    fn a_message_may_name_its_exchange() {
        let rules = [rule(r#"{"match":"orders.*","exchange":"orders","unroutable":"accept"}"#)];
        let routing = routing(&rules, "{destination}").unwrap();
        let named = |exchange: &str| Message { attributes: vec![("exchange".into(), exchange.into())], ..message() };
        for exchange in ["sms.events.v1", ""] {
            let message = named(exchange);
            let target = routing.target(&message).unwrap();
            assert_eq!((target.exchange, target.unroutable), (exchange, Unroutable::Accept));
        }
        for bad in ["a\nb", &"x".repeat(256)] {
            assert_eq!(routing.target(&named(bad)).unwrap_err().code, "RABBITMQ.ROUTING_KEY", "{bad}");
        }
    }

    #[test]
    fn a_routing_key_is_made_of_the_message() {
        let made = |key: &str| routing(&[], key).unwrap().target(&message()).unwrap().routing_key;
        assert_eq!(made("a.{tenant}.{key}.z"), "a.acme.order-1.z");
        assert_eq!(made("{topic}|{event-type}"), "bus:orders.created|order.created");
        assert_eq!(made(""), "");
        let without = Message { key: None, ..message() };
        assert_eq!(routing(&[], "{key}").unwrap().target(&without).unwrap_err().code, "RABBITMQ.ROUTING_KEY");
        let long = Message { destination: "a".repeat(256), ..message() };
        assert_eq!(routing(&[], "{destination}").unwrap().target(&long).unwrap_err().code, "RABBITMQ.ROUTING_KEY");
    }

    #[test]
    fn what_can_not_be_read_is_told_with_its_place() {
        for (rules, key, place) in [
            (vec![], "{nonsense}", "routing_key"),
            (vec![], "{key", "routing_key"),
            (vec![], "key}", "routing_key"),
            (vec![rule(r#"{"match":"a..b"}"#)], "", "rules[0].match"),
            (vec![rule(r#"{"match":"a"}"#), rule(r#"{"match":"**.b"}"#)], "", "rules[1].match"),
            (vec![rule(r#"{"match":"a","routing_key":"{x}"}"#)], "", "rules[0].routing_key"),
            (vec![rule(r#"{"match":"a","exchange":"a\nb"}"#)], "", "rules[0].exchange"),
        ] {
            assert_eq!(routing(&rules, key).unwrap_err().0, place);
        }
    }
}
