//! What the events and steps of one record have in common is written once, in tables at its beginning: plugins,
//! definitions, and JSON texts. An input lies both in a step and in the event that brought it; so it is stored once.

use std::borrow::Borrow;
use std::sync::Arc;

use minicbor::{Decode, Encode};
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef};
use waybill_core::saga::json::Json;

use crate::codec::CodecError;
use crate::codec::attempts::{WirePlugin, place_of};

#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
struct WireDefinition<'b> {
    #[b(0)]
    name: &'b str,
    #[n(1)]
    version: u32,
    #[b(2)]
    hash: &'b str,
}

/// The tables as they are written.
#[derive(Debug, Default, Encode, Decode)]
#[cbor(map)]
pub struct Tables<'b> {
    #[b(0)]
    plugins: Vec<WirePlugin<'b>>,
    #[b(1)]
    definitions: Vec<WireDefinition<'b>>,
    #[b(2)]
    json: Vec<&'b str>,
}

#[derive(Debug)]
pub struct Packing<'b> {
    tables: Tables<'b>,
    /// Equal JSON texts become one. Looking for them is worth it in a tree, not among the entries of a journal.
    join_json: bool,
}

impl<'b> Packing<'b> {
    pub fn new(join_json: bool) -> Self {
        Self { tables: Tables::default(), join_json }
    }

    /// The tables, when everything is packed.
    pub fn tables(&self) -> &Tables<'b> {
        &self.tables
    }

    pub fn plugin<P: Borrow<PluginIdentity>>(&mut self, plugin: Option<&'b P>) -> Option<u32> {
        plugin.map(|plugin| place_of(&mut self.tables.plugins, WirePlugin::of(plugin.borrow())))
    }

    pub fn definition(&mut self, of: &'b DefinitionRef) -> u32 {
        let definition = WireDefinition { name: &of.name, version: of.version, hash: &of.hash.0 };
        place_of(&mut self.tables.definitions, definition)
    }

    pub fn json(&mut self, json: &'b Json) -> u32 {
        if self.join_json {
            return place_of(&mut self.tables.json, json.as_str());
        }
        self.tables.json.push(json.as_str());
        u32::try_from(self.tables.json.len() - 1).unwrap_or(u32::MAX)
    }
}

/// The tables as they were read.
#[derive(Debug)]
pub struct Unpacking {
    plugins: Vec<Arc<PluginIdentity>>,
    definitions: Vec<DefinitionRef>,
    json: Vec<Json>,
}

fn missing() -> CodecError {
    CodecError::Damaged("it names a plugin, definition or JSON text that isn't in its tables".into())
}

impl Unpacking {
    pub fn of(tables: &Tables<'_>) -> Result<Self, CodecError> {
        let definition = |wire: &WireDefinition<'_>| DefinitionRef {
            name: Arc::from(wire.name),
            version: wire.version,
            hash: DefinitionHash(Arc::from(wire.hash)),
        };
        let json = |text: &&str| {
            Json::stored(text).map_err(|error| CodecError::Damaged(format!("a stored JSON text isn't valid: {error}")))
        };
        Ok(Self {
            plugins: tables.plugins.iter().map(|plugin| Arc::new(plugin.identity())).collect(),
            definitions: tables.definitions.iter().map(definition).collect(),
            json: tables.json.iter().map(json).collect::<Result<_, _>>()?,
        })
    }

    pub fn plugin(&self, at: u32) -> Result<Arc<PluginIdentity>, CodecError> {
        self.plugins.get(at as usize).cloned().ok_or_else(missing)
    }

    /// A plugin, if there is one.
    pub fn plugin_or_none(&self, at: Option<u32>) -> Result<Option<Arc<PluginIdentity>>, CodecError> {
        at.map(|at| self.plugin(at)).transpose()
    }

    pub fn definition(&self, at: u32) -> Result<DefinitionRef, CodecError> {
        self.definitions.get(at as usize).cloned().ok_or_else(missing)
    }

    /// The JSON text at this place; `Damaged` if the table is shorter.
    pub fn json(&self, at: u32) -> Result<Json, CodecError> {
        self.json.get(at as usize).cloned().ok_or_else(missing)
    }

    /// A JSON text, if there is one.
    pub fn json_or_none(&self, at: Option<u32>) -> Result<Option<Json>, CodecError> {
        at.map(|at| self.json(at)).transpose()
    }
}
