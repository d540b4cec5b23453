//! Annotations as members of the object around them: with `#[serde(flatten)]`, and as `value_type = BTreeMap<String, String>` for
//! the schema, which `waybill-server` completes by the table's names.

use std::collections::BTreeMap;

use serde::de::Deserialize;
use serde::ser::SerializeMap;
use serde::{Deserializer, Serialize, Serializer};
use waybill_core::annotation::Annotation;
use waybill_core::annotations::Annotations;

/// All annotations, each that is absent as null.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationsView(pub Annotations);

impl AnnotationsView {
    pub fn get(&self, annotation: Annotation) -> Option<&str> {
        self.0.get(annotation)
    }
}

impl Serialize for AnnotationsView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Annotation::COUNT))?;
        for annotation in Annotation::ALL {
            map.serialize_entry(annotation.name(), &self.get(annotation))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for AnnotationsView {
    /// Members that are none are somebody else's.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
        let text =
            |(name, value): (String, serde_json::Value)| Some((Annotation::named(&name)?, value.as_str()?.to_owned()));
        Ok(Self(members.into_iter().filter_map(text).collect()))
    }
}
