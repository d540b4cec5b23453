//! A component's types against the contract's: what each function takes and answers, by structure, as the host links them.

use std::collections::BTreeMap;

use wit_parser::{Function, Handle, Interface, Resolve, Type, TypeDefKind, WorldId, WorldItem};

/// What differs in the interfaces that a component shares with the contract, in words. Interfaces that are missing, or are of no
/// contract, were found by their names before.
pub(super) fn problems(found: &Resolve, world: WorldId, contract: &Resolve) -> Vec<String> {
    let own: BTreeMap<String, &Interface> =
        contract.interfaces.iter().filter_map(|(id, interface)| Some((path(contract, id)?, interface))).collect();
    let pair = Pair { found, contract };
    let mut problems = Vec::new();
    let Some(world) = found.worlds.get(world) else { return problems };
    for (items, exported) in [(&world.exports, true), (&world.imports, false)] {
        for item in items.values() {
            let WorldItem::Interface { id, .. } = item else { continue };
            let (Some(name), Some(interface)) = (path(found, *id), found.interfaces.get(*id)) else { continue };
            let Some(own) = own.get(&name) else { continue };
            let different = if exported { pair.exported(interface, own) } else { pair.imported(interface, own) };
            problems.extend(different.into_iter().map(|problem| format!("{name}: {problem}")));
        }
    }
    problems
}

/// An interface with its package, without version.
fn path(resolve: &Resolve, id: wit_parser::InterfaceId) -> Option<String> {
    let name = resolve.id_of(id)?;
    Some(name.split_once('@').map_or(name.as_str(), |(path, _)| path).to_owned())
}

/// A type as it is behind its names.
enum Shape<'a> {
    Plain(Type),
    Made {
        /// As WIT writes it, e.g. "record message".
        words: String,
        kind: &'a TypeDefKind,
    },
    /// Not in its own file.
    Unknown,
}

fn shape(resolve: &Resolve, ty: Type) -> Shape<'_> {
    let Type::Id(id) = ty else { return Shape::Plain(ty) };
    let Some(definition) = resolve.types.get(id) else { return Shape::Unknown };
    match &definition.kind {
        // Ends, because no type of WIT holds itself.
        TypeDefKind::Type(behind) => shape(resolve, *behind),
        kind => {
            let name = definition.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            Shape::Made { words: format!("{}{name}", kind.as_str()), kind }
        }
    }
}

impl Shape<'_> {
    fn words(&self) -> String {
        match self {
            Shape::Plain(ty) => format!("{ty:?}").to_lowercase(),
            Shape::Made { words, .. } => words.clone(),
            Shape::Unknown => "unknown".to_owned(),
        }
    }
}

/// Where types of a component and of the contract are looked up.
struct Pair<'a> {
    found: &'a Resolve,
    contract: &'a Resolve,
}

impl Pair<'_> {
    /// The host calls every function of the contract.
    fn exported(&self, found: &Interface, contract: &Interface) -> Vec<String> {
        let problem = |(name, own): (&String, &Function)| match found.functions.get(name) {
            None => Some(format!("it has no {name}")),
            Some(function) => self.function(function, own).map(|what| format!("{name}: {what}")),
        };
        contract.functions.iter().filter_map(problem).collect()
    }

    /// The host offers what the contract has.
    fn imported(&self, found: &Interface, contract: &Interface) -> Vec<String> {
        let problem = |(name, function): (&String, &Function)| match contract.functions.get(name) {
            None => Some(format!("it wants {name}, which isn't there")),
            Some(own) => self.function(function, own).map(|what| format!("{name}: {what}")),
        };
        found.functions.iter().filter_map(problem).collect()
    }

    fn function(&self, found: &Function, contract: &Function) -> Option<String> {
        if found.params.len() != contract.params.len() {
            return Some(format!("{} parameters instead of {}", found.params.len(), contract.params.len()));
        }
        let parameter = found.params.iter().zip(&contract.params).find_map(|(found, contract)| {
            self.types(found.ty, contract.ty).map(|what| format!("parameter {}: {what}", contract.name))
        });
        let result = || self.optional(found.result, contract.result).map(|what| format!("result: {what}"));
        parameter.or_else(result)
    }

    fn optional(&self, found: Option<Type>, contract: Option<Type>) -> Option<String> {
        match (found, contract) {
            (None, None) => None,
            (Some(found), Some(contract)) => self.types(found, contract),
            (Some(found), None) => Some(format!("{} instead of nothing", shape(self.found, found).words())),
            (None, Some(contract)) => Some(format!("nothing instead of {}", shape(self.contract, contract).words())),
        }
    }

    fn types(&self, found: Type, contract: Type) -> Option<String> {
        let (found, contract) = (shape(self.found, found), shape(self.contract, contract));
        let other = || Some(format!("{} instead of {}", found.words(), contract.words()));
        let (words, one, two) = match (&found, &contract) {
            (Shape::Plain(one), Shape::Plain(two)) if one == two => return None,
            (Shape::Made { kind: one, .. }, Shape::Made { words, kind: two }) => (words, *one, *two),
            _ => return other(),
        };
        match (one, two) {
            (TypeDefKind::Record(one), TypeDefKind::Record(two)) => self.members(
                words,
                one.fields.iter().map(|field| (field.name.as_str(), Some(field.ty))).collect(),
                two.fields.iter().map(|field| (field.name.as_str(), Some(field.ty))).collect(),
            ),
            (TypeDefKind::Variant(one), TypeDefKind::Variant(two)) => self.members(
                words,
                one.cases.iter().map(|case| (case.name.as_str(), case.ty)).collect(),
                two.cases.iter().map(|case| (case.name.as_str(), case.ty)).collect(),
            ),
            (TypeDefKind::Enum(one), TypeDefKind::Enum(two)) => self.members(
                words,
                one.cases.iter().map(|case| (case.name.as_str(), None)).collect(),
                two.cases.iter().map(|case| (case.name.as_str(), None)).collect(),
            ),
            (TypeDefKind::Flags(one), TypeDefKind::Flags(two)) => self.members(
                words,
                one.flags.iter().map(|flag| (flag.name.as_str(), None)).collect(),
                two.flags.iter().map(|flag| (flag.name.as_str(), None)).collect(),
            ),
            (TypeDefKind::Tuple(one), TypeDefKind::Tuple(two)) if one.types.len() == two.types.len() => {
                one.types.iter().zip(&two.types).find_map(|(one, two)| self.types(*one, *two))
            }
            (TypeDefKind::List(one), TypeDefKind::List(two)) => self.types(*one, *two),
            (TypeDefKind::Option(one), TypeDefKind::Option(two)) => self.types(*one, *two),
            (TypeDefKind::Result(one), TypeDefKind::Result(two)) => {
                self.optional(one.ok, two.ok).or_else(|| self.optional(one.err, two.err))
            }
            (TypeDefKind::Handle(Handle::Own(one)), TypeDefKind::Handle(Handle::Own(two)))
            | (TypeDefKind::Handle(Handle::Borrow(one)), TypeDefKind::Handle(Handle::Borrow(two))) => {
                self.types(Type::Id(*one), Type::Id(*two))
            }
            (TypeDefKind::Resource, TypeDefKind::Resource) if found.words() == *words => None,
            _ => other(),
        }
    }

    /// Named parts, whose order counts.
    fn members(
        &self,
        words: &str,
        found: Vec<(&str, Option<Type>)>,
        contract: Vec<(&str, Option<Type>)>,
    ) -> Option<String> {
        let lacks = |all: &[(&str, Option<Type>)], name: &str| all.iter().all(|(other, _)| *other != name);
        if let Some((name, _)) = contract.iter().find(|(name, _)| lacks(&found, name)) {
            return Some(format!("{words} lacks {name}"));
        }
        if let Some((name, _)) = found.iter().find(|(name, _)| lacks(&contract, name)) {
            return Some(format!("{words} has {name}, which isn't there in the contract"));
        }
        if !found.iter().map(|(name, _)| name).eq(contract.iter().map(|(name, _)| name)) {
            return Some(format!("{words} has its members in another order"));
        }
        found.iter().zip(&contract).find_map(|((name, found), (_, contract))| {
            self.optional(*found, *contract).map(|what| format!("{words}, {name}: {what}"))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use wit_component::DecodedWasm;

    use super::*;

    /// The differences of a world that exports an interface written like this, where the contract's is `CONTRACT`.
    fn differences(exported: &str, imported: &str) -> Vec<String> {
        const CONTRACT: (&str, &str) = (
            "record receipt { reference: option<string>, duplicate: bool } send: async func(batch: list<string>) -> result<receipt, u32>; close: async func();",
            "resource connection { read: func(max: u32) -> list<u8>; } enum level { low, high } log: func(level: level);",
        );
        let (found, world) = parsed(exported, imported, "0.1.7");
        let (contract, _) = parsed(CONTRACT.0, CONTRACT.1, "0.1.0");
        problems(&found, world, &contract)
    }

    fn parsed(exported: &str, imported: &str, version: &str) -> (Resolve, WorldId) {
        let text = format!(
            "package waybill:plugin@{version}; interface api {{ {exported} }} interface services {{ {imported} }} world mine {{ import services; export api; }}"
        );
        let mut resolve = Resolve::default();
        let package = resolve.push_source("test.wit", &text).unwrap();
        let world = resolve.select_world(&[package], Some("mine")).unwrap();
        (resolve, world)
    }

    const RECEIPT: &str = "record receipt { reference: option<string>, duplicate: bool }";
    const SEND: &str = "send: async func(batch: list<string>) -> result<receipt, u32>;";
    const CLOSE: &str = "close: async func();";
    const SERVICES: &str = "resource connection { read: func(max: u32) -> list<u8>; }";

    #[test]
    fn the_same_types_under_other_names_are_the_same() {
        let aliased = format!(
            "type batch = list<string>; {RECEIPT} send: async func(of: batch) -> result<receipt, u32>; {CLOSE}"
        );
        assert_eq!(differences(&aliased, SERVICES), Vec::<String>::new());
    }

    #[test]
    fn what_differs_is_named_with_its_place() {
        let with_receipt = |receipt: &str| differences(&format!("{receipt} {SEND} {CLOSE}"), SERVICES);
        let cases = [
            (
                with_receipt("record receipt { reference: option<string> }"),
                "waybill:plugin/api: send: result: record receipt lacks duplicate",
            ),
            (
                with_receipt("record receipt { reference: option<string>, duplicate: bool, cost: u32 }"),
                "waybill:plugin/api: send: result: record receipt has cost, which isn't there in the contract",
            ),
            (
                with_receipt("record receipt { duplicate: bool, reference: option<string> }"),
                "waybill:plugin/api: send: result: record receipt has its members in another order",
            ),
            (
                with_receipt("record receipt { reference: string, duplicate: bool }"),
                "waybill:plugin/api: send: result: record receipt, reference: string instead of option",
            ),
            (differences(&format!("{RECEIPT} {SEND}"), SERVICES), "waybill:plugin/api: it has no close"),
            (
                differences(&format!("{RECEIPT} {SEND} close: async func(now: bool);"), SERVICES),
                "waybill:plugin/api: close: 1 parameters instead of 0",
            ),
            (
                differences(&format!("{RECEIPT} {SEND} {CLOSE}"), "flush: func();"),
                "waybill:plugin/services: it wants flush, which isn't there",
            ),
            (
                differences(&format!("{RECEIPT} {SEND} {CLOSE}"), "enum level { low } log: func(level: level);"),
                "waybill:plugin/services: log: parameter level: enum level lacks high",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn every_bundled_plugin_has_the_types_of_the_contract() {
        let contract = crate::author::contract::resolved().unwrap();
        for bundled in waybill_bundled::all() {
            let DecodedWasm::Component(found, world) = wit_component::decode(bundled.component).unwrap() else {
                unreachable!("a bundled plugin is a component");
            };
            assert_eq!(problems(&found, world, &contract), Vec::<String>::new(), "{}", bundled.name);
        }
    }
}
