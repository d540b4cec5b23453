//! What an act is done to, as the address of its plan says it.

use crate::acts::Act;
use crate::address;

/// A row that was picked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    pub tenant: String,
    pub id: String,
    /// Of a dead letter: what it is.
    pub kind: String,
}

impl Pick {
    /// As a member of an address: any text is an id.
    pub fn text(&self) -> String {
        let members = [("tenant", &*self.tenant), ("id", &*self.id), ("kind", &*self.kind)];
        let written = address::with("", &members);
        written.strip_prefix('?').unwrap_or_default().to_owned()
    }

    fn read(text: &str) -> Self {
        let mut pick = Self::default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*name {
                "tenant" => pick.tenant = value.into_owned(),
                "id" => pick.id = value.into_owned(),
                "kind" => pick.kind = value.into_owned(),
                _ => {}
            }
        }
        pick
    }
}

/// What `show` says of what is written on.
pub const FORM: &str = "form";

/// One by its id or its name, some that were picked, or all that a filter takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Empty = the caller's only one, else `default`.
    pub tenant: String,
    pub id: String,
    /// Of a dead letter: what it is.
    pub kind: String,
    /// Of a saga, the step that is meant.
    pub step: String,
    /// Of a relay, the stream that is meant; of a new event the one that its form begins with.
    pub stream: String,
    pub filter: String,
    /// Only what was there until then.
    pub before: String,
    /// Of what is written: the name under which the host keeps it while its plan is read.
    pub draft: String,
    /// `form` = what is kept is written on; empty = its plan.
    pub show: String,
    pub picks: Vec<Pick>,
}

impl Target {
    /// One of a tenant.
    pub fn one(tenant: &str, id: &str) -> Self {
        Self { tenant: tenant.to_owned(), id: id.to_owned(), ..Self::default() }
    }

    /// Nothing that is there yet, of a tenant.
    pub fn of(tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..Self::default() }
    }

    /// One by its name in the configuration.
    pub fn named(name: &str) -> Self {
        Self { id: name.to_owned(), ..Self::default() }
    }

    /// All that a filter takes; an empty one takes all.
    pub fn matching(tenant: &str, filter: &str) -> Self {
        let filter = if filter.trim().is_empty() { "id=*" } else { filter };
        Self { tenant: tenant.to_owned(), filter: filter.to_owned(), ..Self::default() }
    }

    /// It is a filter that says which.
    pub fn is_many(&self) -> bool {
        !self.filter.is_empty()
    }

    /// The same, where it is written anew.
    pub fn undrafted(&self) -> Self {
        Self { draft: String::new(), show: String::new(), ..self.clone() }
    }

    /// Where an act on it is planned.
    pub fn address(&self, act: Act) -> String {
        let picks: Vec<String> = self.picks.iter().map(Pick::text).collect();
        let mut members = vec![
            ("act", act.about().name),
            ("tenant", self.tenant.as_str()),
            ("id", self.id.as_str()),
            ("kind", self.kind.as_str()),
            ("step", self.step.as_str()),
            ("stream", self.stream.as_str()),
            ("filter", self.filter.as_str()),
            ("before", self.before.as_str()),
            ("draft", self.draft.as_str()),
            ("show", self.show.as_str()),
        ];
        members.extend(picks.iter().map(|pick| ("pick", pick.as_str())));
        address::with(address::PLAN, &members)
    }

    /// Reads the query of a plan's address.
    ///
    /// # Errors
    /// A sentence that says what can't be read.
    pub fn read(query: &str) -> Result<(Act, Self), String> {
        let (mut act, mut target) = (None, Self::default());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let slot = match &*name {
                "act" => {
                    let known = Act::named(&value).ok_or_else(|| format!("there is no act {value:?}"))?;
                    act = Some(known);
                    continue;
                }
                "pick" => {
                    target.picks.push(Pick::read(&value));
                    continue;
                }
                "tenant" => &mut target.tenant,
                "id" => &mut target.id,
                "kind" => &mut target.kind,
                "step" => &mut target.step,
                "stream" => &mut target.stream,
                "filter" => &mut target.filter,
                "before" => &mut target.before,
                "draft" => &mut target.draft,
                "show" => &mut target.show,
                _ => return Err(format!("the address of a plan has no {name:?}")),
            };
            *slot = value.into_owned();
        }
        let act = act.ok_or_else(|| "the address names no act".to_owned())?;
        Ok((act, target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_all_of_a_target_whatever_its_texts() {
        let pick = |id: &str| Pick { tenant: "a&b".into(), id: id.into(), kind: "message".into() };
        let targets = [
            Target::one("acme", "../a&b=\0"),
            Target::matching("acme", "error=\"a b\" age>1h"),
            Target { picks: vec![pick("x&y=1"), pick("%26")], ..Target::default() },
            Target { step: "charge".into(), stream: "task.node.7".into(), ..Target::one("acme", "order-1") },
            Target { draft: "01k&b".into(), show: FORM.into(), ..Target::of("acme") },
        ];
        for target in targets {
            let address = target.address(Act::DeadReplay);
            let query = address.split_once('?').unwrap().1;
            assert_eq!(Target::read(query), Ok((Act::DeadReplay, target)), "{address}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_meant_is_refused() {
        for query in ["", "act=explode", "act=dead-replay&colour=red", "id=1"] {
            assert!(Target::read(query).is_err(), "{query}");
        }
    }
}
