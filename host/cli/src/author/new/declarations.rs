//! A world of the contract as TypeScript declares it, so that an editor checks a plugin in JavaScript.
//!
//! What `jco guest-types` writes is for another engine: there 64-bit numbers are BigInts, with QuickJS they are plain numbers. This
//! follows the types as QuickJS has them: <https://github.com/andreiltd/componentize-qjs#wit-type-mappings>.

use std::collections::BTreeSet;

use wit_parser::{
    Docs, Function, FunctionKind, Handle, Interface, InterfaceId, Resolve, Type, TypeDef, TypeDefKind, TypeId,
    TypeOwner, WorldId, WorldItem,
};

/// What says where it comes from.
const HEAD: &str = "// The contract of this plugin's world, made of wit/. Editors and `npx tsc -p jsconfig.json` read it; nothing of it is in the component.\n";
/// What the contract has no use for.
const UNKNOWN: &str = "unknown";

/// A world's interfaces, each as the module that it is in JavaScript. What the plugin exports is an interface there, named as in WIT.
pub(super) fn of_world(contract: &Resolve, world: WorldId) -> Option<String> {
    let world = contract.worlds.get(world)?;
    let mut text = HEAD.to_owned();
    let mut seen = BTreeSet::new();
    for (items, exported) in [(&world.exports, true), (&world.imports, false)] {
        for item in items.values() {
            let WorldItem::Interface { id, .. } = item else { continue };
            let (name, interface) = (contract.id_of(*id)?, contract.interfaces.get(*id)?);
            if seen.insert(name.clone()) {
                let body = Module { contract, id: *id }.body(interface, exported);
                let docs = comment(&interface.docs, None, "");
                text.push_str(&format!("\n{docs}declare module \"{name}\" {{\n{body}}}\n"));
            }
        }
    }
    Some(text)
}

/// The module of one interface.
struct Module<'a> {
    contract: &'a Resolve,
    id: InterfaceId,
}

impl Module<'_> {
    fn body(&self, interface: &Interface, exported: bool) -> String {
        let mut text = String::new();
        for (name, id) in &interface.types {
            if let Some(definition) = self.contract.types.get(*id) {
                text.push_str(&comment(&definition.docs, None, "  "));
                text.push_str(&self.definition(&pascal(name), *id, definition, interface));
            }
        }
        let free: Vec<&Function> =
            interface.functions.values().filter(|function| resource(&function.kind).is_none()).collect();
        let (begin, indent) = if exported { ("", "    ") } else { ("export function ", "  ") };
        let functions: String = free.iter().map(|function| self.function(function, begin, indent)).collect();
        if exported {
            let name = pascal(interface.name.as_deref().unwrap_or_default());
            text.push_str(&format!(
                "  /** What the plugin exports as `{}`. */\n  export interface {name} {{\n{functions}  }}\n",
                lower_first(&name)
            ));
        } else {
            text.push_str(&functions);
        }
        text
    }

    fn definition(&self, name: &str, id: TypeId, definition: &TypeDef, interface: &Interface) -> String {
        let cases = |cases: Vec<(&Docs, String)>| {
            let lines = cases.iter().map(|(docs, case)| format!("{}    | {case}\n", comment(docs, None, "    ")));
            format!("  export type {name} =\n{}  ;\n", lines.collect::<String>())
        };
        match &definition.kind {
            TypeDefKind::Record(record) => {
                let fields = record.fields.iter().map(|field| {
                    let docs = comment(&field.docs, None, "    ");
                    let (mark, ty) = match self.optional(field.ty) {
                        Some(inner) => ("?", format!("{} | null", self.named(inner))),
                        None => ("", self.named(field.ty)),
                    };
                    format!("{docs}    {}{mark}: {ty};\n", camel(&field.name))
                });
                format!("  export interface {name} {{\n{}  }}\n", fields.collect::<String>())
            }
            TypeDefKind::Variant(variant) => cases(
                variant
                    .cases
                    .iter()
                    .map(|case| (&case.docs, format!("{{ tag: \"{}\"{} }}", case.name, self.value(case.ty))))
                    .collect(),
            ),
            TypeDefKind::Enum(of) => {
                cases(of.cases.iter().map(|case| (&case.docs, format!("\"{}\"", case.name))).collect())
            }
            TypeDefKind::Flags(flags) => {
                let fields = flags
                    .flags
                    .iter()
                    .map(|flag| format!("{}    {}?: boolean;\n", comment(&flag.docs, None, "    "), camel(&flag.name)));
                format!("  export interface {name} {{\n{}  }}\n", fields.collect::<String>())
            }
            TypeDefKind::Resource => {
                let own = interface.functions.values().filter(|function| resource(&function.kind) == Some(id));
                let methods: String = own.map(|function| self.function(function, "", "    ")).collect();
                format!(
                    "  export class {name} {{\n    private constructor();\n{methods}    [Symbol.dispose](): void;\n  }}\n"
                )
            }
            kind => format!("  export type {name} = {};\n", self.shape(kind)),
        }
    }

    fn function(&self, function: &Function, begin: &str, indent: &str) -> String {
        let (is_method, is_static) = match function.kind {
            FunctionKind::Method(_) | FunctionKind::AsyncMethod(_) => (true, false),
            FunctionKind::Static(_) | FunctionKind::AsyncStatic(_) => (false, true),
            _ => (false, false),
        };
        // The first one of a method is the thing itself.
        let params = function.params.iter().skip(usize::from(is_method));
        let params: Vec<String> =
            params.map(|param| format!("{}: {}", camel(&param.name), self.named(param.ty))).collect();
        let (answer, thrown) = self.answer(function.result);
        let answer = if function.kind.is_async() { format!("Promise<{answer}>") } else { answer };
        let thrown = thrown.map(|thrown| format!("@throws {{{thrown}}}"));
        let docs = comment(&function.docs, thrown.as_deref(), indent);
        let fixed = if is_static { "static " } else { "" };
        format!("{docs}{indent}{begin}{fixed}{}({}): {answer};\n", camel(function.item_name()), params.join(", "))
    }

    /// What a function returns and what it throws: of a result one is the one, the other the other.
    fn answer(&self, result: Option<Type>) -> (String, Option<String>) {
        let or_void = |ty: Option<Type>| ty.map_or_else(|| "void".to_owned(), |ty| self.named(ty));
        match result.and_then(|ty| self.unnamed(ty)) {
            Some(TypeDefKind::Result(result)) => (or_void(result.ok), result.err.map(|ty| self.named(ty))),
            _ => (or_void(result), None),
        }
    }

    /// A type by its name, or as it is made where it has none.
    fn named(&self, ty: Type) -> String {
        let id = match ty {
            Type::Id(id) => id,
            Type::Bool => return "boolean".to_owned(),
            Type::Char | Type::String => return "string".to_owned(),
            Type::ErrorContext => return UNKNOWN.to_owned(),
            _ => return "number".to_owned(),
        };
        let Some(definition) = self.contract.types.get(id) else { return UNKNOWN.to_owned() };
        match (&definition.name, definition.owner) {
            (Some(name), TypeOwner::Interface(home)) if home == self.id => pascal(name),
            (Some(name), TypeOwner::Interface(home)) => {
                let module = self.contract.id_of(home).unwrap_or_default();
                format!("import(\"{module}\").{}", pascal(name))
            }
            _ => self.shape(&definition.kind),
        }
    }

    fn shape(&self, kind: &TypeDefKind) -> String {
        match kind {
            TypeDefKind::List(Type::U8) => "Uint8Array".to_owned(),
            TypeDefKind::List(item) => format!("Array<{}>", self.named(*item)),
            TypeDefKind::Option(inner) => format!("{} | null | undefined", self.named(*inner)),
            TypeDefKind::Tuple(tuple) => {
                format!("[{}]", tuple.types.iter().map(|ty| self.named(*ty)).collect::<Vec<_>>().join(", "))
            }
            TypeDefKind::Result(result) => {
                format!("{{ tag: \"ok\"{} }} | {{ tag: \"err\"{} }}", self.value(result.ok), self.value(result.err))
            }
            TypeDefKind::Handle(Handle::Own(id) | Handle::Borrow(id)) => self.named(Type::Id(*id)),
            TypeDefKind::Type(behind) => self.named(*behind),
            _ => UNKNOWN.to_owned(),
        }
    }

    /// What a case brings along.
    fn value(&self, ty: Option<Type>) -> String {
        ty.map_or_else(|| "; val?: undefined".to_owned(), |ty| format!("; val: {}", self.named(ty)))
    }

    fn optional(&self, ty: Type) -> Option<Type> {
        match self.unnamed(ty)? {
            TypeDefKind::Option(inner) => Some(*inner),
            _ => None,
        }
    }

    /// How a type without a name is made.
    fn unnamed(&self, ty: Type) -> Option<&TypeDefKind> {
        let Type::Id(id) = ty else { return None };
        self.contract.types.get(id).filter(|definition| definition.name.is_none()).map(|definition| &definition.kind)
    }
}

/// The resource that a function belongs to.
fn resource(kind: &FunctionKind) -> Option<TypeId> {
    match kind {
        FunctionKind::Method(id)
        | FunctionKind::AsyncMethod(id)
        | FunctionKind::Static(id)
        | FunctionKind::AsyncStatic(id)
        | FunctionKind::Constructor(id) => Some(*id),
        FunctionKind::Freestanding | FunctionKind::AsyncFreestanding => None,
    }
}

/// What stands over a thing in WIT, as editors show it.
fn comment(docs: &Docs, more: Option<&str>, indent: &str) -> String {
    let lines = docs.contents.as_deref().unwrap_or_default().lines().chain(more);
    let lines: Vec<String> =
        lines.map(|line| line.trim().replace("*/", "*\\/")).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [] => String::new(),
        [line] => format!("{indent}/** {line} */\n"),
        lines => format!("{indent}/**\n{indent} * {}\n{indent} */\n", lines.join(&format!("\n{indent} * "))),
    }
}

/// `maybe-delivered` as `MaybeDelivered`.
fn pascal(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    name.split('-').map(word).collect()
}

/// `maybe-delivered` as `maybeDelivered`.
fn camel(name: &str) -> String {
    lower_first(&pascal(name))
}

fn lower_first(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_lowercase().to_string() + letters.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The declarations of a world that imports `services` and exports `api`, written like this.
    fn declared(services: &str, api: &str) -> String {
        let text = format!(
            "package a:b@0.1.0; interface kinds {{ type millis = u32; }} interface services {{ {services} }} \
             interface my-api {{ {api} }} world mine {{ import services; export my-api; }}"
        );
        let mut resolve = Resolve::default();
        let package = resolve.push_source("test.wit", &text).unwrap();
        let world = resolve.select_world(&[package], Some("mine")).unwrap();
        of_world(&resolve, world).unwrap()
    }

    #[test]
    fn what_is_imported_is_there_as_functions_and_classes() {
        let text = declared(
            "use kinds.{millis}; resource link { open: static func(to: string) -> result<link, string>; read: func(max: u32, wait: option<millis>) -> list<u8>; } \
             find: func(names: list<string>) -> list<result<u64, bool>>;",
            "close: func();",
        );
        for line in [
            "declare module \"a:b/services@0.1.0\" {\n",
            "  export type Millis = import(\"a:b/kinds@0.1.0\").Millis;\n",
            "  export class Link {\n    private constructor();\n    /** @throws {string} */\n    static open(to: string): Link;\n",
            "    read(max: number, wait: Millis | null | undefined): Uint8Array;\n",
            "  export function find(names: Array<string>): Array<{ tag: \"ok\"; val: number } | { tag: \"err\"; val: boolean }>;\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn what_is_exported_is_an_interface_that_the_plugin_keeps() {
        let text = declared(
            "",
            "/// How it ended.\n variant end { /// Well.\n done(tuple<string, u8>), not-yet } enum kind { one-way, other } \
             record item { /// Its name.\n the-name: string, note: option<string> } \
             /// Takes it.\n send-batch: async func(of: list<item>) -> result<end, kind>; steps: func() -> option<u32>;",
        );
        for line in [
            "  /** How it ended. */\n  export type End =\n    /** Well. */\n    | { tag: \"done\"; val: [string, number] }\n    | { tag: \"not-yet\"; val?: undefined }\n  ;\n",
            "  export type Kind =\n    | \"one-way\"\n    | \"other\"\n  ;\n",
            "  export interface Item {\n    /** Its name. */\n    theName: string;\n    note?: string | null;\n  }\n",
            "  export interface MyApi {\n    /**\n     * Takes it.\n     * @throws {Kind}\n     */\n    sendBatch(of: Array<Item>): Promise<End>;\n    steps(): number | null | undefined;\n  }\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
